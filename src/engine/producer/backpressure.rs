//! Backpressure for bulk appends: pauses them when the producer has buffered many bytes that it has not sent yet.
//!
//! A fuller buffer would not make sending faster. It would need new memory, and the first access to each page of new
//! memory costs a page fault. It would also delay the records that other threads append.

/// The number of buffered bytes at which a bulk append pauses.
const STEP: usize = 16 << 20;

/// The number of bytes that must be sent before a paused bulk append resumes.
const SLACK: usize = STEP / 8;

/// The current limit, and whether bulk appends are paused.
#[derive(Debug)]
pub(super) struct Backpressure {
    limit: usize,
    is_paused: bool,
}

impl Default for Backpressure {
    fn default() -> Self {
        Self { limit: STEP, is_paused: false }
    }
}

impl Backpressure {
    /// Pauses bulk appends if more bytes are buffered than the limit. Returns whether a bulk append must pause.
    pub fn is_ahead(&mut self, memory: usize) -> bool {
        self.is_paused |= memory > self.limit;
        self.is_paused
    }

    /// Returns whether paused bulk appends must still wait.
    pub fn is_paused(&self) -> bool {
        self.is_paused
    }

    /// Notes that buffered bytes were freed.
    pub fn release(&mut self, memory: usize) {
        if memory <= STEP - SLACK {
            self.limit = STEP;
        }
        if memory + SLACK <= self.limit {
            self.is_paused = false;
        }
    }

    /// Raises the limit if the network is slow, so that the buffer can absorb a burst.
    pub fn run_ahead(&mut self, memory: usize) {
        *self = Self { limit: memory + STEP, is_paused: false };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bulk_appends_pause_until_bytes_are_freed_or_the_limit_is_raised() {
        let mut backpressure = Backpressure::default();
        assert!(!backpressure.is_ahead(STEP));
        assert!(backpressure.is_ahead(STEP + 1));
        backpressure.release(STEP);
        assert!(backpressure.is_paused() && backpressure.is_ahead(STEP));
        backpressure.release(STEP - SLACK);
        assert!(!backpressure.is_paused());
        assert!(backpressure.is_ahead(STEP + 1));
        backpressure.run_ahead(STEP + 1);
        assert!(
            !backpressure.is_paused() && !backpressure.is_ahead(2 * STEP + 1) && backpressure.is_ahead(2 * STEP + 2)
        );
        backpressure.release(STEP - SLACK);
        assert!(!backpressure.is_paused() && backpressure.is_ahead(STEP + 1));
    }
}
