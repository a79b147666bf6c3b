//! Offsets on their way to the group: what the reader asks for, and what it is done with.
//!
//! One commit is under way at a time, and whatever is asked for meanwhile goes with the next one: a commit that is tried
//! again must not land after a newer one.

use super::partition::{Partition, Position};
use super::{Consumer, Group, Ticket};
use crate::api::ErrorCode;
use crate::engine::ops::{Commit, CommittedOffset, Output};
use crate::engine::{Error, ErrorKind, Time, TopicPartition};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// For how long a reader that is about to go has its commit tried again while the group's members share: the coordinator takes
/// none before the leader has given out the shares, which a leader that lives does soon.
const SHARING_WAIT: Duration = Duration::from_secs(3);

/// A commit, and who hears of its end.
#[derive(Debug)]
pub(super) struct Committing<T> {
    offsets: BTreeMap<TopicPartition, CommittedOffset>,
    /// The member's epoch that was sent.
    epoch: i32,
    deadline: Time,
    whose: Vec<Whose<T>>,
    /// Why it was not taken when it was tried last.
    why: Option<Error>,
}

/// Whether a commit was refused since the group went on without the member: others read on from the commit before, as after
/// every change, and the member joins anew by itself.
pub fn is_late(error: &Error) -> bool {
    matches!(
        error.code(),
        Some(
            ErrorCode::ILLEGAL_GENERATION
                | ErrorCode::UNKNOWN_MEMBER_ID
                | ErrorCode::FENCED_MEMBER_EPOCH
                | ErrorCode::STALE_MEMBER_EPOCH
                | ErrorCode::REBALANCE_IN_PROGRESS
                | ErrorCode::GROUP_ID_NOT_FOUND
        )
    )
}

/// Who wants a commit.
#[derive(Debug)]
enum Whose<T> {
    User(T),
    /// What is committed by itself.
    Interval,
    /// Partitions that are about to be given up.
    Change,
}

impl<T: Send> Consumer<T> {
    /// Commits offsets, or everything given out so far.
    pub fn commit(&mut self, now: Time, mut offsets: Vec<CommittedOffset>, timeout: Duration, ticket: T) {
        if self.config.group.is_none() {
            let error = Error::new(ErrorKind::Config, "a consumer without group.id cannot commit")
                .with_hint("give the consumer a group_id");
            return self.done.push_back((ticket, Err(error)));
        }
        for offset in offsets.iter_mut().filter(|offset| offset.leader_epoch < 0) {
            if let Ok(p) = self.at(&offset.topic, offset.partition) {
                offset.leader_epoch = p.epoch_of(offset.offset);
            }
        }
        self.queue_commit(now, offsets, now + timeout, Whose::User(ticket));
    }

    fn queue_commit(&mut self, now: Time, offsets: Vec<CommittedOffset>, deadline: Time, whose: Whose<T>) {
        let next = self.next_commits.get_or_insert_with(|| Committing {
            offsets: BTreeMap::new(),
            epoch: -1,
            deadline,
            whose: Vec::new(),
            why: None,
        });
        next.offsets.extend(offsets.into_iter().map(|o| (TopicPartition::new(o.topic.clone(), o.partition), o)));
        next.deadline = next.deadline.max(deadline);
        next.whose.push(whose);
        self.start_commit(now);
    }

    /// Notes that the reader is about to go, and waits for the commits that are under way alone.
    pub fn is_about_to_go(&mut self, now: Time) {
        self.goes_since = Some(now);
    }

    /// Starts the next commit, if none is under way and there is one.
    pub(super) fn start_commit(&mut self, now: Time) {
        if self.committing || self.commit_at > now {
            return;
        }
        let (Some(mut commit), Some(member)) = (self.next_commits.take(), self.group_metadata()) else {
            return;
        };
        commit.epoch = member.generation;
        self.committing = true;
        if let Some(group) = self.group.as_ref().filter(|_| self.is_member && member.generation < 0) {
            // Who is no member any more may not commit as if it never was one: others may have committed since.
            let error = group.refuse_commit();
            return self.take_commit(now, commit, &Err(error));
        }
        let op = Commit::new(member, commit.offsets.values().cloned().collect())
            .with_retention(self.config.offsets_retention)
            .with_coordinator(self.coordinator());
        self.ops.start(now, Box::new(op), commit.deadline.since(now), Ticket::Commit(commit));
    }

    /// Why what was to be committed is not yet, as far as that is known.
    pub fn why_not_committed(&self, now: Time) -> Option<Error> {
        let waits = self.next_commits.as_ref().and_then(|next| next.why.clone());
        self.ops.why_of(now, |ticket| matches!(ticket, Ticket::Commit(_))).or(waits)
    }

    /// The group's coordinator, if its membership knows it: asking is a round trip more.
    pub(super) fn coordinator(&self) -> Option<i32> {
        self.group.as_ref().and_then(Group::coordinator)
    }

    /// When the next commit may start, if one waits.
    pub(super) fn next_commit_at(&self) -> Option<Time> {
        (self.next_commits.is_some() && !self.committing).then_some(self.commit_at)
    }

