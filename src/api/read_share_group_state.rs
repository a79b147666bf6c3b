//! ReadShareGroupState (84): the partition leader asks the share coordinator for a share group's state in the partition
//! (KIP-932).
//!
//! Errors: NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS, GROUP_ID_NOT_FOUND,
//! UNKNOWN_TOPIC_OR_PARTITION, FENCED_LEADER_EPOCH, INVALID_REQUEST.

use super::ErrorCode;
use crate::wire::Uuid;

api! { ReadShareGroupState = 84, 0..=0, flexible 0, internal }

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
        leader_epoch: i32,
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
        state_epoch: i32,
        /// The start offset of the group, or -1 if it is not known yet.
        start_offset: i64,
        state_batches: Vec<StateBatch>,
    }
    struct StateBatch {
        first_offset: i64,
        last_offset: i64,
        /// 0 available, 2 acknowledged, 4 archived.
        delivery_state: i8,
        delivery_count: i16,
    }
}
