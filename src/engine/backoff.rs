//! Computes the wait before a retry: exponential, with 20 % jitter (KIP-580).

use crate::random::Random;
use std::time::Duration;

/// A sequence of waits that double from the first to the longest.
#[derive(Clone, Debug)]
pub struct Backoff {
    range: (Duration, Duration),
    failures: u32,
    seed: u64,
}

impl Backoff {
    /// Creates a sequence. With different seeds, clients that fail at the same time retry at different times.
    pub fn new(first: Duration, max: Duration, seed: u64) -> Self {
        Self { range: (first, max), failures: 0, seed }
    }

    /// Returns the number of failures since the last success.
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// Starts over after a success.
    pub fn reset(&mut self) {
        self.failures = 0;
    }

    /// Returns the next wait.
    pub fn next_wait(&mut self) -> Duration {
        self.failures = self.failures.saturating_add(1);
        self.seed = self.seed.wrapping_add(1);
        wait_after(self.failures, self.range, self.seed)
    }
}

/// Returns the wait after one or more failures in a row. `range` is the first wait before jitter, and the longest wait.
/// The jitter makes a wait up to 20 % shorter or longer, but never longer than the longest wait.
pub fn wait_after(failures: u32, range: (Duration, Duration), seed: u64) -> Duration {
    let base = range.0.saturating_mul(1 << failures.saturating_sub(1).min(20)).min(range.1);
    base.mul_f64(0.8 + 0.4 * Random::new(seed).next_f64()).min(range.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_bound_and_start_over() {
        let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(1), 7);
        for expected in [100, 200, 400, 800, 1000, 1000] {
            let wait = backoff.next_wait().as_millis();
            assert!((expected * 8 / 10..=expected * 12 / 10).contains(&wait), "{wait} for {expected}");
        }
        let longest = (0..100).map(|_| backoff.next_wait()).max();
        assert_eq!(longest, Some(Duration::from_secs(1)));
        backoff.reset();
        assert!(backoff.next_wait() <= Duration::from_millis(120));
    }

    #[test]
    fn clients_that_fail_together_are_spread_over_two_fifths_of_the_wait() {
        let range = (Duration::from_millis(100), Duration::from_secs(1));
        let waits: Vec<u128> = (0..1000).map(|seed| wait_after(1, range, seed).as_millis()).collect();
        for tenth in 0..10 {
            let there = waits.iter().filter(|wait| (80 + 4 * tenth..84 + 4 * tenth).contains(*wait)).count();
            assert!((50..=200).contains(&there), "{there} of 1000 from {} ms", 80 + 4 * tenth);
        }
    }
}
