//! AllocateProducerIds (67): a broker requests a block of producer IDs from the controller (KIP-730).
//!
//! Errors: CLUSTER_AUTHORIZATION_FAILED, NOT_CONTROLLER, STALE_BROKER_EPOCH, UNKNOWN_SERVER_ERROR (no IDs are left).

use super::ErrorCode;

api! { AllocateProducerIds = 67, 0..=0, flexible 0, internal }

message! {
    struct Request {
        broker_id: i32,
        broker_epoch: i64 = -1,
    }
    struct Response {
        throttle_time_ms: i32,
        error_code: ErrorCode,
        producer_id_start: i64,
        producer_id_len: i32,
    }
}
