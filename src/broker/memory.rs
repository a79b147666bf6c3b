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

    /// Reserves `n` bytes if the limit allows it. Returns whether it reserved them.
    pub fn try_reserve(&mut self, n: usize) -> bool {
        let has_room = self.has_room_for(n);
        if has_room {
            self.used += n;
        }
        has_room
    }

    /// Returns the limit, and how much of it is free.
    pub fn limit_and_free(&self) -> (usize, usize) {
        (self.limit, self.limit.saturating_sub(self.used))
    }

    pub fn has_room_for(&self, n: usize) -> bool {
        self.used.checked_add(n).is_some_and(|used| used <= self.limit)
    }

    /// Reserves `n` bytes, even above the limit. Callers use this method for the consequences of an accepted request.
    pub fn reserve(&mut self, n: usize) {
        self.used = self.used.saturating_add(n);
    }

    pub fn release(&mut self, n: usize) {
        self.used = self.used.saturating_sub(n);
    }
}
