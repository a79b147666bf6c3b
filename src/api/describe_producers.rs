//! DescribeProducers (61): returns the producers that a partition leader knows, and their open transactions (KIP-664).
//!
//! Errors: TOPIC_AUTHORIZATION_FAILED, UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, KAFKA_STORAGE_ERROR.

use super::ErrorCode;

api! { DescribeProducers = 61, 0..=0, flexible 0 }

message! {
    struct Request {
        topics: Vec<Topic>,
    }
    struct Topic {
        name: String,
        partition_indexes: Vec<i32>,
    }
    struct Response {
        throttle_time_ms: i32,
        topics: Vec<TopicResponse>,
    }
    struct TopicResponse {
        name: String,
        partitions: Vec<PartitionResponse>,
    }
    struct PartitionResponse {
        partition_index: i32,
        error_code: ErrorCode,
        error_message: Option<String>,
        active_producers: Vec<ProducerState>,
    }
    struct ProducerState {
        producer_id: i64,
        /// The producer epoch, which is an `i16` in every other API.
        producer_epoch: i32,
        last_sequence: i32 = -1,
        last_timestamp: i64 = -1,
        /// The epoch of the coordinator that wrote the producer's last marker.
        coordinator_epoch: i32,
        /// The start offset of the open transaction, or -1 without an open transaction.
        current_txn_start_offset: i64 = -1,
    }
}
