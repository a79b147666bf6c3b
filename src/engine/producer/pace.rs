//! How far a call that brings many records runs ahead of the network. What waits longer is not sent sooner, takes fresh
//! memory, each page of which costs a fault, and keeps other threads' records waiting.

/// Bytes that may wait before such a call pauses.
const STEP: usize = 16 << 20;

/// Bytes that have to go before it goes on.
const SLACK: usize = STEP / 8;

/// See the top of this file.
#[derive(Debug)]
pub(super) struct Pace {
    limit: usize,
    is_reached: bool,
}

impl Default for Pace {
    fn default() -> Self {
        Self { limit: STEP, is_reached: false }
    }
}

impl Pace {
    /// Whether a call is to pause at so many bytes.
    pub fn is_ahead(&mut self, memory: usize) -> bool {
        self.is_reached |= memory > self.limit;
        self.is_reached
    }

    /// Whether a call that paused is to wait still.
    pub fn is_reached(&self) -> bool {
        self.is_reached
    }

    /// The network took something.
    pub fn caught_up(&mut self, memory: usize) {
        if memory <= STEP - SLACK {
            self.limit = STEP;
        }
        if memory + SLACK <= self.limit {
            self.is_reached = false;
        }
    }

    /// It takes too little: a burst is what the buffer is for.
    pub fn run_ahead(&mut self, memory: usize) {
        *self = Self { limit: memory + STEP, is_reached: false };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_pauses_until_the_network_took_something_or_runs_ahead_of_one_that_does_not() {
        let mut pace = Pace::default();
        assert!(!pace.is_ahead(STEP));
        assert!(pace.is_ahead(STEP + 1));
        pace.caught_up(STEP);
        assert!(pace.is_reached() && pace.is_ahead(STEP));
        pace.caught_up(STEP - SLACK);
        assert!(!pace.is_reached());
        assert!(pace.is_ahead(STEP + 1));
        pace.run_ahead(STEP + 1);
        assert!(!pace.is_reached() && !pace.is_ahead(2 * STEP + 1) && pace.is_ahead(2 * STEP + 2));
        pace.caught_up(STEP - SLACK);
        assert!(!pace.is_reached() && pace.is_ahead(STEP + 1));
    }
}
