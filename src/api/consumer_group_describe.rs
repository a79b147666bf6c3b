//! ConsumerGroupDescribe (69): describes consumer groups of the KIP-848 protocol, their members and assignments. The
//! group coordinator handles ConsumerGroupDescribe.
//!
//! * v1: member types (KIP-1099)
//!
//! Errors: GROUP_AUTHORIZATION_FAILED, TOPIC_AUTHORIZATION_FAILED, NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE,
//! COORDINATOR_LOAD_IN_PROGRESS, INVALID_REQUEST, INVALID_GROUP_ID, GROUP_ID_NOT_FOUND.

use super::ErrorCode;
use crate::wire::Uuid;

api! { ConsumerGroupDescribe = 69, 0..=1, flexible 0 }

message! {
    struct Request {
        group_ids: Vec<String>,
        include_authorized_operations: bool,
    }
    struct Response {
        throttle_time_ms: i32,
        groups: Vec<Group>,
    }
    struct Group {
        error_code: ErrorCode,
        error_message: Option<String>,
        group_id: String,
        group_state: String,
        group_epoch: i32,
        assignment_epoch: i32,
        assignor_name: String,
        members: Vec<Member>,
        /// A bit for each operation that the client may perform, or `i32::MIN` if not requested.
        authorized_operations: i32 = i32::MIN,
    }
    struct Member {
        member_id: String,
        instance_id: Option<String>,
        rack_id: Option<String>,
        member_epoch: i32,
        client_id: String,
        client_host: String,
        subscribed_topic_names: Vec<String>,
        subscribed_topic_regex: Option<String>,
        /// The current assignment of the member.
        assignment: Assignment,
        /// The target assignment, which the member has after other members have released the partitions.
        target_assignment: Assignment,
        /// 0 classic, 1 consumer, -1 unknown.
        member_type: i8 [1..] = -1,
    }
    struct Assignment {
        topic_partitions: Vec<TopicPartitions>,
    }
    struct TopicPartitions {
        topic_id: Uuid,
        topic_name: String,
        partitions: Vec<i32>,
    }
}
