//! The mailbox between a client's I/O thread and the token provider, which is code outside of the client. The provider
//! puts OAUTHBEARER tokens into the mailbox before the client needs them. It also makes the library calls of GSSAPI
//! logins, and puts the results into the mailbox. It may run in any thread.

use super::Error;
use crate::engine::ConnectionId;
use crate::engine::sasl::{BearerToken, gssapi};
use crate::net::Wake;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A library call that a login needs, with its connection and the broker's host name.
pub type Asked = (ConnectionId, String, gssapi::LibraryCall);

/// A token, and the time at which it expires.
type Lasting = (BearerToken, Instant);

/// The mailbox of one client. All clones share the same contents.
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
    /// Whether a broker rejected the last token.
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

    /// Sets the token for all later logins, or the error of the token provider. Connections that wait for a token
    /// continue at once.
    pub fn put(&self, token: Result<BearerToken, Error>, lifetime: Duration) {
        // The client may take the token much later, at its first use.
        let expires_at = Instant::now() + lifetime.min(Duration::from_secs(1 << 30));
        let mut mail = self.mail();
        mail.token = Some(token.map(|token| (token, expires_at)));
        if let Some(wake) = &mail.wake {
            wake.wake();
        }
    }

    /// Waits until the client is closed or a broker rejects the last token, at most for `timeout`. Returns whether the
    /// client is still open.
    pub fn wait(&self, timeout: Duration) -> bool {
        !self.wait_until(timeout, |mail| mail.is_refused).is_closed
    }

    /// Returns whether a broker has rejected a token since the last call.
    pub fn take_refusal(&self) -> bool {
        std::mem::take(&mut self.mail().is_refused)
    }

    /// Requests another token, because a broker rejected the last token.
    pub(super) fn refuse_token(&self) {
        self.mail().is_refused = true;
        self.0.changed.notify_all();
    }

    /// Waits for a library call that a login needs, at most for `timeout` or until the client is closed.
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

    /// Sets the result of a library call.
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

    /// Returns the new token with its remaining lifetime, or the error of the token provider.
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
