//! Reads messages of magic 0 and 1, including messages inside compressed messages.
//!
//! ```text
//! offset i64 | length i32 | crc u32 | magic i8 | attributes i8 | timestamp i64 (magic 1)
//! key_length i32, key | value_length i32, value
//! ```
//!
//! A compressed message is called a wrapper. The value of a wrapper contains inner messages, which are not compressed
//! again. In magic 0, inner offsets are absolute and the reader ignores the wrapper's offset. In magic 1, inner offsets
//! are relative and the last inner message has the wrapper's offset (KIP-31). If the wrapper has a log-append time, all
//! inner messages have this time (KIP-32). The reader skips an incomplete message at the end of a message set or of a
//! wrapper. Like the Java client, the reader ignores the key of a wrapper and the bytes after the value.

use super::header::{Header, MIN_LENGTH, TimestampType, at};
use super::view::{Record, Span};
use super::{LOG_OVERHEAD, crc32, undecodable};
use crate::compress::{Compression, decompress_into, decompress_into_of_magic_0};
use crate::wire::{Error, Reason};
use bytes::Bytes;

/// An iteration over messages. The [`super::RecordSet`] owns the bytes of the messages.
#[derive(Clone, Debug)]
pub(super) struct Messages {
    pub left: usize,
    pub check_crcs: bool,
    /// The number that the iteration adds to each offset.
    base_offset: i64,
    append_time: Option<i64>,
}

impl Messages {
    /// Iterates over uncompressed messages, as the log contains them.
    pub fn plain(header: &Header) -> Self {
        let left = usize::try_from(header.count).unwrap_or(0);
        Self { left, check_crcs: true, base_offset: 0, append_time: None }
    }

    /// Iterates over the messages inside a compressed message.
    pub fn wrapped(header: &Header, wrapper: &Bytes, limit: usize) -> Result<(Bytes, Self), Error> {
        let invalid = |why, at| Error::new(Reason::Invalid(why), at);
        let (_, value) = parts(wrapper, 0)?;
        let value_at = value.start as usize;
        let Some(packed) = value.of(wrapper) else {
            return Err(invalid("compressed message without a value", value_at - 4));
        };
        let compression = header.compression().unwrap_or_default();
        let mut plain = Vec::new();
        let decompress = if header.magic == 0 { decompress_into_of_magic_0 } else { decompress_into };
        decompress(compression, packed, limit, &mut plain).map_err(|e| undecodable(&e, value_at))?;
        let (left, last_offset) = count(&plain)?;
        if left == 0 {
            return Err(invalid("compressed message without messages inside", value_at));
        }
        // Some versions of librdkafka leave the wrapper's offset at 0.
        let base_offset = match (header.magic, header.base_offset) {
            (0, _) | (_, 0) => 0,
            (_, offset) if offset < last_offset => {
                return Err(invalid("offset is lower than that of the last message inside", 0));
            }
            // Java also ignores an offset that wraps around.
            (_, offset) => offset.wrapping_sub(last_offset).max(0),
        };
        let append_time = header.timestamp_type() == TimestampType::LogAppendTime;
        let append_time = append_time.then_some(header.max_timestamp);
        Ok((plain.into(), Self { left, check_crcs: true, base_offset, append_time }))
    }

    /// Reads the message at `position`, and moves `position` to the next message. An error ends the iteration.
    pub fn next(&mut self, data: &[u8], position: &mut usize) -> Option<Result<Record, Error>> {
        self.left = self.left.checked_sub(1)?;
        let message = self.read(data, *position);
        match message {
            Ok((record, end)) => {
                *position = end;
                Some(Ok(record))
            }
            Err(e) => {
                self.left = 0;
                Some(Err(e))
            }
        }
    }

