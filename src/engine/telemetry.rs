//! Telemetry (KIP-714): asks a broker which metrics its operators want, and pushes these metrics to the broker.
//!
//! ```text
//! Asking → Subscribed ──interval──► push ──► Subscribed
//!    ↑          │ the subscription changed, or requests no metrics
//!    └──────────┘
//! ```
//!
//! Brokers support telemetry only if an operator has configured a metrics plugin. When a push is due, the driver passes
//! the metrics to this state machine as [`Family`] values. These values include the metrics that the
//! application registered (KIP-1076).

use super::metrics::{Family, Number};
use super::{Call, ClientResponse, Deadline, Error, Outgoing, Reply, Target, Time};
use crate::api::{ErrorCode, get_telemetry_subscriptions, push_telemetry};
use crate::compress::{Compression, compress};
use crate::otlp::{
    CUMULATIVE, DELTA, Data, Gauge, KeyValue, Metric, MetricsData, NumberDataPoint, Resource, ResourceMetrics,
    ScopeMetrics, Sum, Value,
};
use crate::random::Random;
use crate::wire::Uuid;
use std::collections::HashMap;
use std::time::Duration;

/// How long the client waits after a failure if it does not know the push interval. The value is the Java client's
/// default.
const DEFAULT_INTERVAL: Duration = Duration::from_secs(300);
/// The shortest push interval that the client accepts from a broker.
const MIN_INTERVAL: Duration = Duration::from_millis(100);
/// The prefix of the names of Kafka's metrics.
const PREFIX: &str = "org.apache.kafka.";
/// The groups of metrics that the application registered: one group for values, and one for totals. The client does not
/// change the names of these metrics.
pub const APPLICATION: [&str; 2] = ["application", "application-totals"];

/// The purpose of a telemetry request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A GetTelemetrySubscriptions request.
    Subscribe,
    /// A PushTelemetry request.
    Push {
        /// Whether this is the client's last push.
        is_last: bool,
    },
}

/// The brokers' subscription to the client's metrics.
#[derive(Clone, Debug)]
struct Subscription {
    id: i32,
    codec: Compression,
    interval: Duration,
    max_bytes: usize,
    is_delta: bool,
    prefixes: Vec<String>,
}

impl Subscription {
    fn wants(&self, name: &str) -> bool {
        // Kafka's subscriptions have `*` for all metrics, and KIP-714 an empty prefix.
        self.prefixes.iter().any(|prefix| prefix == "*" || name.starts_with(prefix.as_str()))
    }
}

/// Settings of the telemetry.
#[derive(Clone, Debug)]
pub struct TelemetryConfig {
    /// Whether the client pushes metrics (`enable.metrics.push`).
    pub is_enabled: bool,
    /// The labels of the client: its group, rack and transactional ID.
    pub labels: Vec<(&'static str, String)>,
    /// The wall-clock time at [`Time`] 0, in milliseconds since 1970.
    pub started_ms: i64,
    /// How long a broker may take to respond.
    pub request_timeout: Duration,
    /// The seed of the jitter.
    pub seed: u64,
}

/// The state machine of the telemetry.
pub struct Telemetry {
    config: TelemetryConfig,
    random: Random,
    instance: Uuid,
    subscription: Option<Subscription>,
    /// When the next request is due.
    at: Time,
    is_in_flight: bool,
    /// Whether the client may send telemetry requests, because it is connected, or because the application wants the
    /// client's ID.
    is_ready: bool,
    has_ended: bool,
    /// The sums at the last push, to compute deltas.
    pushed: HashMap<String, f64>,
    pushed_at: Time,
    /// The error that explains to the application why the client has no ID.
    failure: Option<Error>,
}

impl Telemetry {
    /// Creates the telemetry of a client.
    pub fn new(config: TelemetryConfig) -> Self {
        Self {
            random: Random::new(config.seed),
            instance: Uuid::ZERO,
            subscription: None,
            at: Time(0),
            is_in_flight: false,
            is_ready: false,
            has_ended: !config.is_enabled,
            pushed: HashMap::new(),
            pushed_at: Time(0),
            failure: None,
            config,
        }
    }

    /// Notes that the client may send telemetry requests.
    pub fn start(&mut self) {
        self.is_ready = true;
    }

    /// Returns the client's ID, if a broker has assigned one.
    pub fn instance(&self) -> Option<Uuid> {
        Some(self.instance).filter(|id| !id.is_zero())
    }

