//! DescribeConfigs (32): returns the configuration of topics, brokers, groups and other resources (KIP-133). Clients
//! request the configuration of a broker from that broker.
//!
//! * v1: source of each value, synonyms (KIP-226)
//! * v2: the broker responds before it throttles the client
//! * v3: types and documentation (KIP-569)
//! * v4: flexible
//!
//! Errors: UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION, TOPIC_AUTHORIZATION_FAILED, GROUP_AUTHORIZATION_FAILED,
//! CLUSTER_AUTHORIZATION_FAILED, INVALID_CONFIG, INVALID_REQUEST.

use super::ErrorCode;

api! { DescribeConfigs = 32, 0..=4, flexible 4 }

/// Resource type of a topic.
pub const TOPIC: i8 = 2;
/// Resource type of a broker. With an empty name, the resource is the default of all brokers.
pub const BROKER: i8 = 4;
/// Resource type of a broker's log levels (KIP-412).
pub const BROKER_LOGGER: i8 = 8;
/// Resource type of a subscription to clients' metrics (KIP-714).
pub const CLIENT_METRICS: i8 = 16;
/// Resource type of a group (KIP-848).
pub const GROUP: i8 = 32;

/// Type of a value: boolean.
pub const BOOLEAN: i8 = 1;
/// Type of a value: string.
pub const STRING: i8 = 2;
/// Type of a value: int.
pub const INT: i8 = 3;
/// Type of a value: short.
pub const SHORT: i8 = 4;
/// Type of a value: long.
pub const LONG: i8 = 5;
/// Type of a value: double.
pub const DOUBLE: i8 = 6;
/// Type of a value: list.
pub const LIST: i8 = 7;
/// Type of a value: class.
pub const CLASS: i8 = 8;
/// Type of a value: password. Brokers do not return the values of passwords.
pub const PASSWORD: i8 = 9;

/// Source of a value: the topic.
pub const SOURCE_TOPIC: i8 = 1;
/// Source of a value: a dynamic configuration of the node.
pub const SOURCE_NODE: i8 = 2;
/// Source of a value: a dynamic configuration of all nodes.
pub const SOURCE_ALL_NODES: i8 = 3;
/// Source of a value: the configuration file of the node.
pub const SOURCE_FILE: i8 = 4;
/// Source of a value: the default.
pub const SOURCE_DEFAULT: i8 = 5;
/// Source of a value: the group.
pub const SOURCE_GROUP: i8 = 8;

message! {
    struct Request {
        resources: Vec<Resource>,
        include_synonyms: bool [1..],
        include_documentation: bool [3..],
    }
    struct Resource {
        resource_type: i8,
        resource_name: String,
        /// The requested keys, or null for all keys.
        configuration_keys: Option<Vec<String>> = Some(Vec::new()),
    }
    struct Response {
        throttle_time_ms: i32,
        results: Vec<ResourceResult>,
    }
    struct ResourceResult {
        error_code: ErrorCode,
        error_message: Option<String> = Some(String::new()),
        resource_type: i8,
        resource_name: String,
        configs: Vec<Config>,
    }
    struct Config {
        name: String,
        /// The value, or null if the value is sensitive.
        value: Option<String> = Some(String::new()),
        read_only: bool,
        is_default: bool [0..=0],
        /// The source of the value: [`SOURCE_TOPIC`] or another `SOURCE_` constant, 6 for a broker's logger, or 7 for
        /// client metrics.
        config_source: i8 [1..] = -1,
        is_sensitive: bool,
        synonyms: Vec<Synonym> [1..],
        /// 1 boolean, 2 string, 3 int, 4 short, 5 long, 6 double, 7 list, 8 class, 9 password.
        config_type: i8 [3..],
        documentation: Option<String> [3..] = Some(String::new()),
    }
    /// A value that would be effective if no earlier synonym were set.
    struct Synonym {
        name: String,
        value: Option<String> = Some(String::new()),
        source: i8,
    }
}
