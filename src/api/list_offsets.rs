//! ListOffsets (2): returns the offset of the first record at or after a timestamp. Special timestamps select
//! particular offsets: `EARLIEST`, for example, selects the start of the log.
//!
//! * v0: several offsets before a timestamp
//! * v1: one offset with its timestamp
//! * v2: isolation level and throttle time
//! * v3: the broker responds before it throttles the client
//! * v4: leader epochs (KIP-320)
//! * v5: OFFSET_NOT_AVAILABLE
//! * v6: flexible
//! * v7: `MAX_TIMESTAMP` (KIP-734)
//! * v8: `EARLIEST_LOCAL` (KIP-405)
//! * v9: `LATEST_TIERED` (KIP-1005)
//! * v10: a timeout for remote storage (KIP-1075)
//! * v11: `EARLIEST_PENDING_UPLOAD` (KIP-1023)
//!
//! Errors: UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, UNSUPPORTED_FOR_MESSAGE_FORMAT,
//! TOPIC_AUTHORIZATION_FAILED, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH, OFFSET_NOT_AVAILABLE, REPLICA_NOT_AVAILABLE.

use super::ErrorCode;

api! { ListOffsets = 2, 0..=11, flexible 6 }

/// Timestamp that requests the end of the log.
pub const LATEST: i64 = -1;
/// Timestamp that requests the start of the log.
pub const EARLIEST: i64 = -2;
/// Timestamp that requests the offset of the record with the largest timestamp.
pub const MAX_TIMESTAMP: i64 = -3;
/// Timestamp that requests the first offset on the broker's own disk.
pub const EARLIEST_LOCAL: i64 = -4;
/// Timestamp that requests the last offset in remote storage.
pub const LATEST_TIERED: i64 = -5;
/// Timestamp that requests the first offset that is not yet in remote storage.
pub const EARLIEST_PENDING_UPLOAD: i64 = -6;

message! {
    struct Request {
        replica_id: i32,
        isolation_level: i8 [2..],
        topics: Vec<Topic>,
        timeout_ms: i32 [10..],
    }
    struct Topic {
        name: String,
        partitions: Vec<Partition>,
    }
    struct Partition {
        partition_index: i32,
        current_leader_epoch: i32 [4..] = -1,
        timestamp: i64,
        max_num_offsets: i32 [0..=0] = 1,
    }
    struct Response {
        throttle_time_ms: i32 [2..],
        topics: Vec<TopicResponse>,
    }
    struct TopicResponse {
        name: String,
        partitions: Vec<PartitionResponse>,
    }
    struct PartitionResponse {
        partition_index: i32,
        error_code: ErrorCode,
        old_style_offsets: Vec<i64> [0..=0],
        timestamp: i64 [1..] = -1,
        offset: i64 [1..] = -1,
        leader_epoch: i32 [4..] = -1,
    }
}
