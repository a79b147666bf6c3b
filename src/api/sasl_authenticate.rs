//! SaslAuthenticate (36): carries a message of the SASL mechanism that SaslHandshake v1 chose (KIP-152).
//!
//! * v1: lifetime of the session; the client must authenticate again before the session ends (KIP-368)
//! * v2: flexible
//!
//! Errors: SASL_AUTHENTICATION_FAILED, ILLEGAL_SASL_STATE.

use super::ErrorCode;
use bytes::Bytes;

api! { SaslAuthenticate = 36, 0..=2, flexible 2 }

message! {
    struct Request {
        auth_bytes: Bytes,
    }
    struct Response {
        error_code: ErrorCode,
        error_message: Option<String> = Some(String::new()),
        auth_bytes: Bytes,
        /// The lifetime of the session, or 0 if the session does not end.
        session_lifetime_ms: i64 [1..],
    }
}
