//! The client side of the group protocols in which a member only sends heartbeats: consumer groups (KIP-848) and share
//! groups (KIP-932). Classic groups have their own heartbeat timer in `classic.rs`.
//!
//! The coordinator assigns partitions in its responses to heartbeats. This file times the heartbeats, joins and leaves
//! the group, and joins again when the coordinator has removed the member. Each protocol implements
//! [`HeartbeatProtocol`]. This trait covers the fields of the request, the way in which the member applies its
//! assignment, and error codes that only one protocol has.
//!
//! ```text
//! Unsubscribed → Joining (epoch 0) → Stable (epoch > 0) → Leaving (epoch -1 or -2) → Unsubscribed
//!                   ↑ fenced or unknown ┘
//! ```

use super::coordinator_client::{
    CoordinatorClient, GroupTimer, GroupToken, LEAVE_WITHIN, Step, is_unauthorized, may_retry,
};
use crate::api::{self, ErrorCode};
use crate::engine::call::AtLeast;
use crate::engine::{ClientResponse, Cluster, Error, MetadataDemand, Outgoing, Reply, Target, Time};
use crate::logging::Component;
use crate::random::Random;
use crate::wire::Uuid;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// The member epoch in the heartbeat of a member that joins.
pub(super) const JOIN: i32 = 0;
/// The interval of heartbeats until the coordinator has sent another interval.
const DEFAULT_INTERVAL: Duration = Duration::from_secs(5);
/// The first version of both heartbeat APIs that released brokers support and in which members choose their own IDs.
const MIN_VERSION: i16 = 1;

/// Partitions by topic ID, as the coordinator sends them in assignments.
pub(super) type PartitionsById = BTreeMap<Uuid, Vec<i32>>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MemberState {
    Unsubscribed,
    Joining,
    Stable,
    Leaving { deadline: Time },
}

/// The fields that the heartbeat responses of both protocols have.
pub(super) struct Heartbeat {
    pub error_code: ErrorCode,
    pub error_message: Option<String>,
    pub member_id: Option<String>,
    pub member_epoch: i32,
    pub interval_ms: i32,
    pub assignment: Option<PartitionsById>,
}

/// How a member reacts to an error code, if the reaction depends on its protocol or its epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reaction {
    /// Joins again as a new member.
    Rejoin,
    /// Sends the heartbeat again later.
    Retry,
    /// Ends the membership.
    End,
}

/// The differences between the two heartbeat protocols.
pub(super) trait HeartbeatProtocol {
    /// The request type of a heartbeat.
    type Request: api::Request;
    /// The response type of a heartbeat.
    type Response: api::Message;
    /// The type of group, for messages.
    const GROUP: &str;

    /// Returns a request with the fields that every heartbeat has.
    fn request(&self, member_id: &str, epoch: i32) -> Self::Request;
    /// Reads a response.
    fn read(response: Self::Response) -> Heartbeat;
    /// Returns the member epoch in the heartbeat of a member that leaves.
    fn leave_epoch(&self) -> i32;
    /// Adds the fields that the coordinator does not know yet.
    fn add_changed_fields(&mut self, request: &mut Self::Request, cluster: &Cluster);
    /// Returns whether the member has changes that must reach the coordinator before the next heartbeat is due.
    fn has_changed_fields(&self) -> bool;
    /// Notes that the coordinator accepted the fields that [`HeartbeatProtocol::add_changed_fields`] added last.
    fn accepted(&mut self);
    /// Notes that the coordinator may have lost the member's fields, so the next heartbeat has to contain all of them.
    fn forget_accepted(&mut self);
    /// Returns whether the member may join now.
    fn may_join(&self) -> bool {
        true
    }
    /// Handles a new assignment.
    fn assign(&mut self, assignment: PartitionsById);
    /// Notes that the cluster changed, before the next [`HeartbeatProtocol::reconcile`].
    fn cluster_changed(&mut self) {}
    /// Applies the assignment for all topics whose names are known. Returns the IDs of the other topics.
    fn reconcile(&mut self, cluster: &Cluster) -> Vec<Uuid>;
    /// Drops an assignment that the member has not applied yet.
    fn unassign(&mut self);
    /// Gives up all partitions at once, because the coordinator may have assigned them to other members.
    fn lose_all(&mut self);
    /// Returns the reaction to an error code of a heartbeat, if it depends on the protocol or the epoch.
    fn react(&mut self, now: Time, epoch: i32, code: ErrorCode) -> Option<Reaction>;
    /// Returns the hint for an error code, if the general hint does not fit.
    fn hint(code: ErrorCode) -> Option<&'static str>;
}

