//! LeaderAndIsr (4): the controller of a ZooKeeper cluster tells a broker which partitions the broker leads or follows.
//! Kafka 4.0 removed LeaderAndIsr.
//!
//! * v1: `is_new`
//! * v2: broker epoch (KIP-380); partitions grouped by topic
//! * v3: replicas that a reassignment adds and removes (KIP-455)
//! * v4: flexible
//! * v5: topic IDs, and whether the list of partitions is complete (KIP-516)
//! * v6: recovery after an unclean election (KIP-704)
//! * v7: KRaft controllers (KIP-866)
//!
//! Errors of a request or a partition: STALE_CONTROLLER_EPOCH, STALE_BROKER_EPOCH, CLUSTER_AUTHORIZATION_FAILED. Errors
//! of a partition only: UNKNOWN_TOPIC_OR_PARTITION, INCONSISTENT_TOPIC_ID, KAFKA_STORAGE_ERROR.

use super::ErrorCode;
use crate::wire::Uuid;

api! { LeaderAndIsr = 4, 0..=7, flexible 4, internal }

message! {
    struct Request {
        controller_id: i32,
        is_k_raft_controller: bool [7..],
        controller_epoch: i32,
        broker_epoch: i64 [2..] = -1,
        /// The content of the request: 0 unknown, 1 some topics, 2 all topics of the broker.
        r#type: i8 [5..],
        ungrouped_partition_states: Vec<PartitionState> [0..=1],
        topic_states: Vec<TopicState> [2..],
        live_leaders: Vec<LiveLeader>,
    }
    struct TopicState {
        topic_name: String,
        topic_id: Uuid [5..],
        partition_states: Vec<PartitionState>,
    }
    struct PartitionState {
        topic_name: String [0..=1],
        partition_index: i32,
        controller_epoch: i32,
        leader: i32,
        leader_epoch: i32,
        isr: Vec<i32>,
        /// The version of the partition's node in ZooKeeper.
        partition_epoch: i32,
        replicas: Vec<i32>,
        adding_replicas: Vec<i32> [3..],
        removing_replicas: Vec<i32> [3..],
        /// Whether the broker has to create the replica. Otherwise the replica exists.
        is_new: bool [1..],
        leader_recovery_state: i8 [6..],
    }
    struct LiveLeader {
        broker_id: i32,
        host_name: String,
        port: i32,
    }
    struct Response {
        error_code: ErrorCode,
        partition_errors: Vec<PartitionError> [0..=4],
        topics: Vec<TopicError> [5..],
    }
    struct TopicError {
        topic_id: Uuid,
        partition_errors: Vec<PartitionError>,
    }
    struct PartitionError {
        topic_name: String [0..=4],
        partition_index: i32,
        error_code: ErrorCode,
    }
}
