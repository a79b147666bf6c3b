//! Where reading starts: at a committed offset, at a time, at an end, or nowhere.

use super::fetch::is_gone;
use super::partition::{Partition, Position};
use super::{Consumer, Reset, Ticket};
use crate::api::ErrorCode;
use crate::api::list_offsets::{EARLIEST, LATEST};
use crate::engine::ops::{Committed, ListOffsets, Output};
use crate::engine::{Error, ErrorKind, Time, TopicPartition};
use std::collections::BTreeMap;

impl<T: Send> Consumer<T> {
    pub(super) fn reset_position(&self, now: Time) -> Position {
        match self.config.reset {
            Reset::ByDuration(age) => {
                let now_ms = self.config.started_ms + i64::try_from(now.0 / 1000).unwrap_or(i64::MAX);
                Position::At((now_ms - i64::try_from(age.as_millis()).unwrap_or(i64::MAX)).max(0))
            }
            Reset::Earliest => Position::At(EARLIEST),
            Reset::Latest => Position::At(LATEST),
            Reset::None => Position::Lost,
        }
    }

    /// The next offset to give out of a partition, once it is known.
    pub fn position(&mut self, now: Time, topic: &str, partition: i32, ticket: T) -> Result<(), Error> {
        let slot = self.slot(topic, partition)?;
        self.let_start(now, &[TopicPartition::new(topic, partition)]);
        let generation = self.partitions.get(&slot).map_or(0, |p| p.generation);
        self.positions.push((ticket, slot, generation));
        self.answer_positions();
        Ok(())
    }

    /// Why a partition has no position yet, as far as that is known.
    pub fn why_no_position(&self, now: Time, topic: &str, partition: i32) -> Option<Error> {
        let slot = self.slot(topic, partition).ok()?;
        self.ops.why_of(now, |ticket| match ticket {
            Ticket::Start(slots, _) => slots.iter().any(|(s, _)| *s == slot),
            Ticket::Check(slots) => slots.iter().any(|(s, ..)| *s == slot),
            Ticket::User(_) | Ticket::Commit(_) => false,
        })
    }

    pub(super) fn answer_positions(&mut self) {
        for (ticket, slot, generation) in std::mem::take(&mut self.positions) {
            let Some(p) = self.partitions.get(&slot) else {
                continue;
            };
            match p.state {
                Position::Known => self.done.push_back((ticket, Ok(Output::Offsets(vec![Some((p.position, -1))])))),
                Position::Lost => {
                    let error = no_offset(p);
                    self.done.push_back((ticket, Err(error)));
                }
                _ => match p.error() {
                    Some(error) => self.done.push_back((ticket, Err(error.clone()))),
                    None => self.positions.push((ticket, slot, generation)),
                },
            }
        }
    }

    /// Asks for the offsets that reading starts at.
    pub(super) fn find_positions(&mut self, now: Time) {
        let mut committed = Vec::new();
        let mut timed: BTreeMap<(i64, Together), Vec<usize>> = BTreeMap::new();
        for (slot, p) in self.partitions.iter_mut().filter(|(_, p)| p.retry_at <= now) {
            match p.state {
                Position::Committed => committed.push(*slot),
                Position::At(timestamp) => {
                    let together = match self.cluster.leader(&p.topic, p.partition) {
                        _ if p.asked_alone => Together::No(*slot),
                        Some((leader, _)) => Together::Leader(leader),
                        None if self.cluster.topics.contains_key(&p.topic) => Together::No(*slot),
                        None => Together::Unknown,
                    };
                    timed.entry((timestamp, together)).or_default().push(*slot);
                }
                _ => continue,
            }
            p.state = Position::Asking;
        }
        let timeout = self.config.api_timeout;
        let key = |this: &Self, slot: &usize| this.partitions.get(slot).map(|p| (p.topic.clone(), p.partition));
        if let (false, Some(group)) = (committed.is_empty(), self.config.group.clone()) {
            let wanted = committed.iter().filter_map(|s| key(self, s)).map(TopicPartition::from).collect();
            let ticket = Ticket::Start(self.tagged(&committed), Position::Committed);
            let op = Committed::new(group.group, wanted).with_coordinator(self.coordinator());
            self.ops.start(now, Box::new(op), timeout, ticket);
        }
        for ((timestamp, _), slots) in timed {
            let wanted = slots.iter().filter_map(|s| key(self, s)).map(|(t, p)| (t, p, timestamp)).collect();
            let ticket = Ticket::Start(self.tagged(&slots), Position::At(timestamp));
            let op = ListOffsets::of_several(wanted, self.config.read_committed);
            self.ops.start(now, Box::new(op), timeout, ticket);
        }
        self.answer_positions();
    }

