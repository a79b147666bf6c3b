//! A member of a classic group (`group.protocol=classic`): the members join, and one of them assigns the partitions.
//!
//! ```text
//! Out → Joining → Assigning → Syncing → Stable      the leader of the group
//!       Joining ────────────→ Syncing → Stable      the other members
//!         ↑  a member came or left, a topic got partitions, the subscription changed: from any of them
//! ```
//!
//! Under the eager protocol a member revokes all partitions before it joins. Under the cooperative protocol (KIP-429)
//! it revokes only the partitions that the new assignment does not contain. The member joins after the application has
//! finished the revocation, and sends heartbeats until then.

mod requests;

use super::assignor::{Assignment, Topics};
use super::changes::Changes;
use super::config::{GroupConfig, Protocol, Subscription};
use super::coordinator_client::{CoordinatorClient, GroupTimer, GroupToken, LEAVE_WITHIN, Step, is_unauthorized};
use super::strategy::{Assignments, Joined, Strategy, Work};
use crate::api::data::consumer_protocol as embedded;
use crate::api::{ErrorCode, heartbeat, join_group, leave_group, sync_group};
use crate::engine::{
    Call, ClientResponse, Cluster, Error, ErrorKind, MetadataDemand, Outgoing, Reply, Target, Time, TopicPartition,
    coordinator,
};
use crate::logging::Component;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// The first heartbeat of a generation is sent after this fraction of the interval; each following wait doubles.
const FIRST_HEARTBEAT: u32 = 10;

/// The members to assign partitions to, while the leader waits for metadata of topics that only other members read.
struct Assigning {
    members: Vec<Joined>,
    asked: bool,
}

enum ClassicState {
    Out,
    Joining { asked: bool },
    Assigning(Assigning),
    Syncing { asked: bool, assignment: Assignment },
    Stable,
    Leaving { asked: bool, deadline: Time },
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
    last: (Vec<TopicPartition>, i32),
    /// Why the member should join again.
    rejoin: Option<String>,
    reason: String,
    /// How many partitions each topic had when the leader assigned them.
    watched: Option<BTreeMap<Arc<str>, usize>>,
    changes: Changes,
    heartbeat_at: Time,
    /// The wait between heartbeats; it grows to the configured interval.
    heartbeat_every: Duration,
    heartbeat_in_flight: bool,
    error: Option<Error>,
    /// An error that does not end the membership.
    complaint: Option<Error>,
    work: Option<Work>,
}

impl ClassicMember {
    pub fn new(config: Arc<GroupConfig>) -> Self {
        Self {
            coordinator: config.coordinator_client(),
            config,
            state: ClassicState::Out,
            subscription: BTreeSet::new(),
            member: String::new(),
            generation: -1,
            was_member: false,
            assignor: None,
            last: (Vec::new(), -1),
            rejoin: None,
            reason: String::new(),
            watched: None,
            changes: Changes::default(),
            heartbeat_at: Time(0),
            heartbeat_every: Duration::ZERO,
            heartbeat_in_flight: false,
            error: None,
            complaint: None,
            work: None,
        }
    }

    pub fn subscribe(&mut self, now: Time, subscription: Subscription) {
        let is_same = subscription.topics == self.subscription;
        self.subscription = subscription.topics;
        match self.state {
            ClassicState::Out | ClassicState::Leaving { .. } => self.start_over(now),
            _ if is_same => {}
            _ => self.rejoin = Some("the subscription changed".to_owned()),
        }
    }

    /// Joins again after the member was out.
    pub fn rejoin(&mut self, now: Time) {
        if matches!(self.state, ClassicState::Out) && self.error.is_none() {
            self.start_over(now);
        }
    }

    fn start_over(&mut self, now: Time) {
        self.next_round();
        self.coordinator.retry_at = now;
        self.state = ClassicState::Joining { asked: false };
    }

    /// Leaves because the application has not polled in time, so that the other members need not wait for it.
    pub fn expire(&mut self, now: Time) {
        if !self.has_left() {
            self.changes.lose_all();
            self.leave(now, "the consumer was not polled for max.poll.interval.ms");
        }
    }

    pub fn leave(&mut self, now: Time, reason: &str) {
        self.rejoin = None;
        self.work = None;
        self.next_round();
        self.coordinator.forget_trouble();
        let notifies = self.config.instance.is_none() && !self.member.is_empty() && !self.has_left();
        reason.clone_into(&mut self.reason);
        self.state = if notifies {
            ClassicState::Leaving { asked: false, deadline: now + LEAVE_WITHIN }
        } else {
            ClassicState::Out
        };
        if !notifies {
            self.forget_generation();
        }
    }

