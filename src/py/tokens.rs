//! `TokenDesk`: where `klamm.oauth` leaves the tokens that it fetches on a thread of its own.

use super::config::Login;
use super::error::raise;
use super::pending::bounded;
use crate::client::{Error, ErrorKind, Token, Tokens};
use pyo3::prelude::*;

/// A client's desk for tokens.
#[pyclass(frozen, module = "klamm._klamm")]
pub(super) struct TokenDesk {
    tokens: Tokens,
}

#[pymethods]
impl TokenDesk {
    /// Leaves a token with SASL extensions, for every login from now on.
    fn put(&self, py: Python<'_>, token: String, extensions: Vec<(String, String)>) -> PyResult<()> {
        let token = Token::new(token, extensions).map_err(|e| raise(py, &e))?;
        self.tokens.put(Ok(token));
        Ok(())
    }

    /// Says why there is no token.
    fn fail(&self, message: &str, hint: &str) {
        self.tokens.put(Err(Error::new(ErrorKind::Authentication, message).with_hint(hint)));
    }

    /// Waits so many seconds; says whether the client is still open.
    fn wait(&self, py: Python<'_>, seconds: f64) -> bool {
        py.detach(|| self.tokens.wait(bounded(Some(seconds))))
    }
}

/// Has tokens fetched for a client that needs some.
pub(super) fn start(py: Python<'_>, tokens: Option<&Tokens>, login: Login) -> PyResult<()> {
    let Some(tokens) = tokens else { return Ok(()) };
    let desk = TokenDesk { tokens: tokens.clone() };
    let Login { provider, settings } = login;
    py.import("klamm.oauth")?.call_method1("start", (desk, provider, settings))?;
    Ok(())
}
