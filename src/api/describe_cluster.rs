//! DescribeCluster (60): returns the ID, the controller and the nodes of the cluster, without topics (KIP-700).
//!
//! * v1: controllers also serve this API, and return the controllers instead of the brokers (KIP-919)
//! * v2: fenced brokers (KIP-1073)
//!
//! Errors: INVALID_REQUEST; from v1 also MISMATCHED_ENDPOINT_TYPE, UNSUPPORTED_ENDPOINT_TYPE.

use super::ErrorCode;

api! { DescribeCluster = 60, 0..=2, flexible 0 }

/// Endpoint type: brokers.
pub const BROKERS: i8 = 1;
/// Endpoint type: controllers.
pub const CONTROLLERS: i8 = 2;

message! {
    struct Request {
        include_cluster_authorized_operations: bool,
        endpoint_type: i8 [1..] = 1,
        include_fenced_brokers: bool [2..],
    }
    struct Response {
        throttle_time_ms: i32,
        error_code: ErrorCode,
        error_message: Option<String>,
        endpoint_type: i8 [1..] = 1,
        cluster_id: String,
        /// The controller's ID. A KRaft broker returns the ID of any live broker, because clients cannot reach the
        /// controllers.
        controller_id: i32 = -1,
        brokers: Vec<Broker>,
        /// A bit for each operation that the client may perform, or `i32::MIN` if not requested.
        cluster_authorized_operations: i32 = i32::MIN,
    }
    struct Broker {
        broker_id: i32,
        host: String,
        port: i32,
        rack: Option<String>,
        is_fenced: bool [2..],
    }
}