/// A member of a group with a heartbeat protocol.
pub struct HeartbeatMember<P> {
    pub(super) protocol: P,
    pub(super) coordinator: CoordinatorClient,
    state: MemberState,
    member_id: String,
    epoch: i32,
    interval: Duration,
    heartbeat_at: Time,
    in_flight: bool,
    /// Whether the coordinator may know the member. The value becomes true when the first heartbeat is sent, before the
    /// response arrives.
    may_be_known: bool,
    /// Whether the coordinator has ever accepted the member.
    pub(super) was_member: bool,
    /// When to repeat the request for the names of topics whose IDs are known.
    topic_names_retry_at: Time,
    error: Option<Error>,
    /// An error that does not end the membership.
    nonfatal_error: Option<Error>,
}

#[allow(private_bounds)]
impl<P: HeartbeatProtocol> HeartbeatMember<P> {
    pub(super) fn with_protocol(coordinator: CoordinatorClient, seed: u64, protocol: P) -> Self {
        Self {
            protocol,
            coordinator,
            state: MemberState::Unsubscribed,
            member_id: member_id(seed),
            epoch: JOIN,
            interval: DEFAULT_INTERVAL,
            heartbeat_at: Time(0),
            in_flight: false,
            may_be_known: false,
            was_member: false,
            topic_names_retry_at: Time(0),
            error: None,
            nonfatal_error: None,
        }
    }

    /// Returns the member's ID, which the member chooses itself.
    pub fn id(&self) -> &str {
        &self.member_id
    }

    /// Returns the member's epoch, or -1 if it is not in the group.
    pub(super) fn epoch(&self) -> i32 {
        if self.state == MemberState::Stable { self.epoch } else { -1 }
    }

    /// Returns whether the member is joining the group.
    pub fn is_joining(&self) -> bool {
        self.state == MemberState::Joining
    }

    /// Joins the group, unless the member has joined or is already joining.
    pub(super) fn join(&mut self, now: Time) {
        if matches!(self.state, MemberState::Unsubscribed | MemberState::Leaving { .. }) {
            self.start_over(now);
        }
    }

    /// Joins again after the member has left, unless an error ended the membership.
    pub(super) fn rejoin(&mut self, now: Time) {
        if self.state == MemberState::Unsubscribed && self.error.is_none() {
            self.start_over(now);
        }
    }

    fn start_over(&mut self, now: Time) {
        self.invalidate_in_flight();
        self.may_be_known = false;
        self.epoch = JOIN;
        self.protocol.unassign();
        self.state = MemberState::Joining;
        self.coordinator.rebalancing_since = Some(now);
        self.heartbeat_at = now;
        self.coordinator.retry_at = now;
    }

    /// Leaves the group, with a request if the coordinator may know the member.
    pub(super) fn leave_group(&mut self, now: Time) {
        let notifies = self.state != MemberState::Unsubscribed && self.may_be_known;
        self.invalidate_in_flight();
        self.coordinator.clear_join_failure();
        self.protocol.unassign();
        self.state =
            if notifies { MemberState::Leaving { deadline: now + LEAVE_WITHIN } } else { MemberState::Unsubscribed };
    }

    /// Returns whether the member has left the group and has no more requests to send.
    pub fn has_left(&self) -> bool {
        self.state == MemberState::Unsubscribed
    }

    /// Logs that the coordinator has not confirmed that the member left, if the member is leaving.
    pub fn log_unfinished_leave(&self) {
        if matches!(self.state, MemberState::Leaving { .. }) {
            self.coordinator.log_not_left();
        }
    }

    /// Takes the error that ended the membership.
    pub fn take_error(&mut self) -> Option<Error> {
        self.error.take()
    }

    /// Takes an error that does not end the membership.
    pub fn take_nonfatal_error(&mut self) -> Option<Error> {
        self.nonfatal_error.take()
    }

    /// Ignores the responses to all requests that were sent before. The next heartbeat has to contain all fields.
    fn invalidate_in_flight(&mut self) {
        self.coordinator.invalidate_in_flight();
        self.in_flight = false;
        self.protocol.forget_accepted();
    }

    /// Returns the next request.
    pub fn poll_send(&mut self, now: Time) -> Option<Outgoing<GroupToken>> {
        self.coordinator.poll_send().or_else(|| {
            self.step(now);
            self.coordinator.poll_send()
        })
    }

    /// Returns which metadata the member needs.
    pub fn poll_demand(&mut self) -> Option<MetadataDemand> {
        self.coordinator.poll_demand()
    }

