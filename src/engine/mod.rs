//! State machines of a client. The inputs of a state machine are bytes, responses and the time, and its outputs are
//! bytes, requests and events.
//!
//! The engine uses no socket, thread, lock or clock, except through [`crate::logging`] for its log lines. Every call
//! takes the time as an argument, so tests run thousands of scenarios a second under a simulated clock. The parts, from
//! the wire up:
//!
//! * [`Connection`]: one connection, with version negotiation, authentication and timeouts.
//! * [`version_probe`]: detects the release of a broker that has no ApiVersions.
//! * [`sasl`]: the authentication of a client.
//! * [`Network`]: all connections of a client, bootstrap and metadata.
//! * [`group`]: membership of a group.
//! * [`Role`]: the part of a client above the network: [`producer`], [`consumer`], [`share`], or single operations
//!   ([`ops`]).
//! * [`metrics`]: the metrics of the client.
//! * [`telemetry`]: pushes metrics to brokers (KIP-714).
//! * [`timers`]: the deadlines of a state machine.
//! * [`legacy`]: state machines for Kafka before 0.8.

mod backoff;
mod call;
mod cluster;
mod connection;
pub mod consumer;
mod coordinator;
mod error;
pub mod group;
mod in_flight;
pub mod legacy;
pub mod metrics;
mod network;
pub mod ops;
mod outage;
pub mod producer;
mod reminder;
mod role;
pub mod sasl;
pub mod share;
pub mod telemetry;
pub mod timers;
mod topic_errors;
mod topic_partition;
pub mod version_probe;

pub use backoff::{Backoff, wait_after};
pub use call::{Call, Reply};
pub use cluster::{Broker, Cluster, LeaderChange, Partition, Topic, throttle, throttle_error};
pub use connection::{Connection, ConnectionId, Exchange, LARGE_REQUEST, LoginConfig};
pub use error::{Error, ErrorKind, counted, seconds};
pub use in_flight::RequestsInFlight;
pub use network::{Action, Endpoints, LinkState, Network, NetworkConfig, NetworkMetrics};
pub use role::{ClientResponse, Deadline, MetadataDemand, Outgoing, Role, Target};
pub use topic_partition::{TopicIdPartition, TopicPartition};

use std::fmt;
use std::ops::{Add, Sub};
use std::time::Duration;

/// A point in time, in microseconds since an arbitrary start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub u64);

impl Time {
    /// A time after every deadline.
    pub const NEVER: Self = Self(u64::MAX);

    /// Returns the time that has passed since `earlier`, or zero if `earlier` is later.
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

/// Returns `host:port` for messages. Puts brackets around an IPv6 address, and escapes control characters.
pub fn address(host: &str, port: u16) -> String {
    let shown: String = if host.contains(char::is_control) { host.escape_debug().collect() } else { host.to_owned() };
    if shown.contains(':') && !shown.starts_with('[') { format!("[{shown}]:{port}") } else { format!("{shown}:{port}") }
}

/// Returns the earlier of two deadlines. Each of them may be missing.
pub fn earliest(a: Option<Time>, b: Option<Time>) -> Option<Time> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}
