//! DeleteGroups (42): deletes groups without members, and their offsets (KIP-229). The group coordinator handles
//! DeleteGroups.
//!
//! * v1: the broker responds before it throttles the client
//! * v2: flexible
//! * v3: error messages
//!
//! Errors: COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR, INVALID_GROUP_ID,
//! GROUP_AUTHORIZATION_FAILED, NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND, GROUP_DELETION_FAILED.

use super::ErrorCode;

api! { DeleteGroups = 42, 0..=3, flexible 2 }

message! {
    struct Request {
        groups_names: Vec<String>,
    }
    struct Response {
        throttle_time_ms: i32,
        results: Vec<GroupResult>,
    }
    struct GroupResult {
        group_id: String,
        error_code: ErrorCode,
        error_message: Option<String> [3..],
    }
}
