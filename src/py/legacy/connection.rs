//! [`LegacyConnection`]: a connection to a broker of Kafka 0.6 or 0.7, for `klamm.legacy`.

use crate::client;
use crate::py::bytes_like::backed_bytes;
use crate::py::deadline::{Deadline, SLICE};
use crate::py::error::exception;
use bytes::Bytes;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Returns host and port of `host[:port]`.
#[pyfunction]
pub(in crate::py) fn parse_address(text: &str) -> PyResult<(String, u16)> {
    Ok(client::parse_address("the list of brokers", text, None)?)
}

/// A connection to a broker. One thread at a time may use it.
#[pyclass(frozen, module = "klamm._klamm")]
pub(in crate::py) struct LegacyConnection(Mutex<client::LegacyConnection>);

impl LegacyConnection {
    /// Runs an operation until it has completed. An error, a signal or a timeout closes the connection.
    fn work<T: Send>(
        &self,
        py: Python<'_>,
        timeout: Option<f64>,
        mut step: impl FnMut(&mut client::LegacyConnection, Duration) -> Result<Option<T>, client::Error> + Send,
    ) -> PyResult<T> {
        let deadline = Deadline::after(timeout);
        loop {
            let left = deadline.left();
            let slice = left.min(SLICE);
            let ended = match py.detach(|| step(&mut self.lock(), slice))? {
                Some(done) => return Ok(done),
                None => py.check_signals().err(),
            };
            let ended = ended.or_else(|| {
                let late = || {
                    let why = format!("{} did not answer within the timeout", self.lock().address());
                    exception(py, "KafkaTimeoutError", &why, None)
                };
                left.is_zero().then(late)
            });
            if let Some(error) = ended {
                self.lock().close();
                return Err(error);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, client::LegacyConnection> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl LegacyConnection {
    #[new]
    fn new(host: &str, port: u16, max_frame: usize) -> Self {
        Self(Mutex::new(client::LegacyConnection::new(host, port, max_frame)))
    }

    /// Writes a frame. Returns when the operating system has accepted the whole frame.
    fn send(&self, py: Python<'_>, frame: &Bound<'_, PyAny>, timeout: Option<f64>) -> PyResult<()> {
        let frame = Bytes::from_owner(backed_bytes("frame", frame)?);
        self.lock().queue(frame)?;
        self.work(py, timeout, |connection, slice| connection.write(slice).map(|done| done.then_some(())))
    }

    /// Reads the body of the next response.
    fn receive<'py>(&self, py: Python<'py>, timeout: Option<f64>) -> PyResult<Bound<'py, PyBytes>> {
        let body = self.work(py, timeout, client::LegacyConnection::read)?;
        Ok(PyBytes::new(py, &body))
    }

    /// Returns whether a connection is open. The result can be true after the broker has closed the connection.
    fn is_open(&self) -> bool {
        self.lock().is_open()
    }

    /// Closes the connection. The next use opens a new connection.
    fn close(&self) {
        self.lock().close();
    }
}
