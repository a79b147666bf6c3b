//! OffsetDelete (47): deletes a group's committed offsets for topics to which no member is subscribed (KIP-496). The
//! group coordinator handles OffsetDelete.
//!
//! Errors of a request: COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR, INVALID_GROUP_ID,
//! GROUP_AUTHORIZATION_FAILED, NON_EMPTY_GROUP (the members are not consumers), GROUP_ID_NOT_FOUND. Errors of a
//! partition: UNKNOWN_TOPIC_OR_PARTITION, TOPIC_AUTHORIZATION_FAILED, GROUP_SUBSCRIBED_TO_TOPIC.

use super::ErrorCode;

api! { OffsetDelete = 47, 0..=0 }

message! {
    struct Request {
        group_id: String,
        topics: Vec<Topic>,
    }
    struct Topic {
        name: String,
        partitions: Vec<Partition>,
    }
    struct Partition {
        partition_index: i32,
    }
    struct Response {
        error_code: ErrorCode,
        throttle_time_ms: i32,
        topics: Vec<TopicResponse>,
    }
    struct TopicResponse {
        name: String,
        partitions: Vec<PartitionResponse>,
    }
    struct PartitionResponse {
        partition_index: i32,
        error_code: ErrorCode,
    }
}
