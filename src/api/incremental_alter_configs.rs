//! IncrementalAlterConfigs (44): changes single settings of topics, brokers, groups and other resources (KIP-339).
//! Clients send settings of a broker to that broker, and all other settings to the controller. The file
//! `describe_configs.rs` lists the resource types.
//!
//! * v1: flexible
//!
//! Errors: UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION, TOPIC_AUTHORIZATION_FAILED, GROUP_AUTHORIZATION_FAILED,
//! CLUSTER_AUTHORIZATION_FAILED, INVALID_CONFIG, NOT_CONTROLLER, INVALID_REQUEST, POLICY_VIOLATION.

use super::ErrorCode;

api! { IncrementalAlterConfigs = 44, 0..=1, flexible 1 }

/// Sets the value of a setting.
pub const SET: i8 = 0;
/// Resets a setting to its default.
pub const DELETE: i8 = 1;
/// Adds items to a setting that is a list.
pub const APPEND: i8 = 2;
/// Removes items from a setting that is a list.
pub const SUBTRACT: i8 = 3;

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
        config_operation: i8,
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
