//! Chooses the partition of a record.
//!
//! The hash of the key selects the partition. The default hash is murmur2 as in the Java client, so that klamm and the
//! Java client send records with the same key to the same partition. Records without a key go to one partition until it
//! has received about `batch.size` bytes, and then to another partition (KIP-794).

use crate::record::crc32;

/// Returns the hash of a key by Kafka's variant of MurmurHash2.
pub fn murmur2(data: &[u8]) -> i32 {
    const SEED: u32 = 0x9747_b28c;
    const M: u32 = 0x5bd1_e995;
    let mut h = SEED ^ data.len() as u32;
    let (words, rest) = data.as_chunks();
    for word in words {
        let mut k = u32::from_le_bytes(*word).wrapping_mul(M);
        k ^= k >> 24;
        h = h.wrapping_mul(M) ^ k.wrapping_mul(M);
    }
    if !rest.is_empty() {
        h = (h ^ rest.iter().rev().fold(0, |k, b| k << 8 | u32::from(*b))).wrapping_mul(M);
    }
    h ^= h >> 13;
    h = h.wrapping_mul(M);
    (h ^ h >> 15) as i32
}

/// Returns the hash modulo the count. The division has 32 bits, because a 64-bit division takes longer than the hash of
/// a short key.
#[inline]
fn reduce(count: usize, hash: u32) -> usize {
    u32::try_from(count.max(1)).map_or(hash, |count| hash % count) as usize
}

/// Returns the partition of a key by murmur2. `count` is the topic's number of partitions, at least 1.
pub fn partition_of(key: &[u8], count: usize) -> usize {
    reduce(count, (murmur2(key) & i32::MAX) as u32)
}

/// Returns the partition of a key by CRC-32, like librdkafka's partitioner `consistent`.
pub fn crc32_partition_of(key: &[u8], count: usize) -> usize {
    reduce(count, crc32(key))
}

/// Returns the partition of a key by its 32-bit FNV-1a hash, which is made positive as in Sarama and librdkafka.
pub fn fnv1a_partition_of(key: &[u8], count: usize) -> usize {
    let hash = key.iter().fold(0x811c_9dc5_u32, |h, b| (h ^ u32::from(*b)).wrapping_mul(0x0100_0193));
    reduce(count, (hash as i32).unsigned_abs())
}

/// How to choose the partition of a record if the application named no partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Partitioner {
    /// The murmur2 hash of the key, as in the Java client. Records without a key go to the sticky partition.
    #[default]
    Murmur2,
    /// The CRC-32 of the key, as by default in librdkafka. Records with an empty key or without a key go to the sticky
    /// partition.
    Crc32,
    /// The FNV-1a hash of the key, as in Sarama. Records without a key go to the sticky partition.
    Fnv1a,
    /// Every partition in turn. The key has no effect.
    RoundRobin,
    /// The sticky partition. The key has no effect.
    Uniform,
}

/// The partitioner's choice for one record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chosen {
    /// The partition with this number.
    Partition(usize),
    /// The partition after the last used partition.
    Next,
    /// The current sticky partition.
    Sticky,
}

impl Partitioner {
    /// The values of the `partitioner` setting.
    pub const NAMES: &[&str] = &["murmur2_random", "consistent_random", "fnv1a_random", "round_robin", "uniform"];

    /// Returns the partitioner that a configuration value names.
    pub fn from_name(name: &str) -> Self {
        match name {
            "consistent_random" => Self::Crc32,
            "fnv1a_random" => Self::Fnv1a,
            "round_robin" => Self::RoundRobin,
            "uniform" => Self::Uniform,
            _ => Self::Murmur2,
        }
    }

    /// Chooses one of `count` partitions.
    #[inline]
    pub(super) fn choose(self, key: Option<&[u8]>, count: usize) -> Chosen {
        match (self, key) {
            (Self::RoundRobin, _) => Chosen::Next,
            (Self::Uniform, _) | (_, None) | (Self::Crc32, Some([])) => Chosen::Sticky,
            (Self::Murmur2, Some(key)) => Chosen::Partition(partition_of(key, count)),
            (Self::Crc32, Some(key)) => Chosen::Partition(crc32_partition_of(key, count)),
            (Self::Fnv1a, Some(key)) => Chosen::Partition(fnv1a_partition_of(key, count)),
        }
    }
}

/// The sticky partition of a topic.
#[derive(Clone, Debug)]
pub struct Sticky {
    current: usize,
    bytes: usize,
    seed: u64,
}

impl Sticky {
    /// Starts at a partition that depends on the seed, so that producers start at different partitions.
    pub fn new(seed: u64) -> Self {
        let mut this = Self { current: 0, bytes: 0, seed: seed | 1 };
        this.current = this.random();
        this
    }

    fn random(&mut self) -> usize {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        (self.seed >> 16) as usize
    }

    /// Switches to another partition. A partition with fewer waiting batches is more likely to be chosen (KIP-794). A
    /// load of `None` means that the partition has no leader now.
    pub fn switch(&mut self, loads: &[Option<usize>]) {
        self.bytes = 0;
        let random = self.random();
        let most = loads.iter().flatten().max().copied().unwrap_or(0);
        let weight = |load: &Option<usize>| load.map_or(0, |load| most - load + 1);
        let total: usize = loads.iter().map(weight).sum();
        let Some(mut left) = random.checked_rem(total) else {
            self.current = random;
            return;
        };
        for (i, load) in loads.iter().enumerate() {
            let weight = weight(load);
            if left < weight {
                self.current = i;
                return;
            }
            left -= weight;
        }
    }

    /// Moves to the next partition among `count`, and returns it.
    pub fn next(&mut self, count: usize) -> usize {
        self.current = (self.current + 1) % count.max(1);
        self.current
    }

    /// Returns the current partition among `count`.
    pub fn partition(&self, count: usize) -> usize {
        self.current % count.max(1)
    }

    /// Counts bytes that went to the current partition. Returns true if the partition has received `batch_size` bytes,
    /// and the producer should switch to another partition.
    pub fn count_bytes(&mut self, bytes: usize, batch_size: usize) -> bool {
        self.bytes += bytes;
        self.bytes >= batch_size
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts how often each partition is chosen.
    fn turns(loads: &[Option<usize>]) -> Vec<usize> {
        let mut sticky = Sticky::new(7);
        let mut turns = vec![0; loads.len()];
        for _ in 0..10_000 {
            sticky.switch(loads);
            turns[sticky.partition(loads.len())] += 1;
        }
        turns
    }

    #[test]
    fn partitions_with_longer_queues_are_chosen_less_often() {
        let even = turns(&[Some(3); 4]);
        assert!(even.iter().all(|n| (2_200..2_800).contains(n)), "{even:?}");
        let slow = turns(&[Some(0), Some(9), Some(0)]);
        assert!(slow[1] * 5 < slow[0] && slow[1] > 0, "{slow:?}");
        let without_leader = turns(&[Some(1), None, Some(1)]);
        assert_eq!(without_leader[1], 0);
    }
}
