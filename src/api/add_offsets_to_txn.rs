//! AddOffsetsToTxn (25): adds a group to a transaction (KIP-98). The producer then sends the group's offsets in
//! TxnOffsetCommit. The transaction coordinator handles AddOffsetsToTxn.
//!
//! * v1: the broker responds before it throttles the client
//! * v2: PRODUCER_FENCED (KIP-588)
//! * v3: flexible
//! * v4: TRANSACTION_ABORTABLE (KIP-890)
//!
//! Errors: COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR, GROUP_AUTHORIZATION_FAILED,
//! INVALID_GROUP_ID, INVALID_PRODUCER_EPOCH, INVALID_TXN_STATE, INVALID_PRODUCER_ID_MAPPING, CONCURRENT_TRANSACTIONS,
//! TRANSACTIONAL_ID_AUTHORIZATION_FAILED, PRODUCER_FENCED, TRANSACTION_ABORTABLE.

use super::ErrorCode;

api! { AddOffsetsToTxn = 25, 0..=4, flexible 3 }

message! {
    struct Request {
        transactional_id: String,
        producer_id: i64,
        producer_epoch: i16,
        group_id: String,
    }
    struct Response {
        throttle_time_ms: i32,
        error_code: ErrorCode,
    }
}
