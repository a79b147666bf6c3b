//! The result of a call that may still be in flight. The caller waits for a [`Pending`], and the client completes it
//! through a [`Promise`].

use super::{Error, ErrorKind};
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::{Duration, Instant};

#[derive(Debug)]
struct Slot<T> {
    result: Option<Result<T, Error>>,
    waiting: u32,
    wakers: Vec<Waker>,
    /// Whether the caller has dropped its [`Pending`] without the result.
    is_abandoned: bool,
}

#[derive(Debug)]
struct Shared<T> {
    slot: Mutex<Slot<T>>,
    done: Condvar,
}

impl<T> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, Slot<T>> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The result of a call, which may still be in flight.
#[derive(Debug)]
pub struct Pending<T>(Arc<Shared<T>>);

impl<T> Clone for Pending<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

/// Completes a [`Pending`]. If a promise is dropped without a result, the result is the error that the client was
/// closed.
#[derive(Debug)]
pub struct Promise<T: 'static>(Arc<Shared<T>>);

impl<T> Pending<T> {
    /// Creates a pending result, and the promise that completes it.
    pub fn new() -> (Promise<T>, Self)
    where
        T: 'static,
    {
        let slot = Mutex::new(Slot { result: None, waiting: 0, wakers: Vec::new(), is_abandoned: false });
        let shared = Arc::new(Shared { slot, done: Condvar::new() });
        (Promise(shared.clone()), Self(shared))
    }

    /// Creates a result that is already available.
    pub fn ready(result: Result<T, Error>) -> Self
    where
        T: 'static,
    {
        let (promise, pending) = Self::new();
        promise.complete(result);
        pending
    }

    /// Waits for the result, at most for `timeout`. Returns whether the result is available.
    pub fn wait(&self, timeout: Duration) -> bool {
        let deadline = Instant::now().checked_add(timeout);
        let mut slot = self.0.lock();
        slot.waiting += 1;
        while slot.result.is_none() {
            let remaining = deadline.map_or(Duration::MAX, |d| d.saturating_duration_since(Instant::now()));
            if remaining.is_zero() {
                break;
            }
            slot = self.0.done.wait_timeout(slot, remaining).unwrap_or_else(PoisonError::into_inner).0;
        }
        slot.waiting -= 1;
        slot.result.is_some()
    }

    /// Returns whether the result is available.
    pub fn is_done(&self) -> bool {
        self.0.lock().result.is_some()
    }

    /// Calls the waker as soon as the result is available, or at once if it is already available.
    pub fn on_done(&self, waker: Waker) {
        let mut slot = self.0.lock();
        if slot.result.is_some() {
            drop(slot);
            waker.wake();
        } else {
            slot.wakers.push(waker);
        }
    }

    /// Notes that no caller will take the result. Returns the error if the call has already failed. If the call has no
    /// result yet, [`Promise::complete_and_check`] will return true.
    pub fn abandon(&self) -> Option<Error> {
        let mut slot = self.0.lock();
        slot.is_abandoned = true;
        slot.result.as_ref()?.as_ref().err().cloned()
    }
}

impl<T: Clone> Pending<T> {
    /// Returns the result, if it is available.
    pub fn get(&self) -> Option<Result<T, Error>> {
        self.0.lock().result.clone()
    }
}

impl<T> Shared<T> {
    /// Sets the result, if there is none yet. Returns whether the caller had abandoned the result.
    fn complete(&self, result: impl FnOnce() -> Result<T, Error>) -> bool {
        let mut slot = self.lock();
        if slot.result.is_some() {
            return false;
        }
        slot.result = Some(result());
        let is_abandoned = slot.is_abandoned;
        let wakers = std::mem::take(&mut slot.wakers);
        let waiting = slot.waiting > 0;
        drop(slot);
        if waiting {
            self.done.notify_all();
        }
        wakers.into_iter().for_each(Waker::wake);
        is_abandoned
    }
}

impl<T: 'static> Promise<T> {
    /// Sets the result and wakes the callers that wait for it.
    pub fn complete(self, result: Result<T, Error>) {
        self.0.complete(|| result);
    }

    /// Does the same as [`Promise::complete`]. Returns whether the caller had abandoned the result.
    pub fn complete_and_check(self, result: Result<T, Error>) -> bool {
        self.0.complete(|| result)
    }

    /// Leaves the result to [`catch`], which knows the text of the panic. Returns whether `catch` is running in this
    /// thread.
    fn defer(&self) -> bool {
        let shared = self.0.clone();
        let orphan: Orphan = Box::new(move |error| {
            shared.complete(|| Err(error.clone()));
        });
        let deferred = ORPHANS.try_with(|orphans| {
            let Ok(mut orphans) = orphans.try_borrow_mut() else { return false };
            orphans.as_mut().map(|list| list.push(orphan)).is_some()
        });
        deferred.unwrap_or(false)
    }
}

impl<T: 'static> Drop for Promise<T> {
    fn drop(&mut self) {
        if std::thread::panicking() && self.defer() {
            return;
        }
        self.0.complete(|| Err(closed()));
    }
}

/// Completes a call whose promise was dropped because of a panic.
type Orphan = Box<dyn FnOnce(&Error)>;

thread_local! {
    static ORPHANS: RefCell<Option<Vec<Orphan>>> = const { RefCell::new(None) };
}

/// Runs code that may panic. A panic may drop the promises of calls. Calls whose promise was dropped end with the error
/// that `explain` creates from the text of the panic.
pub(super) fn catch<T>(f: impl FnOnce() -> T, explain: impl FnOnce(&str) -> Error) -> Result<T, Error> {
    let outer = ORPHANS.replace(Some(Vec::new()));
    let result = catch_unwind(AssertUnwindSafe(f));
    let orphans = ORPHANS.replace(outer).unwrap_or_default();
    result.map_err(|payload| {
        let text = payload.downcast_ref::<&str>().copied();
        let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
        let error = explain(text.unwrap_or("a panic without a text"));
        orphans.into_iter().for_each(|complete| complete(&error));
        error
    })
}

/// Returns the error of calls on a closed client, and of calls that the close interrupted.
pub(super) fn closed() -> Error {
    Error::new(ErrorKind::Closed, "client is closed").with_hint("create a new client, or close this one later")
}
