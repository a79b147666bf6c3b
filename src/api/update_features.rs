//! UpdateFeatures (57): sets the finalized levels of features of the cluster, such as `metadata.version` (KIP-584).
//!
//! * v1: types of downgrades, `validate_only` (KIP-778)
//! * v2: one error for all features (KIP-1022)
//!
//! Errors: CLUSTER_AUTHORIZATION_FAILED, NOT_CONTROLLER, INVALID_REQUEST, INVALID_UPDATE_VERSION,
//! FEATURE_UPDATE_FAILED, REQUEST_TIMED_OUT.

use super::ErrorCode;

api! { UpdateFeatures = 57, 0..=2, flexible 0 }

/// Upgrade type: levels may only rise.
pub const UPGRADE: i8 = 1;
/// Upgrade type: a level may fall if no metadata is lost.
pub const SAFE_DOWNGRADE: i8 = 2;
/// Upgrade type: a level may fall even if metadata is lost.
pub const UNSAFE_DOWNGRADE: i8 = 3;

message! {
    struct Request {
        timeout_ms: i32 = 60_000,
        feature_updates: Vec<FeatureUpdate>,
        validate_only: bool [1..],
    }
    struct FeatureUpdate {
        feature: String,
        /// The new level. A value below 1 deletes the level.
        max_version_level: i16,
        allow_downgrade: bool [0..=0],
        upgrade_type: i8 [1..] = 1,
    }
    struct Response {
        throttle_time_ms: i32,
        error_code: ErrorCode,
        error_message: Option<String> = Some(String::new()),
        results: Vec<FeatureResult> [0..=1],
    }
    struct FeatureResult {
        feature: String,
        error_code: ErrorCode,
        error_message: Option<String> = Some(String::new()),
    }
}
