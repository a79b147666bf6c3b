//! JoinGroup (11): joins or rejoins a classic group. The coordinator responds when all members have joined. The
//! response names the leader. Only the leader receives the list of members. The leader then sends the assignments of
//! all members in SyncGroup.
//!
//! * v1: rebalance timeout (KIP-62)
//! * v2: throttle time in the response
//! * v3: the broker responds before it throttles the client
//! * v4: the coordinator first gives a new member an ID, with MEMBER_ID_REQUIRED (KIP-394)
//! * v5: static members (KIP-345)
//! * v6: flexible
//! * v7: protocol type in the response, whose protocol name may be null (KIP-559)
//! * v8: the reason why the member joins (KIP-800)
//! * v9: `skip_assignment` for the leader (KIP-814)
//!
//! Errors: COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR, INCONSISTENT_GROUP_PROTOCOL,
//! INVALID_GROUP_ID, UNKNOWN_MEMBER_ID, INVALID_SESSION_TIMEOUT, REBALANCE_IN_PROGRESS, GROUP_AUTHORIZATION_FAILED,
//! MEMBER_ID_REQUIRED, GROUP_MAX_SIZE_REACHED, FENCED_INSTANCE_ID.

use super::ErrorCode;
use bytes::Bytes;

api! { JoinGroup = 11, 0..=9, flexible 6 }

message! {
    struct Request {
        group_id: String,
        session_timeout_ms: i32,
        /// How long the coordinator waits for each member to join again. In v0, the session timeout applies.
        rebalance_timeout_ms: i32 [1..] = -1,
        /// The member ID, which is empty for a member that has no ID yet.
        member_id: String,
        group_instance_id: Option<String> [5..],
        /// The protocol type, such as `consumer` or `connect`. All members must have the same type.
        protocol_type: String,
        /// The protocols of the member, the preferred protocol first. The coordinator chooses a protocol that all
        /// members support. For consumers, a protocol is an assignor.
        protocols: Vec<Protocol>,
        reason: Option<String> [8..],
    }
    struct Protocol {
        name: String,
        /// The metadata of the protocol. For consumers, this is a `data::consumer_protocol::Subscription`.
        metadata: Bytes,
    }
    struct Response {
        throttle_time_ms: i32 [2..],
        error_code: ErrorCode,
        generation_id: i32 = -1,
        protocol_type: Option<String> [7..],
        protocol_name: Option<String> [null 7..] = Some(String::new()),
        /// The leader's member ID.
        leader: String,
        skip_assignment: bool [9..],
        member_id: String,
        members: Vec<Member>,
    }
    struct Member {
        member_id: String,
        group_instance_id: Option<String> [5..],
        metadata: Bytes,
    }
}
