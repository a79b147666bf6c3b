//! What a program has not taken of the records that the client gave out, and which of those it took it is done with.

use super::record::{Part, Record};
use crate::client::{self, Slice};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// What was taken from the client.
#[derive(Default)]
pub(super) struct Taken {
    /// In order; only the first may have been given out in part.
    pub chunks: VecDeque<Chunk>,
    /// Of partitions that were paused since.
    paused: Vec<Chunk>,
    /// Given out up to this many of their records, and not finished with as far as we know: whole ones, and what was given
    /// out of those that were paused since.
    given: Vec<(Arc<Slice>, usize)>,
    /// Whether what was given out last is a record of an iteration.
    is_iterated: bool,
}

pub(super) struct Chunk {
    slice: Arc<Slice>,
    /// The first record not given out.
    next: usize,
    /// The first record not finished with.
    unfinished: usize,
}

/// What a program is done with.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Handled {
    /// Everything that was given out: it asks for more, or ended well.
    All,
    /// Everything but a record of an iteration that was left: nobody says how it ended, and a loop that polls is as a rule
    /// done with a batch when it ends, while one that iterates was left within.
    Polled,
    /// Nothing that was given out since it last asked for more: handling it failed.
    Before,
}

impl Chunk {
    pub fn new(slice: Slice) -> Self {
        Self { slice: Arc::new(slice), next: 0, unfinished: 0 }
    }

    fn is_of(&self, topic: &str, partition: i32) -> bool {
        self.slice.partition == partition && *self.slice.topic == *topic
    }

    /// The offset after the records before `index`.
    fn offset_after(&self, index: usize) -> Option<i64> {
        Some(self.slice.records.get(index.checked_sub(1)?)?.offset + 1)
    }

    fn position(&self) -> Option<i64> {
        self.slice.records.get(self.next).map(|r| r.offset)
    }
}

impl Taken {
    /// The next record; the ones before it are finished with.
    #[inline]
    pub fn next(&mut self, client: &client::Consumer) -> Option<Record> {
        if !self.given.is_empty() {
            self.finish(client, Handled::All);
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
            self.finish(client, Handled::All);
            self.chunks.pop_front();
        }
    }

    /// Some records, of whole slices as long as `bytes` last: what a poll took of the client is within its own.
    pub fn take(&mut self, most: usize, bytes: usize) -> Vec<Part> {
        let (mut left, mut bytes, mut parts) = (most, bytes as isize, Vec::new());
        self.is_iterated = false;
        while left > 0 && bytes > 0 {
            let Some(chunk) = self.chunks.front_mut() else { break };
            let range = chunk.next..chunk.slice.records.len().min(chunk.next.saturating_add(left));
            chunk.next = range.end;
            left -= range.len();
            let part = Part { slice: chunk.slice.clone(), range };
            bytes -= part.size() as isize;
            parts.push(part);
            if chunk.next == chunk.slice.records.len() {
                let given = (chunk.slice.clone(), chunk.next);
                self.chunks.pop_front();
                self.given.push(given);
            }
        }
        parts
    }

    /// Tells the client what the program is done with.
    pub fn finish(&mut self, client: &client::Consumer, handled: Handled) {
        let all = handled == Handled::All || (handled == Handled::Polled && !self.is_iterated);
        if all {
            for (slice, end) in self.given.drain(..) {
                if let Some(last) = slice.records.get(end.saturating_sub(1)) {
                    client.finished_with(&slice.topic, slice.partition, last.offset + 1);
                }
            }
        }
        if let Some(chunk) = self.chunks.front_mut() {
            if all {
                chunk.unfinished = chunk.next;
            }
            if let Some(offset) = chunk.offset_after(chunk.unfinished) {
                client.finished_with(&chunk.slice.topic, chunk.slice.partition, offset);
            }
        }
    }

    /// The offset of the next record the program will get, where it differs from the client's.
    pub fn position(&self, topic: &str, partition: i32) -> Option<i64> {
        self.chunks.iter().chain(&self.paused).filter(|c| c.is_of(topic, partition)).find_map(Chunk::position)
    }

    /// Records that the client has given out and the program has not taken, in offsets.
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
        self.given.retain(|(s, _)| !(s.partition == partition && *s.topic == *topic));
    }

    /// Sets records of a partition aside. Of the one that was given out in part, what was given out counts as before.
    pub fn pause(&mut self, client: &client::Consumer, topic: &str, partition: i32) {
        if let Some(chunk) = self.chunks.front().filter(|c| c.next > 0 && c.is_of(topic, partition)) {
            let given = (chunk.slice.clone(), chunk.next);
            self.finish(client, Handled::Before);
            self.given.push(given);
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
        // Behind the first, which may have been given out in part, and before whatever the client gives later.
        let first = usize::from(!self.chunks.is_empty());
        for (i, chunk) in resumed.into_iter().enumerate() {
            self.chunks.insert(first + i, chunk);
        }
    }

    /// Where the program is in partitions of which it has not taken all that the client gave out.
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