    pub fn has_left(&self) -> bool {
        matches!(self.state, ClassicState::Out)
    }

    pub fn epoch_and_id(&self) -> (i32, &str) {
        (self.generation, &self.member)
    }

    pub fn coordinator(&self) -> Option<i32> {
        self.coordinator.node()
    }

    pub fn is_joining(&self) -> bool {
        !matches!(self.state, ClassicState::Out | ClassicState::Stable | ClassicState::Leaving { .. })
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

    /// Returns an error that does not end the membership, once.
    pub fn take_complaint(&mut self) -> Option<Error> {
        self.complaint.take()
    }

    pub fn poll_work(&mut self) -> Option<Work> {
        self.work.take()
    }

    /// Makes the responses to all requests so far void.
    fn next_round(&mut self) {
        self.coordinator.next_round();
        self.heartbeat_in_flight = false;
    }

    fn forget_generation(&mut self) {
        self.generation = -1;
        self.coordinator.demand.drops_topics |= self.watched.take().is_some();
    }

    /// Ends the membership with an error. The member leaves: otherwise the others, and the next membership of this
    /// consumer, would wait until its session ends.
    fn fail(&mut self, now: Time, error: Error) {
        if matches!(self.state, ClassicState::Leaving { .. }) {
            return self.leave_done();
        }
        error.log_fatal(Component::Group);
        self.changes.lose_all();
        self.leave(now, "an error ended the membership");
        if self.has_left() {
            self.member.clear();
        }
        self.error = Some(error);
    }

    /// Tries again after a refusal that an administrator can end, or that passes by itself. The application gets the error
    /// meanwhile. If the session ends, the member joins again.
    fn wait_for_permission(&mut self, now: Time, step: Step, error: Error) {
        if matches!(self.state, ClassicState::Leaving { .. }) {
            return self.leave_done();
        }
        self.complaint = Some(error);
        self.coordinator.try_later(now);
        if matches!(step, Step::Join | Step::Sync) {
            self.join_again();
        }
    }

    /// Joins again under the same member ID.
    fn join_again(&mut self) {
        self.next_round();
        self.work = None;
        self.state = ClassicState::Joining { asked: false };
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

    fn lose_coordinator(&mut self, now: Time) {
        self.heartbeat_in_flight = false;
        self.coordinator.lose(now);
    }

    fn assignors(&self) -> &[Strategy] {
        match &self.config.protocol {
            Protocol::Classic(assignors) => assignors,
            Protocol::Consumer(_) => &[],
        }
    }

    /// Returns whether the member keeps its partitions while it joins: all its assignors are cooperative.
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
            self.leave_done();
        }
        if self.has_left() {
            return;
        }
        let Some(node) = self.coordinator.reach(now) else { return };
        if matches!(self.state, ClassicState::Stable) && self.changes.is_settled() {
            self.prepare();
        }
        match &mut self.state {
            ClassicState::Joining { asked } if !*asked && self.changes.is_settled() => {
                *asked = true;
                if self.coordinator.rebalancing_since.is_none() {
                    self.coordinator.rebalancing_since = Some(now);
                    self.coordinator.log_joining(&self.reason);
                }
                self.join(now, node);
            }
            ClassicState::Syncing { asked, assignment } if !*asked => {
                *asked = true;
                let assignment = std::mem::take(assignment);
                self.sync(now, node, &assignment);
            }
            ClassicState::Assigning(_) => self.assign(),
            ClassicState::Leaving { asked, deadline } if !*asked => {
                *asked = true;
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
        let Some(reason) = self.rejoin.take() else {
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

    /// Returns whether the coordinator expects heartbeats. While it holds back the response to JoinGroup or SyncGroup
    /// it expects none, and the response to a heartbeat would come after that one.
    fn expects_heartbeats(&self) -> bool {
        matches!(
            self.state,
            ClassicState::Stable
                | ClassicState::Assigning(_)
                | ClassicState::Joining { asked: false }
                | ClassicState::Syncing { asked: false, .. }
        )
    }

    fn send_heartbeat(&mut self, now: Time, node: i32) {
        let may_send = !self.heartbeat_in_flight && self.generation >= 0 && self.expects_heartbeats();
        if may_send && self.coordinator.timers.is_due(GroupTimer::Heartbeat, self.heartbeat_at, now) {
            self.heartbeat_in_flight = true;
            self.heartbeat_at = now + self.heartbeat_every;
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
    pub fn watched(&self) -> impl Iterator<Item = &Arc<str>> {
        self.watched.iter().flat_map(BTreeMap::keys)
    }

    /// Joins again if the number of a topic's partitions changed since the assignment.
    fn check_topics(&mut self) {
        let mut watched = self.watched.iter().flatten();
        if let Some((topic, _)) = watched.find(|(topic, count)| self.count(topic) != **count) {
            self.rejoin = Some(format!("the number of partitions of topic {topic} changed"));
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
            match (&mut self.state, self.coordinator.leaves_again(now, response.result, code)) {
                (ClassicState::Leaving { asked, .. }, true) => *asked = false,
                _ => self.leave_done(),
            }
            return;
        }
        let has_response = !response.result.as_ref().is_err_and(|e| e.kind() == ErrorKind::Timeout);
        if has_response && matches!(step, Step::Join | Step::Sync) {
            self.coordinator.waited(now);
        }
        let result = response.result.and_then(|reply| match step {
            Step::Find => self.coordinator.found(now, reply),
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
        if error.is_retriable() && error.code().is_none_or(|c| !is_of_group(c)) {
            self.handle_failure(now, step, error);
        } else {
            self.refused(now, step, error);
        }
    }

    pub fn handle_unreachable(&mut self, now: Time, error: &Error) {
        if self.wants_to_join() {
            self.coordinator.failed_to_join(now, now, error);
        }
    }

    /// Notes and reports why a member that wants to join could not.
    fn note_failure(&mut self, now: Time, since: Time, error: &Error) {
        if self.wants_to_join() {
            self.coordinator.report_failure(now, error);
            self.coordinator.failed_to_join(now, since, error);
        }
    }

    fn wants_to_join(&self) -> bool {
        matches!(self.state, ClassicState::Joining { .. } | ClassicState::Syncing { .. })
    }

    /// Handles a missing response, or an error that says nothing about the membership.
    fn handle_failure(&mut self, now: Time, step: Step, error: Error) {
        if !error.is_retriable() {
            return self.fail(now, error);
        }
        self.lose_coordinator(now);
        match step {
            Step::Join | Step::Sync => self.join_again(),
            Step::Find | Step::Heartbeat | Step::Leave => {}
        }
    }

    fn refused(&mut self, now: Time, step: Step, error: Error) {
        match error.code() {
            Some(code) if coordinator::is_moved(code) => {
                self.lose_coordinator(now);
                if matches!(step, Step::Join | Step::Sync) {
                    self.join_again();
                }
            }
            Some(ErrorCode::COORDINATOR_LOAD_IN_PROGRESS) => {
                self.coordinator.try_later(now);
                if matches!(step, Step::Join | Step::Sync) {
                    self.join_again();
                }
            }
            Some(ErrorCode::REBALANCE_IN_PROGRESS) => match step {
                Step::Heartbeat => {
                    if matches!(self.state, ClassicState::Stable) {
                        self.rejoin.get_or_insert_with(|| "the group rebalances".to_owned());
                    }
                }
                _ => {
                    self.coordinator.ask_again(now);
                    self.join_again();
                }
            },
            Some(code @ (ErrorCode::UNKNOWN_MEMBER_ID | ErrorCode::ILLEGAL_GENERATION)) => {
                self.coordinator.ask_again(now);
                self.lose_membership(code);
            }
            Some(code) if is_unauthorized(code) => self.wait_for_permission(now, step, error),
            _ => self.fail(now, error),
        }
    }

    fn handle_joined(&mut self, now: Time, reply: Reply) -> Result<(), Error> {
        let response: join_group::Response = self.coordinator.read(reply)?;
        if response.error_code == ErrorCode::MEMBER_ID_REQUIRED {
            if !self.member.is_empty() {
                self.coordinator.ask_again(now);
            }
            self.member = response.member_id;
            self.join_again();
            return Ok(());
        }
        self.check(response.error_code, "join")?;
        self.member = response.member_id;
        self.generation = response.generation_id;
        self.was_member = true;
        self.heartbeat_every = self.config.heartbeat_interval;
        self.heartbeat_at = now + self.heartbeat_every;
        let name = response.protocol_name.unwrap_or_default();
        self.assignor = self.assignors().iter().find(|a| a.name() == name).cloned();
        self.coordinator.demand.drops_topics |= self.watched.take().is_some();
        if self.assignor.is_none() {
            let message =
                format!("group {:?} chose assignor {name:?}, which this member did not offer", self.config.group);
            self.complaint = Some(Error::new(ErrorKind::Decode, message));
            // Members of all assignors have the same form, so the own one can assign.
            self.assignor = self.assignors().first().cloned();
        }
        if response.leader != self.member {
            self.state = ClassicState::Syncing { asked: false, assignment: Assignment::new() };
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
        self.watched = Some(topics.iter().map(|t| (Arc::from(*t), self.count(t))).collect());
        self.state = if response.skip_assignment {
            ClassicState::Syncing { asked: false, assignment: Assignment::new() }
        } else {
            ClassicState::Assigning(Assigning { members, asked: false })
        };
        Ok(())
    }

    /// Starts the assignment when the leader has metadata of all topics of the group.
    fn assign(&mut self) {
        let (ClassicState::Assigning(assigning), Some(assignor), Some(watched)) =
            (&mut self.state, &self.assignor, &mut self.watched)
        else {
            return;
        };
        if assigning.asked {
            return;
        }
        let unknown: Vec<Arc<str>> =
            watched.keys().filter(|t| !self.coordinator.cluster.topics.contains_key(*t)).cloned().collect();
        if !unknown.is_empty() {
            self.coordinator.demand.topics.extend(unknown);
            return;
        }
        assigning.asked = true;
        for (topic, count) in watched.iter_mut() {
            let known = self.coordinator.cluster.topics.get(topic).filter(|t| !t.error.is_error());
            *count = known.map_or(0, |t| t.partitions.len());
        }
        let topics = Topics::of(&self.coordinator.cluster, watched.keys().map(|t| &**t));
        let members = std::mem::take(&mut assigning.members);
        self.work = Some(Work { round: self.coordinator.round(), assignor: assignor.clone(), topics, members });
    }

    pub fn assigned(&mut self, now: Time, made: Assignments) {
        if made.round != self.coordinator.round() || !matches!(self.state, ClassicState::Assigning(_)) {
            return;
        }
        match made.result {
            Ok(assignment) => {
                self.state = ClassicState::Syncing { asked: false, assignment };
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
                self.complaint = Some(self.malformed("an assignment", &e));
                embedded::Assignment::default()
            }),
        };
        let partitions = assignment.assigned_partitions.iter().flat_map(|t| {
            let topic: Arc<str> = t.topic.as_str().into();
            t.partitions.iter().map(move |p| TopicPartition::new(topic.clone(), *p))
        });
        let target: BTreeSet<TopicPartition> = partitions.collect();
        let since = self.coordinator.rebalancing_since.take().unwrap_or(now);
        let role = if self.watched.is_some() { "leader" } else { "member" };
        let (generation, count) = (self.generation, target.len());
        self.coordinator.log_joined(now, since, format_args!("{role} in generation {generation}, {count} partitions"));
        self.coordinator.succeeded();
        self.coordinator.forget_trouble();
        self.coordinator.demand.topics.extend(target.iter().map(|p| p.topic.clone()));
        self.last = (target.iter().cloned().collect(), self.generation);
        if self.changes.follow(&target) {
            self.rejoin.get_or_insert_with(|| "partitions were given up for other members".to_owned());
        }
        self.state = ClassicState::Stable;
        // The topics may have changed since the leader assigned them.
        self.check_topics();
        // Members that start together join one after the other. A late one waits until the heartbeats of all others
        // have told them to join again, so the first heartbeats come early.
        self.heartbeat_every = self.config.heartbeat_interval / FIRST_HEARTBEAT;
        self.heartbeat_at = now + self.heartbeat_every;
        self.coordinator.retry_at = now;
        self.reason.clear();
        Ok(())
    }

    fn handle_heartbeat(&mut self, now: Time, reply: Reply) -> Result<(), Error> {
        let response: heartbeat::Response = self.coordinator.read(reply)?;
        self.check(response.error_code, "heartbeat")?;
        self.coordinator.succeeded();
        self.heartbeat_every = (self.heartbeat_every * 2).min(self.config.heartbeat_interval);
        self.heartbeat_at = now + self.heartbeat_every;
        Ok(())
    }

    fn leave_done(&mut self) {
        self.next_round();
        self.forget_generation();
        self.member.clear();
        self.state = ClassicState::Out;
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

/// Returns whether an error code says something about the membership, retriable or not.
fn is_of_group(code: ErrorCode) -> bool {
    coordinator::is_moved(code)
        || matches!(code, ErrorCode::COORDINATOR_LOAD_IN_PROGRESS | ErrorCode::REBALANCE_IN_PROGRESS)
}
