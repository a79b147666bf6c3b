//! FindCoordinator (10): returns the coordinator of a group, a transactional ID or a share group.
//!
//! * v1: key types and error messages
//! * v2: the broker responds before it throttles the client
//! * v3: flexible
//! * v4: several keys at once (KIP-699)
//! * v5: TRANSACTION_ABORTABLE (KIP-890)
//! * v6: share groups (KIP-932)
//!
//! Errors: COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS, GROUP_AUTHORIZATION_FAILED,
//! TRANSACTIONAL_ID_AUTHORIZATION_FAILED, INVALID_REQUEST, TRANSACTION_ABORTABLE.

use super::ErrorCode;

api! { FindCoordinator = 10, 0..=6, flexible 3 }

/// Key type of a consumer group.
pub const GROUP: i8 = 0;
/// Key type of a transactional ID.
pub const TRANSACTION: i8 = 1;
/// Key type of a share group's partition. The key has the form `group:topic id:partition`.
pub const SHARE: i8 = 2;

message! {
    struct Request {
        key: String [0..=3],
        key_type: i8 [1..],
        coordinator_keys: Vec<String> [4..],
    }
    struct Response {
        throttle_time_ms: i32 [1..],
        error_code: ErrorCode [0..=3],
        error_message: Option<String> [1..=3] = Some(String::new()),
        node_id: i32 [0..=3],
        host: String [0..=3],
        port: i32 [0..=3],
        coordinators: Vec<Coordinator> [4..],
    }
    struct Coordinator {
        key: String,
        node_id: i32,
        host: String,
        port: i32,
        error_code: ErrorCode,
        error_message: Option<String> = Some(String::new()),
    }
}
