//! The settings of a group member, the topics that it subscribes to, and its identity in the group.

use super::coordinator_client::CoordinatorClient;
use super::strategy::Strategy;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The identity of a consumer in its group. Commits contain this identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupMetadata {
    /// The group's name.
    pub group: String,
    /// The group's generation, or the member's epoch, or -1 if the consumer is not a member.
    pub generation: i32,
    /// The member's ID, which is empty if the consumer is not a member.
    pub member: String,
    /// The instance ID of a static member (KIP-345).
    pub instance: Option<String>,
}

impl GroupMetadata {
    /// Returns the identity of a client that commits for a group without being a member.
    pub fn outside(group: String) -> Self {
        Self { group, generation: -1, member: String::new(), instance: None }
    }
}

/// The protocol of a group, from the setting `group.protocol`.
#[derive(Clone)]
pub enum Protocol {
    /// The members assign the partitions, with the first of these assignors that all members have.
    Classic(Vec<Strategy>),
    /// The coordinator assigns the partitions, with the assignor of this name, or with its default assignor.
    Consumer(Option<String>),
}

impl fmt::Debug for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Classic(assignors) => f.debug_list().entries(assignors.iter().map(|a| a.name())).finish(),
            Self::Consumer(assignor) => write!(f, "{assignor:?}"),
        }
    }
}

/// Settings of a group member.
#[derive(Clone, Debug)]
pub struct GroupConfig {
    /// The group's name.
    pub group: String,
    /// The instance ID of a static member (KIP-345).
    pub instance: Option<String>,
    /// The rack of the client.
    pub rack: String,
    /// The group's protocol.
    pub protocol: Protocol,
    /// The time without a heartbeat after which the coordinator drops a classic member.
    pub session_timeout: Duration,
    /// The interval of a classic member's heartbeats.
    pub heartbeat_interval: Duration,
    /// The longest time between polls. In a rebalance, the other members wait at most this long for the member.
    pub max_poll_interval: Duration,
    /// How long a broker may take to respond.
    pub request_timeout: Duration,
    /// How long joining may fail before the application gets an error.
    pub api_timeout: Duration,
    /// The shortest and the longest wait before a retry.
    pub retry_backoff: (Duration, Duration),
    /// The seed of the member's ID and of the jitter.
    pub seed: u64,
}

impl GroupConfig {
    pub(super) fn coordinator_client(&self) -> CoordinatorClient {
        let timeouts = (self.request_timeout, self.api_timeout);
        CoordinatorClient::new(self.group.clone(), timeouts, self.retry_backoff, self.seed)
    }
}

/// The topics that a consumer subscribes to, by name or by pattern.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subscription {
    /// The names of the topics. For a pattern, the names that match it now.
    pub topics: BTreeSet<Arc<str>>,
    /// The pattern, if the coordinator matches it (KIP-848).
    pub pattern: Option<String>,
}
