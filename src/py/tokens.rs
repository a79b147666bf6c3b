//! `TokenDesk`: where `klamm.oauth` leaves the tokens that it fetches on a thread of its own, and where `klamm.kerberos`
//! answers the questions of logins.

use super::config::Login;
use super::error::raise;
use super::pending::bounded;
use crate::client::gssapi::{LibraryCall, LibraryResult};
use crate::client::{BearerToken, ConnectionId, Error, ErrorKind, LoginMailbox};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// A client's desk for tokens.
#[pyclass(frozen, module = "klamm._klamm")]
pub(super) struct TokenDesk {
    mailbox: LoginMailbox,
}

#[pymethods]
impl TokenDesk {
    /// Leaves a token with SASL extensions, for every login from now on.
    fn put(&self, py: Python<'_>, token: String, extensions: Vec<(String, String)>) -> PyResult<()> {
        let token = BearerToken::new(token, extensions).map_err(|e| raise(py, &e))?;
        self.mailbox.put(Ok(token));
        Ok(())
    }

    /// Says why there is no token.
    fn fail(&self, message: &str, hint: &str) {
        self.mailbox.put(Err(Error::new(ErrorKind::Authentication, message).with_hint(hint)));
    }

    /// Waits so many seconds for a question of a login: connection, host, what is asked, and of what.
    fn question<'py>(
        &self,
        py: Python<'py>,
        seconds: f64,
    ) -> Option<(usize, String, &'static str, Bound<'py, PyBytes>)> {
        let (connection, host, question) = py.detach(|| self.mailbox.question(bounded(Some(seconds))))?;
        let (kind, token) = match &question {
            LibraryCall::Step(token) => ("step", token),
            LibraryCall::Unwrap(token) => ("unwrap", token),
            LibraryCall::Wrap(token) => ("wrap", token),
        };
        Some((connection.0, host, kind, PyBytes::new(py, token)))
    }

    /// Answers it; says whether the context stands.
    fn answer(&self, connection: usize, token: Vec<u8>, is_established: bool) {
        self.mailbox.answer(ConnectionId(connection), Ok(LibraryResult { token, is_established }));
    }

    /// Says why there is no answer.
    fn refuse(&self, connection: usize, message: &str, hint: &str) {
        let error = Error::new(ErrorKind::Authentication, message).with_hint(hint);
        self.mailbox.answer(ConnectionId(connection), Err(error));
    }

    /// Waits so many seconds; says whether the client is still open.
    fn wait(&self, py: Python<'_>, seconds: f64) -> bool {
        py.detach(|| self.mailbox.wait(bounded(Some(seconds))))
    }
}

/// Has tokens fetched, or questions answered, for a client that needs that.
pub(super) fn start(py: Python<'_>, tokens: Option<&LoginMailbox>, login: Login) -> PyResult<()> {
    let Some(tokens) = tokens else { return Ok(()) };
    let desk = TokenDesk { mailbox: tokens.clone() };
    let Login { provider, settings } = login;
    if settings.iter().any(|(key, _)| key.starts_with("sasl.kerberos.")) {
        py.import("klamm.kerberos")?.call_method1("start", (desk, settings))?;
    } else {
        py.import("klamm.oauth")?.call_method1("start", (desk, provider, settings))?;
    }
    Ok(())
}
