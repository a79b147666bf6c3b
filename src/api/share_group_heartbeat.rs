//! ShareGroupHeartbeat (76): a member joins, stays in or leaves a share group, and receives its assignment (KIP-932).
//! The group coordinator handles ShareGroupHeartbeat. Fields that did not change since the last heartbeat are null.
//!
//! * v0: early access, up to Kafka 4.0
//! * v1: stable; TOPIC_AUTHORIZATION_FAILED
//!
//! Errors: GROUP_AUTHORIZATION_FAILED, TOPIC_AUTHORIZATION_FAILED, NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE,
//! COORDINATOR_LOAD_IN_PROGRESS, GROUP_ID_NOT_FOUND, UNKNOWN_MEMBER_ID, GROUP_MAX_SIZE_REACHED, INVALID_REQUEST.

use super::ErrorCode;
use crate::wire::Uuid;

api! { ShareGroupHeartbeat = 76, 0..=1, flexible 0 }

/// Member epoch of a member that joins.
pub const JOIN: i32 = 0;
/// Member epoch of a member that leaves.
pub const LEAVE: i32 = -1;

message! {
    struct Request {
        group_id: String,
        /// The member ID, which the member chooses and keeps for the life of the process.
        member_id: String,
        member_epoch: i32,
        rack_id: Option<String>,
        subscribed_topic_names: Option<Vec<String>>,
    }
    struct Response {
        throttle_time_ms: i32,
        error_code: ErrorCode,
        error_message: Option<String>,
        member_id: Option<String>,
        member_epoch: i32,
        heartbeat_interval_ms: i32,
        /// The new assignment, or null if the assignment has not changed.
        assignment: Option<Assignment>,
    }
    struct Assignment {
        topic_partitions: Vec<TopicPartitions>,
    }
    struct TopicPartitions {
        topic_id: Uuid,
        partitions: Vec<i32>,
    }
}
