//! Responses: an error code, then either bytes of a log or a list of offsets.
//!
//! ```text
//! length i32 | error i16 | message_set                           Fetch
//! length i32 | error i16 | (length i32 | error i16 | message_set)*  MultiFetch, in the order of the request
//! length i32 | error i16 | count i32 | offset i64 *              Offsets
//! ```
//!
//! Produce and MultiProduce have no response. A MultiFetch response does not contain the number of its results: the
//! last result ends with the response.

use super::{RequestType, frame_reader, framed, length, reader};
use crate::wire::{Error, Reader, Reason, Step, Wire};
use bytes::Bytes;
use std::fmt;

/// Error code of a response. Unknown codes keep their number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ErrorCode(pub i16);

impl ErrorCode {
    /// Any other error, such as an illegal topic.
    pub const UNKNOWN: Self = Self(-1);
    /// No error.
    pub const NONE: Self = Self(0);
    /// The offset is below the first retained byte, or above the last flushed byte.
    pub const OFFSET_OUT_OF_RANGE: Self = Self(1);
    /// A message is damaged. No tested broker sends this code.
    pub const INVALID_MESSAGE: Self = Self(2);
    /// The partition does not exist.
    pub const WRONG_PARTITION: Self = Self(3);
    /// The first message is larger than the requested size. No tested broker sends this code, but the Java client
    /// generates it.
    pub const INVALID_FETCH_SIZE: Self = Self(4);

    /// Returns the name, or UNKNOWN.
    pub fn name(self) -> &'static str {
        match self {
            Self::NONE => "NONE",
            Self::OFFSET_OUT_OF_RANGE => "OFFSET_OUT_OF_RANGE",
            Self::INVALID_MESSAGE => "INVALID_MESSAGE",
            Self::WRONG_PARTITION => "WRONG_PARTITION",
            Self::INVALID_FETCH_SIZE => "INVALID_FETCH_SIZE",
            _ => "UNKNOWN",
        }
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name(), self.0)
    }
}

/// Result of fetching a partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fetched {
    /// The error code.
    pub error: ErrorCode,
    /// Bytes of the log from the offset on, at most the requested size.
    pub message_set: Bytes,
}

/// A response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Response {
    /// Result for one partition.
    Fetch(Fetched),
    /// Results for several partitions.
    MultiFetch {
        /// Error of the whole request. Tested brokers only send 0.
        error: ErrorCode,
        /// One result for each part of the request, in the same order.
        parts: Vec<Fetched>,
    },
    /// Offsets of a partition.
    Offsets {
        /// The error code. Brokers close the connection instead of sending an error.
        error: ErrorCode,
        /// The offsets at which segments start and the log ends, newest first.
        offsets: Vec<i64>,
    },
}

impl Response {
    /// Decodes a body: a frame without its length, which [`crate::frame::Frames`] returns. `to` is the type of the
    /// request, which the response does not contain.
    pub fn decode(to: RequestType, body: Bytes) -> Result<Self, Error> {
        Self::read(to, reader(body))
    }

    /// Decodes a frame, including its length.
    pub fn decode_frame(to: RequestType, frame: Bytes) -> Result<Self, Error> {
        Self::read(to, frame_reader(frame)?)
    }

    fn read(to: RequestType, mut r: Reader) -> Result<Self, Error> {
        match to {
            RequestType::Fetch => Fetched::read(&mut r).map(Self::Fetch),
            RequestType::MultiFetch => Self::read_multi(r),
            RequestType::Offsets => Self::read_offsets(r),
            RequestType::Produce | RequestType::MultiProduce => {
                Err(Error::new(Reason::Invalid("is never answered"), r.offset()))
            }
        }
    }

    fn read_multi(mut r: Reader) -> Result<Self, Error> {
        let error = read_error(&mut r)?;
        let mut parts = Vec::new();
        while r.remaining() > 0 {
            let i = parts.len();
            let part = Self::read_part(&mut r).map_err(|e| e.within(Step::Index(i)).in_field("parts"))?;
            parts.push(part);
        }
        Ok(Self::MultiFetch { error, parts })
    }

    fn read_part(r: &mut Reader) -> Result<Fetched, Error> {
        let at = r.offset();
        let part: Bytes = Wire::get(r).map_err(|e| super::never_null(e).in_field("length"))?;
        if part.len() < 2 {
            let reason = Reason::Truncated { wanted: 2, left: part.len() };
            return Err(Error::new(reason, at + 4).in_field("error"));
        }
        // Two bytes exist, so no error can have an offset that counts from here.
        Fetched::read(&mut reader(part))
    }

    fn read_offsets(mut r: Reader) -> Result<Self, Error> {
        let error = read_error(&mut r)?;
        let offsets = Vec::get(&mut r).map_err(|e| super::never_null(e).in_field("offsets"))?;
        r.finish().map(|()| Self::Offsets { error, offsets })
    }

    /// Encodes a frame, including its length.
    pub fn encode(&self) -> Result<Vec<u8>, Error> {
        framed(|out| match self {
            Self::Fetch(fetched) => {
                fetched.write(out);
                Ok(())
            }
            Self::MultiFetch { error, parts } => {
                out.extend_from_slice(&error.0.to_be_bytes());
                parts.iter().enumerate().try_for_each(|(i, part)| {
                    let size = length(2 + part.message_set.len(), out.len());
                    out.extend_from_slice(&size.map_err(|e| e.within(Step::Index(i)).in_field("parts"))?);
                    part.write(out);
                    Ok(())
                })
            }
            Self::Offsets { error, offsets } => {
                out.extend_from_slice(&error.0.to_be_bytes());
                out.extend_from_slice(&length(offsets.len(), out.len()).map_err(|e| e.in_field("offsets"))?);
                out.extend(offsets.iter().flat_map(|offset| offset.to_be_bytes()));
                Ok(())
            }
        })
    }
}

impl Fetched {
    fn read(r: &mut Reader) -> Result<Self, Error> {
        Ok(Self { error: read_error(r)?, message_set: r.rest() })
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.error.0.to_be_bytes());
        out.extend_from_slice(&self.message_set);
    }
}

fn read_error(r: &mut Reader) -> Result<ErrorCode, Error> {
    i16::get(r).map(ErrorCode).map_err(|e| e.in_field("error"))
}
