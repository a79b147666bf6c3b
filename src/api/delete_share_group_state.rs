//! DeleteShareGroupState (86): the group coordinator asks the share coordinator to delete a share group's state in some
//! partitions (KIP-932).
//!
//! Errors: NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS, GROUP_ID_NOT_FOUND,
//! UNKNOWN_TOPIC_OR_PARTITION, FENCED_STATE_EPOCH, INVALID_REQUEST.

use super::ErrorCode;
use crate::wire::Uuid;

api! { DeleteShareGroupState = 86, 0..=0, flexible 0, internal }

message! {
    struct Request {
        group_id: String,
        topics: Vec<Topic>,
    }
    struct Topic {
        topic_id: Uuid,
        partitions: Vec<Partition>,
    }
    struct Partition {
        partition: i32,
    }
    struct Response {
        results: Vec<TopicResult>,
    }
    struct TopicResult {
        topic_id: Uuid,
        partitions: Vec<PartitionResult>,
    }
    struct PartitionResult {
        partition: i32,
        error_code: ErrorCode,
        error_message: Option<String>,
    }
}
