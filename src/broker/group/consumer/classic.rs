//! The state of a member that uses the classic protocol in a consumer group: its session, its protocols and its next
//! deadline.

use crate::api::data::consumer_protocol::{self, Assignment};
use crate::broker::Time;
use crate::broker::group::assignor::AssignedPartitions;
use crate::wire::Uuid;
use bytes::Bytes;
use std::time::Duration;

pub(super) const PROTOCOL_TYPE: &str = "consumer";

/// The additional state of a member that uses the classic protocol.
#[derive(Debug, Default)]
pub(super) struct Classic {
    pub session: Duration,
    /// The assignors that the member supports, each with its subscription.
    pub protocols: Vec<(String, Bytes)>,
    /// The time at which the member must have sent SyncGroup, or must have joined again.
    pub rebalance_deadline: Option<Time>,
}

impl Classic {
    pub fn memory_size(&self) -> usize {
        self.protocols.iter().map(|(name, metadata)| name.len() + metadata.len() + 64).sum()
    }

    pub fn first_protocol(&self) -> Option<&(String, Bytes)> {
        self.protocols.first()
    }

    /// Encodes partitions for SyncGroup, in the version of the member's subscription.
    pub fn assignment(&self, assigned: &AssignedPartitions, name_of: impl Fn(&Uuid) -> Option<String>) -> Bytes {
        let version = self.first_protocol().and_then(|(_, metadata)| metadata.first_chunk());
        let version = version.map_or(0, |first| i16::from_be_bytes(*first)).clamp(0, 3);
        let assigned = assigned.iter().filter_map(|(topic, partitions)| {
            let partitions = partitions.iter().copied().collect();
            Some(consumer_protocol::TopicPartitions { topic: name_of(topic)?, partitions })
        });
        let assignment = Assignment { assigned_partitions: assigned.collect(), user_data: None };
        consumer_protocol::encode(version, &assignment).map(Bytes::from).unwrap_or_default()
    }
}
