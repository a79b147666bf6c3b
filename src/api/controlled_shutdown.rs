//! ControlledShutdown (7): a broker that is about to stop asks the controller of a ZooKeeper cluster to move its
//! leaders elsewhere; it asks again until none remain. Kafka 4.0 removed it.
//! v0 has a request header of its own, without client id, v1 the usual one; v2 broker epoch (KIP-380); v3 flexible.
//! Errors: STALE_CONTROLLER_EPOCH, STALE_BROKER_EPOCH, NOT_CONTROLLER, BROKER_NOT_AVAILABLE,
//! CLUSTER_AUTHORIZATION_FAILED.

use super::ErrorCode;

api! { ControlledShutdown = 7, 0..=3, flexible 3, internal }

message! {
    struct Request {
        broker_id: i32,
        broker_epoch: i64 [2..] = -1,
    }
    struct Response {
        error_code: ErrorCode,
        remaining_partitions: Vec<RemainingPartition>,
    }
    struct RemainingPartition {
        topic_name: String,
        partition_index: i32,
    }
}
