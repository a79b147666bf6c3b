//! UpdateRaftVoter (82): a voter of the metadata quorum reports its endpoints and its supported KRaft versions to the
//! leader (KIP-853).
//!
//! Errors: CLUSTER_AUTHORIZATION_FAILED, INCONSISTENT_CLUSTER_ID, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH,
//! NOT_LEADER_OR_FOLLOWER, BROKER_NOT_AVAILABLE, INVALID_REQUEST, VOTER_NOT_FOUND, UNSUPPORTED_VERSION,
//! REQUEST_TIMED_OUT.

use super::ErrorCode;
use crate::wire::Uuid;

api! { UpdateRaftVoter = 82, 0..=0, flexible 0, internal }

message! {
    struct Request {
        cluster_id: Option<String> = Some(String::new()),
        /// The leader epoch that the voter knows, or -1 if it knows none.
        current_leader_epoch: i32,
        voter_id: i32,
        voter_directory_id: Uuid,
        listeners: Vec<Listener>,
        k_raft_version_feature: KRaftVersionFeature,
    }
    struct Listener {
        name: String,
        host: String,
        port: u16,
    }
    struct KRaftVersionFeature {
        min_supported_version: i16,
        max_supported_version: i16,
    }
    struct Response {
        throttle_time_ms: i32,
        error_code: ErrorCode,
        current_leader: CurrentLeader [tag 0],
    }
    struct CurrentLeader {
        leader_id: i32 = -1,
        leader_epoch: i32 = -1,
        host: String,
        port: i32,
    }
}
