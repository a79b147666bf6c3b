//! A member of a classic group (`group.protocol=classic`): the members join, and the group leader assigns the
//! partitions.
//!
//! ```text
//! Unjoined → Joining → Assigning → Syncing → Stable      the leader of the group
//!            Joining ────────────→ Syncing → Stable      the other members
//!              ↑  a member came or left, a topic got partitions, the subscription changed: from any state
//! ```
//!
//! Under the eager protocol a member revokes all partitions before it joins. Under the cooperative protocol (KIP-429),
//! a member revokes only the partitions that the new assignment does not contain. While the application handles the
//! revocation, the member sends heartbeats. After the application has finished the revocation, the member joins the
//! group again. This file also has the heartbeat timer of classic groups.

mod requests;

use super::assignor::{Assignment, Topics};
use super::changes::Changes;
use super::config::{GroupConfig, Protocol, Subscription};
use super::coordinator_client::{
    CoordinatorClient, GroupTimer, GroupToken, LEAVE_WITHIN, Step, is_unauthorized, may_retry,
};
use super::strategy::{Assignments, Joined, Strategy, Work};
use crate::api::data::consumer_protocol as embedded;
use crate::api::{ErrorCode, heartbeat, join_group, leave_group, sync_group};
use crate::engine::{
    Call, ClientResponse, Cluster, Error, ErrorKind, MetadataDemand, Outgoing, Reply, Target, Time, TopicPartition,
    counted,
};
use crate::logging::Component;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// The heartbeat interval divided by this number is the wait before the first heartbeat of a generation. Each following
/// wait doubles.
const FIRST_HEARTBEAT_DIVISOR: u32 = 10;

/// The members that need partitions, while the leader waits for metadata of topics that only other members read.
struct Assigning {
    members: Vec<Joined>,
    is_computing: bool,
}

enum ClassicState {
    Unjoined,
    Joining { request_sent: bool },
    Assigning(Assigning),
    Syncing { request_sent: bool, assignment: Assignment },
    Stable,
    Leaving { request_sent: bool, deadline: Time },
}

/// A member of a classic group.
pub(super) struct ClassicMember {
    config: Arc<GroupConfig>,
    state: ClassicState,
    subscription: BTreeSet<Arc<str>>,
    pub(super) coordinator: CoordinatorClient,
    member: String,
    generation: i32,
    /// Whether the member was ever in a generation.
    pub(super) was_member: bool,
    /// The assignor that the group chose.
    assignor: Option<Strategy>,
    /// The last assignment and its generation, for sticky assignors.
    last_assignment: (Vec<TopicPartition>, i32),
    /// Why the member should join again.
    rejoin_reason: Option<String>,
    reason: String,
    /// How many partitions each topic had when the leader assigned the partitions.
    partition_counts: Option<BTreeMap<Arc<str>, usize>>,
    changes: Changes,
    heartbeat_at: Time,
    /// The wait between heartbeats, which grows to the configured interval.
    heartbeat_interval: Duration,
    heartbeat_in_flight: bool,
    error: Option<Error>,
    /// An error that does not end the membership.
    nonfatal_error: Option<Error>,
    work: Option<Work>,
}

impl ClassicMember {
    pub fn new(config: Arc<GroupConfig>) -> Self {
        Self {
            coordinator: config.coordinator_client(),
            config,
            state: ClassicState::Unjoined,
            subscription: BTreeSet::new(),
            member: String::new(),
            generation: -1,
            was_member: false,
            assignor: None,
            last_assignment: (Vec::new(), -1),
            rejoin_reason: None,
            reason: String::new(),
            partition_counts: None,
            changes: Changes::default(),
            heartbeat_at: Time(0),
            heartbeat_interval: Duration::ZERO,
            heartbeat_in_flight: false,
            error: None,
            nonfatal_error: None,
            work: None,
        }
    }

    pub fn subscribe(&mut self, now: Time, subscription: Subscription) {
        let is_same = subscription.topics == self.subscription;
        self.subscription = subscription.topics;
        match self.state {
            ClassicState::Unjoined | ClassicState::Leaving { .. } => self.start_over(now),
            _ if is_same => {}
            _ => self.rejoin_reason = Some("the subscription changed".to_owned()),
        }
    }

