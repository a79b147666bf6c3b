//! DescribeLogDirs (35): returns the log directories of a broker, and the replicas in each directory with their sizes
//! (KIP-113).
//!
//! * v1: the broker responds before it throttles the client
//! * v2: flexible
//! * v3: top-level error (KIP-784)
//! * v4: total and free size of the volume, without remote storage (KIP-827)
//! * v5: cordoned directories, which get no new replicas (KIP-1066)
//!
//! Errors: CLUSTER_AUTHORIZATION_FAILED (before v3, the response has an empty list instead), KAFKA_STORAGE_ERROR.

use super::ErrorCode;

api! { DescribeLogDirs = 35, 0..=5, flexible 2 }

message! {
    struct Request {
        /// The requested topics, or null for all topics.
        topics: Option<Vec<Topic>> = Some(Vec::new()),
    }
    struct Topic {
        topic: String,
        partitions: Vec<i32>,
    }
    struct Response {
        throttle_time_ms: i32,
        error_code: ErrorCode [3..],
        results: Vec<DirResult>,
    }
    struct DirResult {
        error_code: ErrorCode,
        log_dir: String,
        topics: Vec<TopicResult>,
        total_bytes: i64 [4..] = -1,
        usable_bytes: i64 [4..] = -1,
        is_cordoned: bool [5..],
    }
    struct TopicResult {
        name: String,
        partitions: Vec<PartitionResult>,
    }
    struct PartitionResult {
        partition_index: i32,
        partition_size: i64,
        /// How far the end of the log is below the high watermark. For a future replica, how far the end is below the
        /// end of the current replica.
        offset_lag: i64,
        /// Whether the replica is a future replica, which AlterReplicaLogDirs is copying.
        is_future_key: bool,
    }
}
