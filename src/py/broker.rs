//! [`DevBrokerCore`]: the base class of `klamm.testing.DevBroker`. The class runs and controls the embedded cluster.

use super::construct::{construct, list};
use super::error::exception;
use crate::api::{self, ErrorCode};
use crate::broker::{
    Acls, Action, Broker, Control, Fault, MECHANISMS, Options, Recording, Sasl, TelemetryPush, TlsServer, Version,
    legacy,
};
use crate::otlp::{DELTA, Data, KeyValue, Value};
use pyo3::prelude::*;
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A Kafka cluster that runs in a thread of this process.
#[pyclass(subclass, frozen, name = "DevBroker", module = "klamm.testing")]
pub(super) struct DevBrokerCore {
    options: Options,
    running: Mutex<Option<Broker>>,
    /// The ZooKeeper in which the package registers the nodes.
    #[pyo3(get, name = "_zookeeper")]
    zookeeper: Option<String>,
}

/// SASL mechanisms, each with its users and their passwords.
type Users = BTreeMap<String, Option<BTreeMap<String, String>>>;

impl DevBrokerCore {
    fn running(&self) -> MutexGuard<'_, Option<Broker>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a command to the running cluster, and waits until the command has run.
    fn command<T: Send>(
        &self,
        py: Python<'_>,
        operation: impl FnOnce(&Control) -> io::Result<T> + Send,
    ) -> PyResult<T> {
        let control = self.running().as_ref().map(|broker| broker.control().clone());
        let Some(control) = control else {
            return Err(exception(py, "ClosedError", "the dev broker does not run", Some("call start() first")));
        };
        py.detach(|| operation(&control)).map_err(|e| control_error(py, e))
    }
}

/// Returns a `ConfigError` for a mistake of the caller, and an `OSError` for an error of the operating system.
fn control_error(py: Python<'_>, error: io::Error) -> PyErr {
    match error.kind() {
        ErrorKind::InvalidInput => exception(py, "ConfigError", &error.to_string(), None),
        ErrorKind::NotConnected => exception(py, "ClosedError", &error.to_string(), None),
        _ => error.into(),
    }
}