    pub(super) fn tagged(&self, slots: &[usize]) -> Vec<(usize, u64)> {
        slots.iter().filter_map(|s| self.partitions.get(s).map(|p| (*s, p.generation))).collect()
    }

    pub(super) fn take_done(&mut self, now: Time) {
        let mut found = false;
        while let Some((ticket, result)) = self.ops.poll_done() {
            match ticket {
                Ticket::User(ticket) => self.done.push_back((ticket, result)),
                Ticket::Commit(commit) => self.take_commit(now, commit, &result),
                Ticket::Check(slots) => self.take_epoch_ends(now, &slots, result),
                Ticket::Start(slots, asked) => {
                    found = true;
                    self.take_positions(now, &slots, asked, result);
                }
            }
        }
        if found {
            self.find_positions(now);
            self.check_positions(now);
            self.look_for_missing(now);
        }
    }

    pub(super) fn take_positions(
        &mut self,
        now: Time,
        slots: &[(usize, u64)],
        asked: Position,
        result: Result<Output, Error>,
    ) {
        // With the leader epoch of the record before, if that was committed.
        let offsets: Vec<Option<(i64, i32)>> = match result {
            Ok(Output::Committed(offsets)) => {
                offsets.into_iter().map(|o| o.map(|o| (o.offset, o.leader_epoch))).collect()
            }
            Ok(Output::Offsets(offsets)) => offsets.into_iter().map(|o| o.map(|(offset, _)| (offset, -1))).collect(),
            Ok(_) => Vec::new(),
            Err(error) => {
                // After a while of asking it is the cause that says so.
                let why = error.cause().unwrap_or(&error);
                let is_news = !(self.is_member && why.code().is_some_and(is_gone));
                let culprit = why.topic().zip(why.partition()).filter(|_| slots.len() > 1);
                for (slot, generation) in slots {
                    if let Some(p) = self.partitions.get_mut(slot).filter(|p| p.generation == *generation) {
                        p.state = asked;
                        if let (Position::At(_), Some(place)) = (asked, culprit) {
                            p.asked_alone |= place == (&*p.topic, p.partition);
                            continue;
                        }
                        // An error that is there at once would be there at once again.
                        p.back_off(now, self.config.retry_backoff);
                        if is_news {
                            p.set_error(error.clone());
                        }
                    }
                }
                return;
            }
        };
        let reset = self.reset_position(now);
        for ((slot, generation), offset) in slots.iter().zip(offsets) {
            let Some(p) = self.partitions.get_mut(slot).filter(|p| p.generation == *generation) else {
                continue;
            };
            match (offset, asked) {
                (Some((offset, epoch)), _) => {
                    p.start_at(offset);
                    (p.fetch_epoch, p.position_epoch) = (epoch, epoch);
                }
                (None, Position::Committed) => p.reset(reset),
                // No record is as late as the time asked for.
                (None, _) => p.state = Position::At(LATEST),
            }
            p.committed =
                if asked == Position::Committed { offset.map_or(-1, |(offset, _)| offset) } else { p.committed };
        }
    }
}

/// What is asked in one question: an error of one partition would be that of all, and keep the others from being read.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Together {
    /// Partitions of one leader.
    Leader(i32),
    /// Those of topics that nothing is known of yet.
    Unknown,
    /// One without a leader, or that had an error.
    No(usize),
}

impl Partition {
    /// Starts where `auto.offset.reset` says, which may be nowhere.
    pub(super) fn reset(&mut self, to: Position) {
        self.state = to;
        if to == Position::Lost {
            self.set_error(no_offset(self));
        }
    }
}

impl<T: Send> Consumer<T> {
    /// Has the topic be looked at again of partitions that it has not, and tells whoever polls of one that stays missing: a
    /// topic may have been given more of them just now, but a number that is too large is a mistake as a rule. A topic that
    /// is not there may be made yet; and what a member has not is its group's matter. Of a topic that may not be read nobody
    /// else tells, as its leaders are not known.
    pub(super) fn look_for_missing(&mut self, now: Time) {
        for p in self.partitions.values_mut().filter(|p| p.is_looked_for() && p.retry_at <= now) {
            let Some(topic) = self.cluster.topics.get(&p.topic) else { continue };
            if topic.error.is_error() && !topic.error.is_retriable() && !self.is_member {
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
    let message = format!("{}-{} has no offset to start at and auto.offset.reset is none", p.topic, p.partition);
    Error::new(ErrorKind::Config, message)
        .at(&p.topic, p.partition)
        .with_hint("seek, commit an offset, or set auto.offset.reset to earliest or latest")
}
