//! Types that identify a partition. [`TopicPartition`] has the topic's name, and [`TopicIdPartition`] also has the
//! topic's ID, which some requests need.

use crate::wire::Uuid;
use std::fmt;
use std::sync::Arc;

/// A partition of a topic, by the topic's name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicPartition {
    /// The topic's name.
    pub topic: Arc<str>,
    /// The partition's number.
    pub partition: i32,
}

impl TopicPartition {
    /// Creates the name of a partition.
    pub fn new(topic: impl Into<Arc<str>>, partition: i32) -> Self {
        Self { topic: topic.into(), partition }
    }
}

impl<T: Into<Arc<str>>> From<(T, i32)> for TopicPartition {
    fn from((topic, partition): (T, i32)) -> Self {
        Self::new(topic, partition)
    }
}

/// Writes `topic-partition`, like Kafka's logs.
impl fmt::Display for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.topic, self.partition)
    }
}

/// A partition of a topic, with the topic's name and ID. Messages need the name, and some requests accept only the ID.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicIdPartition {
    /// The topic's name.
    pub topic: Arc<str>,
    /// The topic's ID.
    pub id: Uuid,
    /// The partition's number.
    pub partition: i32,
}

impl TopicIdPartition {
    /// Returns the partition without the topic's ID.
    pub fn topic_partition(&self) -> TopicPartition {
        TopicPartition::new(self.topic.clone(), self.partition)
    }
}
