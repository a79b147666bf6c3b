//! State of one assigned partition: its position, its buffer of fetched batches, and the delivery of records.
//!
//! ```text
//! Committed ────OffsetFetch──► Requesting ──committed offset──► Known ──out of range, truncated──► ByTimestamp or Lost
//! ByTimestamp ──ListOffsets──► Requesting ──offset────────────► Known
//!                              Requesting ──nothing committed─► ByTimestamp or Lost
//!                              Requesting ──error─────────────► Committed or ByTimestamp, after a backoff
//! any state ────seek─────────► Known
//! ```
//!
//! `fetch.rs` requests the batches, and `fetch_response.rs` reads the responses. `positions.rs` finds the first
//! position, and `commit.rs` commits offsets.

use super::fetch_response;
use super::fetch_response::{Chunk, Contents};
use crate::api::ErrorCode;
use crate::api::list_offsets::EARLIEST;
use crate::engine::metrics::Stat;
use crate::engine::ops::UNKNOWN_TOPIC_GRACE;
use crate::engine::{Error, Time, wait_after};
use crate::record::{Record, TimestampType};
use crate::wire::Uuid;
use bytes::Bytes;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// Records of one batch, in order. All slices of a batch share its data.
#[derive(Clone, Debug)]
pub struct Slice {
    /// The topic.
    pub topic: Arc<str>,
    /// The partition.
    pub partition: i32,
    /// Whether the client or the broker set the timestamps.
    pub timestamp_type: TimestampType,
    /// The bytes of the batch.
    pub data: Bytes,
    /// The records.
    pub records: Vec<Record>,
    /// How often the share group has delivered the records, including this delivery. The count is 0 outside of share
    /// groups.
    pub delivery_count: i16,
}

/// Whether the position is known, or how to find it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PositionState {
    /// The position is the group's committed offset, which the consumer has to request.
    Committed,
    /// The position is the offset of this timestamp, which the consumer has to request: -1 is the end and -2 the start
    /// of the log.
    ByTimestamp(i64),
    /// The request for the offset is in flight.
    Requesting,
    /// The position is known.
    Known,
    /// The partition has no position until the application seeks: there is no offset to start at, or the log no longer
    /// has it, and `auto.offset.reset` is `none`.
    Lost,
}

/// How to treat batches with an implausible offset or epoch. The consumer fetches such a batch again, and accepts it if
/// it is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImplausibleBatches {
    /// Fetch the next implausible batch again.
    Refetch,
    /// The batch at this offset is being fetched again.
    Refetching(i64),
    /// Accept implausible batches, because the broker returned the same batch twice.
    Accept,
}

