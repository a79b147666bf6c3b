//! ShareGroupDescribe (77): describes share groups, their members and assignments (KIP-932). The group coordinator
//! handles ShareGroupDescribe.
//!
//! * v0: early access, up to Kafka 4.0
//! * v1: stable; TOPIC_AUTHORIZATION_FAILED
//!
//! Errors: GROUP_AUTHORIZATION_FAILED, TOPIC_AUTHORIZATION_FAILED, NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE,
//! COORDINATOR_LOAD_IN_PROGRESS, INVALID_GROUP_ID, GROUP_ID_NOT_FOUND, INVALID_REQUEST.

use super::ErrorCode;
use crate::wire::Uuid;

api! { ShareGroupDescribe = 77, 0..=1, flexible 0 }

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
        rack_id: Option<String>,
        member_epoch: i32,
        client_id: String,
        client_host: String,
        subscribed_topic_names: Vec<String>,
        assignment: Assignment,
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
