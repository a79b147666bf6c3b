//! Online migration of KIP-848. A classic group becomes a consumer group when the first member with the KIP-848
//! protocol joins. The group becomes a classic group again when the last member with the KIP-848 protocol has left.
//!
//! `group.consumer.migration.policy` allows upgrades to a consumer group, downgrades to a classic group, both, or
//! neither. The dev broker does not implement `group.consumer.max.size` and `group.max.size`, which Kafka checks before
//! it converts a group.

use bytes::Bytes;
use std::time::Duration;

/// The name of the node configuration for the migration policy.
pub(in crate::broker) const POLICY: &str = "group.consumer.migration.policy";

/// Which conversions are allowed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::broker) struct Policy {
    pub upgrades: bool,
    pub downgrades: bool,
}

impl Policy {
    /// Returns the policy with this name, ignoring case. The error is a message.
    pub fn by_name(name: &str) -> Result<Self, String> {
        let (upgrades, downgrades) = match name.trim().to_ascii_lowercase().as_str() {
            "bidirectional" => (true, true),
            "upgrade" => (true, false),
            "downgrade" => (false, true),
            "disabled" => (false, false),
            _ => {
                return Err(format!(
                    "Invalid value {name} for configuration {POLICY}: String must be one of (case insensitive): \
                     BIDIRECTIONAL, UPGRADE, DOWNGRADE, DISABLED"
                ));
            }
        };
        Ok(Self { upgrades, downgrades })
    }

    /// Returns whether a group may have members of both protocols.
    pub fn mixes(self) -> bool {
        self.upgrades || self.downgrades
    }
}

/// A member of the classic protocol, during the conversion of its group.
#[derive(Debug)]
pub(in crate::broker) struct Migrant {
    pub id: String,
    pub instance: Option<String>,
    pub client_id: String,
    pub session: Duration,
    pub rebalance: Duration,
    /// The protocols that the member supports, each with the member's subscription.
    pub protocols: Vec<(String, Bytes)>,
    /// The member's assignment in the format of the embedded consumer protocol. It has no bytes if the group leader did
    /// not assign partitions to the member.
    pub assignment: Bytes,
}
