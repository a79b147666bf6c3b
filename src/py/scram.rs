//! [`ScramClient`]: computes the messages of a SCRAM login, for tools and tests that have their own connection to a
//! broker.

use super::error::exception;
use crate::client::scram::{self, Mechanism, ServerVerifier};
use pyo3::prelude::*;
use std::sync::Mutex;

/// The client's side of one SCRAM exchange (RFC 5802). The client sends its messages in SaslAuthenticate requests.
///
/// Args:
///     mechanism (str): "SCRAM-SHA-256" or "SCRAM-SHA-512".
///     username (str): The user name.
///     password (str): The password.
///     nonce (str | None): The client's nonce. None (the default) creates a random nonce.
///     extensions (list[(str, str)] | None): SCRAM extensions. A delegation token needs `("tokenauth", "true")`.
///
/// Raises:
///     ConfigError: The mechanism does not exist.
///
/// Example:
///     client = klamm.protocol.ScramClient("SCRAM-SHA-256", "user", "pencil")
///     client.first()                  # send this to the broker
///     client.final(server_first)      # send this as the response to its challenge
///     client.verify(server_final)     # raises unless the broker knows the password
#[pyclass(frozen, module = "klamm.protocol")]
pub(super) struct ScramClient {
    client: scram::ScramClient,
    server_verifier: Mutex<Option<ServerVerifier>>,
}

#[pymethods]
impl ScramClient {
    #[new]
    #[pyo3(signature = (mechanism, username, password, *, nonce=None, extensions=None))]
    fn new(
        py: Python<'_>,
        mechanism: &str,
        username: &str,
        password: &str,
        nonce: Option<String>,
        extensions: Option<Vec<(String, String)>>,
    ) -> PyResult<Self> {
        let Some(mechanism) = Mechanism::from_name(mechanism) else {
            let names = Mechanism::ALL.map(Mechanism::name).join(" and ");
            let message = format!("SCRAM mechanism {mechanism:?} does not exist; there are {names}");
            return Err(exception(py, "ConfigError", &message, None));
        };
        let nonce = match nonce {
            Some(nonce) => nonce,
            None => py.import("secrets")?.call_method1("token_urlsafe", (24,))?.extract()?,
        };
        let client = scram::ScramClient::new(mechanism, username, password, &nonce, &extensions.unwrap_or_default());
        Ok(Self { client: client?, server_verifier: Mutex::new(None) })
    }

    /// Returns the client's first message.
    fn first(&self) -> String {
        self.client.first()
    }

    /// Returns the client's response to the broker's first message.
    ///
    /// Args:
    ///     server_first (str): The broker's first message.
    ///
    /// Returns:
    ///     The client's final message.
    ///
    /// Raises:
    ///     AuthenticationError: The broker's message is invalid.
    #[pyo3(name = "final")]
    fn client_final(&self, py: Python<'_>, server_first: &str) -> PyResult<String> {
        let result = py.detach(|| self.client.client_final(server_first));
        let (message, server_verifier) = result?;
        *self.server_verifier() = Some(server_verifier);
        Ok(message)
    }

    /// Checks the broker's final message.
    ///
    /// Args:
    ///     server_final (str): The broker's final message.
    ///
    /// Raises:
    ///     AuthenticationError: The broker rejected the login, or does not know the password.
    ///     ConfigError: `final()` was not called before.
    fn verify(&self, py: Python<'_>, server_final: &str) -> PyResult<()> {
        match &*self.server_verifier() {
            Some(verifier) => Ok(verifier.check(server_final)?),
            None => Err(exception(py, "ConfigError", "verify() must be called after final()", None)),
        }
    }

    fn __repr__(&self) -> String {
        format!("{:?}", self.client)
    }
}

impl ScramClient {
    fn server_verifier(&self) -> std::sync::MutexGuard<'_, Option<ServerVerifier>> {
        self.server_verifier.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