    /// Joins again after the member has left.
    pub fn rejoin(&mut self, now: Time) {
        if matches!(self.state, ClassicState::Unjoined) && self.error.is_none() {
            self.start_over(now);
        }
    }

    fn start_over(&mut self, now: Time) {
        self.invalidate_in_flight();
        self.coordinator.retry_at = now;
        self.state = ClassicState::Joining { request_sent: false };
    }

    /// Leaves the group because the application has not polled in time. The other members then need not wait for this
    /// member.
    pub fn expire(&mut self, now: Time) {
        if !self.has_left() {
            self.changes.lose_all();
            self.leave(now, "the consumer was not polled for max.poll.interval.ms");
        }
    }

    pub fn leave(&mut self, now: Time, reason: &str) {
        self.rejoin_reason = None;
        self.work = None;
        self.invalidate_in_flight();
        self.coordinator.clear_join_failure();
        let notifies = self.config.instance.is_none() && !self.member.is_empty() && !self.has_left();
        reason.clone_into(&mut self.reason);
        self.state = if notifies {
            ClassicState::Leaving { request_sent: false, deadline: now + LEAVE_WITHIN }
        } else {
            ClassicState::Unjoined
        };
        if !notifies {
            self.forget_generation();
        }
    }

    pub fn has_left(&self) -> bool {
        matches!(self.state, ClassicState::Unjoined)
    }

    pub fn log_unfinished_leave(&self) {
        if matches!(self.state, ClassicState::Leaving { .. }) {
            self.coordinator.log_not_left();
        }
    }

    pub fn epoch_and_id(&self) -> (i32, &str) {
        (self.generation, &self.member)
    }

    pub fn coordinator(&self) -> Option<i32> {
        self.coordinator.node()
    }

    pub fn is_joining(&self) -> bool {
        !matches!(self.state, ClassicState::Unjoined | ClassicState::Stable | ClassicState::Leaving { .. })
    }

    pub fn changes(&self) -> &Changes {
        &self.changes
    }

    pub fn changes_mut(&mut self) -> &mut Changes {
        &mut self.changes
    }

    pub fn take_error(&mut self) -> Option<Error> {
        self.error.take()
    }

    /// Takes an error that does not end the membership.
    pub fn take_nonfatal_error(&mut self) -> Option<Error> {
        self.nonfatal_error.take()
    }

    pub fn poll_work(&mut self) -> Option<Work> {
        self.work.take()
    }

    /// Ignores the responses to all requests that were sent before.
    fn invalidate_in_flight(&mut self) {
        self.coordinator.invalidate_in_flight();
        self.heartbeat_in_flight = false;
    }

    fn forget_generation(&mut self) {
        self.generation = -1;
        self.coordinator.demand.drops_topics |= self.partition_counts.take().is_some();
    }

    /// Ends the membership with an error, and leaves the group. If the member did not leave, the other members and the
    /// next membership of this consumer would wait until the session times out.
    fn fail(&mut self, now: Time, error: Error) {
        if matches!(self.state, ClassicState::Leaving { .. }) {
            return self.finish_leaving();
        }
        error.log_fatal(Component::Group);
        self.changes.lose_all();
        self.leave(now, "an error ended the membership");
        if self.has_left() {
            self.member.clear();
        }
        self.error = Some(error);
    }

    /// Retries after an authorization error, which an administrator can fix, or which may be temporary. The application
    /// gets the error in the meantime. If the session ends, the member joins again.
    fn wait_for_permission(&mut self, now: Time, step: Step, error: Error) {
        if matches!(self.state, ClassicState::Leaving { .. }) {
            return self.finish_leaving();
        }
        self.nonfatal_error = Some(error);
        self.coordinator.back_off(now);
        if matches!(step, Step::Join | Step::Sync) {
            self.join_again();
        }
    }

    /// Joins again under the same member ID.
    fn join_again(&mut self) {
        self.invalidate_in_flight();
        self.work = None;
        self.state = ClassicState::Joining { request_sent: false };
    }

    /// Joins again because the coordinator has dropped the member or its generation.
    fn lose_membership(&mut self, code: ErrorCode) {
        if code == ErrorCode::UNKNOWN_MEMBER_ID {
            self.member.clear();
        }
        self.forget_generation();
        self.changes.lose_all();
        self.join_again();
    }

