//! StopReplica (5): the controller of a ZooKeeper cluster asks a broker to stop serving replicas, and optionally to
//! delete them. Kafka 4.0 removed this API.
//!
//! * v1: broker epoch (KIP-380); partitions grouped by topic
//! * v2: flexible
//! * v3: leader epochs and deletion for each partition (KIP-570)
//! * v4: KRaft controllers (KIP-866)
//!
//! Errors of a request or a partition: STALE_CONTROLLER_EPOCH, STALE_BROKER_EPOCH, CLUSTER_AUTHORIZATION_FAILED. Errors
//! of a partition only: FENCED_LEADER_EPOCH, KAFKA_STORAGE_ERROR.

use super::ErrorCode;

api! { StopReplica = 5, 0..=4, flexible 2, internal }

message! {
    struct Request {
        controller_id: i32,
        is_k_raft_controller: bool [4..],
        controller_epoch: i32,
        broker_epoch: i64 [1..] = -1,
        delete_partitions: bool [0..=2],
        ungrouped_partitions: Vec<Partition> [0..=0],
        topics: Vec<Topic> [1..=2],
        topic_states: Vec<TopicState> [3..],
    }
    struct Partition {
        topic_name: String,
        partition_index: i32,
    }
    struct Topic {
        name: String,
        partition_indexes: Vec<i32>,
    }
    struct TopicState {
        topic_name: String,
        partition_states: Vec<PartitionState>,
    }
    struct PartitionState {
        partition_index: i32,
        leader_epoch: i32 = -1,
        delete_partition: bool,
    }
    struct Response {
        error_code: ErrorCode,
        partition_errors: Vec<PartitionError>,
    }
    struct PartitionError {
        topic_name: String,
        partition_index: i32,
        error_code: ErrorCode,
    }
}