    fn step(&mut self, now: Time) {
        self.coordinator.timers.clear();
        if let MemberState::Leaving { deadline } = self.state
            && self.coordinator.timers.is_due(GroupTimer::Leave, deadline, now)
        {
            self.log_unfinished_leave();
            self.state = MemberState::Unsubscribed;
        }
        if self.state == MemberState::Unsubscribed {
            return;
        }
        self.reconcile(now);
        if self.in_flight {
            return;
        }
        let Some(node) = self.coordinator.reach(now) else { return };
        if let MemberState::Leaving { deadline } = self.state {
            let request = self.protocol.request(&self.member_id, self.protocol.leave_epoch());
            self.in_flight = true;
            self.coordinator.send_leave(now, deadline, Target::Group(node), AtLeast(request, MIN_VERSION));
            return;
        }
        if self.state == MemberState::Joining && !self.protocol.may_join() {
            return;
        }
        if self.coordinator.timers.is_due(GroupTimer::Heartbeat, self.heartbeat_at, now)
            || self.protocol.has_changed_fields()
        {
            let mut request = self.protocol.request(&self.member_id, self.epoch);
            self.protocol.add_changed_fields(&mut request, &self.coordinator.cluster);
            self.in_flight = true;
            self.may_be_known = true;
            self.heartbeat_at = now + self.interval;
            let deadline = now + self.coordinator.request_timeout;
            let request = AtLeast(request, MIN_VERSION);
            self.coordinator.send(now, deadline, Target::Group(node), request, Step::Heartbeat);
        }
    }

    /// Applies the assignment, and requests the names of its topics.
    fn reconcile(&mut self, now: Time) {
        if self.state != MemberState::Stable {
            return;
        }
        let unknown = self.protocol.reconcile(&self.coordinator.cluster);
        if !unknown.is_empty() && self.coordinator.timers.is_due(GroupTimer::TopicNames, self.topic_names_retry_at, now)
        {
            // A topic that was deleted stays unknown until the coordinator takes it out of the assignment.
            self.topic_names_retry_at = now + self.coordinator.longest_wait;
            self.coordinator.timers.set(GroupTimer::TopicNames, self.topic_names_retry_at);
            self.coordinator.demand.ids.extend(unknown);
        }
    }

    /// Returns when [`HeartbeatMember::poll_send`] has to be called again.
    pub fn next_timeout(&self) -> Option<Time> {
        self.coordinator.timers.next_timeout()
    }

    /// Handles a new state of the cluster.
    pub fn handle_cluster(&mut self, cluster: &Arc<Cluster>) {
        self.coordinator.cluster = cluster.clone();
        self.protocol.cluster_changed();
    }

    /// Handles a response.
    pub fn handle_response(&mut self, now: Time, response: ClientResponse<GroupToken>) {
        let step = response.token.step;
        if !self.coordinator.is_current(response.token) {
            return;
        }
        self.in_flight &= step == Step::Find;
        if step == Step::Leave {
            let code = |response: P::Response| P::read(response).error_code;
            if !self.coordinator.must_leave_again(now, response.result, code) {
                self.invalidate_in_flight();
                self.state = MemberState::Unsubscribed;
            }
            return;
        }
        let is_response = response.result.is_ok();
        let result = response.result.and_then(|reply| match step {
            Step::Find => self.coordinator.handle_find_coordinator(now, reply),
            _ => self.handle_heartbeat(now, reply),
        });
        if let Err(error) = result {
            self.note_failure(now, self.coordinator.failing_since(now, &error), &error);
            self.handle_error(now, step, error, is_response);
        }
    }

    /// Notes that no broker can be reached.
    pub fn handle_unreachable(&mut self, now: Time, error: &Error) {
        if self.state == MemberState::Joining {
            self.coordinator.note_join_failure(now, now, error);
        }
    }

    /// Notes and reports the error of a failed attempt to join.
    fn note_failure(&mut self, now: Time, since: Time, error: &Error) {
        if self.state == MemberState::Joining {
            self.coordinator.note_join_failure(now, since, error);
            self.coordinator.report_failure(now, error);
        }
    }

