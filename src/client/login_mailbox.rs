//! The mailbox between a client's I/O thread and the token provider, which is code outside of the client. The provider
//! puts OAUTHBEARER tokens into the mailbox before the client needs them. The provider also makes the library calls of
//! GSSAPI logins, and puts the results into the mailbox. It may run in any thread.

use super::Error;
use crate::engine::ConnectionId;
use crate::engine::sasl::{BearerToken, gssapi};
use crate::net::Wake;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A question of a login, with its connection and the broker's host name.
pub type Asked = (ConnectionId, String, gssapi::LibraryCall);

/// A token, and when it expires.
type Lasting = (BearerToken, Instant);

/// The mailbox of one client. Clones share it.
#[derive(Clone, Default)]
pub struct LoginMailbox(Arc<Shared>);

#[derive(Default)]
struct Shared {
    mail: Mutex<Mail>,
    changed: Condvar,
}

#[derive(Default)]
struct Mail {
    token: Option<Result<Lasting, Error>>,
    /// Whether a broker refused the last token.
    is_refused: bool,
    questions: VecDeque<Asked>,
    answers: Vec<(ConnectionId, Result<gssapi::LibraryResult, Error>)>,
    wake: Option<Wake>,
    is_closed: bool,
}

impl LoginMailbox {
    fn mail(&self) -> MutexGuard<'_, Mail> {
        self.0.mail.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the token for logins from now on, or why there is none. Connections that wait for a token continue at once.
    pub fn put(&self, token: Result<BearerToken, Error>, lifetime: Duration) {
        // The client may take the token much later, at its first use.
        let expires_at = Instant::now() + lifetime.min(Duration::from_secs(1 << 30));
        let mut mail = self.mail();
        mail.token = Some(token.map(|token| (token, expires_at)));
        if let Some(wake) = &mail.wake {
            wake.wake();
        }
    }

    /// Waits until the client is closed or a broker refuses the last token, for `timeout` at most. Returns whether the
    /// client is still open.
    pub fn wait(&self, timeout: Duration) -> bool {
        !self.wait_until(timeout, |mail| mail.is_refused).is_closed
    }

    /// Returns whether a broker refused a token since the last call.
    pub fn take_refusal(&self) -> bool {
        std::mem::take(&mut self.mail().is_refused)
    }

    /// Asks for another token, because a broker refused the last one.
    pub(super) fn refuse_token(&self) {
        self.mail().is_refused = true;
        self.0.changed.notify_all();
    }

    /// Waits for a question, for `timeout` at most or until the client is closed.
    pub fn question(&self, timeout: Duration) -> Option<Asked> {
        self.wait_until(timeout, |mail| !mail.questions.is_empty()).questions.pop_front()
    }

    fn wait_until(&self, timeout: Duration, done: impl Fn(&Mail) -> bool) -> MutexGuard<'_, Mail> {
        let deadline = Instant::now().checked_add(timeout);
        let mut mail = self.mail();
        while !mail.is_closed && !done(&mail) {
            let remaining =
                deadline.map_or(Duration::from_secs(1 << 30), |d| d.saturating_duration_since(Instant::now()));
            if remaining.is_zero() {
                break;
            }
            mail = self.0.changed.wait_timeout(mail, remaining).unwrap_or_else(PoisonError::into_inner).0;
        }
        mail
    }

    /// Answers a question.
    pub fn answer(&self, connection: ConnectionId, answer: Result<gssapi::LibraryResult, Error>) {
        let mut mail = self.mail();
        mail.answers.push((connection, answer));
        if let Some(wake) = &mail.wake {
            wake.wake();
        }
    }

    pub(super) fn ask(&self, question: Asked) {
        self.mail().questions.push_back(question);
        self.0.changed.notify_all();
    }

    pub(super) fn take_answers(&self) -> Vec<(ConnectionId, Result<gssapi::LibraryResult, Error>)> {
        std::mem::take(&mut self.mail().answers)
    }

    /// Returns the new token with the rest of its lifetime, or why there is none.
    pub(super) fn take_token(&self) -> Option<Result<(BearerToken, Duration), Error>> {
        let token = self.mail().token.take()?;
        Some(token.map(|(token, expires_at)| (token, expires_at.saturating_duration_since(Instant::now()))))
    }

    pub(super) fn attach(&self, wake: Wake) {
        self.mail().wake = Some(wake);
    }

    pub(super) fn close(&self) {
        self.mail().is_closed = true;
        self.0.changed.notify_all();
    }
}
