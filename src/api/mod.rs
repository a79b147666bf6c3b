//! Kafka's APIs: one file each, declared once with `message!`, request and response, every version from v0.
//!
//! The file is the namespace: `fetch::Request`, not `FetchRequest`. [`decode`] and [`encode`] are the typed doors;
//! [`Entry`] is the door by name for tools. Which header goes before which body is in [`header`] alone.

mod error_code;
pub mod header;

pub use error_code::ErrorCode;

use crate::wire::{Error, Reader, Reason, Reflect, Value, Wire, Writer};
use bytes::Bytes;

/// What is known of an API without looking at a message.
#[derive(Debug, PartialEq, Eq)]
pub struct Info {
    /// Kafka's name, `ListOffsets`.
    pub name: &'static str,
    /// The number on the wire.
    pub key: i16,
    /// The oldest version.
    pub min: i16,
    /// The newest version.
    pub max: i16,
    /// The newest version Kafka 4.4 does not mark unstable.
    pub max_stable: i16,
    /// The first version with compact lengths and tagged fields; `i16::MAX` if there is none.
    pub flexible: i16,
}

impl Info {
    /// Whether a version has compact lengths and tagged fields.
    pub fn is_flexible(&self, version: i16) -> bool {
        version >= self.flexible
    }

    fn check(&self, kind: &'static str, version: i16) -> Result<(), Error> {
        if (self.min..=self.max).contains(&version) {
            return Ok(());
        }
        Err(Error::new(Reason::Version { min: self.min, max: self.max }, 0).of(self.name, kind, version))
    }
}

/// A request or response body.
pub trait Message: Wire + Reflect + Default {
    /// The API it belongs to.
    const API: &'static Info;
    /// `request` or `response`.
    const KIND: &'static str;
}

/// A request body that knows its response.
pub trait Request: Message + Send + 'static {
    /// What the broker answers.
    type Response: Message;
}

/// Decodes a whole body; bytes left over are refused.
pub fn decode<M: Message>(version: i16, body: Bytes) -> Result<M, Error> {
    M::API.check(M::KIND, version)?;
    let mut r = Reader::new(body, version, M::API.is_flexible(version));
    M::get(&mut r).and_then(|m| r.finish().map(|()| m)).map_err(|e| e.of(M::API.name, M::KIND, version))
}

/// Encodes a body.
pub fn encode<M: Message>(version: i16, message: &M) -> Result<Vec<u8>, Error> {
    M::API.check(M::KIND, version)?;
    let mut w = Writer::new(version, M::API.is_flexible(version));
    message.put(&mut w);
    w.finish().map_err(|e| e.of(M::API.name, M::KIND, version))
}

/// One direction of an API without its Rust types.
pub struct Door {
    /// Bytes to a value.
    pub decode: fn(i16, Bytes) -> Result<Value, Error>,
    /// A value to bytes.
    pub encode: fn(i16, Value) -> Result<Vec<u8>, Error>,
}

const fn door<M: Message>() -> Door {
    Door {
        decode: |version, body| decode::<M>(version, body).map(|m| m.to_value(version)),
        encode: |version, value| {
            M::API.check(M::KIND, version)?;
            let m = M::from_value(value, version).map_err(|e| e.of(M::API.name, M::KIND, version))?;
            encode(version, &m)
        },
    }
}

/// An API by name: for tools, tests and `klamm.protocol`.
pub struct Entry {
    /// Name, key and versions.
    pub info: &'static Info,
    /// The request.
    pub request: Door,
    /// The response.
    pub response: Door,
}

/// Names the API of a file: `api! { Heartbeat = 12, 0..=4, flexible 4 }`, with `unstable 4` for a newest version
/// that Kafka 4.4 marks so, or without `flexible` if no version is.
macro_rules! api {
    ($name:ident = $key:literal, $min:literal..=$max:literal $(, flexible $flexible:literal)? $(, unstable $unstable:literal)?) => {
        /// Name, key and versions of this API.
        pub const API: $crate::api::Info = $crate::api::Info {
            name: stringify!($name),
            key: $key,
            min: $min,
            max: $max,
            max_stable: [$($unstable - 1,)? $max][0],
            flexible: [$($flexible,)? i16::MAX][0],
        };

        impl $crate::api::Message for Request {
            const API: &'static $crate::api::Info = &API;
            const KIND: &'static str = "request";
        }

        impl $crate::api::Message for Response {
            const API: &'static $crate::api::Info = &API;
            const KIND: &'static str = "response";
        }

        impl $crate::api::Request for Request {
            type Response = Response;
        }
    };
}

macro_rules! apis {
    ($($module:ident)*) => {
        $( pub mod $module; )*

        /// Every API klamm knows, by key.
        pub static APIS: &[Entry] = &[
            $( Entry { info: &$module::API, request: door::<$module::Request>(), response: door::<$module::Response>() }, )*
        ];
    };
}

apis! {
    produce
    fetch
    list_offsets
    metadata
    offset_commit
    offset_fetch
    find_coordinator
    api_versions
    create_topics
    delete_topics
    init_producer_id
}

/// The API of a name, in Kafka's spelling.
pub fn by_name(name: &str) -> Option<&'static Entry> {
    APIS.iter().find(|a| a.info.name == name)
}

/// The API of a key.
pub fn by_key(key: i16) -> Option<&'static Entry> {
    APIS.iter().find(|a| a.info.key == key)
}
