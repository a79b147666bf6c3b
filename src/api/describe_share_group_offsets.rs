//! DescribeShareGroupOffsets (90): returns the start offsets of share groups (KIP-932). The group coordinator handles
//! DescribeShareGroupOffsets.
//!
//! * v1: lag (KIP-1226)
//!
//! Errors: GROUP_AUTHORIZATION_FAILED, TOPIC_AUTHORIZATION_FAILED, NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE,
//! COORDINATOR_LOAD_IN_PROGRESS, GROUP_ID_NOT_FOUND, INVALID_REQUEST, UNKNOWN_SERVER_ERROR.

use super::ErrorCode;
use crate::wire::Uuid;

api! { DescribeShareGroupOffsets = 90, 0..=1, flexible 0 }

message! {
    struct Request {
        groups: Vec<Group>,
    }
    struct Group {
        group_id: String,
        /// The requested topics, or null for all topics.
        topics: Option<Vec<Topic>> = Some(Vec::new()),
    }
    struct Topic {
        topic_name: String,
        partitions: Vec<i32>,
    }
    struct Response {
        throttle_time_ms: i32,
        groups: Vec<GroupResponse>,
    }
    struct GroupResponse {
        group_id: String,
        topics: Vec<TopicResponse>,
        error_code: ErrorCode,
        error_message: Option<String>,
    }
    struct TopicResponse {
        topic_name: String,
        topic_id: Uuid,
        partitions: Vec<PartitionResponse>,
    }
    struct PartitionResponse {
        partition_index: i32,
        start_offset: i64,
        leader_epoch: i32,
        /// The lag of the group in the partition, or -1 if the lag is unknown.
        lag: i64 [1..] = -1,
        error_code: ErrorCode,
        error_message: Option<String>,
    }
}
