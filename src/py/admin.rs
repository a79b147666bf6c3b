//! [`AdminCore`]: the base class of `Admin` and `AsyncAdmin`. It sends the requests and builds the results.
//!
//! Arguments arrive checked by `klamm.admin`. The result classes are the dataclasses of that module.

use super::construct::{class, construct, list};
use super::error::no_pickle;
use super::login_mailbox;
use super::pending::Pending;
use super::protocol::{Names, from_python, to_python};
use super::{arguments, commits, config};
use crate::api::ErrorCode;
use crate::client::{self, AnyClient, ClientType, ConfigResource, Error, GroupMember, NewTopic, Route, TopicPartition};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use std::sync::Arc;
use std::time::Duration;

/// The base class of the admin clients.
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
        let client = client::Admin::new(&config)?;
        login_mailbox::start(py, client.login_mailbox(), login)?;
        Ok(Self { client: Arc::new(client), servers })
    }

    /// Seconds that a call without a timeout takes at most.
    #[getter(_api_timeout)]
    fn api_timeout(&self) -> f64 {
        self.client.api_timeout().as_secs_f64()
    }

    /// Sends the request of an API, and returns the fields of its response. `route` is None for any broker, a broker ID, a
    /// pair of FindCoordinator's type and a key, or `"controller"`. `versions` are the oldest and the newest to send.
    #[pyo3(name = "_call", signature = (api, fields, route, timeout, versions=(0, i16::MAX)))]
    fn call(
        &self,
        api: &str,
        fields: &Bound<'_, PyAny>,
        route: Option<RouteArgument>,
        #[pyo3(from_py_with = arguments::time_limit)] timeout: Option<Duration>,
        versions: (i16, i16),
    ) -> PyResult<Pending> {
        let route = match route {
            None => Route::Any,
            Some(RouteArgument::Broker(id)) => Route::Broker(id),
            Some(RouteArgument::Coordinator(key_type, key)) => Route::Coordinator(key_type, key),
            Some(RouteArgument::Controller) => Route::Controller,
        };
        let pending = self.client.call(api, from_python(fields, 0)?, route, versions.0..=versions.1, timeout)?;
        let why = || None;
        let what = format!("response to {api}");
        let convert = |py: Python<'_>, fields| to_python(py, fields, &mut Names::new()).map(Bound::unbind);
        Ok(Pending::explained(what, self.any(), pending, convert, why))
    }

    /// Creates topics from tuples `(name, partitions, replication factor, configs)`.
    #[pyo3(name = "_create_topics", signature = (topics, validate_only, timeout))]
    fn create_topics(
        &self,
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
        let pending = self.client.create_topics(topics, validate_only, timeout)?;
        Ok(Pending::empty("response to CreateTopics", self.any(), pending))
    }

    /// Sets the number of partitions of topics: `(name, count)`.
    #[pyo3(name = "_create_partitions", signature = (counts, validate_only, timeout))]
    fn create_partitions(
        &self,
        counts: Vec<(String, i32)>,
        #[pyo3(from_py_with = arguments::validate_only)] validate_only: bool,
        #[pyo3(from_py_with = arguments::time_limit)] timeout: Option<Duration>,
    ) -> PyResult<Pending> {
        let pending = self.client.create_partitions(counts, validate_only, timeout)?;
        Ok(Pending::empty("response to CreatePartitions", self.any(), pending))
    }

    /// Returns a dict from name to ConfigEntry.
    #[pyo3(name = "_describe_configs", signature = (kind, name, timeout))]
    fn describe_configs(
        &self,
        #[pyo3(from_py_with = arguments::kind)] kind: &str,
        #[pyo3(from_py_with = arguments::name)] name: &str,
        #[pyo3(from_py_with = arguments::time_limit)] timeout: Option<Duration>,
    ) -> PyResult<Pending> {
        let resource = ConfigResource::new(kind, name.to_owned())?;
        let pending = self.client.describe_configs(resource, timeout)?;
        Ok(Pending::new("description of a configuration", self.any(), pending, |py, configs| {
            let found = PyDict::new(py);
            for c in configs {
                let entry = construct!(py, "klamm.admin.ConfigEntry", {
                    name: &c.name,
                    value: &c.value,
                    source: class(py, "klamm.admin.ConfigSource")?.call1((c.source,))?,
                    read_only: c.read_only,
                    sensitive: c.sensitive,
                })?;
                found.set_item(&c.name, entry)?;
            }
            Ok(found.into_any().unbind())
        }))
    }

    #[pyo3(name = "_alter_configs", signature = (kind, name, changes, validate_only, timeout))]
    fn alter_configs(
        &self,
        #[pyo3(from_py_with = arguments::kind)] kind: &str,
        #[pyo3(from_py_with = arguments::name)] name: &str,
        changes: Vec<(String, Option<String>)>,
        #[pyo3(from_py_with = arguments::validate_only)] validate_only: bool,
        #[pyo3(from_py_with = arguments::time_limit)] timeout: Option<Duration>,
    ) -> PyResult<Pending> {
        let resource = ConfigResource::new(kind, name.to_owned())?;
        let pending = self.client.alter_configs(resource, changes, validate_only, timeout)?;
        Ok(Pending::empty("response to IncrementalAlterConfigs", self.any(), pending))
    }

    #[pyo3(name = "_delete_topics", signature = (topics, timeout))]
    fn delete_topics(
        &self,
        topics: Vec<String>,
        #[pyo3(from_py_with = arguments::time_limit)] timeout: Option<Duration>,
    ) -> PyResult<Pending> {
        let pending = self.client.delete_topics(topics, timeout)?;
        Ok(Pending::empty("response to DeleteTopics", self.any(), pending))
    }

    /// Returns a list of offsets for each `(topic, partition, time)`: of segments from before then, newest first.
    #[pyo3(name = "_offsets_before", signature = (wanted, limit, timeout))]
    fn offsets_before(
        &self,
        wanted: Vec<(String, i32, i64)>,
        #[pyo3(from_py_with = arguments::limit)] limit: i32,
        #[pyo3(from_py_with = arguments::time_limit)] timeout: Option<Duration>,
    ) -> PyResult<Pending> {
        let wanted = wanted.into_iter().map(|(topic, partition, time)| (topic.into(), partition, time)).collect();
        let pending = self.client.offsets_before(wanted, limit, timeout)?;
        Ok(Pending::new("offsets", self.any(), pending, |py, found| Ok(PyList::new(py, found)?.into_any().unbind())))
    }

    /// Deletes records below an offset: `(topic, partition, offset)`, where -1 is the end. Returns the new first offsets.
    #[pyo3(name = "_delete_records", signature = (wanted, timeout))]
    fn delete_records(
        &self,
        wanted: Vec<(String, i32, i64)>,
        #[pyo3(from_py_with = arguments::time_limit)] timeout: Option<Duration>,
    ) -> PyResult<Pending> {
        let wanted = wanted.into_iter().map(|(topic, partition, offset)| (topic.into(), partition, offset)).collect();
        let pending = self.client.delete_records(wanted, timeout)?;
        Ok(Pending::new("response to DeleteRecords", self.any(), pending, |py, starts| {
            Ok(PyList::new(py, starts)?.into_any().unbind())
        }))
    }

    /// Returns the ClusterDescription.
    #[pyo3(name = "_describe_cluster", signature = (timeout))]
    fn describe_cluster(
        &self,
        #[pyo3(from_py_with = arguments::time_limit)] timeout: Option<Duration>,
    ) -> PyResult<Pending> {
        let pending = self.client.describe(Some(Vec::new()), timeout)?;
        Ok(Pending::new("description of the cluster", self.any(), pending, |py, cluster| {
            let brokers = cluster
                .brokers
                .values()
                .map(|b| construct!(py, "klamm.admin.Node", { id: b.id, host: &b.host, port: b.port, rack: &b.rack }));
            construct!(py, "klamm.admin.ClusterDescription", {
                cluster_id: &cluster.id,
                controller: cluster.controller,
                brokers: list(py, brokers)?,
            })
        }))
    }

    /// Returns the sorted names of all topics, with or without the internal ones.
    #[pyo3(name = "_list_topics", signature = (internal, timeout))]
    fn list_topics(
        &self,
        internal: bool,
        #[pyo3(from_py_with = arguments::time_limit)] timeout: Option<Duration>,
    ) -> PyResult<Pending> {
        let pending = self.client.describe(None, timeout)?;
        Ok(Pending::new("list of topics", self.any(), pending, move |py, cluster| {
            // A topic whose partitions have no leader for a moment exists.
            let exists = |error: ErrorCode| {
                !error.is_error() || (error.is_retriable() && error != ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)
            };
            let topics = cluster.topics.iter().filter(|(_, t)| exists(t.error) && (internal || !t.internal));
            let mut names: Vec<&str> = topics.map(|(name, _)| &**name).collect();
            names.sort_unstable();
            Ok(PyList::new(py, names)?.into_any().unbind())
        }))
    }

    /// Returns a dict from name to TopicDescription. All of these topics must exist.
    #[pyo3(name = "_describe_topics", signature = (topics, timeout))]
    fn describe_topics(
        &self,
        topics: Vec<String>,
        #[pyo3(from_py_with = arguments::time_limit)] timeout: Option<Duration>,
    ) -> PyResult<Pending> {
        let pending = self.client.describe(Some(topics.clone()), timeout)?;
        Ok(Pending::new("description of the topics", self.any(), pending, move |py, cluster| {
            let found = PyDict::new(py);
            for name in &topics {
                let Some((name, topic)) = cluster.topics.get_key_value(name.as_str()) else { continue };
                if topic.error.is_error() {
                    return Err(Error::refused(topic.error, format!("describe topic {name:?}")).at(name, None).into());
                }
                let partitions = topic.partitions.iter().enumerate().map(|(number, p)| {
                    construct!(py, "klamm.admin.PartitionInfo", {
                        partition: number,
                        leader: p.leader,
                        replicas: &p.replicas,
                        isr: &p.isr,
                    })
                });
                let description = construct!(py, "klamm.admin.TopicDescription", {
                    name: &**name,
                    internal: topic.internal,
                    partitions: list(py, partitions)?,
                    topic_id: (!topic.id.is_zero()).then(|| topic.id.to_string()),
                })?;
                found.set_item(&**name, description)?;
            }
            Ok(found.into_any().unbind())
        }))
    }

    /// Returns a list of GroupListing: of all groups, or of the groups in these states and of these types.
    #[pyo3(name = "_list_groups", signature = (states, types, timeout))]
    fn list_groups(
        &self,
        states: Vec<String>,
        types: Vec<String>,
        #[pyo3(from_py_with = arguments::time_limit)] timeout: Option<Duration>,
    ) -> PyResult<Pending> {
        let pending = self.client.list_groups(states, types, timeout)?;
        Ok(Pending::new("list of groups", self.any(), pending, |py, groups| {
            let listings = groups.iter().map(|g| {
                construct!(py, "klamm.admin.GroupListing", {
                    group: &g.group,
                    protocol_type: &g.protocol_type,
                    state: &g.state,
                    type: &g.kind,
                })
            });
            list(py, listings)
        }))
    }

    /// Returns the GroupDescription.
    #[pyo3(name = "_describe_group", signature = (group, timeout))]
    fn describe_group(
        &self,
        #[pyo3(from_py_with = arguments::group)] group: &str,
        #[pyo3(from_py_with = arguments::time_limit)] timeout: Option<Duration>,
    ) -> PyResult<Pending> {
        let pending = self.client.describe_group(group.to_owned(), timeout)?;
        Ok(Pending::new("description of a group", self.any(), pending, |py, g| {
            construct!(py, "klamm.admin.GroupDescription", {
                group: &g.group,
                type: g.kind,
                protocol_type: &g.protocol_type,
                state: &g.state,
                assignor: &g.assignor,
                coordinator: g.coordinator,
                members: list(py, g.members.iter().map(|m| member(py, m)))?,
            })
        }))
    }

    #[pyo3(name = "_delete_group", signature = (group, timeout))]
    fn delete_group(
        &self,
        #[pyo3(from_py_with = arguments::group)] group: &str,
        #[pyo3(from_py_with = arguments::time_limit)] timeout: Option<Duration>,
    ) -> PyResult<Pending> {
        let pending = self.client.delete_group(group.to_owned(), timeout)?;
        Ok(Pending::empty("response to DeleteGroups", self.any(), pending))
    }

    /// Returns a dict from TopicPartition to the committed offset.
    #[pyo3(name = "_group_offsets", signature = (group, timeout))]
    fn group_offsets(
        &self,
        #[pyo3(from_py_with = arguments::group)] group: &str,
        #[pyo3(from_py_with = arguments::time_limit)] timeout: Option<Duration>,
    ) -> PyResult<Pending> {
        let pending = self.client.group_offsets(group.to_owned(), timeout)?;
        Ok(Pending::new("offsets of the group", self.any(), pending, |py, offsets| {
            let found = PyDict::new(py);
            for o in &offsets {
                found.set_item(&TopicPartition::new(o.topic.clone(), o.partition), o.offset)?;
            }
            Ok(found.into_any().unbind())
        }))
    }

    /// Commits offsets for a group without members.
    #[pyo3(name = "_alter_group_offsets", signature = (group, offsets, timeout))]
    fn alter_group_offsets(
        &self,
        #[pyo3(from_py_with = arguments::group)] group: &str,
        offsets: Vec<commits::OffsetToCommit>,
        #[pyo3(from_py_with = arguments::time_limit)] timeout: Option<Duration>,
    ) -> PyResult<Pending> {
        let offsets = offsets.into_iter().map(Into::into).collect();
        let pending = self.client.alter_group_offsets(group.to_owned(), offsets, timeout)?;
        Ok(Pending::empty("response to OffsetCommit", self.any(), pending))
    }

    #[pyo3(name = "_delete_group_offsets", signature = (group, partitions, timeout))]
    fn delete_group_offsets(
        &self,
        #[pyo3(from_py_with = arguments::group)] group: &str,
        partitions: Vec<(String, i32)>,
        #[pyo3(from_py_with = arguments::time_limit)] timeout: Option<Duration>,
    ) -> PyResult<Pending> {
        let partitions = partitions.into_iter().map(TopicPartition::from).collect();
        let pending = self.client.delete_group_offsets(group.to_owned(), partitions, timeout)?;
        Ok(Pending::empty("response to OffsetDelete", self.any(), pending))
    }

    /// Returns a dict from TopicPartition to the number of records that the group has not read, or None if unknown.
    #[pyo3(name = "_group_lag", signature = (group, timeout))]
    fn group_lag(
        &self,
        #[pyo3(from_py_with = arguments::group)] group: &str,
        #[pyo3(from_py_with = arguments::time_limit)] timeout: Option<Duration>,
    ) -> PyResult<Pending> {
        let pending = self.client.group_lag(group.to_owned(), timeout)?;
        Ok(Pending::new("lag of the group", self.any(), pending, |py, lags| {
            let found = PyDict::new(py);
            for (partition, lag) in &lags {
                found.set_item(partition, lag)?;
            }
            Ok(found.into_any().unbind())
        }))
    }

    /// Closes the client.
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

/// The broker to which `_call` sends a request.
enum RouteArgument {
    Controller,
    Broker(i32),
    Coordinator(i8, String),
}

impl<'py> FromPyObject<'_, 'py> for RouteArgument {
    type Error = PyErr;

    fn extract(route: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(id) = route.extract() {
            return Ok(Self::Broker(id));
        }
        let coordinator = route.extract::<(i8, String)>();
        Ok(coordinator.map_or(Self::Controller, |(key_type, key)| Self::Coordinator(key_type, key)))
    }
}

impl AdminCore {
    fn any(&self) -> Arc<dyn AnyClient> {
        self.client.clone()
    }
}

fn member(py: Python<'_>, m: &GroupMember) -> PyResult<Py<PyAny>> {
    construct!(py, "klamm.admin.GroupMember", {
        member_id: &m.id,
        instance_id: &m.instance_id,
        client_id: &m.client_id,
        host: &m.host,
        rack: &m.rack,
        topics: &m.topics,
        topic_pattern: &m.topic_pattern,
        assigned: &m.assigned,
        target: &m.target,
    })
}
