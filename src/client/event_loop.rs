//! External event loops: an asyncio loop polls the sockets of a client in place of the I/O thread.
//!
//! If a program awaits one record after the other, its event loop watches the client's poller. While an event loop
//! watches the poller, the I/O thread pauses: it sleeps and leaves the sockets to the event loop. The pause saves two
//! thread switches per response. The I/O thread also pauses while blocked callers repeatedly [poll
//! inline](super::inline_polling) for records.
//!
//! The I/O thread resumes as soon as there is more than a little work. It also ends its pause at intervals, because the
//! event loop or the caller may be busy or may have stopped polling. If the client sends nothing for a while, the I/O
//! thread polls the sockets again.

use crate::net::Descriptor;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The external pollers of a client: event loops, and readers that poll inline. Also stores whether the I/O thread
/// pauses.
#[derive(Default)]
pub(super) struct ExternalPollers {
    count: AtomicUsize,
    /// Whether an external poller has polled since the I/O thread last checked.
    has_visited: AtomicBool,
    /// Whether an external poller is a reader that polls inline.
    has_reader: AtomicBool,
    is_io_paused: AtomicBool,
    /// Whether the I/O thread was recalled since it last looked for work.
    is_recalled: Mutex<bool>,
    recalled: Condvar,
}

impl ExternalPollers {
    fn any(&self) -> bool {
        self.count.load(SeqCst) > 0
    }

    /// Adds an event loop.
    pub fn join(&self) {
        self.count.fetch_add(1, SeqCst);
    }

    /// Notes that an event loop or a reader polls.
    pub fn note_visit(&self) {
        self.has_visited.store(true, SeqCst);
    }

    /// Notes that a reader polls inline. The reader counts as an external poller until the client ends.
    pub fn note_reader(&self) {
        if !self.has_reader.swap(true, SeqCst) {
            self.join();
        }
        self.note_visit();
    }

    /// Returns whether an external poller has polled since the last call, or `None` without external pollers.
    pub fn take_visit(&self) -> Option<bool> {
        self.any().then(|| self.has_visited.swap(false, SeqCst))
    }

    /// Returns whether the I/O thread pauses.
    pub fn is_io_paused(&self) -> bool {
        self.is_io_paused.load(SeqCst)
    }

    fn set_recalled(&self, is_recalled: bool) {
        if self.any() {
            *self.is_recalled.lock().unwrap_or_else(PoisonError::into_inner) = is_recalled;
            self.recalled.notify_all();
        }
    }

    /// Prepares the next [`ExternalPollers::pause_io_thread`]. The I/O thread calls this before it looks for work. A
    /// later recall then ends the pause, even if the recall comes before the pause begins.
    pub fn arm(&self) {
        self.set_recalled(false);
    }

    /// Ends the pause of the I/O thread.
    pub fn recall_io_thread(&self) {
        self.set_recalled(true);
    }

    /// Removes an event loop and recalls the I/O thread. `has_thread` is false in the child process of a fork, where
    /// locks may be held forever.
    pub fn leave(&self, has_thread: bool) {
        let is_recalled = has_thread.then(|| self.is_recalled.lock().unwrap_or_else(PoisonError::into_inner));
        self.count.fetch_sub(1, SeqCst);
        if let Some(mut is_recalled) = is_recalled {
            *is_recalled = true;
            self.recalled.notify_all();
        }
    }

    /// Pauses the I/O thread, which leaves the sockets to external pollers.
    pub fn pause_io_thread(&self, timeout: Duration) {
        let deadline = Instant::now() + timeout;
        let mut is_recalled = self.is_recalled.lock().unwrap_or_else(PoisonError::into_inner);
        self.is_io_paused.store(true, SeqCst);
        while !*is_recalled {
            let remaining = deadline.saturating_duration_since(Instant::now());
            if remaining.is_zero() {
                break;
            }
            is_recalled = self.recalled.wait_timeout(is_recalled, remaining).unwrap_or_else(PoisonError::into_inner).0;
        }
        self.is_io_paused.store(false, SeqCst);
    }
}

/// A descriptor of a client's sockets for an event loop. The event loop polls the sockets until this value is dropped.
pub struct Sockets {
    descriptor: Descriptor,
    _membership: Box<dyn Send + Sync>,
}

impl Sockets {
    /// Wraps the poller's descriptor. Dropping `membership` removes the loop from the [`ExternalPollers`].
    pub(super) fn new(descriptor: Descriptor, membership: Box<dyn Send + Sync>) -> Self {
        Self { descriptor, _membership: membership }
    }

    /// Returns the number of the descriptor, which is readable when a socket is ready.
    #[cfg(unix)]
    pub fn number(&self) -> i32 {
        std::os::fd::AsRawFd::as_raw_fd(&self.descriptor)
    }

    /// Never runs, because this system has no descriptors for pollers.
    #[cfg(not(unix))]
    pub fn number(&self) -> i32 {
        match self.descriptor {}
    }
}
