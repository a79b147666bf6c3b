//! AlterPartitionReassignments (45): moves partitions to other brokers, or cancels a move in progress (KIP-455). The
//! controller handles AlterPartitionReassignments.
//!
//! * v1: `allow_replication_factor_change` (KIP-860)
//!
//! Errors of a request: REQUEST_TIMED_OUT, CLUSTER_AUTHORIZATION_FAILED, NOT_CONTROLLER. Errors of a partition:
//! UNKNOWN_TOPIC_OR_PARTITION, INVALID_REPLICA_ASSIGNMENT, INVALID_REPLICATION_FACTOR, NO_REASSIGNMENT_IN_PROGRESS.

use super::ErrorCode;

api! { AlterPartitionReassignments = 45, 0..=1, flexible 0 }

message! {
    struct Request {
        timeout_ms: i32 = 60_000,
        allow_replication_factor_change: bool [1..] = true,
        topics: Vec<Topic>,
    }
    struct Topic {
        name: String,
        partitions: Vec<Partition>,
    }
    struct Partition {
        partition_index: i32,
        /// The new replicas. Null cancels a move in progress.
        replicas: Option<Vec<i32>>,
    }
    struct Response {
        throttle_time_ms: i32,
        allow_replication_factor_change: bool [1..] = true,
        error_code: ErrorCode,
        error_message: Option<String> = Some(String::new()),
        responses: Vec<TopicResponse>,
    }
    struct TopicResponse {
        name: String,
        partitions: Vec<PartitionResponse>,
    }
    struct PartitionResponse {
        partition_index: i32,
        error_code: ErrorCode,
        error_message: Option<String> = Some(String::new()),
    }
}
