//! Logs that lost records under a reader.
//!
//! A topic that was deleted and made anew under its name has another id, and nothing of what was read (KIP-516); offsets begin
//! again, and to read on would skip what is before the position. An id is compared with the one that was read of: one that was
//! learnt before may be older than the position.
//!
//! A log may also have been cut (KIP-320): whenever a partition has a new leader, the reader asks it where the
//! epoch of the last record ends in its log. If that is before the reader's position, records that were read are gone, and
//! others may be at their offsets.

use super::fetch::is_gone;
use super::partition::{Partition, Position};
use super::{Consumer, Ticket};
use crate::api::ErrorCode;
use crate::api::list_offsets::EARLIEST;
use crate::engine::ops::{EpochEnds, Output};
use crate::engine::{Error, Time};
use crate::wire::Uuid;
use std::collections::BTreeMap;

impl<T: Send> Consumer<T> {
    /// Starts anew in partitions whose topic was deleted and made anew: with the first record, as none of them was read, unless
    /// a reader that is to reset nothing has to be told.
    pub(super) fn check_topics(&mut self, now: Time) {
        let reset = match self.reset_position(now) {
            Position::Lost => Position::Lost,
            _ => Position::At(EARLIEST),
        };
        for p in self.partitions.values_mut() {
            let id = self.cluster.topics.get(&p.topic).map_or(Uuid::ZERO, |t| t.id);
            if !id.is_zero() && !p.topic_id.is_zero() && id != p.topic_id {
                p.start_anew(reset);
            }
        }
        self.find_positions(now);
    }

    /// Asks about partitions whose leader is another than the one their position was good for: all that one leader has together.
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
        self.ops.start(now, Box::new(EpochEnds::new(asked)), self.config.api_timeout, Ticket::Check(tagged));
    }

    /// Takes in where epochs end.
    pub(super) fn take_epoch_ends(&mut self, now: Time, slots: &[(usize, u64, i32)], result: Result<Output, Error>) {
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
                    // Of a topic that is gone a fetch tells.
                    Some(code) if slots.len() == 1 && is_gone(code) => {}
                    // What cannot be found out does not keep anybody from reading: a broker without the API, or one that
                    // does not allow it.
                    code if code == Some(ErrorCode::UNSUPPORTED_VERSION)
                        || (slots.len() == 1 && !error.is_retriable()) =>
                    {
                        p.checked_epoch = *leader_epoch;
                    }
                    // It may be about one of several, and until it is known records may be missing at the position.
                    _ => again.push(*slot),
                },
            }
        }
        again.into_iter().for_each(|slot| self.ask_epoch_ends(now, vec![slot]));
    }
}

impl Partition {
    /// Starts over in another topic of the same name.
    fn start_anew(&mut self, reset: Position) {
        let position = self.position;
        self.restart(reset);
        (self.committed, self.readable) = (-1, -1);
        if reset == Position::Lost {
            let what = format!("fetch {}-{} at offset {position}: the topic was made anew", self.topic, self.partition);
            let error = Error::refused(ErrorCode::OFFSET_OUT_OF_RANGE, what).at(&self.topic, self.partition);
            self.set_error(
                error.with_hint("records that were read are gone, and others are in their place; seek to go on"),
            );
        }
    }

    /// Goes back to where the log was cut, if it was.
    fn follow_truncation(&mut self, reset: Position, epoch: i32, end: i64) {
        let is_known = epoch >= 0 && end >= 0;
        if is_known && end >= self.fetch_offset && epoch >= self.fetch_epoch {
            return;
        }
        let (checked, position) = (self.checked_epoch, self.position);
        if reset == Position::Lost {
            let what =
                format!("fetch {}-{} at offset {position}: its log was cut at {end}", self.topic, self.partition);
            let hint = "records that were read are gone, and others may be in their place; seek to go on";
            let error = Error::refused(ErrorCode::OFFSET_OUT_OF_RANGE, what).at(&self.topic, self.partition);
            self.restart(Position::Lost);
            self.set_error(error.with_hint(hint));
        } else if is_known {
            self.start_at(end.min(position));
            (self.fetch_epoch, self.checked_epoch) = (epoch, checked);
        } else {
            // The leader knows nothing that old.
            self.restart(reset);
        }
    }
}
