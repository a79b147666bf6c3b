//! SyncGroup (14): the second half of a rebalance. The leader sends the assignment of all members, and every
//! member gets its own.
//! v1 throttle time; v2 response before throttling; v3 static members (KIP-345); v4 flexible; v5 protocol
//! type and name, which the coordinator compares with what it chose (KIP-559).
//! Errors: COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR, ILLEGAL_GENERATION,
//! INCONSISTENT_GROUP_PROTOCOL, UNKNOWN_MEMBER_ID, REBALANCE_IN_PROGRESS, GROUP_AUTHORIZATION_FAILED,
//! INVALID_GROUP_ID, FENCED_INSTANCE_ID.

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
        /// Empty unless the leader sends it.
        assignments: Vec<Assignment>,
    }
    struct Assignment {
        member_id: String,
        /// Of the consumer's protocols a `data::consumer_protocol::Assignment`.
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
