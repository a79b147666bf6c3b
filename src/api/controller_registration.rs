//! ControllerRegistration (70): a controller reports its listeners and features to the active controller (KIP-919).
//!
//! Errors: CLUSTER_AUTHORIZATION_FAILED, NOT_CONTROLLER, UNSUPPORTED_VERSION.

use super::ErrorCode;
use crate::wire::Uuid;

api! { ControllerRegistration = 70, 0..=0, flexible 0, internal }

message! {
    struct Request {
        controller_id: i32,
        /// A UUID that each process of the controller generates.
        incarnation_id: Uuid,
        zk_migration_ready: bool,
        listeners: Vec<Listener>,
        features: Vec<Feature>,
    }
    struct Listener {
        name: String,
        host: String,
        port: u16,
        /// 0 PLAINTEXT, 1 SSL, 2 SASL_PLAINTEXT, 3 SASL_SSL.
        security_protocol: i16,
    }
    struct Feature {
        name: String,
        min_supported_version: i16,
        max_supported_version: i16,
    }
    struct Response {
        throttle_time_ms: i32,
        error_code: ErrorCode,
        error_message: Option<String> = Some(String::new()),
    }
}
