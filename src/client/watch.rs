//! An event loop in the I/O thread's place. A loop that awaits one record after the other has the client's poller among
//! what it watches, and the I/O thread stands by: the loop reads the answer itself, two thread switches earlier than the
//! other could tell it.
//!
//! The I/O thread comes back as soon as there is more than one record under way, or anything else to do for it. It also
//! looks by itself once a second, since a loop may be busy with something else, or be over; and where nothing happened for
//! a while it sleeps over the sockets, as ever.

use super::driver::{Serve, Shared};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

/// Which event loops watch, and whether the I/O thread stands by.
#[derive(Default)]
pub(super) struct Watchers {
    count: AtomicUsize,
    is_standing_by: AtomicBool,
    /// Whether the I/O thread was called since it last looked for work.
    is_called: Mutex<bool>,
    called: Condvar,
}

impl Watchers {
    pub fn are_there(&self) -> bool {
        self.count.load(SeqCst) > 0
    }

    fn call(&self, is_called: bool) {
        if self.are_there() {
            *self.is_called.lock().unwrap_or_else(PoisonError::into_inner) = is_called;
            self.called.notify_all();
        }
    }

    /// To be called before the I/O thread looks for work: a call from here on ends its wait.
    pub fn arm(&self) {
        self.call(false);
    }

    /// Ends the I/O thread's wait.
    pub fn call_back(&self) {
        self.call(true);
    }

    /// A loop watches no more, and the I/O thread has to hear of it; not in the child of a fork, where locks may be held for ever.
    fn leave(&self, has_thread: bool) {
        let is_called = has_thread.then(|| self.is_called.lock().unwrap_or_else(PoisonError::into_inner));
        self.count.fetch_sub(1, SeqCst);
        if let Some(mut is_called) = is_called {
            *is_called = true;
            self.called.notify_all();
        }
    }

    /// The I/O thread's wait, while it leaves the sockets to an event loop.
    pub fn stand_by(&self, timeout: Option<Duration>) {
        let deadline = timeout.and_then(|t| Instant::now().checked_add(t));
        let mut is_called = self.is_called.lock().unwrap_or_else(PoisonError::into_inner);
        self.is_standing_by.store(true, SeqCst);
        while !*is_called {
            let left = deadline.map_or(Duration::MAX, |d| d.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                break;
            }
            is_called = self.called.wait_timeout(is_called, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        self.is_standing_by.store(false, SeqCst);
    }
}

/// A client's sockets, watched by an event loop until this is dropped.
pub struct Sockets<R: Serve> {
    shared: Weak<Shared<R>>,
    #[cfg(unix)]
    descriptor: std::os::fd::OwnedFd,
}

#[cfg(unix)]
impl<R: Serve> std::os::fd::AsRawFd for Sockets<R> {
    /// Readable when something happened to a socket.
    fn as_raw_fd(&self) -> std::os::fd::RawFd {
        self.descriptor.as_raw_fd()
    }
}

impl<R: Serve> Drop for Sockets<R> {
    fn drop(&mut self) {
        if let Some(shared) = self.shared.upgrade() {
            shared.watchers.leave(shared.check().is_ok());
        }
    }
}

impl<R: Serve> Shared<R> {
    /// Has an event loop watch the sockets, and the I/O thread stand by while that is enough. An error if nothing was sent
    /// yet, or on systems whose pollers cannot be watched.
    pub fn watch(self: &Arc<Self>) -> io::Result<Sockets<R>> {
        let poller = self.poller().ok_or(io::ErrorKind::NotConnected)?;
        let sockets = Sockets {
            #[cfg(unix)]
            descriptor: poller.descriptor()?,
            shared: Arc::downgrade(self),
        };
        self.watchers.count.fetch_add(1, SeqCst);
        poller.wake().insist();
        Ok(sockets)
    }

    /// Does the I/O thread's work once, for an event loop; says whether that thread left it to the loop.
    pub fn work_for_watcher(self: &Arc<Self>) -> bool {
        let Some(poller) = self.poller().filter(|_| self.watchers.is_standing_by.load(SeqCst)) else {
            return false;
        };
        // What is taken from the poller has to be handled by who took it.
        let Ok(guard) = self.driver.try_lock() else { return false };
        let mut events = Vec::new();
        match poller.wait_first(Duration::ZERO, &mut events) {
            Ok(false) => {}
            // It may have been for the I/O thread, whose work is done below.
            Ok(true) => poller.arm(),
            Err(_) => return false,
        }
        if self.work(guard, &mut events) {
            self.call_leader();
        }
        if self.driver.try_lock().is_ok_and(|driver| driver.as_ref().is_some_and(|d| !d.is_quiet(self))) {
            self.watchers.call_back();
        }
        true
    }
}
