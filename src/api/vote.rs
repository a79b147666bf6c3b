//! Vote (52): a candidate for leader of the metadata quorum asks a voter for its vote (KIP-595).
//!
//! * v1: directory IDs, the ID of the addressed voter, the leader's endpoints (KIP-853)
//! * v2: pre-votes (KIP-996); the field of the candidate is named `replica_id`
//!
//! Errors: CLUSTER_AUTHORIZATION_FAILED, INCONSISTENT_CLUSTER_ID, BROKER_NOT_AVAILABLE, FENCED_LEADER_EPOCH,
//! INVALID_REQUEST, INVALID_VOTER_KEY.

use super::ErrorCode;
use crate::wire::Uuid;

api! { Vote = 52, 0..=2, flexible 0, internal }

message! {
    struct Request {
        cluster_id: Option<String>,
        /// The voter that receives the request.
        voter_id: i32 [1..] = -1,
        topics: Vec<Topic>,
    }
    struct Topic {
        topic_name: String,
        partitions: Vec<Partition>,
    }
    struct Partition {
        partition_index: i32,
        replica_epoch: i32,
        /// The replica that requests the vote.
        replica_id: i32,
        replica_directory_id: Uuid [1..],
        voter_directory_id: Uuid [1..],
        last_offset_epoch: i32,
        /// The end offset of the requesting replica's log.
        last_offset: i64,
        /// Whether the request is a pre-vote, in which the voter only says whether it would grant its vote. A pre-vote
        /// changes no epoch.
        pre_vote: bool [2..],
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
        vote_granted: bool,
    }
    struct NodeEndpoint {
        node_id: i32,
        host: String,
        port: u16,
    }
}
