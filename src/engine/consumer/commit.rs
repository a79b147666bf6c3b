//! Offsets on their way to the group: what the reader asks for, and what it is done with.
//!
//! One commit is under way at a time, and whatever is asked for meanwhile goes with the next one: a commit that is tried
//! again must not land after a newer one.

use super::partition::{Partition, Position};
use super::{Consumer, Ticket};
use crate::api::ErrorCode;
use crate::engine::group::Place;
use crate::engine::ops::{Commit, CommittedOffset, Output};
use crate::engine::{Error, ErrorKind, Time};
use std::collections::BTreeMap;
use std::time::Duration;

/// A commit, and who hears of its end.
#[derive(Debug)]
pub(super) struct Committing<T> {
    offsets: BTreeMap<Place, CommittedOffset>,
    /// The member's epoch that was sent.
    epoch: i32,
    deadline: Time,
    whose: Vec<Whose<T>>,
}

/// Who wants a commit.
#[derive(Debug)]
enum Whose<T> {
    User(T),
    Interval,
    /// Partitions that are about to be given up.
    Change,
}

impl<T: Send> Consumer<T> {
    /// Commits offsets, or everything given out so far.
    pub fn commit(&mut self, now: Time, offsets: Option<Vec<CommittedOffset>>, timeout: Duration, ticket: T) {
        if self.config.group.is_none() {
            let error = Error::new(ErrorKind::Config, "a consumer without group.id cannot commit")
                .with_hint("give the consumer a group_id");
            return self.done.push_back((ticket, Err(error)));
        }
        let offsets = offsets.unwrap_or_else(|| self.given_out());
        self.queue_commit(now, offsets, now + timeout, Whose::User(ticket));
    }

    fn queue_commit(&mut self, now: Time, offsets: Vec<CommittedOffset>, deadline: Time, whose: Whose<T>) {
        let next = self.next_commits.get_or_insert_with(|| Committing {
            offsets: BTreeMap::new(),
            epoch: -1,
            deadline,
            whose: Vec::new(),
        });
        next.offsets.extend(offsets.into_iter().map(|o| ((o.topic.clone(), o.partition), o)));
        next.deadline = next.deadline.max(deadline);
        next.whose.push(whose);
        self.start_commit(now);
    }

    fn start_commit(&mut self, now: Time) {
        if self.committing {
            return;
        }
        let (Some(mut commit), Some(member)) = (self.next_commits.take(), self.group_metadata()) else {
            return;
        };
        commit.epoch = member.generation;
        self.committing = true;
        let op = Box::new(Commit::new(member, commit.offsets.values().cloned().collect()));
        self.ops.start(now, op, commit.deadline.since(now), Ticket::Commit(commit));
    }

    /// Takes the end of a commit in.
    pub(super) fn take_commit(&mut self, now: Time, mut commit: Committing<T>, result: &Result<Output, Error>) {
        self.committing = false;
        let stale = result.as_ref().is_err_and(|e| e.code() == Some(ErrorCode::STALE_MEMBER_EPOCH));
        let epoch = self.group_metadata().map_or(-1, |m| m.generation);
        if stale && epoch > commit.epoch && now < commit.deadline {
            // The member got on meanwhile: the same again, and what was asked for since.
            if let Some(next) = self.next_commits.take() {
                commit.offsets.extend(next.offsets);
                commit.whose.extend(next.whose);
            }
            self.next_commits = Some(commit);
            return self.start_commit(now);
        }
        for whose in commit.whose {
            match whose {
                Whose::User(ticket) => self.done.push_back((ticket, result.clone())),
                Whose::Interval => self.interval_commits = false,
                Whose::Change => {
                    if let Some(changing) = &mut self.changing {
                        changing.committing = false;
                    }
                    self.end_change();
                }
            }
        }
        for (place, offset) in commit.offsets {
            let Ok(p) = self.at(&place.0, place.1) else {
                continue;
            };
            match result {
                Ok(_) => p.committed = offset.offset,
                // What was not committed is committed with the next interval's offsets.
                Err(_) if p.committed == offset.offset => p.committed = -1,
                Err(_) => {}
            }
        }
        self.start_commit(now);
    }

    /// Ends what waits for the commit that is under way.
    pub(super) fn fail_commits(&mut self, error: &Error) {
        let waiting = self.next_commits.take().map_or_else(Vec::new, |next| next.whose);
        self.done.extend(waiting.into_iter().filter_map(|whose| match whose {
            Whose::User(ticket) => Some((ticket, Err(error.clone()))),
            Whose::Interval | Whose::Change => None,
        }));
    }

    /// The offset behind everything given out, of each partition that has a position.
    pub fn given_out(&self) -> Vec<CommittedOffset> {
        let known = self.partitions.values().filter(|p| p.state == Position::Known);
        known.map(|p| p.offset_to_commit(p.position)).collect()
    }

    /// Notes that the reader is done with a partition's records before an offset.
    pub fn finished_with(&mut self, topic: &str, partition: i32, next_offset: i64) {
        if let Ok(p) = self.at(topic, partition)
            && next_offset > p.finished
            && next_offset <= p.position
        {
            p.finished = next_offset;
        }
    }

    /// Notes that the reader is done with everything given out.
    pub fn finished_with_all(&mut self) {
        for p in self.partitions.values_mut().filter(|p| p.state == Position::Known) {
            p.finished = p.position;
        }
    }

    /// What auto commit would commit now.
    pub fn uncommitted(&self) -> Vec<CommittedOffset> {
        let due = |p: &&Partition| p.state == Position::Known && p.finished > p.committed.max(0);
        self.partitions.values().filter(due).map(|p| p.offset_to_commit(p.finished)).collect()
    }

    fn note_committed(&mut self, offsets: &[CommittedOffset]) {
        for o in offsets {
            if let Ok(p) = self.at(&o.topic, o.partition) {
                p.committed = o.offset;
            }
        }
    }

    pub(super) fn auto_commit(&mut self, now: Time) {
        let Some(interval) = self.config.auto_commit else {
            return;
        };
        let due = *self.next_commit.get_or_insert(now + interval);
        if now < due || self.interval_commits {
            return;
        }
        self.next_commit = Some(now + interval);
        let offsets = self.uncommitted();
        if !offsets.is_empty() {
            self.note_committed(&offsets);
            self.interval_commits = true;
            self.queue_commit(now, offsets, now + self.config.api_timeout, Whose::Interval);
        }
    }

    /// Commits what the reader is done with before some of it is given up; says whether there was anything.
    pub(super) fn commit_before_giving_up(&mut self, now: Time) -> bool {
        let offsets = if self.config.auto_commit.is_some() { self.uncommitted() } else { Vec::new() };
        if offsets.is_empty() {
            return false;
        }
        self.note_committed(&offsets);
        // Others wait for what is given up: a commit that takes longer than a request may is not worth that.
        let deadline = now + self.config.request_timeout.min(self.config.api_timeout);
        self.queue_commit(now, offsets, deadline, Whose::Change);
        true
    }
}

impl Partition {
    pub(super) fn offset_to_commit(&self, offset: i64) -> CommittedOffset {
        let (topic, partition): Place = (self.topic.clone(), self.partition);
        let leader_epoch = if offset == self.position { self.position_epoch } else { -1 };
        CommittedOffset { topic, partition, offset, leader_epoch, metadata: String::new() }
    }
}
