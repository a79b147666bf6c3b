//! What goes before a body: request headers v0 to v2, response headers v0 and v1, and their exceptions.
//!
//! Request header 1 adds the client id, 2 adds tagged fields; response header 1 adds tagged fields. Flexible
//! versions of an API use the flexible headers, except that ApiVersions answers with header 0 in every version,
//! because a client reads that answer before it knows which versions the broker speaks. The client id keeps its
//! 16-bit length in the flexible header too.

use super::{Info, api_versions};
use crate::wire::{Error, Reader, Reason, Wire, Writer};

/// What a broker reads before a request body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestHeader {
    /// The API.
    pub api_key: i16,
    /// The version of the body.
    pub api_version: i16,
    /// Comes back in the response.
    pub correlation_id: i32,
    /// Who asks, for logs and quotas.
    pub client_id: Option<String>,
}

/// The response header's version for a body.
pub fn response_header_version(api: &Info, version: i16) -> i16 {
    i16::from(api.key != api_versions::API.key && api.is_flexible(version))
}

impl RequestHeader {
    /// Appends the header that fits the API's version.
    pub fn put(&self, api: &Info, w: &mut Writer) {
        let flexible = std::mem::replace(&mut w.flexible, false);
        self.api_key.put(w);
        self.api_version.put(w);
        self.correlation_id.put(w);
        self.client_id.put(w);
        w.flexible = flexible;
        if api.is_flexible(self.api_version) {
            w.uvarint(0);
        }
    }

    /// Takes a header off the front, leaving the body. `known` finds the API that a key means.
    pub fn get(r: &mut Reader, known: impl Fn(i16) -> Option<&'static Info>) -> Result<Self, Error> {
        r.flexible = false;
        let api_key = Wire::get(r)?;
        let api_version = Wire::get(r)?;
        let correlation_id = Wire::get(r)?;
        let client_id = Wire::get(r)?;
        if known(api_key).is_some_and(|api| api.is_flexible(api_version)) {
            r.flexible = true;
            r.tags(&mut |_, _| Ok(false))?;
        }
        Ok(Self { api_key, api_version, correlation_id, client_id })
    }
}

/// Takes a response header off the front and gives its correlation id.
pub fn get_response_header(api: &Info, version: i16, r: &mut Reader) -> Result<i32, Error> {
    let correlation_id = i32::get(r).map_err(|e| e.of(api.name, "response header", version))?;
    if response_header_version(api, version) == 1 {
        r.flexible = true;
        r.tags(&mut |_, _| Ok(false)).map_err(|e| e.of(api.name, "response header", version))?;
    }
    Ok(correlation_id)
}

/// Appends a response header.
pub fn put_response_header(api: &Info, version: i16, correlation_id: i32, w: &mut Writer) {
    correlation_id.put(w);
    if response_header_version(api, version) == 1 {
        w.uvarint(0);
    }
}

/// The correlation id of a response, without knowing what it answers.
pub fn peek_correlation_id(frame: &[u8]) -> Result<i32, Error> {
    match frame.first_chunk::<4>() {
        Some(&id) => Ok(i32::from_be_bytes(id)),
        None => Err(Error::new(Reason::Truncated { wanted: 4, left: frame.len() }, 0)),
    }
}
