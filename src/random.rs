//! SplitMix64: small, fast and reproducible pseudo-random numbers for jitter, ids and injected faults.
//!
//! The same seed gives the same numbers in every release of klamm and Rust, so a simulation replays from its seed. The
//! numbers are predictable: do not use them for secrets. The engine and the dev broker share this file.

/// A generator of pseudo-random numbers.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Creates a generator. Equal seeds give equal sequences.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number from 0 up to, but not including, 1.
    pub fn next_f64(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns 16 random bytes.
    pub fn next_bytes(&mut self) -> [u8; 16] {
        (u128::from(self.next_u64()) << 64 | u128::from(self.next_u64())).to_be_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::Random;

    #[test]
    fn numbers_are_those_of_the_reference_implementation() {
        // The first three outputs of Vigna's splitmix64.c for the seed 1234567.
        let mut random = Random::new(1_234_567);
        let first = [random.next_u64(), random.next_u64(), random.next_u64()];
        assert_eq!(first, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn fractions_are_below_one_and_at_least_zero() {
        let mut random = Random::new(7);
        assert!((0..1000).all(|_| (0.0..1.0).contains(&random.next_f64())));
    }
}
