//! AssignReplicasToDirs (73): a broker reports to the controller which replicas are in which log directory (KIP-858).
//!
//! Errors: CLUSTER_AUTHORIZATION_FAILED, NOT_CONTROLLER, STALE_BROKER_EPOCH, BROKER_ID_NOT_REGISTERED,
//! UNSUPPORTED_VERSION, UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER (the broker has no replica
//! of the partition).

use super::ErrorCode;
use crate::wire::Uuid;

api! { AssignReplicasToDirs = 73, 0..=0, flexible 0, internal }

message! {
    struct Request {
        broker_id: i32,
        broker_epoch: i64 = -1,
        directories: Vec<Directory>,
    }
    struct Directory {
        id: Uuid,
        topics: Vec<Topic>,
    }
    struct Topic {
        topic_id: Uuid,
        partitions: Vec<Partition>,
    }
    struct Partition {
        partition_index: i32,
    }
    struct Response {
        throttle_time_ms: i32,
        error_code: ErrorCode,
        directories: Vec<DirectoryResponse>,
    }
    struct DirectoryResponse {
        id: Uuid,
        topics: Vec<TopicResponse>,
    }
    struct TopicResponse {
        topic_id: Uuid,
        partitions: Vec<PartitionResponse>,
    }
    struct PartitionResponse {
        partition_index: i32,
        error_code: ErrorCode,
    }
}
