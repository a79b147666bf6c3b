//! How long to wait before the next try: exponential with 20 % jitter (KIP-580).

use std::time::Duration;

/// A sequence of waits, from `first` doubling to `max`.
#[derive(Clone, Debug)]
pub struct Backoff {
    first: Duration,
    max: Duration,
    failures: u32,
    seed: u64,
}

impl Backoff {
    /// A sequence that has not begun. The seed spreads clients that fail together.
    pub fn new(first: Duration, max: Duration, seed: u64) -> Self {
        Self { first, max, failures: 0, seed: seed | 1 }
    }

    /// How many waits were taken since the last success.
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// Starts over after a success.
    pub fn reset(&mut self) {
        self.failures = 0;
    }

    /// The next wait.
    pub fn next_wait(&mut self) -> Duration {
        let base = self.first.saturating_mul(1 << self.failures.min(20)).min(self.max);
        self.failures = self.failures.saturating_add(1);
        // Xorshift: jitter needs to differ between clients, not to be unpredictable.
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        base.mul_f64(0.8 + 0.4 * ((self.seed >> 11) as f64 / (1u64 << 53) as f64))
    }
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
        backoff.reset();
        assert!(backoff.next_wait() <= Duration::from_millis(120));
    }
}
