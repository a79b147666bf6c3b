//! DescribeDelegationToken (41): returns the delegation tokens of given owners, except those that the client may not
//! see (KIP-48).
//!
//! * v1: the broker responds before it throttles the client
//! * v2: flexible
//! * v3: the user who requested the token (KIP-373)
//!
//! Errors: DELEGATION_TOKEN_AUTH_DISABLED, DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, DELEGATION_TOKEN_AUTHORIZATION_FAILED,
//! UNSUPPORTED_VERSION.

use super::ErrorCode;
use bytes::Bytes;

api! { DescribeDelegationToken = 41, 0..=3, flexible 2 }

message! {
    struct Request {
        /// The owners of the requested tokens, or null for all owners.
        owners: Option<Vec<Principal>> = Some(Vec::new()),
    }
    struct Principal {
        principal_type: String,
        principal_name: String,
    }
    struct Response {
        error_code: ErrorCode,
        tokens: Vec<Token>,
        throttle_time_ms: i32,
    }
    struct Token {
        principal_type: String,
        principal_name: String,
        token_requester_principal_type: String [3..],
        token_requester_principal_name: String [3..],
        issue_timestamp: i64,
        expiry_timestamp: i64,
        max_timestamp: i64,
        token_id: String,
        hmac: Bytes,
        renewers: Vec<Principal>,
    }
}
