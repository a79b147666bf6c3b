//! Envelope (58): a broker forwards a client's request to the controller, together with the client's principal
//! (KIP-590).
//!
//! Errors: CLUSTER_AUTHORIZATION_FAILED, NOT_CONTROLLER, INVALID_REQUEST, UNSUPPORTED_VERSION,
//! PRINCIPAL_DESERIALIZATION_FAILURE.

use super::ErrorCode;
use bytes::Bytes;

api! { Envelope = 58, 0..=0, flexible 0, internal }

message! {
    struct Request {
        /// The header and the body of the client's request.
        request_data: Bytes,
        /// The client's principal, which the broker's principal builder has serialized.
        request_principal: Option<Bytes> = Some(Bytes::new()),
        /// The client's IP address, 4 or 16 bytes.
        client_host_address: Bytes,
    }
    struct Response {
        /// The header and the body of the response, or null if the controller rejected the envelope.
        response_data: Option<Bytes>,
        error_code: ErrorCode,
    }
}
