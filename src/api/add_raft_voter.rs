//! AddRaftVoter (80): adds a controller to the voters of the metadata quorum (KIP-853).
//!
//! * v1: `ack_when_committed` (KIP-1186)
//!
//! Errors: CLUSTER_AUTHORIZATION_FAILED, INCONSISTENT_CLUSTER_ID, NOT_LEADER_OR_FOLLOWER, BROKER_NOT_AVAILABLE,
//! INVALID_REQUEST, DUPLICATE_VOTER, UNSUPPORTED_VERSION, REQUEST_TIMED_OUT.

use super::ErrorCode;
use crate::wire::Uuid;

api! { AddRaftVoter = 80, 0..=1, flexible 0 }

message! {
    struct Request {
        cluster_id: Option<String> = Some(String::new()),
        timeout_ms: i32,
        voter_id: i32,
        voter_directory_id: Uuid,
        listeners: Vec<Listener>,
        /// Whether the leader responds after it has committed the new voter set. Otherwise, the leader responds after
        /// it has written the set.
        ack_when_committed: bool [1..] = true,
    }
    struct Listener {
        name: String,
        host: String,
        port: u16,
    }
    struct Response {
        throttle_time_ms: i32,
        error_code: ErrorCode,
        error_message: Option<String> = Some(String::new()),
    }
}
