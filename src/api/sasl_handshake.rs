//! SaslHandshake (17): chooses the SASL mechanism of a connection (KIP-43). Java clients up to Kafka 2.4 choose the
//! version incorrectly (KAFKA-9577), so there is no v2 and no flexible version.
//!
//! * v0: the client then sends SASL messages with a length prefix but without a request header
//! * v1: the client then sends SASL messages in SaslAuthenticate (KIP-152)
//!
//! Errors: UNSUPPORTED_SASL_MECHANISM (the response lists the supported mechanisms), ILLEGAL_SASL_STATE.

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
