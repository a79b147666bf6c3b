//! The headers of messages: request headers v0 to v2, response headers v0 and v1.
//!
//! Request header v1 adds the client ID, and v2 adds tagged fields. Response header v1 adds tagged fields. Flexible
//! versions of an API use request header v2 and response header v1. Versions that are not flexible use request header
//! v1 and response header v0. ApiVersions and ControlledShutdown are exceptions. ApiVersions always uses response
//! header v0, because a client reads that response before it knows the broker's versions. ControlledShutdown v0 is
//! older than the client ID, so its request has header v0.

use super::{Info, api_versions, controlled_shutdown};
use crate::wire::{Error, Reader, Reflect, ValueVisitor, Wire, Writer};

message! {
    /// The header of a request.
    struct RequestHeader {
        /// The API key.
        request_api_key: i16,
        /// The version of the body.
        request_api_version: i16,
        /// A number that the response repeats.
        correlation_id: i32,
        /// Name of the client, for logs and quotas.
        client_id: ClientId [1..] = ClientId(Some(String::new())),
    }
    /// The header of a response.
    struct ResponseHeader {
        /// The correlation ID of the request.
        correlation_id: i32,
    }
}
structure! { header RequestHeader: RequestHeader, 0..=2, flexible 2 }
structure! { header ResponseHeader: ResponseHeader, 0..=1, flexible 1 }

/// A client ID. Even in flexible headers, the length of a client ID has 16 bits. A broker can therefore read the header
/// of an ApiVersions request that is newer than the broker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientId(pub Option<String>);

impl Wire for ClientId {
    fn put(&self, w: &mut Writer) {
        let flexible = std::mem::replace(&mut w.flexible, false);
        self.0.put(w);
        w.flexible = flexible;
    }
    fn read(&mut self, r: &mut Reader) -> Result<(), Error> {
        let flexible = std::mem::replace(&mut r.flexible, false);
        let read = self.0.read(r);
        r.flexible = flexible;
        read
    }
}

impl Reflect for ClientId {
    fn shape(&mut self, visit: &mut ValueVisitor<'_>) {
        self.0.shape(visit);
    }
}

/// Returns the version of the request header.
pub fn request_header_version(api: &Info, version: i16) -> i16 {
    match api.is_flexible(version) {
        true => 2,
        false => i16::from((api.key, version) != (controlled_shutdown::API.key, 0)),
    }
}

/// Returns the version of the response header.
pub fn response_header_version(api: &Info, version: i16) -> i16 {
    i16::from(api.key != api_versions::API.key && api.is_flexible(version))
}

impl RequestHeader {
    /// Appends a request header. The writer keeps the version of the body.
    pub fn put(&self, api: &Info, w: &mut Writer) {
        let version = request_header_version(api, self.request_api_version);
        let body = (w.version, w.flexible);
        (w.version, w.flexible) = (version, version == 2);
        Wire::put(self, w);
        (w.version, w.flexible) = body;
    }

    /// Reads a request header and leaves the body. `known` returns the API for a key.
    pub fn get(r: &mut Reader, known: impl Fn(i16) -> Option<&'static Info>) -> Result<Self, Error> {
        // Every header starts with key and version, which determine the rest. A shorter header is always an error.
        let [k0, k1, v0, v1] = r.peek().unwrap_or_default();
        let (key, version) = (i16::from_be_bytes([k0, k1]), i16::from_be_bytes([v0, v1]));
        r.version = known(key).map_or(1, |api| request_header_version(api, version));
        r.flexible = r.version == 2;
        Wire::get(r)
    }
}

/// Reads a response header and returns its correlation ID.
pub fn get_response_header(api: &Info, version: i16, r: &mut Reader) -> Result<i32, Error> {
    r.version = response_header_version(api, version);
    r.flexible = r.version == 1;
    let header = ResponseHeader::get(r).map_err(|e| e.of(api.name, "response header", version))?;
    Ok(header.correlation_id)
}

/// Appends a response header. The writer keeps the version of the body.
pub fn put_response_header(api: &Info, version: i16, correlation_id: i32, w: &mut Writer) {
    let body = (w.version, w.flexible);
    w.version = response_header_version(api, version);
    w.flexible = w.version == 1;
    ResponseHeader { correlation_id }.put(w);
    (w.version, w.flexible) = body;
}
