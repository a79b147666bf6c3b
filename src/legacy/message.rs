//! Reading message sets: messages one after the other, and those inside of compressed ones.
//!
//! ```text
//! length i32 | magic 0 | crc u32 | payload
//! length i32 | magic 1 | attributes u8 | crc u32 | payload
//! ```
//!
//! The checksum covers the payload alone. The lowest two bits of the attributes say how it is compressed: 0 not at all, 1
//! gzip, 2 snappy (xerial framing or one bare block, from 0.7.1 on); 3 is refused, and brokers ignore the other bits. The
//! payload of a compressed message, the wrapper, is a message set, which may have wrappers in it.
//!
//! A message's offset is the byte at which it begins in the partition, so that the next one follows `4 + length` later.
//! Messages inside of a wrapper have no offset of their own: all of them have the wrapper's, and an index.

use super::Magic;
use crate::compress::{Compression, decompress};
use crate::record::crc32;
use crate::wire::{Error, Reason, Step};
use bytes::Bytes;

/// Wrappers around a message, at most. Producers write one; brokers take as many as their stack has room for.
pub const MAX_DEPTH: usize = 8;

/// A message and where it was found.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Message {
    /// What the producer sent: a slice of the message set or, if that was compressed, of what came out of the wrapper.
    pub payload: Bytes,
    /// Its own format; a wrapper is always of magic 1.
    pub magic: Magic,
    /// How the outermost message around it is compressed.
    pub compression: Compression,
    /// Where the outermost message around it begins.
    pub offset: i64,
    /// Where the next outermost message begins.
    pub next_offset: i64,
    /// Its place among the messages that have this offset.
    pub index: usize,
    /// How many messages have this offset.
    pub count: usize,
}

/// Walks a message set; what is compressed comes out flat. A message that is cut off at the end is left out, inside of
/// wrappers too, where brokers take it as well. An error ends the walk.
///
/// To open a wrapper takes three times what comes out of it at most, as for [`crate::record`]. All that comes out of one
/// and of those inside of it counts against one limit, and is let go before the next one is opened. Wrappers in a
/// wrapper are decompressed twice, the first time to count.
#[derive(Clone, Debug)]
pub struct Messages {
    outer: Level,
    /// The offset of the first byte.
    base: i64,
    limit: usize,
    inner: Option<Wrapper>,
    failed: bool,
}

/// A wrapper on its way out.
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
    /// The messages in `data`, which begins at `offset`; more than `limit` bytes out of one wrapper are refused.
    pub fn new(data: Bytes, offset: i64, limit: usize) -> Self {
        Self { outer: Level::new(data), base: offset, limit, inner: None, failed: false }
    }

    /// Where the first message begins that is not begun: behind the walk, where to fetch next.
    pub fn offset(&self) -> i64 {
        self.at(self.outer.position)
    }

    /// Bytes that are not begun: behind the walk, those of a message that is cut off.
    pub fn left(&self) -> usize {
        self.outer.data.len() - self.outer.position
    }

    /// The offset of a byte.
    fn at(&self, position: usize) -> i64 {
        // No partition is so long; a set that claims to be at its end must not wrap around.
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

/// The messages inside of a wrapper, in order, whichever wrapper inside of it they are in.
#[derive(Clone, Debug)]
struct Walk {
    /// The wrappers under way, the innermost one last.
    levels: Vec<Level>,
    /// Bytes that may still come out of wrappers.
    budget: usize,
}

impl Walk {
    /// What is inside of a wrapper, whose payload is at `at` of the set it is in.
    fn open(compression: Compression, payload: &[u8], at: usize, limit: usize) -> Result<Self, Error> {
        let plain = open(compression, payload, at, limit)?;
        let budget = limit.saturating_sub(plain.len());
        Ok(Self { levels: vec![Level::new(plain)], budget })
    }

    /// How many messages there are. Does not look at the checksums of those that are not compressed.
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

    /// As `next`, but the path of an error begins at the innermost wrapper.
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

    /// The error, in the message that was read last.
    fn locate(&self, e: Error) -> Error {
        match self.levels.last() {
            Some(level) => level.locate(e),
            None => e,
        }
    }
}

/// Decompresses a wrapper's payload, which is at `at`.
fn open(compression: Compression, payload: &[u8], at: usize, limit: usize) -> Result<Bytes, Error> {
    let refused = |why: String| Error::new(Reason::Compression(why), at).in_field("payload");
    decompress(compression, payload, limit).map(Bytes::from).map_err(|e| refused(e.to_string()))
}

/// A message set on a walk.
#[derive(Clone, Debug)]
struct Level {
    data: Bytes,
    /// Where the next message begins.
    position: usize,
    /// Messages before that.
    index: usize,
}

/// A message as it lies in a set.
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

    /// The next message, if all of it is there. The checksum of one that is compressed is always looked at.
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

    /// The next message and its end, or what is wrong, where, in which field.
    #[inline]
    fn read(&self, check_crc: bool) -> Result<Option<(Raw, usize)>, (Reason, usize, &'static str)> {
        let start = self.position;
        let Some((prefix, rest)) = self.data.get(start..).and_then(<[u8]>::split_first_chunk) else { return Ok(None) };
        let length = i32::from_be_bytes(*prefix);
        let size = usize::try_from(length).map_err(|_| (Reason::NegativeLength(length.into()), start, "length"))?;
        if size < Magic::V0.header_size() {
            return Err((Reason::Invalid("is less than a message has without payload"), start, "length"));
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
            _ => return Err((Reason::Invalid("codec 3 is none that Kafka 0.7 has"), start + 5, "attributes")),
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

    /// The error, in the message that was read last.
    fn locate(&self, e: Error) -> Error {
        e.within(Step::Index(self.index.saturating_sub(1)))
    }
}

/// The bits of the attributes that say how a payload is compressed.
const CODEC: u8 = 3;