    fn mark_coordinator_unknown(&mut self, now: Time) {
        self.heartbeat_in_flight = false;
        self.coordinator.mark_unknown(now);
    }

    fn assignors(&self) -> &[Strategy] {
        match &self.config.protocol {
            Protocol::Classic(assignors) => assignors,
            Protocol::Consumer(_) => &[],
        }
    }

    /// Returns whether the member keeps its partitions while it joins, because all its assignors are cooperative.
    fn is_cooperative(&self) -> bool {
        self.assignors().iter().all(Strategy::is_cooperative)
    }

    fn send(&mut self, now: Time, target: Target, call: impl Call + 'static, step: Step) {
        let timeout = self.config.request_timeout + call.max_broker_wait();
        self.coordinator.send(now, now + timeout, target, call, step);
    }

    pub fn poll_send(&mut self, now: Time) -> Option<Outgoing<GroupToken>> {
        self.coordinator.poll_send().or_else(|| {
            self.step(now);
            self.coordinator.poll_send()
        })
    }

    pub fn poll_demand(&mut self) -> Option<MetadataDemand> {
        self.coordinator.poll_demand()
    }

    fn step(&mut self, now: Time) {
        self.coordinator.timers.clear();
        if let ClassicState::Leaving { deadline, .. } = self.state
            && self.coordinator.timers.is_due(GroupTimer::Leave, deadline, now)
        {
            self.log_unfinished_leave();
            self.finish_leaving();
        }
        if self.has_left() {
            return;
        }
        let Some(node) = self.coordinator.reach(now) else { return };
        if matches!(self.state, ClassicState::Stable) && self.changes.all_handled() {
            self.prepare();
        }
        match &mut self.state {
            ClassicState::Joining { request_sent } if !*request_sent && self.changes.all_handled() => {
                *request_sent = true;
                if self.coordinator.rebalancing_since.is_none() {
                    self.coordinator.rebalancing_since = Some(now);
                    self.coordinator.log_joining(&self.reason);
                }
                self.join(now, node);
            }
            ClassicState::Syncing { request_sent, assignment } if !*request_sent => {
                *request_sent = true;
                let assignment = std::mem::take(assignment);
                self.sync(now, node, &assignment);
            }
            ClassicState::Assigning(_) => self.assign(),
            ClassicState::Leaving { request_sent, deadline } if !*request_sent => {
                *request_sent = true;
                let deadline = *deadline;
                let member = leave_group::Member {
                    member_id: self.member.clone(),
                    group_instance_id: None,
                    reason: Some(self.reason.clone()),
                };
                let request = leave_group::Request {
                    group_id: self.config.group.clone(),
                    member_id: self.member.clone(),
                    members: vec![member],
                };
                self.coordinator.send_leave(now, deadline, Target::Node(node), request);
            }
            _ => {}
        }
        self.send_heartbeat(now, node);
    }

    /// Prepares to join again, if there is a reason.
    fn prepare(&mut self) {
        let Some(reason) = self.rejoin_reason.take() else {
            return;
        };
        self.reason = reason;
        if self.is_cooperative() {
            let keeps = |p: &&TopicPartition| self.subscription.contains(&p.topic);
            let kept: BTreeSet<TopicPartition> = self.changes.owned.iter().filter(keeps).cloned().collect();
            self.changes.follow(&kept);
        } else {
            self.changes.revoke_all();
        }
        self.join_again();
    }

    /// Returns whether the coordinator expects heartbeats. The coordinator expects no heartbeats while it holds back
    /// the response to JoinGroup or SyncGroup. The coordinator would answer a heartbeat only after that response.
    fn expects_heartbeats(&self) -> bool {
        matches!(
            self.state,
            ClassicState::Stable
                | ClassicState::Assigning(_)
                | ClassicState::Joining { request_sent: false }
                | ClassicState::Syncing { request_sent: false, .. }
        )
    }

