//! BrokerRegistration (62): a starting broker reports its listeners, features and log directories to the controller
//! (KIP-631).
//!
//! * v1: `is_migrating_zk_broker` (KIP-866)
//! * v2: log directories (KIP-858)
//! * v3: epoch of the broker before its last clean shutdown (KIP-966)
//! * v4: features may have minimum version 0; earlier versions omit such features
//!
//! Errors: CLUSTER_AUTHORIZATION_FAILED, NOT_CONTROLLER, INCONSISTENT_CLUSTER_ID, DUPLICATE_BROKER_REGISTRATION,
//! BROKER_ID_NOT_REGISTERED, INVALID_REGISTRATION, UNSUPPORTED_VERSION.

use super::ErrorCode;
use crate::wire::Uuid;

api! { BrokerRegistration = 62, 0..=4, flexible 0, internal }

message! {
    struct Request {
        broker_id: i32,
        cluster_id: String,
        /// A UUID that each process of the broker generates.
        incarnation_id: Uuid,
        listeners: Vec<Listener>,
        features: Vec<Feature>,
        rack: Option<String> = Some(String::new()),
        is_migrating_zk_broker: bool [1..],
        log_dirs: Vec<Uuid> [2..],
        previous_broker_epoch: i64 [3..] = -1,
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
        broker_epoch: i64 = -1,
    }
}
