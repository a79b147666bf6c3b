//! Committed offsets of groups.
//!
//! The broker stores offsets by topic name, and deletes them with the topic. Offsets of a transaction are pending until
//! the transaction ends. If several requests of a transaction contain an offset for the same partition, the last offset
//! counts, as in Kafka. The keys and metadata of offsets count towards the cluster's memory limit.

use crate::broker::memory::Memory;
use crate::broker::transactions::offsets_partition;
use std::collections::{BTreeMap, BTreeSet};

/// Maximum metadata of an offset: Kafka's `offset.metadata.max.bytes`.
pub(in crate::broker) const MAX_METADATA: usize = 4096;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::broker) struct Committed {
    pub offset: i64,
    pub leader_epoch: i32,
    pub metadata: String,
}

/// A committed offset, with its position in the order of all commits.
#[derive(Debug)]
struct StoredOffset {
    committed: Committed,
    order: u64,
}

type Topics = BTreeMap<String, BTreeMap<i32, StoredOffset>>;

/// Offsets of open transactions, by producer ID.
type Pending = BTreeMap<String, BTreeMap<i32, BTreeMap<i64, StoredOffset>>>;

#[derive(Debug, Default)]
pub(in crate::broker) struct Offsets {
    offsets: BTreeMap<String, Topics>,
    pending: BTreeMap<String, Pending>,
    commits: u64,
}

fn memory_size(group: &str, topic: &str, stored: &StoredOffset) -> usize {
    group.len() + topic.len() + stored.committed.metadata.len() + 128
}

impl Offsets {
    /// Commits an offset. Returns false if the memory limit is reached.
    pub fn commit(&mut self, memory: &mut Memory, group: &str, topic: &str, partition: i32, new: Committed) -> bool {
        let new = self.stored(new);
        if !memory.try_reserve(memory_size(group, topic, &new)) {
            return false;
        }
        self.apply(memory, group, topic, partition, new);
        true
    }

    /// Stores an offset that takes effect when the producer commits its transaction. Returns false if the memory limit
    /// is reached.
    pub fn commit_pending(
        &mut self,
        memory: &mut Memory,
        group: &str,
        (topic, partition): (&str, i32),
        producer_id: i64,
        new: Committed,
    ) -> bool {
        let new = self.stored(new);
        if !memory.try_reserve(memory_size(group, topic, &new)) {
            return false;
        }
        let topics = self.pending.entry(group.to_owned()).or_default();
        let producers = topics.entry(topic.to_owned()).or_default().entry(partition).or_default();
        let old = producers.insert(producer_id, new);
        memory.release(old.map_or(0, |old| memory_size(group, topic, &old)));
        true
    }

    /// Ends a producer's transaction for groups in these partitions of `__consumer_offsets`. Applies or drops the
    /// transaction's offsets.
    pub fn end_transaction(&mut self, memory: &mut Memory, id: i64, partitions: &BTreeSet<i32>, committed: bool) {
        let mut ended = Vec::new();
        for (group, topics) in &mut self.pending {
            if !partitions.contains(&offsets_partition(group)) {
                continue;
            }
            for (topic, indexes) in topics.iter_mut() {
                for (index, producers) in indexes.iter_mut() {
                    ended.extend(producers.remove(&id).map(|stored| (group.clone(), topic.clone(), *index, stored)));
                }
                indexes.retain(|_, producers| !producers.is_empty());
            }
            topics.retain(|_, indexes| !indexes.is_empty());
        }
        self.pending.retain(|_, topics| !topics.is_empty());
        for (group, topic, index, stored) in ended {
            match committed {
                true => self.apply(memory, &group, &topic, index, stored),
                false => memory.release(memory_size(&group, &topic, &stored)),
            }
        }
    }

    fn stored(&mut self, committed: Committed) -> StoredOffset {
        self.commits += 1;
        StoredOffset { committed, order: self.commits }
    }

    /// Makes an offset the committed offset, if no later commit has replaced it. The memory of the offset is already
    /// reserved.
    fn apply(&mut self, memory: &mut Memory, group: &str, topic: &str, partition: i32, new: StoredOffset) {
        let topics = self.offsets.entry(group.to_owned()).or_default();
        let indexes = topics.entry(topic.to_owned()).or_default();
        if indexes.get(&partition).is_some_and(|old| old.order > new.order) {
            return memory.release(memory_size(group, topic, &new));
        }
        let old = indexes.insert(partition, new);
        memory.release(old.map_or(0, |old| memory_size(group, topic, &old)));
    }

    /// Returns whether an open transaction has an offset for the partition.
    pub fn is_unstable(&self, group: &str, topic: &str, partition: i32) -> bool {
        let indexes = self.pending.get(group).and_then(|topics| topics.get(topic));
        indexes.is_some_and(|indexes| indexes.contains_key(&partition))
    }

    pub fn committed(&self, group: &str, topic: &str, partition: i32) -> Option<&Committed> {
        self.offsets.get(group)?.get(topic)?.get(&partition).map(|stored| &stored.committed)
    }

    pub fn all(&self, group: &str) -> impl Iterator<Item = (&str, impl Iterator<Item = (i32, &Committed)>)> {
        self.offsets.get(group).into_iter().flatten().map(|(topic, partitions)| {
            (topic.as_str(), partitions.iter().map(|(index, stored)| (*index, &stored.committed)))
        })
    }

    /// Removes the offset of a partition, including pending offsets of open transactions.
    pub fn forget(&mut self, memory: &mut Memory, group: &str, topic: &str, partition: i32) {
        let of_topic = self.offsets.get_mut(group).and_then(|topics| topics.get_mut(topic));
        let stored = of_topic.and_then(|indexes| indexes.remove(&partition));
        let of_topic = self.pending.get_mut(group).and_then(|topics| topics.get_mut(topic));
        let pending = of_topic.and_then(|indexes| indexes.remove(&partition));
        for old in stored.into_iter().chain(pending.into_iter().flat_map(BTreeMap::into_values)) {
            memory.release(memory_size(group, topic, &old));
        }
    }

    pub fn forget_group(&mut self, memory: &mut Memory, group: &str) {
        for (topic, indexes) in self.offsets.remove(group).into_iter().flatten() {
            indexes.into_values().for_each(|old| memory.release(memory_size(group, &topic, &old)));
        }
        for (topic, indexes) in self.pending.remove(group).into_iter().flatten() {
            let producers = indexes.into_values().flat_map(BTreeMap::into_values);
            producers.for_each(|old| memory.release(memory_size(group, &topic, &old)));
        }
    }

    /// Removes all offsets of a deleted topic.
    pub fn forget_topic(&mut self, memory: &mut Memory, topic: &str) {
        for (group, topics) in &mut self.offsets {
            for old in topics.remove(topic).into_iter().flat_map(BTreeMap::into_values) {
                memory.release(memory_size(group, topic, &old));
            }
        }
        self.offsets.retain(|_, topics| !topics.is_empty());
        for (group, topics) in &mut self.pending {
            let producers = topics.remove(topic).into_iter().flat_map(BTreeMap::into_values);
            for old in producers.flat_map(BTreeMap::into_values) {
                memory.release(memory_size(group, topic, &old));
            }
        }
        self.pending.retain(|_, topics| !topics.is_empty());
    }
}
