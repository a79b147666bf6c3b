//! An event loop in the I/O thread's place. A loop that awaits one record after the other has the client's poller among
//! what it watches, and the I/O thread stands by: the loop reads the answer itself, two thread switches earlier than the
//! other could tell it. The I/O thread also stands by for readers that [wait in its place](super::lead) again and again.
//!
//! The I/O thread comes back as soon as there is more than a little to do, or anything else for it. It also looks by itself
//! now and then, since a loop or a reader may be busy with something else, or be over; and where nothing happened for a
//! while it sleeps over the sockets, as ever.

use super::Error;
use super::driver::{Serve, Shared};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

/// Which event loops and readers there are, and whether the I/O thread stands by.
#[derive(Default)]
pub(super) struct Watchers {
    count: AtomicUsize,
    /// Whether one came since the I/O thread looked last.
    came: AtomicBool,
    /// Whether one of them is a reader that waits in place.
    has_reader: AtomicBool,
    is_standing_by: AtomicBool,
    /// Whether the I/O thread was called since it last looked for work.
    is_called: Mutex<bool>,
    called: Condvar,
}

impl Watchers {
    fn are_there(&self) -> bool {
        self.count.load(SeqCst) > 0
    }

    fn join(&self) {
        self.count.fetch_add(1, SeqCst);
    }

    /// One does the I/O thread's work.
    fn come(&self) {
        self.came.store(true, SeqCst);
    }

    /// The same of a reader, who may be there from now on to the client's end.
    pub fn come_to_read(&self) {
        if !self.has_reader.swap(true, SeqCst) {
            self.join();
        }
        self.come();
    }

    /// If there are any, whether one came since the last look.
    pub fn look(&self) -> Option<bool> {
        self.are_there().then(|| self.came.swap(false, SeqCst))
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
    pub fn stand_by(&self, timeout: Duration) {
        let deadline = Instant::now() + timeout;
        let mut is_called = self.is_called.lock().unwrap_or_else(PoisonError::into_inner);
        self.is_standing_by.store(true, SeqCst);
        while !*is_called {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            is_called = self.called.wait_timeout(is_called, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        self.is_standing_by.store(false, SeqCst);
    }
}

/// A client whose sockets an event loop may watch.
pub trait Watched: Send + Sync {
    /// An error if the client cannot be used any more.
    fn check(&self) -> Result<(), Error>;
    /// Whether what is waited for now is little enough for a loop to watch.
    fn is_lone(&self) -> bool;
    /// Has an event loop watch the sockets, which then calls [`Watched::work`] when something happened to them.
    fn watch(&self) -> io::Result<Sockets>;
    /// Does what there is to do for sockets that are watched; says whether that was left to the caller.
    fn work(&self) -> bool;
}

/// A client's sockets, watched by an event loop until this is dropped.
pub struct Sockets {
    #[cfg(unix)]
    descriptor: std::os::fd::OwnedFd,
    _watching: Box<dyn Send + Sync>,
}

#[cfg(unix)]
impl std::os::fd::AsRawFd for Sockets {
    /// Readable when something happened to a socket.
    fn as_raw_fd(&self) -> std::os::fd::RawFd {
        self.descriptor.as_raw_fd()
    }
}

struct Watching<R: Serve>(Weak<Shared<R>>);

impl<R: Serve> Drop for Watching<R> {
    fn drop(&mut self) {
        if let Some(shared) = self.0.upgrade() {
            shared.watchers.leave(shared.check().is_ok());
        }
    }
}

impl<R: Serve> Shared<R> {
    /// Has an event loop watch the sockets, and the I/O thread stand by while that is enough. An error if nothing was sent
    /// yet, or on systems whose pollers cannot be watched.
    pub fn watch(self: &Arc<Self>) -> io::Result<Sockets> {
        let poller = self.poller().ok_or(io::ErrorKind::NotConnected)?;
        #[cfg(unix)]
        let descriptor = poller.descriptor()?;
        self.watchers.join();
        let sockets = Sockets {
            #[cfg(unix)]
            descriptor,
            _watching: Box::new(Watching(Arc::downgrade(self))),
        };
        poller.wake().insist();
        Ok(sockets)
    }

    /// Does the I/O thread's work once, for an event loop; says whether that thread left it to the loop.
    pub fn work_for_watcher(self: &Arc<Self>) -> bool {
        self.watchers.come();
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
        if self
            .driver
            .try_lock()
            .is_ok_and(|driver| driver.as_ref().is_some_and(|d| d.may_stand_by(self, true).is_none()))
        {
            self.watchers.call_back();
        }
        true
    }
}
