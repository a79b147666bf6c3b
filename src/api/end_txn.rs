//! EndTxn (26): commits or aborts a transaction (KIP-98). The transaction coordinator handles EndTxn.
//!
//! * v1: the broker responds before it throttles the client
//! * v2: PRODUCER_FENCED (KIP-588)
//! * v3: flexible
//! * v4: TRANSACTION_ABORTABLE (KIP-890)
//! * v5: each transaction ends with a new epoch, and with a new producer ID if the epoch would overflow (KIP-890)
//!
//! Errors: COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR, INVALID_PRODUCER_EPOCH,
//! INVALID_TXN_STATE, INVALID_PRODUCER_ID_MAPPING, CONCURRENT_TRANSACTIONS, TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
//! PRODUCER_FENCED, TRANSACTION_ABORTABLE.

use super::ErrorCode;

api! { EndTxn = 26, 0..=5, flexible 3 }

message! {
    struct Request {
        transactional_id: String,
        producer_id: i64,
        producer_epoch: i16,
        /// True commits the transaction, and false aborts it.
        committed: bool,
    }
    struct Response {
        throttle_time_ms: i32,
        error_code: ErrorCode,
        producer_id: i64 [5..] = -1,
        producer_epoch: i16 [5..] = -1,
    }
}
