//! ListConfigResources (74): lists the resources that have a configuration.
//!
//! * v0: only client metrics; releases with only this version name the API ListClientMetricsResources (KIP-1000)
//! * v1: every type of resource (KIP-1142)
//!
//! Errors: CLUSTER_AUTHORIZATION_FAILED, UNSUPPORTED_VERSION (a resource type that has no configuration).

use super::ErrorCode;

api! { ListConfigResources = 74, 0..=1, flexible 0 }

message! {
    struct Request {
        /// The requested types: 2 topics, 4 brokers, 8 broker loggers, 16 client metrics, 32 groups. An empty list
        /// requests all types.
        resource_types: Vec<i8> [1..],
    }
    struct Response {
        throttle_time_ms: i32,
        error_code: ErrorCode,
        config_resources: Vec<ConfigResource>,
    }
    struct ConfigResource {
        resource_name: String,
        resource_type: i8 [1..] = 16,
    }
}
