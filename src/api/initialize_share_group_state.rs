//! InitializeShareGroupState (83): the group coordinator asks the share coordinator to create a share group's state in
//! new partitions (KIP-932).
//!
//! Errors: NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS, FENCED_STATE_EPOCH,
//! INVALID_REQUEST.

use super::ErrorCode;
use crate::wire::Uuid;

api! { InitializeShareGroupState = 83, 0..=0, flexible 0, internal }

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
        state_epoch: i32,
        /// The start offset of the group, or -1 if it is not known yet.
        start_offset: i64,
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
