//! RenewDelegationToken (39): sets a new expiry time for a token, up to the token's maximum lifetime (KIP-48). The
//! owner or a renewer of the token sends RenewDelegationToken to the controller.
//!
//! * v1: the broker responds before it throttles the client
//! * v2: flexible
//!
//! Errors: DELEGATION_TOKEN_AUTH_DISABLED, DELEGATION_TOKEN_NOT_FOUND, DELEGATION_TOKEN_OWNER_MISMATCH,
//! DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, DELEGATION_TOKEN_EXPIRED, NOT_CONTROLLER, UNSUPPORTED_VERSION.

use super::ErrorCode;
use bytes::Bytes;

api! { RenewDelegationToken = 39, 0..=2, flexible 2 }

message! {
    struct Request {
        hmac: Bytes,
        /// The new lifetime of the token. The value -1 selects the broker's default.
        renew_period_ms: i64,
    }
    struct Response {
        error_code: ErrorCode,
        expiry_timestamp_ms: i64,
        throttle_time_ms: i32,
    }
}
