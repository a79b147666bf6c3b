//! BeginQuorumEpoch (53): the new leader of the metadata quorum announces itself to the voters (KIP-595).
//!
//! * v1: flexible; directory IDs, the ID of the addressed voter, the leader's endpoints (KIP-853)
//!
//! Errors: CLUSTER_AUTHORIZATION_FAILED, INCONSISTENT_CLUSTER_ID, BROKER_NOT_AVAILABLE, FENCED_LEADER_EPOCH,
//! INVALID_REQUEST, INVALID_VOTER_KEY.

use super::ErrorCode;
use crate::wire::Uuid;

api! { BeginQuorumEpoch = 53, 0..=1, flexible 1, internal }

message! {
    struct Request {
        cluster_id: Option<String>,
        /// The voter to which the leader sends the request.
        voter_id: i32 [1..] = -1,
        topics: Vec<Topic>,
        leader_endpoints: Vec<LeaderEndpoint> [1..],
    }
    struct Topic {
        topic_name: String,
        partitions: Vec<Partition>,
    }
    struct Partition {
        partition_index: i32,
        voter_directory_id: Uuid [1..],
        leader_id: i32,
        leader_epoch: i32,
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
