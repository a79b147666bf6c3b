//! Outcomes on their way to whoever waits for them. Handing one out may call code of the program's, in the I/O thread or in one
//! that does its work; until that returns, this client hands out nothing else there. So such code may call anything but wait for
//! the same client, which it would do for ever. Other clients have threads of their own.

use super::driver::{Serve, Shared};
use super::{Error, ErrorKind};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

thread_local! {
    /// The clients whose outcomes this thread hands out.
    static HANDING: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// Which client's callbacks wait for which other client, in whatever threads. It is held for moments, by callbacks alone.
static WAITS: Mutex<Vec<(usize, usize)>> = Mutex::new(Vec::new());

/// Until it is dropped.
struct Handing;

impl Handing {
    fn of(client: usize) -> Self {
        HANDING.with_borrow_mut(|clients| clients.push(client));
        Self
    }
}

impl Drop for Handing {
    fn drop(&mut self) {
        HANDING.with_borrow_mut(|clients| clients.pop());
    }
}

impl<R: Serve> Shared<R> {
    fn address(&self) -> usize {
        std::ptr::from_ref(self) as usize
    }

    /// Hands outcomes to whoever waits.
    pub(super) fn hand_out(&self, done: impl IntoIterator<Item = R::Done>) {
        let _handing = Handing::of(self.address());
        done.into_iter().for_each(|d| R::deliver(d, self));
    }

    /// Lets whoever is about to wait for this client do so, until the result is dropped. An error for who was called with one
    /// of its outcomes, and so cannot wait for another; or with one of a client for which a callback of this one waits.
    pub fn may_wait(&self) -> Result<Waiting, Error> {
        let awaited = self.address();
        let mut waiting = HANDING.with_borrow(Clone::clone);
        if waiting.is_empty() {
            return Ok(Waiting { clients: waiting, awaited });
        }
        waiting.sort_unstable();
        waiting.dedup();
        let mut waits = WAITS.lock().unwrap_or_else(PoisonError::into_inner);
        // Those that go on only when this one's callbacks have returned are for whom these wait, and so on.
        let mut needed = BTreeSet::from([awaited]);
        let mut found = 0;
        while found < needed.len() {
            found = needed.len();
            let next: Vec<usize> =
                waits.iter().filter(|(who, _)| needed.contains(who)).map(|(_, what)| *what).collect();
            needed.extend(next);
        }
        if waiting.iter().any(|client| needed.contains(client)) {
            let message = "a callback would wait for ever: its client goes on when it has returned";
            return Err(Error::new(ErrorKind::Config, message)
                .with_hint("wait in another thread or task, or have add_done_callback call what comes next"));
        }
        waits.extend(waiting.iter().map(|client| (*client, awaited)));
        Ok(Waiting { clients: waiting, awaited })
    }
}

/// Leave to wait for a client, for as long as it takes.
#[derive(Debug)]
#[must_use = "others learn from it who waits"]
pub struct Waiting {
    /// Those whose outcomes the thread that waits hands out.
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
