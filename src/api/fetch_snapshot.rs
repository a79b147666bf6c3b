//! FetchSnapshot (59): a follower of the metadata quorum copies a snapshot in pieces (KIP-630).
//!
//! * v1: directory IDs, the leader's endpoints (KIP-853)
//!
//! Errors: CLUSTER_AUTHORIZATION_FAILED, INCONSISTENT_CLUSTER_ID, INVALID_REQUEST, UNKNOWN_TOPIC_OR_PARTITION,
//! FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH, NOT_LEADER_OR_FOLLOWER, BROKER_NOT_AVAILABLE, SNAPSHOT_NOT_FOUND,
//! POSITION_OUT_OF_RANGE.

use super::ErrorCode;
use crate::wire::Uuid;
use bytes::Bytes;

api! { FetchSnapshot = 59, 0..=1, flexible 0, internal }

message! {
    struct Request {
        cluster_id: Option<String> [tag 0],
        replica_id: i32 = -1,
        max_bytes: i32 = i32::MAX,
        topics: Vec<Topic>,
    }
    struct Topic {
        name: String,
        partitions: Vec<Partition>,
    }
    struct Partition {
        partition: i32,
        current_leader_epoch: i32,
        snapshot_id: SnapshotId,
        position: i64,
        replica_directory_id: Uuid [1.., tag 0],
    }
    struct SnapshotId {
        end_offset: i64,
        epoch: i32,
    }
    struct Response {
        throttle_time_ms: i32,
        error_code: ErrorCode,
        topics: Vec<TopicResponse>,
        node_endpoints: Vec<NodeEndpoint> [1.., tag 0],
    }
    struct TopicResponse {
        name: String,
        partitions: Vec<PartitionResponse>,
    }
    struct PartitionResponse {
        index: i32,
        error_code: ErrorCode,
        snapshot_id: SnapshotId,
        current_leader: LeaderIdAndEpoch [tag 0],
        /// The size of the whole snapshot.
        size: i64,
        position: i64,
        /// The bytes of the snapshot from `position` on. The first and the last batch may be incomplete.
        unaligned_records: Bytes,
    }
    struct LeaderIdAndEpoch {
        leader_id: i32,
        leader_epoch: i32,
    }
    struct NodeEndpoint {
        node_id: i32,
        host: String,
        port: u16,
    }
}
