//! Commits offsets: on request, at every auto-commit interval, and before partitions are revoked.
//!
//! The consumer has at most one commit in flight, and merges the commits that wait into the next request. With two
//! commits in flight, the broker could receive a retry of the older commit after the newer commit.

use super::partition::{Partition, PositionState};
use super::{Consumer, Group, OpPurpose};
use crate::api::ErrorCode;
use crate::engine::ops::{Commit, CommittedOffset, Output};
use crate::engine::{Error, ErrorKind, Time, TopicPartition};
use crate::logging;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// How long a closing consumer retries its commit during a rebalance. The coordinator accepts commits again after the
/// group leader has sent the new assignments, usually within a moment.
const REBALANCE_WAIT: Duration = Duration::from_secs(3);

/// A commit, and the callers that wait for its result.
#[derive(Debug)]
pub(super) struct PendingCommit<T> {
    offsets: BTreeMap<TopicPartition, CommittedOffset>,
    /// The member epoch of the request.
    epoch: i32,
    /// The latest deadline of all causes of this commit. `wanted_at` is the time at which the cause with this deadline
    /// started the commit.
    deadline: Time,
    wanted_at: Time,
    origins: Vec<Origin<T>>,
    /// Why the last attempt failed.
    last_error: Option<Error>,
}

impl<T> PendingCommit<T> {
    /// Extends the deadline for retries to this time, if it is later than the current deadline.
    fn wait_until(&mut self, deadline: Time, wanted_at: Time) {
        if deadline > self.deadline {
            (self.deadline, self.wanted_at) = (deadline, wanted_at);
        }
    }
}

