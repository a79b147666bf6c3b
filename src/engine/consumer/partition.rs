//! One assigned partition: where it stands, what is buffered, what may be given out.

use super::fetched::{Chunk, Contents};
use super::{Slice, fetched};
use crate::api::ErrorCode;
use crate::engine::ops::UNKNOWN_TOPIC_GRACE;
use crate::engine::{Error, Time, wait_after};
use crate::wire::Uuid;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// Where reading starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// The group's committed offset has to be asked for.
    Committed,
    /// The offset of a time has to be asked for: a timestamp, or -1 for the end and -2 for the start.
    At(i64),
    /// Being asked for.
    Asking,
    /// Known.
    Known,
    /// Nowhere, until somebody seeks: what was asked for is gone and `auto.offset.reset` is none.
    Lost,
}

/// What is made of batches that cannot be where they say: they are fetched again, and taken as they are if nothing changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doubt {
    /// Any is fetched again.
    Any,
    /// The one at this offset is being fetched again.
    At(i64),
    /// None is: this broker has such batches.
    Never,
}

/// The machine's part for one partition.
#[derive(Debug)]
pub struct Partition {
    pub topic: Arc<str>,
    pub partition: i32,
    pub state: Position,
    pub generation: u64,
    /// The id of the topic that was read of since reading started; zero before, and if the broker has none.
    pub topic_id: Uuid,
    /// The next offset to fetch.
    pub fetch_offset: i64,
    /// The leader epoch of the batch before it; -1 if that is not known.
    pub fetch_epoch: i32,
    /// The leader epoch that the position is good for, and whether a newer one is being asked about.
    pub checked_epoch: i32,
    pub checking: bool,
    /// The next offset to give out.
    pub position: i64,
    /// The leader epoch of the batch before it; -1 if that is not known.
    pub position_epoch: i32,
    /// The offset behind the last record given out.
    given: i64,
    /// Records before this offset are done with.
    pub finished: i64,
    /// The offset last committed.
    pub committed: i64,
    /// Reading ends here.
    pub end: Option<i64>,
    /// The offset after what may be read, as it was last heard; -1 if that is not known.
    pub readable: i64,
    pub paused: bool,
    pub fetching: bool,
    pub retry_at: Time,
    /// Since when brokers have answered with what may mean only that they do not know yet.
    pub unknown_since: Option<Time>,
    pub failures: u32,
    /// Whether it is asked by itself where reading starts, having had an error that was that of all asked with it.
    pub asked_alone: bool,
    /// Whether batches are doubted that cannot be where they say.
    pub doubt: Doubt,
    /// How many times the usual bytes to ask for: a message of more was cut off.
    pub growth: i32,
    pub buffered: usize,
    /// The follower to read from, and until when.
    pub replica: Option<(i32, Time)>,
    /// When it had records last.
    pub served: Time,
    queue: VecDeque<Chunk>,
    /// The leader epochs of what was given out and is not finished with, and the offsets where they begin.
    epochs: VecDeque<(i64, i32)>,
    error: Option<Error>,
}

impl Partition {
    pub fn new(topic: Arc<str>, partition: i32, end: Option<i64>) -> Self {
        Self {
            topic,
            partition,
            state: Position::Committed,
            generation: 0,
            topic_id: Uuid::ZERO,
            fetch_offset: 0,
            fetch_epoch: -1,
            checked_epoch: -1,
            checking: false,
            position: 0,
            position_epoch: -1,
            given: 0,
            finished: 0,
            committed: -1,
            end,
            readable: -1,
            paused: false,
            fetching: false,
            retry_at: Time(0),
            unknown_since: None,
            failures: 0,
            asked_alone: false,
            doubt: Doubt::Any,
            growth: 1,
            buffered: 0,
            replica: None,
            served: Time(0),
            queue: VecDeque::new(),
            epochs: VecDeque::new(),
            error: None,
        }
    }

    /// Starts over at a position; what was buffered or asked for before is thrown away.
    pub fn restart(&mut self, state: Position) {
        self.generation += 1;
        self.queue.clear();
        self.epochs.clear();
        self.topic_id = Uuid::ZERO;
        self.buffered = 0;
        self.error = None;
        self.state = state;
        self.fetch_epoch = -1;
        self.checked_epoch = -1;
        self.checking = false;
        self.growth = 1;
        self.retry_at = Time(0);
    }

    /// Starts at an offset.
    pub fn start_at(&mut self, offset: i64) {
        self.restart(Position::Known);
        self.asked_alone = false;
        self.fetch_offset = offset;
        self.position = offset;
        self.position_epoch = -1;
        self.given = offset;
        self.finished = offset;
        // A commit goes back with the position.
        self.committed = -1;
    }

    /// Takes in that the reader is done with the records before an offset; behind the last one nothing is left to be done with.
    pub fn finish(&mut self, next_offset: i64) {
        self.finished = if next_offset >= self.given { self.position } else { next_offset };
        self.forget_epochs();
    }

