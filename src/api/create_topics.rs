//! CreateTopics (19): creates topics. The controller handles CreateTopics.
//!
//! * v1: `validate_only` and error messages
//! * v2: throttle time in the response
//! * v3: the broker responds before it throttles the client
//! * v4: -1 stands for the broker's default number of partitions and replicas (KIP-464)
//! * v5: flexible; the response contains the topic's configuration (KIP-525)
//! * v6: THROTTLING_QUOTA_EXCEEDED (KIP-599)
//! * v7: topic IDs (KIP-516)
//!
//! Errors: INVALID_TOPIC_EXCEPTION, TOPIC_ALREADY_EXISTS, INVALID_PARTITIONS, INVALID_REPLICATION_FACTOR,
//! INVALID_REPLICA_ASSIGNMENT, INVALID_CONFIG, NOT_CONTROLLER, INVALID_REQUEST, POLICY_VIOLATION, REQUEST_TIMED_OUT,
//! CLUSTER_AUTHORIZATION_FAILED, TOPIC_AUTHORIZATION_FAILED, THROTTLING_QUOTA_EXCEEDED.

use super::ErrorCode;
use crate::wire::Uuid;

api! { CreateTopics = 19, 0..=7, flexible 5 }

message! {
    struct Request {
        topics: Vec<Topic>,
        timeout_ms: i32 = 60_000,
        validate_only: bool [1..],
    }
    struct Topic {
        name: String,
        num_partitions: i32,
        replication_factor: i16,
        assignments: Vec<ReplicaAssignment>,
        configs: Vec<Config>,
    }
    struct ReplicaAssignment {
        partition_index: i32,
        broker_ids: Vec<i32>,
    }
    struct Config {
        name: String,
        value: Option<String> = Some(String::new()),
    }
    struct Response {
        throttle_time_ms: i32 [2..],
        topics: Vec<TopicResult>,
    }
    struct TopicResult {
        name: String,
        topic_id: Uuid [7..],
        error_code: ErrorCode,
        error_message: Option<String> [1..] = Some(String::new()),
        topic_config_error_code: ErrorCode [5.., tag 0],
        num_partitions: i32 [5..] = -1,
        replication_factor: i16 [5..] = -1,
        configs: Option<Vec<ConfigResult>> [5..] = Some(Vec::new()),
    }
    struct ConfigResult {
        name: String,
        value: Option<String> = Some(String::new()),
        read_only: bool,
        config_source: i8 = -1,
        is_sensitive: bool,
    }
}
