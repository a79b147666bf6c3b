//! WriteShareGroupState (85): the partition leader asks the share coordinator to store a share group's state in the
//! partition (KIP-932).
//!
//! * v1: `delivery_complete_count` (KIP-1226)
//!
//! Errors: NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS, GROUP_ID_NOT_FOUND,
//! UNKNOWN_TOPIC_OR_PARTITION, FENCED_LEADER_EPOCH, FENCED_STATE_EPOCH, INVALID_REQUEST.

use super::ErrorCode;
use crate::wire::Uuid;

api! { WriteShareGroupState = 85, 0..=1, flexible 0, internal }

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
        leader_epoch: i32,
        /// The new start offset, or -1 if it is unchanged.
        start_offset: i64,
        /// Number of offsets from `start_offset` on whose delivery is complete, or -1 if unknown.
        delivery_complete_count: i32 [1..] = -1,
        state_batches: Vec<StateBatch>,
    }
    struct StateBatch {
        first_offset: i64,
        last_offset: i64,
        /// 0 available, 2 acknowledged, 4 archived.
        delivery_state: i8,
        delivery_count: i16,
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
