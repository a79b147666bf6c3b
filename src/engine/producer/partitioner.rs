//! Which partition a record goes to: murmur2 of the key, as the Java client, so that keys stay together whoever writes
//! them; records without a key stick to one partition until a batch's worth of bytes went there (KIP-794).

use crate::record::crc32;

/// Kafka's variant of MurmurHash2, over the key's bytes.
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

/// The remainder, from a division of 32 bits: one of 64 takes longer than the hash of a short key.
#[inline]
fn among(count: usize, hash: u32) -> usize {
    u32::try_from(count.max(1)).map_or(hash, |count| hash % count) as usize
}

/// The partition of a key among `count`, which is at least 1.
pub fn partition_of(key: &[u8], count: usize) -> usize {
    among(count, (murmur2(key) & i32::MAX) as u32)
}

/// The partition of a key among `count` by its CRC-32: librdkafka's `consistent`.
pub fn crc32_partition_of(key: &[u8], count: usize) -> usize {
    among(count, crc32(key))
}

/// The partition of a key among `count` by its FNV-1a hash of 32 bits, made positive as Sarama and librdkafka do.
pub fn fnv1a_partition_of(key: &[u8], count: usize) -> usize {
    let hash = key.iter().fold(0x811c_9dc5_u32, |h, b| (h ^ u32::from(*b)).wrapping_mul(0x0100_0193));
    among(count, (hash as i32).unsigned_abs())
}

/// How partitions are chosen for records that name none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Partitioner {
    /// By murmur2 of the key, as the Java client; without a key sticky.
    #[default]
    Murmur2,
    /// By CRC-32 of the key, as librdkafka by default; without a key or with an empty one sticky.
    Crc32,
    /// By FNV-1a of the key, as Sarama; without a key sticky.
    Fnv1a,
    /// Every partition in turn, whatever the key.
    RoundRobin,
    /// Sticky, whatever the key.
    Uniform,
}

/// What a partitioner says of one record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chosen {
    /// This one.
    Partition(usize),
    /// The one after the last.
    Next,
    /// The one that is stuck to.
    Sticky,
}

impl Partitioner {
    /// The names in configurations.
    pub const NAMES: &[&str] = &["murmur2_random", "consistent_random", "fnv1a_random", "round_robin", "uniform"];

    /// The partitioner of a name.
    pub fn from_name(name: &str) -> Self {
        match name {
            "consistent_random" => Self::Crc32,
            "fnv1a_random" => Self::Fnv1a,
            "round_robin" => Self::RoundRobin,
            "uniform" => Self::Uniform,
            _ => Self::Murmur2,
        }
    }

    /// Where a record goes among `count` partitions.
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

/// Where records without a key go for now.
#[derive(Clone, Debug)]
pub struct Sticky {
    current: usize,
    bytes: usize,
    seed: u64,
}

impl Sticky {
    /// Starts at a partition that depends on the seed, so that many producers do not start at the same one.
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

    /// Another partition has its turn: the fewer batches wait for one, the likelier it is (KIP-794). `None` is one that
    /// cannot be sent to now.
    pub fn turn(&mut self, loads: &[Option<usize>]) {
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

    /// The partition after the last one, among `count`.
    pub fn next(&mut self, count: usize) -> usize {
        self.current = (self.current + 1) % count.max(1);
        self.current
    }

    /// The partition for now, among `count`.
    pub fn partition(&self, count: usize) -> usize {
        self.current % count.max(1)
    }

    /// Notes what went there; says whether that were `batch_size` bytes, and it is another partition's turn.
    pub fn sent(&mut self, bytes: usize, batch_size: usize) -> bool {
        self.bytes += bytes;
        self.bytes >= batch_size
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How often each partition has its turn.
    fn turns(loads: &[Option<usize>]) -> Vec<usize> {
        let mut sticky = Sticky::new(7);
        let mut turns = vec![0; loads.len()];
        for _ in 0..10_000 {
            sticky.turn(loads);
            turns[sticky.partition(loads.len())] += 1;
        }
        turns
    }

    #[test]
    fn partitions_have_turns_alike_and_the_fewer_the_more_waits_for_them() {
        let alike = turns(&[Some(3); 4]);
        assert!(alike.iter().all(|n| (2_200..2_800).contains(n)), "{alike:?}");
        let slow = turns(&[Some(0), Some(9), Some(0)]);
        assert!(slow[1] * 5 < slow[0] && slow[1] > 0, "{slow:?}");
        let without_leader = turns(&[Some(1), None, Some(1)]);
        assert_eq!(without_leader[1], 0);
    }
}
