//! AlterPartition (56): the partition leader asks the controller to change the in-sync replicas (KIP-497). KIP-497
//! calls this API AlterIsr.
//!
//! * v1: recovery from an unclean election (KIP-704)
//! * v2: topic IDs instead of names; new errors INELIGIBLE_REPLICA, NEW_LEADER_ELECTED, UNKNOWN_TOPIC_ID (KIP-841)
//! * v3: broker epochs of the replicas (KIP-903)
//!
//! Errors: CLUSTER_AUTHORIZATION_FAILED, NOT_CONTROLLER, STALE_BROKER_EPOCH, UNKNOWN_TOPIC_OR_PARTITION,
//! UNKNOWN_TOPIC_ID, FENCED_LEADER_EPOCH, INVALID_UPDATE_VERSION, INVALID_REQUEST, INELIGIBLE_REPLICA,
//! NEW_LEADER_ELECTED, OPERATION_NOT_ATTEMPTED.

use super::ErrorCode;
use crate::wire::Uuid;

api! { AlterPartition = 56, 0..=3, flexible 0, internal }

message! {
    struct Request {
        broker_id: i32,
        broker_epoch: i64 = -1,
        topics: Vec<Topic>,
    }
    struct Topic {
        topic_name: String [0..=1],
        topic_id: Uuid [2..],
        partitions: Vec<Partition>,
    }
    struct Partition {
        partition_index: i32,
        leader_epoch: i32,
        new_isr: Vec<i32> [0..=2],
        new_isr_with_epochs: Vec<BrokerState> [3..],
        /// 0 normally, 1 while the leader recovers from an unclean election.
        leader_recovery_state: i8 [1..],
        /// The partition epoch on which this change is based.
        partition_epoch: i32,
    }
    struct BrokerState {
        broker_id: i32,
        /// The epoch of the replica's broker, or -1 if the controller must not check it.
        broker_epoch: i64 = -1,
    }
    struct Response {
        throttle_time_ms: i32,
        error_code: ErrorCode,
        topics: Vec<TopicResponse>,
    }
    struct TopicResponse {
        topic_name: String [0..=1],
        topic_id: Uuid [2..],
        partitions: Vec<PartitionResponse>,
    }
    struct PartitionResponse {
        partition_index: i32,
        error_code: ErrorCode,
        leader_id: i32,
        leader_epoch: i32,
        isr: Vec<i32>,
        leader_recovery_state: i8 [1..],
        partition_epoch: i32,
    }
}
