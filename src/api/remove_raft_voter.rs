//! RemoveRaftVoter (81): removes a controller from the voters of the metadata quorum (KIP-853).
//!
//! Errors: CLUSTER_AUTHORIZATION_FAILED, INCONSISTENT_CLUSTER_ID, NOT_LEADER_OR_FOLLOWER, BROKER_NOT_AVAILABLE,
//! INVALID_REQUEST, VOTER_NOT_FOUND, UNSUPPORTED_VERSION, REQUEST_TIMED_OUT.

use super::ErrorCode;
use crate::wire::Uuid;

api! { RemoveRaftVoter = 81, 0..=0, flexible 0 }

message! {
    struct Request {
        cluster_id: Option<String> = Some(String::new()),
        voter_id: i32,
        voter_directory_id: Uuid,
    }
    struct Response {
        throttle_time_ms: i32,
        error_code: ErrorCode,
        error_message: Option<String> = Some(String::new()),
    }
}
