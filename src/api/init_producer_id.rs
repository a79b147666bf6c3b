//! InitProducerId (22): returns a producer ID and an epoch for an idempotent or transactional producer (KIP-98).
//!
//! * v1: the broker responds before it throttles the client
//! * v2: flexible
//! * v3: a producer can keep its ID after an error (KIP-360)
//! * v4: PRODUCER_FENCED
//! * v5: TRANSACTION_ABORTABLE (KIP-890)
//! * v6: two-phase commit (KIP-939), unstable in Kafka 4.4
//!
//! Errors: COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR, INVALID_TRANSACTION_TIMEOUT,
//! TRANSACTIONAL_ID_AUTHORIZATION_FAILED, CLUSTER_AUTHORIZATION_FAILED, CONCURRENT_TRANSACTIONS,
//! INVALID_PRODUCER_EPOCH, PRODUCER_FENCED, TRANSACTION_ABORTABLE.

use super::ErrorCode;

api! { InitProducerId = 22, 0..=6, flexible 2, unstable 6 }

message! {
    struct Request {
        transactional_id: Option<String> = Some(String::new()),
        transaction_timeout_ms: i32,
        producer_id: i64 [3..] = -1,
        producer_epoch: i16 [3..] = -1,
        enable2_pc: bool [6..],
        keep_prepared_txn: bool [6..],
    }
    struct Response {
        throttle_time_ms: i32,
        error_code: ErrorCode,
        producer_id: i64 = -1,
        producer_epoch: i16,
        ongoing_txn_producer_id: i64 [6..] = -1,
        ongoing_txn_producer_epoch: i16 [6..] = -1,
    }
}
