//! DeleteShareGroupOffsets (92): deletes the offsets of topics in a share group that has no members (KIP-932). The
//! group coordinator handles DeleteShareGroupOffsets.
//!
//! Errors: GROUP_AUTHORIZATION_FAILED, TOPIC_AUTHORIZATION_FAILED, NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE,
//! COORDINATOR_LOAD_IN_PROGRESS, GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP, UNKNOWN_TOPIC_OR_PARTITION, KAFKA_STORAGE_ERROR,
//! INVALID_REQUEST, UNKNOWN_SERVER_ERROR.

use super::ErrorCode;
use crate::wire::Uuid;

api! { DeleteShareGroupOffsets = 92, 0..=0, flexible 0 }

message! {
    struct Request {
        group_id: String,
        topics: Vec<Topic>,
    }
    struct Topic {
        topic_name: String,
    }
    struct Response {
        throttle_time_ms: i32,
        error_code: ErrorCode,
        error_message: Option<String>,
        responses: Vec<TopicResponse>,
    }
    struct TopicResponse {
        topic_name: String,
        topic_id: Uuid,
        error_code: ErrorCode,
        error_message: Option<String>,
    }
}
