//! BrokerHeartbeat (63): a broker reports to the controller that it is alive and how much of the metadata log it has
//! read (KIP-631). The request also says whether the broker wants to serve clients or to shut down.
//!
//! * v1: failed log directories (KIP-858)
//! * v2: cordoned log directories (KIP-1066)
//!
//! Errors: CLUSTER_AUTHORIZATION_FAILED, NOT_CONTROLLER, STALE_BROKER_EPOCH.

use super::ErrorCode;
use crate::wire::Uuid;

api! { BrokerHeartbeat = 63, 0..=2, flexible 0, internal }

message! {
    struct Request {
        broker_id: i32,
        broker_epoch: i64 = -1,
        current_metadata_offset: i64,
        want_fence: bool,
        want_shut_down: bool,
        offline_log_dirs: Vec<Uuid> [1.., tag 0],
        /// Directories that accept no new partitions. Null until the broker has started its recovery.
        cordoned_log_dirs: Option<Vec<Uuid>> [2.., tag 1],
    }
    struct Response {
        throttle_time_ms: i32,
        error_code: ErrorCode,
        is_caught_up: bool,
        is_fenced: bool = true,
        should_shut_down: bool,
    }
}
