//! Which partition a record goes to: murmur2 of the key, as the Java client, so that keys stay together whoever writes
//! them; records without a key stick to one partition until a batch's worth of bytes went there (KIP-794).

/// Kafka's variant of MurmurHash2, over the key's bytes.
pub fn murmur2(data: &[u8]) -> i32 {
    const SEED: u32 = 0x9747_b28c;
    const M: u32 = 0x5bd1_e995;
    let mut h = SEED ^ data.len() as u32;
    let mut words = data.chunks_exact(4);
    for word in &mut words {
        let mut k = word.iter().rev().fold(0, |k, b| k << 8 | u32::from(*b)).wrapping_mul(M);
        k ^= k >> 24;
        h = h.wrapping_mul(M) ^ k.wrapping_mul(M);
    }
    let rest = words.remainder();
    if !rest.is_empty() {
        h = (h ^ rest.iter().rev().fold(0, |k, b| k << 8 | u32::from(*b))).wrapping_mul(M);
    }
    h ^= h >> 13;
    h = h.wrapping_mul(M);
    (h ^ h >> 15) as i32
}

/// The partition of a key among `count`, which is at least 1.
pub fn partition_of(key: &[u8], count: usize) -> usize {
    (murmur2(key) & i32::MAX) as usize % count.max(1)
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
        this.turn();
        this
    }

    fn turn(&mut self) {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        self.current = (self.seed >> 16) as usize;
        self.bytes = 0;
    }

    /// The partition for now, among `count`.
    pub fn partition(&self, count: usize) -> usize {
        self.current % count.max(1)
    }

    /// Notes what went there; after `batch_size` bytes another partition has its turn.
    pub fn sent(&mut self, bytes: usize, batch_size: usize) {
        self.bytes += bytes;
        if self.bytes >= batch_size {
            self.turn();
        }
    }
}
