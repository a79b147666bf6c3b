//! The interface between the network and a role (producer, consumer, …): requests, responses and metadata.

use super::{Call, Cluster, Error, LeaderChange, Reply, Time};
use crate::wire::Uuid;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The broker to which a request goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The broker with this ID.
    Node(i32),
    /// The broker with this ID, on a connection only for fetches. A broker handles the requests of a connection one
    /// after another, so a long poll would delay all later requests.
    Fetch(i32),
    /// The broker with this ID, on a connection only for group membership, because JoinGroup waits for all members.
    Group(i32),
    /// Any broker, on a connection only for telemetry. A slow response to metrics would delay all later requests.
    Telemetry,
    /// The controller, or any broker while the controller is unknown.
    Controller,
    /// Any broker.
    Any,
}

/// A request to send. The response has the same token.
pub struct Outgoing<T> {
    /// The broker to which the request goes.
    pub target: Target,
    /// The request.
    pub call: Box<dyn Call>,
    /// Identifies the request.
    pub token: T,
    /// When the request fails if it has no response.
    pub deadline: Deadline,
    /// The newest version that can encode the request's fields.
    pub max_version: i16,
}

impl<T> Outgoing<T> {
    /// Returns the same request with another token.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Outgoing<U> {
        let Self { target, call, token, deadline, max_version } = self;
        Outgoing { target, call, token: f(token), deadline, max_version }
    }
}

/// When a request without a response fails. A response may take at most `request.timeout.ms` plus the time for which
/// the broker may hold the response back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deadline {
    /// The request fails if it is not sent by this time. After it was sent, it has as much time as other requests, so
    /// that a sender with a short timeout does not end the connection.
    ToSend(Time),
    /// The request fails if it has no response by this time. The connection then also fails.
    ToAnswer(Time),
}

impl Deadline {
    /// Returns the time of the deadline.
    pub fn time(self) -> Time {
        let (Self::ToSend(time) | Self::ToAnswer(time)) = self;
        time
    }
}

/// The response to a request, or the error of the request. Every request gets exactly one `ClientResponse`.
pub struct ClientResponse<T> {
    /// The request's token.
    pub token: T,
    /// The ID of the broker to which the request was sent, or -1 if it was not sent.
    pub node: i32,
    /// The broker's reply, or the error.
    pub result: Result<Reply, Error>,
}

/// The metadata that a role needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MetadataDemand {
    /// Topics whose metadata the role needs from now on, in addition to the topics that it demanded before.
    pub topics: BTreeSet<Arc<str>>,
    /// Demanded topics that the broker may create if they do not exist.
    pub creates: BTreeSet<Arc<str>>,
    /// Whether the role no longer needs some topics that it demanded before.
    pub drops_topics: bool,
    /// If `drops_topics` is set, all topics that the role still needs. [`Role::next_demand`] sets this field.
    pub needed: Option<BTreeSet<Arc<str>>>,
    /// Topic IDs whose names the role needs once.
    pub ids: BTreeSet<Uuid>,
    /// Whether the role needs all topics once.
    pub all: bool,
    /// Whether the role needs all topics from now on. `None` changes nothing.
    pub watch_all: Option<bool>,
    /// Whether the known metadata is stale.
    pub refresh: bool,
    /// The leader changes in responses to the role's requests.
    pub leader_changes: Vec<LeaderChange>,
}

/// A state machine whose requests a [`super::Network`] sends.
pub trait Role: Send {
    /// Identifies a request.
    type Token: Send;
    /// A request before compression and checksums, which do not need access to the role.
    type Request: Send;
    /// A response after decoding, checksums and decompression, which do not need access to the role.
    type Prepared: Send;

    /// Builds a request outside of all locks: compresses records and computes checksums.
    fn build_request(request: Self::Request) -> Outgoing<Self::Token>;
    /// Decodes a response outside of all locks.
    fn prepare(response: ClientResponse<Self::Token>) -> Self::Prepared;
    /// Handles a response.
    fn handle_response(&mut self, now: Time, response: Self::Prepared);
    /// Handles a new state of the cluster.
    fn handle_cluster(&mut self, now: Time, cluster: &Arc<Cluster>);
    /// Notes that the connection for requests with this target ended. The broker's throttle time ends with it.
    fn handle_disconnect(&mut self, _now: Time, _target: Target) {}
    /// Notes that no broker can be reached. `error` is the reason.
    fn handle_unreachable(&mut self, now: Time, error: &Error);
    /// Returns the next request to send.
    fn poll_send(&mut self, now: Time) -> Option<Self::Request>;
    /// Returns a new metadata demand of the role. Each demand is returned once.
    fn poll_demand(&mut self) -> Option<MetadataDemand>;
    /// Returns all topics whose metadata the role needs.
    fn needed_topics(&self) -> BTreeSet<Arc<str>>;
    /// Returns the complete demand, for the network.
    fn next_demand(&mut self) -> Option<MetadataDemand> {
        let mut demand = self.poll_demand()?;
        demand.needed = demand.drops_topics.then(|| self.needed_topics());
        Some(demand)
    }
    /// Returns when [`Role::handle_timeout`] and [`Role::poll_send`] have to be called again.
    fn next_timeout(&self, now: Time) -> Option<Time>;
    /// Handles the deadlines that have passed.
    fn handle_timeout(&mut self, now: Time);
}

impl MetadataDemand {
    /// Merges the demands of the parts of a role.
    pub fn merge(demands: impl IntoIterator<Item = Option<Self>>) -> Option<Self> {
        demands.into_iter().flatten().reduce(|mut all, other| {
            all.topics.extend(other.topics);
            all.creates.extend(other.creates);
            all.drops_topics |= other.drops_topics;
            all.ids.extend(other.ids);
            all.all |= other.all;
            all.watch_all = other.watch_all.or(all.watch_all);
            all.refresh |= other.refresh;
            all.leader_changes.extend(other.leader_changes);
            all
        })
    }

    /// Returns and clears the demand, unless it is empty.
    pub fn take(&mut self) -> Option<Self> {
        (*self != Self::default()).then(|| std::mem::take(self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merged_demands_have_everything_that_each_of_them_has() {
        let moved = |partition| {
            let topic = Arc::from("t");
            vec![LeaderChange { topic, partition, leader: 1, leader_epoch: 1, broker: None }]
        };
        let topics = |name: &str| BTreeSet::from([Arc::from(name)]);
        let id = |byte| BTreeSet::from([Uuid([byte; 16])]);
        let a = MetadataDemand {
            topics: topics("a"),
            creates: topics("a"),
            ids: id(1),
            refresh: true,
            leader_changes: moved(0),
            ..MetadataDemand::default()
        };
        let b = MetadataDemand {
            topics: topics("b"),
            ids: id(2),
            all: true,
            leader_changes: moved(1),
            ..MetadataDemand::default()
        };
        let c = MetadataDemand { watch_all: Some(false), drops_topics: true, ..MetadataDemand::default() };
        let all = MetadataDemand {
            topics: BTreeSet::from([Arc::from("a"), Arc::from("b")]),
            creates: topics("a"),
            ids: BTreeSet::from([Uuid([1; 16]), Uuid([2; 16])]),
            drops_topics: true,
            needed: None,
            all: true,
            watch_all: Some(false),
            refresh: true,
            leader_changes: [moved(0), moved(1)].concat(),
        };
        assert_eq!(MetadataDemand::merge([Some(a), None, Some(b), Some(c)]), Some(all));
        assert_eq!(MetadataDemand::merge([None, None]), None);
    }
}
