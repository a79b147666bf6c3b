//! A partition's log as Kafka 0.6 and 0.7 have it: segments of bytes, of which those that are flushed exist for readers.
//!
//! ```text
//! start 0         1100        2200     end 3000, flushed 2800
//! |===============|===========|=====---|        a read ends where its segment ends, or with what is flushed of it
//! ```
//!
//! A message set is never split over segments. Whatever is behind an older segment is flushed: rolling does that.

use super::super::version::Old;
use bytes::Bytes;

/// What decides when segments end and bytes show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// A segment larger than this is the last of its size: `log.file.size`.
    pub segment_bytes: u64,
    /// Payloads larger than this are dropped without a word, from 0.7.2 on: `max.message.size`.
    pub max_message_bytes: usize,
    /// So many messages are flushed at once: `log.flush.interval`. Kafka's default is 500; here all show at once.
    pub flush_messages: u64,
    /// What was not flushed after so long is, milliseconds: `log.default.flush.interval.ms`.
    pub flush_ms: i64,
    /// Segments that nobody wrote to for so long are deleted, milliseconds: `log.retention.hours`.
    pub retention_ms: i64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            segment_bytes: 1 << 29,
            max_message_bytes: 1_000_000,
            flush_messages: 1,
            flush_ms: 3000,
            retention_ms: 168 * HOUR_MS,
        }
    }
}

impl Settings {
    /// Sets a property of a broker's configuration file; the error is a sentence.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let number: u32 = value
            .parse()
            .ok()
            .filter(|n| *n > 0)
            .ok_or_else(|| format!("{name} cannot be {value:?}, only a whole number from 1 to {}", u32::MAX))?;
        match name {
            "log.file.size" => self.segment_bytes = number.into(),
            "max.message.size" => self.max_message_bytes = usize::try_from(number).unwrap_or(usize::MAX),
            "log.flush.interval" => self.flush_messages = number.into(),
            "log.default.flush.interval.ms" => self.flush_ms = number.into(),
            "log.retention.hours" => self.retention_ms = i64::from(number) * HOUR_MS,
            _ => {
                return Err(format!(
                    "a dev broker of 0.7 has no property {name:?}, only log.file.size, max.message.size, \
                     log.flush.interval, log.default.flush.interval.ms and log.retention.hours"
                ));
            }
        }
        Ok(())
    }
}

/// An offset that is before the first byte, or behind the last one that is flushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OutOfRange;

/// Bytes that were read. A negative size asked for comes back, as brokers do it.
#[derive(Debug, Default)]
pub(super) struct Slice {
    pub size: i64,
    pub parts: Vec<Bytes>,
}

#[derive(Debug)]
struct Segment {
    start: u64,
    /// What was appended at once, by where it begins in the segment.
    sets: Vec<(u64, Bytes)>,
    size: u64,
    flushed: u64,
    modified_ms: i64,
}

/// See the top of this file.
#[derive(Debug)]
pub(super) struct Log {
    /// Never empty.
    segments: Vec<Segment>,
    /// Messages that are not flushed.
    unflushed: u64,
    flushed_ms: i64,
}

impl Segment {
    fn new(start: u64, now_ms: i64) -> Self {
        Self { start, sets: Vec::new(), size: 0, flushed: 0, modified_ms: now_ms }
    }

    fn end(&self) -> u64 {
        self.start + self.flushed
    }
}

impl Log {
    pub fn new(now_ms: i64) -> Self {
        Self { segments: vec![Segment::new(0, now_ms)], unflushed: 0, flushed_ms: now_ms }
    }

    /// Appends what was accepted of a message set.
    pub fn append(&mut self, release: Old, settings: &Settings, now_ms: i64, set: Bytes, messages: u64) {
        // 0.7.2 makes room before it writes, the others after.
        if release >= Old::V0_7_2 {
            self.roll_if_full(settings, now_ms);
        }
        if let Some(last) = self.segments.last_mut() {
            let size = set.len() as u64;
            if size > 0 {
                last.sets.push((last.size, set));
            }
            last.size += size;
            last.modified_ms = now_ms;
        }
        self.unflushed += messages;
        if self.unflushed >= settings.flush_messages {
            self.flush(now_ms);
        }
        if release < Old::V0_7_2 {
            self.roll_if_full(settings, now_ms);
        }
    }

    fn roll_if_full(&mut self, settings: &Settings, now_ms: i64) {
        if self.segments.last().is_some_and(|last| last.size > settings.segment_bytes) {
            self.roll(now_ms);
        }
    }

