//! Estimates how many bytes the consumer still has to fetch up to an end offset. The estimate limits how many bytes a
//! fetch request asks for.
//!
//! A broker returns records up to the requested size, even above the end offset. Without an estimate, a reader of a
//! short range, such as a Spark task, would receive many times the bytes that it needs. `fetch_response.rs` measures
//! the responses, and `fetch.rs` limits the requested size.

use crate::engine::TopicPartition;
use std::collections::BTreeMap;

/// The smallest limit of a request, in bytes. Smaller responses would hardly arrive sooner.
const MIN_LIMIT: usize = 16 << 10;
/// The smallest limit before the first response of a topic. `FIRST_BYTES` is the assumed size of each record until
/// then. If the records are larger, the consumer needs a second fetch, which has a better estimate.
const MIN_FIRST_LIMIT: usize = 64 << 10;
const FIRST_BYTES: usize = 128;

/// The size of the batches in a response, as they are in the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Density {
    pub bytes: usize,
    pub batches: usize,
    /// The number of offsets from the start of the first batch to the end of the last batch.
    pub offsets: usize,
}

impl Density {
    /// Returns the estimated size of records with this number of offsets, in bytes.
    fn bytes_of(self, offsets: usize) -> usize {
        let records = (self.bytes as u128).saturating_mul(offsets as u128) / (self.offsets.max(1) as u128);
        // The first and the last batch are only partly in the range, on average half of each.
        usize::try_from(records).unwrap_or(usize::MAX).saturating_add(self.bytes / self.batches.max(1))
    }
}

/// The last densities of the partitions that were read up to an end offset.
#[derive(Debug, Default)]
pub struct Densities(BTreeMap<TopicPartition, Density>);

impl Densities {
    /// Stores the density of a response for a partition.
    pub fn note(&mut self, partition: TopicPartition, density: Density) {
        if density.batches > 0 {
            self.0.insert(partition, density);
        }
    }

    /// Returns the size to request for a number of offsets of a partition.
    pub fn limit(&self, partition: &TopicPartition, offsets: usize) -> usize {
        let first = TopicPartition::new(partition.topic.clone(), i32::MIN);
        let of_topic = || self.0.range(first..).next().filter(|(other, _)| other.topic == partition.topic);
        match self.0.get(partition).or_else(|| of_topic().map(|(_, density)| density)) {
            Some(density) => density.bytes_of(offsets).max(MIN_LIMIT),
            None => offsets.saturating_mul(FIRST_BYTES).max(MIN_FIRST_LIMIT),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(topic: &str, partition: i32) -> TopicPartition {
        TopicPartition::new(topic, partition)
    }

    #[test]
    fn a_limit_follows_the_range_and_the_size_of_records() {
        let mut densities = Densities::default();
        assert_eq!(densities.limit(&at("t", 0), 10), MIN_FIRST_LIMIT);
        assert_eq!(densities.limit(&at("t", 0), 10_000), 1_280_000);
        densities.note(at("t", 0), Density { bytes: 1_000_000, batches: 100, offsets: 1_000 });
        assert_eq!(densities.limit(&at("t", 0), 500), 510_000);
        assert_eq!(densities.limit(&at("t", 0), 1), MIN_LIMIT);
        assert_eq!(densities.limit(&at("t", 0), usize::MAX), usize::MAX);
    }

    #[test]
    fn a_partition_without_a_response_is_like_another_one_of_its_topic() {
        let mut densities = Densities::default();
        let ten_kilobytes = Density { bytes: 1_000_000, batches: 10, offsets: 100 };
        densities.note(at("t", 3), ten_kilobytes);
        densities.note(at("s", 0), Density { bytes: 10_000, batches: 1, offsets: 100 });
        densities.note(at("u", 0), Density { bytes: 10_000, batches: 1, offsets: 100 });
        assert_eq!(densities.limit(&at("t", 0), 50), 600_000);
        assert_eq!(densities.limit(&at("tt", 0), 50), MIN_FIRST_LIMIT);
        densities.note(at("t", 3), Density::default());
        assert_eq!(densities.limit(&at("t", 3), 50), 600_000, "a response without batches shows nothing");
    }
}
