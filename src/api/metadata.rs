//! Metadata (3): returns the brokers, the topics, and the partitions with their leaders.
//!
//! * v0: an empty list requests all topics
//! * v1: racks, controller, internal topics; null requests all topics
//! * v2: cluster ID
//! * v3: throttle time in the response
//! * v4: `allow_auto_topic_creation`
//! * v5: offline replicas
//! * v6: the broker responds before it throttles the client
//! * v7: leader epochs (KIP-320)
//! * v8: authorized operations (KIP-430)
//! * v9: flexible
//! * v10: topic IDs in the response (KIP-516); requests can contain topic IDs from v12 on
//! * v11: without authorized operations of the cluster (KIP-700)
//! * v13: top-level error (KIP-1102)
//!
//! Errors: UNKNOWN_TOPIC_OR_PARTITION, LEADER_NOT_AVAILABLE, INVALID_TOPIC_EXCEPTION, TOPIC_AUTHORIZATION_FAILED,
//! REPLICA_NOT_AVAILABLE, UNKNOWN_TOPIC_ID, REBOOTSTRAP_REQUIRED.

use super::ErrorCode;
use crate::wire::Uuid;

api! { Metadata = 3, 0..=13, flexible 9 }

message! {
    struct Request {
        topics: Option<Vec<TopicRequest>> [null 1..] = Some(Vec::new()),
        allow_auto_topic_creation: bool [4..] = true,
        include_cluster_authorized_operations: bool [8..=10],
        include_topic_authorized_operations: bool [8..],
    }
    struct TopicRequest {
        topic_id: Uuid [10..],
        name: Option<String> [null 10..] = Some(String::new()),
    }
    struct Response {
        throttle_time_ms: i32 [3..],
        brokers: Vec<Broker>,
        cluster_id: Option<String> [2..],
        controller_id: i32 [1..] = -1,
        topics: Vec<Topic>,
        cluster_authorized_operations: i32 [8..=10] = i32::MIN,
        error_code: ErrorCode [13..],
    }
    struct Broker {
        node_id: i32,
        host: String,
        port: i32,
        rack: Option<String> [1..],
    }
    struct Topic {
        error_code: ErrorCode,
        name: Option<String> [null 12..] = Some(String::new()),
        topic_id: Uuid [10..],
        is_internal: bool [1..],
        partitions: Vec<Partition>,
        topic_authorized_operations: i32 [8..] = i32::MIN,
    }
    struct Partition {
        error_code: ErrorCode,
        partition_index: i32,
        leader_id: i32,
        leader_epoch: i32 [7..] = -1,
        replica_nodes: Vec<i32>,
        isr_nodes: Vec<i32>,
        offline_replicas: Vec<i32> [5..],
    }
}
