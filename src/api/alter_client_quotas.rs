//! AlterClientQuotas (49): sets and removes the quotas of users, client IDs and addresses (KIP-546). The response has a
//! result for each entity, such as a user.
//!
//! * v1: flexible
//!
//! Errors: CLUSTER_AUTHORIZATION_FAILED, INVALID_REQUEST, NOT_CONTROLLER.

use super::ErrorCode;

api! { AlterClientQuotas = 49, 0..=1, flexible 1 }

message! {
    struct Request {
        entries: Vec<Entry>,
        validate_only: bool,
    }
    struct Entry {
        entity: Vec<Entity>,
        ops: Vec<Op>,
    }
    struct Entity {
        /// `user`, `client-id` or `ip`.
        entity_type: String,
        /// Null for the default entity.
        entity_name: Option<String> = Some(String::new()),
    }
    struct Op {
        key: String,
        /// The new value, which has no meaning if the request removes the quota.
        value: f64,
        remove: bool,
    }
    struct Response {
        throttle_time_ms: i32,
        entries: Vec<EntryResponse>,
    }
    struct EntryResponse {
        error_code: ErrorCode,
        error_message: Option<String> = Some(String::new()),
        entity: Vec<Entity>,
    }
}
