//! AddPartitionsToTxn (24): makes partitions part of a transaction before records go there (KIP-98); sent to the
//! transaction's coordinator.
//! v1 response before throttling; v2 PRODUCER_FENCED (KIP-588); v3 flexible; v4 several transactions, and
//! asking instead of adding; v5 TRANSACTION_ABORTABLE (both KIP-890). Clients stop at v3; from v4 on brokers ask for
//! what they are sent, which needs CLUSTER_ACTION.
//! Errors: COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR, UNKNOWN_TOPIC_OR_PARTITION,
//! TOPIC_AUTHORIZATION_FAILED, CLUSTER_AUTHORIZATION_FAILED, INVALID_PRODUCER_EPOCH, INVALID_TXN_STATE,
//! INVALID_PRODUCER_ID_MAPPING, CONCURRENT_TRANSACTIONS, TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
//! OPERATION_NOT_ATTEMPTED (another partition was refused), PRODUCER_FENCED, TRANSACTION_ABORTABLE.

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
        /// Only checks whether the partitions are part of it.
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
