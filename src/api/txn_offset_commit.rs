//! TxnOffsetCommit (28): commits offsets of a group as part of a transaction (KIP-98). The group coordinator handles
//! TxnOffsetCommit.
//!
//! * v1: the broker responds before it throttles the client
//! * v2: leader epochs (KIP-320)
//! * v3: flexible; member and generation, with which the coordinator can fence a zombie producer (KIP-447)
//! * v4: TRANSACTION_ABORTABLE (KIP-890)
//! * v5: adds the group to the transaction implicitly (KIP-890)
//! * v6: topic IDs instead of names, and KIP-848 groups (KIP-1319)
//!
//! Errors: OFFSET_METADATA_TOO_LARGE, COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR,
//! UNKNOWN_TOPIC_OR_PARTITION, ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, TOPIC_AUTHORIZATION_FAILED,
//! GROUP_AUTHORIZATION_FAILED, UNSUPPORTED_FOR_MESSAGE_FORMAT, INVALID_PRODUCER_EPOCH, INVALID_TXN_STATE,
//! INVALID_PRODUCER_ID_MAPPING, TRANSACTIONAL_ID_AUTHORIZATION_FAILED, FENCED_INSTANCE_ID, PRODUCER_FENCED,
//! TRANSACTION_ABORTABLE, GROUP_ID_NOT_FOUND, STALE_MEMBER_EPOCH, UNKNOWN_TOPIC_ID.

use super::ErrorCode;
use crate::wire::Uuid;

api! { TxnOffsetCommit = 28, 0..=6, flexible 3 }

message! {
    struct Request {
        transactional_id: String,
        group_id: String,
        producer_id: i64,
        producer_epoch: i16,
        generation_id_or_member_epoch: i32 [3..] = -1,
        member_id: String [3..],
        group_instance_id: Option<String> [3..],
        topics: Vec<Topic>,
    }
    struct Topic {
        name: String [0..=5],
        topic_id: Uuid [6..],
        partitions: Vec<Partition>,
    }
    struct Partition {
        partition_index: i32,
        committed_offset: i64,
        committed_leader_epoch: i32 [2..] = -1,
        committed_metadata: Option<String> = Some(String::new()),
    }
    struct Response {
        throttle_time_ms: i32,
        topics: Vec<TopicResponse>,
    }
    struct TopicResponse {
        name: String [0..=5],
        topic_id: Uuid [6..],
        partitions: Vec<PartitionResponse>,
    }
    struct PartitionResponse {
        partition_index: i32,
        error_code: ErrorCode,
    }
}