/// An assigned partition.
#[derive(Debug)]
pub struct Partition {
    pub topic: Arc<str>,
    pub partition: i32,
    pub state: PositionState,
    pub generation: u64,
    /// The topic ID of the records that were read. The ID is zero before the first response, and if the broker has no
    /// topic IDs.
    pub topic_id: Uuid,
    /// The next offset to fetch.
    pub fetch_offset: i64,
    /// The leader epoch of the batch before this offset, or -1 if unknown.
    pub fetch_epoch: i32,
    /// The leader epoch under which the position was validated. `validating` tells whether a validation is in flight.
    pub validated_epoch: i32,
    pub validating: bool,
    /// The offset of the next record to deliver.
    pub position: i64,
    /// The leader epoch of the batch before this offset, or -1 if unknown.
    pub position_epoch: i32,
    /// The offset where reading started.
    pub start: i64,
    /// The offset after the last delivered record.
    delivered: i64,
    /// The offset below which the application has processed all records.
    pub processed: i64,
    /// The last committed offset, or -1 if unknown.
    pub committed: i64,
    /// The offset after the last committed transaction, or else where reading started. The consumer returns to this
    /// offset when a transaction with its offsets aborts.
    pub uncommitted_from: Option<i64>,
    /// The offset at which reading ends.
    pub end_offset: Option<i64>,
    /// The previous position, if the log no longer has it and the consumer has no new position yet.
    pub out_of_range_offset: Option<i64>,
    /// The end of the readable records according to the last response, or -1 if unknown.
    pub readable_end: i64,
    /// The first offset of the log according to the last response, or -1 if unknown.
    pub log_start_offset: i64,
    /// The lag at each response.
    pub lag: Stat,
    pub paused: bool,
    pub fetching: bool,
    pub retry_at: Time,
    /// When brokers began to respond with errors that may be temporary, such as an unknown topic.
    pub unknown_since: Option<Time>,
    pub failures: u32,
    /// Whether the consumer requests the start offset of this partition alone, because its error has failed an earlier
    /// request for several partitions.
    pub lists_alone: bool,
    /// How to treat batches with an implausible offset or epoch.
    pub implausible_batches: ImplausibleBatches,
    /// The factor for the requested size. The factor grows as long as the next message is larger than the requested
    /// size.
    pub max_bytes_factor: i32,
    pub buffered: usize,
    /// The follower to fetch from, and the time at which the consumer returns to the leader (KIP-392).
    pub replica: Option<(i32, Time)>,
    /// The number of follower failures in a row. After such a failure, the consumer fetches only from the leader until
    /// `leader_until`.
    pub follower_failures: u32,
    pub leader_until: Time,
    /// The number of responses in a row that were too large to be read.
    pub oversized: u32,
    /// When a response last contained records of the partition.
    pub last_records_at: Time,
    queue: VecDeque<Chunk>,
    /// The leader epochs of delivered records that the application has not processed, each with its first offset.
    epochs: VecDeque<(i64, i32)>,
    error: Option<Error>,
}

impl Partition {
    pub fn new(topic: Arc<str>, partition: i32, end_offset: Option<i64>) -> Self {
        Self {
            topic,
            partition,
            state: PositionState::Committed,
            generation: 0,
            topic_id: Uuid::ZERO,
            fetch_offset: 0,
            fetch_epoch: -1,
            validated_epoch: -1,
            validating: false,
            position: 0,
            position_epoch: -1,
            start: 0,
            delivered: 0,
            processed: 0,
            committed: -1,
            uncommitted_from: None,
            end_offset,
            out_of_range_offset: None,
            readable_end: -1,
            log_start_offset: -1,
            lag: Stat::default(),
            paused: false,
            fetching: false,
            retry_at: Time(0),
            unknown_since: None,
            failures: 0,
            lists_alone: false,
            implausible_batches: ImplausibleBatches::Refetch,
            max_bytes_factor: 1,
            buffered: 0,
            replica: None,
            follower_failures: 0,
            leader_until: Time(0),
            oversized: 0,
            last_records_at: Time(0),
            queue: VecDeque::new(),
            epochs: VecDeque::new(),
            error: None,
        }
    }

    /// Starts over at a position. Drops the buffer and ignores the responses to requests in flight.
    pub fn restart(&mut self, state: PositionState) {
        self.generation += 1;
        self.queue.clear();
        self.epochs.clear();
        self.topic_id = Uuid::ZERO;
        self.buffered = 0;
        self.error = None;
        self.out_of_range_offset = None;
        self.state = state;
        self.fetch_epoch = -1;
        self.validated_epoch = -1;
        self.validating = false;
        self.max_bytes_factor = 1;
        self.oversized = 0;
        self.retry_at = Time(0);
    }

    /// Returns whether the partition may continue at `auto.offset.reset` if the log no longer has its position. A
    /// partition with an end offset may continue only at the start of the log, because every other reset could skip
    /// records.
    pub fn may_reset(&self, to: PositionState) -> bool {
        to == PositionState::ByTimestamp(EARLIEST) || (to != PositionState::Lost && self.end_offset.is_none())
    }

    /// Starts over at another position, because the log no longer has the current position.
    pub fn reset_out_of_range(&mut self, to: PositionState) {
        let position = self.position;
        self.restart(to);
        self.out_of_range_offset = Some(position);
    }

