//! [`AdminCore`]: the base class of `Admin` and `AsyncAdmin`. The class sends the requests and builds the results.
//!
//! `klamm.admin` checks arguments before it passes them to `AdminCore`. The results are dataclasses of `klamm.admin`.

use super::client::ClientCore;
use super::construct::{construct, list};
use super::login_mailbox;
use super::pending::Pending;
use super::protocol::{Names, from_python, to_python};
use super::{arguments, config};
use crate::api::ErrorCode;
use crate::client::{self, AnyClient, ClientType, Condition, Endpoints, Item, ItemResult, Knowing, Route};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use std::sync::Arc;
use std::time::Duration;

/// The base class of the admin clients.
#[pyclass(extends = ClientCore, subclass, frozen, name = "Admin", module = "klamm")]
pub(super) struct AdminCore {
    client: Arc<client::Admin>,
}

#[pymethods]
impl AdminCore {
    #[new]
    #[pyo3(signature = (bootstrap_servers=None, **config))]
    fn new(
        py: Python<'_>,
        bootstrap_servers: Option<&Bound<'_, PyAny>>,
        config: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<PyClassInitializer<Self>> {
        let (config, servers, login, log_target) = config::parse(py, ClientType::Admin, bootstrap_servers, config)?;
        let client = Arc::new(client::Admin::new(&config)?);
        login_mailbox::start(py, client.login_mailbox(), login)?;
        let base = ClientCore::new(client.clone(), "an admin client", servers, log_target);
        Ok(PyClassInitializer::from(base).add_subclass(Self { client }))
    }

    /// Longest time in seconds of a call without a timeout.
    #[getter(_api_timeout)]
    fn api_timeout(&self) -> f64 {
        self.client.api_timeout().as_secs_f64()
    }

    /// Whether the client talks to controllers instead of brokers.
    #[getter(_uses_controllers)]
    fn uses_controllers(&self) -> bool {
        self.client.endpoints() == Endpoints::Controllers
    }

    /// Raises an error if the client talks to controllers that do not serve the API.
    #[pyo3(name = "_check_served")]
    fn check_served(&self, api: &str) -> PyResult<()> {
        Ok(self.client.check_served(api)?)
    }

    /// Sends the request of an API, and returns the fields of its response. `route` is None for any broker, a broker
    /// ID, `"controller"`, a pair of a FindCoordinator key type and a key, or a pair of a topic and a partition for its
    /// leader. `versions` are the oldest and the newest
    /// version that the client may send.
    #[pyo3(name = "_call", signature = (api, fields, route, timeout, versions=(0, i16::MAX)))]
    fn call(
        &self,
        api: &str,
        fields: &Bound<'_, PyAny>,
        route: Option<RouteArgument>,
        #[pyo3(from_py_with = arguments::time_limit)] timeout: Option<Duration>,
        versions: (i16, i16),
    ) -> PyResult<Pending> {
        let versions = versions.0..=versions.1;
        let pending = self.client.call(api, from_python(fields, 0)?, to_route(route), versions, timeout)?;
        let convert =
            |py: Python<'_>, item: ItemResult| to_python(py, item.result?, &mut Names::new()).map(Bound::unbind);
        Ok(Pending::explained(format!("response to {api}"), self.any(), pending, convert, || None))
    }

    /// Sends requests of an API for many items. An item consists of the fields of a request that has only this item, its
    /// route, what is tried, its key, and its topic and partition for errors. `path` says where the keys are in a
    /// response. Returns for each item the fields of its result, or its error, and whether an attempt had no response.
    #[pyo3(name = "_call_for_items", signature = (api, path, items, timeout, versions=(0, i16::MAX)))]
    fn call_for_items(
        &self,
        api: &str,
        path: &str,
        items: Vec<ItemArgument<'_>>,
        #[pyo3(from_py_with = arguments::time_limit)] timeout: Option<Duration>,
        versions: (i16, i16),
    ) -> PyResult<Pending> {
        let items = items.into_iter().map(to_item).collect::<PyResult<_>>()?;
        let pending = self.client.call_for_items(api, path, items, versions.0..=versions.1, timeout)?;
        let convert = |py: Python<'_>, results: Vec<ItemResult>| {
            let mut names = Names::new();
            let mut raised: Option<(client::Error, Py<PyAny>)> = None;
            let list = PyList::empty(py);
            for item in results {
                let result = match item.result {
                    Ok(fields) => to_python(py, fields, &mut names)?.unbind(),
                    Err(error) => match &raised {
                        // Items that share an error get the same exception.
                        Some((other, exception)) if other.is_same(&error) => exception.clone_ref(py),
                        _ => {
                            let exception = PyErr::from(error.clone()).into_value(py).into_any();
                            raised = Some((error, exception.clone_ref(py)));
                            exception
                        }
                    },
                };
                list.append((result, item.repeated))?;
            }
            Ok(list.into_any().unbind())
        };
        Ok(Pending::explained(format!("response to {api}"), self.any(), pending, convert, || None))
    }

