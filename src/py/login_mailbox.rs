//! [`LoginMailbox`]: passes tokens from Python to logins.
//!
//! `klamm.oauth` fetches tokens in a separate thread and puts them into the mailbox. `klamm.kerberos` makes the library
//! calls of GSSAPI logins and puts the results into the mailbox. The client sends the tokens and results to the broker.

use super::config::Login;
use super::deadline::bounded;
use crate::client::gssapi::{LibraryCall, LibraryResult};
use crate::client::{self, BearerToken, ConnectionId, Error, ErrorKind};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::time::Duration;

/// The mailbox of one client, into which Python puts tokens and answers for logins.
#[pyclass(frozen, module = "klamm._klamm")]
pub(super) struct LoginMailbox {
    mailbox: client::LoginMailbox,
}

#[pymethods]
impl LoginMailbox {
    /// Sets the token and its SASL extensions for all later logins. The token expires after `seconds`.
    fn put(&self, token: String, extensions: Vec<(String, String)>, seconds: f64) -> PyResult<()> {
        let token = BearerToken::new(token, extensions)?;
        self.mailbox.put(Ok(token), bounded(Some(seconds)));
        Ok(())
    }

    /// Sets the error for logins that need a token.
    fn fail(&self, message: &str, hint: &str) {
        self.mailbox.put(Err(Error::new(ErrorKind::NoToken, message).with_hint(hint)), Duration::ZERO);
    }

    /// Waits up to `seconds` for a question of a login.
    fn question(&self, py: Python<'_>, seconds: f64) -> Option<LoginQuestion> {
        let (connection, host, question) = py.detach(|| self.mailbox.question(bounded(Some(seconds))))?;
        let (kind, token) = match &question {
            LibraryCall::Step(token) => ("step", token),
            LibraryCall::Unwrap(token) => ("unwrap", token),
            LibraryCall::Wrap(token) => ("wrap", token),
        };
        Some(LoginQuestion { connection: connection.0, host, kind, token: PyBytes::new(py, token).unbind() })
    }

    /// Answers a question. `is_established` says whether the security context is complete.
    fn answer(&self, connection: usize, token: Vec<u8>, is_established: bool) {
        self.mailbox.answer(ConnectionId(connection), Ok(LibraryResult { token, is_established }));
    }

    /// Fails the login that asked the question.
    fn refuse(&self, connection: usize, message: &str, hint: &str) {
        let error = Error::new(ErrorKind::Authentication, message).with_hint(hint);
        self.mailbox.answer(ConnectionId(connection), Err(error));
    }

    /// Returns whether a broker has rejected a token since the last call.
    fn take_refusal(&self) -> bool {
        self.mailbox.take_refusal()
    }

    /// Waits for `seconds`, or until a broker rejects the last token. Returns whether the client is still open.
    fn wait(&self, py: Python<'_>, seconds: f64) -> bool {
        py.detach(|| self.mailbox.wait(bounded(Some(seconds))))
    }
}

/// A call to the Kerberos library that a login requests from `klamm.kerberos`.
#[pyclass(frozen, get_all, module = "klamm._klamm")]
pub(super) struct LoginQuestion {
    connection: usize,
    host: String,
    /// The operation on the token: `step`, `unwrap` or `wrap`.
    kind: &'static str,
    token: Py<PyBytes>,
}

/// Starts the thread that fetches tokens or answers logins, if the client needs one.
pub(super) fn start(py: Python<'_>, mailbox: Option<&client::LoginMailbox>, login: Login) -> PyResult<()> {
    let Some(mailbox) = mailbox else { return Ok(()) };
    let mailbox = LoginMailbox { mailbox: mailbox.clone() };
    let Login { provider, settings } = login;
    let provider = provider.map(|provider| (provider.callable, provider.is_confluent_style));
    if settings.iter().any(|(key, _)| key.starts_with("sasl.kerberos.")) {
        py.import("klamm.kerberos")?.call_method1("start", (mailbox, settings))?;
    } else {
        py.import("klamm.oauth")?.call_method1("start", (mailbox, provider, settings))?;
    }
    Ok(())
}