#[pymethods]
impl DevBrokerCore {
    #[new]
    #[pyo3(signature = (
        brokers=1, auto_create_topics=true, default_partitions=1, port=0, transaction_version=2, as_version=None,
        config=None, zookeeper=None, *, max_bytes=1 << 30, data_dir=None, fsync=false, sasl=None, sasl_session=None, super_users=None,
        allow_everyone_if_no_acl_found=false, tls=None, client_ca=None, racks=Vec::new(), first_node=1, telemetry=false
    ))]
    #[allow(clippy::too_many_arguments, reason = "keywords of the Python class")]
    fn new(
        py: Python<'_>,
        brokers: i64,
        auto_create_topics: bool,
        default_partitions: i32,
        port: i64,
        transaction_version: i16,
        as_version: Option<&str>,
        config: Option<BTreeMap<String, Bound<'_, PyAny>>>,
        zookeeper: Option<String>,
        max_bytes: usize,
        data_dir: Option<PathBuf>,
        fsync: bool,
        sasl: Option<Users>,
        sasl_session: Option<f64>,
        super_users: Option<Vec<String>>,
        allow_everyone_if_no_acl_found: bool,
        tls: Option<(String, String)>,
        client_ca: Option<String>,
        racks: Vec<String>,
        first_node: i32,
        telemetry: bool,
    ) -> PyResult<Self> {
        let as_version = as_version.map_or(Ok(Version::default()), Version::parse);
        let as_version = as_version.map_err(|why| config_error(py, &why, None))?;
        // The start rejects 0, with a message that fits a negative number, too.
        let nodes = usize::try_from(brokers).unwrap_or(0);
        let port = u16::try_from(port).map_err(|_| {
            config_error(py, &format!("`port` must be from 0 (a free port) to {}, not {port}", u16::MAX), None)
        })?;
        let mut legacy = legacy::Settings::default();
        let is_legacy = matches!(as_version, Version::Legacy(_) | Version::Draft);
        if !is_legacy && zookeeper.is_some() {
            return Err(config_error(py, "`zookeeper` is for brokers of Kafka 0.6 and 0.7", None));
        }
        if is_legacy && first_node != 1 {
            return Err(config_error(py, "`first_node` is for brokers of Kafka 0.8 and later", None));
        }
        let mut file = BTreeMap::new();
        for (name, value) in config.into_iter().flatten() {
            // Kafka's spelling of Python's True and False.
            let value = match value.extract::<bool>() {
                Ok(value) => value.to_string(),
                Err(_) => value.str()?.to_string(),
            };
            if is_legacy {
                legacy.set(&name, &value).map_err(|why| config_error(py, &why, None))?;
            } else {
                file.insert(name, value);
            }
        }
        let max_reauth = sasl_session.map(|seconds| duration(py, seconds)).transpose()?;
        let sasl = sasl.map(|users| Ok::<_, PyErr>(Sasl { users: mechanisms(py, users)?, max_reauth })).transpose()?;
        let principal = |name: String| if name.contains(':') { name } else { format!("User:{name}") };
        let acls = super_users.map(|names| Acls {
            super_users: names.into_iter().map(principal).collect(),
            allow_everyone_if_no_acl_found,
        });
        let secure = |(certificate, key): (String, String)| TlsServer::new(&certificate, &key, client_ca.as_deref());
        let tls = tls.map(secure).transpose().map_err(|f| config_error(py, &f.message, Some(&f.hint)))?;
        let options = Options {
            nodes,
            first_node,
            config: file,
            racks,
            auto_create_topics,
            default_partitions,
            port,
            max_bytes,
            data_dir,
            fsync,
            transaction_version,
            sasl,
            acls,
            tls,
            as_version,
            telemetry,
            legacy,
            ..Options::default()
        };
        options.check().map_err(|why| config_error(py, &why, None))?;
        Ok(Self { options, running: Mutex::default(), zookeeper })
    }

    /// Starts the cluster if it is not running.
    #[pyo3(name = "_start")]
    fn start(&self, py: Python<'_>) -> PyResult<()> {
        if self.running().is_some() {
            return Ok(());
        }
        // The lock is not held meanwhile: a thread that waits for it may hold the interpreter.
        let started = py.detach(|| Broker::start(self.options.clone())).map_err(|e| control_error(py, e))?;
        let other = self.running().replace(started);
        py.detach(|| drop(other));
        Ok(())
    }

    /// Stops the cluster and deletes its data in memory.
    #[pyo3(name = "_stop")]
    fn stop(&self, py: Python<'_>) {
        let running = self.running().take();
        py.detach(|| drop(running));
    }

    /// Returns `host:port` of every node, or an empty list if the cluster is not running.
    #[pyo3(name = "_addresses")]
    fn addresses(&self) -> Vec<String> {
        self.running().as_ref().map_or_else(Vec::new, |b| b.addresses().iter().map(ToString::to_string).collect())
    }

    #[pyo3(name = "_kill")]
    fn kill(&self, py: Python<'_>, node: i32) -> PyResult<()> {
        self.command(py, |control| control.kill(node))
    }

    #[pyo3(name = "_start_node")]
    fn start_node(&self, py: Python<'_>, node: i32) -> PyResult<()> {
        self.command(py, |control| control.start_node(node))
    }

    #[pyo3(name = "_add_node")]
    fn add_node(&self, py: Python<'_>) -> PyResult<i32> {
        self.command(py, Control::add_node)
    }

    #[pyo3(name = "_move_leader")]
    fn move_leader(&self, py: Python<'_>, topic: String, partition: i32, node: i32) -> PyResult<()> {
        self.command(py, |control| control.move_leader(topic, partition, node))
    }

    #[pyo3(name = "_truncate")]
    fn truncate(&self, py: Python<'_>, topic: String, partition: i32, offset: i64) -> PyResult<()> {
        self.command(py, |control| control.truncate(topic, partition, offset))
    }

    #[pyo3(name = "_compact")]
    fn compact(&self, py: Python<'_>, topic: String) -> PyResult<()> {
        self.command(py, |control| control.compact(topic))
    }

    #[pyo3(name = "_move_coordinator")]
    fn move_coordinator(&self, py: Python<'_>, key: String, node: i32) -> PyResult<()> {
        self.command(py, |control| control.move_coordinator(key, node))
    }

    #[pyo3(name = "_advance")]
    fn advance(&self, py: Python<'_>, seconds: f64) -> PyResult<()> {
        let by = duration(py, seconds)?;
        self.command(py, |control| control.advance(by).map(drop))
    }

    /// Returns the last requests, oldest first, each as a `klamm.testing.Request`.
    #[pyo3(name = "_requests")]
    fn requests(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let requests = self.command(py, Control::requests)?;
        let requests = requests.iter().map(|request| {
            construct!(py, "klamm.testing.Request", {
                node: request.node,
                api: request.api,
                version: request.version,
                client_id: &request.client_id,
                correlation_id: request.correlation_id,
                time: request.time.as_secs_f64(),
            })
        });
        list(py, requests)
    }

    /// Returns the metrics that clients pushed: `(client instance ID, terminating, compression, labels, metrics)`. A
    /// metric is `(name, type, attributes, value)`, where the type is `gauge`, `sum` or `delta`.
    #[pyo3(name = "_telemetry")]
    fn telemetry(&self, py: Python<'_>) -> PyResult<Vec<Pushed>> {
        Ok(self.command(py, Control::telemetry)?.into_iter().map(pushed).collect())
    }

    #[pyo3(name = "_want_telemetry")]
    fn want_telemetry(&self, py: Python<'_>, metrics: Vec<String>, interval_ms: i32, delta: bool) -> PyResult<()> {
        self.command(py, |control| control.want_telemetry(metrics, interval_ms, delta))
    }

    /// Returns the topics that each node of Kafka 0.7 registers in ZooKeeper, with their numbers of partitions.
    #[pyo3(name = "_registered")]
    fn registered(&self, py: Python<'_>) -> PyResult<Vec<(i32, String, i32)>> {
        self.command(py, Control::registered)
    }

    #[pyo3(name = "_fault", signature = (action, *, api, seconds, error, times, node, topic, probability, seed))]
    #[allow(clippy::too_many_arguments, reason = "keywords of the Python method")]
    fn fault(
        &self,
        py: Python<'_>,
        action: &str,
        api: Option<&str>,
        seconds: Option<f64>,
        error: Option<&str>,
        times: Option<u32>,
        node: Option<i32>,
        topic: Option<String>,
        probability: f64,
        seed: u64,
    ) -> PyResult<()> {
        let api = api.map(|name| {
            let key = api::by_name(name).map(|entry| entry.info.key);
            key.ok_or_else(|| {
                config_error(py, &format!("there is no API '{name}'"), Some("use a name such as Produce or EndTxn"))
            })
        });
        let api = api.transpose()?;
        let action = parse(py, action, seconds, error)?;
        if times == Some(0) || !(0.0..=1.0).contains(&probability) {
            return Err(config_error(py, "`times` has to be at least 1, and `probability` from 0 to 1", None));
        }
        let fault = Fault { action, api, node, topic, times, probability, seed };
        self.command(py, |control| control.fault(fault))
    }

    /// Replays a client's recording of its brokers: topics, records, API versions, and the fault of each request.
    #[pyo3(name = "_repeat")]
    fn repeat(
        &self,
        py: Python<'_>,
        topics: BTreeMap<String, usize>,
        records: BTreeMap<(String, i32), Vec<Vec<u8>>>,
        versions: BTreeMap<String, i16>,
        results: Vec<(String, Option<RecordedResult>)>,
    ) -> PyResult<()> {
        // APIs that only a newer klamm knows were not served to this one.
        let key = |name: &str| api::by_name(name).map(|entry| entry.info.key);
        let mut repeated = Vec::new();
        for (name, result) in results {
            let action = result.map(|(action, seconds, error)| parse(py, &action, seconds, error.as_deref()));
            repeated.extend(key(&name).zip(Some(action.transpose()?)));
        }
        let bytes = |data: Vec<Vec<u8>>| data.into_iter().map(Into::into).collect();
        let recording = Recording {
            topics,
            records: records.into_iter().map(|(partition, data)| (partition, bytes(data))).collect(),
            versions: versions.iter().filter_map(|(name, version)| Some((key(name)?, *version))).collect(),
            results: repeated,
        };
        self.command(py, |control| control.repeat(recording))
    }

    #[pyo3(name = "_clear_faults")]
    fn clear_faults(&self, py: Python<'_>) -> PyResult<()> {
        self.command(py, Control::clear_faults)
    }
}

