//! DeleteTopics (20): deletes topics. The controller handles DeleteTopics.
//!
//! * v1: throttle time in the response
//! * v2: the broker responds before it throttles the client
//! * v3: TOPIC_DELETION_DISABLED
//! * v4: flexible
//! * v5: error messages and THROTTLING_QUOTA_EXCEEDED (KIP-599)
//! * v6: topics by name or by ID (KIP-516)
//!
//! Errors: UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION, TOPIC_DELETION_DISABLED, NOT_CONTROLLER,
//! REQUEST_TIMED_OUT, TOPIC_AUTHORIZATION_FAILED, THROTTLING_QUOTA_EXCEEDED, UNKNOWN_TOPIC_ID, UNSUPPORTED_VERSION.

use super::ErrorCode;
use crate::wire::Uuid;

api! { DeleteTopics = 20, 0..=6, flexible 4 }

message! {
    struct Request {
        topics: Vec<Topic> [6..],
        topic_names: Vec<String> [0..=5],
        timeout_ms: i32,
    }
    struct Topic {
        name: Option<String>,
        topic_id: Uuid,
    }
    struct Response {
        throttle_time_ms: i32 [1..],
        responses: Vec<TopicResult>,
    }
    struct TopicResult {
        name: Option<String> [null 6..] = Some(String::new()),
        topic_id: Uuid [6..],
        error_code: ErrorCode,
        error_message: Option<String> [5..],
    }
}
