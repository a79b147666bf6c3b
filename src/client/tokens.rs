//! Where whoever fetches tokens (OAUTHBEARER) leaves them for the I/O thread, from any thread and ahead of time.

use super::Error;
use crate::engine::sasl::Token;
use crate::net::Wake;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A client's desk for tokens.
#[derive(Clone, Default)]
pub struct Tokens(Arc<Desk>);

#[derive(Default)]
struct Desk {
    state: Mutex<State>,
    closed: Condvar,
}

#[derive(Default)]
struct State {
    new: Option<Result<Token, Error>>,
    wake: Option<Wake>,
    is_closed: bool,
}

impl Tokens {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leaves a token to log in with from now on, or why there is none; whoever waits for it goes on at once.
    pub fn put(&self, token: Result<Token, Error>) {
        let mut state = self.state();
        state.new = Some(token);
        if let Some(wake) = &state.wake {
            wake.wake();
        }
    }

    /// Waits until the client is closed, at most so long; says whether it is open.
    pub fn wait(&self, timeout: Duration) -> bool {
        let deadline = Instant::now().checked_add(timeout);
        let mut state = self.state();
        while !state.is_closed {
            let left = deadline.map_or(Duration::from_secs(1 << 30), |d| d.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return true;
            }
            state = self.0.closed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        false
    }

    pub(super) fn take(&self) -> Option<Result<Token, Error>> {
        self.state().new.take()
    }

    pub(super) fn attach(&self, wake: Wake) {
        self.state().wake = Some(wake);
    }

    pub(super) fn close(&self) {
        self.state().is_closed = true;
        self.0.closed.notify_all();
    }
}
