//! DescribeTopicPartitions (75): returns topics and their partitions in pages (KIP-966).
//!
//! Errors: UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION, TOPIC_AUTHORIZATION_FAILED, INVALID_REQUEST (the cursor
//! is invalid).

use super::ErrorCode;
use crate::wire::Uuid;

api! { DescribeTopicPartitions = 75, 0..=0, flexible 0 }

message! {
    struct Request {
        /// The requested topics. An empty list requests all topics.
        topics: Vec<Topic>,
        response_partition_limit: i32 = 2000,
        /// The position at which the page starts, or null for the first page.
        cursor: Option<Cursor>,
    }
    struct Topic {
        name: String,
    }
    struct Cursor {
        topic_name: String,
        partition_index: i32,
    }
    struct Response {
        throttle_time_ms: i32,
        topics: Vec<TopicResponse>,
        /// The position at which the next page starts, or null on the last page.
        next_cursor: Option<Cursor>,
    }
    struct TopicResponse {
        error_code: ErrorCode,
        name: Option<String> = Some(String::new()),
        topic_id: Uuid,
        is_internal: bool,
        partitions: Vec<PartitionResponse>,
        /// A bit for each operation.
        topic_authorized_operations: i32 = i32::MIN,
    }
    struct PartitionResponse {
        error_code: ErrorCode,
        partition_index: i32,
        leader_id: i32,
        leader_epoch: i32 = -1,
        replica_nodes: Vec<i32>,
        isr_nodes: Vec<i32>,
        /// Replicas that are not in sync but have all committed records.
        eligible_leader_replicas: Option<Vec<i32>>,
        /// Replicas that were eligible before an unclean shutdown.
        last_known_elr: Option<Vec<i32>>,
        offline_replicas: Vec<i32>,
    }
}