    /// Returns why the client got no ID. Each failed attempt is returned once.
    pub fn take_failure(&mut self) -> Option<Error> {
        self.failure.take()
    }

    /// Requests the ID again at once, because the application waits for it.
    pub fn ask_now(&mut self, now: Time) {
        self.is_ready = true;
        if self.instance.is_zero() {
            self.at = self.at.min(now);
        }
    }

    /// Returns whether [`Telemetry::poll_send`] has a request.
    pub fn is_due(&self, now: Time) -> bool {
        !self.has_ended && self.is_ready && !self.is_in_flight && self.at <= now
    }

    /// Returns when [`Telemetry::poll_send`] has to be called.
    pub fn next_timeout(&self) -> Option<Time> {
        (!self.has_ended && self.is_ready && !self.is_in_flight && self.at < Time::NEVER).then_some(self.at)
    }

    /// Returns the next request. `families` is called only for a push.
    pub fn poll_send(&mut self, now: Time, families: impl FnOnce() -> Vec<Family>) -> Option<Outgoing<Step>> {
        if !self.is_due(now) {
            return None;
        }
        self.is_in_flight = true;
        match self.subscription.clone() {
            Some(subscription) => Some(self.push(now, &subscription, &families(), false)),
            None => {
                let request = get_telemetry_subscriptions::Request { client_instance_id: self.instance };
                Some(self.outgoing(now, Box::new(request), Step::Subscribe))
            }
        }
    }

    /// Returns the last push of a client that is closing, if brokers want its metrics.
    pub fn last_push(&mut self, now: Time, families: impl FnOnce() -> Vec<Family>) -> Option<Outgoing<Step>> {
        let subscription = self.subscription.clone().filter(|_| !self.has_ended)?;
        self.has_ended = true;
        Some(self.push(now, &subscription, &families(), true))
    }

    fn outgoing(&self, now: Time, call: Box<dyn Call>, token: Step) -> Outgoing<Step> {
        let deadline = Deadline::ToSend(now + self.config.request_timeout);
        Outgoing { target: Target::Telemetry, call, token, deadline, max_version: i16::MAX }
    }

    fn push(&mut self, now: Time, subscription: &Subscription, families: &[Family], is_last: bool) -> Outgoing<Step> {
        let data = self.data(now, subscription, families).write();
        let mut packed = Vec::new();
        let (metrics, compression_type) = match compress(subscription.codec, &data, &mut packed) {
            Ok(()) => (packed, subscription.codec.number() as i8),
            Err(_) => (data, 0),
        };
        let request = push_telemetry::Request {
            client_instance_id: self.instance,
            subscription_id: subscription.id,
            terminating: is_last,
            compression_type,
            // More than the broker takes would only be refused.
            metrics: if metrics.len() <= subscription.max_bytes { metrics.into() } else { bytes::Bytes::new() },
        };
        self.outgoing(now, Box::new(request), Step::Push { is_last })
    }

    fn data(&mut self, now: Time, subscription: &Subscription, families: &[Family]) -> MetricsData {
        let nanos = |at: Time| {
            let ms = u64::try_from(self.config.started_ms).unwrap_or(0);
            ms.saturating_mul(1_000_000).saturating_add(at.0.saturating_mul(1000))
        };
        let (time, since) = (nanos(now), if subscription.is_delta { nanos(self.pushed_at) } else { nanos(Time(0)) });
        let mut metrics: Vec<Metric> = Vec::new();
        let mut sums = HashMap::new();
        for family in families {
            let attributes: Vec<KeyValue> =
                family.tags.iter().map(|(key, value)| KeyValue::new(key.replace('-', "_"), value.clone())).collect();
            for (name, value) in &family.values {
                let full = metric_name(&family.group, name);
                if !subscription.wants(&full) {
                    continue;
                }
                let is_sum = is_total(&family.group, name);
                let mut number = *value;
                if is_sum && subscription.is_delta {
                    let key = format!("{full}{:?}", family.tags);
                    let total = value.as_f64();
                    number = Number::Float(total - self.pushed.get(&key).copied().unwrap_or(0.0));
                    sums.insert(key, total);
                }
                let value = match number {
                    Number::Int(n) => Value::Int(i64::try_from(n).unwrap_or(i64::MAX)),
                    Number::Float(n) => Value::Double(n),
                };
                let point = NumberDataPoint {
                    start_time_unix_nano: if is_sum { since } else { 0 },
                    time_unix_nano: time,
                    value: Some(value),
                    attributes: attributes.clone(),
                };
                let data_points = vec![point];
                let data = if is_sum {
                    let aggregation_temporality = if subscription.is_delta { DELTA } else { CUMULATIVE };
                    Data::Sum(Sum { data_points, aggregation_temporality, is_monotonic: true })
                } else {
                    Data::Gauge(Gauge { data_points })
                };
                metrics.push(Metric { name: full, data: Some(data) });
            }
        }
        self.pushed.extend(sums);
        self.pushed_at = now;
        let attributes = self.config.labels.iter().map(|(key, value)| KeyValue::new(*key, value.clone())).collect();
        let resource = Some(Resource { attributes });
        MetricsData {
            resource_metrics: vec![ResourceMetrics { resource, scope_metrics: vec![ScopeMetrics { metrics }] }],
        }
    }

