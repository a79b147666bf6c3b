//! OffsetFetch (9): returns the committed offsets of a group. The offset -1 means that the group has not committed an
//! offset.
//!
//! * v0: reads from ZooKeeper
//! * v1: reads from the broker
//! * v2: null requests all topics; top-level error
//! * v3: throttle time in the response
//! * v4: the broker responds before it throttles the client
//! * v5: leader epochs (KIP-320)
//! * v6: flexible
//! * v7: `require_stable` (KIP-447)
//! * v8: several groups in a request (KIP-709)
//! * v9: KIP-848 groups
//! * v10: topic IDs
//!
//! Errors: COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR, UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_MEMBER_ID,
//! TOPIC_AUTHORIZATION_FAILED, GROUP_AUTHORIZATION_FAILED, UNSTABLE_OFFSET_COMMIT, GROUP_ID_NOT_FOUND,
//! STALE_MEMBER_EPOCH, UNKNOWN_TOPIC_ID.

use super::ErrorCode;
use crate::wire::Uuid;

api! { OffsetFetch = 9, 0..=10, flexible 6 }

message! {
    struct Request {
        group_id: String [0..=7],
        topics: Option<Vec<Topic>> [0..=7, null 2..] = Some(Vec::new()),
        groups: Vec<Group> [8..],
        require_stable: bool [7..],
    }
    struct Topic {
        name: String,
        partition_indexes: Vec<i32>,
    }
    struct Group {
        group_id: String,
        member_id: Option<String> [9..],
        member_epoch: i32 [9..] = -1,
        topics: Option<Vec<GroupTopic>> = Some(Vec::new()),
    }
    struct GroupTopic {
        name: String [8..=9],
        topic_id: Uuid [10..],
        partition_indexes: Vec<i32>,
    }
    struct Response {
        throttle_time_ms: i32 [3..],
        topics: Vec<TopicResponse> [0..=7],
        error_code: ErrorCode [2..=7],
        groups: Vec<GroupResponse> [8..],
    }
    struct TopicResponse {
        name: String,
        partitions: Vec<PartitionResponse>,
    }
    struct PartitionResponse {
        partition_index: i32,
        committed_offset: i64,
        committed_leader_epoch: i32 [5..] = -1,
        metadata: Option<String> = Some(String::new()),
        error_code: ErrorCode,
    }
    struct GroupResponse {
        group_id: String,
        topics: Vec<GroupTopicResponse>,
        error_code: ErrorCode,
    }
    struct GroupTopicResponse {
        name: String [8..=9],
        topic_id: Uuid [10..],
        partitions: Vec<PartitionResponse>,
    }
}
