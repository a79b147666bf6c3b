//! Membership of a consumer or share consumer in a group: joins the group, and learns the assigned partitions.
//!
//! * `classic`: a member, the group leader, assigns the partitions (Kafka 0.9, KIP-345, KIP-429).
//! * `consumer`: the coordinator assigns the partitions (KIP-848).
//! * `share`: the coordinator assigns the partitions, and several members may read the same partition (KIP-932).
//! * `heartbeat_member` has the common code of `consumer` and `share`. `coordinator_client` has the common code of all
//!   three group protocols.
//! * [`assignor`]: the assignors of classic groups.
//!
//! A membership reports assignments to the consumer as [`Change`]s, one at a time. The consumer takes a change, handles
//! it (for example with a commit), and reports that the change is done. Other members can get revoked partitions only
//! after the consumer has reported the revocation.

pub mod assignor;
mod changes;
mod classic;
mod config;
mod consumer;
mod coordinator_client;
mod events;
mod heartbeat_member;
mod held;
mod share;
mod strategy;

use super::{ClientResponse, Cluster, Error, ErrorKind, MetadataDemand, Outgoing, Time};
use crate::api::ErrorCode;
pub use changes::Change;
use changes::Changes;
use classic::ClassicMember;
pub use config::{GroupConfig, GroupMetadata, Protocol, Subscription};
use consumer::ConsumerMember;
pub use coordinator_client::GroupToken;
use coordinator_client::{CoordinatorClient, STILL_JOINING};
pub use share::{ShareMember, ShareMemberConfig};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
pub use strategy::{Assignments, CustomAssignor, Strategy, Work};

enum Membership {
    Classic(Box<ClassicMember>),
    Consumer(Box<ConsumerMember>),
}

/// A member of a group.
pub struct Group {
    config: Arc<GroupConfig>,
    membership: Membership,
    /// When the application last polled.
    last_poll_at: Time,
    expired: bool,
    /// Whether the client has logged the warning that the member is about to expire.
    is_warned: bool,
}

macro_rules! each {
    ($self:expr, $m:ident => $e:expr) => {
        match &mut $self.membership {
            Membership::Classic($m) => $e,
            Membership::Consumer($m) => $e,
        }
    };
}

impl Group {
    /// Creates a member that has not joined its group.
    pub fn new(config: GroupConfig) -> Self {
        let config = Arc::new(config);
        let membership = match &config.protocol {
            Protocol::Classic(_) => Membership::Classic(Box::new(ClassicMember::new(config.clone()))),
            Protocol::Consumer(_) => Membership::Consumer(Box::new(ConsumerMember::new(config.clone()))),
        };
        Self { membership, last_poll_at: Time(0), expired: false, is_warned: false, config }
    }

    /// Joins the group, or changes the subscription.
    pub fn subscribe(&mut self, now: Time, subscription: Subscription) {
        self.last_poll_at = now;
        self.expired = false;
        each!(self, m => m.subscribe(now, subscription));
    }

    /// Returns whether the coordinator, and not the client, matches patterns.
    pub fn matches_patterns(&self) -> bool {
        matches!(self.membership, Membership::Consumer(_))
    }

    /// Notes that the application polls or waits for records.
    pub fn note_activity(&mut self, now: Time) {
        self.last_poll_at = now;
        self.is_warned = false;
        // A member that is still leaving joins again at a later poll.
        if self.expired && self.has_left() {
            self.expired = false;
            each!(self, m => m.rejoin(now));
        }
    }

    /// Leaves the group. A static member of a classic group sends no request, and keeps its assignment until its
    /// session ends.
    pub fn leave(&mut self, now: Time, reason: &str) {
        each!(self, m => m.leave(now, reason));
    }

    /// Drops the owned partitions and all changes.
    pub fn forget(&mut self) {
        each!(self, m => *m.changes_mut() = Changes::default());
    }

    /// Returns whether the member has left the group and has no more requests to send.
    pub fn has_left(&self) -> bool {
        match &self.membership {
            Membership::Classic(m) => m.has_left(),
            Membership::Consumer(m) => m.has_left(),
        }
    }

    /// Logs that the coordinator has not confirmed that the member left, if the member is leaving.
    pub fn log_unfinished_leave(&self) {
        match &self.membership {
            Membership::Classic(m) => m.log_unfinished_leave(),
            Membership::Consumer(m) => m.log_unfinished_leave(),
        }
    }

    /// Returns the consumer's identity in the group.
    pub fn metadata(&self) -> GroupMetadata {
        let (generation, member) = match &self.membership {
            Membership::Classic(m) => m.epoch_and_id(),
            Membership::Consumer(m) => m.epoch_and_id(),
        };
        let (group, instance) = (self.config.group.clone(), self.config.instance.clone());
        GroupMetadata { group, generation, member: member.to_owned(), instance }
    }

