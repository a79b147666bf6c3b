//! The cluster's memory limit: all state that grows with requests counts towards it.

/// A limit in bytes, and how much of it is in use.
#[derive(Debug)]
pub(super) struct Memory {
    used: usize,
    limit: usize,
}

impl Memory {
    pub fn new(limit: usize) -> Self {
        Self { used: 0, limit }
    }

    /// Takes `n` bytes if the limit allows it, and returns whether it does.
    pub fn take(&mut self, n: usize) -> bool {
        let has_room = self.has(n);
        if has_room {
            self.used += n;
        }
        has_room
    }

    /// Returns the limit, and how much of it is free.
    pub fn room(&self) -> (usize, usize) {
        (self.limit, self.limit.saturating_sub(self.used))
    }

    pub fn has(&self, n: usize) -> bool {
        self.used.checked_add(n).is_some_and(|used| used <= self.limit)
    }

    /// Takes `n` bytes even beyond the limit: for the consequences of a request that was admitted.
    pub fn charge(&mut self, n: usize) {
        self.used = self.used.saturating_add(n);
    }

    pub fn give(&mut self, n: usize) {
        self.used = self.used.saturating_sub(n);
    }
}
