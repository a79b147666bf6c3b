//! LeaveGroup (13): removes members from a classic group, so that the group does not wait for the end of their
//! sessions.
//!
//! * v1: throttle time in the response
//! * v2: the broker responds before it throttles the client
//! * v3: several members; an operator can remove static members (KIP-345)
//! * v4: flexible
//! * v5: the reason why the member leaves (KIP-800)
//!
//! Errors: COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR, UNKNOWN_MEMBER_ID,
//! GROUP_AUTHORIZATION_FAILED, INVALID_GROUP_ID, FENCED_INSTANCE_ID.

use super::ErrorCode;

api! { LeaveGroup = 13, 0..=5, flexible 4 }

message! {
    struct Request {
        group_id: String,
        member_id: String [0..=2],
        members: Vec<Member> [3..],
    }
    struct Member {
        member_id: String,
        group_instance_id: Option<String>,
        reason: Option<String> [5..],
    }
    struct Response {
        throttle_time_ms: i32 [1..],
        error_code: ErrorCode,
        members: Vec<MemberResponse> [3..],
    }
    struct MemberResponse {
        member_id: String,
        group_instance_id: Option<String> = Some(String::new()),
        error_code: ErrorCode,
    }
}
