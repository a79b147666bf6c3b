//! The traits of typed messages, the description of an API, and the functions that encode and decode a typed message.

use crate::wire::{self, Error, Reader, Reason, Shape, Struct, Wire, Writer};
use bytes::Bytes;

/// Description of an API.
#[derive(Debug, PartialEq, Eq)]
pub struct Info {
    /// Kafka's name, such as `ListOffsets`.
    pub name: &'static str,
    /// The number on the wire, or -1 for a header or structure.
    pub key: i16,
    /// The oldest version.
    pub min: i16,
    /// The newest version.
    pub max: i16,
    /// The newest version that Kafka 4.4 does not mark as unstable.
    pub max_stable: i16,
    /// The first version with compact lengths and tagged fields, or `i16::MAX`.
    pub flexible: i16,
    /// Whether the API is only for requests between brokers and controllers.
    pub internal: bool,
}

impl Info {
    /// Returns whether a version has compact lengths and tagged fields.
    pub fn is_flexible(&self, version: i16) -> bool {
        version >= self.flexible
    }

    pub(super) fn check(&self, kind: &'static str, version: i16) -> Result<(), Error> {
        if (self.min..=self.max).contains(&version) {
            return Ok(());
        }
        Err(Error::new(Reason::Version { min: self.min, max: self.max }, 0).of(self.name, kind, version))
    }
}

/// A body: a request, a response, or a structure inside another message.
pub trait Message: Wire + Struct + Default + Clone + 'static {
    /// The API to which the message belongs. A structure has its own name and versions.
    const API: &'static Info;
    /// `request`, `response`, `header` or `data`.
    const KIND: &'static str;
}

/// A request body.
pub trait Request: Message + Send + 'static {
    /// The body of the response to this request.
    type Response: Message;
}

/// Decodes a body. Fails if bytes remain.
pub fn decode<M: Message>(version: i16, body: Bytes) -> Result<M, Error> {
    M::API.check(M::KIND, version)?;
    let mut r = Reader::new(body, version, M::API.is_flexible(version));
    M::get(&mut r).and_then(|m| r.finish().map(|()| m)).map_err(|e| e.of(M::API.name, M::KIND, version))
}

/// Decodes a body, and ignores extra empty tag sections at its end. The mock cluster of librdkafka 2.16 writes an extra
/// tag section in Metadata from v9 on, and the Java client ignores remaining bytes.
pub fn decode_padded<M: Message>(version: i16, body: Bytes) -> Result<M, Error> {
    M::API.check(M::KIND, version)?;
    let is_flexible = M::API.is_flexible(version);
    let mut r = Reader::new(body, version, is_flexible);
    let decoded = M::get(&mut r).and_then(|m| match r.finish() {
        Err(_) if is_flexible && r.rest().iter().all(|byte| *byte == 0) => Ok(m),
        finished => finished.map(|()| m),
    });
    decoded.map_err(|e| e.of(M::API.name, M::KIND, version))
}

/// Encodes a body.
pub fn encode<M: Message>(version: i16, message: &M) -> Result<Vec<u8>, Error> {
    M::API.check(M::KIND, version)?;
    let mut w = Writer::new(version, M::API.is_flexible(version));
    message.put(&mut w);
    w.finish().map_err(|e| unwritable(&mut message.clone(), version, e).of(M::API.name, M::KIND, version))
}

/// Returns a writer's error, with the path of the field that caused the error.
#[cold]
pub(super) fn unwritable(message: &mut dyn Struct, version: i16, error: Error) -> Error {
    wire::find_unwritable(Shape::Struct(message), version, error.offset()).unwrap_or(error)
}