    /// Handles a response.
    pub fn handle_response(&mut self, now: Time, response: ClientResponse<Step>) {
        self.is_in_flight = false;
        match (response.token, response.result) {
            (Step::Subscribe, result) => {
                match result.and_then(Reply::decode::<get_telemetry_subscriptions::Response>) {
                    Ok(response) => self.subscribe(now, response),
                    Err(error) => self.fail(now, error),
                }
            }
            (Step::Push { .. }, result) => match result.and_then(Reply::decode::<push_telemetry::Response>) {
                Ok(response) => self.pushed(now, response.error_code),
                // The next push has more recent values.
                Err(_) => self.at = now + self.interval(),
            },
        }
    }

    fn interval(&self) -> Duration {
        self.subscription.as_ref().map_or(DEFAULT_INTERVAL, |subscription| subscription.interval)
    }

    fn fail(&mut self, now: Time, error: Error) {
        // Brokers without a receiver do not have the API.
        let is_unsupported = error.code() == Some(ErrorCode::UNSUPPORTED_VERSION);
        self.at = if is_unsupported { Time::NEVER } else { now + self.interval() };
        self.failure = Some(error);
    }

    fn subscribe(&mut self, now: Time, response: get_telemetry_subscriptions::Response) {
        if let Err(code) = response.error_code.check() {
            return self.fail(now, Error::refused(code, "get telemetry subscriptions"));
        }
        if !response.client_instance_id.is_zero() {
            self.instance = response.client_instance_id;
        }
        let by_number = |number: &i8| Compression::ALL.into_iter().find(|c| c.number() == i16::from(*number));
        let codec = response.accepted_compression_types.iter().find_map(by_number);
        let interval = Duration::from_millis(u64::try_from(response.push_interval_ms).unwrap_or(0)).max(MIN_INTERVAL);
        if response.requested_metrics.is_empty() {
            // The broker requests no metrics now, but may do so later.
            self.at = now + interval;
            return;
        }
        let subscription = Subscription {
            id: response.subscription_id,
            codec: codec.unwrap_or_default(),
            interval,
            max_bytes: usize::try_from(response.telemetry_max_bytes).unwrap_or(0),
            is_delta: response.delta_temporality,
            prefixes: response.requested_metrics,
        };
        // The clients of a cluster that has just started must not all push at once.
        let jitter = 0.5 + self.random.next_f64();
        self.at = now + interval.mul_f64(jitter);
        self.subscription = Some(subscription);
    }

    fn pushed(&mut self, now: Time, code: ErrorCode) {
        self.at = now + self.interval();
        match code {
            ErrorCode::UNKNOWN_SUBSCRIPTION_ID | ErrorCode::UNSUPPORTED_COMPRESSION_TYPE => {
                self.subscription = None;
                self.at = now;
            }
            ErrorCode::INVALID_REQUEST | ErrorCode::INVALID_RECORD | ErrorCode::UNSUPPORTED_VERSION => {
                // Another attempt would fail as well.
                self.has_ended = true;
            }
            _ => {}
        }
    }
}

fn is_total(group: &str, name: &str) -> bool {
    if APPLICATION.contains(&group) { group == APPLICATION[1] } else { name.ends_with("-total") }
}

/// Returns the KIP-714 name of a metric. For example, `record-queue-time-avg` of `producer-metrics` becomes
/// `org.apache.kafka.producer.record.queue.time.avg`.
pub fn metric_name(group: &str, name: &str) -> String {
    if APPLICATION.contains(&group) {
        return name.to_owned();
    }
    let group = group.strip_suffix("-metrics").unwrap_or(group);
    format!("{PREFIX}{group}.{name}").replace('-', ".")
}
