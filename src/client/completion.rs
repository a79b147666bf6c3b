//! The completion object of all calls: [`Pending`] is what the caller waits for, [`Promise`] is what completes it.

use super::{Error, ErrorKind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::{Duration, Instant};

#[derive(Debug)]
struct Slot<T> {
    result: Option<Result<T, Error>>,
    waiting: u32,
    wakers: Vec<Waker>,
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

/// The other end of a [`Pending`]. If it is dropped without a result, the result is that the client was closed.
#[derive(Debug)]
pub struct Promise<T>(Arc<Shared<T>>);

impl<T> Pending<T> {
    /// Creates a pending result, and the promise that completes it.
    pub fn new() -> (Promise<T>, Self) {
        let slot = Mutex::new(Slot { result: None, waiting: 0, wakers: Vec::new() });
        let shared = Arc::new(Shared { slot, done: Condvar::new() });
        (Promise(shared.clone()), Self(shared))
    }

    /// Creates a result that is there already.
    pub fn ready(result: Result<T, Error>) -> Self {
        let (promise, pending) = Self::new();
        promise.complete(result);
        pending
    }

    /// Waits for the result, for `timeout` at most. Returns whether it is there.
    pub fn wait(&self, timeout: Duration) -> bool {
        let deadline = Instant::now().checked_add(timeout);
        let mut slot = self.0.lock();
        slot.waiting += 1;
        while slot.result.is_none() {
            let left = deadline.map_or(Duration::MAX, |d| d.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                break;
            }
            slot = self.0.done.wait_timeout(slot, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        slot.waiting -= 1;
        slot.result.is_some()
    }

    /// Returns whether the result is there.
    pub fn is_done(&self) -> bool {
        self.0.lock().result.is_some()
    }

    /// Calls the waker once the result is there; at once if it is there already.
    pub fn on_done(&self, waker: Waker) {
        let mut slot = self.0.lock();
        if slot.result.is_some() {
            drop(slot);
            waker.wake();
        } else {
            slot.wakers.push(waker);
        }
    }
}

impl<T: Clone> Pending<T> {
    /// Returns the result, if it is there.
    pub fn get(&self) -> Option<Result<T, Error>> {
        self.0.lock().result.clone()
    }
}

impl<T> Promise<T> {
    /// Sets the result and wakes the callers that wait for it.
    pub fn complete(self, result: Result<T, Error>) {
        self.set(|| result);
    }

    fn set(&self, result: impl FnOnce() -> Result<T, Error>) {
        let mut slot = self.0.lock();
        if slot.result.is_some() {
            return;
        }
        slot.result = Some(result());
        let wakers = std::mem::take(&mut slot.wakers);
        let waiting = slot.waiting > 0;
        drop(slot);
        if waiting {
            self.0.done.notify_all();
        }
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl<T> Drop for Promise<T> {
    fn drop(&mut self) {
        self.set(|| Err(closed()));
    }
}

/// Returns the error of calls on a closed client, and of calls that the close interrupted.
pub(super) fn closed() -> Error {
    Error::new(ErrorKind::Closed, "client is closed").with_hint("create a new client, or close this one later")
}
