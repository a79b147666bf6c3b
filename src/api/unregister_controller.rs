//! UnregisterController (94): removes the registration of a controller that will not come back (KIP-1312).
//!
//! Errors: CLUSTER_AUTHORIZATION_FAILED, NOT_CONTROLLER, CONTROLLER_ID_NOT_REGISTERED, UNSUPPORTED_VERSION.

use super::ErrorCode;

api! { UnregisterController = 94, 0..=0, flexible 0 }

message! {
    struct Request {
        controller_id: i32,
    }
    struct Response {
        throttle_time_ms: i32,
        error_code: ErrorCode,
        error_message: Option<String> = Some(String::new()),
    }
}
