//! AlterUserScramCredentials (51): sets and deletes SCRAM credentials (KIP-554). The client salts and hashes the
//! password, so the broker never receives it.
//!
//! Errors: CLUSTER_AUTHORIZATION_FAILED, NOT_CONTROLLER, UNSUPPORTED_SASL_MECHANISM, UNACCEPTABLE_CREDENTIAL,
//! RESOURCE_NOT_FOUND, DUPLICATE_RESOURCE, UNSUPPORTED_VERSION.

use super::ErrorCode;
use bytes::Bytes;

api! { AlterUserScramCredentials = 51, 0..=0, flexible 0 }

/// Mechanism SCRAM-SHA-256.
pub const SCRAM_SHA_256: i8 = 1;
/// Mechanism SCRAM-SHA-512.
pub const SCRAM_SHA_512: i8 = 2;

message! {
    struct Request {
        deletions: Vec<Deletion>,
        upsertions: Vec<Upsertion>,
    }
    struct Deletion {
        name: String,
        mechanism: i8,
    }
    struct Upsertion {
        name: String,
        mechanism: i8,
        /// Brokers accept values from 4,096 to 16,384.
        iterations: i32,
        salt: Bytes,
        salted_password: Bytes,
    }
    struct Response {
        throttle_time_ms: i32,
        /// One result for each user, even if a user has several changes.
        results: Vec<UserResult>,
    }
    struct UserResult {
        user: String,
        error_code: ErrorCode,
        error_message: Option<String> = Some(String::new()),
    }
}
