//! `AdminCore`: what the two admin classes share. Answers are tuples, which `klamm.admin` makes dataclasses of.

use super::error::{no_pickle, raise};
use super::pending::{Origin, Pending};
use super::tokens;
use super::{arguments, commits, config};
use crate::client::{self, ClientType, ConfigResource, Error, GroupMember, NewTopic, TopicPartition};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use std::sync::Arc;
use std::time::Duration;

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
        let (config, servers, login) = config::parse(py, ClientType::Admin, bootstrap_servers, config)?;
        let client = client::Admin::new(&config).map_err(|e| raise(py, &e))?;
        tokens::start(py, client.login_mailbox(), login)?;
        Ok(Self { client: Arc::new(client), servers })
    }

    /// Creates topics: `(name, partitions, replication factor, configs)`.
    #[pyo3(name = "_create_topics", signature = (topics, validate_only, timeout))]
    fn create_topics(
        &self,
        py: Python<'_>,
        topics: Vec<(String, i32, i16, Vec<(String, String)>)>,
        #[pyo3(from_py_with = arguments::validate_only)] validate_only: bool,
        #[pyo3(from_py_with = arguments::time_limit)] timeout: Option<Duration>,
    ) -> PyResult<Pending> {
        let new = |(name, partitions, replication_factor, configs)| NewTopic {
            name,
            partitions,
            replication_factor,
            configs,
        };
        let topics = topics.into_iter().map(new).collect();
        let pending = self.client.create_topics(topics, validate_only, timeout);
        let pending = pending.map_err(|e| raise(py, &e))?;
        Ok(Pending::new("answer about the new topics", self.origin(), pending, |py, ()| Ok(py.None())))
    }

    /// Gives topics so many partitions, old and new: `(name, count)`.
    #[pyo3(name = "_create_partitions", signature = (counts, validate_only, timeout))]
    fn create_partitions(
        &self,
        py: Python<'_>,
        counts: Vec<(String, i32)>,
        #[pyo3(from_py_with = arguments::validate_only)] validate_only: bool,
        #[pyo3(from_py_with = arguments::time_limit)] timeout: Option<Duration>,
    ) -> PyResult<Pending> {
        let pending = self.client.create_partitions(counts, validate_only, timeout);
        let pending = pending.map_err(|e| raise(py, &e))?;
        Ok(Pending::new("answer about the partitions", self.origin(), pending, |py, ()| Ok(py.None())))
    }

    /// `(name, value, source, read only, sensitive)` of every setting.
    #[pyo3(name = "_describe_configs", signature = (kind, name, timeout))]
    fn describe_configs(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arguments::kind)] kind: &str,
        #[pyo3(from_py_with = arguments::name)] name: &str,
        #[pyo3(from_py_with = arguments::time_limit)] timeout: Option<Duration>,
    ) -> PyResult<Pending> {
        let resource = ConfigResource::new(kind, name.to_owned()).map_err(|e| raise(py, &e))?;
        let pending = self.client.describe_configs(resource, timeout);
        let pending = pending.map_err(|e| raise(py, &e))?;
        Ok(Pending::new("description of a configuration", self.origin(), pending, |py, configs| {
            let row = configs.into_iter().map(|c| (c.name, c.value, c.source, c.read_only, c.sensitive));
            Ok(PyList::new(py, row.collect::<Vec<_>>())?.into_any().unbind())
        }))
    }

    #[pyo3(name = "_alter_configs", signature = (kind, name, changes, validate_only, timeout))]
    fn alter_configs(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arguments::kind)] kind: &str,
        #[pyo3(from_py_with = arguments::name)] name: &str,
        changes: Vec<(String, Option<String>)>,
        #[pyo3(from_py_with = arguments::validate_only)] validate_only: bool,
        #[pyo3(from_py_with = arguments::time_limit)] timeout: Option<Duration>,
    ) -> PyResult<Pending> {
        let resource = ConfigResource::new(kind, name.to_owned()).map_err(|e| raise(py, &e))?;
        let pending =
            self.client.alter_configs(resource, changes, validate_only, timeout).map_err(|e| raise(py, &e))?;
        Ok(Pending::new("answer about the configuration", self.origin(), pending, |py, ()| Ok(py.None())))
    }

    #[pyo3(name = "_delete_topics", signature = (topics, timeout))]
    fn delete_topics(
        &self,
        py: Python<'_>,
        topics: Vec<String>,
        #[pyo3(from_py_with = arguments::time_limit)] timeout: Option<Duration>,
    ) -> PyResult<Pending> {
        let pending = self.client.delete_topics(topics, timeout).map_err(|e| raise(py, &e))?;
        Ok(Pending::new("answer about the topics", self.origin(), pending, |py, ()| Ok(py.None())))
    }

    /// For each `(topic, partition, time)` where segments from before then begin and the log ends, the newest first.
    #[pyo3(name = "_offsets_before", signature = (wanted, limit, timeout))]
    fn offsets_before(
        &self,
        py: Python<'_>,
        wanted: Vec<(String, i32, i64)>,
        #[pyo3(from_py_with = arguments::limit)] limit: i32,
        #[pyo3(from_py_with = arguments::time_limit)] timeout: Option<Duration>,
    ) -> PyResult<Pending> {
        let wanted = wanted.into_iter().map(|(topic, partition, time)| (topic.into(), partition, time)).collect();
        let pending = self.client.offsets_before(wanted, limit, timeout);
        let pending = pending.map_err(|e| raise(py, &e))?;
        Ok(Pending::new("offsets", self.origin(), pending, |py, found| Ok(PyList::new(py, found)?.into_any().unbind())))
    }

    /// Where each partition starts after what is before `(topic, partition, offset)` is gone; -1 is the end.
    #[pyo3(name = "_delete_records", signature = (wanted, timeout))]
    fn delete_records(
        &self,
        py: Python<'_>,
        wanted: Vec<(String, i32, i64)>,
        #[pyo3(from_py_with = arguments::time_limit)] timeout: Option<Duration>,
    ) -> PyResult<Pending> {
        let wanted = wanted.into_iter().map(|(topic, partition, offset)| (topic.into(), partition, offset)).collect();
        let pending = self.client.delete_records(wanted, timeout);
        let pending = pending.map_err(|e| raise(py, &e))?;
        Ok(Pending::new("answer about the records", self.origin(), pending, |py, starts| {
            Ok(PyList::new(py, starts)?.into_any().unbind())
        }))
    }

    /// `(cluster id, controller, brokers, topics)`; the topics asked for, all of which have to be there, or all there are.
    #[pyo3(name = "_describe", signature = (topics, timeout))]
    fn describe(
        &self,
        py: Python<'_>,
        topics: Option<Vec<String>>,
        #[pyo3(from_py_with = arguments::time_limit)] timeout: Option<Duration>,
    ) -> PyResult<Pending> {
        let asked = topics.is_some();
        let pending = self.client.describe(topics, timeout).map_err(|e| raise(py, &e))?;
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

    /// `(group, protocol type, state, type)` of every group, or of those in one of some states or of one of some types.
    #[pyo3(name = "_list_groups", signature = (states, types, timeout))]
    fn list_groups(
        &self,
        py: Python<'_>,
        states: Vec<String>,
        types: Vec<String>,
        #[pyo3(from_py_with = arguments::time_limit)] timeout: Option<Duration>,
    ) -> PyResult<Pending> {
        let pending = self.client.list_groups(states, types, timeout);
        let pending = pending.map_err(|e| raise(py, &e))?;
        Ok(Pending::new("list of groups", self.origin(), pending, |py, groups| {
            let row = groups.into_iter().map(|g| (g.group, g.protocol_type, g.state, g.kind));
            Ok(PyList::new(py, row.collect::<Vec<_>>())?.into_any().unbind())
        }))
    }

    /// `(group, type, protocol type, state, assignor, coordinator, members)`.
    #[pyo3(name = "_describe_group", signature = (group, timeout))]
    fn describe_group(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arguments::group)] group: &str,
        #[pyo3(from_py_with = arguments::time_limit)] timeout: Option<Duration>,
    ) -> PyResult<Pending> {
        let pending = self.client.describe_group(group.to_owned(), timeout);
        let pending = pending.map_err(|e| raise(py, &e))?;
        Ok(Pending::new("description of a group", self.origin(), pending, |py, g| {
            let members: Vec<_> = g.members.iter().map(member).collect();
            let answer = (&g.group, g.kind, &g.protocol_type, &g.state, &g.assignor, g.coordinator, members);
            Ok(answer.into_pyobject(py)?.into_any().unbind())
        }))
    }

    #[pyo3(name = "_delete_group", signature = (group, timeout))]
    fn delete_group(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arguments::group)] group: &str,
        #[pyo3(from_py_with = arguments::time_limit)] timeout: Option<Duration>,
    ) -> PyResult<Pending> {
        let pending = self.client.delete_group(group.to_owned(), timeout).map_err(|e| raise(py, &e))?;
        Ok(Pending::new("answer about the group", self.origin(), pending, |py, ()| Ok(py.None())))
    }

    /// `((topic, partition), offset)` of everything a group committed.
    #[pyo3(name = "_group_offsets", signature = (group, timeout))]
    fn group_offsets(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arguments::group)] group: &str,
        #[pyo3(from_py_with = arguments::time_limit)] timeout: Option<Duration>,
    ) -> PyResult<Pending> {
        let pending = self.client.group_offsets(group.to_owned(), timeout);
        let pending = pending.map_err(|e| raise(py, &e))?;
        Ok(Pending::new("offsets of the group", self.origin(), pending, |py, offsets| {
            let each = offsets.iter().map(|o| ((&*o.topic, o.partition), o.offset));
            Ok(PyList::new(py, each.collect::<Vec<_>>())?.into_any().unbind())
        }))
    }

    /// Commits `(topic, partition, offset, metadata)` for a group without members.
    #[pyo3(name = "_alter_group_offsets", signature = (group, offsets, timeout))]
    fn alter_group_offsets(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arguments::group)] group: &str,
        offsets: Vec<commits::Given>,
        #[pyo3(from_py_with = arguments::time_limit)] timeout: Option<Duration>,
    ) -> PyResult<Pending> {
        let offsets = offsets.into_iter().map(commits::offset).collect();
        let pending = self.client.alter_group_offsets(group.to_owned(), offsets, timeout);
        let pending = pending.map_err(|e| raise(py, &e))?;
        Ok(Pending::new("answer about the offsets", self.origin(), pending, |py, ()| Ok(py.None())))
    }

    #[pyo3(name = "_delete_group_offsets", signature = (group, places, timeout))]
    fn delete_group_offsets(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arguments::group)] group: &str,
        places: Vec<(String, i32)>,
        #[pyo3(from_py_with = arguments::time_limit)] timeout: Option<Duration>,
    ) -> PyResult<Pending> {
        let places = places.into_iter().map(TopicPartition::from).collect();
        let pending = self.client.delete_group_offsets(group.to_owned(), places, timeout);
        let pending = pending.map_err(|e| raise(py, &e))?;
        Ok(Pending::new("answer about the offsets", self.origin(), pending, |py, ()| Ok(py.None())))
    }

    /// `((topic, partition), records to read)` of every partition a group committed something of; None if it is gone.
    #[pyo3(name = "_group_lag", signature = (group, timeout))]
    fn group_lag(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arguments::group)] group: &str,
        #[pyo3(from_py_with = arguments::time_limit)] timeout: Option<Duration>,
    ) -> PyResult<Pending> {
        let pending = self.client.group_lag(group.to_owned(), timeout).map_err(|e| raise(py, &e))?;
        Ok(Pending::new("lag of the group", self.origin(), pending, |py, lags| {
            let each = lags.iter().map(|(p, lag)| ((&*p.topic, p.partition), *lag));
            Ok(PyList::new(py, each.collect::<Vec<_>>())?.into_any().unbind())
        }))
    }

    /// Ends the client.
    #[pyo3(name = "_close")]
    fn close(&self, py: Python<'_>) {
        py.detach(|| self.client.end());
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

type PlaceTuple<'a> = (&'a str, i32);

/// `(id, instance id, client id, host, rack, topics, pattern, assigned, target)`.
type MemberTuple<'a> = (
    &'a str,
    Option<&'a str>,
    &'a str,
    &'a str,
    Option<&'a str>,
    &'a [String],
    Option<&'a str>,
    Vec<PlaceTuple<'a>>,
    Option<Vec<PlaceTuple<'a>>>,
);

fn member(m: &GroupMember) -> MemberTuple<'_> {
    (
        &m.id,
        m.instance_id.as_deref(),
        &m.client_id,
        &m.host,
        m.rack.as_deref(),
        &m.topics,
        m.topic_pattern.as_deref(),
        places(&m.assigned),
        m.target.as_deref().map(places),
    )
}

fn places(places: &[TopicPartition]) -> Vec<PlaceTuple<'_>> {
    places.iter().map(|p| (&*p.topic, p.partition)).collect()
}