    /// The leader epoch of the record before an offset, if that was given out; -1 if it is not known.
    pub fn epoch_before(&self, offset: i64) -> i32 {
        self.epochs.iter().rev().find(|(first, _)| *first < offset).map_or(-1, |(_, epoch)| *epoch)
    }

    /// Forgets the epochs that nobody asks for: those before the one of the last record that is finished with.
    fn forget_epochs(&mut self) {
        while self.epochs.get(1).is_some_and(|(first, _)| *first < self.finished) {
            self.epochs.pop_front();
        }
    }

    /// Whether everything up to the end was given out.
    pub fn is_finished(&self) -> bool {
        self.state == Position::Known && self.end.is_some_and(|end| self.position >= end)
    }

    /// Whether there is something to give out: records or an error.
    pub fn is_ready(&self) -> bool {
        !self.paused && !self.is_finished() && (!self.queue.is_empty() || self.error.is_some())
    }

    /// Whether more may be fetched.
    pub fn wants_more(&self, now: Time, max_buffered: usize) -> bool {
        self.is_fetchable() && !self.fetching && self.retry_at <= now && self.buffered < max_buffered
    }

    /// Whether it has to be asked where reading starts.
    pub fn wants_position(&self) -> bool {
        matches!(self.state, Position::Committed | Position::At(_))
    }

    /// Whether fetching makes sense at all.
    pub fn is_fetchable(&self) -> bool {
        let before_end = self.end.is_none_or(|end| self.fetch_offset < end);
        self.state == Position::Known && !self.checking && !self.paused && self.error.is_none() && before_end
    }

    /// Whether nobody is asked for its records although somebody wants them, so that it may not be there; also while whoever
    /// polls has not taken the news of that.
    pub fn is_looked_for(&self) -> bool {
        self.state == Position::Known && !self.fetching && !self.paused && !self.is_finished()
    }

    /// Takes in what was fetched.
    pub fn buffer(&mut self, chunks: Vec<Chunk>, error: Option<Error>) {
        for chunk in chunks {
            if self.end.is_some_and(|end| self.fetch_offset >= end) {
                break;
            }
            self.fetch_offset = chunk.next_offset;
            self.fetch_epoch = chunk.leader_epoch;
            self.buffered += chunk.bytes;
            // Batches without records are passed over once nothing before them waits.
            if matches!(chunk.contents, Contents::Nothing) && self.queue.is_empty() {
                self.pass(chunk.next_offset);
                self.position_epoch = chunk.leader_epoch;
                self.buffered -= chunk.bytes;
            } else {
                self.queue.push_back(chunk);
            }
        }
        self.error = error;
    }

    /// Whether what is buffered may be thrown away to make room: nobody takes it before the partition is resumed, and then it
    /// is fetched anew. Not while a leader is asked about the last of it.
    pub fn is_droppable(&self) -> bool {
        self.paused && self.buffered > 0 && !self.checking
    }

    /// Throws away what is buffered, and what is being fetched, and will fetch it anew.
    pub fn drop_buffered(&mut self) {
        self.generation += 1;
        self.queue.clear();
        self.buffered = 0;
        self.error = None;
        self.checking = false;
        // What the leader was asked about the last of it holds for what is before.
        (self.fetch_offset, self.fetch_epoch) = (self.position, self.position_epoch);
        if self.doubt != Doubt::Never {
            self.doubt = Doubt::Any;
        }
    }

    /// Moves on behind a batch; never beyond the end, as the position is what a commit takes. A reader that is done with all
    /// records before has nothing more to be done with.
    fn pass(&mut self, next_offset: i64) {
        self.position = self.position.max(self.end.map_or(next_offset, |end| next_offset.min(end)));
        if self.finished >= self.given {
            self.finished = self.finished.max(self.position);
        }
    }

    /// Notes that a fetch failed and when it is tried again; says whether whoever polls need not know yet.
    pub fn fails(
        &mut self,
        now: Time,
        code: Option<ErrorCode>,
        is_retriable: bool,
        backoff: (Duration, Duration),
    ) -> bool {
        self.back_off(now, backoff);
        passes(&mut self.unknown_since, now, code, is_retriable)
    }

    /// Puts the next request off; `backoff` is the first and the longest wait.
    pub fn back_off(&mut self, now: Time, backoff: (Duration, Duration)) {
        self.failures = self.failures.saturating_add(1);
        self.retry_at = now + wait_after(self.failures, backoff, now.0);
    }

    /// The error that whoever polls next will get.
    pub fn error(&self) -> Option<&Error> {
        self.error.as_ref()
    }

    /// Has reading end somewhere else. What was fetched beyond the old end is gone.
    pub fn end_at(&mut self, end: Option<i64>) {
        if self.end != end {
            self.end = end;
            self.drop_buffered();
        }
    }

    /// Keeps an error for whoever polls next.
    pub fn set_error(&mut self, error: Error) {
        self.error = Some(error);
    }

    /// Gives the error out, once nothing before it waits.
    pub fn take_error(&mut self) -> Option<Error> {
        if self.queue.is_empty() && !self.paused { self.error.take() } else { None }
    }