/// Returns whether the coordinator rejected a commit because the group has rebalanced without the member, or is
/// rebalancing. The new owners of the partitions then continue from the previous commit, as after every rebalance. A
/// member that the coordinator has removed joins the group again.
pub fn is_stale_member(error: &Error) -> bool {
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

/// The result of a commit, which the consumer reports to the sink of its log.
#[derive(Clone, Debug)]
pub struct CommitResult {
    /// The offsets of the commit.
    pub offsets: Vec<CommittedOffset>,
    /// The error, if the offsets were not committed.
    pub error: Option<Error>,
}

/// The cause of a commit.
#[derive(Debug)]
enum Origin<T> {
    User(T),
    /// Auto-commit.
    Interval,
    /// Partitions that are about to be revoked.
    Revocation,
}

impl<T: Send> Consumer<T> {
    /// Commits these offsets. The consumer returns the result together with the completion.
    pub fn commit(&mut self, now: Time, mut offsets: Vec<CommittedOffset>, timeout: Duration, completion: T) {
        if self.config.group.is_none() {
            let error =
                Error::new(ErrorKind::Config, "a consumer without group.id cannot commit").with_hint("set group_id");
            return self.done.push_back((completion, Err(error)));
        }
        for offset in offsets.iter_mut().filter(|offset| offset.leader_epoch < 0) {
            if let Ok(p) = self.at(&offset.topic, offset.partition) {
                offset.leader_epoch = p.epoch_of(offset.offset);
            }
        }
        self.queue_commit(now, offsets, now + timeout, Origin::User(completion));
    }

    fn queue_commit(&mut self, now: Time, offsets: Vec<CommittedOffset>, deadline: Time, origin: Origin<T>) {
        let next = self.queued_commit.get_or_insert_with(|| PendingCommit {
            offsets: BTreeMap::new(),
            epoch: -1,
            deadline,
            wanted_at: now,
            origins: Vec::new(),
            last_error: None,
        });
        next.offsets.extend(offsets.into_iter().map(|o| (TopicPartition::new(o.topic.clone(), o.partition), o)));
        next.wait_until(deadline, now);
        next.origins.push(origin);
        self.start_commit(now);
    }

    /// Notes that the consumer is closing and only waits for its commits.
    pub fn prepare_close(&mut self, now: Time) {
        self.closing_since = Some(now);
    }

    /// Starts the next commit, if none is in flight.
    pub(super) fn start_commit(&mut self, now: Time) {
        if self.committing || self.queued_commit_at > now {
            return;
        }
        let (Some(mut commit), Some(member)) = (self.queued_commit.take(), self.group_metadata()) else {
            return;
        };
        commit.epoch = member.generation;
        self.committing = true;
        if let Err(error) = self.check_membership() {
            return self.complete_commit(now, commit, &Err(error));
        }
        let op = Commit::new(member, commit.offsets.values().cloned().collect())
            .with_retention(self.config.offsets_retention)
            .with_coordinator(self.coordinator());
        let (wanted_at, timeout) = (commit.wanted_at, commit.deadline.since(now));
        let last_error = commit.last_error.take();
        let op = self.ops.start(now, Box::new(op), timeout, OpPurpose::Commit(commit));
        self.ops.continues(op, wanted_at, last_error);
    }

    /// Fails if the consumer has subscribed, but is not a member of its group. A former member must not commit without
    /// a generation: the new owners of its partitions may have committed since.
    pub fn check_membership(&self) -> Result<(), Error> {
        match &self.group {
            Some(group) if self.is_member && group.metadata().generation < 0 => Err(group.refuse_commit()),
            _ => Ok(()),
        }
    }

    /// Returns the last error that delays a commit.
    pub fn why_not_committed(&self, now: Time) -> Option<Error> {
        let queued_error = self.queued_commit.as_ref().and_then(|next| next.last_error.clone());
        self.ops.why_of(now, |purpose| matches!(purpose, OpPurpose::Commit(_))).or(queued_error)
    }

    /// Returns the group coordinator if the membership knows it, which saves a round trip.
    pub(super) fn coordinator(&self) -> Option<i32> {
        self.group.as_ref().and_then(Group::coordinator)
    }

    /// Returns the time at which the queued commit may start, if there is one.
    pub(super) fn next_queued_commit_at(&self) -> Option<Time> {
        (self.queued_commit.is_some() && !self.committing).then_some(self.queued_commit_at)
    }

    /// Handles the result of a commit.
    pub(super) fn complete_commit(&mut self, now: Time, mut commit: PendingCommit<T>, result: &Result<Output, Error>) {
        self.committing = false;
        let retry_at = match result.as_ref().err().and_then(Error::code) {
            // The member has a newer epoch meanwhile.
            Some(ErrorCode::STALE_MEMBER_EPOCH) => {
                let epoch = self.group_metadata().map_or(-1, |m| m.generation);
                (epoch > commit.epoch).then_some(now)
            }
            // The coordinator accepts commits after the rebalance. Then only partitions that are still assigned are
            // committed.
            Some(ErrorCode::REBALANCE_IN_PROGRESS) => {
                commit.offsets.retain(|partition, _| self.slots.contains_key(partition));
                let is_awaited = self.closing_since.is_none_or(|since| now.since(since) < REBALANCE_WAIT);
                (is_awaited && !commit.offsets.is_empty()).then(|| now + self.config.retry_backoff.0)
            }
            _ => None,
        };
        if let Some(at) = retry_at.filter(|at| *at < commit.deadline) {
            // Retry it, together with newer requests.
            if let Some(next) = self.queued_commit.take() {
                commit.offsets.extend(next.offsets);
                commit.origins.extend(next.origins);
                commit.wait_until(next.deadline, next.wanted_at);
            }
            commit.last_error = result.as_ref().err().cloned();
            self.queued_commit = Some(commit);
            self.queued_commit_at = at;
            return self.start_commit(now);
        }
        if let Err(error) = result
            && error.kind() != ErrorKind::Closed
        {
            event!(Warn, Consumer, error.location(), "commit failed: {}{}", error.message(), error.advice());
        }
        let (offsets, error) = (commit.offsets.values().cloned().collect(), result.as_ref().err().cloned());
        logging::report(&CommitResult { offsets, error });
        if result.is_ok() {
            for (partition, offset) in &commit.offsets {
                if let Ok(p) = self.at(&partition.topic, partition.partition) {
                    (p.committed, p.uncommitted_from) = (offset.offset, Some(offset.offset));
                }
            }
        }
        if let Err(error) = result
            && commit.origins.iter().any(|origin| !matches!(origin, Origin::User(_)))
        {
            self.note_commit_error(error, self.is_member || commit.epoch >= 0);
        }
        for origin in commit.origins {
            match origin {
                Origin::User(completion) => self.done.push_back((completion, result.clone())),
                Origin::Interval => self.auto_commit_in_flight = false,
                Origin::Revocation => {
                    if let Some(changing) = &mut self.changing {
                        changing.committing = false;
                    }
                    self.end_change();
                }
            }
        }
        self.start_commit(now);
    }

    /// Keeps the error of an automatic commit for the next poll. The consumer does not report retriable errors, because
    /// it commits again after the next interval. The group reports the error of a fenced member.
    fn note_commit_error(&mut self, error: &Error, is_members: bool) {
        let is_fenced = error.code() == Some(ErrorCode::FENCED_INSTANCE_ID);
        if !error.is_retriable() && !(is_members && (is_stale_member(error) || is_fenced)) {
            self.commit_error = Some(error.clone());
        }
    }

    /// Fails the commits that wait for the commit in flight.
    pub(super) fn fail_commits(&mut self, error: &Error) {
        let waiting = self.queued_commit.take().map_or_else(Vec::new, |next| next.origins);
        self.done.extend(waiting.into_iter().filter_map(|origin| match origin {
            Origin::User(completion) => Some((completion, Err(error.clone()))),
            Origin::Interval | Origin::Revocation => None,
        }));
    }

    /// Returns the offset after the last delivered record of each partition with a known position.
    pub fn delivered_offsets(&self) -> Vec<CommittedOffset> {
        let positioned = self.partitions.values().filter(|p| p.state == PositionState::Known);
        positioned.map(|p| p.offset_to_commit(p.position)).collect()
    }

    /// Adds leader epochs to offsets after delivered records, if the consumer still knows these epochs.
    pub fn with_epochs(&mut self, offsets: Vec<(Arc<str>, i32, i64)>) -> Vec<CommittedOffset> {
        let mut with_epoch = |(topic, partition, offset): (Arc<str>, i32, i64)| match self.at(&topic, partition) {
            Ok(p) => p.offset_to_commit(offset),
            Err(_) => CommittedOffset::new(topic, partition, offset),
        };
        offsets.into_iter().map(&mut with_epoch).collect()
    }

    /// Notes that the application has processed a partition's records below an offset.
    pub fn mark_processed(&mut self, topic: &str, partition: i32, next_offset: i64) {
        if let Ok(p) = self.at(topic, partition)
            && next_offset > p.processed
            && next_offset <= p.position
        {
            p.mark_processed(next_offset);
        }
    }

    /// Notes that the application has processed all delivered records.
    pub fn mark_all_processed(&mut self) {
        for p in self.partitions.values_mut().filter(|p| p.state == PositionState::Known) {
            p.mark_processed(p.position);
        }
    }

    /// Returns the processed offsets that are not committed yet, even offset 0. Without a committed offset, the next
    /// member would apply `auto.offset.reset`, and `latest` would skip the records that arrived in the meantime. The
    /// result leaves out deleted topics: if a topic is recreated before the commit arrives, the offset would apply to
    /// the new topic.
    pub fn uncommitted(&self) -> Vec<CommittedOffset> {
        let is_deleted = |topic: &str| {
            let metadata = self.cluster.topics.get(topic);
            metadata.is_some_and(|t| t.error == ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)
        };
        // A member that has left its group could not commit. Where it has read nothing, it has nothing to lose.
        let has_left_group = self.is_member && self.group_metadata().is_none_or(|member| member.generation < 0);
        let due = |p: &&Partition| {
            let is_new = p.processed > p.committed && !(has_left_group && p.processed == p.start);
            p.state == PositionState::Known && is_new && !is_deleted(&p.topic)
        };
        self.partitions.values().filter(due).map(|p| p.offset_to_commit(p.processed)).collect()
    }

    /// Starts an auto-commit if its interval has passed.
    pub(super) fn auto_commit(&mut self, now: Time) {
        let Some(interval) = self.config.auto_commit else {
            return;
        };
        let due = *self.next_auto_commit_at.get_or_insert(now + interval);
        if now < due || self.auto_commit_in_flight {
            return;
        }
        self.next_auto_commit_at = Some(now + interval);
        let offsets = self.uncommitted();
        if !offsets.is_empty() {
            self.auto_commit_in_flight = true;
            self.queue_commit(now, offsets, now + self.config.api_timeout, Origin::Interval);
        }
    }

    /// Auto-commits the processed offsets before the assignment changes, without waiting for the result.
    pub(super) fn commit_before_change(&mut self, now: Time) {
        let offsets = if self.config.auto_commit.is_some() { self.uncommitted() } else { Vec::new() };
        if !offsets.is_empty() {
            self.auto_commit_in_flight = true;
            self.queue_commit(now, offsets, now + self.config.api_timeout, Origin::Interval);
        }
    }

    /// Auto-commits the processed offsets before a revocation. Returns whether there were offsets to commit.
    pub(super) fn commit_before_revocation(&mut self, now: Time) -> bool {
        let offsets = if self.config.auto_commit.is_some() { self.uncommitted() } else { Vec::new() };
        if offsets.is_empty() {
            return false;
        }
        // The group waits for the revocation, so the commit may not take longer than a request.
        let deadline = now + self.config.request_timeout.min(self.config.api_timeout);
        self.queue_commit(now, offsets, deadline, Origin::Revocation);
        true
    }
}

impl Partition {
    pub(super) fn topic_partition(&self) -> TopicPartition {
        TopicPartition::new(self.topic.clone(), self.partition)
    }

    /// Returns the commit of an offset, with the leader epoch of the record before it.
    pub(super) fn offset_to_commit(&self, offset: i64) -> CommittedOffset {
        let leader_epoch = self.epoch_of(offset);
        CommittedOffset { leader_epoch, ..CommittedOffset::new(self.topic.clone(), self.partition, offset) }
    }

    /// Returns the leader epoch of the record before an offset, or -1 if the consumer did not read that record.
    fn epoch_of(&self, offset: i64) -> i32 {
        match offset.cmp(&self.position) {
            _ if self.state != PositionState::Known => -1,
            Ordering::Less => self.epoch_below(offset),
            Ordering::Equal => self.position_epoch,
            Ordering::Greater => -1,
        }
    }
}
