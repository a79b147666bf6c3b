//! [`DeliveryBuffer`]: fetched records that the program has not consumed yet, and the consumed records that count as
//! processed.
//!
//! The Rust client already buffers prefetched records. The delivery buffer exists because a program consumes record by
//! record. If the program took each record from the client, it would contend with the I/O thread for the client's lock.
//! The lock of this buffer has almost no contention. The client counts the records in the delivery buffer as delivered.
//! The delivery buffer therefore corrects the client's positions and lag, and holds back the records of paused
//! partitions. The client still fetches records and commits offsets.

use super::record::{Record, RecordRange};
use crate::client::{self, Slice};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// The records that the consumer has taken from the client.
#[derive(Default)]
pub(super) struct DeliveryBuffer {
    /// The chunks in the order of delivery. Only the first chunk may be partly consumed.
    pub chunks: VecDeque<Chunk>,
    /// Chunks of partitions that were paused later.
    paused: Vec<Chunk>,
    /// Slices with consumed records that the program may still be processing. The number is the number of consumed
    /// records at the start of the slice. A slice of a paused partition may be partly consumed.
    consumed: Vec<(Arc<Slice>, usize)>,
    /// Whether an iteration, and not a poll, delivered the last record.
    is_iterated: bool,
}

pub(super) struct Chunk {
    slice: Arc<Slice>,
    /// Index of the first record that is not consumed.
    next: usize,
    /// Index of the first record that is not processed.
    unfinished: usize,
}

/// The records that count as processed, so that their offsets may be committed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Processed {
    /// All consumed records, because the program asks for more, or because its `with` block ended without an exception.
    All,
    /// Polled batches, but not the last record of an iteration. A program that polls batches has usually processed the
    /// last batch when it closes the consumer. A program that iterates over records has usually left the loop while it
    /// processed a record.
    Batches,
    /// Only the records before the last request for records, because processing of the later records failed.
    Earlier,
}

impl From<Option<bool>> for Processed {
    /// Converts Python's flag for the last record: whether the program has processed it, or None if this is unknown.
    fn from(handled: Option<bool>) -> Self {
        match handled {
            Some(true) => Self::All,
            Some(false) => Self::Earlier,
            None => Self::Batches,
        }
    }
}

impl Chunk {
    pub fn new(slice: Slice) -> Self {
        Self { slice: Arc::new(slice), next: 0, unfinished: 0 }
    }

    fn is_of(&self, topic: &str, partition: i32) -> bool {
        self.slice.partition == partition && *self.slice.topic == *topic
    }

    /// Returns the offset after the records below `index`.
    fn offset_after(&self, index: usize) -> Option<i64> {
        Some(self.slice.records.get(index.checked_sub(1)?)?.offset + 1)
    }

    fn position(&self) -> Option<i64> {
        self.slice.records.get(self.next).map(|r| r.offset)
    }
}

impl DeliveryBuffer {
    /// Returns the next record. The records before it count as processed.
    #[inline]
    pub fn next(&mut self, client: &client::Consumer) -> Option<Record> {
        if !self.consumed.is_empty() {
            self.finish(client, Processed::All);
        }
        self.is_iterated = true;
        loop {
            let chunk = self.chunks.front_mut()?;
            let index = chunk.next;
            if index < chunk.slice.records.len() {
                chunk.unfinished = index;
                chunk.next += 1;
                return Some(Record::new(chunk.slice.clone(), index));
            }
            self.finish(client, Processed::All);
            self.chunks.pop_front();
        }
    }

    /// Returns up to `max_records` records. Adds whole slices until the result has `bytes` bytes.
    pub fn take(&mut self, max_records: usize, bytes: usize) -> Vec<RecordRange> {
        let (mut remaining, mut bytes, mut parts) = (max_records, bytes as isize, Vec::new());
        self.is_iterated = false;
        while remaining > 0 && bytes > 0 {
            let Some(chunk) = self.chunks.front_mut() else { break };
            let range = chunk.next..chunk.slice.records.len().min(chunk.next.saturating_add(remaining));
            chunk.next = range.end;
            remaining -= range.len();
            let part = RecordRange { slice: chunk.slice.clone(), range };
            bytes -= part.size() as isize;
            parts.push(part);
            if chunk.next == chunk.slice.records.len() {
                let consumed = (chunk.slice.clone(), chunk.next);
                self.chunks.pop_front();
                self.consumed.push(consumed);
            }
        }
        parts
    }

