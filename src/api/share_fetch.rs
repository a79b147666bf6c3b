//! ShareFetch (78): acquires records for a member of a share group, and acknowledges records that the member acquired
//! earlier (KIP-932). The partition leaders handle ShareFetch.
//!
//! * v0: early access, up to Kafka 4.0
//! * v1: stable; the request limits the number of records, and no longer the bytes of each partition
//! * v2: acquire modes (KIP-1206), renewed acquisition locks (KIP-1222)
//!
//! Errors: GROUP_AUTHORIZATION_FAILED, TOPIC_AUTHORIZATION_FAILED, SHARE_SESSION_NOT_FOUND,
//! INVALID_SHARE_SESSION_EPOCH, SHARE_SESSION_LIMIT_REACHED, UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID,
//! NOT_LEADER_OR_FOLLOWER, INVALID_RECORD_STATE, KAFKA_STORAGE_ERROR, CORRUPT_MESSAGE, INVALID_REQUEST,
//! UNKNOWN_SERVER_ERROR.

use super::ErrorCode;
use crate::wire::Uuid;
use bytes::Bytes;

api! { ShareFetch = 78, 0..=2, flexible 0 }

/// Acquire mode: whole batches, even beyond `max_records`.
pub const BATCH_OPTIMIZED: i8 = 0;
/// Acquire mode: never more than `max_records`.
pub const RECORD_LIMIT: i8 = 1;

message! {
    struct Request {
        group_id: Option<String>,
        member_id: Option<String> = Some(String::new()),
        /// The session epoch. The epoch 0 opens a session and -1 closes a session. Each request of a session increases
        /// the epoch.
        share_session_epoch: i32,
        max_wait_ms: i32,
        min_bytes: i32,
        max_bytes: i32 = i32::MAX,
        max_records: i32 [1..],
        /// How many records the broker should acquire as one batch.
        batch_size: i32 [1..],
        share_acquire_mode: i8 [2..],
        /// Whether the request contains an acknowledgement of the type [`RENEW`](super::share_acknowledge::RENEW).
        is_renew_ack: bool [2..],
        topics: Vec<Topic>,
        forgotten_topics_data: Vec<ForgottenTopic>,
    }
    struct Topic {
        topic_id: Uuid,
        partitions: Vec<Partition>,
    }
    struct Partition {
        partition_index: i32,
        partition_max_bytes: i32 [0..=0],
        acknowledgement_batches: Vec<AcknowledgementBatch>,
    }
    struct AcknowledgementBatch {
        first_offset: i64,
        last_offset: i64,
        /// Acknowledge types of [`share_acknowledge`](super::share_acknowledge): one type for each record, or one type
        /// for all records.
        acknowledge_types: Vec<i8>,
    }
    struct ForgottenTopic {
        topic_id: Uuid,
        partitions: Vec<i32>,
    }
    struct Response {
        throttle_time_ms: i32,
        error_code: ErrorCode,
        error_message: Option<String>,
        /// The duration of the acquisition lock.
        acquisition_lock_timeout_ms: i32 [1..],
        responses: Vec<TopicResponse>,
        /// The endpoints of the leaders that partitions with NOT_LEADER_OR_FOLLOWER name.
        node_endpoints: Vec<NodeEndpoint>,
    }
    struct TopicResponse {
        topic_id: Uuid,
        partitions: Vec<PartitionResponse>,
    }
    struct PartitionResponse {
        partition_index: i32,
        error_code: ErrorCode,
        error_message: Option<String>,
        acknowledge_error_code: ErrorCode,
        acknowledge_error_message: Option<String>,
        current_leader: LeaderIdAndEpoch,
        records: Option<Bytes> [null 0..=0],
        /// The records in `records` that the member has acquired. The member must not process other records.
        acquired_records: Vec<AcquiredRecords>,
    }
    struct LeaderIdAndEpoch {
        leader_id: i32,
        leader_epoch: i32,
    }
    struct AcquiredRecords {
        first_offset: i64,
        last_offset: i64,
        delivery_count: i16,
    }
    struct NodeEndpoint {
        node_id: i32,
        host: String,
        port: i32,
        rack: Option<String>,
    }
}
