//! The flight recorder: the last frames and events of a client, in a ring of bounded size.
//!
//! A dump contains the API, version and size of each frame, and a checksum of the frame's first bytes. If the engine
//! adds the bytes of a frame, it also adds a function that writes parts of the frame into the dump. The function for a
//! frame leaves out secrets, and writes keys and values of records only if the dump may contain them. The format of a
//! dump is JSON Lines: a line about the client, then a line for each entry.

#![allow(clippy::disallowed_methods, reason = "entries have the time, and callers and the I/O thread share the ring")]

use super::private_file;
use bytes::Bytes;
use log::Level;
use std::collections::VecDeque;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// The number of bytes of a frame that its checksum covers. The checksum of whole frames would cost more than the ring.
const SUMMED: usize = 1024;

/// The event of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameKind {
    /// A request was sent.
    Request,
    /// A response arrived.
    Response,
    /// The connection ended before the response arrived.
    Lost,
    /// The response did not arrive in time.
    TimedOut,
}

impl FrameKind {
    /// Returns the name in a dump.
    const fn name(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Response => "response",
            Self::Lost => "lost",
            Self::TimedOut => "timed_out",
        }
    }
}

/// Bytes of a frame, and the function that appends fields about these bytes to a dump. Each field begins with a comma.
#[derive(Clone, Debug)]
pub struct Content {
    /// The bytes.
    pub bytes: Bytes,
    /// The function's arguments are the frame, the bytes, whether the dump may contain keys and values of records, and
    /// the dump.
    pub describe: fn(&Frame, &Bytes, bool, &mut String),
}

/// A request or a response.
#[derive(Clone, Debug)]
pub struct Frame {
    /// When the client sent or received the frame, in microseconds since the client was created.
    pub at: u64,
    /// The event.
    pub kind: FrameKind,
    /// The address of the broker.
    pub broker: Arc<str>,
    /// The name of the API.
    pub api: &'static str,
    /// The version of the API.
    pub version: i16,
    /// The number that a response has in common with its request.
    pub correlation_id: i32,
    /// The size, in bytes.
    pub size: usize,
    /// The CRC-32C of the first bytes.
    pub checksum: u32,
    /// The bytes, if they are small enough and contain no secret.
    pub content: Option<Content>,
}

enum Entry {
    Frame(Frame),
    Event(u64, Level, &'static str, String),
}

impl Entry {
    fn size(&self) -> usize {
        size_of::<Self>()
            + match self {
                Self::Frame(frame) => frame.content.as_ref().map_or(0, |content| content.bytes.len()),
                Self::Event(.., text) => text.capacity(),
            }
    }
}

#[derive(Default)]
struct Ring {
    entries: VecDeque<Entry>,
    bytes: usize,
    dropped: u64,
}

/// The flight recorder of a client.
pub struct Flight {
    client_id: Arc<str>,
    limit: usize,
    started: (Instant, SystemTime),
    /// The file to which the client writes the dump after an error that ends the client's work.
    path: Option<PathBuf>,
    /// Whether the recorder stores keys and values of records.
    keeps_values: bool,
    /// Whether an error ended the client's work since the last dump.
    has_failed: AtomicBool,
    ring: Mutex<Ring>,
}

/// Returns the checksum of the beginning of a frame.
pub fn checksum(frame: &[u8]) -> u32 {
    crc32c::crc32c(frame.get(..SUMMED).unwrap_or(frame))
}

impl Flight {
    /// Creates a recorder that uses about `limit` bytes of memory.
    pub fn new(client_id: &str, limit: usize, path: Option<PathBuf>, keeps_values: bool) -> Self {
        let started = (Instant::now(), SystemTime::now());
        Self {
            client_id: client_id.into(),
            limit,
            started,
            path,
            keeps_values,
            has_failed: AtomicBool::new(false),
            ring: Mutex::default(),
        }
    }

    /// Returns whether the recorder stores keys and values of records.
    pub fn keeps_values(&self) -> bool {
        self.keeps_values
    }

    /// Returns the size of the largest frame whose bytes the recorder stores. A larger frame would replace most other
    /// entries.
    pub fn longest_content(&self) -> usize {
        self.limit / 4
    }

