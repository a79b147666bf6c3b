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
        /// Empty for all, as are the ids.
        state_filters: Vec<String>,
        producer_id_filters: Vec<i64>,
        /// Only transactions open for longer, in milliseconds; negative for all.
        duration_filter: i64 [1..] = -1,
        transactional_id_pattern: Option<String> [2..],
    }
    struct Response {
        throttle_time_ms: i32,
        error_code: ErrorCode,
        /// Filters of the request that are no state the broker knows.
        unknown_state_filters: Vec<String>,
        transaction_states: Vec<TransactionState>,
    }
    struct TransactionState {
        transactional_id: String,
        producer_id: i64,
        transaction_state: String,
    }
}
