//! Detects that a partition has lost records that the consumer has already read.
//!
//! * Recreated topics (KIP-516): a topic that was deleted and created again has a new topic ID, and its offsets start
//!   at 0. If the consumer kept its position in such a topic, it would skip records. It therefore compares the topic
//!   ID in new metadata with the topic ID of its last fetch. It does not compare the topic IDs of two metadata
//!   responses, because the topic may have been recreated after the earlier response, but before the consumer found
//!   its position.
//! * Truncated logs (KIP-320): if a partition has a new leader, the consumer asks that leader for the end offset of an
//!   epoch: the leader epoch of the last read record. If the end offset is below the consumer's position, the log has
//!   lost records, and new records may have the offsets of the lost records.

use super::fetch::is_unknown_topic;
use super::partition::{Partition, PositionState};
use super::{Consumer, OpPurpose};
use crate::api::ErrorCode;
use crate::api::list_offsets::EARLIEST;
use crate::engine::ops::{EpochEnds, Output};
use crate::engine::{Error, Time};
use crate::wire::Uuid;
use std::collections::BTreeMap;

impl<T: Send> Consumer<T> {
    /// Restarts partitions of recreated topics at the first record, because the consumer has read none of the new
    /// records. With `auto.offset.reset` `none`, the application gets an error instead.
    pub(super) fn check_topics(&mut self, now: Time) {
        let reset = match self.reset_position(now) {
            PositionState::Lost => PositionState::Lost,
            _ => PositionState::ByTimestamp(EARLIEST),
        };
        for p in self.partitions.values_mut() {
            let id = self.cluster.topics.get(&p.topic).map_or(Uuid::ZERO, |t| t.id);
            if !id.is_zero() && !p.topic_id.is_zero() && id != p.topic_id {
                p.start_recreated(reset);
            }
        }
        self.find_positions(now);
    }

    /// Validates the positions of partitions with a new leader epoch, with one request per leader.
    pub(super) fn check_positions(&mut self, now: Time) {
        let mut slots: BTreeMap<i32, Vec<usize>> = BTreeMap::new();
        for (slot, p) in &mut self.partitions {
            let Some((leader, leader_epoch)) = self.cluster.leader(&p.topic, p.partition) else { continue };
            if p.state != PositionState::Known || p.validating || leader_epoch <= p.validated_epoch {
                continue;
            }
            if p.fetch_epoch < 0 || p.fetch_epoch == leader_epoch {
                p.validated_epoch = leader_epoch;
                continue;
            }
            slots.entry(leader).or_default().push(*slot);
        }
        slots.into_values().for_each(|slots| self.request_epoch_ends(now, slots, None));
    }

    /// Requests the end offsets of the partitions' leader epochs. `last_error` is the error of the previous request.
    fn request_epoch_ends(&mut self, now: Time, slots: Vec<usize>, last_error: Option<Error>) {
        let (mut requested, mut tagged) = (Vec::new(), Vec::new());
        for slot in slots {
            let Some(p) = self.partitions.get_mut(&slot) else { continue };
            let leader_epoch = self.cluster.leader(&p.topic, p.partition).map_or(p.validated_epoch, |(_, epoch)| epoch);
            p.validating = true;
            requested.push((p.topic.clone(), p.partition, p.fetch_epoch));
            tagged.push((slot, p.generation, leader_epoch));
        }
        let op = Box::new(EpochEnds::new(requested));
        let op = self.ops.start(now, op, self.config.api_timeout, OpPurpose::Check(tagged));
        self.ops.continues(op, now, last_error);
    }

    /// Handles the end offsets of leader epochs.
    pub(super) fn handle_epoch_ends(&mut self, now: Time, slots: &[(usize, u64, i32)], result: Result<Output, Error>) {
        let reset = self.reset_position(now);
        let result = result.map(|output| if let Output::EpochEnds(ends) = output { ends } else { Vec::new() });
        let mut retried = Vec::new();
        for (i, (slot, generation, leader_epoch)) in slots.iter().enumerate() {
            let Some(p) = self.partitions.get_mut(slot).filter(|p| p.generation == *generation) else { continue };
            p.validating = false;
            match &result {
                Ok(ends) => {
                    p.validated_epoch = *leader_epoch;
                    if let Some((epoch, end)) = ends.get(i) {
                        p.follow_truncation(reset, *epoch, *end);
                    }
                }
                Err(error) => match error.cause().unwrap_or(error).code() {
                    // The next fetch reports that the topic is gone.
                    Some(code) if slots.len() == 1 && is_unknown_topic(code) => {}
                    // Reading continues without validation if the broker lacks the API or denies it.
                    code if code == Some(ErrorCode::UNSUPPORTED_VERSION)
                        || (slots.len() == 1 && !error.is_retriable()) =>
                    {
                        p.validated_epoch = *leader_epoch;
                    }
                    // Retry one partition at a time: the error may belong to one of several. Until then, records may be
                    // missing at the position.
                    _ => retried.push(*slot),
                },
            }
        }
        let last_error = result.err().map(|error| error.cause().cloned().unwrap_or(error));
        retried.into_iter().for_each(|slot| self.request_epoch_ends(now, vec![slot], last_error.clone()));
    }
}

impl Partition {
    /// Starts over in a recreated topic.
    fn start_recreated(&mut self, reset: PositionState) {
        let position = self.position;
        self.reset_out_of_range(reset);
        (self.committed, self.readable_end) = (-1, -1);
        if reset == PositionState::Lost {
            let what = format!("fetch {}-{} at offset {position}: the topic was recreated", self.topic, self.partition);
            let error = Error::refused(ErrorCode::OFFSET_OUT_OF_RANGE, what).at(&self.topic, self.partition);
            self.set_error(
                error.with_hint("the records read so far were deleted; seek to an offset of the new topic to continue"),
            );
        }
    }

    /// Moves the position back to the end of a truncated log.
    fn follow_truncation(&mut self, reset: PositionState, epoch: i32, end: i64) {
        let is_known = epoch >= 0 && end >= 0;
        if is_known && end >= self.fetch_offset && epoch >= self.fetch_epoch {
            return;
        }
        let (validated_epoch, position) = (self.validated_epoch, self.position);
        if reset == PositionState::Lost || !(is_known || self.may_reset(reset)) {
            let how =
                if is_known { format!("the log was truncated to {end}") } else { "the log was truncated".to_owned() };
            let what = format!("fetch {}-{} at offset {position}: {how}", self.topic, self.partition);
            let hint = "records read before were lost, and new ones may have their offsets; seek to continue";
            let error = Error::refused(ErrorCode::OFFSET_OUT_OF_RANGE, what).at(&self.topic, self.partition);
            self.restart(PositionState::Lost);
            self.set_error(error.with_hint(hint));
        } else if is_known {
            self.start_at(end.min(position));
            (self.fetch_epoch, self.validated_epoch) = (epoch, validated_epoch);
        } else {
            // The leader does not know an epoch that old.
            self.reset_out_of_range(reset);
        }
    }
}
