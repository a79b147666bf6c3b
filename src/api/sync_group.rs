//! SyncGroup (14): ends a rebalance of a classic group. The leader sends the assignments of all members, and each
//! member receives its own assignment.
//!
//! * v1: throttle time in the response
//! * v2: the broker responds before it throttles the client
//! * v3: static members (KIP-345)
//! * v4: flexible
//! * v5: protocol type and name, which the coordinator compares with the chosen protocol (KIP-559)
//!
//! Errors: COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR, ILLEGAL_GENERATION,
//! INCONSISTENT_GROUP_PROTOCOL, UNKNOWN_MEMBER_ID, REBALANCE_IN_PROGRESS, GROUP_AUTHORIZATION_FAILED, INVALID_GROUP_ID,
//! FENCED_INSTANCE_ID.

use super::ErrorCode;
use bytes::Bytes;

api! { SyncGroup = 14, 0..=5, flexible 4 }

message! {
    struct Request {
        group_id: String,
        generation_id: i32,
        member_id: String,
        group_instance_id: Option<String> [3..],
        protocol_type: Option<String> [5..],
        protocol_name: Option<String> [5..],
        /// The assignments of all members. Only the leader sends assignments, and the list of other members is empty.
        assignments: Vec<Assignment>,
    }
    struct Assignment {
        member_id: String,
        /// The member's assignment. For consumers, this is a `data::consumer_protocol::Assignment`.
        assignment: Bytes,
    }
    struct Response {
        throttle_time_ms: i32 [1..],
        error_code: ErrorCode,
        protocol_type: Option<String> [5..],
        protocol_name: Option<String> [5..],
        assignment: Bytes,
    }
}
