//! ShareAcknowledge (79): acknowledges records that a member of a share group acquired, and fetches no more records
//! (KIP-932).
//!
//! * v0: early access, up to Kafka 4.0
//! * v1: stable
//! * v2: renewed acquisition locks (KIP-1222)
//!
//! Errors: GROUP_AUTHORIZATION_FAILED, TOPIC_AUTHORIZATION_FAILED, SHARE_SESSION_NOT_FOUND,
//! INVALID_SHARE_SESSION_EPOCH, UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID, NOT_LEADER_OR_FOLLOWER,
//! INVALID_RECORD_STATE, KAFKA_STORAGE_ERROR, INVALID_REQUEST, UNKNOWN_SERVER_ERROR.

use super::ErrorCode;
use crate::wire::Uuid;

api! { ShareAcknowledge = 79, 0..=2, flexible 0 }

/// Acknowledge type: there is no record at this offset.
pub const GAP: i8 = 0;
/// Acknowledge type: the record has been processed.
pub const ACCEPT: i8 = 1;
/// Acknowledge type: the broker may deliver the record again.
pub const RELEASE: i8 = 2;
/// Acknowledge type: the broker must not deliver the record again.
pub const REJECT: i8 = 3;
/// Acknowledge type: the member needs more time (v2).
pub const RENEW: i8 = 4;

message! {
    struct Request {
        group_id: Option<String>,
        member_id: Option<String> = Some(String::new()),
        /// The session epoch: one more than in the last ShareFetch or ShareAcknowledge. The epoch -1 closes the
        /// session.
        share_session_epoch: i32,
        is_renew_ack: bool [2..],
        topics: Vec<Topic>,
    }
    struct Topic {
        topic_id: Uuid,
        partitions: Vec<Partition>,
    }
    struct Partition {
        partition_index: i32,
        acknowledgement_batches: Vec<AcknowledgementBatch>,
    }
    struct AcknowledgementBatch {
        first_offset: i64,
        last_offset: i64,
        /// One type for each record, or one type for all records.
        acknowledge_types: Vec<i8>,
    }
    struct Response {
        throttle_time_ms: i32,
        error_code: ErrorCode,
        error_message: Option<String>,
        acquisition_lock_timeout_ms: i32 [2..],
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
        current_leader: LeaderIdAndEpoch,
    }
    struct LeaderIdAndEpoch {
        leader_id: i32,
        leader_epoch: i32,
    }
    struct NodeEndpoint {
        node_id: i32,
        host: String,
        port: i32,
        rack: Option<String>,
    }
}
