//! What goes before a body: request headers v0 to v2, response headers v0 and v1, and their exceptions.
//!
//! Request header 1 adds the client id, 2 adds tagged fields; response header 1 adds tagged fields. Flexible versions
//! of an API use the flexible headers, others request header 1 and response header 0. The exceptions: ApiVersions
//! answers with header 0 in every version, because a client reads that answer before it knows which versions the
//! broker speaks, and ControlledShutdown v0 is older than the client id, so its request has header 0.

use super::{Info, api_versions, controlled_shutdown};
use crate::wire::{Error, Look, Reader, Reason, Reflect, Wire, Writer};

message! {
    /// What a broker reads before a request body.
    struct RequestHeader {
        /// The API.
        request_api_key: i16,
        /// The version of the body.
        request_api_version: i16,
        /// Comes back in the response.
        correlation_id: i32,
        /// Who asks, for logs and quotas.
        client_id: ClientId [1..] = ClientId(Some(String::new())),
    }
    /// What a client reads before a response body.
    struct ResponseHeader {
        /// That of the request.
        correlation_id: i32,
    }
}
structure! { header RequestHeader: RequestHeader, 0..=2, flexible 2 }
structure! { header ResponseHeader: ResponseHeader, 0..=1, flexible 1 }

/// A client's name, whose length keeps 16 bits in flexible headers: a broker must be able to read the header of an
/// ApiVersions request that is newer than it.
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
    fn shape(&mut self, look: &mut Look<'_>) {
        self.0.shape(look);
    }
}

/// The request header's version for a body.
pub fn request_header_version(api: &Info, version: i16) -> i16 {
    match api.is_flexible(version) {
        true => 2,
        false => i16::from((api.key, version) != (controlled_shutdown::API.key, 0)),
    }
}

/// The response header's version for a body.
pub fn response_header_version(api: &Info, version: i16) -> i16 {
    i16::from(api.key != api_versions::API.key && api.is_flexible(version))
}

impl RequestHeader {
    /// Appends the header that fits the API's version; the writer stays that of the body.
    pub fn put(&self, api: &Info, w: &mut Writer) {
        let version = request_header_version(api, self.request_api_version);
        let body = (w.version, w.flexible);
        (w.version, w.flexible) = (version, version == 2);
        Wire::put(self, w);
        (w.version, w.flexible) = body;
    }

    /// Takes a header off the front, leaving the body. `known` finds the API that a key means.
    pub fn get(r: &mut Reader, known: impl Fn(i16) -> Option<&'static Info>) -> Result<Self, Error> {
        // Every header starts with key and version, which say how it goes on. A shorter one is refused in any form.
        let [k0, k1, v0, v1] = r.peek().unwrap_or_default();
        let (key, version) = (i16::from_be_bytes([k0, k1]), i16::from_be_bytes([v0, v1]));
        r.version = known(key).map_or(1, |api| request_header_version(api, version));
        r.flexible = r.version == 2;
        Wire::get(r)
    }
}

/// Takes a response header off the front and gives its correlation id.
pub fn get_response_header(api: &Info, version: i16, r: &mut Reader) -> Result<i32, Error> {
    r.version = response_header_version(api, version);
    r.flexible = r.version == 1;
    let header = ResponseHeader::get(r).map_err(|e| e.of(api.name, "response header", version))?;
    Ok(header.correlation_id)
}

/// Appends a response header; the writer stays that of the body.
pub fn put_response_header(api: &Info, version: i16, correlation_id: i32, w: &mut Writer) {
    let body = (w.version, w.flexible);
    w.version = response_header_version(api, version);
    w.flexible = w.version == 1;
    ResponseHeader { correlation_id }.put(w);
    (w.version, w.flexible) = body;
}

/// The correlation id of a response, without knowing what it answers.
pub fn peek_correlation_id(frame: &[u8]) -> Result<i32, Error> {
    match frame.first_chunk::<4>() {
        Some(&id) => Ok(i32::from_be_bytes(id)),
        None => Err(Error::new(Reason::Truncated { wanted: 4, left: frame.len() }, 0)),
    }
}