    /// Handles an error code of a response, or the error of a request without a response.
    fn handle_error(&mut self, now: Time, step: Step, error: Error, is_response: bool) {
        let is_heartbeat = step == Step::Heartbeat;
        let reaction =
            error.code().filter(|_| is_heartbeat).and_then(|code| self.protocol.react(now, self.epoch, code));
        match error.code().filter(|_| is_response) {
            Some(ErrorCode::UNKNOWN_MEMBER_ID | ErrorCode::FENCED_MEMBER_EPOCH) if is_heartbeat => {
                self.lose_membership(now);
            }
            _ if reaction == Some(Reaction::Rejoin) => self.lose_membership(now),
            _ if reaction == Some(Reaction::Retry) => self.coordinator.back_off(now),
            _ if reaction == Some(Reaction::End) => return self.fail(now, error),
            Some(ErrorCode::COORDINATOR_LOAD_IN_PROGRESS) => self.coordinator.back_off(now),
            // The member continues when an administrator allows it again. For topics, Java's member does so too
            // (KAFKA-18813).
            Some(code) if is_unauthorized(code) && !self.is_leaving() => {
                self.coordinator.back_off(now);
                self.nonfatal_error = Some(error);
            }
            _ if may_retry(&error, is_response && !self.is_leaving()) => {
                if !error.is_retriable() {
                    self.coordinator.report_failure(now, &error);
                }
                self.coordinator.mark_unknown(now);
                self.protocol.forget_accepted();
            }
            _ => return self.fail(now, error),
        }
        self.heartbeat_at = self.coordinator.retry_at;
    }

    /// Joins again, because the coordinator has dropped this member.
    fn lose_membership(&mut self, now: Time) {
        self.coordinator.log_joining("the coordinator has dropped this member");
        self.protocol.lose_all();
        self.start_over(now);
        self.coordinator.retry_immediately_once(now);
    }

    fn is_leaving(&self) -> bool {
        matches!(self.state, MemberState::Leaving { .. })
    }

    /// Ends the membership with an error, and leaves the group, so that other members need not wait until the session
    /// ends.
    fn fail(&mut self, now: Time, error: Error) {
        if self.is_leaving() {
            self.invalidate_in_flight();
            self.state = MemberState::Unsubscribed;
            return;
        }
        // The coordinator knows another member of this instance ID.
        let is_other_member =
            matches!(error.code(), Some(ErrorCode::FENCED_INSTANCE_ID | ErrorCode::UNRELEASED_INSTANCE_ID));
        self.may_be_known &= !is_other_member;
        error.log_fatal(Component::Group);
        self.protocol.lose_all();
        self.leave_group(now);
        self.error = Some(error);
    }

    fn handle_heartbeat(&mut self, now: Time, reply: Reply) -> Result<(), Error> {
        let response = P::read(self.coordinator.read(reply)?);
        if let Err(code) = response.error_code.check() {
            let why = response.error_message.map_or_else(String::new, |m| format!(" ({m})"));
            let error = Error::refused(code, format!("heartbeat in {} {:?}{why}", P::GROUP, self.coordinator.group));
            return Err(match P::hint(code) {
                Some(hint) => error.with_hint(hint),
                None => error,
            });
        }
        self.coordinator.succeeded();
        self.coordinator.clear_join_failure();
        self.was_member = true;
        self.protocol.accepted();
        self.interval = Duration::from_millis(u64::try_from(response.interval_ms).unwrap_or(0).max(1));
        self.heartbeat_at = now + self.interval;
        self.state = MemberState::Stable;
        self.epoch = response.member_epoch;
        if let Some(since) = self.coordinator.rebalancing_since.take() {
            self.coordinator.log_joined(now, since, format_args!("epoch {}", response.member_epoch));
        }
        if let Some(id) = response.member_id.filter(|id| !id.is_empty()) {
            self.member_id = id;
        }
        if let Some(assignment) = response.assignment {
            let count = assignment.values().map(Vec::len).sum::<usize>();
            self.coordinator.log_assigned(self.epoch, count);
            self.protocol.assign(assignment);
            self.topic_names_retry_at = now;
            self.reconcile(now);
        }
        Ok(())
    }
}

/// Returns the ID that a member chooses for itself (KIP-1082), with 128 bits from the seed.
fn member_id(seed: u64) -> String {
    Uuid(Random::new(seed).next_bytes()).to_string()
}

/// Returns the reaction to codes that mean something else to a member that joins. The first heartbeat creates a group
/// that does not exist, and fails if the brokers do not enable the protocol.
pub(super) fn react_by_epoch(epoch: i32, code: ErrorCode) -> Option<Reaction> {
    match code {
        ErrorCode::GROUP_ID_NOT_FOUND | ErrorCode::UNSUPPORTED_VERSION if epoch == JOIN => Some(Reaction::End),
        ErrorCode::GROUP_ID_NOT_FOUND => Some(Reaction::Rejoin),
        _ => None,
    }
}
