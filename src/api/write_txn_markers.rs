//! WriteTxnMarkers (27): the transaction coordinator asks partition leaders to write the markers of ended transactions
//! into the partition logs (KIP-98). An operator can also send WriteTxnMarkers, to end a hanging transaction (KIP-664).
//!
//! * v1: flexible
//! * v2: the version of the transaction protocol (KIP-1228)
//!
//! Errors: CORRUPT_MESSAGE, UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, MESSAGE_TOO_LARGE,
//! RECORD_LIST_TOO_LARGE, NOT_ENOUGH_REPLICAS, NOT_ENOUGH_REPLICAS_AFTER_APPEND, INVALID_REQUIRED_ACKS,
//! CLUSTER_AUTHORIZATION_FAILED, INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED,
//! UNSUPPORTED_FOR_MESSAGE_FORMAT, KAFKA_STORAGE_ERROR.

use super::ErrorCode;

api! { WriteTxnMarkers = 27, 0..=2, flexible 1 }

message! {
    struct Request {
        markers: Vec<Marker>,
    }
    struct Marker {
        producer_id: i64,
        producer_epoch: i16,
        /// True commits the transaction, and false aborts it.
        transaction_result: bool,
        topics: Vec<Topic>,
        coordinator_epoch: i32,
        transaction_version: i8 [2..],
    }
    struct Topic {
        name: String,
        partition_indexes: Vec<i32>,
    }
    struct Response {
        markers: Vec<MarkerResult>,
    }
    struct MarkerResult {
        producer_id: i64,
        topics: Vec<TopicResult>,
    }
    struct TopicResult {
        name: String,
        partitions: Vec<PartitionResult>,
    }
    struct PartitionResult {
        partition_index: i32,
        error_code: ErrorCode,
    }
}
