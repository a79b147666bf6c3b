//! [`ClientCore`]: the base class of `ProducerCore`, `ConsumerCore`, `ShareConsumerCore` and `AdminCore`.

use super::error::argument;
use super::logs::LogTarget;
use super::metrics;
use super::pending::Pending;
use crate::client::AnyClient;
use crate::wire::Uuid;
use pyo3::prelude::*;
use pyo3::types::PyString;
use std::sync::Arc;

/// The base class of all clients.
#[pyclass(subclass, frozen, name = "Client", module = "klamm")]
pub(super) struct ClientCore {
    client: Arc<dyn AnyClient>,
    /// The type of the client with an article, for error messages.
    what: &'static str,
    servers: String,
    #[pyo3(get, name = "_log_target")]
    log_target: Py<LogTarget>,
}

impl ClientCore {
    pub(super) fn new(
        client: Arc<dyn AnyClient>,
        what: &'static str,
        servers: String,
        log_target: Py<LogTarget>,
    ) -> Self {
        Self { client, what, servers, log_target }
    }
}

#[pymethods]
impl ClientCore {
    /// Returns the metrics as `(group, tags, values)`. With `detail`, also returns the state of connections and
    /// partitions.
    #[pyo3(name = "_families", signature = (detail=false))]
    fn families(&self, py: Python<'_>, detail: bool) -> PyResult<Py<PyAny>> {
        // The I/O thread may hold the lock of the network for a moment.
        let families = py.detach(|| self.client.families(detail));
        metrics::to_python(py, families?)
    }

    /// Returns the client instance ID that a broker assigns (KIP-714), as text.
    #[pyo3(name = "_instance_id")]
    fn instance_id(&self) -> PyResult<Pending> {
        let convert = |py: Python<'_>, id: Uuid| Ok(PyString::new(py, &id.to_string()).into_any().unbind());
        Ok(Pending::new("client instance ID", self.client.clone(), self.client.instance_id()?, convert))
    }

    /// Replaces the metrics of the application. A metric is `(name, whether it is a total, attributes, value)`.
    #[pyo3(name = "_set_application_metrics")]
    fn set_application_metrics(&self, metrics: Vec<(String, bool, Vec<(String, String)>, f64)>) {
        self.client.set_application_metrics(metrics);
    }

    /// The configured `client.id`.
    #[getter(_client_id)]
    fn client_id(&self) -> &str {
        self.client.id()
    }

    #[pyo3(name = "_is_closed")]
    fn is_closed(&self) -> bool {
        self.client.check().is_err()
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        Ok(format!("<klamm.{} of {}>", slf.get_type().name()?, slf.get().servers))
    }

    fn __reduce__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        // A copy would share the client's connections.
        let message = format!("{} cannot be pickled or copied: it owns connections and a thread", self.what);
        Err(argument(py, &message, Some("create a new one from the same configuration where it is needed")))
    }
}

impl Drop for ClientCore {
    fn drop(&mut self) {
        // Joining the I/O thread must not hold the interpreter, because that thread may be waiting for it: it calls
        // assignors written in Python.
        if Arc::strong_count(&self.client) == 1 {
            Python::try_attach(|py| py.detach(|| self.client.end()));
        }
    }
}
