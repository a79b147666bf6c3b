//! Reads message sets, including the messages inside compressed messages.
//!
//! ```text
//! length i32 | magic 0 | crc u32 | payload
//! length i32 | magic 1 | attributes u8 | crc u32 | payload
//! ```
//!
//! The checksum covers only the payload. The lowest two bits of the attributes are the compression: 0 none, 1 gzip, 2
//! snappy (since 0.7.1, in xerial framing or as one block without framing). The compression 3 is invalid, and brokers
//! ignore the higher bits of the attributes. A compressed message is called a wrapper. The payload of a wrapper is a
//! message set, which may contain more wrappers.
//!
//! The offset of a message is its byte position in the partition, so the next message is `4 + length` bytes later. A
//! message inside a wrapper has the wrapper's offset and an index within the wrapper.

use super::Magic;
use crate::compress::{Compression, decompress};
use crate::record::{crc32, undecodable};
use crate::wire::{Error, Reason, Step};
use bytes::Bytes;

/// Maximum nesting of wrappers. Producers write one level. Brokers accept as many levels as fit into their stack.
pub const MAX_DEPTH: usize = 8;

/// A message and its position.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Message {
    /// The payload: a slice of the message set, or of a wrapper's decompressed payload.
    pub payload: Bytes,
    /// The format of the message. A wrapper always has magic 1.
    pub magic: Magic,
    /// Compression of the outermost wrapper.
    pub compression: Compression,
    /// Offset of the outermost message that contains this message.
    pub offset: i64,
    /// Offset of the next outermost message.
    pub next_offset: i64,
    /// Index among the messages with this offset.
    pub index: usize,
    /// Number of messages with this offset.
    pub count: usize,
}

/// Iterates over a message set, including the messages inside wrappers. Like a broker, the iterator skips an incomplete
/// message at the end, also inside wrappers. An error ends the iteration.
///
/// Opening a wrapper takes at most three times as much memory as its decompressed payload, as in [`crate::record`]. The
/// decompressed sizes of a wrapper and of the wrappers inside it count towards one limit. The iterator frees the memory
/// of an outermost wrapper before it opens the next outermost wrapper. The iterator decompresses nested wrappers twice,
/// the first time to count their messages.
#[derive(Clone, Debug)]
pub struct Messages {
    outer: Level,
    /// Offset of the first byte.
    base: i64,
    limit: usize,
    inner: Option<Wrapper>,
    failed: bool,
}

/// A wrapper that is being read.
#[derive(Clone, Debug)]
struct Wrapper {
    walk: Walk,
    compression: Compression,
    offset: i64,
    next_offset: i64,
    index: usize,
    count: usize,
}

impl Messages {
    /// Iterates over the messages in `data`, which begins at `offset`. Fails if one wrapper decompresses to more than
    /// `limit` bytes.
    pub fn new(data: Bytes, offset: i64, limit: usize) -> Self {
        Self { outer: Level::new(data), base: offset, limit, inner: None, failed: false }
    }

    /// Returns the offset of the next message to read. After the iteration, the result is the offset of the next fetch.
    pub fn offset(&self) -> i64 {
        self.at(self.outer.position)
    }

    /// Returns the bytes that have not been read. After the iteration, the remaining bytes belong to an incomplete
    /// message.
    pub fn left(&self) -> usize {
        self.outer.data.len() - self.outer.position
    }

    /// Returns the offset of a byte.
    fn at(&self, position: usize) -> i64 {
        // Saturates: no partition is this long, and a malicious set must not wrap around.
        self.base.saturating_add(i64::try_from(position).unwrap_or(i64::MAX))
    }

    #[inline]
    fn step(&mut self) -> Result<Option<Message>, Error> {
        loop {
            if let Some(wrapper) = &mut self.inner {
                let found = wrapper.next().map_err(|e| self.outer.locate(e.in_field("messages")))?;
                if found.is_some() {
                    return Ok(found);
                }
                self.inner = None;
            }
            let offset = self.offset();
            let Some(raw) = self.outer.next(true)? else { return Ok(None) };
            let next_offset = self.offset();
            let Raw { payload, magic, compression, payload_at } = raw;
            if compression == Compression::None {
                return Ok(Some(Message { payload, magic, compression, offset, next_offset, index: 0, count: 1 }));
            }
            let opened = Walk::open(compression, &payload, payload_at, self.limit).and_then(|walk| {
                let count = walk.count().map_err(|e| e.in_field("messages"))?;
                Ok((walk, count))
            });
            let (walk, count) = opened.map_err(|e| self.outer.locate(e))?;
            self.inner = Some(Wrapper { walk, compression, offset, next_offset, index: 0, count });
        }
    }
}

impl Iterator for Messages {
    type Item = Result<Message, Error>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let message = self.step();
        self.failed = message.is_err();
        message.transpose()
    }
}

impl Wrapper {
    fn next(&mut self) -> Result<Option<Message>, Error> {
        let Some(Raw { payload, magic, .. }) = self.walk.next(true)? else { return Ok(None) };
        let Self { compression, offset, next_offset, index, count, .. } = *self;
        self.index += 1;
        Ok(Some(Message { payload, magic, compression, offset, next_offset, index, count }))
    }
}

/// The messages inside a wrapper, in order, including the messages of nested wrappers.
#[derive(Clone, Debug)]
struct Walk {
    /// The open wrappers. The innermost wrapper comes last.
    levels: Vec<Level>,
    /// Number of bytes that wrappers may still decompress to.
    budget: usize,
}

