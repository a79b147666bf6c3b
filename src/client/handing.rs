//! Outcomes on their way to whoever waits for them. Handing one out may call code of the program's, in the I/O thread or in one
//! that does its work; until that returns, this client hands out nothing else there. So such code may call anything but wait for
//! the same client, which it would do for ever. Other clients have threads of their own.

use super::driver::{Serve, Shared};
use super::{Error, ErrorKind};
use std::cell::RefCell;

thread_local! {
    /// The clients whose outcomes this thread hands out.
    static HANDING: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

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

    /// An error for who was called with one of this client's outcomes, and so cannot wait for another.
    pub fn check_may_wait(&self) -> Result<(), Error> {
        if !HANDING.with_borrow(|clients| clients.contains(&self.address())) {
            return Ok(());
        }
        Err(Error::new(ErrorKind::Config, "a callback would wait for ever: its client goes on when it has returned")
            .with_hint("wait in another thread or task, or have add_done_callback call what comes next"))
    }
}
