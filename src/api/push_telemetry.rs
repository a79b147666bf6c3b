//! PushTelemetry (72): sends metrics of a client to the broker (KIP-714).
//!
//! Errors: UNKNOWN_SUBSCRIPTION_ID, UNSUPPORTED_COMPRESSION_TYPE, TELEMETRY_TOO_LARGE, INVALID_RECORD, INVALID_REQUEST,
//! THROTTLING_QUOTA_EXCEEDED, UNSUPPORTED_VERSION.

use super::ErrorCode;
use crate::wire::Uuid;
use bytes::Bytes;

api! { PushTelemetry = 72, 0..=0, flexible 0 }

message! {
    struct Request {
        client_instance_id: Uuid,
        subscription_id: i32,
        /// Whether this is the client's last push, which may come before the push interval has passed.
        terminating: bool,
        /// The codec, with the number of record batches.
        compression_type: i8,
        /// OpenTelemetry `MetricsData` v1 in protobuf.
        metrics: Bytes,
    }
    struct Response {
        throttle_time_ms: i32,
        error_code: ErrorCode,
    }
}
