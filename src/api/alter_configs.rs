//! AlterConfigs (33): replaces the whole configuration of topics or brokers (KIP-133). The broker resets keys that the
//! request does not contain to their defaults. IncrementalAlterConfigs is the successor of AlterConfigs. The file
//! `describe_configs.rs` lists the resource types.
//!
//! * v1: the broker responds before it throttles the client
//! * v2: flexible
//!
//! Errors: UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION, TOPIC_AUTHORIZATION_FAILED,
//! CLUSTER_AUTHORIZATION_FAILED, INVALID_CONFIG, NOT_CONTROLLER, INVALID_REQUEST, POLICY_VIOLATION.

use super::ErrorCode;

api! { AlterConfigs = 33, 0..=2, flexible 2 }

message! {
    struct Request {
        resources: Vec<Resource>,
        validate_only: bool,
    }
    struct Resource {
        resource_type: i8,
        resource_name: String,
        configs: Vec<Config>,
    }
    struct Config {
        name: String,
        value: Option<String> = Some(String::new()),
    }
    struct Response {
        throttle_time_ms: i32,
        responses: Vec<ResourceResponse>,
    }
    struct ResourceResponse {
        error_code: ErrorCode,
        error_message: Option<String> = Some(String::new()),
        resource_type: i8,
        resource_name: String,
    }
}