    /// Waits until brokers report that a change is complete. A condition is a name of `to_condition`, a topic, a number
    /// and a topic ID. `knowing` is `"one"`, `"all"` or `"controller"`. Returns None, or the error that says why the change
    /// is not complete at the deadline.
    #[pyo3(name = "_confirm_change")]
    fn confirm_change(
        &self,
        conditions: Vec<ConditionArgument>,
        knowing: &str,
        #[pyo3(from_py_with = arguments::time_limit)] timeout: Option<Duration>,
    ) -> PyResult<Pending> {
        let knowing = match knowing {
            "all" => Knowing::All,
            "controller" => Knowing::Controller,
            _ => Knowing::One,
        };
        let conditions = conditions.into_iter().map(to_condition).collect();
        let pending = self.client.confirm(conditions, knowing, timeout)?;
        Ok(Pending::new("confirmation", self.any(), pending, |py, why| {
            Ok(why.map_or_else(|| py.None(), |error| PyErr::from(error).into_value(py).into_any()))
        }))
    }

    /// Returns a list of offsets for each `(topic, partition, time)`: the start offsets of segments from before the
    /// time, newest first.
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

    /// Returns the sorted names of all topics, with or without internal topics.
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

    /// Closes the client.
    #[pyo3(name = "_close")]
    fn close(&self, py: Python<'_>) {
        py.detach(|| self.client.end());
    }
}

/// The broker to which `_call` sends a request.
enum RouteArgument {
    Controller,
    Broker(i32),
    Coordinator(i8, String),
    Leader(String, i32),
}

fn to_route(route: Option<RouteArgument>) -> Route {
    match route {
        None => Route::Any,
        Some(RouteArgument::Broker(id)) => Route::Broker(id),
        Some(RouteArgument::Coordinator(key_type, key)) => Route::Coordinator(key_type, key),
        Some(RouteArgument::Controller) => Route::Controller,
        Some(RouteArgument::Leader(topic, partition)) => Route::Leader(topic.into(), partition),
    }
}

/// The name of a condition, and its topic, number and topic ID.
type ConditionArgument = (String, String, i32, Option<String>);

fn to_condition((name, topic, number, id): ConditionArgument) -> (String, Condition) {
    let condition = match name.as_str() {
        "has leaders" => Condition::HasLeaders(usize::try_from(number).unwrap_or(0)),
        "is led" => Condition::IsLed(number),
        "is led by first" => Condition::IsLedByFirst(number),
        "is reassigned" => Condition::IsReassigned(number),
        _ => Condition::IsDeleted(id.and_then(|id| id.parse().ok())),
    };
    (topic, condition)
}

/// The fields, the route, what is tried, the key, and the topic and the partition of an item.
type ItemArgument<'py> = (Bound<'py, PyAny>, Option<RouteArgument>, String, Vec<String>, Option<(String, Option<i32>)>);

fn to_item((fields, route, tried, key, location): ItemArgument<'_>) -> PyResult<Item> {
    let location = location.map(|(topic, partition)| (topic.into(), partition));
    Ok(Item { fields: from_python(&fields, 0)?, route: to_route(route), tried, key, location })
}

impl<'py> FromPyObject<'_, 'py> for RouteArgument {
    type Error = PyErr;

    fn extract(route: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(id) = route.extract() {
            return Ok(Self::Broker(id));
        }
        if let Ok((topic, partition)) = route.extract() {
            return Ok(Self::Leader(topic, partition));
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