    /// Takes back records that the program did not get, for example because a lookup of their schemas comes first.
    ///
    /// The next call returns these records again. Records that the program has dropped since, for example with a seek,
    /// stay dropped.
    pub fn put_back(&mut self, parts: &[RecordRange], is_paused: impl Fn(&str, i32) -> bool) {
        for part in parts.iter().rev().filter(|part| !part.range.is_empty()) {
            let next = part.range.start;
            let is_same = |c: &&mut Chunk| Arc::ptr_eq(&c.slice, &part.slice);
            if let Some(chunk) = self.chunks.iter_mut().chain(&mut self.paused).find(is_same) {
                chunk.next = chunk.next.min(next);
                chunk.unfinished = chunk.unfinished.min(next);
            } else if let Some(index) = self.consumed.iter().position(|(slice, _)| Arc::ptr_eq(slice, &part.slice)) {
                let (slice, _) = self.consumed.remove(index);
                let is_paused = is_paused(&slice.topic, slice.partition);
                let chunk = Chunk { slice, next, unfinished: 0 };
                if is_paused {
                    self.paused.insert(0, chunk);
                } else {
                    self.chunks.push_front(chunk);
                }
            }
        }
    }

    /// Takes records again that were put back. Returns false if they are no longer the next records, for example after a
    /// seek.
    pub fn take_again(&mut self, parts: &[RecordRange]) -> bool {
        let is_next = |(chunk, part): (&Chunk, &RecordRange)| {
            Arc::ptr_eq(&chunk.slice, &part.slice) && chunk.next == part.range.start
        };
        if self.chunks.len() < parts.len() || !self.chunks.iter().zip(parts).all(is_next) {
            return false;
        }
        self.take(parts.iter().map(|part| part.range.len()).sum(), isize::MAX as usize);
        true
    }

    /// Reports the processed offsets to the client.
    pub fn finish(&mut self, client: &client::Consumer, handled: Processed) {
        let all = handled == Processed::All || (handled == Processed::Batches && !self.is_iterated);
        if all {
            for (slice, end) in self.consumed.drain(..) {
                if let Some(last) = slice.records.get(end.saturating_sub(1)) {
                    client.note_handled(&slice.topic, slice.partition, last.offset + 1);
                }
            }
        }
        if let Some(chunk) = self.chunks.front_mut() {
            if all {
                chunk.unfinished = chunk.next;
            }
            if let Some(offset) = chunk.offset_after(chunk.unfinished) {
                client.note_handled(&chunk.slice.topic, chunk.slice.partition, offset);
            }
        }
    }

    /// Returns the offset of the next record for the program, or None if the client's position applies.
    pub fn position(&self, topic: &str, partition: i32) -> Option<i64> {
        self.chunks.iter().chain(&self.paused).filter(|c| c.is_of(topic, partition)).find_map(Chunk::position)
    }

    /// Returns the number of offsets from the first record in the buffer to the end of the last record.
    pub fn backlog(&self, topic: &str, partition: i32) -> i64 {
        let chunks = self.chunks.iter().chain(&self.paused).filter(|c| c.is_of(topic, partition));
        let (mut first, mut end) = (None, None);
        for chunk in chunks {
            first = first.or(chunk.position());
            end = chunk.offset_after(chunk.slice.records.len()).or(end);
        }
        first.zip(end).map_or(0, |(first, end)| end - first)
    }

    pub fn forget(&mut self, topic: &str, partition: i32) {
        self.chunks.retain(|c| !c.is_of(topic, partition));
        self.paused.retain(|c| !c.is_of(topic, partition));
        self.consumed.retain(|(s, _)| !(s.partition == partition && *s.topic == *topic));
    }

    /// Sets the records of a partition aside. Consumed records of the partition's first chunk stay consumed.
    pub fn pause(&mut self, client: &client::Consumer, topic: &str, partition: i32) {
        if let Some(chunk) = self.chunks.front().filter(|c| c.next > 0 && c.is_of(topic, partition)) {
            let consumed = (chunk.slice.clone(), chunk.next);
            self.finish(client, Processed::Earlier);
            self.consumed.push(consumed);
        }
        let (paused, chunks): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.chunks).into_iter().partition(|c| c.is_of(topic, partition));
        self.chunks = chunks.into();
        self.paused.extend(paused);
    }

    pub fn resume(&mut self, topic: &str, partition: i32) {
        let (resumed, paused): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.paused).into_iter().partition(|c| c.is_of(topic, partition));
        self.paused = paused;
        // After the first chunk, which may be partly consumed, and before chunks that come later.
        let first = usize::from(!self.chunks.is_empty());
        for (i, chunk) in resumed.into_iter().enumerate() {
            self.chunks.insert(first + i, chunk);
        }
    }

    /// Returns the next offset for the program in each partition that has records in the buffer.
    pub fn positions(&self) -> HashMap<(&str, i32), i64> {
        let mut positions = HashMap::new();
        for chunk in self.chunks.iter().chain(&self.paused) {
            if let Some(offset) = chunk.position() {
                positions.entry((&*chunk.slice.topic, chunk.slice.partition)).or_insert(offset);
            }
        }
        positions
    }
}
