//! The part of OpenTelemetry's protocol (OTLP, protobuf) with which clients push metrics to brokers (KIP-714).
//!
//! The messages and field numbers come from `opentelemetry/proto/metrics/v1/metrics.proto`. This file leaves out the
//! fields that klamm neither writes nor shows. Protobuf decoders skip unknown fields.

use prost::Message;

/// All metrics of a push.
#[derive(Clone, PartialEq, Message)]
pub struct MetricsData {
    /// The metrics of each resource.
    #[prost(message, repeated, tag = "1")]
    pub resource_metrics: Vec<ResourceMetrics>,
}

/// The metrics of one client.
#[derive(Clone, PartialEq, Message)]
pub struct ResourceMetrics {
    /// The client that the metrics describe.
    #[prost(message, optional, tag = "1")]
    pub resource: Option<Resource>,
    /// The metrics of the client.
    #[prost(message, repeated, tag = "2")]
    pub scope_metrics: Vec<ScopeMetrics>,
}

/// The object that the metrics describe.
#[derive(Clone, PartialEq, Message)]
pub struct Resource {
    /// The labels, such as the group.
    #[prost(message, repeated, tag = "1")]
    pub attributes: Vec<KeyValue>,
}

/// The metrics of one library.
#[derive(Clone, PartialEq, Message)]
pub struct ScopeMetrics {
    /// The metrics.
    #[prost(message, repeated, tag = "2")]
    pub metrics: Vec<Metric>,
}

/// A metric.
#[derive(Clone, PartialEq, Message)]
pub struct Metric {
    /// The name of the metric.
    #[prost(string, tag = "1")]
    pub name: String,
    /// The values of the metric.
    #[prost(oneof = "Data", tags = "5, 7")]
    pub data: Option<Data>,
}

/// The values of a metric.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum Data {
    /// Values that go up and down.
    #[prost(message, tag = "5")]
    Gauge(Gauge),
    /// Totals.
    #[prost(message, tag = "7")]
    Sum(Sum),
}

/// Values that go up and down.
#[derive(Clone, PartialEq, Message)]
pub struct Gauge {
    /// The values.
    #[prost(message, repeated, tag = "1")]
    pub data_points: Vec<NumberDataPoint>,
}

/// The sum counts from the last push.
pub const DELTA: i32 = 1;
/// The sum counts from the start.
pub const CUMULATIVE: i32 = 2;

/// Totals.
#[derive(Clone, PartialEq, Message)]
pub struct Sum {
    /// The values.
    #[prost(message, repeated, tag = "1")]
    pub data_points: Vec<NumberDataPoint>,
    /// [`DELTA`] or [`CUMULATIVE`].
    #[prost(int32, tag = "2")]
    pub aggregation_temporality: i32,
    /// Whether the sum never decreases.
    #[prost(bool, tag = "3")]
    pub is_monotonic: bool,
}

/// A value.
#[derive(Clone, PartialEq, Message)]
pub struct NumberDataPoint {
    /// The time from which the sum counts, in nanoseconds since 1970.
    #[prost(fixed64, tag = "2")]
    pub start_time_unix_nano: u64,
    /// When the value was read, in nanoseconds since 1970.
    #[prost(fixed64, tag = "3")]
    pub time_unix_nano: u64,
    /// The value.
    #[prost(oneof = "Value", tags = "4, 6")]
    pub value: Option<Value>,
    /// The labels, such as the topic.
    #[prost(message, repeated, tag = "7")]
    pub attributes: Vec<KeyValue>,
}

/// A number.
#[derive(Clone, Copy, PartialEq, prost::Oneof)]
pub enum Value {
    /// A measurement.
    #[prost(double, tag = "4")]
    Double(f64),
    /// A count.
    #[prost(sfixed64, tag = "6")]
    Int(i64),
}

/// A label.
#[derive(Clone, PartialEq, Message)]
pub struct KeyValue {
    /// The name of the label.
    #[prost(string, tag = "1")]
    pub key: String,
    /// The value.
    #[prost(message, optional, tag = "2")]
    pub value: Option<AnyValue>,
}

/// The value of a label.
#[derive(Clone, PartialEq, Message)]
pub struct AnyValue {
    /// The text of the value.
    #[prost(string, optional, tag = "1")]
    pub string_value: Option<String>,
}

impl KeyValue {
    /// Creates a label.
    pub fn new(key: impl Into<String>, value: impl Into<String>) -> Self {
        Self { key: key.into(), value: Some(AnyValue { string_value: Some(value.into()) }) }
    }
}

impl MetricsData {
    /// Decodes a message. The error describes what is wrong with the message.
    pub fn read(bytes: &[u8]) -> Result<Self, String> {
        Self::decode(bytes).map_err(|e| e.to_string())
    }

    /// Encodes the message.
    pub fn write(&self) -> Vec<u8> {
        self.encode_to_vec()
    }
}
