//! Forks: a child has the parent's memory but none of its threads, so a client made before the fork would wait for ever.
//! Whoever embeds klamm reports forks; every call on an older client then fails at once.

use super::{Error, ErrorKind};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

static FORKS: AtomicU32 = AtomicU32::new(0);

/// To be called in the child after a fork.
pub fn forked() {
    FORKS.fetch_add(1, Relaxed);
}

/// Which side of which forks a client was made on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Birth(u32);

impl Birth {
    /// Here and now.
    pub fn now() -> Self {
        Self(FORKS.load(Relaxed))
    }

    /// An error if there was a fork since.
    pub fn check(self) -> Result<(), Error> {
        if self == Self::now() {
            return Ok(());
        }
        Err(Error::new(ErrorKind::Forked, "this client was made before a fork and does not work in the child process")
            .with_hint("make a new client in the child"))
    }
}
