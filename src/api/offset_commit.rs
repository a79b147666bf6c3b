//! OffsetCommit (8): commits offsets of a group. A client that is not a member sends generation -1 and an empty member
//! ID.
//!
//! * v0: stores the offsets in ZooKeeper
//! * v1: stores the offsets in the broker; member, generation and commit time in the request
//! * v2: retention time instead of commit time
//! * v3: throttle time in the response
//! * v4: the broker responds before it throttles the client
//! * v5: without retention time (KIP-211)
//! * v6: leader epochs (KIP-320)
//! * v7: static members (KIP-345)
//! * v8: flexible
//! * v9: KIP-848 groups
//! * v10: topic IDs
//!
//! Errors: OFFSET_METADATA_TOO_LARGE, COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR,
//! ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, REBALANCE_IN_PROGRESS, INVALID_COMMIT_OFFSET_SIZE,
//! TOPIC_AUTHORIZATION_FAILED, GROUP_AUTHORIZATION_FAILED, FENCED_INSTANCE_ID, GROUP_ID_NOT_FOUND, STALE_MEMBER_EPOCH,
//! UNKNOWN_TOPIC_ID.

use super::ErrorCode;
use crate::wire::Uuid;

api! { OffsetCommit = 8, 0..=10, flexible 8 }

message! {
    struct Request {
        group_id: String,
        generation_id_or_member_epoch: i32 [1..] = -1,
        member_id: String [1..],
        group_instance_id: Option<String> [7..],
        retention_time_ms: i64 [2..=4] = -1,
        topics: Vec<Topic>,
    }
    struct Topic {
        name: String [0..=9],
        topic_id: Uuid [10..],
        partitions: Vec<Partition>,
    }
    struct Partition {
        partition_index: i32,
        committed_offset: i64,
        committed_leader_epoch: i32 [6..] = -1,
        commit_timestamp: i64 [1..=1] = -1,
        committed_metadata: Option<String> = Some(String::new()),
    }
    struct Response {
        throttle_time_ms: i32 [3..],
        topics: Vec<TopicResponse>,
    }
    struct TopicResponse {
        name: String [0..=9],
        topic_id: Uuid [10..],
        partitions: Vec<PartitionResponse>,
    }
    struct PartitionResponse {
        partition_index: i32,
        error_code: ErrorCode,
    }
}
