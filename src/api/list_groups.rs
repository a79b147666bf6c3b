//! ListGroups (16): the groups that a broker coordinates; all of a cluster's take a request to each broker.
//! v1 throttle time; v2 response before throttling; v3 flexible; v4 states, and a filter for them (KIP-518);
//! v5 types, and a filter for them (KIP-848). An empty filter lets all groups through.
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
        /// `consumer`, `connect`, `share`; empty for a group that only keeps offsets.
        protocol_type: String,
        group_state: String [4..],
        /// `classic`, `consumer`, `share`, `streams`.
        group_type: String [5..],
    }
}
