//! ReadShareGroupStateSummary (87): the group coordinator reads start offsets from the share coordinator, to describe a
//! group (KIP-932). In Kafka 3.9 (early access), the v0 response has no leader epoch. A client cannot distinguish the
//! v0 of Kafka 3.9 from the v0 of Kafka 4.0.
//!
//! * v1: `delivery_complete_count` (KIP-1226)
//!
//! Errors: NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS, GROUP_ID_NOT_FOUND,
//! UNKNOWN_TOPIC_OR_PARTITION, FENCED_LEADER_EPOCH, INVALID_REQUEST.

use super::ErrorCode;
use crate::wire::Uuid;

api! { ReadShareGroupStateSummary = 87, 0..=1, flexible 0, internal }

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
        leader_epoch: i32,
        start_offset: i64,
        /// Number of offsets from `start_offset` on whose delivery is complete, or -1 if unknown.
        delivery_complete_count: i32 [1..] = -1,
    }
}
