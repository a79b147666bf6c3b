//! Identifiers that many files of the broker use. The file depends on no other file of the broker.

use crate::wire::Uuid;

/// The number of a connection. The caller assigns the numbers, and never uses a number twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Connection(pub u64);

/// A producer ID and its epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ProducerId {
    pub id: i64,
    pub epoch: i16,
}

impl ProducerId {
    pub const NONE: Self = Self { id: -1, epoch: -1 };

    /// Returns the producer ID with the next epoch, which fences the current producer.
    pub fn next_epoch(self) -> Self {
        Self { epoch: self.epoch.saturating_add(1), ..self }
    }
}

/// Allocates producer IDs. The field is the next producer ID.
#[derive(Debug)]
pub(super) struct ProducerIds(pub i64);

impl ProducerIds {
    pub fn next(&mut self) -> i64 {
        self.0 += 1;
        self.0 - 1
    }
}

/// A partition of a topic, by the topic's ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TopicIdPartition {
    pub topic_id: Uuid,
    pub partition: i32,
}

/// The key of a share session, in which a member of a share group reads from a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ShareSessionKey {
    pub node: i32,
    pub member_id: String,
}
