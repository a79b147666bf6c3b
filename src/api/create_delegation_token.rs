//! CreateDelegationToken (38): creates a token. A client that authenticates with the token over SCRAM acts as the owner
//! of the token (KIP-48). The controller handles CreateDelegationToken.
//!
//! * v1: the broker responds before it throttles the client
//! * v2: flexible
//! * v3: tokens for another user (KIP-373)
//!
//! Errors: INVALID_PRINCIPAL_TYPE, DELEGATION_TOKEN_AUTH_DISABLED, DELEGATION_TOKEN_REQUEST_NOT_ALLOWED (the connection
//! is plaintext, or the client authenticated with a token), DELEGATION_TOKEN_AUTHORIZATION_FAILED, NOT_CONTROLLER,
//! UNSUPPORTED_VERSION.

use super::ErrorCode;
use bytes::Bytes;

api! { CreateDelegationToken = 38, 0..=3, flexible 2 }

message! {
    struct Request {
        /// The type of the owner. If type and name are null, the owner is the user of the connection.
        owner_principal_type: Option<String> [3..] = Some(String::new()),
        owner_principal_name: Option<String> [3..] = Some(String::new()),
        renewers: Vec<Renewer>,
        /// The maximum lifetime. The value -1 selects the broker's maximum.
        max_lifetime_ms: i64,
    }
    struct Renewer {
        principal_type: String,
        principal_name: String,
    }
    struct Response {
        error_code: ErrorCode,
        principal_type: String,
        principal_name: String,
        token_requester_principal_type: String [3..],
        token_requester_principal_name: String [3..],
        issue_timestamp_ms: i64,
        expiry_timestamp_ms: i64,
        max_timestamp_ms: i64,
        /// The token ID, which is the user name for a login. The password is `hmac` in base64.
        token_id: String,
        hmac: Bytes,
        throttle_time_ms: i32,
    }
}
