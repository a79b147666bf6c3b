//! Finds the offset at which the consumer starts to read a partition. The start offset is the committed offset, the
//! offset of a timestamp, or the start or end of the log.
//!
//! This file starts the OffsetFetch and ListOffsets operations and applies their results. If there is no committed
//! offset, the consumer follows `auto.offset.reset`. This file also reports assigned partitions that do not exist.

use super::fetch::is_unknown_topic;
use super::partition::{Partition, PositionState};
use super::{Consumer, OpPurpose, Reset};
use crate::api::ErrorCode;
use crate::api::list_offsets::{EARLIEST, LATEST};
use crate::engine::ops::{Committed, CommittedOffset, ListOffsets, Output, UNKNOWN_TOPIC_GRACE};
use crate::engine::{Error, ErrorKind, Time, TopicPartition, counted};
use crate::logging::Location;
use std::collections::BTreeMap;

impl<T: Send> Consumer<T> {
    /// Returns the position of `auto.offset.reset`.
    pub(super) fn reset_position(&self, now: Time) -> PositionState {
        match self.config.reset {
            Reset::ByDuration(age) => {
                let now_ms = self.config.started_ms + i64::try_from(now.0 / 1000).unwrap_or(i64::MAX);
                PositionState::ByTimestamp((now_ms - i64::try_from(age.as_millis()).unwrap_or(i64::MAX)).max(0))
            }
            Reset::Earliest => PositionState::ByTimestamp(EARLIEST),
            Reset::Latest => PositionState::ByTimestamp(LATEST),
            Reset::None => PositionState::Lost,
        }
    }

    /// Requests the position of a partition. The operation completes as soon as the position is known.
    pub fn position(&mut self, now: Time, topic: &str, partition: i32, completion: T) -> Result<(), Error> {
        let slot = self.slot(topic, partition)?;
        self.request_starts(now, &[TopicPartition::new(topic, partition)]);
        let generation = self.partitions.get(&slot).map_or(0, |p| p.generation);
        self.positions.push((completion, slot, generation));
        self.complete_positions();
        Ok(())
    }

    /// Returns the last error that delays the position of a partition.
    pub fn why_no_position(&self, now: Time, topic: &str, partition: i32) -> Option<Error> {
        let slot = self.slot(topic, partition).ok()?;
        self.ops.why_of(now, |purpose| match purpose {
            OpPurpose::Start(slots, _) => slots.iter().any(|(s, _)| *s == slot),
            OpPurpose::Check(slots) => slots.iter().any(|(s, ..)| *s == slot),
            OpPurpose::User(_) | OpPurpose::Commit(_) => false,
        })
    }

    /// Completes position requests of partitions whose position is known or cannot be found.
    pub(super) fn complete_positions(&mut self) {
        for (completion, slot, generation) in std::mem::take(&mut self.positions) {
            let Some(p) = self.partitions.get(&slot) else {
                continue;
            };
            match p.state {
                PositionState::Known => {
                    self.done.push_back((completion, Ok(Output::Offsets(vec![Some((p.position, -1))]))))
                }
                PositionState::Lost => {
                    let error = no_offset(p);
                    self.done.push_back((completion, Err(error)));
                }
                _ => match p.error() {
                    Some(error) => self.done.push_back((completion, Err(error.clone()))),
                    None => self.positions.push((completion, slot, generation)),
                },
            }
        }
    }

    /// Requests the start offsets of all partitions that need one.
    pub(super) fn find_positions(&mut self, now: Time) {
        let mut committed = Vec::new();
        let mut by_timestamp: BTreeMap<(i64, Batching), Vec<usize>> = BTreeMap::new();
        for (slot, p) in self.partitions.iter_mut().filter(|(_, p)| p.retry_at <= now) {
            match p.state {
                PositionState::Committed => committed.push(*slot),
                PositionState::ByTimestamp(timestamp) => {
                    let batching = match self.cluster.leader(&p.topic, p.partition) {
                        _ if p.lists_alone => Batching::Alone(*slot),
                        Some((leader, _)) => Batching::Leader(leader),
                        None if self.cluster.topics.contains_key(&p.topic) => Batching::Alone(*slot),
                        None => Batching::UnknownTopic,
                    };
                    by_timestamp.entry((timestamp, batching)).or_default().push(*slot);
                }
                _ => continue,
            }
            p.state = PositionState::Requesting;
        }
        let timeout = self.config.api_timeout;
        let key = |this: &Self, slot: &usize| this.partitions.get(slot).map(|p| (p.topic.clone(), p.partition));
        if let (false, Some(group)) = (committed.is_empty(), self.config.group.clone()) {
            let partitions = committed.iter().filter_map(|s| key(self, s)).map(TopicPartition::from).collect();
            let purpose = OpPurpose::Start(self.tagged(&committed), PositionState::Committed);
            let op = Committed::new(group.group, partitions).with_coordinator(self.coordinator()).taking_stable();
            self.ops.start(now, Box::new(op), timeout, purpose);
        }
        for ((timestamp, _), slots) in by_timestamp {
            let timestamps = slots.iter().filter_map(|s| key(self, s)).map(|(t, p)| (t, p, timestamp)).collect();
            let purpose = OpPurpose::Start(self.tagged(&slots), PositionState::ByTimestamp(timestamp));
            let op = ListOffsets::of_several(timestamps, self.config.read_committed);
            self.ops.start(now, Box::new(op), timeout, purpose);
        }
        self.complete_positions();
    }