    /// Returns whether batches wait for the application.
    pub fn has_buffered(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Starts at an offset.
    pub fn start_at(&mut self, offset: i64) {
        // If the consumer skips records because the log no longer has them, it cannot return to them.
        let skips_lost = self.out_of_range_offset.is_some_and(|lost| lost < offset);
        self.uncommitted_from =
            self.uncommitted_from.filter(|_| !skips_lost).map(|from| from.min(offset)).or(Some(offset));
        self.restart(PositionState::Known);
        self.lists_alone = false;
        self.fetch_offset = offset;
        self.position = offset;
        self.position_epoch = -1;
        self.start = offset;
        self.delivered = offset;
        self.processed = offset;
        // The next commit may be lower than the last one.
        self.committed = -1;
    }

    /// Returns whether records were delivered after the last committed transaction.
    pub fn has_uncommitted(&self) -> bool {
        self.uncommitted_from.is_some_and(|from| from < self.delivered)
    }

    /// Treats the delivered records as not delivered.
    pub fn forget_delivered(&mut self) {
        self.delivered = self.uncommitted_from.unwrap_or(self.delivered);
    }

    /// Notes that the application has processed the records below an offset. If these are all delivered records, the
    /// offsets without records after them also count as processed.
    pub fn mark_processed(&mut self, next_offset: i64) {
        self.processed = if next_offset >= self.delivered { self.position } else { next_offset };
        self.forget_epochs();
    }

    /// Returns the leader epoch of the last delivered record below an offset, or -1 if unknown.
    pub fn epoch_below(&self, offset: i64) -> i32 {
        self.epochs.iter().rev().find(|(first, _)| *first < offset).map_or(-1, |(_, epoch)| *epoch)
    }

    /// Forgets epochs that end below the last processed record: no commit needs them.
    fn forget_epochs(&mut self) {
        while self.epochs.get(1).is_some_and(|(first, _)| *first < self.processed) {
            self.epochs.pop_front();
        }
    }

    /// Returns whether all records up to the end offset were delivered.
    pub fn reached_end(&self) -> bool {
        self.state == PositionState::Known && self.end_offset.is_some_and(|end| self.position >= end)
    }

    /// Returns whether there are records or an error to deliver.
    pub fn is_ready(&self) -> bool {
        !self.paused && !self.reached_end() && (!self.queue.is_empty() || self.error.is_some())
    }

    /// Returns whether more records may be fetched now.
    pub fn wants_more(&self, now: Time, max_buffered: usize) -> bool {
        self.is_fetchable() && !self.fetching && self.retry_at <= now && self.buffered < max_buffered
    }

    /// Returns whether the start offset must be requested.
    pub fn wants_position(&self) -> bool {
        matches!(self.state, PositionState::Committed | PositionState::ByTimestamp(_))
    }

    /// Returns whether the partition is fetched at all.
    pub fn is_fetchable(&self) -> bool {
        let before_end = self.end_offset.is_none_or(|end| self.fetch_offset < end);
        self.state == PositionState::Known && !self.validating && !self.paused && self.error.is_none() && before_end
    }

    /// Returns whether the partition possibly does not exist, because the consumer should fetch it but has no fetch in
    /// flight. The result stays true until the application has taken the error.
    pub fn may_be_missing(&self) -> bool {
        self.state == PositionState::Known && !self.fetching && !self.paused && !self.reached_end()
    }

    /// Adds fetched batches to the buffer.
    pub fn buffer(&mut self, chunks: Vec<Chunk>, error: Option<Error>) {
        for chunk in chunks {
            if self.end_offset.is_some_and(|end| self.fetch_offset >= end) {
                break;
            }
            self.fetch_offset = chunk.next_offset;
            self.fetch_epoch = chunk.leader_epoch;
            self.buffered += chunk.bytes;
            // Without buffered batches before it, a batch without records only moves the position.
            if matches!(chunk.contents, Contents::NoRecords) && self.queue.is_empty() {
                self.advance_position(chunk.next_offset);
                self.position_epoch = chunk.leader_epoch;
                self.buffered -= chunk.bytes;
            } else {
                self.queue.push_back(chunk);
            }
        }
        self.error = error;
    }

    /// Returns whether the consumer may drop the buffer to make room. A paused partition fetches the records again
    /// after it resumes. The consumer must not drop the buffer while it validates the position.
    pub fn is_droppable(&self) -> bool {
        self.paused && self.buffered > 0 && !self.validating
    }

    /// Drops the buffer and ignores the responses to requests in flight. The consumer will fetch these records again.
    pub fn drop_buffered(&mut self) {
        self.generation += 1;
        self.queue.clear();
        self.buffered = 0;
        self.error = None;
        self.validating = false;
        // The validated epoch also holds for the lower position.
        (self.fetch_offset, self.fetch_epoch) = (self.position, self.position_epoch);
        if self.implausible_batches != ImplausibleBatches::Accept {
            self.implausible_batches = ImplausibleBatches::Refetch;
        }
    }

    /// Moves the position past a batch, but not past the end offset, because commits use the position. If the
    /// application has processed all delivered records, `processed` moves to the same offset.
    fn advance_position(&mut self, next_offset: i64) {
        self.position = self.position.max(self.end_offset.map_or(next_offset, |end| next_offset.min(end)));
        if self.processed >= self.delivered {
            self.processed = self.processed.max(self.position);
        }
    }

    /// Notes that a fetch failed, and schedules the retry. Returns whether the error may be temporary. The consumer
    /// does not report such an error.
    pub fn fails(
        &mut self,
        now: Time,
        code: Option<ErrorCode>,
        is_retriable: bool,
        backoff: (Duration, Duration),
    ) -> bool {
        self.back_off(now, backoff);
        is_temporary(&mut self.unknown_since, now, code, is_retriable)
    }

    /// Delays the next request. `backoff` contains the first and the longest wait.
    pub fn back_off(&mut self, now: Time, backoff: (Duration, Duration)) {
        self.failures = self.failures.saturating_add(1);
        self.retry_at = now + wait_after(self.failures, backoff, now.0);
    }

    /// Returns the error that the next poll will raise.
    pub fn error(&self) -> Option<&Error> {
        self.error.as_ref()
    }

    /// Changes the end offset. Drops the buffer, because it does not contain records above the old end offset.
    pub fn set_end_offset(&mut self, end_offset: Option<i64>) {
        if self.end_offset != end_offset {
            self.end_offset = end_offset;
            self.drop_buffered();
        }
    }

    /// Keeps an error for the next poll.
    pub fn set_error(&mut self, error: Error) {
        self.error = Some(error);
    }

    /// Takes the error if all records before it are delivered. A partition without a position keeps its error, for
    /// [`Partition::lost_error`].
    pub fn take_error(&mut self) -> Option<Error> {
        self.error.take_if(|_| self.queue.is_empty() && !self.paused && self.state != PositionState::Lost)
    }

    /// Returns the error of a partition without a position, which stays until the application seeks.
    pub fn lost_error(&self) -> Option<&Error> {
        self.error.as_ref().filter(|_| self.is_lost() && !self.paused)
    }

    /// Returns whether the partition has no position.
    pub fn is_lost(&self) -> bool {
        self.state == PositionState::Lost
    }

    /// Delivers at most `max_records` records with about `max_bytes` bytes, one slice per batch. Returns the number of
    /// records and of bytes.
    pub fn take(&mut self, max_records: usize, max_bytes: usize, out: &mut Vec<Slice>) -> (usize, usize) {
        let (mut count, mut bytes) = (0, 0);
        while count < max_records && bytes < max_bytes && !self.reached_end() {
            let Some(chunk) = self.queue.front_mut() else {
                break;
            };
            let mut records = Vec::new();
            let mut batch_error = None;
            let mut is_consumed = true;
            if let Contents::Compressed(batch, options) = &chunk.contents {
                match options.records(batch) {
                    Ok(set) => chunk.contents = Contents::Records(set),
                    Err(e) => batch_error = Some(e),
                }
            }
            if let Contents::Records(set) = &mut chunk.contents {
                records.reserve(set.size_hint().1.unwrap_or(0).min(max_records - count));
                loop {
                    let walked_before = set.walked();
                    if count == max_records || bytes >= max_bytes {
                        is_consumed = set.left() == 0;
                        break;
                    }
                    match set.next() {
                        None => break,
                        Some(Err(e)) => {
                            batch_error = Some(e);
                            break;
                        }
                        // Below the position: the requested offset is in the middle of the batch.
                        Some(Ok(r)) if r.offset < self.position => {}
                        Some(Ok(r)) if self.end_offset.is_some_and(|end| r.offset >= end) => break,
                        Some(Ok(r)) => {
                            self.position = r.offset + 1;
                            self.delivered = self.position;
                            count += 1;
                            bytes += set.walked() - walked_before;
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
            if let Some(e) = batch_error {
                let requested = fetch_response::RequestedPartition {
                    slot: 0,
                    generation: self.generation,
                    offset: self.position,
                    topic: self.topic.clone(),
                    id: Uuid::ZERO,
                    partition: self.partition,
                    leader_epoch: -1,
                    max_bytes: 0,
                    stops_at_implausible: false,
                };
                self.queue.clear();
                self.buffered = 0;
                self.fetch_offset = self.position;
                self.error = Some(fetch_response::damaged_batch_error(&requested, &[], &e));
                break;
            }
            if is_consumed && let Some(chunk) = self.queue.pop_front() {
                self.buffered = self.buffered.saturating_sub(chunk.bytes);
                self.advance_position(chunk.next_offset);
                self.position_epoch = chunk.leader_epoch;
            }
        }
        if self.reached_end() {
            self.queue.clear();
            self.buffered = 0;
        }
        (count, bytes)
    }
}

/// Returns whether the error of a fetch may be temporary, so that the consumer need not report it yet. Three errors
/// count as temporary only for a while, whether or not they are retriable. `since` is the time of the first of these
/// errors in a row:
///
/// * unknown topic: the topic may have just been created;
/// * corrupt message: another replica may have an intact copy;
/// * unknown server error, or a code that does not fit the request: the next attempt usually succeeds.
pub fn is_temporary(since: &mut Option<Time>, now: Time, code: Option<ErrorCode>, is_retriable: bool) -> bool {
    match code {
        Some(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION | ErrorCode::UNKNOWN_TOPIC_ID | ErrorCode::CORRUPT_MESSAGE) => {
            now.since(*since.get_or_insert(now)) < UNKNOWN_TOPIC_GRACE
        }
        Some(code) if !code.is_retriable() && !code.is_permanent() => {
            now.since(*since.get_or_insert(now)) < UNKNOWN_TOPIC_GRACE
        }
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
    fn temporary_errors_are_reported_when_they_last() {
        const BACKOFF: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(1));
        let mut p = Partition::new(Arc::from("t"), 0, None);
        let mut fails = |seconds, code: ErrorCode| {
            p.fails(Time(0) + Duration::from_secs(seconds), Some(code), code.is_retriable(), BACKOFF)
        };
        assert!(fails(1, ErrorCode::UNKNOWN_SERVER_ERROR));
        assert!(fails(5, ErrorCode::UNKNOWN_TOPIC_ID));
        assert!(!fails(6, ErrorCode::UNKNOWN_SERVER_ERROR));
        // A topic that has no leader for a long time still exists.
        assert!(fails(20, ErrorCode::NOT_LEADER_OR_FOLLOWER));
        assert!(fails(30, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION));
        assert!(!fails(30, ErrorCode::TOPIC_AUTHORIZATION_FAILED));
        assert!(p.retry_at >= Time(0) + Duration::from_millis(30_800) && p.failures == 6);
    }
}
