//! LeaveGroup (13): takes a member out of a classic group, so that the others need not wait for its session to end.
//! v1 throttle time; v2 response before throttling; v3 several members, static ones too, so that an operator
//! may remove them (KIP-345); v4 flexible; v5 reasons (KIP-800).
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
