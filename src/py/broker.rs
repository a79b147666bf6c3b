//! `DevBrokerCore`: the embedded cluster, behind `klamm.testing.DevBroker`.

use super::error::exception;
use crate::broker::{Broker, Options};
use pyo3::prelude::*;
use std::io::ErrorKind;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A cluster in this process, on a thread of its own.
#[pyclass(subclass, frozen, module = "klamm._klamm")]
pub(super) struct DevBrokerCore {
    options: Options,
    running: Mutex<Option<Broker>>,
}

impl DevBrokerCore {
    fn running(&self) -> MutexGuard<'_, Option<Broker>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl DevBrokerCore {
    #[new]
    #[pyo3(signature = (brokers=1, auto_create_topics=true, default_partitions=1, port=0))]
    fn new(brokers: usize, auto_create_topics: bool, default_partitions: i32, port: u16) -> Self {
        let options = Options { nodes: brokers, auto_create_topics, default_partitions, port, ..Options::default() };
        Self { options, running: Mutex::default() }
    }

    /// Starts the cluster, unless it runs.
    #[pyo3(name = "_start")]
    fn start(&self, py: Python<'_>) -> PyResult<()> {
        if self.running().is_some() {
            return Ok(());
        }
        // The lock is not held meanwhile: whoever waits for it may hold the interpreter.
        let started = py.detach(|| Broker::start(self.options.clone())).map_err(|e| match e.kind() {
            ErrorKind::InvalidInput => exception(py, "ConfigError", &e.to_string(), None),
            _ => e.into(),
        })?;
        let other = self.running().replace(started);
        py.detach(|| drop(other));
        Ok(())
    }

    /// Ends the cluster and everything in it.
    #[pyo3(name = "_stop")]
    fn stop(&self, py: Python<'_>) {
        let running = self.running().take();
        py.detach(|| drop(running));
    }

    /// `host:port` of every node; none while it does not run.
    #[pyo3(name = "_addresses")]
    fn addresses(&self) -> Vec<String> {
        self.running().as_ref().map_or_else(Vec::new, |b| b.addresses().iter().map(ToString::to_string).collect())
    }
}