    fn send_heartbeat(&mut self, now: Time, node: i32) {
        let may_send = !self.heartbeat_in_flight && self.generation >= 0 && self.expects_heartbeats();
        if may_send && self.coordinator.timers.is_due(GroupTimer::Heartbeat, self.heartbeat_at, now) {
            self.heartbeat_in_flight = true;
            self.heartbeat_at = now + self.heartbeat_interval;
            let request = heartbeat::Request {
                group_id: self.config.group.clone(),
                generation_id: self.generation,
                member_id: self.member.clone(),
                group_instance_id: self.config.instance.clone(),
            };
            let deadline = now + self.config.session_timeout.min(self.config.request_timeout);
            self.coordinator.send(now, deadline, Target::Group(node), request, Step::Heartbeat);
        }
    }

    pub fn next_timeout(&self) -> Option<Time> {
        self.coordinator.timers.next_timeout()
    }

    pub fn handle_cluster(&mut self, cluster: &Arc<Cluster>) {
        self.coordinator.cluster = cluster.clone();
        if matches!(self.state, ClassicState::Stable) {
            self.check_topics();
        }
    }

    /// Returns the topics of the group, if this member leads it.
    pub fn group_topics(&self) -> impl Iterator<Item = &Arc<str>> {
        self.partition_counts.iter().flat_map(BTreeMap::keys)
    }

    /// Joins again if the number of partitions of a topic has changed since the assignment.
    fn check_topics(&mut self) {
        let mut partition_counts = self.partition_counts.iter().flatten();
        if let Some((topic, _)) = partition_counts.find(|(topic, count)| self.count(topic) != **count) {
            self.rejoin_reason = Some(format!("the number of partitions of topic {topic} changed"));
        }
    }

    fn count(&self, topic: &str) -> usize {
        self.coordinator.cluster.topics.get(topic).filter(|t| !t.error.is_error()).map_or(0, |t| t.partitions.len())
    }

    pub fn handle_response(&mut self, now: Time, response: ClientResponse<GroupToken>) {
        let step = response.token.step;
        if !self.coordinator.is_current(response.token) {
            return;
        }
        if step == Step::Heartbeat {
            self.heartbeat_in_flight = false;
        }
        if step == Step::Leave {
            let code = |r: leave_group::Response| r.members.first().map_or(r.error_code, |m| m.error_code);
            match (&mut self.state, self.coordinator.must_leave_again(now, response.result, code)) {
                (ClassicState::Leaving { request_sent, .. }, true) => *request_sent = false,
                _ => self.finish_leaving(),
            }
            return;
        }
        let is_response = response.result.is_ok();
        let has_timed_out = response.result.as_ref().is_err_and(|e| e.kind() == ErrorKind::Timeout);
        if !has_timed_out && matches!(step, Step::Join | Step::Sync) {
            self.coordinator.exclude_rebalance_wait(now);
        }
        let result = response.result.and_then(|reply| match step {
            Step::Find => self.coordinator.handle_find_coordinator(now, reply),
            Step::Join => self.handle_joined(now, reply),
            Step::Sync => self.handle_synced(now, reply),
            _ => self.handle_heartbeat(now, reply),
        });
        let Err(error) = result else { return };
        // New members often join while the others sync.
        let is_usual = step == Step::Sync && error.code() == Some(ErrorCode::REBALANCE_IN_PROGRESS);
        if step != Step::Heartbeat && !is_usual {
            self.note_failure(now, self.coordinator.failing_since(now, &error), &error);
        }
        self.handle_error(now, step, error, is_response);
    }

    pub fn handle_unreachable(&mut self, now: Time, error: &Error) {
        if self.wants_to_join() {
            self.coordinator.note_join_failure(now, now, error);
        }
    }

    /// Notes and reports the error of a failed attempt to join.
    fn note_failure(&mut self, now: Time, since: Time, error: &Error) {
        if self.wants_to_join() {
            self.coordinator.note_join_failure(now, since, error);
            self.coordinator.report_failure(now, error);
        }
    }

    fn wants_to_join(&self) -> bool {
        matches!(self.state, ClassicState::Joining { .. } | ClassicState::Syncing { .. })
    }

