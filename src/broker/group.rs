//! Groups: so far the offsets they committed; nobody can be a member yet.
//!
//! Offsets are kept by topic name and go with the topic. Keys and metadata count towards the cluster's memory.

use super::state::Memory;
use std::collections::BTreeMap;

/// Bytes of metadata that may come with an offset: Kafka's `offset.metadata.max.bytes`.
pub(super) const MAX_METADATA: usize = 4096;

/// An offset as it was committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Committed {
    pub offset: i64,
    pub leader_epoch: i32,
    pub metadata: String,
}

type Offsets = BTreeMap<String, BTreeMap<i32, Committed>>;

/// All groups.
#[derive(Debug, Default)]
pub(super) struct Groups(BTreeMap<String, Offsets>);

/// What keeping one offset takes, roughly.
fn cost(group: &str, topic: &str, metadata: &str) -> usize {
    group.len() + topic.len() + metadata.len() + 128
}

impl Groups {
    /// Keeps an offset; false if there is no memory for it.
    pub fn commit(&mut self, memory: &mut Memory, group: &str, topic: &str, partition: i32, new: Committed) -> bool {
        if !memory.take(cost(group, topic, &new.metadata)) {
            return false;
        }
        let topics = self.0.entry(group.to_owned()).or_default();
        let old = topics.entry(topic.to_owned()).or_default().insert(partition, new);
        memory.give(old.map_or(0, |old| cost(group, topic, &old.metadata)));
        true
    }

    /// What a group committed for a partition.
    pub fn committed(&self, group: &str, topic: &str, partition: i32) -> Option<&Committed> {
        self.0.get(group)?.get(topic)?.get(&partition)
    }

    /// Everything a group committed, by topic.
    pub fn all(&self, group: &str) -> impl Iterator<Item = (&str, &BTreeMap<i32, Committed>)> {
        self.0.get(group).into_iter().flatten().map(|(topic, partitions)| (topic.as_str(), partitions))
    }

    /// Forgets what was committed for a topic that is gone.
    pub fn forget_topic(&mut self, memory: &mut Memory, topic: &str) {
        for (group, topics) in &mut self.0 {
            for old in topics.remove(topic).into_iter().flat_map(BTreeMap::into_values) {
                memory.give(cost(group, topic, &old.metadata));
            }
        }
        self.0.retain(|_, topics| !topics.is_empty());
    }
}
