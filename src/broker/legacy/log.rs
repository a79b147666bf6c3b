//! A partition's log in Kafka 0.6 and 0.7: segments of bytes. Readers see only the part of the log that has been
//! flushed.
//!
//! ```text
//! start 0         1100        2200     end 3000, flushed 2800
//! |===============|===========|=====---|        a read ends at the end of its segment, or of its flushed part
//! ```
//!
//! A message set is always in one segment. All segments except the last are flushed, because the log flushes a segment
//! before it starts a new one.

use super::super::version::LegacyVersion;
use bytes::Bytes;

/// The settings that decide when segments roll, flush and expire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Size in bytes above which the log starts a new segment: `log.file.size`.
    pub segment_bytes: u64,
    /// Maximum payload: `max.message.size`. From 0.7.2 on, the broker silently drops larger payloads.
    pub max_message_bytes: usize,
    /// Messages per flush: `log.flush.interval`. Kafka's default is 500. The dev broker's default flushes each message
    /// immediately.
    pub flush_messages: u64,
    /// Maximum time before a flush, in milliseconds: `log.default.flush.interval.ms`.
    pub flush_ms: i64,
    /// Time after which the log deletes segments that are not written, in milliseconds: `log.retention.hours`.
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
    /// Sets a property of a broker's configuration file. The error is a message.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let number: u32 = value.parse().ok().filter(|n| *n > 0).ok_or_else(|| {
            format!("invalid value {value:?} for {name}: expected a whole number from 1 to {}", u32::MAX)
        })?;
        match name {
            "log.file.size" => self.segment_bytes = number.into(),
            "max.message.size" => self.max_message_bytes = usize::try_from(number).unwrap_or(usize::MAX),
            "log.flush.interval" => self.flush_messages = number.into(),
            "log.default.flush.interval.ms" => self.flush_ms = number.into(),
            "log.retention.hours" => self.retention_ms = i64::from(number) * HOUR_MS,
            _ => {
                return Err(format!(
                    "unknown property {name:?} of Kafka 0.7; the dev broker supports log.file.size, max.message.size, \
                     log.flush.interval, log.default.flush.interval.ms and log.retention.hours"
                ));
            }
        }
        Ok(())
    }
}

/// The offset is below the start of the log, or above the flushed end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OutOfRange;

/// The bytes of a read. If the requested size is negative, the size of the result is the same negative number, as in
/// real brokers.
#[derive(Debug, Default)]
pub(super) struct Slice {
    pub size: i64,
    pub parts: Vec<Bytes>,
}

#[derive(Debug)]
struct Segment {
    start: u64,
    /// The message sets, with their positions in the segment.
    sets: Vec<(u64, Bytes)>,
    size: u64,
    flushed: u64,
    modified_ms: i64,
}

/// The log of a partition.
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

    /// Appends an accepted message set.
    pub fn append(&mut self, release: LegacyVersion, settings: &Settings, now_ms: i64, set: Bytes, messages: u64) {
        // 0.7.2 rolls before it writes, earlier releases after it.
        if release >= LegacyVersion::V0_7_2 {
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
        if release < LegacyVersion::V0_7_2 {
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

    /// Flushes the log, so that readers see all messages.
    pub fn flush(&mut self, now_ms: i64) {
        self.unflushed = 0;
        self.flushed_ms = now_ms;
        if let Some(last) = self.segments.last_mut() {
            last.flushed = last.size;
        }
    }

    /// Flushes the log and deletes segments when this is due. Returns the number of deleted bytes.
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

    /// Returns when the caller must call [`Self::tick`] next, in milliseconds.
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

    /// Returns the bytes from `offset` on. The result may be empty.
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

    /// Returns the offset of the next message set. Messages that are not flushed count too.
    pub fn written(&self) -> u64 {
        self.segments.last().map_or(0, |last| last.start + last.size)
    }

    /// Returns the start offsets of segments that were last written before `time`, the newest first. The end of the log
    /// counts as written now.
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

/// The time value for the end of the log.
pub(super) const LATEST: i64 = -1;
/// The time value for the start of the log.
pub(super) const EARLIEST: i64 = -2;
const HOUR_MS: i64 = 3_600_000;
