//! Inline polling (leader/follower): a blocked caller polls the sockets itself, which saves a thread switch.
//!
//! The caller and the I/O thread may poll the same sockets at the same time. The kernel wakes the thread that started
//! to wait last, so the caller reads the response itself. The I/O thread keeps waiting in the poller, and polls alone
//! after the caller has stopped polling. If the I/O thread wakes up for another reason in the meantime, it pauses until
//! the caller has stopped polling.
//!
//! Consumers also poll inline if their records arrive one by one. A fetch response may arrive in pieces, and the second
//! piece may wake the I/O thread. The I/O thread then [pauses](super::event_loop), as it does for an event loop.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Whether a caller polls inline, and whether the I/O thread stands aside for it.
#[derive(Default)]
pub(super) struct InlinePolling {
    is_taken: AtomicBool,
    is_aside: Mutex<bool>,
    left: Condvar,
}

impl InlinePolling {
    /// Returns whether a caller polls inline now.
    pub fn is_taken(&self) -> bool {
        self.is_taken.load(SeqCst)
    }

    /// Makes this thread the one that polls inline, unless another thread does.
    pub fn take(&self) -> Option<InlinePoller<'_>> {
        let was_taken = self.is_taken.swap(true, SeqCst);
        (!was_taken).then_some(InlinePoller(self))
    }

    /// Blocks the I/O thread while a caller polls inline. `None` waits as long as that takes.
    pub fn stand_aside(&self, timeout: Option<Duration>) {
        let deadline = timeout.and_then(|t| Instant::now().checked_add(t));
        let mut is_aside = self.is_aside.lock().unwrap_or_else(PoisonError::into_inner);
        *is_aside = true;
        while self.is_taken() {
            let left = deadline.map_or(Duration::MAX, |d| d.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                break;
            }
            is_aside = self.left.wait_timeout(is_aside, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        *is_aside = false;
    }
}

/// Held while a caller sleeps over the sockets.
pub(super) struct InlinePoller<'a>(&'a InlinePolling);

impl Drop for InlinePoller<'_> {
    fn drop(&mut self) {
        self.0.is_taken.store(false, SeqCst);
        if *self.0.is_aside.lock().unwrap_or_else(PoisonError::into_inner) {
            self.0.left.notify_all();
        }
    }
}
