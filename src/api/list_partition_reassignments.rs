//! ListPartitionReassignments (46): returns the partitions that are being reassigned (KIP-455). The controller handles
//! ListPartitionReassignments.
//!
//! Errors: REQUEST_TIMED_OUT, CLUSTER_AUTHORIZATION_FAILED, NOT_CONTROLLER.

use super::ErrorCode;

api! { ListPartitionReassignments = 46, 0..=0, flexible 0 }

message! {
    struct Request {
        timeout_ms: i32 = 60_000,
        /// The requested topics, or null for all topics.
        topics: Option<Vec<Topic>>,
    }
    struct Topic {
        name: String,
        partition_indexes: Vec<i32>,
    }
    struct Response {
        throttle_time_ms: i32,
        error_code: ErrorCode,
        error_message: Option<String> = Some(String::new()),
        topics: Vec<TopicResponse>,
    }
    struct TopicResponse {
        name: String,
        partitions: Vec<PartitionResponse>,
    }
    struct PartitionResponse {
        partition_index: i32,
        /// All replicas of the partition, including the replicas that the move adds and removes.
        replicas: Vec<i32>,
        adding_replicas: Vec<i32>,
        removing_replicas: Vec<i32>,
    }
}
