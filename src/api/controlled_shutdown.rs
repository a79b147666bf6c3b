//! ControlledShutdown (7): a broker that shuts down asks the controller of a ZooKeeper cluster to move the broker's
//! leaderships to other brokers. The broker repeats the request until it leads no partition. Kafka 4.0 removed this
//! API.
//!
//! * v0: a request header without client ID
//! * v1: the usual request header
//! * v2: broker epoch (KIP-380)
//! * v3: flexible
//!
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
