//! ListGroups (16): returns the groups that one broker coordinates. To find all groups of a cluster, a client asks
//! every broker.
//!
//! * v1: throttle time in the response
//! * v2: the broker responds before it throttles the client
//! * v3: flexible
//! * v4: states of the groups, and a filter (KIP-518); an empty filter matches all groups
//! * v5: types of the groups, and a filter (KIP-848); an empty filter matches all groups
//!
//! Errors: COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, CLUSTER_AUTHORIZATION_FAILED.

use super::ErrorCode;

api! { ListGroups = 16, 0..=5, flexible 3 }

message! {
    struct Request {
        states_filter: Vec<String> [4..],
        types_filter: Vec<String> [5..],
    }
    struct Response {
        throttle_time_ms: i32 [1..],
        error_code: ErrorCode,
        groups: Vec<Group>,
    }
    struct Group {
        group_id: String,
        /// The protocol type, such as `consumer`, `connect` or `share`. The protocol type is empty for a group that
        /// only stores offsets.
        protocol_type: String,
        group_state: String [4..],
        /// The group type: `classic`, `consumer`, `share` or `streams`.
        group_type: String [5..],
    }
}
