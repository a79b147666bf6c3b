//! GetTelemetrySubscriptions (71): returns the metrics that a client has to push, and the interval (KIP-714).
//!
//! Errors: INVALID_REQUEST, UNSUPPORTED_VERSION, THROTTLING_QUOTA_EXCEEDED.

use super::ErrorCode;
use crate::wire::Uuid;

api! { GetTelemetrySubscriptions = 71, 0..=0, flexible 0 }

message! {
    struct Request {
        /// Zero at first; afterwards what the broker gave.
        client_instance_id: Uuid,
    }
    struct Response {
        throttle_time_ms: i32,
        error_code: ErrorCode,
        /// The new id if the request had none, else zero.
        client_instance_id: Uuid,
        subscription_id: i32,
        /// Codecs as in record batches, best first.
        accepted_compression_types: Vec<i8>,
        push_interval_ms: i32,
        telemetry_max_bytes: i32,
        /// Counters are pushed as differences rather than totals.
        delta_temporality: bool,
        /// Prefixes of names: an empty list means none, an empty prefix all.
        requested_metrics: Vec<String>,
    }
}
