//! AddPartitionsToTxn (24): adds partitions to a transaction, before the producer sends records to these partitions
//! (KIP-98). The transaction coordinator handles AddPartitionsToTxn.
//!
//! * v1: the broker responds before it throttles the client
//! * v2: PRODUCER_FENCED (KIP-588)
//! * v3: flexible
//! * v4: several transactions, and `verify_only` (KIP-890); only brokers may use v4 and later, because these versions
//!   require the permission CLUSTER_ACTION
//! * v5: TRANSACTION_ABORTABLE (KIP-890)
//!
//! Errors: COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR, UNKNOWN_TOPIC_OR_PARTITION,
//! TOPIC_AUTHORIZATION_FAILED, CLUSTER_AUTHORIZATION_FAILED, INVALID_PRODUCER_EPOCH, INVALID_TXN_STATE,
//! INVALID_PRODUCER_ID_MAPPING, CONCURRENT_TRANSACTIONS, TRANSACTIONAL_ID_AUTHORIZATION_FAILED, OPERATION_NOT_ATTEMPTED
//! (the broker rejected another partition), PRODUCER_FENCED, TRANSACTION_ABORTABLE.

use super::ErrorCode;

api! { AddPartitionsToTxn = 24, 0..=5, flexible 3 }

message! {
    struct Request {
        transactions: Vec<Transaction> [4..],
        v3_and_below_transactional_id: String [0..=3],
        v3_and_below_producer_id: i64 [0..=3],
        v3_and_below_producer_epoch: i16 [0..=3],
        v3_and_below_topics: Vec<Topic> [0..=3],
    }
    struct Transaction {
        transactional_id: String,
        producer_id: i64,
        producer_epoch: i16,
        /// Whether the coordinator only checks that the partitions are part of the transaction.
        verify_only: bool,
        topics: Vec<Topic>,
    }
    struct Topic {
        name: String,
        partitions: Vec<i32>,
    }
    struct Response {
        throttle_time_ms: i32,
        error_code: ErrorCode [4..],
        results_by_transaction: Vec<TransactionResult> [4..],
        results_by_topic_v3_and_below: Vec<TopicResult> [0..=3],
    }
    struct TransactionResult {
        transactional_id: String,
        topic_results: Vec<TopicResult>,
    }
    struct TopicResult {
        name: String,
        results_by_partition: Vec<PartitionResult>,
    }
    struct PartitionResult {
        partition_index: i32,
        partition_error_code: ErrorCode,
    }
}
