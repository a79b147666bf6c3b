//! Heartbeat (12): a member of a classic group reports to its coordinator that it is alive. The error code of the
//! response tells the member whether the group rebalances.
//!
//! * v1: throttle time in the response
//! * v2: the broker responds before it throttles the client
//! * v3: static members (KIP-345)
//! * v4: flexible
//!
//! Errors: COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR, ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, REBALANCE_IN_PROGRESS
//! (the member has to join again), GROUP_AUTHORIZATION_FAILED, INVALID_GROUP_ID, FENCED_INSTANCE_ID.

use super::ErrorCode;

api! { Heartbeat = 12, 0..=4, flexible 4 }

message! {
    struct Request {
        group_id: String,
        generation_id: i32,
        member_id: String,
        group_instance_id: Option<String> [3..],
    }
    struct Response {
        throttle_time_ms: i32 [1..],
        error_code: ErrorCode,
    }
}
