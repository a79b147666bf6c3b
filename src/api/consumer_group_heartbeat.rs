//! ConsumerGroupHeartbeat (68): a member joins, stays in or leaves a consumer group, and receives its assignment
//! (KIP-848). The group coordinator handles ConsumerGroupHeartbeat. Fields that did not change since the last heartbeat
//! are null or -1.
//!
//! * v1: subscription by regular expression; members choose their own IDs (KIP-1082)
//!
//! Errors: GROUP_AUTHORIZATION_FAILED, TOPIC_AUTHORIZATION_FAILED, NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE,
//! COORDINATOR_LOAD_IN_PROGRESS, INVALID_REQUEST, GROUP_ID_NOT_FOUND, UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH,
//! UNSUPPORTED_ASSIGNOR, UNRELEASED_INSTANCE_ID, GROUP_MAX_SIZE_REACHED, INVALID_REGULAR_EXPRESSION.

use super::ErrorCode;
use crate::wire::Uuid;

api! { ConsumerGroupHeartbeat = 68, 0..=1, flexible 0 }

/// Member epoch of a member that joins.
pub const JOIN: i32 = 0;
/// Member epoch of a member that leaves.
pub const LEAVE: i32 = -1;
/// Member epoch of a static member that leaves and will return.
pub const LEAVE_STATIC: i32 = -2;

message! {
    struct Request {
        group_id: String,
        /// The member ID, which stays the same for the life of the process.
        member_id: String,
        member_epoch: i32,
        instance_id: Option<String>,
        rack_id: Option<String>,
        /// How long the coordinator waits until the member has released its revoked partitions.
        rebalance_timeout_ms: i32 = -1,
        subscribed_topic_names: Option<Vec<String>>,
        subscribed_topic_regex: Option<String> [1..],
        server_assignor: Option<String>,
        /// The partitions that the member owns.
        topic_partitions: Option<Vec<TopicPartitions>>,
    }
    struct TopicPartitions {
        topic_id: Uuid,
        partitions: Vec<i32>,
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
}
