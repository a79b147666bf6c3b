//! DescribeQuorum (55): returns the leader, voters and observers of the metadata quorum, and the log end offset of each
//! replica (KIP-595).
//!
//! * v1: when each replica last fetched, and when each replica was last caught up with the leader (KIP-836)
//! * v2: error messages, directory IDs, endpoints of the controllers (KIP-853)
//!
//! Errors: CLUSTER_AUTHORIZATION_FAILED, UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER.

use super::ErrorCode;
use crate::wire::Uuid;

api! { DescribeQuorum = 55, 0..=2, flexible 0 }

message! {
    struct Request {
        /// The only valid value is `__cluster_metadata` with partition 0.
        topics: Vec<Topic>,
    }
    struct Topic {
        topic_name: String,
        partitions: Vec<Partition>,
    }
    struct Partition {
        partition_index: i32,
    }
    struct Response {
        error_code: ErrorCode,
        error_message: Option<String> [2..] = Some(String::new()),
        topics: Vec<TopicResponse>,
        nodes: Vec<Node> [2..],
    }
    struct TopicResponse {
        topic_name: String,
        partitions: Vec<PartitionResponse>,
    }
    struct PartitionResponse {
        partition_index: i32,
        error_code: ErrorCode,
        error_message: Option<String> [2..] = Some(String::new()),
        leader_id: i32,
        leader_epoch: i32,
        high_watermark: i64,
        current_voters: Vec<ReplicaState>,
        observers: Vec<ReplicaState>,
    }
    struct ReplicaState {
        replica_id: i32,
        replica_directory_id: Uuid [2..],
        log_end_offset: i64,
        /// The time of the replica's last fetch, by the leader's clock. The field is -1 for the leader and for voters
        /// that have not fetched.
        last_fetch_timestamp: i64 [1..] = -1,
        /// The last time at which the replica was caught up with the leader. The field is the current time for the
        /// leader, and -1 if the time is unknown.
        last_caught_up_timestamp: i64 [1..] = -1,
    }
    struct Node {
        node_id: i32,
        listeners: Vec<Listener>,
    }
    struct Listener {
        name: String,
        host: String,
        port: u16,
    }
}
