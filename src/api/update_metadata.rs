//! UpdateMetadata (6): the controller of a ZooKeeper cluster sends a broker the metadata that the broker returns to
//! clients. Kafka 4.0 removed UpdateMetadata.
//!
//! * v1: several endpoints for each broker (KIP-2)
//! * v2: racks (KIP-36)
//! * v3: listener names (KIP-103)
//! * v4: offline replicas (KIP-112)
//! * v5: broker epoch (KIP-380); partitions grouped by topic
//! * v6: flexible
//! * v7: topic IDs (KIP-516)
//! * v8: KRaft controllers (KIP-866)
//!
//! Errors: STALE_CONTROLLER_EPOCH, STALE_BROKER_EPOCH, CLUSTER_AUTHORIZATION_FAILED.

use super::ErrorCode;
use crate::wire::Uuid;

api! { UpdateMetadata = 6, 0..=8, flexible 6, internal }

message! {
    struct Request {
        controller_id: i32,
        is_k_raft_controller: bool [8..],
        controller_epoch: i32,
        broker_epoch: i64 [5..] = -1,
        ungrouped_partition_states: Vec<PartitionState> [0..=4],
        topic_states: Vec<TopicState> [5..],
        live_brokers: Vec<Broker>,
        /// The type of the request: 0 unknown, 1 only changed metadata, 2 all metadata.
        r#type: i8 [8.., tag 0],
    }
    struct TopicState {
        topic_name: String,
        topic_id: Uuid [7..],
        partition_states: Vec<PartitionState>,
    }
    struct PartitionState {
        topic_name: String [0..=4],
        partition_index: i32,
        controller_epoch: i32,
        leader: i32,
        leader_epoch: i32,
        isr: Vec<i32>,
        zk_version: i32,
        replicas: Vec<i32>,
        offline_replicas: Vec<i32> [4..],
    }
    struct Broker {
        id: i32,
        v0_host: String [0..=0],
        v0_port: i32 [0..=0],
        endpoints: Vec<Endpoint> [1..],
        rack: Option<String> [2..] = Some(String::new()),
    }
    struct Endpoint {
        port: i32,
        host: String,
        listener: String [3..],
        /// 0 PLAINTEXT, 1 SSL, 2 SASL_PLAINTEXT, 3 SASL_SSL.
        security_protocol: i16,
    }
    struct Response {
        error_code: ErrorCode,
    }
}
