//! Waiting in the I/O thread's place. Two threads may sleep over the same sockets, and the kernel wakes the one that came
//! last: a caller that waits for a record's outcome reads the answer itself, a thread switch before the I/O thread could
//! tell it. When it leaves, the other one is asleep where it always was. Only if that woke for a reason of its own
//! meanwhile, it stands aside until the caller has left.
//!
//! Readers of records that come one by one do the same. Answers to fetches come in pieces, and the second one may wake the
//! I/O thread, which then [stands by](super::watch) as for an event loop.

use super::driver::{Serve, Shared};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Who waits.
#[derive(Default)]
pub(super) struct Lead {
    /// Whether a caller does.
    is_taken: AtomicBool,
    /// Whether the I/O thread stands aside.
    is_aside: Mutex<bool>,
    left: Condvar,
}

impl Lead {
    pub fn is_taken(&self) -> bool {
        self.is_taken.load(SeqCst)
    }

    fn take(&self) -> Option<Place<'_>> {
        let was_taken = self.is_taken.swap(true, SeqCst);
        (!was_taken).then_some(Place(self))
    }

    /// The I/O thread's wait while a caller has its place; `None` is as long as that takes.
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

/// The place, while a caller sleeps in it.
struct Place<'a>(&'a Lead);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.is_taken.store(false, SeqCst);
        if *self.0.is_aside.lock().unwrap_or_else(PoisonError::into_inner) {
            self.0.left.notify_all();
        }
    }
}

impl<R: Serve> Shared<R> {
    /// Waits in the I/O thread's place until `is_done`, which that thread or others may bring about, or `end`. Returns before
    /// if there is no such place, or somebody has it already.
    pub fn wait_in_place(self: &Arc<Self>, end: Instant, is_done: impl Fn() -> bool) {
        let Some(poller) = self.poller() else { return };
        let mut events = Vec::new();
        loop {
            let Some(place) = self.lead.take() else { return };
            // From here on whoever brings something about calls this thread; what was before is seen here.
            if is_done() || self.is_closed() {
                return;
            }
            let left = end.saturating_duration_since(Instant::now());
            let result = poller.wait_first(left, &mut events);
            // What is to be done now may call back into Python: nobody shall wait for that.
            drop(place);
            match result {
                Ok(false) if events.is_empty() && left.is_zero() => return,
                Ok(false) => {}
                // It may have been for the I/O thread, whose work is done below.
                Ok(true) => poller.arm(),
                Err(_) => return,
            }
            self.work(self.driver(), &mut events);
            if self.is_closed() {
                // The I/O thread has to hear it, too.
                poller.wake().insist();
                return;
            }
        }
    }
}
