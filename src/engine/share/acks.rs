//! Acknowledgements on their way to the broker that gave the records out.

use crate::api::share_acknowledge::{self, RENEW};
use crate::api::share_fetch;
use crate::engine::TopicIdPartition;
use std::collections::BTreeMap;

/// What became of records, as ranges of offsets, so that a batch that is done with is one entry.
#[derive(Debug, Default)]
pub struct Acks(BTreeMap<TopicIdPartition, Ranges>);

/// First offset to last offset and type. Ranges do not overlap.
type Ranges = BTreeMap<i64, (i64, i8)>;

impl Acks {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether some lock is to be renewed, which a fetch cannot say.
    pub fn renews(&self) -> bool {
        self.0.values().flat_map(BTreeMap::values).any(|(_, kind)| *kind == RENEW)
    }

    /// Notes what became of a record; the last word counts.
    pub fn put(&mut self, spot: &TopicIdPartition, offset: i64, kind: i8) {
        self.put_range(spot, offset, offset, kind);
    }

    /// The same for neighbouring records.
    pub fn put_range(&mut self, spot: &TopicIdPartition, first: i64, last: i64, kind: i8) {
        let ranges = match self.0.get_mut(spot) {
            Some(ranges) => ranges,
            None => self.0.entry(spot.clone()).or_default(),
        };
        cut(ranges, first, last);
        match ranges.range_mut(..first).next_back() {
            Some((_, (end, before))) if *before == kind && end.checked_add(1) == Some(first) => *end = last,
            _ => drop(ranges.insert(first, (last, kind))),
        }
    }

    pub fn spots(&self) -> impl Iterator<Item = &TopicIdPartition> {
        self.0.keys()
    }

    pub fn of(&self, spot: &TopicIdPartition) -> Vec<share_fetch::AcknowledgementBatch> {
        let batches = self.0.get(spot).into_iter().flatten();
        let batch = |(first, (last, kind)): (&i64, &(i64, i8))| share_fetch::AcknowledgementBatch {
            first_offset: *first,
            last_offset: *last,
            acknowledge_types: vec![*kind],
        };
        batches.map(batch).collect()
    }

    /// As ShareAcknowledge has it.
    pub fn topics(&self) -> Vec<share_acknowledge::Topic> {
        let mut topics: Vec<share_acknowledge::Topic> = Vec::new();
        for (spot, ranges) in &self.0 {
            let batch = |(first, (last, kind)): (&i64, &(i64, i8))| share_acknowledge::AcknowledgementBatch {
                first_offset: *first,
                last_offset: *last,
                acknowledge_types: vec![*kind],
            };
            let acknowledgement_batches = ranges.iter().map(batch).collect();
            let partition = share_acknowledge::Partition { partition_index: spot.partition, acknowledgement_batches };
            match topics.last_mut().filter(|t| t.topic_id == spot.id) {
                Some(topic) => topic.partitions.push(partition),
                None => topics.push(share_acknowledge::Topic { topic_id: spot.id, partitions: vec![partition] }),
            }
        }
        topics
    }
}

/// Makes room for a range.
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

    fn spot() -> TopicIdPartition {
        TopicIdPartition { topic: "t".into(), id: Uuid::ZERO, partition: 0 }
    }

    #[test]
    fn neighbours_of_one_kind_are_one_range() {
        let mut acks = Acks::default();
        (0..5).for_each(|offset| acks.put(&spot(), offset, ACCEPT));
        acks.put(&spot(), 5, REJECT);
        acks.put(&spot(), 6, ACCEPT);
        let ranges: Vec<_> = acks.of(&spot()).iter().map(|b| (b.first_offset, b.last_offset)).collect();
        assert_eq!(ranges, [(0, 4), (5, 5), (6, 6)]);
    }

    proptest! {
        /// The last word about each offset is the one that is sent, once.
        #[test]
        fn the_last_word_counts(said in prop::collection::vec((0i64..20, 0i64..6, 1i8..=4), 0..30)) {
            let (mut acks, mut last_words) = (Acks::default(), BTreeMap::new());
            for (first, more, kind) in said {
                acks.put_range(&spot(), first, first + more, kind);
                last_words.extend((first..=first + more).map(|offset| (offset, kind)));
            }
            let mut sent = Vec::new();
            for b in acks.of(&spot()) {
                sent.extend((b.first_offset..=b.last_offset).map(|offset| (offset, b.acknowledge_types[0])));
            }
            prop_assert_eq!(sent, last_words.into_iter().collect::<Vec<_>>());
        }
    }
}
