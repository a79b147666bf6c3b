//! Where the I/O thread of a client and whoever helps it to log in meet, from any thread: tokens are left there ahead of
//! time (OAUTHBEARER), questions are asked and answered (GSSAPI).

use super::Error;
use crate::engine::ConnectionId;
use crate::engine::sasl::{BearerToken, gssapi};
use crate::net::Wake;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A question of a login: on which connection, about which host.
pub type Asked = (ConnectionId, String, gssapi::Question);

/// A client's desk for tokens, and for questions.
#[derive(Clone, Default)]
pub struct Tokens(Arc<Desk>);

#[derive(Default)]
struct Desk {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    new: Option<Result<BearerToken, Error>>,
    questions: VecDeque<Asked>,
    answers: Vec<(ConnectionId, Result<gssapi::Answer, Error>)>,
    wake: Option<Wake>,
    is_closed: bool,
}

impl Tokens {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leaves a token to log in with from now on, or why there is none; whoever waits for it goes on at once.
    pub fn put(&self, token: Result<BearerToken, Error>) {
        let mut state = self.state();
        state.new = Some(token);
        if let Some(wake) = &state.wake {
            wake.wake();
        }
    }

    /// Waits until the client is closed, at most so long; says whether it is open.
    pub fn wait(&self, timeout: Duration) -> bool {
        !self.wait_until(timeout, |_| false).is_closed
    }

    /// Waits for a question, at most so long or until the client is closed.
    pub fn question(&self, timeout: Duration) -> Option<Asked> {
        self.wait_until(timeout, |state| !state.questions.is_empty()).questions.pop_front()
    }

    fn wait_until(&self, timeout: Duration, done: impl Fn(&State) -> bool) -> MutexGuard<'_, State> {
        let deadline = Instant::now().checked_add(timeout);
        let mut state = self.state();
        while !state.is_closed && !done(&state) {
            let left = deadline.map_or(Duration::from_secs(1 << 30), |d| d.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                break;
            }
            state = self.0.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        state
    }

    /// Answers a question.
    pub fn answer(&self, connection: ConnectionId, answer: Result<gssapi::Answer, Error>) {
        let mut state = self.state();
        state.answers.push((connection, answer));
        if let Some(wake) = &state.wake {
            wake.wake();
        }
    }

    pub(super) fn ask(&self, question: Asked) {
        self.state().questions.push_back(question);
        self.0.changed.notify_all();
    }

    pub(super) fn take_answers(&self) -> Vec<(ConnectionId, Result<gssapi::Answer, Error>)> {
        std::mem::take(&mut self.state().answers)
    }

    pub(super) fn take(&self) -> Option<Result<BearerToken, Error>> {
        self.state().new.take()
    }

    pub(super) fn attach(&self, wake: Wake) {
        self.state().wake = Some(wake);
    }

    pub(super) fn close(&self) {
        self.state().is_closed = true;
        self.0.changed.notify_all();
    }
}