impl Walk {
    /// Opens a wrapper. `at` is the position of the wrapper's payload in its set.
    fn open(compression: Compression, payload: &[u8], at: usize, limit: usize) -> Result<Self, Error> {
        let plain = open(compression, payload, at, limit)?;
        let budget = limit.saturating_sub(plain.len());
        Ok(Self { levels: vec![Level::new(plain)], budget })
    }

    /// Returns the number of messages. Does not verify the checksums of uncompressed messages.
    fn count(&self) -> Result<usize, Error> {
        let (mut walk, mut count) = (self.clone(), 0);
        while walk.next(false)?.is_some() {
            count += 1;
        }
        Ok(count)
    }

    fn next(&mut self, check_crcs: bool) -> Result<Option<Raw>, Error> {
        self.step(check_crcs).map_err(|e| {
            let outer = self.levels.iter().rev().skip(1);
            outer.fold(e, |e, level| level.locate(e.in_field("messages")))
        })
    }

    /// Like `next`, but the path of an error starts at the innermost wrapper.
    fn step(&mut self, check_crcs: bool) -> Result<Option<Raw>, Error> {
        while let Some(level) = self.levels.last_mut() {
            let Some(raw) = level.next(check_crcs)? else {
                self.levels.pop();
                continue;
            };
            if raw.compression == Compression::None {
                return Ok(Some(raw));
            }
            if self.levels.len() == MAX_DEPTH {
                let too_deep = Error::new(Reason::Invalid("more than 8 wrappers around a message"), raw.payload_at);
                return Err(self.locate(too_deep));
            }
            let plain = open(raw.compression, &raw.payload, raw.payload_at, self.budget).map_err(|e| self.locate(e))?;
            self.budget = self.budget.saturating_sub(plain.len());
            self.levels.push(Level::new(plain));
        }
        Ok(None)
    }

    /// Adds the position of the last message to an error.
    fn locate(&self, e: Error) -> Error {
        match self.levels.last() {
            Some(level) => level.locate(e),
            None => e,
        }
    }
}

/// Decompresses a wrapper's payload, which is at the position `at`.
fn open(compression: Compression, payload: &[u8], at: usize, limit: usize) -> Result<Bytes, Error> {
    decompress(compression, payload, limit).map(Bytes::from).map_err(|e| undecodable(&e, at).in_field("payload"))
}

/// An iteration over a message set.
#[derive(Clone, Debug)]
struct Level {
    data: Bytes,
    /// Position of the next message.
    position: usize,
    /// Number of messages before this position.
    index: usize,
}

/// A message as stored in a set.
struct Raw {
    payload: Bytes,
    magic: Magic,
    compression: Compression,
    payload_at: usize,
}

impl Level {
    fn new(data: Bytes) -> Self {
        Self { data, position: 0, index: 0 }
    }

    /// Returns the next message, if it is complete. Always verifies the checksum of a compressed message.
    #[inline]
    fn next(&mut self, check_crc: bool) -> Result<Option<Raw>, Error> {
        let found = self.read(check_crc).map_err(|(reason, at, field)| {
            let e = Error::new(reason, at).in_field(field);
            e.within(Step::Index(self.index))
        })?;
        let Some((raw, end)) = found else { return Ok(None) };
        self.position = end;
        self.index += 1;
        Ok(Some(raw))
    }

    /// Returns the next message and its end, or the error with its position and field.
    #[inline]
    fn read(&self, check_crc: bool) -> Result<Option<(Raw, usize)>, (Reason, usize, &'static str)> {
        let start = self.position;
        let Some((prefix, rest)) = self.data.get(start..).and_then(<[u8]>::split_first_chunk) else { return Ok(None) };
        let length = i32::from_be_bytes(*prefix);
        let size = usize::try_from(length).map_err(|_| (Reason::NegativeLength(length.into()), start, "length"))?;
        if size < Magic::V0.header_size() {
            return Err((Reason::Invalid("is less than the size of a message without payload"), start, "length"));
        }
        let Some(message) = rest.get(..size) else { return Ok(None) };
        let unknown = (Reason::Invalid("is neither 0 nor 1"), start + 4, "magic");
        let magic = message.first().and_then(|number| Magic::from_number(*number)).ok_or(unknown)?;
        let too_short = || (Reason::Truncated { wanted: magic.header_size(), left: size }, start, "length");
        let (header, payload) = message.split_at_checked(magic.header_size()).ok_or_else(too_short)?;
        let attributes = match (magic, header) {
            (Magic::V1, [_, attributes, ..]) => *attributes,
            _ => 0,
        };
        let compression = match attributes & CODEC {
            0 => Compression::None,
            1 => Compression::Gzip,
            2 => Compression::Snappy,
            _ => return Err((Reason::Invalid("codec 3 does not exist in Kafka 0.7"), start + 5, "attributes")),
        };
        let checked = check_crc || compression != Compression::None;
        if checked && header.last_chunk() != Some(&crc32(payload).to_be_bytes()) {
            let crc_at = start + magic.header_size();
            return Err((Reason::Invalid("does not match the payload"), crc_at, "checksum"));
        }
        let payload_at = start + 4 + header.len();
        let end = payload_at + payload.len();
        let payload = self.data.slice(payload_at..end);
        Ok(Some((Raw { payload, magic, compression, payload_at }, end)))
    }

    /// Adds the position of the last message to an error.
    fn locate(&self, e: Error) -> Error {
        e.within(Step::Index(self.index.saturating_sub(1)))
    }
}

/// Attribute bits of the compression.
const CODEC: u8 = 3;
