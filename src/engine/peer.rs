//! The other end of a connection, as the network knows it.

use super::network::ConnectionId;
use super::{Backoff, Connection, Error, Outgoing, Time};
use crate::wire::Uuid;
use std::collections::{BTreeSet, VecDeque};

/// Who is at the other end, and what for. The order is the order of preference for requests that any broker answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PeerId {
    /// A broker of the cluster.
    Broker(i32),
    /// An address of the bootstrap list.
    Bootstrap(usize),
    /// A broker of the cluster, for fetches alone.
    Fetch(i32),
    /// A broker of the cluster, for membership of a group alone.
    Group(i32),
}

impl PeerId {
    /// The broker's id, -1 before it is known.
    pub fn node(self) -> i32 {
        match self {
            Self::Broker(node) | Self::Fetch(node) | Self::Group(node) => node,
            Self::Bootstrap(_) => -1,
        }
    }

    /// Whether it is kept for requests that take long to answer.
    pub fn is_apart(self) -> bool {
        matches!(self, Self::Fetch(_) | Self::Group(_))
    }
}

/// What an answer is for.
pub enum PeerToken {
    /// All topics, or those of ids, or else those that are wanted by name. What tells of all tells of the ids, too.
    Metadata {
        all: bool,
        ids: BTreeSet<Uuid>,
    },
    Role(usize),
}

/// How far a connection has come.
pub enum Link {
    Idle,
    Waiting(Time),
    Connecting(ConnectionId, Time),
    Up(ConnectionId, Box<Connection<PeerToken>>),
}

/// A peer, its connection and what waits for it.
pub struct Peer {
    pub host: String,
    pub port: u16,
    pub link: Link,
    pub backoff: Backoff,
    pub queue: VecDeque<Outgoing<usize>>,
    pub error: Option<Error>,
}

impl Peer {
    pub fn address(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    pub fn is_ready(&self) -> bool {
        matches!(&self.link, Link::Up(_, c) if c.is_ready())
    }
}
