//! `klamm.protocol.ScramClient`: the messages of SCRAM, for tools and tests that speak to a broker themselves.

use super::error::{exception, raise};
use crate::client::scram::{Client, Expected, Mechanism};
use pyo3::prelude::*;
use std::sync::Mutex;

/// One exchange with a broker.
#[pyclass(frozen, module = "klamm.protocol")]
pub(super) struct ScramClient {
    client: Client,
    expected: Mutex<Option<Expected>>,
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
            let message = format!("there is no SCRAM mechanism {mechanism:?}, only {names}");
            return Err(exception(py, "ConfigError", &message, None));
        };
        let nonce = match nonce {
            Some(nonce) => nonce,
            None => py.import("secrets")?.call_method1("token_urlsafe", (24,))?.extract()?,
        };
        let client = Client::new(mechanism, username, password, &nonce, &extensions.unwrap_or_default());
        Ok(Self { client: client.map_err(|e| raise(py, &e))?, expected: Mutex::new(None) })
    }

    /// The client's first message.
    fn first(&self) -> String {
        self.client.first()
    }

    /// The client's answer to the broker's first message.
    #[pyo3(name = "final")]
    fn answer(&self, py: Python<'_>, server_first: &str) -> PyResult<String> {
        let answer = py.detach(|| self.client.answer(server_first));
        let (message, expected) = answer.map_err(|e| raise(py, &e))?;
        *self.expected() = Some(expected);
        Ok(message)
    }

    /// Checks the broker's last message.
    fn verify(&self, py: Python<'_>, server_final: &str) -> PyResult<()> {
        match &*self.expected() {
            Some(expected) => expected.check(server_final).map_err(|e| raise(py, &e)),
            None => Err(exception(py, "ConfigError", "verify comes after final", None)),
        }
    }

    fn __repr__(&self) -> String {
        format!("Scram{:?}", self.client)
    }
}

impl ScramClient {
    fn expected(&self) -> std::sync::MutexGuard<'_, Option<Expected>> {
        self.expected.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
