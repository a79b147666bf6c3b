//! What Kafka 0.6 and 0.7 speak: requests and responses without versions, correlation ids and keys, and message sets
//! whose offsets are byte positions.
//!
//! `request` and `response` are the frames, `message` walks a message set without copying, `builder` writes one, [`draft`]
//! is the proposal that came between 0.7 and 0.8. The wire
//! is that of running brokers (0.6.1, 0.7.0 to 0.7.2), of which `tests/vectors/legacy.jsonl.gz` has captures;
//! `docs/legacy.md` draws it and says where old documents differ. Left out: connections (`client`) and groups (`engine::legacy::zookeeper`).
//!
//! A frame that is decoded shares its bytes with what comes out of it. The largest growth is that of a MultiFetch response:
//! a part without messages has 6 bytes on the wire and 40 in memory, three times that while the vector grows. Messages that
//! are not compressed take no memory of their own to read; to open compressed ones takes what [`Messages`] says.
//!
//! An error's offset counts from the first byte that was given; in compressed messages from the first byte of those inside
//! of the innermost wrapper that its path names.

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

/// A message of which there are the magics 0 and 1, the latter with attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Magic {
    /// Kafka 0.6: magic, checksum, payload.
    V0,
    /// Kafka 0.7: magic, attributes, checksum, payload.
    V1,
}

impl Magic {
    /// The byte on the wire.
    pub fn number(self) -> u8 {
        self as u8
    }

    /// From the byte on the wire; `None` for one that no broker of 0.7 takes.
    pub fn from_number(number: u8) -> Option<Self> {
        [Self::V0, Self::V1].into_iter().find(|magic| magic.number() == number)
    }

    /// Bytes before the payload, without the length.
    fn header_size(self) -> usize {
        match self {
            Self::V0 => 5,
            Self::V1 => 6,
        }
    }
}

/// A reader of a frame's body; nothing here has versions.
fn reader(body: Bytes) -> Reader {
    Reader::new(body, 0, false)
}

/// Checks that `frame` has as many bytes as its length says, and takes the length off.
fn frame_reader(frame: Bytes) -> Result<Reader, Error> {
    let mut r = reader(frame);
    let (length, left) = (i32::get(&mut r).map_err(|e| e.in_field("length"))?, r.left());
    let reason = match usize::try_from(length) {
        Err(_) => Reason::NegativeLength(length.into()),
        Ok(n) if n > left => Reason::Length { length: length.into(), left },
        Ok(n) if n < left => return Err(Error::new(Reason::TrailingBytes(left - n), 4 + n)),
        Ok(_) => return Ok(r),
    };
    Err(Error::new(reason, 0).in_field("length"))
}

/// A length for four bytes on the wire.
fn length(n: usize, at: usize) -> Result<[u8; 4], Error> {
    let too_long = |_| Error::new(Reason::TooLong { length: n, limit: i32::MAX as usize }, at);
    i32::try_from(n).map(i32::to_be_bytes).map_err(too_long)
}

/// Appends a frame: its length and the body that `write` appends.
fn framed(write: impl FnOnce(&mut Vec<u8>) -> Result<(), Error>) -> Result<Vec<u8>, Error> {
    let mut out = vec![0; 4];
    write(&mut out)?;
    let prefix = length(out.len() - 4, 0)?;
    if let Some(place) = out.first_chunk_mut() {
        *place = prefix;
    }
    Ok(out)
}

/// A value of which old brokers know no null: there a length of -1 is as wrong as any negative one.
fn never_null(e: Error) -> Error {
    match e.reason() {
        Reason::Null => Error::new(Reason::NegativeLength(-1), e.offset()),
        _ => e,
    }
}