/// The recorded result of a request: a fault, its seconds and its error.
type RecordedResult = (String, Option<f64>, Option<String>);
/// Labels or attributes.
type Labels = BTreeMap<String, String>;
/// A metric's name, type, attributes and value.
type PushedMetric = (String, &'static str, Labels, f64);
/// A push: the client's ID, whether this is the last push, the compression, the client's labels, and the metrics.
type Pushed = (String, bool, &'static str, Labels, Vec<PushedMetric>);

fn labels(pairs: Vec<KeyValue>) -> Labels {
    pairs.into_iter().map(|p| (p.key, p.value.and_then(|v| v.string_value).unwrap_or_default())).collect()
}

fn pushed(push: TelemetryPush) -> Pushed {
    let (mut of_client, mut metrics) = (Labels::new(), Vec::new());
    for resource in push.metrics.resource_metrics {
        of_client.extend(labels(resource.resource.unwrap_or_default().attributes));
        for metric in resource.scope_metrics.into_iter().flat_map(|scope| scope.metrics) {
            let (kind, points) = match metric.data {
                Some(Data::Gauge(gauge)) => ("gauge", gauge.data_points),
                Some(Data::Sum(sum)) => {
                    (if sum.aggregation_temporality == DELTA { "delta" } else { "sum" }, sum.data_points)
                }
                None => continue,
            };
            for point in points {
                let value = match point.value {
                    Some(Value::Double(n)) => n,
                    Some(Value::Int(n)) => n as f64,
                    None => continue,
                };
                metrics.push((metric.name.clone(), kind, labels(point.attributes), value));
            }
        }
    }
    (push.client_instance_id, push.terminating, push.compression, of_client, metrics)
}

fn mechanisms(py: Python<'_>, users: Users) -> PyResult<BTreeMap<String, BTreeMap<String, String>>> {
    if users.is_empty() {
        return Err(config_error(py, "`sasl` has no mechanism", Some(&MECHANISMS.join(", "))));
    }
    let supported =
        |(name, users): (String, Option<BTreeMap<String, String>>)| match MECHANISMS.contains(&name.as_str()) {
            true => Ok((name, users.unwrap_or_default())),
            false => Err(config_error(py, &format!("there is no mechanism '{name}'"), Some(&MECHANISMS.join(", ")))),
        };
    users.into_iter().map(supported).collect()
}

fn parse(py: Python<'_>, action: &str, seconds: Option<f64>, error: Option<&str>) -> PyResult<Action> {
    let invalid = |why: &str| Err(config_error(py, &format!("the fault '{action}' {why}"), None));
    match (action, seconds, error) {
        ("drop", None, None) => Ok(Action::Drop),
        ("lose_answer", None, None) => Ok(Action::LoseAnswer),
        ("cut", None, None) => Ok(Action::Cut),
        ("corrupt", None, None) => Ok(Action::Corrupt),
        ("delay", Some(seconds), None) => duration(py, seconds).map(Action::Delay),
        ("throttle", Some(seconds), None) => duration(py, seconds).map(Action::Throttle),
        ("drip", Some(seconds), None) => duration(py, seconds).map(Action::Drip),
        ("error", None, Some(name)) => match ErrorCode::all().find(|code| code.is_error() && code.name() == name) {
            Some(code) => Ok(Action::Error(code)),
            None => Err(config_error(
                py,
                &format!("there is no error '{name}'"),
                Some("use a name such as NOT_LEADER_OR_FOLLOWER"),
            )),
        },
        ("drop" | "lose_answer" | "cut" | "corrupt", ..) => invalid("takes neither `seconds` nor `error`"),
        ("delay" | "throttle" | "drip", ..) => invalid("takes `seconds`, and no `error`"),
        ("error", ..) => invalid("takes `error`, and no `seconds`"),
        _ => invalid("does not exist: use delay, drop, lose_answer, cut, error, throttle, corrupt or drip"),
    }
}

fn config_error(py: Python<'_>, message: &str, hint: Option<&str>) -> PyErr {
    exception(py, "ConfigError", message, hint)
}

fn duration(py: Python<'_>, seconds: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(seconds).map_err(|_| config_error(py, "seconds have to be a number from 0", None))
}
