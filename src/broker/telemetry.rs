//! Client telemetry (KIP-714): the metrics that the cluster requests, and the metrics that clients have pushed.

use crate::api::ErrorCode;
use crate::api::push_telemetry::Request;
use crate::compress::{Compression, decompress};
use crate::otlp::MetricsData;
use std::collections::VecDeque;

/// The largest push in bytes, as in Kafka.
pub(super) const MAX_BYTES: i32 = 1 << 20;
/// The number of pushes that are kept.
const MAX_PUSHES: usize = 1_000;

/// A push of metrics by a client.
#[derive(Clone, Debug)]
pub struct TelemetryPush {
    /// The instance ID that the broker assigned to the client, as text.
    pub client_instance_id: String,
    /// Whether this is the last push of the client.
    pub terminating: bool,
    /// The codec.
    pub compression: &'static str,
    /// The metrics.
    pub metrics: MetricsData,
}

/// The metrics that the cluster requests from clients, and the received pushes.
#[derive(Debug)]
pub(super) struct Telemetry {
    /// Prefixes of metric names. An empty prefix selects all metrics.
    pub prefixes: Vec<String>,
    pub interval_ms: i32,
    pub is_delta: bool,
    /// The subscription ID, which changes with every change of the requested metrics.
    pub id: i32,
    pushes: VecDeque<TelemetryPush>,
}

impl Default for Telemetry {
    fn default() -> Self {
        Self { prefixes: vec![String::new()], interval_ms: 1000, is_delta: false, id: 1, pushes: VecDeque::new() }
    }
}

impl Telemetry {
    /// Changes the metrics that clients have to push.
    pub fn want(&mut self, prefixes: Vec<String>, interval_ms: i32, is_delta: bool) {
        (self.prefixes, self.interval_ms, self.is_delta) = (prefixes, interval_ms, is_delta);
        self.id += 1;
    }

    /// Stores a push.
    pub fn store_push(&mut self, request: &Request) -> Result<(), ErrorCode> {
        if request.subscription_id != self.id {
            return Err(ErrorCode::UNKNOWN_SUBSCRIPTION_ID);
        }
        let compression = Compression::ALL.into_iter().find(|c| c.number() == i16::from(request.compression_type));
        let compression = compression.ok_or(ErrorCode::UNSUPPORTED_COMPRESSION_TYPE)?;
        let max = usize::try_from(MAX_BYTES).unwrap_or(0);
        if request.metrics.len() > max {
            return Err(ErrorCode::TELEMETRY_TOO_LARGE);
        }
        let bytes = decompress(compression, &request.metrics, 16 * max).map_err(|_| ErrorCode::INVALID_RECORD)?;
        let metrics = MetricsData::read(&bytes).map_err(|_| ErrorCode::INVALID_RECORD)?;
        if self.pushes.len() == MAX_PUSHES {
            self.pushes.pop_front();
        }
        self.pushes.push_back(TelemetryPush {
            client_instance_id: request.client_instance_id.to_string(),
            terminating: request.terminating,
            compression: compression.name(),
            metrics,
        });
        Ok(())
    }

    /// Returns the pushes, the oldest first.
    pub fn pushes(&self) -> Vec<TelemetryPush> {
        self.pushes.iter().cloned().collect()
    }
}
