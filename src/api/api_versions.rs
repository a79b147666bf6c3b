//! ApiVersions (18): returns the APIs and versions that a broker supports. ApiVersions is the first request on a
//! connection.
//!
//! * v1: throttle time in the response
//! * v2: the broker responds before it throttles the client
//! * v3: flexible, software name and features (KIP-511, KIP-584)
//! * v4: features may start at version 0
//! * v5: the broker checks the cluster ID and the node ID that the client expects (KIP-1242)
//!
//! Errors: UNSUPPORTED_VERSION (in that case the body of the response has version 0), INVALID_REQUEST,
//! REBOOTSTRAP_REQUIRED.

use super::ErrorCode;

api! { ApiVersions = 18, 0..=5, flexible 3 }

message! {
    struct Request {
        client_software_name: String [3..],
        client_software_version: String [3..],
        cluster_id: Option<String> [5..],
        node_id: i32 [5..] = -1,
    }
    struct Response {
        error_code: ErrorCode,
        api_keys: Vec<ApiVersion>,
        throttle_time_ms: i32 [1..],
        supported_features: Vec<SupportedFeature> [3.., tag 0],
        finalized_features_epoch: i64 [3.., tag 1] = -1,
        finalized_features: Vec<FinalizedFeature> [3.., tag 2],
        zk_migration_ready: bool [3.., tag 3],
    }
    /// The versions of one API that a broker supports.
    struct ApiVersion {
        api_key: i16,
        min_version: i16,
        max_version: i16,
    }
    struct SupportedFeature {
        name: String,
        min_version: i16,
        max_version: i16,
    }
    struct FinalizedFeature {
        name: String,
        max_version_level: i16,
        min_version_level: i16,
    }
}