    pub(super) fn tagged(&self, slots: &[usize]) -> Vec<(usize, u64)> {
        slots.iter().filter_map(|s| self.partitions.get(s).map(|p| (*s, p.generation))).collect()
    }

    /// Handles completed operations.
    pub(super) fn handle_done(&mut self, now: Time) {
        let mut has_positions = false;
        while let Some((purpose, result)) = self.ops.poll_done() {
            match purpose {
                OpPurpose::User(completion) => self.done.push_back((completion, result)),
                OpPurpose::Commit(commit) => self.complete_commit(now, commit, &result),
                OpPurpose::Check(slots) => self.handle_epoch_ends(now, &slots, result),
                OpPurpose::Start(slots, state) => {
                    has_positions = true;
                    self.handle_positions(now, &slots, state, result);
                }
            }
        }
        if has_positions {
            self.find_positions(now);
            self.check_positions(now);
            self.check_missing(now);
        }
    }

    /// Applies start offsets, or the error of their request.
    pub(super) fn handle_positions(
        &mut self,
        now: Time,
        slots: &[(usize, u64)],
        requested: PositionState,
        result: Result<Output, Error>,
    ) {
        // Each offset comes with the leader epoch of the record before it, if that was committed.
        let with_epoch = |o: CommittedOffset| (o.offset, o.leader_epoch);
        let mut slots = slots.to_vec();
        let offsets: Vec<Option<(i64, i32)>> = match result {
            Ok(Output::Committed(offsets)) => offsets.into_iter().map(|o| o.map(with_epoch)).collect(),
            Ok(Output::StableCommitted(offsets)) => {
                // The other partitions wait for the end of a transaction in an operation of their own.
                for (slot, generation) in &slots {
                    if let Some(p) = self.partitions.get_mut(slot).filter(|p| p.generation == *generation) {
                        p.state = requested;
                        p.back_off(now, self.config.retry_backoff);
                    }
                }
                slots = offsets.iter().filter_map(|(at, _)| slots.get(*at).copied()).collect();
                offsets.into_iter().map(|(_, offset)| offset.map(with_epoch)).collect()
            }
            Ok(Output::Offsets(offsets)) => offsets.into_iter().map(|o| o.map(|(offset, _)| (offset, -1))).collect(),
            Ok(_) => Vec::new(),
            Err(error) => {
                // An operation that timed out has the last error as its cause.
                let why = error.cause().unwrap_or(&error);
                let is_reported = !(self.is_member && why.code().is_some_and(is_unknown_topic));
                let failed_partition = why.topic().zip(why.partition()).filter(|_| slots.len() > 1);
                for (slot, generation) in &slots {
                    if let Some(p) = self.partitions.get_mut(slot).filter(|p| p.generation == *generation) {
                        p.state = requested;
                        if let (PositionState::ByTimestamp(_), Some(failed)) = (requested, failed_partition) {
                            p.lists_alone |= failed == (&*p.topic, p.partition);
                            continue;
                        }
                        // Back off even after the first error: an immediate retry would fail in the same way.
                        p.back_off(now, self.config.retry_backoff);
                        if is_reported {
                            p.set_error(error.clone());
                        }
                    }
                }
                return;
            }
        };
        for ((slot, generation), offset) in slots.iter().zip(offsets) {
            let Some(p) = self.partitions.get(slot).filter(|p| p.generation == *generation) else {
                continue;
            };
            let first_position = self.first_position(now, &p.topic, p.partition);
            let Some(p) = self.partitions.get_mut(slot) else { continue };
            match (offset, requested) {
                (Some((offset, _)), PositionState::ByTimestamp(_)) if p.is_past_end(offset) => {
                    p.fail_past_end(offset);
                    p.back_off(now, self.config.retry_backoff);
                }
                (Some((offset, epoch)), _) => {
                    p.log_reset(offset, requested);
                    if requested == PositionState::Committed {
                        p.uncommitted_from = None;
                    }
                    p.start_at(offset);
                    (p.fetch_epoch, p.position_epoch) = (epoch, epoch);
                }
                (None, PositionState::Committed) => match p.uncommitted_from {
                    Some(from) => p.start_at(from),
                    None => p.reset(first_position),
                },
                // All records are older than the timestamp.
                (None, _) => p.state = PositionState::ByTimestamp(LATEST),
            }
            p.committed = if requested == PositionState::Committed {
                offset.map_or(-1, |(offset, _)| offset)
            } else {
                p.committed
            };
        }
    }
}

