//! AlterReplicaLogDirs (34): moves replicas of one broker to other log directories (KIP-113). Clients send
//! AlterReplicaLogDirs to the broker that has the replicas. The broker keeps serving the replicas while it copies them.
//!
//! * v1: the broker responds before it throttles the client
//! * v2: flexible
//!
//! Errors: UNKNOWN_TOPIC_OR_PARTITION, REPLICA_NOT_AVAILABLE, INVALID_TOPIC_EXCEPTION, CLUSTER_AUTHORIZATION_FAILED,
//! KAFKA_STORAGE_ERROR, LOG_DIR_NOT_FOUND.

use super::ErrorCode;

api! { AlterReplicaLogDirs = 34, 0..=2, flexible 2 }

message! {
    struct Request {
        dirs: Vec<Dir>,
    }
    struct Dir {
        path: String,
        topics: Vec<Topic>,
    }
    struct Topic {
        name: String,
        partitions: Vec<i32>,
    }
    struct Response {
        throttle_time_ms: i32,
        results: Vec<TopicResult>,
    }
    struct TopicResult {
        topic_name: String,
        partitions: Vec<PartitionResult>,
    }
    struct PartitionResult {
        partition_index: i32,
        error_code: ErrorCode,
    }
}
