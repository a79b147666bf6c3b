//! Detects logs that lost records that the consumer has already read.
//!
//! * Recreated topics (KIP-516): a topic that was deleted and created again has a new topic ID, and its offsets start
//!   at 0. Continuing at the old position would skip records. The consumer compares the new ID with the ID in its last
//!   fetch. It does not compare the ID with earlier metadata, because that metadata may be older than the position.
//! * Truncated logs (KIP-320): if a partition has a new leader, the consumer asks that leader where the leader epoch of
//!   the last read record ends. If this end offset is below the consumer's position, records were lost, and new records
//!   may have the same offsets.

use super::fetch::is_gone;
use super::partition::{Partition, Position};
use super::{Consumer, OpPurpose};
use crate::api::ErrorCode;
use crate::api::list_offsets::EARLIEST;
use crate::engine::ops::{EpochEnds, Output};
use crate::engine::{Error, Time};
use crate::wire::Uuid;
use std::collections::BTreeMap;

impl<T: Send> Consumer<T> {
    /// Restarts partitions of recreated topics at the first record, because none of the new records was read. With
    /// `auto.offset.reset` `none`, the application gets an error instead.
    pub(super) fn check_topics(&mut self, now: Time) {
        let reset = match self.reset_position(now) {
            Position::Lost => Position::Lost,
            _ => Position::At(EARLIEST),
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
            if p.state != Position::Known || p.checking || leader_epoch <= p.checked_epoch {
                continue;
            }
            if p.fetch_epoch < 0 || p.fetch_epoch == leader_epoch {
                p.checked_epoch = leader_epoch;
                continue;
            }
            slots.entry(leader).or_default().push(*slot);
        }
        slots.into_values().for_each(|slots| self.ask_epoch_ends(now, slots));
    }

    fn ask_epoch_ends(&mut self, now: Time, slots: Vec<usize>) {
        let (mut asked, mut tagged) = (Vec::new(), Vec::new());
        for slot in slots {
            let Some(p) = self.partitions.get_mut(&slot) else { continue };
            let leader_epoch = self.cluster.leader(&p.topic, p.partition).map_or(p.checked_epoch, |(_, epoch)| epoch);
            p.checking = true;
            asked.push((p.topic.clone(), p.partition, p.fetch_epoch));
            tagged.push((slot, p.generation, leader_epoch));
        }
        self.ops.start(now, Box::new(EpochEnds::new(asked)), self.config.api_timeout, OpPurpose::Check(tagged));
    }

    /// Handles the end offsets of epochs.
    pub(super) fn handle_epoch_ends(&mut self, now: Time, slots: &[(usize, u64, i32)], result: Result<Output, Error>) {
        let reset = self.reset_position(now);
        let result = result.map(|output| if let Output::EpochEnds(ends) = output { ends } else { Vec::new() });
        let mut again = Vec::new();
        for (i, (slot, generation, leader_epoch)) in slots.iter().enumerate() {
            let Some(p) = self.partitions.get_mut(slot).filter(|p| p.generation == *generation) else { continue };
            p.checking = false;
            match &result {
                Ok(ends) => {
                    p.checked_epoch = *leader_epoch;
                    if let Some((epoch, end)) = ends.get(i) {
                        p.follow_truncation(reset, *epoch, *end);
                    }
                }
                Err(error) => match error.cause().unwrap_or(error).code() {
                    // The next fetch reports that the topic is gone.
                    Some(code) if slots.len() == 1 && is_gone(code) => {}
                    // Reading continues without validation if the broker lacks the API or denies it.
                    code if code == Some(ErrorCode::UNSUPPORTED_VERSION)
                        || (slots.len() == 1 && !error.is_retriable()) =>
                    {
                        p.checked_epoch = *leader_epoch;
                    }
                    // Retry one partition at a time: the error may belong to one of several. Until then, records may be
                    // missing at the position.
                    _ => again.push(*slot),
                },
            }
        }
        again.into_iter().for_each(|slot| self.ask_epoch_ends(now, vec![slot]));
    }
}

impl Partition {
    /// Starts over in a recreated topic.
    fn start_recreated(&mut self, reset: Position) {
        let position = self.position;
        self.reset_lost(reset);
        (self.committed, self.readable) = (-1, -1);
        if reset == Position::Lost {
            let what = format!("fetch {}-{} at offset {position}: the topic was recreated", self.topic, self.partition);
            let error = Error::refused(ErrorCode::OFFSET_OUT_OF_RANGE, what).at(&self.topic, self.partition);
            self.set_error(
                error.with_hint("the records read so far were deleted; seek to an offset of the new topic to continue"),
            );
        }
    }

    /// Moves the position back to the end of a truncated log.
    fn follow_truncation(&mut self, reset: Position, epoch: i32, end: i64) {
        let is_known = epoch >= 0 && end >= 0;
        if is_known && end >= self.fetch_offset && epoch >= self.fetch_epoch {
            return;
        }
        let (checked, position) = (self.checked_epoch, self.position);
        if reset == Position::Lost || !(is_known || self.may_reset(reset)) {
            let how =
                if is_known { format!("the log was truncated to {end}") } else { "the log was truncated".to_owned() };
            let what = format!("fetch {}-{} at offset {position}: {how}", self.topic, self.partition);
            let hint = "records read before were lost, and new ones may have their offsets; seek to continue";
            let error = Error::refused(ErrorCode::OFFSET_OUT_OF_RANGE, what).at(&self.topic, self.partition);
            self.restart(Position::Lost);
            self.set_error(error.with_hint(hint));
        } else if is_known {
            self.start_at(end.min(position));
            (self.fetch_epoch, self.checked_epoch) = (epoch, checked);
        } else {
            // The leader does not know an epoch that old.
            self.reset_lost(reset);
        }
    }
}