    fn read(&self, data: &[u8], start: usize) -> Result<(Record, usize), Error> {
        let message = Message::at(data, start).ok_or_else(|| cut_off(data, start))?;
        if Compression::from_attributes(message.attributes.into()) != Some(Compression::None) {
            return Err(Error::new(Reason::Invalid("compressed message inside of another"), start + 17));
        }
        let whole = data.get(..message.end).unwrap_or(data);
        if self.check_crcs && whole.get(start + 16..).map(crc32) != Some(message.crc) {
            return Err(Error::new(Reason::Invalid("checksum does not match the data"), start + 12));
        }
        let (key, value) = parts(whole, start)?;
        let timestamp = match (message.magic, self.append_time) {
            (0, _) => -1,
            // Only messages of magic 1 inherit the wrapper's timestamp. Messages of another magic should not be here,
            // and keep their own.
            (1, Some(time)) => time,
            _ => at(whole, start + 18).map(i64::from_be_bytes).ok_or_else(|| cut_off(whole, start + 18))?,
        };
        let headers = Span { start: 0, length: 0 };
        let offset = message.offset.wrapping_add(self.base_offset);
        Ok((Record { offset, timestamp, key, value, headers }, message.end))
    }
}

/// The fixed part of a message.
struct Message {
    offset: i64,
    crc: u32,
    magic: i8,
    attributes: i8,
    end: usize,
}

impl Message {
    /// Reads the message at `start`. Returns `None` if it is incomplete.
    fn at(data: &[u8], start: usize) -> Option<Self> {
        let length = at(data, start + 8).map(i32::from_be_bytes)?;
        let end = usize::try_from(length).ok()?.checked_add(start + LOG_OVERHEAD)?;
        let whole = data.get(..end)?;
        Some(Self {
            offset: i64::from_be_bytes(at(whole, start)?),
            crc: u32::from_be_bytes(at(whole, start + 12)?),
            magic: i8::from_be_bytes(at(whole, start + 16)?),
            attributes: i8::from_be_bytes(at(whole, start + 17)?),
            end,
        })
    }
}

/// The maximum length that the Java client accepts for an inner message. An incomplete message may also have a length
/// up to this limit.
const MAX_LENGTH: i32 = i32::MAX - 8;

/// Returns the number of complete messages, and the offset of the last complete message.
fn count(data: &[u8]) -> Result<(usize, i64), Error> {
    let (mut count, mut last_offset, mut start) = (0, 0, 0);
    while let Some(length) = at(data, start + 8).map(i32::from_be_bytes) {
        if length < MIN_LENGTH {
            let least = MIN_LENGTH as usize;
            return Err(Error::new(Reason::TooShort { length: length.into(), least }, start + 8));
        }
        if length > MAX_LENGTH {
            let (length, limit) = (length.unsigned_abs() as usize, MAX_LENGTH as usize);
            return Err(Error::new(Reason::TooLong { length, limit }, start + 8));
        }
        let Some(message) = Message::at(data, start) else { break };
        (count, last_offset, start) = (count + 1, message.offset, message.end);
    }
    Ok((count, last_offset))
}

/// Returns the key and the value of the message at `start`, which is the last message in `data`.
fn parts(data: &[u8], start: usize) -> Result<(Span, Span), Error> {
    let magic = at(data, start + 16).map_or(0, i8::from_be_bytes);
    let key = span(data, start + if magic == 0 { 18 } else { 26 })?;
    let value = span(data, key.start as usize + usize::try_from(key.length).unwrap_or(0))?;
    Ok((key, value))
}

/// Reads a length and that number of bytes. A negative length means null.
fn span(data: &[u8], start: usize) -> Result<Span, Error> {
    let length = at(data, start).map(i32::from_be_bytes).ok_or_else(|| cut_off(data, start))?;
    let body = start + 4;
    let left = data.len() - body;
    if usize::try_from(length).is_ok_and(|n| n > left) {
        return Err(Error::new(Reason::Length { length: length.into(), left }, start));
    }
    let start = u32::try_from(body)
        .map_err(|_| Error::new(Reason::TooLong { length: data.len(), limit: u32::MAX as usize }, start))?;
    Ok(Span { start, length })
}

#[cold]
fn cut_off(data: &[u8], at: usize) -> Error {
    let left = data.len().saturating_sub(at);
    Error::new(Reason::Truncated { wanted: left + 1, left }, at)
}
