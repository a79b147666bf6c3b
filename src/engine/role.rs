//! The interface between the network and a role (producer, consumer, …): requests, responses and metadata.

use super::{Call, Cluster, Error, LeaderChange, Reply, Time};
use crate::wire::Uuid;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The broker that a request goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The broker with this ID.
    Node(i32),
    /// The broker with this ID, on a connection for fetches only. A broker handles a connection's requests one after
    /// another, so a long poll would delay all requests behind it.
    Fetch(i32),
    /// The broker with this ID, on a connection for group membership only, because JoinGroup waits for all members.
    Group(i32),
    /// The controller, or any broker while the controller is unknown.
    Controller,
    /// Any broker.
    Any,
}

/// A request to send. Its token comes back with the response.
pub struct Outgoing<T> {
    /// The broker to send it to.
    pub target: Target,
    /// The request.
    pub call: Box<dyn Call>,
    /// Identifies the request.
    pub token: T,
    /// When to give up.
    pub deadline: Deadline,
    /// The newest version that the request's fields fit.
    pub max_version: i16,
}

impl<T> Outgoing<T> {
    /// Returns the same request with another token.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Outgoing<U> {
        let Self { target, call, token, deadline, max_version } = self;
        Outgoing { target, call, token: f(token), deadline, max_version }
    }
}

/// When a request fails for lack of a response. No response may take longer than `request.timeout.ms` plus the time for
/// which the broker may hold it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deadline {
    /// If it is not sent by then. Once sent, it has as much time as other requests, so that a sender that gives up
    /// earlier does not cost the connection.
    ToSend(Time),
    /// If it has no response by then. Its connection fails too.
    ToAnswer(Time),
}

impl Deadline {
    /// Returns the time.
    pub fn time(self) -> Time {
        let (Self::ToSend(time) | Self::ToAnswer(time)) = self;
        time
    }
}

/// The response to a request, or the error that it failed with. Every request gets exactly one.
pub struct ClientResponse<T> {
    /// The request's token.
    pub token: T,
    /// The ID of the broker that the request was sent to; -1 if it was not sent.
    pub node: i32,
    /// The broker's reply, or the error.
    pub result: Result<Reply, Error>,
}

/// The metadata that a role needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MetadataDemand {
    /// Topics whose metadata the role needs from now on, in addition to the topics that it demanded before.
    pub topics: BTreeSet<Arc<str>>,
    /// Whether the role no longer needs some topics that it demanded before.
    pub drops_topics: bool,
    /// All topics that the role still needs, if it dropped some. [`Role::next_demand`] adds them.
    pub needed: Option<BTreeSet<Arc<str>>>,
    /// Topic IDs whose names are needed, once.
    pub ids: BTreeSet<Uuid>,
    /// Whether all topics are needed, once.
    pub all: bool,
    /// Whether all topics are needed from now on, or no longer.
    pub watch_all: Option<bool>,
    /// Whether the known metadata is stale.
    pub refresh: bool,
    /// The leader changes in responses to the role.
    pub leader_changes: Vec<LeaderChange>,
}

/// A state machine that a [`super::Network`] serves.
pub trait Role: Send {
    /// Identifies a request.
    type Token: Send;
    /// A request before compression and checksums, which need no access to the role.
    type Request: Send;
    /// A response after the work that needs no access to the role: decoding, checksums and decompression.
    type Prepared: Send;

    /// Compresses records and computes checksums, outside of all locks.
    fn build_request(request: Self::Request) -> Outgoing<Self::Token>;
    /// Prepares a response, outside of all locks.
    fn prepare(response: ClientResponse<Self::Token>) -> Self::Prepared;
    /// Handles a response.
    fn handle_response(&mut self, now: Time, response: Self::Prepared);
    /// Handles a new state of the cluster.
    fn handle_cluster(&mut self, now: Time, cluster: &Arc<Cluster>);
    /// Notes that no broker can be reached, and why.
    fn handle_unreachable(&mut self, now: Time, error: &Error);
    /// Returns the next request to send.
    fn poll_send(&mut self, now: Time) -> Option<Self::Request>;
    /// Returns a new metadata demand of the role, once.
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
            all.drops_topics |= other.drops_topics;
            all.ids.extend(other.ids);
            all.all |= other.all;
            all.watch_all = other.watch_all.or(all.watch_all);
            all.refresh |= other.refresh;
            all.leader_changes.extend(other.leader_changes);
            all
        })
    }

    /// Returns the demand unless it is empty, and clears it.
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
