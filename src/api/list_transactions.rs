//! ListTransactions (66): returns the transactional IDs that one broker coordinates (KIP-664). To find all
//! transactional IDs of a cluster, a client asks every broker.
//!
//! * v1: `duration_filter` (KIP-994)
//! * v2: `transactional_id_pattern`, INVALID_REGULAR_EXPRESSION (KIP-1152)
//!
//! Errors: COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, INVALID_REGULAR_EXPRESSION.

use super::ErrorCode;

api! { ListTransactions = 66, 0..=2, flexible 0 }

message! {
    struct Request {
        /// The requested states. An empty list requests all states, and an empty list of producer IDs requests all
        /// producer IDs.
        state_filters: Vec<String>,
        producer_id_filters: Vec<i64>,
        /// The minimum duration of an open transaction in milliseconds. A negative number requests all transactions.
        duration_filter: i64 [1..] = -1,
        transactional_id_pattern: Option<String> [2..],
    }
    struct Response {
        throttle_time_ms: i32,
        error_code: ErrorCode,
        /// State filters of the request that the broker does not know.
        unknown_state_filters: Vec<String>,
        transaction_states: Vec<TransactionState>,
    }
    struct TransactionState {
        transactional_id: String,
        producer_id: i64,
        transaction_state: String,
    }
}