    /// Handles an error code of a response, or the error of a request without a response.
    fn handle_error(&mut self, now: Time, step: Step, error: Error, is_response: bool) {
        let is_joining = matches!(step, Step::Join | Step::Sync);
        match error.code().filter(|_| is_response) {
            Some(code) if is_unauthorized(code) => return self.wait_for_permission(now, step, error),
            Some(ErrorCode::REBALANCE_IN_PROGRESS) if is_joining => self.coordinator.retry_immediately_once(now),
            Some(ErrorCode::REBALANCE_IN_PROGRESS) if step == Step::Heartbeat => {
                if matches!(self.state, ClassicState::Stable) {
                    self.rejoin_reason.get_or_insert_with(|| "the group rebalances".to_owned());
                }
            }
            Some(code @ (ErrorCode::UNKNOWN_MEMBER_ID | ErrorCode::ILLEGAL_GENERATION)) if step != Step::Find => {
                self.coordinator.retry_immediately_once(now);
                return self.lose_membership(code);
            }
            Some(ErrorCode::COORDINATOR_LOAD_IN_PROGRESS) => self.coordinator.back_off(now),
            _ if may_retry(&error, is_response && !matches!(self.state, ClassicState::Leaving { .. })) => {
                if !error.is_retriable() {
                    self.coordinator.report_failure(now, &error);
                }
                self.mark_coordinator_unknown(now);
            }
            _ => return self.fail(now, error),
        }
        if is_joining {
            self.join_again();
        }
    }

    fn handle_joined(&mut self, now: Time, reply: Reply) -> Result<(), Error> {
        let response: join_group::Response = self.coordinator.read(reply)?;
        if response.error_code == ErrorCode::MEMBER_ID_REQUIRED {
            if !self.member.is_empty() {
                self.coordinator.retry_immediately_once(now);
            }
            self.member = response.member_id;
            self.join_again();
            return Ok(());
        }
        self.check(response.error_code, "join")?;
        self.member = response.member_id;
        self.generation = response.generation_id;
        self.was_member = true;
        self.heartbeat_interval = self.config.heartbeat_interval;
        self.heartbeat_at = now + self.heartbeat_interval;
        let name = response.protocol_name.unwrap_or_default();
        self.assignor = self.assignors().iter().find(|a| a.name() == name).cloned();
        self.coordinator.demand.drops_topics |= self.partition_counts.take().is_some();
        if self.assignor.is_none() {
            let message =
                format!("group {:?} chose assignor {name:?}, which this member did not offer", self.config.group);
            self.nonfatal_error = Some(Error::new(ErrorKind::Decode, message));
            // All assignors use the same member format, so this member's own assignor can assign.
            self.assignor = self.assignors().first().cloned();
        }
        if response.leader != self.member {
            self.state = ClassicState::Syncing { request_sent: false, assignment: Assignment::new() };
            return Ok(());
        }
        let mut members = Vec::with_capacity(response.members.len());
        for member in response.members {
            // A member that cannot be read gets no partitions. An error would end this membership, and then that of the
            // next leader.
            let subscription = embedded::decode(member.metadata).unwrap_or_default();
            members.push(Joined { id: member.member_id, instance: member.group_instance_id, subscription });
        }
        let topics: BTreeSet<&str> = members.iter().flat_map(|m| &m.subscription.topics).map(String::as_str).collect();
        self.partition_counts = Some(topics.iter().map(|t| (Arc::from(*t), self.count(t))).collect());
        self.state = if response.skip_assignment {
            ClassicState::Syncing { request_sent: false, assignment: Assignment::new() }
        } else {
            ClassicState::Assigning(Assigning { members, is_computing: false })
        };
        Ok(())
    }

    /// Starts the assignment if the leader has the metadata of all topics of the group.
    fn assign(&mut self) {
        let (ClassicState::Assigning(assigning), Some(assignor), Some(partition_counts)) =
            (&mut self.state, &self.assignor, &mut self.partition_counts)
        else {
            return;
        };
        if assigning.is_computing {
            return;
        }
        let unknown: Vec<Arc<str>> =
            partition_counts.keys().filter(|t| !self.coordinator.cluster.topics.contains_key(*t)).cloned().collect();
        if !unknown.is_empty() {
            self.coordinator.demand.topics.extend(unknown);
            return;
        }
        assigning.is_computing = true;
        for (topic, count) in partition_counts.iter_mut() {
            let metadata = self.coordinator.cluster.topics.get(topic).filter(|t| !t.error.is_error());
            *count = metadata.map_or(0, |t| t.partitions.len());
        }
        let topics = Topics::of(&self.coordinator.cluster, partition_counts.keys().map(|t| &**t));
        let members = std::mem::take(&mut assigning.members);
        self.work = Some(Work { round: self.coordinator.round(), assignor: assignor.clone(), topics, members });
    }

