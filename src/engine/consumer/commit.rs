//! Offsets on their way to the group: what the reader asks for, and what it is done with.

use super::partition::{Partition, Position};
use super::{Consumer, Ticket};
use crate::api::ErrorCode;
use crate::engine::group::Place;
use crate::engine::ops::{Commit, CommittedOffset, Output};
use crate::engine::{Error, ErrorKind, Time};
use std::time::Duration;

/// A commit that runs, to be tried again under a newer epoch of the member.
#[derive(Debug)]
pub(super) struct Committing<T> {
    pub offsets: Vec<CommittedOffset>,
    pub epoch: i32,
    pub deadline: Time,
    pub whose: Whose<T>,
}

/// Who wants a commit.
#[derive(Debug)]
pub(super) enum Whose<T> {
    User(T),
    Interval,
    /// Partitions that are about to be given up.
    Change,
}

impl<T: Send> Consumer<T> {
    /// Commits offsets, or everything given out so far.
    pub fn commit(&mut self, now: Time, offsets: Option<Vec<CommittedOffset>>, timeout: Duration, ticket: T) {
        let offsets = offsets.unwrap_or_else(|| self.given_out());
        self.start_commit(now, offsets, now + timeout, Whose::User(ticket));
    }

    fn start_commit(&mut self, now: Time, offsets: Vec<CommittedOffset>, deadline: Time, whose: Whose<T>) {
        let Some(member) = self.group_metadata() else {
            let error = Error::new(ErrorKind::Config, "a consumer without group.id cannot commit")
                .with_hint("give the consumer a group_id");
            if let Whose::User(ticket) = whose {
                self.done.push_back((ticket, Err(error)));
            }
            return;
        };
        let epoch = member.generation;
        let op = Box::new(Commit::new(member, offsets.clone()));
        let ticket = Ticket::Commit(Committing { offsets, epoch, deadline, whose });
        self.ops.start(now, op, deadline.since(now), ticket);
    }

    /// Takes the end of a commit in.
    pub(super) fn take_commit(&mut self, now: Time, commit: Committing<T>, result: Result<Output, Error>) {
        let stale = result.as_ref().is_err_and(|e| e.code() == Some(ErrorCode::STALE_MEMBER_EPOCH));
        let epoch = self.group_metadata().map_or(-1, |m| m.generation);
        if stale && epoch > commit.epoch && now < commit.deadline {
            return self.start_commit(now, commit.offsets, commit.deadline, commit.whose);
        }
        match commit.whose {
            Whose::User(ticket) => self.done.push_back((ticket, result)),
            Whose::Interval => {
                self.committing = false;
                // What was not committed is committed with the next interval's offsets.
                if result.is_err() {
                    self.partitions.values_mut().for_each(|p| p.committed = -1);
                }
            }
            Whose::Change => {
                if let Some(changing) = &mut self.changing {
                    changing.committing = false;
                }
                self.end_change();
            }
        }
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
        if now < due || self.committing {
            return;
        }
        self.next_commit = Some(now + interval);
        let offsets = self.uncommitted();
        if !offsets.is_empty() {
            self.note_committed(&offsets);
            self.committing = true;
            self.start_commit(now, offsets, now + self.config.api_timeout, Whose::Interval);
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
        self.start_commit(now, offsets, deadline, Whose::Change);
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