    fn roll(&mut self, now_ms: i64) {
        self.flush(now_ms);
        let end = self.segments.last().map_or(0, Segment::end);
        self.segments.push(Segment::new(end, now_ms));
    }

    /// Shows readers all that was written.
    pub fn flush(&mut self, now_ms: i64) {
        self.unflushed = 0;
        self.flushed_ms = now_ms;
        if let Some(last) = self.segments.last_mut() {
            last.flushed = last.size;
        }
    }

    /// Flushes and deletes what is due. Gives back how many bytes are gone.
    pub fn tick(&mut self, settings: &Settings, now_ms: i64) -> usize {
        if self.has_hidden() && now_ms - self.flushed_ms >= settings.flush_ms {
            self.flush(now_ms);
        }
        let old = |segment: &Segment| now_ms - segment.modified_ms >= settings.retention_ms;
        let gone = self.segments.iter().take_while(|segment| old(segment)).count();
        if gone == 0 {
            return 0;
        }
        if gone == self.segments.len() {
            if self.segments.last().is_some_and(|last| last.size == 0) {
                return self.delete(gone - 1);
            }
            self.roll(now_ms);
        }
        self.delete(gone)
    }

    fn delete(&mut self, count: usize) -> usize {
        self.segments.drain(..count).map(|segment| usize::try_from(segment.size).unwrap_or(usize::MAX)).sum()
    }

    /// When [`Self::tick`] has something to do, milliseconds.
    pub fn next_tick_ms(&self, settings: &Settings) -> Option<i64> {
        let flush = self.has_hidden().then(|| self.flushed_ms.saturating_add(settings.flush_ms));
        let holds = self.segments.len() > 1 || self.segments.first().is_some_and(|first| first.size > 0);
        let first = self.segments.first().filter(|_| holds);
        let retention = first.map(|first| first.modified_ms.saturating_add(settings.retention_ms));
        flush.into_iter().chain(retention).min()
    }

    fn has_hidden(&self) -> bool {
        self.segments.last().is_some_and(|last| last.flushed < last.size)
    }

    /// The bytes from `offset` on, which may be none.
    pub fn read(&self, offset: i64, max_size: i64) -> Result<Slice, OutOfRange> {
        let offset = u64::try_from(offset).map_err(|_| OutOfRange)?;
        let (Some(first), Some(last)) = (self.segments.first(), self.segments.last()) else { return Err(OutOfRange) };
        if offset < first.start || offset > last.end() {
            return Err(OutOfRange);
        }
        if offset == last.end() {
            return Ok(Slice::default());
        }
        let after = self.segments.partition_point(|segment| segment.start <= offset);
        let Some(segment) = self.segments.get(after.saturating_sub(1)) else { return Err(OutOfRange) };
        let from = offset - segment.start;
        let available = i64::try_from(segment.flushed.saturating_sub(from)).unwrap_or(i64::MAX);
        let size = available.min(max_size);
        let to = from.saturating_add_signed(size.max(0));
        let mut parts = Vec::new();
        let begin = segment.sets.partition_point(|(at, set)| at + set.len() as u64 <= from);
        for (at, set) in segment.sets.get(begin..).unwrap_or_default() {
            if *at >= to {
                break;
            }
            let within =
                |position: u64| usize::try_from(position.saturating_sub(*at)).map_or(set.len(), |n| n.min(set.len()));
            parts.push(set.slice(within(from)..within(to)));
        }
        Ok(Slice { size, parts })
    }

    /// Where the next set will begin, flushed or not.
    pub fn written(&self) -> u64 {
        self.segments.last().map_or(0, |last| last.start + last.size)
    }

    /// Where segments begin that were written to until `time`, and the end, which is always written to now: newest first.
    pub fn offsets_before(&self, time: i64, now_ms: i64, max_number: usize) -> Vec<i64> {
        let mut candidates: Vec<_> = self.segments.iter().map(|segment| (segment.start, segment.modified_ms)).collect();
        let last = self.segments.last().filter(|last| last.flushed > 0);
        candidates.extend(last.map(|last| (last.end(), now_ms)));
        let count = match time {
            LATEST => candidates.len(),
            EARLIEST => 1,
            _ => candidates.iter().rposition(|(_, modified)| *modified <= time).map_or(0, |found| found + 1),
        };
        candidates.truncate(count);
        candidates
            .into_iter()
            .rev()
            .take(max_number)
            .map(|(offset, _)| i64::try_from(offset).unwrap_or(i64::MAX))
            .collect()
    }
}

/// The time that means the end of the log.
pub(super) const LATEST: i64 = -1;
/// The time that means its start.
pub(super) const EARLIEST: i64 = -2;
const HOUR_MS: i64 = 3_600_000;
