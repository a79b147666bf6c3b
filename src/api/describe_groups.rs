//! DescribeGroups (15): returns the state and the members of classic groups. The group coordinator handles
//! DescribeGroups. For groups of KIP-848, clients use ConsumerGroupDescribe instead.
//!
//! * v1: throttle time in the response
//! * v2: the broker responds before it throttles the client
//! * v3: authorized operations (KIP-430)
//! * v4: static members (KIP-345)
//! * v5: flexible
//! * v6: GROUP_ID_NOT_FOUND and error messages (KIP-1043); earlier versions report an unknown group as `Dead`
//!
//! Errors: COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR, GROUP_AUTHORIZATION_FAILED,
//! INVALID_GROUP_ID, GROUP_ID_NOT_FOUND.

use super::ErrorCode;
use bytes::Bytes;

api! { DescribeGroups = 15, 0..=6, flexible 5 }

message! {
    struct Request {
        groups: Vec<String>,
        include_authorized_operations: bool [3..],
    }
    struct Response {
        throttle_time_ms: i32 [1..],
        groups: Vec<Group>,
    }
    struct Group {
        error_code: ErrorCode,
        error_message: Option<String> [6..],
        group_id: String,
        /// `PreparingRebalance`, `CompletingRebalance`, `Stable`, `Empty`, `Dead`.
        group_state: String,
        protocol_type: String,
        /// The protocol that the coordinator chose. For consumers, this is the assignor.
        protocol_data: String,
        members: Vec<Member>,
        authorized_operations: i32 [3..] = i32::MIN,
    }
    struct Member {
        member_id: String,
        group_instance_id: Option<String> [4..],
        client_id: String,
        client_host: String,
        member_metadata: Bytes,
        member_assignment: Bytes,
    }
}
