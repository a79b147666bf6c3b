//! GetTelemetrySubscriptions (71): returns the metrics that a client has to push, and the push interval (KIP-714).
//!
//! Errors: INVALID_REQUEST, UNSUPPORTED_VERSION, THROTTLING_QUOTA_EXCEEDED.

use super::ErrorCode;
use crate::wire::Uuid;

api! { GetTelemetrySubscriptions = 71, 0..=0, flexible 0 }

message! {
    struct Request {
        /// The client instance ID, or zero in the first request.
        client_instance_id: Uuid,
    }
    struct Response {
        throttle_time_ms: i32,
        error_code: ErrorCode,
        /// The new client instance ID if the request had none, or zero otherwise.
        client_instance_id: Uuid,
        subscription_id: i32,
        /// The codecs that the broker accepts, with the numbers of record batches. The best codec comes first.
        accepted_compression_types: Vec<i8>,
        push_interval_ms: i32,
        telemetry_max_bytes: i32,
        /// Whether the client must push the changes of counters instead of their totals.
        delta_temporality: bool,
        /// Prefixes of metric names. An empty list requests no metrics, and an empty prefix requests all metrics.
        requested_metrics: Vec<String>,
    }
}
