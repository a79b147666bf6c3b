//! A broker, or an address of the bootstrap list, with its connection and the requests that wait for it.

use crate::engine::connection::{Connection, ConnectionId};
use crate::engine::reminder::Reminder;
use crate::engine::{Backoff, Error, Outgoing, Target, Time, address, earliest};
use crate::wire::Uuid;
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// Identifies a peer and the use of its connection. The order of the variants is the order of preference for requests
/// to any broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PeerId {
    /// A broker of the cluster.
    Broker(i32),
    /// An address of the bootstrap list.
    Bootstrap(usize),
    /// A broker of the cluster, for fetches only.
    Fetch(i32),
    /// A broker of the cluster, for group membership only.
    Group(i32),
    /// Any broker, for telemetry only. A client has at most one such connection.
    Telemetry,
}

impl PeerId {
    /// Returns the broker's ID, or -1 for a bootstrap address and for telemetry.
    pub fn node(self) -> i32 {
        match self {
            Self::Broker(node) | Self::Fetch(node) | Self::Group(node) => node,
            Self::Bootstrap(_) | Self::Telemetry => -1,
        }
    }

    /// Returns the target of the requests on the connection, if these requests have to reach a certain broker.
    pub fn target(self) -> Option<Target> {
        match self {
            Self::Broker(node) => Some(Target::Node(node)),
            Self::Fetch(node) => Some(Target::Fetch(node)),
            Self::Group(node) => Some(Target::Group(node)),
            Self::Bootstrap(_) | Self::Telemetry => None,
        }
    }

    /// Returns whether the connection is only for requests whose responses must not delay other requests.
    pub fn is_dedicated(self) -> bool {
        matches!(self, Self::Fetch(_) | Self::Group(_) | Self::Telemetry)
    }
}

/// The topics that the broker may create.
#[derive(Default)]
pub struct Creation {
    /// The topics, until they exist.
    pub topics: BTreeSet<Arc<str>>,
    /// When to request the topics.
    pub at: Option<Time>,
}

/// The topics of a metadata request.
pub enum MetadataPurpose {
    /// All topics, including the topics with these IDs.
    All(BTreeSet<Uuid>),
    /// The topics with these IDs.
    Ids(BTreeSet<Uuid>),
    /// The needed topics. The broker creates none of them.
    Refresh,
    /// The topics that the broker may create.
    Create,
}

/// The purpose of a request of the network.
pub enum PeerToken {
    /// A metadata request.
    Metadata(MetadataPurpose),
    /// A request of the role, with its number in [`crate::engine::RequestsInFlight`].
    Role(usize),
}

/// The state of a peer's connection.
pub enum Link {
    /// The peer has no connection, and the client may connect at once.
    Idle,
    /// The last attempt to connect failed. The client may connect again at this time.
    Waiting(Time),
    /// The client is connecting, until this time at most.
    Connecting(ConnectionId, Time),
    /// The peer has a connection, which may still negotiate versions or authenticate.
    Up(ConnectionId, Box<Connection<PeerToken>>),
}

/// A peer, with its connection and its waiting requests.
pub struct Peer {
    pub host: String,
    pub port: u16,
    pub link: Link,
    pub backoff: Backoff,
    /// Requests that wait for the connection.
    pub queue: VecDeque<Outgoing<usize>>,
    /// The error that ended the last connection or the last attempt to connect.
    pub error: Option<Error>,
    /// The current attempt to connect.
    pub attempt: Attempt,
    /// How many connections the client has established to this peer.
    pub connects: u64,
}

/// An attempt to connect to one address of a host.
#[derive(Default)]
pub struct Attempt {
    /// The address, if it differs from the host name.
    pub address: Option<String>,
    /// Whether the host has another address that has not failed.
    pub has_other: bool,
    /// Whether the connection was logged.
    pub is_logged: bool,
    /// When to report that the connection is not ready yet.
    pub silence: Option<Reminder>,
}

impl Attempt {
    /// Adds the address to the message of an error.
    pub fn name_address(&self, error: Error) -> Error {
        match &self.address {
            Some(address) => error.with_location(&format!(" at {address}")),
            None => error,
        }
    }
}

impl Peer {
    pub fn address(&self) -> String {
        address(&self.host, self.port)
    }

    pub fn is_ready(&self) -> bool {
        matches!(&self.link, Link::Up(_, c) if c.is_ready())
    }

    /// Returns the earliest deadline of the connection and of the requests that wait for it.
    pub fn next_timeout(&self, max_idle: Option<Duration>) -> Option<Time> {
        let link = match &self.link {
            Link::Idle => None,
            Link::Waiting(at) | Link::Connecting(_, at) => Some(*at),
            Link::Up(_, c) => earliest(c.next_timeout(), max_idle.and_then(|max| c.idle_at(max))),
        };
        let link = earliest(link, self.silent_at());
        earliest(link, self.queue.iter().map(|o| o.deadline.time()).min())
    }
}
