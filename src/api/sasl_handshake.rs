//! SaslHandshake (17): chooses the SASL mechanism of a connection (KIP-43).
//! v0: the mechanism's tokens follow bare, each behind its length; v1: they travel in SaslAuthenticate (KIP-152).
//! Clients up to 2.4 pick a version the wrong way (KAFKA-9577), so there is no v2, nor a flexible version.
//! Errors: UNSUPPORTED_SASL_MECHANISM (the response lists those there are), ILLEGAL_SASL_STATE.

use super::ErrorCode;

api! { SaslHandshake = 17, 0..=1 }

message! {
    struct Request {
        mechanism: String,
    }
    struct Response {
        error_code: ErrorCode,
        mechanisms: Vec<String>,
    }
}
