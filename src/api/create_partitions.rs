//! CreatePartitions (37): adds partitions to topics (KIP-195). The controller handles CreatePartitions.
//!
//! * v1: the broker responds before it throttles the client
//! * v2: flexible
//! * v3: THROTTLING_QUOTA_EXCEEDED (KIP-599)
//!
//! Errors: UNKNOWN_TOPIC_OR_PARTITION, REQUEST_TIMED_OUT, INVALID_TOPIC_EXCEPTION, TOPIC_AUTHORIZATION_FAILED,
//! INVALID_PARTITIONS, INVALID_REPLICA_ASSIGNMENT, NOT_CONTROLLER, INVALID_REQUEST, POLICY_VIOLATION,
//! REASSIGNMENT_IN_PROGRESS, THROTTLING_QUOTA_EXCEEDED.

use super::ErrorCode;

api! { CreatePartitions = 37, 0..=3, flexible 2 }

message! {
    struct Request {
        topics: Vec<Topic>,
        timeout_ms: i32,
        validate_only: bool,
    }
    struct Topic {
        name: String,
        /// The number of old and new partitions together.
        count: i32,
        /// The replicas of each new partition. With null, the controller chooses the replicas.
        assignments: Option<Vec<Assignment>> = Some(Vec::new()),
    }
    struct Assignment {
        broker_ids: Vec<i32>,
    }
    struct Response {
        throttle_time_ms: i32,
        results: Vec<TopicResult>,
    }
    struct TopicResult {
        name: String,
        error_code: ErrorCode,
        error_message: Option<String>,
    }
}
