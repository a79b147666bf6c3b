//! What a client is for, as seen from the network: a machine that wants requests sent and topics known.

use super::{Broker, Call, Cluster, Error, Reply, Time};
use crate::wire::Uuid;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Where a request goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The broker of this id.
    Node(i32),
    /// The broker of this id, on a connection for fetches alone: a broker answers a connection's requests one after the
    /// other, so a long poll would hold up whatever is asked behind it.
    Fetch(i32),
    /// The broker of this id, on a connection for membership of a group alone: joining is answered when everybody has.
    Group(i32),
    /// The controller; any broker while it is unknown.
    Controller,
    /// Whichever broker is nearest at hand.
    Any,
}

/// A request on its way out. The token comes back with the answer.
pub struct Outgoing<T> {
    /// Where it goes.
    pub target: Target,
    /// What is asked.
    pub call: Box<dyn Call>,
    /// What the answer is matched with.
    pub token: T,
    /// When to give up.
    pub deadline: Deadline,
    /// The newest version to use, because of what the request's fields hold.
    pub max_version: i16,
}

impl<T> Outgoing<T> {
    /// The same request under another token.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Outgoing<U> {
        let Self { target, call, token, deadline, max_version } = self;
        Outgoing { target, call, token: f(token), deadline, max_version }
    }
}

/// When a request is given up. None has longer than `request.timeout.ms` for its answer, and what the broker may hold it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deadline {
    /// If it is not sent by then. After that it has as long as any other: who wanted the answer may give it up alone, and
    /// the connection goes on.
    ToSend(Time),
    /// If it is not answered by then, and its connection with it.
    ToAnswer(Time),
}

impl Deadline {
    /// The time.
    pub fn time(self) -> Time {
        let (Self::ToSend(time) | Self::ToAnswer(time)) = self;
        time
    }
}

/// The end of a request, exactly one for each.
pub struct ClientResponse<T> {
    /// The request's token.
    pub token: T,
    /// The broker it went to, if it got that far; -1 otherwise.
    pub node: i32,
    /// The broker's reply, or why there is none.
    pub result: Result<Reply, Error>,
}

/// A partition that a broker said to have moved (KIP-951).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaderChange {
    /// The topic.
    pub topic: Arc<str>,
    /// The partition.
    pub partition: i32,
    /// The broker that leads it now.
    pub leader: i32,
    /// Counts leaders.
    pub leader_epoch: i32,
    /// Where that broker is, if it was said.
    pub broker: Option<Broker>,
}

/// What a role wants to know about the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MetadataDemand {
    /// Topics to keep knowing, in addition to those demanded before.
    pub topics: BTreeSet<Arc<str>>,
    /// Whether some of those demanded before are not wanted any more.
    pub lets_go: bool,
    /// All topics that are wanted now, if some are not any more: [`Role::next_demand`] adds them.
    pub wanted: Option<BTreeSet<Arc<str>>>,
    /// Topics of which only the id is known, wanted once.
    pub ids: BTreeSet<Uuid>,
    /// Whether every topic is wanted, once.
    pub all: bool,
    /// Whether every topic is wanted from now on, or no longer.
    pub watch_all: Option<bool>,
    /// Whether what is known is stale.
    pub refresh: bool,
    /// What the role heard itself.
    pub leader_changes: Vec<LeaderChange>,
}

/// A machine that a [`super::Network`] serves.
pub trait Role: Send {
    /// What a request's answer is matched with.
    type Token: Send;
    /// A request before the work that needs no access to the machine: compression, checksums.
    type Packet: Send;
    /// An answer after the work that needs no access to the machine: decoding, checksums, decompression.
    type Prepared: Send;

    /// Makes a request of a packet, outside of any lock.
    fn pack(packet: Self::Packet) -> Outgoing<Self::Token>;
    /// Does an answer's work, outside of any lock.
    fn prepare(answer: ClientResponse<Self::Token>) -> Self::Prepared;
    /// Takes an answer in.
    fn handle_response(&mut self, now: Time, answer: Self::Prepared);
    /// Takes a new picture of the cluster in.
    fn handle_cluster(&mut self, now: Time, cluster: &Arc<Cluster>);
    /// Takes in that no broker at all can be reached, and why.
    fn handle_unreachable(&mut self, now: Time, error: &Error);
    /// The next request to send.
    fn poll_send(&mut self, now: Time) -> Option<Self::Packet>;
    /// What the role wants to know, once.
    fn poll_demand(&mut self) -> Option<MetadataDemand>;
    /// The topics that the role still wants to know.
    fn wanted_topics(&self) -> BTreeSet<Arc<str>>;
    /// What the role wants to know, for the network.
    fn next_demand(&mut self) -> Option<MetadataDemand> {
        let mut demand = self.poll_demand()?;
        demand.wanted = demand.lets_go.then(|| self.wanted_topics());
        Some(demand)
    }
    /// When, after now, [`Role::handle_timeout`] or [`Role::poll_send`] has something to do.
    fn next_timeout(&self, now: Time) -> Option<Time>;
    /// Does what is due.
    fn handle_timeout(&mut self, now: Time);
}

impl MetadataDemand {
    /// What several parts of a role want together, if they want something.
    pub fn merge(demands: impl IntoIterator<Item = Option<Self>>) -> Option<Self> {
        demands.into_iter().flatten().reduce(|mut all, other| {
            all.topics.extend(other.topics);
            all.lets_go |= other.lets_go;
            all.ids.extend(other.ids);
            all.all |= other.all;
            all.watch_all = other.watch_all.or(all.watch_all);
            all.refresh |= other.refresh;
            all.leader_changes.extend(other.leader_changes);
            all
        })
    }

    /// What is wanted, once, if anything is.
    pub fn take(&mut self) -> Option<Self> {
        (*self != Self::default()).then(|| std::mem::take(self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_parts_want_together_is_all_that_each_of_them_wants() {
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
        let c = MetadataDemand { watch_all: Some(false), lets_go: true, ..MetadataDemand::default() };
        let all = MetadataDemand {
            topics: BTreeSet::from([Arc::from("a"), Arc::from("b")]),
            ids: BTreeSet::from([Uuid([1; 16]), Uuid([2; 16])]),
            lets_go: true,
            wanted: None,
            all: true,
            watch_all: Some(false),
            refresh: true,
            leader_changes: [moved(0), moved(1)].concat(),
        };
        assert_eq!(MetadataDemand::merge([Some(a), None, Some(b), Some(c)]), Some(all));
        assert_eq!(MetadataDemand::merge([None, None]), None);
    }
}
