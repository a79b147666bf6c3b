//! The wire format of Kafka 0.6 and 0.7. Requests and responses have no versions and no correlation IDs. Messages have
//! no keys, and the offset of a message is a byte position.
//!
//! `request` and `response` encode and decode frames. `message` reads a message set without copying, and `builder`
//! writes a message set. [`draft`] implements a proposed format between 0.7 and 0.8. The code follows the behaviour of
//! real brokers (0.6.1, 0.7.0 to 0.7.2), whose captured traffic is in `tests/vectors/legacy.jsonl.gz`. `docs/legacy.md`
//! describes the format, and lists the mistakes in old documents. `client::legacy` implements the connections, and
//! `engine::legacy` implements the groups.
//!
//! Decoded values share the bytes of their frame. Of all responses, a MultiFetch response needs the most memory per
//! byte on the wire. In a MultiFetch response, a result without messages takes 6 bytes on the wire and 40 bytes in
//! memory. While the vector of results grows, each result can take up to 120 bytes in memory. Reading uncompressed
//! messages allocates nothing. [`Messages`] documents the memory for compressed messages.
//!
//! The byte offset in an error counts from the start of the input. For a message inside a wrapper (a compressed
//! message), the byte offset counts from the start of the wrapper. The path of an error inside a wrapper names the
//! wrapper.

#![deny(clippy::unwrap_used, clippy::indexing_slicing, clippy::cast_possible_truncation)]

mod builder;
pub mod draft;
mod message;
mod request;
mod response;

pub use builder::MessageSetBuilder;
pub use message::{MAX_DEPTH, Message, Messages};
pub use request::{Fetch, Offsets, Produce, Request, RequestType};
pub use response::{ErrorCode, Fetched, Response};

use crate::wire::{Error, Reader, Reason, Wire};
use bytes::Bytes;

/// Format of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Magic {
    /// Kafka 0.6: magic, checksum, payload.
    V0,
    /// Kafka 0.7: magic, attributes, checksum, payload.
    V1,
}

impl Magic {
    /// Returns the byte on the wire.
    pub fn number(self) -> u8 {
        self as u8
    }

    /// Returns the format for a byte on the wire, or `None` if brokers of 0.7 reject the format.
    pub fn from_number(number: u8) -> Option<Self> {
        [Self::V0, Self::V1].into_iter().find(|magic| magic.number() == number)
    }

    /// Returns the number of bytes before the payload, without the length.
    fn header_size(self) -> usize {
        match self {
            Self::V0 => 5,
            Self::V1 => 6,
        }
    }
}

/// Creates a reader for a frame's body. The formats of Kafka 0.6 and 0.7 have no versions.
fn reader(body: Bytes) -> Reader {
    Reader::new(body, 0, false)
}

/// Checks that the length field of `frame` is correct, and removes the length field.
fn frame_reader(frame: Bytes) -> Result<Reader, Error> {
    let mut r = reader(frame);
    let (length, left) = (i32::get(&mut r).map_err(|e| e.in_field("length"))?, r.remaining());
    let reason = match usize::try_from(length) {
        Err(_) => Reason::NegativeLength(length.into()),
        Ok(n) if n > left => Reason::Length { length: length.into(), left },
        Ok(n) if n < left => return Err(Error::new(Reason::TrailingBytes(left - n), 4 + n)),
        Ok(_) => return Ok(r),
    };
    Err(Error::new(reason, 0).in_field("length"))
}

/// Converts a length to its four bytes on the wire.
fn length(n: usize, at: usize) -> Result<[u8; 4], Error> {
    let too_long = |_| Error::new(Reason::TooLong { length: n, limit: i32::MAX as usize }, at);
    i32::try_from(n).map(i32::to_be_bytes).map_err(too_long)
}

/// Appends a frame: the length, and the body that `write` appends.
fn framed(write: impl FnOnce(&mut Vec<u8>) -> Result<(), Error>) -> Result<Vec<u8>, Error> {
    let mut out = vec![0; 4];
    write(&mut out)?;
    let prefix = length(out.len() - 4, 0)?;
    if let Some(field) = out.first_chunk_mut() {
        *field = prefix;
    }
    Ok(out)
}

/// Converts an error about null to an error about a negative length, because the old formats have no null. A length of
/// -1 is an error, like any negative length.
fn never_null(e: Error) -> Error {
    match e.reason() {
        Reason::Null => Error::new(Reason::NegativeLength(-1), e.offset()),
        _ => e,
    }
}
