//! DeleteRecords (21): deletes all records of partitions below given offsets (KIP-107). The partition leaders handle
//! DeleteRecords.
//!
//! * v1: the broker responds before it throttles the client
//! * v2: flexible
//!
//! Errors: OFFSET_OUT_OF_RANGE, UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, REQUEST_TIMED_OUT,
//! TOPIC_AUTHORIZATION_FAILED, POLICY_VIOLATION (the topic's `cleanup.policy` does not contain `delete`),
//! KAFKA_STORAGE_ERROR.

use super::ErrorCode;

api! { DeleteRecords = 21, 0..=2, flexible 2 }

message! {
    struct Request {
        topics: Vec<Topic>,
        timeout_ms: i32,
    }
    struct Topic {
        name: String,
        partitions: Vec<Partition>,
    }
    struct Partition {
        partition_index: i32,
        /// The broker deletes the records below this offset. The offset -1 stands for the high watermark.
        offset: i64,
    }
    struct Response {
        throttle_time_ms: i32,
        topics: Vec<TopicResponse>,
    }
    struct TopicResponse {
        name: String,
        partitions: Vec<PartitionResponse>,
    }
    struct PartitionResponse {
        partition_index: i32,
        /// The new start offset of the log.
        low_watermark: i64,
        error_code: ErrorCode,
    }
}
