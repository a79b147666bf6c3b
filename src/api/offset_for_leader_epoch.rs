//! OffsetForLeaderEpoch (23): returns the end offset of a leader epoch in the leader's log. Followers (KIP-101) and
//! consumers (KIP-320) use the end offset to find where the leader's log diverges from the records that they have read.
//!
//! * v1: the epoch of the returned offset, which may be older than the requested epoch (KIP-279)
//! * v2: current leader epoch and throttle time (KIP-320)
//! * v3: replica ID
//! * v4: flexible
//!
//! Errors: UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, REPLICA_NOT_AVAILABLE, TOPIC_AUTHORIZATION_FAILED,
//! CLUSTER_AUTHORIZATION_FAILED, KAFKA_STORAGE_ERROR, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH, OFFSET_NOT_AVAILABLE.

use super::ErrorCode;

api! { OffsetForLeaderEpoch = 23, 0..=4, flexible 4 }

message! {
    struct Request {
        /// The replica ID. The values -1 and -2 stand for consumers. With -2, the consumer may get offsets above the
        /// high watermark.
        replica_id: i32 [3..] = -2,
        topics: Vec<Topic>,
    }
    struct Topic {
        topic: String,
        partitions: Vec<Partition>,
    }
    struct Partition {
        partition: i32,
        current_leader_epoch: i32 [2..] = -1,
        leader_epoch: i32,
    }
    struct Response {
        throttle_time_ms: i32 [2..],
        topics: Vec<TopicResponse>,
    }
    struct TopicResponse {
        topic: String,
        partitions: Vec<EpochEndOffset>,
    }
    struct EpochEndOffset {
        error_code: ErrorCode,
        partition: i32,
        leader_epoch: i32 [1..] = -1,
        end_offset: i64 = -1,
    }
}