    /// Returns the time since the client was created, in microseconds.
    pub fn now(&self) -> u64 {
        u64::try_from(self.started.0.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a frame.
    pub fn frame(&self, frame: Frame) {
        self.add(Entry::Frame(frame));
    }

    /// Records an event.
    pub(super) fn event(&self, level: Level, component: &'static str, text: String) {
        self.add(Entry::Event(self.now(), level, component, text));
    }

    fn add(&self, entry: Entry) {
        let mut ring = self.ring();
        ring.bytes += entry.size();
        ring.entries.push_back(entry);
        while ring.bytes > self.limit {
            let Some(oldest) = ring.entries.pop_front() else { break };
            ring.bytes -= oldest.size();
            ring.dropped += 1;
        }
    }

    /// Returns the dump.
    pub fn dump(&self) -> String {
        let ring = self.ring();
        let started = self.started.1.duration_since(UNIX_EPOCH).map_or(0, |time| time.as_micros());
        let mut out = format!("{{\"flight\":1,\"klamm\":{:?},\"client_id\":", env!("CARGO_PKG_VERSION"));
        put_text(&mut out, &self.client_id);
        // Writing to a string cannot fail.
        let _ = writeln!(out, ",\"started_us\":{started},\"dropped\":{}}}", ring.dropped);
        for entry in &ring.entries {
            match entry {
                Entry::Frame(f) => {
                    let kind = f.kind.name();
                    let (at, api, version) = (f.at, f.api, f.version);
                    let _ = write!(out, "{{\"at_us\":{at},\"kind\":\"{kind}\",\"api\":\"{api}\",\"version\":{version}");
                    let (id, size, sum) = (f.correlation_id, f.size, f.checksum);
                    let _ =
                        write!(out, ",\"correlation_id\":{id},\"size\":{size},\"checksum\":\"{sum:08x}\",\"broker\":");
                    put_text(&mut out, &f.broker);
                    if let Some(content) = &f.content {
                        (content.describe)(f, &content.bytes, self.keeps_values, &mut out);
                    }
                }
                Entry::Event(at, level, component, text) => {
                    let _ = write!(out, "{{\"at_us\":{at},\"kind\":\"event\",\"level\":\"{level}\"");
                    let _ = write!(out, ",\"component\":\"{component}\",\"text\":");
                    put_text(&mut out, text);
                }
            }
            out.push_str("}\n");
        }
        out
    }

    /// Writes the dump to a file that only the user can read.
    pub fn dump_to(&self, path: &Path) -> std::io::Result<()> {
        private_file::write(path, self.dump().as_bytes())
    }

    /// Records that an error has ended the client's work.
    pub(super) fn note_failure(&self) {
        self.has_failed.store(true, Relaxed);
    }

    /// Writes the dump to the configured file, if an error has ended the client's work since the last call.
    pub fn dump_if_failed(&self) {
        if self.has_failed.load(Relaxed) && self.has_failed.swap(false, Relaxed) {
            self.dump_after_failure();
        }
    }

    /// Writes the dump to the configured file, if any.
    pub fn dump_after_failure(&self) {
        if let Some(path) = &self.path {
            // The client already has an error, which explains more than this one.
            let _ = self.dump_to(path);
        }
    }
}

/// Appends text as a JSON string.
pub fn put_text(out: &mut String, text: &str) {
    out.push('"');
    for letter in text.chars() {
        match letter {
            '"' | '\\' => out.extend(['\\', letter]),
            letter if letter.is_control() => {
                let _ = write!(out, "\\u{:04x}", u32::from(letter));
            }
            letter => out.push(letter),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(number: i32) -> Frame {
        let broker = Arc::from("h:1");
        let (api, version, correlation_id) = ("Fetch", 12, number);
        let (kind, checksum) = (FrameKind::Request, checksum(b"x"));
        Frame { at: 5, kind, broker, api, version, correlation_id, size: 99, checksum, content: None }
    }

    #[test]
    fn a_full_ring_drops_its_oldest_entries() {
        let flight = Flight::new("a \"b\"\n", 10 * size_of::<Entry>(), None, false);
        for number in 0..25 {
            flight.frame(frame(number));
        }
        flight.event(Level::Info, "group", "joined".to_owned());
        let dump = flight.dump();
        let lines: Vec<serde_json::Value> = dump.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!((lines[0]["client_id"].as_str(), lines[0]["dropped"].as_u64()), (Some("a \"b\"\n"), Some(17)));
        assert_eq!(lines.len(), 10);
        assert_eq!(lines[1]["correlation_id"], 17);
        assert_eq!((&lines[1]["size"], &lines[1]["broker"]), (&99.into(), &"h:1".into()));
        assert_eq!((&lines[9]["kind"], &lines[9]["text"]), (&"event".into(), &"joined".into()));
    }
}
