//! Detects forks. A child process has the parent's memory but none of its threads. In the child process, a client that
//! was created before the fork would therefore never respond. The language binding reports each fork to this module. In
//! the child process, every call except `close` on a client of the parent process fails at once.

use super::{Error, ErrorKind};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

static FORKS: AtomicU32 = AtomicU32::new(0);

/// Notes a fork. The child process must call this function.
pub fn forked() {
    FORKS.fetch_add(1, Relaxed);
}

/// The number of forks before a client was created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Birth(u32);

impl Birth {
    /// Returns the current number of forks.
    pub fn now() -> Self {
        Self(FORKS.load(Relaxed))
    }

    /// Fails if the process has forked since the client was created.
    pub fn check(self) -> Result<(), Error> {
        if self == Self::now() {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Forked,
            "this client was created before a fork and does not work in the child process",
        )
        .with_hint("create a new client in the child process"))
    }
}
