//! The flight recorder: the last frames and events of a client, in a ring of bounded size.
//!
//! A frame is recorded without its content: its API, version, size, and a checksum of its beginning. So a dump has no
//! secrets and no records. A dump is JSON Lines: a line about the client, then a line for each entry.

#![allow(clippy::disallowed_methods, reason = "entries have the time, and callers and the I/O thread share the ring")]

use log::Level;
use std::collections::VecDeque;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// The number of bytes of a frame that its checksum covers. The checksum of whole frames would cost more than the ring.
const SUMMED: usize = 1024;

/// A request or a response.
#[derive(Clone, Debug)]
pub struct Frame {
    /// When it was sent or received, in microseconds since the client was created.
    pub at: u64,
    /// Whether it is a response.
    pub is_response: bool,
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
}

enum Entry {
    Frame(Frame),
    Event(u64, Level, &'static str, String),
}

impl Entry {
    fn size(&self) -> usize {
        size_of::<Self>()
            + match self {
                Self::Frame(_) => 0,
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
    /// Where to write the dump if the client stops because of an internal error.
    path: Option<PathBuf>,
    ring: Mutex<Ring>,
}

/// Returns the checksum of the beginning of a frame.
pub fn checksum(frame: &[u8]) -> u32 {
    crc32c::crc32c(frame.get(..SUMMED).unwrap_or(frame))
}

impl Flight {
    /// Creates a recorder that takes about `limit` bytes of memory.
    pub fn new(client_id: &str, limit: usize, path: Option<PathBuf>) -> Self {
        let started = (Instant::now(), SystemTime::now());
        Self { client_id: client_id.into(), limit, started, path, ring: Mutex::default() }
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
        let at = u64::try_from(self.started.0.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.add(Entry::Event(at, level, component, text));
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
                    let kind = if f.is_response { "response" } else { "request" };
                    let (at, api, version) = (f.at, f.api, f.version);
                    let _ = write!(out, "{{\"at_us\":{at},\"kind\":\"{kind}\",\"api\":\"{api}\",\"version\":{version}");
                    let (id, size, sum) = (f.correlation_id, f.size, f.checksum);
                    let _ =
                        write!(out, ",\"correlation_id\":{id},\"size\":{size},\"checksum\":\"{sum:08x}\",\"broker\":");
                    put_text(&mut out, &f.broker);
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

    /// Writes the dump to a file.
    pub fn dump_to(&self, path: &Path) -> std::io::Result<()> {
        std::fs::write(path, self.dump())
    }

    /// Writes the dump to the configured file, if there is one.
    pub fn dump_after_failure(&self) {
        if let Some(path) = &self.path {
            // The client already stops because of an error, which explains more than this one.
            let _ = self.dump_to(path);
        }
    }
}

/// Appends text as a string of JSON.
fn put_text(out: &mut String, text: &str) {
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
        Frame { at: 5, is_response: false, broker, api, version, correlation_id, size: 99, checksum: checksum(b"x") }
    }

    #[test]
    fn a_full_ring_drops_its_oldest_entries() {
        let flight = Flight::new("a \"b\"\n", 10 * size_of::<Entry>(), None);
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