    pub fn assigned(&mut self, now: Time, assignments: Assignments) {
        if assignments.round != self.coordinator.round() || !matches!(self.state, ClassicState::Assigning(_)) {
            return;
        }
        match assignments.result {
            Ok(assignment) => {
                self.state = ClassicState::Syncing { request_sent: false, assignment };
                self.coordinator.retry_at = now;
            }
            Err(error) => {
                // The other members should not wait for a leader whose assignor failed.
                self.changes.lose_all();
                self.leave(now, "its assignor failed");
                self.error = Some(error);
            }
        }
    }

    fn handle_synced(&mut self, now: Time, reply: Reply) -> Result<(), Error> {
        let response: sync_group::Response = self.coordinator.read(reply)?;
        self.check(response.error_code, "sync")?;
        let assignment: embedded::Assignment = match response.assignment.is_empty() {
            true => embedded::Assignment::default(),
            false => embedded::decode(response.assignment).unwrap_or_else(|e| {
                self.nonfatal_error = Some(self.malformed("an assignment", &e));
                embedded::Assignment::default()
            }),
        };
        let partitions = assignment.assigned_partitions.iter().flat_map(|t| {
            let topic: Arc<str> = t.topic.as_str().into();
            t.partitions.iter().map(move |p| TopicPartition::new(topic.clone(), *p))
        });
        let target: BTreeSet<TopicPartition> = partitions.collect();
        let since = self.coordinator.rebalancing_since.take().unwrap_or(now);
        let role = if self.partition_counts.is_some() { "leader" } else { "member" };
        let (generation, count) = (self.generation, counted(target.len() as u64, "partition"));
        self.coordinator.log_joined(now, since, format_args!("{role} in generation {generation}, {count}"));
        self.coordinator.succeeded();
        self.coordinator.clear_join_failure();
        self.coordinator.demand.topics.extend(target.iter().map(|p| p.topic.clone()));
        self.last_assignment = (target.iter().cloned().collect(), self.generation);
        if self.changes.follow(&target) {
            self.rejoin_reason.get_or_insert_with(|| "partitions were given up for other members".to_owned());
        }
        self.state = ClassicState::Stable;
        // The topics may have changed since the leader assigned them.
        self.check_topics();
        // Members that start together join one after the other. A late member waits until all other members join again,
        // which they do after their next heartbeat. The first heartbeats therefore come early.
        self.heartbeat_interval = self.config.heartbeat_interval / FIRST_HEARTBEAT_DIVISOR;
        self.heartbeat_at = now + self.heartbeat_interval;
        self.coordinator.retry_at = now;
        self.reason.clear();
        Ok(())
    }

    fn handle_heartbeat(&mut self, now: Time, reply: Reply) -> Result<(), Error> {
        let response: heartbeat::Response = self.coordinator.read(reply)?;
        self.check(response.error_code, "heartbeat")?;
        self.coordinator.succeeded();
        if !self.wants_to_join() {
            self.coordinator.clear_join_failure();
        }
        self.heartbeat_interval = (self.heartbeat_interval * 2).min(self.config.heartbeat_interval);
        self.heartbeat_at = now + self.heartbeat_interval;
        Ok(())
    }

    fn finish_leaving(&mut self) {
        self.invalidate_in_flight();
        self.forget_generation();
        self.member.clear();
        self.state = ClassicState::Unjoined;
    }

    fn check(&self, code: ErrorCode, what: &str) -> Result<(), Error> {
        code.check().map_err(|code| Error::refused(code, format!("{what} group {:?}", self.config.group)))
    }

    fn malformed(&self, what: &str, e: &crate::wire::Error) -> Error {
        let message = format!("group {:?} has {what} that is malformed: {e}", self.config.group);
        Error::new(ErrorKind::Decode, message)
            .with_hint("check the client of the group's leader; this member reads nothing until the next rebalance")
    }
}
