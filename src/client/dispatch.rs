//! Dispatches results to callbacks. This file also rejects a call that would wait forever because it was made in a
//! callback.
//!
//! A callback of the application runs in the thread that dispatches the result: the I/O thread, or a caller that polls
//! inline. While the callback runs, the thread dispatches no other result of the same client. A callback must therefore
//! not wait for its own client: [`may_wait`] rejects a call that would do that. It may wait for other clients,
//! because each client has its own I/O thread.

use super::{Error, ErrorKind};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

thread_local! {
    /// The clients whose results this thread dispatches.
    static DISPATCHING: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
    /// The batch whose deliveries this thread completes, if there is one.
    static BATCH: Cell<Option<Batch>> = const { Cell::new(None) };
}

/// A batch whose deliveries a thread completes.
#[derive(Clone, Copy, Default)]
struct Batch {
    then: Option<fn()>,
}

/// Ends a batch when it is dropped, even after a panic.
struct EndOfBatch {
    outer: Option<Batch>,
}

impl Drop for EndOfBatch {
    fn drop(&mut self) {
        if let Some(then) = BATCH.replace(self.outer).and_then(|batch| batch.then) {
            then();
        }
    }
}

/// Runs `complete`, which completes the deliveries of a batch, and then the function of [`after_batch`].
pub(super) fn batch(complete: impl FnOnce()) {
    let _end = EndOfBatch { outer: BATCH.replace(Some(Batch::default())) };
    complete();
}

/// Calls `then` once, after this thread has completed the deliveries of the current batch. Callbacks of a batch can
/// thus share what each of them would need. Returns false if this thread does not complete a batch.
pub fn after_batch(then: fn()) -> bool {
    BATCH.get().is_some() && BATCH.replace(Some(Batch { then: Some(then) })).is_some()
}

/// Pairs of clients, where a callback of the first client waits for the second client, in any thread. Only callbacks
/// lock this list, and only for a moment.
static WAITS: Mutex<Vec<(usize, usize)>> = Mutex::new(Vec::new());

/// Marks the current thread as dispatching the results of a client, until this guard is dropped.
pub(super) struct Dispatching;

impl Dispatching {
    /// Marks the current thread as dispatching for the client at this address.
    pub fn of(client: usize) -> Self {
        DISPATCHING.with_borrow_mut(|clients| clients.push(client));
        Self
    }
}

impl Drop for Dispatching {
    fn drop(&mut self) {
        DISPATCHING.with_borrow_mut(|clients| clients.pop());
    }
}

/// Allows the caller to wait for a client until the returned guard is dropped.
///
/// Fails in a callback of the awaited client itself. Also fails in a callback of a client for which a callback of the
/// awaited client waits. In both cases, the wait would never end.
pub(super) fn may_wait(awaited: usize) -> Result<Waiting, Error> {
    let mut waiting = DISPATCHING.with_borrow(Clone::clone);
    if waiting.is_empty() {
        return Ok(Waiting { clients: waiting, awaited });
    }
    waiting.sort_unstable();
    waiting.dedup();
    let mut waits = WAITS.lock().unwrap_or_else(PoisonError::into_inner);
    // The awaited client continues only after its callbacks return, so after the clients that these callbacks wait for
    // do, and so forth.
    let mut needed = BTreeSet::from([awaited]);
    let mut found = 0;
    while found < needed.len() {
        found = needed.len();
        let next: Vec<usize> = waits.iter().filter(|(from, _)| needed.contains(from)).map(|(_, to)| *to).collect();
        needed.extend(next);
    }
    if waiting.iter().any(|client| needed.contains(client)) {
        let message = "a callback would wait for ever: its client continues only after the callback returns";
        return Err(Error::new(ErrorKind::Config, message)
            .with_hint("wait in another thread or task, or continue in add_done_callback"));
    }
    waits.extend(waiting.iter().map(|client| (*client, awaited)));
    Ok(Waiting { clients: waiting, awaited })
}

/// The permission to wait for a client, until this guard is dropped.
#[derive(Debug)]
#[must_use = "other callbacks learn from it that this thread waits"]
pub struct Waiting {
    /// The clients whose results the waiting thread dispatches.
    clients: Vec<usize>,
    awaited: usize,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if self.clients.is_empty() {
            return;
        }
        let mut waits = WAITS.lock().unwrap_or_else(PoisonError::into_inner);
        for client in &self.clients {
            if let Some(at) = waits.iter().position(|wait| *wait == (*client, self.awaited)) {
                waits.swap_remove(at);
            }
        }
    }
}