    /// Returns the broker ID of the coordinator, if it is known.
    pub fn coordinator(&self) -> Option<i32> {
        match &self.membership {
            Membership::Classic(m) => m.coordinator(),
            Membership::Consumer(m) => m.coordinator(),
        }
    }

    fn changes(&self) -> &Changes {
        match &self.membership {
            Membership::Classic(m) => m.changes(),
            Membership::Consumer(m) => m.changes(),
        }
    }

    /// Returns whether the member is joining, or does not own all partitions of its assignment yet.
    pub fn is_rebalancing(&self) -> bool {
        let is_joining = match &self.membership {
            Membership::Classic(m) => m.is_joining(),
            Membership::Consumer(m) => m.is_joining(),
        };
        is_joining || !self.changes().all_handled()
    }

    /// Returns whether [`Group::take_change`] has a change.
    pub fn has_change(&self) -> bool {
        let changes = self.changes();
        !changes.taken && !changes.queue.is_empty()
    }

    /// Returns the next change. The caller must call [`Group::handled`] after it has handled the change.
    pub fn take_change(&mut self) -> Option<Change> {
        let change = each!(self, m => m.changes_mut().take())?;
        self.log_change(&change);
        Some(change)
    }

    /// Notes that the consumer has handled the change that it took.
    pub fn handled(&mut self) {
        each!(self, m => m.changes_mut().handled());
    }

    /// Takes the error that ended the membership.
    pub fn take_error(&mut self) -> Option<Error> {
        each!(self, m => m.take_error())
    }

    fn coordinator_client(&self) -> &CoordinatorClient {
        match &self.membership {
            Membership::Classic(m) => &m.coordinator,
            Membership::Consumer(m) => &m.coordinator,
        }
    }

    /// Returns whether [`Group::take_join_error`] has an error.
    pub fn has_join_error(&self) -> bool {
        self.coordinator_client().has_join_error()
    }

    /// Returns whether the member tries to join the group and fails.
    pub fn fails_to_join(&self) -> bool {
        self.coordinator_client().last_join_error().is_some()
    }

    /// Returns the error if joining keeps failing. Each error is returned only once, and the member keeps retrying.
    pub fn take_join_error(&mut self) -> Option<Error> {
        each!(self, m => m.coordinator.take_join_error())
    }

    /// Returns the error for a commit while the consumer is not a member of its group.
    pub fn refuse_commit(&self) -> Error {
        let group = &self.config.group;
        let was_member = match &self.membership {
            Membership::Classic(m) => m.was_member,
            Membership::Consumer(m) => m.was_member,
        };
        let code = ErrorCode::UNKNOWN_MEMBER_ID;
        let Some(why) = self.coordinator_client().last_join_error() else {
            return match was_member {
                true => {
                    Error::refused(code, format!("commit for group {group:?}, of which the consumer is not a member"))
                }
                false => {
                    Error::refused(code, format!("commit for group {group:?}, which the consumer has not joined yet"))
                        .with_hint("poll first: a consumer can commit once the group has assigned partitions to it")
                }
            };
        };
        let what =
            format!("commit for group {group:?}, which the consumer could not join ({})", why.message_with_broker());
        let hint = why.hint().unwrap_or(STILL_JOINING);
        let error = match why.kind() {
            // The partitions of a former member belong to other members, whatever prevents it from joining again.
            kind if kind != ErrorKind::Broker && !was_member => Error::new(kind, what),
            _ => Error::refused(code, what),
        };
        error.with_hint(hint).caused_by(why)
    }

    /// Notes that no broker can be reached.
    pub fn handle_unreachable(&mut self, now: Time, error: &Error) {
        each!(self, m => m.handle_unreachable(now, error));
    }

    /// Takes an error that does not end the membership.
    pub fn take_nonfatal_error(&mut self) -> Option<Error> {
        each!(self, m => m.take_nonfatal_error())
    }

    /// Returns an assignment to compute, for [`Group::assigned`].
    pub fn poll_work(&mut self) -> Option<Work> {
        match &mut self.membership {
            Membership::Classic(m) => m.poll_work(),
            Membership::Consumer(_) => None,
        }
    }

    /// Handles a computed assignment.
    pub fn assigned(&mut self, now: Time, assignments: Assignments) {
        if let Membership::Classic(m) = &mut self.membership {
            m.assigned(now, assignments);
        }
    }

    /// Handles a response.
    pub fn handle_response(&mut self, now: Time, response: ClientResponse<GroupToken>) {
        each!(self, m => m.handle_response(now, response));
    }

    /// Handles a new state of the cluster.
    pub fn handle_cluster(&mut self, cluster: &Arc<Cluster>) {
        each!(self, m => m.handle_cluster(cluster));
    }

