//! State machines: bytes, replies and time in; bytes, requests and events out.
//!
//! No machine here knows a socket, a thread, a lock or a clock: the time is an argument of every call, so that tests
//! run thousands of scenarios a second under a clock of their own. The parts, from the wire up:
//!
//! * [`Connection`]: one connection: version negotiation, correlation, order, timeouts of requests.
//! * [`version_probe`]: what is asked of brokers that are too old to say their versions.
//! * [`Network`]: all connections of a client, bootstrap, metadata; it gives every request a connection and every
//!   request an answer.
//! * [`sasl`]: what a client says to prove who it is.
//! * [`group`]: membership of a group of consumers.
//! * [`Role`]: what the client is for: [`producer`], [`consumer`], [`share`], and [`ops`] for everything that asks once.

mod backoff;
mod cluster;
mod connection;
pub mod consumer;
mod coordinator;
mod error;
pub mod group;
mod in_flight;
pub mod legacy;
mod network;
pub mod ops;
mod peer;
pub mod producer;
mod role;
pub mod sasl;
pub mod share;
mod topic_partition;
pub mod version_probe;

pub use backoff::{Backoff, wait_after};
pub use cluster::{Broker, Cluster, Partition, Topic};
pub use connection::{Call, Connection, Proof, Reply};
pub use error::{Error, ErrorKind};
pub use in_flight::RequestsInFlight;
pub use network::{Action, ConnectionId, Network, NetworkConfig};
pub use role::{ClientResponse, Deadline, LeaderChange, MetadataDemand, Outgoing, Role, Target};
pub use topic_partition::{TopicIdPartition, TopicPartition};

use std::fmt;
use std::ops::{Add, Sub};
use std::time::Duration;

/// A point in time, microseconds since an arbitrary start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub u64);

impl Time {
    /// Later than every deadline.
    pub const NEVER: Self = Self(u64::MAX);

    /// How long after `earlier` this is; zero if it is not.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Time {
    type Output = Self;
    fn add(self, d: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(d.as_micros()).unwrap_or(u64::MAX)))
    }
}

impl Sub for Time {
    type Output = Duration;
    fn sub(self, earlier: Self) -> Duration {
        self.since(earlier)
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:06} s", self.0 / 1_000_000, self.0 % 1_000_000)
    }
}

/// The earlier of two deadlines, either of which may be missing.
pub fn earliest(a: Option<Time>, b: Option<Time>) -> Option<Time> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}
