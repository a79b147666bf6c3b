//! DescribeTransactions (65): returns the state of transactional IDs (KIP-664). The transaction coordinator handles
//! DescribeTransactions.
//!
//! Errors: TRANSACTIONAL_ID_AUTHORIZATION_FAILED, TRANSACTIONAL_ID_NOT_FOUND, NOT_COORDINATOR,
//! COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, INVALID_REQUEST.

use super::ErrorCode;

api! { DescribeTransactions = 65, 0..=0, flexible 0 }

message! {
    struct Request {
        transactional_ids: Vec<String>,
    }
    struct Response {
        throttle_time_ms: i32,
        transaction_states: Vec<TransactionState>,
    }
    struct TransactionState {
        error_code: ErrorCode,
        transactional_id: String,
        /// `Empty`, `Ongoing`, `PrepareCommit`, `PrepareAbort`, `CompleteCommit`, `CompleteAbort`, `PrepareEpochFence`
        /// or `Dead`.
        transaction_state: String,
        transaction_timeout_ms: i32,
        transaction_start_time_ms: i64,
        producer_id: i64,
        producer_epoch: i16,
        /// The partitions of the transaction. While the transaction is ending, the partitions without a marker.
        topics: Vec<Topic>,
    }
    struct Topic {
        topic: String,
        partitions: Vec<i32>,
    }
}