    /// Returns the next request.
    pub fn poll_send(&mut self, now: Time) -> Option<Outgoing<GroupToken>> {
        each!(self, m => m.poll_send(now))
    }

    /// Returns which metadata the member needs.
    pub fn poll_demand(&mut self) -> Option<MetadataDemand> {
        each!(self, m => m.poll_demand())
    }

    /// Returns the topics of the member's partitions and, if it leads the group, all topics of the group.
    pub fn needed_topics(&self) -> BTreeSet<Arc<str>> {
        let claimed = self.changes().claimed().into_iter().map(|p| p.topic);
        match &self.membership {
            Membership::Classic(m) => claimed.chain(m.group_topics().cloned()).collect(),
            Membership::Consumer(_) => claimed.collect(),
        }
    }

    /// Returns when [`Group::handle_timeout`] and [`Group::poll_send`] have to be called again.
    pub fn next_timeout(&self, now: Time) -> Option<Time> {
        let next = match &self.membership {
            Membership::Classic(m) => m.next_timeout(),
            Membership::Consumer(m) => m.next_timeout(),
        };
        let limit = self.config.max_poll_interval;
        let limit = if self.is_warned { limit } else { warn_after(limit) };
        let expiry = (!self.expired && !self.has_left()).then(|| self.last_poll_at + limit);
        super::earliest(next, expiry).map(|t| t.max(now + Duration::from_micros(1)))
    }

    /// Leaves the group if the application has not polled in time.
    pub fn handle_timeout(&mut self, now: Time) {
        let (idle, limit) = (now.since(self.last_poll_at), self.config.max_poll_interval);
        let is_idle = idle >= if self.is_warned { limit } else { warn_after(limit) };
        if is_idle && !self.expired && !self.has_left() {
            self.is_warned = true;
            self.log_idle(idle);
        }
        if !self.expired && idle >= limit {
            self.expired = true;
            each!(self, m => m.expire(now));
        }
    }
}

/// Returns how long after the last poll the client logs a warning.
fn warn_after(limit: Duration) -> Duration {
    limit * 4 / 5
}

#[cfg(test)]
mod tests {
    use super::coordinator_client::Step;
    use super::*;
    use crate::api::{self, find_coordinator};
    use crate::engine::{Broker, ErrorKind, Reply};

    fn member() -> Group {
        let seconds = Duration::from_secs;
        let mut group = Group::new(GroupConfig {
            group: "g".to_owned(),
            instance: None,
            rack: String::new(),
            protocol: Protocol::Classic(vec![Strategy::Known(&assignor::Range)]),
            session_timeout: seconds(45),
            heartbeat_interval: seconds(3),
            max_poll_interval: seconds(300),
            request_timeout: seconds(30),
            api_timeout: seconds(60),
            retry_backoff: (Duration::from_millis(100), seconds(1)),
            seed: 1,
        });
        let broker = Broker { id: 0, host: "h".to_owned(), port: 1, rack: None };
        group.handle_cluster(&Arc::new(Cluster { brokers: [(0, broker)].into(), ..Cluster::default() }));
        group.subscribe(Time(0), Subscription { topics: ["t".into()].into(), pattern: None });
        group
    }

    /// Finds the coordinator, and returns the JoinGroup request.
    fn join(group: &mut Group, now: Time) -> Outgoing<GroupToken> {
        let mut outgoing = group.poll_send(now).unwrap();
        if outgoing.token.step == Step::Find {
            let response = api::encode(0, &find_coordinator::Response::default()).unwrap();
            let result = Ok(Reply { version: 0, body: response.into() });
            group.handle_response(now, ClientResponse { token: outgoing.token, node: 0, result });
            outgoing = group.poll_send(now).unwrap();
        }
        assert_eq!(outgoing.token.step, Step::Join);
        outgoing
    }

    /// The member waits for a JoinGroup response for `max.poll.interval.ms` and five seconds, like the Java consumer.
    #[test]
    fn a_coordinator_that_never_responds_to_join_group_is_an_error_of_poll() {
        let mut group = member();
        let mut now = Time(0);
        for _ in 0..2 {
            let outgoing = join(&mut group, now);
            assert_eq!(outgoing.deadline.time().since(now), Duration::from_secs(305));
            now = outgoing.deadline.time();
            group.note_activity(now);
            let error = Error::new(ErrorKind::Timeout, "no response to JoinGroup in time").from_broker("h:1");
            group.handle_response(now, ClientResponse { token: outgoing.token, node: 0, result: Err(error) });
            let error = group.take_join_error().unwrap();
            assert_eq!(
                (error.kind(), &*error.message_with_broker()),
                (
                    ErrorKind::Timeout,
                    "joining group \"g\" did not succeed in 305 s: no response to JoinGroup in time (broker h:1)"
                )
            );
            now = now + Duration::from_secs(2);
        }
    }
}