/// The partitions that share one ListOffsets operation. The error of one partition fails the whole operation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Batching {
    /// Partitions of this leader.
    Leader(i32),
    /// Partitions of topics without metadata.
    UnknownTopic,
    /// A single partition that has no leader, or that had an error.
    Alone(usize),
}

impl Partition {
    /// Starts at the position of `auto.offset.reset`, or sets an error if `auto.offset.reset` is `none`.
    pub(super) fn reset(&mut self, to: PositionState) {
        self.state = to;
        if to == PositionState::Lost {
            self.set_error(no_offset(self));
        }
    }

    /// Returns whether a reset found an offset at or above the end offset. In that case, every record to read is gone.
    fn is_past_end(&self, offset: i64) -> bool {
        self.out_of_range_offset.is_some() && self.end_offset.is_some_and(|end| offset >= end)
    }

    /// Logs that `auto.offset.reset` decided where to read.
    fn log_reset(&self, offset: i64, requested: PositionState) {
        let location = Location::partition(&self.topic, self.partition);
        match (self.out_of_range_offset, requested) {
            (Some(lost), _) => {
                let skipped = counted(u64::try_from(offset - lost).unwrap_or(0), "record");
                event!(Info, Consumer, location, "the offset was reset from {lost} to {offset}, which skips {skipped}");
            }
            (None, PositionState::ByTimestamp(_)) => {
                event!(Info, Consumer, location, "reading starts at offset {offset}")
            }
            (None, _) => event!(Info, Consumer, location, "reading continues at the committed offset {offset}"),
        }
    }

    /// Stays at the lost position with an error. Without this error, the partition would look completely read.
    fn fail_past_end(&mut self, log_start_offset: i64) {
        let lost = self.out_of_range_offset.unwrap_or(self.position);
        let processed = self.processed.min(lost);
        self.start_at(lost);
        self.processed = processed;
        let (topic, partition, end) = (&self.topic, self.partition, self.end_offset.unwrap_or(log_start_offset));
        let what =
            format!("fetch {topic}-{partition} from offset {lost} to {end}: the log starts at {log_start_offset}");
        let error = Error::refused(ErrorCode::OFFSET_OUT_OF_RANGE, what).at(topic, partition);
        self.set_error(
            error.with_hint("the records were deleted: read from beginning_offsets() to end_offsets(), or seek"),
        );
    }
}

impl<T: Send> Consumer<T> {
    /// Refreshes the metadata of topics that lack an assigned partition, and reports partitions that stay missing:
    ///
    /// * A partition may have just been added. If it stays missing, the partition number is usually a mistake.
    /// * The consumer does not report a topic that does not exist, because the topic may still be created.
    /// * A group member gets no error, because the group decides about its partitions.
    /// * The consumer reports an unauthorized topic here, because it does not fetch a topic without known leaders.
    /// * The consumer reports any other unexpected error of a topic after some seconds.
    pub(super) fn check_missing(&mut self, now: Time) {
        for p in self.partitions.values_mut().filter(|p| p.may_be_missing() && p.retry_at <= now) {
            let Some(topic) = self.cluster.topics.get(&p.topic) else { continue };
            let lasts = |since: Time| topic.error.is_permanent() || now.since(since) >= UNKNOWN_TOPIC_GRACE;
            let is_unexpected = topic.error.is_error() && !topic.error.is_retriable();
            if is_unexpected && self.topic_errors.get(&p.topic).is_none_or(|(since, _)| lasts(since)) && !self.is_member
            {
                p.back_off(now, self.config.retry_backoff);
                p.unknown_since = Some(now);
                let what = format!("fetch {}-{}", p.topic, p.partition);
                p.set_error(Error::refused(topic.error, what).at(&p.topic, p.partition));
                self.demand.refresh = true;
                continue;
            }
            let count = if topic.error.is_error() { 0 } else { topic.partitions.len() };
            if count == 0 || usize::try_from(p.partition).is_ok_and(|number| number < count) {
                continue;
            }
            self.demand.refresh = true;
            let code = ErrorCode::UNKNOWN_TOPIC_OR_PARTITION;
            if !p.fails(now, Some(code), true, self.config.retry_backoff) && !self.is_member {
                p.unknown_since = Some(now);
                let what = format!("fetch {}-{}", p.topic, p.partition);
                let hint = format!("the topic has partitions 0 to {}", count - 1);
                p.set_error(Error::refused(code, what).at(&p.topic, p.partition).with_hint(hint));
            }
        }
    }
}

fn no_offset(p: &Partition) -> Error {
    let message = format!("{}-{} has no start offset, and auto.offset.reset is none", p.topic, p.partition);
    Error::new(ErrorKind::Config, message)
        .at(&p.topic, p.partition)
        .with_hint("seek to an offset, commit one, or set auto.offset.reset to earliest or latest")
}