    /// Takes the end of a commit in.
    pub(super) fn take_commit(&mut self, now: Time, mut commit: Committing<T>, result: &Result<Output, Error>) {
        self.committing = false;
        let later = match result.as_ref().err().and_then(Error::code) {
            // The member got on meanwhile.
            Some(ErrorCode::STALE_MEMBER_EPOCH) => {
                let epoch = self.group_metadata().map_or(-1, |m| m.generation);
                (epoch > commit.epoch).then_some(now)
            }
            // The coordinator takes none before every member has its share; then, only for what the consumer still has.
            Some(ErrorCode::REBALANCE_IN_PROGRESS) => {
                commit.offsets.retain(|place, _| self.slots.contains_key(place));
                let is_awaited = self.goes_since.is_none_or(|since| now.since(since) < SHARING_WAIT);
                (is_awaited && !commit.offsets.is_empty()).then(|| now + self.config.retry_backoff.0)
            }
            _ => None,
        };
        if let Some(at) = later.filter(|at| *at < commit.deadline) {
            // The same again, and what was asked for since.
            if let Some(next) = self.next_commits.take() {
                commit.offsets.extend(next.offsets);
                commit.whose.extend(next.whose);
                commit.deadline = commit.deadline.max(next.deadline);
            }
            commit.why = result.as_ref().err().cloned();
            self.next_commits = Some(commit);
            self.commit_at = at;
            return self.start_commit(now);
        }
        if result.is_ok() {
            for (place, offset) in &commit.offsets {
                if let Ok(p) = self.at(&place.topic, place.partition) {
                    p.committed = offset.offset;
                }
            }
        }
        if let Err(error) = result
            && commit.whose.iter().any(|whose| !matches!(whose, Whose::User(_)))
        {
            self.note_refusal(error, self.is_member || commit.epoch >= 0);
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
        self.start_commit(now);
    }

    /// Keeps why offsets that nobody waits for were refused, for whoever polls next. What passes is tried again with the next
    /// interval, and a member that was replaced hears of that in other ways.
    fn note_refusal(&mut self, error: &Error, is_members: bool) {
        let is_fenced = error.code() == Some(ErrorCode::FENCED_INSTANCE_ID);
        if !error.is_retriable() && !(is_members && (is_late(error) || is_fenced)) {
            self.commit_error = Some(error.clone());
        }
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

    /// Offsets behind records that were given out, with the epochs of their leaders as far as they are known still.
    pub fn with_epochs(&mut self, offsets: Vec<(Arc<str>, i32, i64)>) -> Vec<CommittedOffset> {
        let mut with_epoch = |(topic, partition, offset): (Arc<str>, i32, i64)| match self.at(&topic, partition) {
            Ok(p) => p.offset_to_commit(offset),
            Err(_) => CommittedOffset::new(topic, partition, offset),
        };
        offsets.into_iter().map(&mut with_epoch).collect()
    }

    /// Notes that the reader is done with a partition's records before an offset.
    pub fn finished_with(&mut self, topic: &str, partition: i32, next_offset: i64) {
        if let Ok(p) = self.at(topic, partition)
            && next_offset > p.finished
            && next_offset <= p.position
        {
            p.finish(next_offset);
        }
    }

    /// Notes that the reader is done with everything given out.
    pub fn finished_with_all(&mut self) {
        for p in self.partitions.values_mut().filter(|p| p.state == Position::Known) {
            p.finish(p.position);
        }
    }

    /// What the reader is done with and the coordinator is not known to have. Not of topics that are gone: they may be made
    /// anew before the commit arrives, and it would be one of theirs.
    pub fn uncommitted(&self) -> Vec<CommittedOffset> {
        let is_gone = |topic: &str| {
            let known = self.cluster.topics.get(topic);
            known.is_some_and(|t| t.error == ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)
        };
        let due = |p: &&Partition| p.state == Position::Known && p.finished > p.committed.max(0) && !is_gone(&p.topic);
        self.partitions.values().filter(due).map(|p| p.offset_to_commit(p.finished)).collect()
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
            self.interval_commits = true;
            self.queue_commit(now, offsets, now + self.config.api_timeout, Whose::Interval);
        }
    }

    /// Commits what the reader is done with of partitions that it reads no more. Nobody waits for that.
    pub(super) fn commit_what_is_left_behind(&mut self, now: Time) {
        let offsets = if self.config.auto_commit.is_some() { self.uncommitted() } else { Vec::new() };
        if !offsets.is_empty() {
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
        // Others wait for what is given up: a commit that takes longer than a request may is not worth that.
        let deadline = now + self.config.request_timeout.min(self.config.api_timeout);
        self.queue_commit(now, offsets, deadline, Whose::Change);
        true
    }
}

impl Partition {
    pub(super) fn topic_partition(&self) -> TopicPartition {
        TopicPartition::new(self.topic.clone(), self.partition)
    }

    pub(super) fn offset_to_commit(&self, offset: i64) -> CommittedOffset {
        let leader_epoch = self.epoch_of(offset);
        CommittedOffset { leader_epoch, ..CommittedOffset::new(self.topic.clone(), self.partition, offset) }
    }

    /// The leader epoch of the record before an offset; -1 if that was not read.
    fn epoch_of(&self, offset: i64) -> i32 {
        match offset.cmp(&self.position) {
            _ if self.state != Position::Known => -1,
            Ordering::Less => self.epoch_before(offset),
            Ordering::Equal => self.position_epoch,
            Ordering::Greater => -1,
        }
    }
}
