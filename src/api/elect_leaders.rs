//! ElectLeaders (43): makes the preferred replica of each given partition the leader (KIP-183), or another replica in an
//! unclean election. The controller handles ElectLeaders.
//!
//! * v1: unclean elections, top-level error (KIP-460)
//! * v2: flexible
//!
//! Errors of a request: CLUSTER_AUTHORIZATION_FAILED, NOT_CONTROLLER, REQUEST_TIMED_OUT. Errors of a partition:
//! UNKNOWN_TOPIC_OR_PARTITION, LEADER_NOT_AVAILABLE, INVALID_TOPIC_EXCEPTION, INVALID_REQUEST,
//! PREFERRED_LEADER_NOT_AVAILABLE, ELIGIBLE_LEADERS_NOT_AVAILABLE, ELECTION_NOT_NEEDED.

use super::ErrorCode;

api! { ElectLeaders = 43, 0..=2, flexible 2 }

/// Election of the preferred replica, which is the first replica of the partition.
pub const PREFERRED: i8 = 0;
/// Election of any live replica if no replica is in sync. Records may be lost.
pub const UNCLEAN: i8 = 1;

message! {
    struct Request {
        election_type: i8 [1..],
        /// The requested partitions, or null for all partitions.
        topic_partitions: Option<Vec<TopicPartitions>> = Some(Vec::new()),
        timeout_ms: i32 = 60_000,
    }
    struct TopicPartitions {
        topic: String,
        partitions: Vec<i32>,
    }
    struct Response {
        throttle_time_ms: i32,
        error_code: ErrorCode [1..],
        replica_election_results: Vec<TopicResult>,
    }
    struct TopicResult {
        topic: String,
        partition_result: Vec<PartitionResult>,
    }
    struct PartitionResult {
        partition_id: i32,
        error_code: ErrorCode,
        error_message: Option<String> = Some(String::new()),
    }
}
