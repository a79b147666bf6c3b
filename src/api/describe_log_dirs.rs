//! DescribeLogDirs (35): returns the log directories of a broker, and the replicas in them with their sizes (KIP-113).
//!
//! * v1: the broker responds before it throttles the client
//! * v2: flexible
//! * v3: top-level error (KIP-784)
//! * v4: total and free size of the volume, without remote storage (KIP-827)
//! * v5: cordoned directories, which get no new replicas (KIP-1066)
//!
//! Errors: CLUSTER_AUTHORIZATION_FAILED (before v3 an empty list), KAFKA_STORAGE_ERROR.

use super::ErrorCode;

api! { DescribeLogDirs = 35, 0..=5, flexible 2 }

message! {
    struct Request {
        /// Null for all.
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
        /// Distance of the log's end to the high watermark, or for a future replica to the current replica's end.
        offset_lag: i64,
        /// Whether it is the copy that AlterReplicaLogDirs is making.
        is_future_key: bool,
    }
}
