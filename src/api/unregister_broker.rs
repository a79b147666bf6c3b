//! UnregisterBroker (64): removes the registration of a broker that will not come back (KIP-631).
//!
//! Errors: CLUSTER_AUTHORIZATION_FAILED, NOT_CONTROLLER, BROKER_ID_NOT_REGISTERED.

use super::ErrorCode;

api! { UnregisterBroker = 64, 0..=0, flexible 0 }

message! {
    struct Request {
        broker_id: i32,
    }
    struct Response {
        throttle_time_ms: i32,
        error_code: ErrorCode,
        error_message: Option<String> = Some(String::new()),
    }
}
