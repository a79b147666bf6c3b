//! The one completion object: a value that is not there yet, or the error instead of it.

use super::{Error, ErrorKind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::{Duration, Instant};

#[derive(Debug)]
struct State<T> {
    result: Option<Result<T, Error>>,
    waiting: u32,
    wakers: Vec<Waker>,
}

#[derive(Debug)]
struct Slot<T> {
    state: Mutex<State<T>>,
    done: Condvar,
}

impl<T> Slot<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a caller holds.
#[derive(Debug)]
pub struct Pending<T>(Arc<Slot<T>>);

impl<T> Clone for Pending<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

/// What the I/O thread holds. Dropped without a result it says that the client was closed, so nobody waits in vain.
#[derive(Debug)]
pub struct Promise<T>(Arc<Slot<T>>);

impl<T> Pending<T> {
    /// A value to come.
    pub fn new() -> (Promise<T>, Self) {
        let state = Mutex::new(State { result: None, waiting: 0, wakers: Vec::new() });
        let slot = Arc::new(Slot { state, done: Condvar::new() });
        (Promise(slot.clone()), Self(slot))
    }

    /// A value that is there.
    pub fn ready(result: Result<T, Error>) -> Self {
        let (promise, pending) = Self::new();
        promise.complete(result);
        pending
    }

    /// Waits; says whether the result is there.
    pub fn wait(&self, timeout: Duration) -> bool {
        let deadline = Instant::now().checked_add(timeout);
        let mut state = self.0.lock();
        state.waiting += 1;
        while state.result.is_none() {
            let left = deadline.map_or(Duration::MAX, |d| d.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                break;
            }
            state = self.0.done.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        state.waiting -= 1;
        state.result.is_some()
    }

    /// Whether the result is there.
    pub fn is_done(&self) -> bool {
        self.0.lock().result.is_some()
    }

    /// Wakes the waker once the result is there; at once if it is.
    pub fn on_done(&self, waker: Waker) {
        let mut state = self.0.lock();
        if state.result.is_some() {
            drop(state);
            waker.wake();
        } else {
            state.wakers.push(waker);
        }
    }
}

impl<T: Clone> Pending<T> {
    /// The result, if it is there.
    pub fn get(&self) -> Option<Result<T, Error>> {
        self.0.lock().result.clone()
    }
}

impl<T> Promise<T> {
    /// Gives the result and wakes whoever waits.
    pub fn complete(self, result: Result<T, Error>) {
        self.settle(|| result);
    }

    fn settle(&self, result: impl FnOnce() -> Result<T, Error>) {
        let mut state = self.0.lock();
        if state.result.is_some() {
            return;
        }
        state.result = Some(result());
        let wakers = std::mem::take(&mut state.wakers);
        let waiting = state.waiting > 0;
        drop(state);
        if waiting {
            self.0.done.notify_all();
        }
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl<T> Drop for Promise<T> {
    fn drop(&mut self) {
        self.settle(|| Err(closed()));
    }
}

/// The error of calls on a client that is closed, and of what a close cut short.
pub(super) fn closed() -> Error {
    Error::new(ErrorKind::Closed, "client is closed").with_hint("make a new one, or close later")
}
