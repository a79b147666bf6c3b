//! SaslAuthenticate (36): carries a token of the SASL mechanism that SaslHandshake v1 chose (KIP-152).
//! v1 session lifetime, before whose end a client has to do it again (KIP-368); v2 flexible.
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
        /// 0 for no end.
        session_lifetime_ms: i64 [1..],
    }
}
