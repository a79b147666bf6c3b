//! Collects acknowledgements of acquired records for the next request to the partition leader.

use crate::api::share_acknowledge::{self, RENEW};
use crate::api::share_fetch;
use crate::engine::TopicIdPartition;
use std::collections::BTreeMap;

/// Acknowledgements by partition, as ranges of offsets. An accepted batch is therefore one entry.
#[derive(Debug, Default)]
pub struct Acks(BTreeMap<TopicIdPartition, Ranges>);

/// Maps the first offset to the last offset and the acknowledgement type. Ranges do not overlap.
type Ranges = BTreeMap<i64, (i64, i8)>;

impl Acks {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether an acknowledgement renews a lock. ShareFetch cannot contain such an acknowledgement.
    pub fn renews(&self) -> bool {
        self.0.values().flat_map(BTreeMap::values).any(|(_, kind)| *kind == RENEW)
    }

    /// Acknowledges a record, and replaces an earlier acknowledgement of the same record.
    pub fn put(&mut self, topic_partition: &TopicIdPartition, offset: i64, kind: i8) {
        self.put_range(topic_partition, offset, offset, kind);
    }

    /// Acknowledges a range of records.
    pub fn put_range(&mut self, topic_partition: &TopicIdPartition, first: i64, last: i64, kind: i8) {
        let ranges = match self.0.get_mut(topic_partition) {
            Some(ranges) => ranges,
            None => self.0.entry(topic_partition.clone()).or_default(),
        };
        cut(ranges, first, last);
        match ranges.range_mut(..first).next_back() {
            Some((_, (end, before))) if *before == kind && end.checked_add(1) == Some(first) => *end = last,
            _ => drop(ranges.insert(first, (last, kind))),
        }
    }

    /// Returns the number of acknowledged offsets of a partition.
    pub fn count(&self, topic_partition: &TopicIdPartition) -> u64 {
        let ranges = self.0.get(topic_partition).into_iter().flatten();
        ranges.map(|(first, (last, _))| last.abs_diff(*first).saturating_add(1)).sum()
    }

    pub fn partitions(&self) -> impl Iterator<Item = &TopicIdPartition> {
        self.0.keys()
    }

    /// Returns the acknowledgements of a partition in the form for ShareFetch.
    pub fn of(&self, topic_partition: &TopicIdPartition) -> Vec<share_fetch::AcknowledgementBatch> {
        let batches = self.0.get(topic_partition).into_iter().flatten();
        let batch = |(first, (last, kind)): (&i64, &(i64, i8))| share_fetch::AcknowledgementBatch {
            first_offset: *first,
            last_offset: *last,
            acknowledge_types: vec![*kind],
        };
        batches.map(batch).collect()
    }

    /// Returns all acknowledgements in the form for ShareAcknowledge.
    pub fn topics(&self) -> Vec<share_acknowledge::Topic> {
        let mut topics: Vec<share_acknowledge::Topic> = Vec::new();
        for (topic_partition, ranges) in &self.0 {
            let batch = |(first, (last, kind)): (&i64, &(i64, i8))| share_acknowledge::AcknowledgementBatch {
                first_offset: *first,
                last_offset: *last,
                acknowledge_types: vec![*kind],
            };
            let acknowledgement_batches = ranges.iter().map(batch).collect();
            let partition =
                share_acknowledge::Partition { partition_index: topic_partition.partition, acknowledgement_batches };
            match topics.last_mut().filter(|t| t.topic_id == topic_partition.id) {
                Some(topic) => topic.partitions.push(partition),
                None => {
                    topics.push(share_acknowledge::Topic { topic_id: topic_partition.id, partitions: vec![partition] })
                }
            }
        }
        topics
    }
}

/// Removes the offsets from `first` to `last`, and shortens or splits the ranges that contain some of them.
fn cut(ranges: &mut Ranges, first: i64, last: i64) {
    let hit: Vec<(i64, i64, i8)> = {
        let before = ranges.range(..first).next_back().filter(|(_, (end, _))| *end >= first);
        let within = ranges.range(first..=last);
        before.into_iter().chain(within).map(|(start, (end, kind))| (*start, *end, *kind)).collect()
    };
    for (start, end, kind) in hit {
        ranges.remove(&start);
        if start < first {
            ranges.insert(start, (first - 1, kind));
        }
        if end > last {
            ranges.insert(last + 1, (end, kind));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::share_acknowledge::{ACCEPT, REJECT};
    use crate::wire::Uuid;
    use proptest::prelude::*;

    fn topic_partition() -> TopicIdPartition {
        TopicIdPartition { topic: "t".into(), id: Uuid::ZERO, partition: 0 }
    }

    #[test]
    fn adjacent_records_with_the_same_type_are_one_range() {
        let mut acks = Acks::default();
        (0..5).for_each(|offset| acks.put(&topic_partition(), offset, ACCEPT));
        acks.put(&topic_partition(), 5, REJECT);
        acks.put(&topic_partition(), 6, ACCEPT);
        let ranges: Vec<_> = acks.of(&topic_partition()).iter().map(|b| (b.first_offset, b.last_offset)).collect();
        assert_eq!(ranges, [(0, 4), (5, 5), (6, 6)]);
    }

    proptest! {
        /// Checks that the last acknowledgement of each offset is sent once.
        #[test]
        fn the_last_acknowledgement_wins(acknowledged in prop::collection::vec((0i64..20, 0i64..6, 1i8..=4), 0..30)) {
            let (mut acks, mut expected) = (Acks::default(), BTreeMap::new());
            for (first, more, kind) in acknowledged {
                acks.put_range(&topic_partition(), first, first + more, kind);
                expected.extend((first..=first + more).map(|offset| (offset, kind)));
            }
            let mut sent = Vec::new();
            for b in acks.of(&topic_partition()) {
                sent.extend((b.first_offset..=b.last_offset).map(|offset| (offset, b.acknowledge_types[0])));
            }
            prop_assert_eq!(sent, expected.into_iter().collect::<Vec<_>>());
        }
    }
}
