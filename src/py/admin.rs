//! `AdminCore`: what the two admin classes share. Answers are tuples, which `klamm.admin` makes dataclasses of.

use super::config;
use super::error::{no_pickle, raise};
use super::pending::{Origin, Pending, bounded};
use crate::client::{self, Error, NewTopic, Role};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use std::sync::Arc;

/// The core of an admin client.
#[pyclass(subclass, frozen, module = "klamm._klamm")]
pub(super) struct AdminCore {
    client: Arc<client::Admin>,
    servers: String,
}

#[pymethods]
impl AdminCore {
    #[new]
    #[pyo3(signature = (bootstrap_servers=None, **config))]
    fn new(
        py: Python<'_>,
        bootstrap_servers: Option<&Bound<'_, PyAny>>,
        config: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let (config, servers) = config::parse(py, Role::Admin, bootstrap_servers, config)?;
        let client = client::Admin::new(&config).map_err(|e| raise(py, &e))?;
        Ok(Self { client: Arc::new(client), servers })
    }

    /// Creates topics: `(name, partitions, replication factor, configs)`.
    #[pyo3(name = "_create_topics", signature = (topics, validate_only, timeout))]
    fn create_topics(
        &self,
        py: Python<'_>,
        topics: Vec<(String, i32, i16, Vec<(String, String)>)>,
        validate_only: bool,
        timeout: Option<f64>,
    ) -> PyResult<Pending> {
        let new = |(name, partitions, replication_factor, configs)| NewTopic {
            name,
            partitions,
            replication_factor,
            configs,
        };
        let topics = topics.into_iter().map(new).collect();
        let pending = self.client.create_topics(topics, validate_only, timeout.map(|t| bounded(Some(t))));
        let pending = pending.map_err(|e| raise(py, &e))?;
        Ok(Pending::new("answer about the new topics", self.origin(), pending, |py, ()| Ok(py.None())))
    }

    #[pyo3(name = "_delete_topics", signature = (topics, timeout))]
    fn delete_topics(&self, py: Python<'_>, topics: Vec<String>, timeout: Option<f64>) -> PyResult<Pending> {
        let pending =
            self.client.delete_topics(topics, timeout.map(|t| bounded(Some(t)))).map_err(|e| raise(py, &e))?;
        Ok(Pending::new("answer about the topics", self.origin(), pending, |py, ()| Ok(py.None())))
    }

    /// `(cluster id, controller, brokers, topics)`; the topics asked for, all of which have to be there, or all there are.
    #[pyo3(name = "_describe", signature = (topics, timeout))]
    fn describe(&self, py: Python<'_>, topics: Option<Vec<String>>, timeout: Option<f64>) -> PyResult<Pending> {
        let asked = topics.is_some();
        let pending = self.client.describe(topics, timeout.map(|t| bounded(Some(t)))).map_err(|e| raise(py, &e))?;
        Ok(Pending::new("answer about the cluster", self.origin(), pending, move |py, cluster| {
            let brokers = cluster.brokers.values().map(|b| (b.id, b.host.as_str(), b.port, b.rack.as_deref()));
            let brokers = PyList::new(py, brokers.collect::<Vec<_>>())?;
            let mut topics = Vec::with_capacity(cluster.topics.len());
            for (name, topic) in &cluster.topics {
                if topic.error.is_error() {
                    if asked {
                        let error = Error::refused(topic.error, format!("describe topic {name:?}")).at(name, None);
                        return Err(raise(py, &error));
                    }
                    continue;
                }
                let partitions = topic.partitions.iter().map(|p| (p.leader, &p.replicas[..], &p.isr[..]));
                topics.push((&**name, topic.internal, PyList::new(py, partitions.collect::<Vec<_>>())?));
            }
            let answer = (cluster.id.as_deref(), cluster.controller, brokers, topics);
            let answer: Bound<'_, PyTuple> = answer.into_pyobject(py)?;
            Ok(answer.into_any().unbind())
        }))
    }

    /// Ends the client.
    #[pyo3(name = "_close")]
    fn close(&self, py: Python<'_>) {
        py.detach(|| self.client.close());
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        Ok(format!("<klamm.{} of {}>", slf.get_type().name()?, slf.get().servers))
    }

    fn __reduce__(slf: &Bound<'_, Self>) -> PyResult<Py<PyAny>> {
        Err(no_pickle(slf.py(), "admin client"))
    }
}

impl AdminCore {
    fn origin(&self) -> Origin {
        Origin::Admin(self.client.clone())
    }
}