    /// Gives out up to `max_records` records and about `max_bytes` of them, a slice for each batch.
    pub fn take(&mut self, max_records: usize, max_bytes: usize, out: &mut Vec<Slice>) -> (usize, usize) {
        let (mut count, mut bytes) = (0, 0);
        while count < max_records && bytes < max_bytes && !self.is_finished() {
            let Some(chunk) = self.queue.front_mut() else {
                break;
            };
            let mut records = Vec::new();
            let mut broken = None;
            let mut done = true;
            if let Contents::Packed(batch, checks) = &chunk.contents {
                match checks.records(batch) {
                    Ok(set) => chunk.contents = Contents::Records(set),
                    Err(e) => broken = Some(e),
                }
            }
            if let Contents::Records(set) = &mut chunk.contents {
                records.reserve(set.size_hint().1.unwrap_or(0).min(max_records - count));
                loop {
                    let before = set.walked();
                    if count == max_records || bytes >= max_bytes {
                        done = set.left() == 0;
                        break;
                    }
                    match set.next() {
                        None => break,
                        Some(Err(e)) => {
                            broken = Some(e);
                            break;
                        }
                        // Below the position: the start of a batch that was asked for in its middle.
                        Some(Ok(r)) if r.offset < self.position => {}
                        Some(Ok(r)) if self.end.is_some_and(|end| r.offset >= end) => break,
                        Some(Ok(r)) => {
                            self.position = r.offset + 1;
                            self.given = self.position;
                            count += 1;
                            bytes += set.walked() - before;
                            records.push(r);
                        }
                    }
                }
            }
            if let Some(first) = records.first()
                && let Contents::Records(set) = &chunk.contents
            {
                self.position_epoch = chunk.leader_epoch;
                if self.epochs.back().is_none_or(|(_, epoch)| *epoch != chunk.leader_epoch) {
                    self.epochs.push_back((first.offset, chunk.leader_epoch));
                }
                out.push(Slice {
                    topic: self.topic.clone(),
                    partition: self.partition,
                    timestamp_type: chunk.timestamp_type,
                    data: set.data().clone(),
                    records,
                    delivery_count: 0,
                });
            }
            if let Some(e) = broken {
                let asked = fetched::Asked {
                    slot: 0,
                    generation: self.generation,
                    offset: self.position,
                    topic: self.topic.clone(),
                    id: Uuid::ZERO,
                    partition: self.partition,
                    leader_epoch: -1,
                    max_bytes: 0,
                    doubts: false,
                };
                self.queue.clear();
                self.buffered = 0;
                self.fetch_offset = self.position;
                self.error = Some(fetched::damaged(&asked, &[], &e));
                break;
            }
            if done && let Some(chunk) = self.queue.pop_front() {
                self.buffered = self.buffered.saturating_sub(chunk.bytes);
                self.pass(chunk.next_offset);
                self.position_epoch = chunk.leader_epoch;
            }
        }
        if self.is_finished() {
            self.queue.clear();
            self.buffered = 0;
        }
        (count, bytes)
    }
}

/// Whether whoever polls need not know yet of a fetch that failed, of records or for a share group; `since` is when it failed
/// first with what may pass. A topic that is unknown may have been made just now, what a broker has no name for is as a rule gone
/// at the next try (Java's consumer never tells of it), and what one finds damaged another replica may have whole.
pub fn passes(since: &mut Option<Time>, now: Time, code: Option<ErrorCode>, is_retriable: bool) -> bool {
    match code {
        Some(
            ErrorCode::UNKNOWN_TOPIC_OR_PARTITION
            | ErrorCode::UNKNOWN_TOPIC_ID
            | ErrorCode::UNKNOWN_SERVER_ERROR
            | ErrorCode::CORRUPT_MESSAGE,
        ) => now.since(*since.get_or_insert(now)) < UNKNOWN_TOPIC_GRACE,
        _ => {
            *since = None;
            is_retriable
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_pass_is_told_when_it_has_lasted() {
        const BACKOFF: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(1));
        let mut p = Partition::new(Arc::from("t"), 0, None);
        let mut fails = |seconds, code: ErrorCode| {
            p.fails(Time(0) + Duration::from_secs(seconds), Some(code), code.is_retriable(), BACKOFF)
        };
        assert!(fails(1, ErrorCode::UNKNOWN_SERVER_ERROR));
        assert!(fails(5, ErrorCode::UNKNOWN_TOPIC_ID));
        assert!(!fails(6, ErrorCode::UNKNOWN_SERVER_ERROR));
        // A topic that elects leaders for long is there.
        assert!(fails(20, ErrorCode::NOT_LEADER_OR_FOLLOWER));
        assert!(fails(30, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION));
        assert!(!fails(30, ErrorCode::TOPIC_AUTHORIZATION_FAILED));
        assert!(p.retry_at >= Time(0) + Duration::from_millis(30_800) && p.failures == 6);
    }
}
