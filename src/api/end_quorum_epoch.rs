//! EndQuorumEpoch (54): the leader of the metadata quorum resigns and names preferred successors (KIP-595).
//!
//! * v1: flexible; candidates with directory IDs replace the successors; the request also has the leader's endpoints
//!   (KIP-853)
//!
//! Errors: CLUSTER_AUTHORIZATION_FAILED, INCONSISTENT_CLUSTER_ID, BROKER_NOT_AVAILABLE, FENCED_LEADER_EPOCH,
//! INVALID_REQUEST.

use super::ErrorCode;
use crate::wire::Uuid;

api! { EndQuorumEpoch = 54, 0..=1, flexible 1, internal }

message! {
    struct Request {
        cluster_id: Option<String>,
        topics: Vec<Topic>,
        leader_endpoints: Vec<LeaderEndpoint> [1..],
    }
    struct Topic {
        topic_name: String,
        partitions: Vec<Partition>,
    }
    struct Partition {
        partition_index: i32,
        leader_id: i32,
        leader_epoch: i32,
        /// The replicas that should become the leader, in order of preference.
        preferred_successors: Vec<i32> [0..=0],
        /// The replicas that should become the leader, in order of preference.
        preferred_candidates: Vec<Candidate> [1..],
    }
    struct Candidate {
        candidate_id: i32,
        candidate_directory_id: Uuid,
    }
    struct LeaderEndpoint {
        name: String,
        host: String,
        port: u16,
    }
    struct Response {
        error_code: ErrorCode,
        topics: Vec<TopicResponse>,
        node_endpoints: Vec<NodeEndpoint> [1.., tag 0],
    }
    struct TopicResponse {
        topic_name: String,
        partitions: Vec<PartitionResponse>,
    }
    struct PartitionResponse {
        partition_index: i32,
        error_code: ErrorCode,
        leader_id: i32,
        leader_epoch: i32,
    }
    struct NodeEndpoint {
        node_id: i32,
        host: String,
        port: u16,
    }
}
