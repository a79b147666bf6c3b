//! Fetch (1): reads record batches. The broker can delay the response until enough new records have arrived.
//!
//! * v1: throttle time in the response
//! * v2: message format 1
//! * v3: `max_bytes` for the whole response (KIP-74)
//! * v4: isolation level and record batches (KIP-98)
//! * v5: log start offset
//! * v6: KAFKA_STORAGE_ERROR
//! * v7: sessions (KIP-227)
//! * v8: the broker responds before it throttles the client
//! * v9: leader epochs (KIP-320)
//! * v10: zstd (KIP-110)
//! * v11: fetching from the nearest replica (KIP-392)
//! * v12: flexible; diverging epochs (KIP-595)
//! * v13: topic IDs (KIP-516)
//! * v14: OFFSET_MOVED_TO_TIERED_STORAGE (KIP-405)
//! * v15: replica state (KIP-903)
//! * v16: endpoint of the new leader (KIP-951)
//! * v17: directory IDs (KIP-853)
//! * v18: high watermark (KIP-1166)
//!
//! Errors: OFFSET_OUT_OF_RANGE, UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, REPLICA_NOT_AVAILABLE,
//! TOPIC_AUTHORIZATION_FAILED, UNSUPPORTED_COMPRESSION_TYPE, CORRUPT_MESSAGE, KAFKA_STORAGE_ERROR,
//! FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH,
//! OFFSET_NOT_AVAILABLE, UNKNOWN_TOPIC_ID, INCONSISTENT_TOPIC_ID, FETCH_SESSION_TOPIC_ID_ERROR.

use super::ErrorCode;
use crate::wire::Uuid;
use bytes::Bytes;

api! { Fetch = 1, 0..=18, flexible 12 }

message! {
    struct Request {
        cluster_id: Option<String> [12.., tag 0],
        replica_id: i32 [0..=14] = -1,
        replica_state: ReplicaState [15.., tag 1],
        max_wait_ms: i32,
        min_bytes: i32,
        max_bytes: i32 [3..] = i32::MAX,
        isolation_level: i8 [4..],
        session_id: i32 [7..],
        session_epoch: i32 [7..] = -1,
        topics: Vec<Topic>,
        forgotten_topics_data: Vec<ForgottenTopic> [7..],
        rack_id: String [11..],
    }
    struct ReplicaState {
        replica_id: i32 = -1,
        replica_epoch: i64 = -1,
    }
    struct Topic {
        topic: String [0..=12],
        topic_id: Uuid [13..],
        partitions: Vec<Partition>,
    }
    struct Partition {
        partition: i32,
        current_leader_epoch: i32 [9..] = -1,
        fetch_offset: i64,
        last_fetched_epoch: i32 [12..] = -1,
        log_start_offset: i64 [5..] = -1,
        partition_max_bytes: i32,
        replica_directory_id: Uuid [17.., tag 0],
        high_watermark: i64 [18.., tag 1] = i64::MAX,
    }
    struct ForgottenTopic {
        topic: String [7..=12],
        topic_id: Uuid [13..],
        partitions: Vec<i32>,
    }
    struct Response {
        throttle_time_ms: i32 [1..],
        error_code: ErrorCode [7..],
        session_id: i32 [7..],
        responses: Vec<TopicResponse>,
        node_endpoints: Vec<NodeEndpoint> [16.., tag 0],
    }
    struct TopicResponse {
        topic: String [0..=12],
        topic_id: Uuid [13..],
        partitions: Vec<PartitionResponse>,
    }
    struct PartitionResponse {
        partition_index: i32,
        error_code: ErrorCode,
        high_watermark: i64,
        last_stable_offset: i64 [4..] = -1,
        log_start_offset: i64 [5..] = -1,
        diverging_epoch: EpochEndOffset [12.., tag 0],
        current_leader: LeaderIdAndEpoch [12.., tag 1],
        snapshot_id: SnapshotId [12.., tag 2],
        aborted_transactions: Option<Vec<AbortedTransaction>> [4..] = Some(Vec::new()),
        preferred_read_replica: i32 [11..] = -1,
        records: Option<Bytes>,
    }
    struct EpochEndOffset {
        epoch: i32 = -1,
        end_offset: i64 = -1,
    }
    struct LeaderIdAndEpoch {
        leader_id: i32 = -1,
        leader_epoch: i32 = -1,
    }
    struct SnapshotId {
        end_offset: i64 = -1,
        epoch: i32 = -1,
    }
    struct AbortedTransaction {
        producer_id: i64,
        first_offset: i64,
    }
    struct NodeEndpoint {
        node_id: i32,
        host: String,
        port: i32,
        rack: Option<String>,
    }
}
