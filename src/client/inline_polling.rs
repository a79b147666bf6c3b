//! Inline polling (leader/follower): a blocked caller polls the sockets itself, which saves a thread switch.
//!
//! The caller and the I/O thread may poll the same sockets at the same time. The kernel wakes the thread that started
//! to wait last, so the caller reads the response itself. The I/O thread keeps waiting in the poller, and polls alone
//! after the caller has stopped polling. If the I/O thread wakes up while a caller polls inline, it pauses until the
//! caller has stopped polling.
//!
//! A thread that waits for records polls inline only if the consumer's last fetch response with records was small. A
//! fetch response may arrive in pieces, and a later piece could wake the I/O thread. If threads poll inline again and
//! again, the I/O thread therefore [pauses](super::event_loop) also between these polls.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Whether a caller polls inline, and whether the I/O thread pauses in the meantime.
#[derive(Default)]
pub(super) struct InlinePolling {
    is_active: AtomicBool,
    is_paused: Mutex<bool>,
    ended: Condvar,
}

impl InlinePolling {
    /// Returns whether a caller polls inline now.
    pub fn is_active(&self) -> bool {
        self.is_active.load(SeqCst)
    }

    /// Makes the current thread the inline poller, unless another thread polls inline.
    pub fn try_begin(&self) -> Option<InlinePoller<'_>> {
        let was_active = self.is_active.swap(true, SeqCst);
        (!was_active).then_some(InlinePoller(self))
    }

    /// Pauses the I/O thread while a caller polls inline, at most for `timeout`.
    pub fn pause_io_thread(&self, timeout: Option<Duration>) {
        let deadline = timeout.and_then(|t| Instant::now().checked_add(t));
        let mut is_paused = self.is_paused.lock().unwrap_or_else(PoisonError::into_inner);
        *is_paused = true;
        while self.is_active() {
            let remaining = deadline.map_or(Duration::MAX, |d| d.saturating_duration_since(Instant::now()));
            if remaining.is_zero() {
                break;
            }
            is_paused = self.ended.wait_timeout(is_paused, remaining).unwrap_or_else(PoisonError::into_inner).0;
        }
        *is_paused = false;
    }
}

/// A guard that exists while a caller polls the sockets inline.
pub(super) struct InlinePoller<'a>(&'a InlinePolling);

impl Drop for InlinePoller<'_> {
    fn drop(&mut self) {
        self.0.is_active.store(false, SeqCst);
        if *self.0.is_paused.lock().unwrap_or_else(PoisonError::into_inner) {
            self.0.ended.notify_all();
        }
    }
}
