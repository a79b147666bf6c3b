//! Produce (0): appends record batches to partitions. With `acks` 0 the broker does not respond.
//!
//! * v1: throttle time in the response
//! * v2: message format 1 and log-append time
//! * v3: record batches (KIP-98) and transactional ID
//! * v4: KAFKA_STORAGE_ERROR
//! * v5: log start offset
//! * v6: the broker responds before it throttles the client (KIP-219)
//! * v7: zstd (KIP-110)
//! * v8: the records that the broker rejected, with reasons (KIP-467)
//! * v9: flexible
//! * v10: ID and endpoint of the new leader (KIP-951)
//! * v11: TRANSACTION_ABORTABLE (KIP-890)
//! * v12: adds partitions to the transaction implicitly (KIP-890)
//! * v13: topic IDs instead of names (KIP-516)
//!
//! Errors: CORRUPT_MESSAGE, UNKNOWN_TOPIC_OR_PARTITION, MESSAGE_TOO_LARGE, LEADER_NOT_AVAILABLE,
//! NOT_LEADER_OR_FOLLOWER, REQUEST_TIMED_OUT, INVALID_TOPIC_EXCEPTION, RECORD_LIST_TOO_LARGE, NOT_ENOUGH_REPLICAS,
//! NOT_ENOUGH_REPLICAS_AFTER_APPEND, INVALID_REQUIRED_ACKS, TOPIC_AUTHORIZATION_FAILED, UNSUPPORTED_FOR_MESSAGE_FORMAT,
//! OUT_OF_ORDER_SEQUENCE_NUMBER, DUPLICATE_SEQUENCE_NUMBER, INVALID_PRODUCER_EPOCH, UNKNOWN_PRODUCER_ID,
//! KAFKA_STORAGE_ERROR, INVALID_RECORD, THROTTLING_QUOTA_EXCEEDED, TRANSACTION_ABORTABLE, UNKNOWN_TOPIC_ID.

use super::ErrorCode;
use crate::wire::Uuid;
use bytes::Bytes;

api! { Produce = 0, 0..=13, flexible 9 }

message! {
    struct Request {
        transactional_id: Option<String> [3..],
        acks: i16,
        timeout_ms: i32,
        topic_data: Vec<TopicData>,
    }
    struct TopicData {
        name: String [0..=12],
        topic_id: Uuid [13..],
        partition_data: Vec<PartitionData>,
    }
    struct PartitionData {
        index: i32,
        records: Option<Bytes>,
    }
    struct Response {
        responses: Vec<TopicResponse>,
        throttle_time_ms: i32 [1..],
        node_endpoints: Vec<NodeEndpoint> [10.., tag 0],
    }
    struct TopicResponse {
        name: String [0..=12],
        topic_id: Uuid [13..],
        partition_responses: Vec<PartitionResponse>,
    }
    struct PartitionResponse {
        index: i32,
        error_code: ErrorCode,
        base_offset: i64,
        log_append_time_ms: i64 [2..] = -1,
        log_start_offset: i64 [5..] = -1,
        record_errors: Vec<RecordError> [8..],
        error_message: Option<String> [8..],
        current_leader: LeaderIdAndEpoch [10.., tag 0],
    }
    /// A record because of which the broker rejected the batch.
    struct RecordError {
        batch_index: i32,
        batch_index_error_message: Option<String>,
    }
    struct LeaderIdAndEpoch {
        leader_id: i32 = -1,
        leader_epoch: i32 = -1,
    }
    struct NodeEndpoint {
        node_id: i32,
        host: String,
        port: i32,
        rack: Option<String>,
    }
}
