//! Iterates over the records of one batch without copying. A record of magic 2 has these fields:
//!
//! ```text
//! size varint | attributes i8 | timestamp_delta varlong | offset_delta varint
//! key_length varint, key | value_length varint, value | header_count varint, (length, key, length, value)*
//! ```
//!
//! `message_set` reads messages of magic 0 and 1.

use super::fault;
use super::header::{Header, TimestampType};
use super::message_set::Messages;
use super::view::{Record, Span, View, take_sized};
use crate::wire::varint::{take_i32, take_i64};
use crate::wire::{Error, Reason};
use bytes::Bytes;

/// Reads the variable-length integer at `at`, and moves `at` to the first byte after the integer. In small records,
/// integers have one or two bytes.
#[inline(always)]
fn varint<T: From<i32>>(data: &[u8], at: &mut usize, longer: fn(&[u8]) -> Option<(T, usize)>) -> Option<T> {
    let first = u32::from(*data.get(*at)?);
    if first < 0x80 {
        *at += 1;
        return Some(unzigzag(first));
    }
    let second = u32::from(*data.get(*at + 1)?);
    if second < 0x80 {
        *at += 2;
        return Some(unzigzag(second << 7 | first & 0x7f));
    }
    let (v, size) = longer(data.get(*at..)?)?;
    *at += size;
    Some(v)
}

#[inline(always)]
fn unzigzag<T: From<i32>>(v: u32) -> T {
    T::from((v >> 1).cast_signed() ^ -(v & 1).cast_signed())
}

#[inline(never)]
fn longer_i32(data: &[u8]) -> Option<(i32, usize)> {
    let mut rest = data;
    take_i32(&mut rest).map(|v| (v, data.len() - rest.len()))
}

#[inline(never)]
fn longer_i64(data: &[u8]) -> Option<(i64, usize)> {
    let mut rest = data;
    take_i64(&mut rest).map(|v| (v, data.len() - rest.len()))
}

/// Iterates over the uncompressed records of a batch, in order.
#[derive(Clone, Debug)]
pub struct RecordSet {
    data: Bytes,
    position: usize,
    left: i32,
    base_offset: i64,
    base_timestamp: i64,
    append_time: Option<i64>,
    /// The error that explains why the bytes end before the last record.
    damage: Option<Error>,
    /// In magic 0 and 1, the remaining messages. `left` is 0 in that case, so that this field costs no time for records
    /// of magic 2.
    messages: Option<Messages>,
}

impl RecordSet {
    pub(super) fn new(header: &Header, data: Bytes, damage: Option<Error>) -> Result<Self, Error> {
        if header.count < 0 {
            return Err(Error::new(Reason::NegativeLength(header.count.into()), 57));
        }
        Ok(Self {
            data,
            position: 0,
            left: header.count,
            base_offset: header.base_offset,
            base_timestamp: header.base_timestamp,
            append_time: (header.timestamp_type() == TimestampType::LogAppendTime).then_some(header.max_timestamp),
            damage,
            messages: None,
        })
    }

    pub(super) fn of_messages(data: Bytes, messages: Messages) -> Self {
        Self {
            data,
            position: 0,
            left: 0,
            base_offset: 0,
            base_timestamp: 0,
            append_time: None,
            damage: None,
            messages: Some(messages),
        }
    }

    /// Skips the verification of checksums of messages of magic 0 and 1, including inner messages.
    pub fn skip_crcs(mut self) -> Self {
        if let Some(messages) = &mut self.messages {
            messages.check_crcs = false;
        }
        self
    }

    /// Returns the bytes that contain the records.
    pub fn data(&self) -> &Bytes {
        &self.data
    }

    /// Returns the number of bytes that the iteration has read.
    pub fn walked(&self) -> usize {
        self.position
    }

    /// Returns the number of remaining records according to the batch's header. Do not reserve memory for this number,
    /// because the header may be wrong. Use [`Iterator::size_hint`] instead.
    pub fn left(&self) -> usize {
        self.messages.as_ref().map_or(self.left.max(0) as usize, |messages| messages.left)
    }

    /// Returns the next record with its bytes. The function must always be inlined. If a record is returned through
    /// memory, the CPU writes it in small pieces and reads it in large pieces. This costs more than all other work.
    #[inline(always)]
    pub fn next_view(&mut self) -> Option<Result<View<'_>, Error>> {
        match self.next()? {
            Ok(record) => Some(Ok(View { data: &self.data, record })),
            Err(e) => Some(Err(e)),
        }
    }

    #[inline(always)]
    #[allow(clippy::cast_possible_truncation, reason = "a batch, decompressed or not, is smaller than 2 GiB")]
    fn read(&mut self) -> Option<Record> {
        let mut at = self.position;
        let size = usize::try_from(varint(&self.data, &mut at, longer_i32)?).ok()?;
        let end = at + size;
        let data = self.data.get(..end)?;
        // Attributes have no meaning so far. If a record is incomplete, reading its next field shows it.
        at += 1;
        let timestamp_delta = varint(data, &mut at, longer_i64)?;
        let offset_delta = varint(data, &mut at, longer_i32)?;
        let sized = |at: &mut usize| {
            let length = varint(data, at, longer_i32)?;
            let span = Span { start: *at as u32, length };
            *at += length.max(0) as usize;
            Some(span)
        };
        let key = sized(&mut at)?;
        let value = sized(&mut at)?;
        let count = varint(data, &mut at, longer_i32)?;
        let headers = Span { start: at as u32, length: count };
        if count != 0 {
            at = self.skip_headers(count, at, end)?;
        }
        if at != end {
            return None;
        }
        self.position = end;
        Some(Record {
            offset: self.base_offset.wrapping_add(offset_delta.into()),
            timestamp: self.append_time.unwrap_or_else(|| self.base_timestamp.wrapping_add(timestamp_delta)),
            key,
            value,
            headers,
        })
    }

    /// Returns the end of the record's headers, if they are valid.
    #[inline(never)]
    fn skip_headers(&self, count: i32, start: usize, end: usize) -> Option<usize> {
        let mut body = self.data.get(start..end)?;
        // A header takes at least two bytes.
        if usize::try_from(count).ok()? > body.len() / 2 {
            return None;
        }
        for _ in 0..count {
            take_sized(&mut body)??;
            take_sized(&mut body)?;
        }
        Some(end - body.len())
    }

    /// Returns the next message. The return type differs from the type of `Messages::next`. With the same type, the
    /// compiler would pass on the result in place, and then return every record through memory.
    #[inline(never)]
    fn next_message(&mut self) -> Result<Option<Record>, Error> {
        self.messages.as_mut().and_then(|messages| messages.next(&self.data, &mut self.position)).transpose()
    }

    #[cold]
    fn broken(&mut self, surplus: usize) -> Error {
        self.left = 0;
        let at = super::HEADER_SIZE + self.position;
        match self.damage.take() {
            Some(damage) => damage,
            None if surplus > 0 => Error::new(Reason::TrailingBytes(surplus), at),
            None => fault::find(&self.data, self.position, super::HEADER_SIZE),
        }
    }
}

/// The size of the smallest record, whose seven fields contain no key, value or headers.
const SMALLEST: usize = 7;

impl Iterator for RecordSet {
    type Item = Result<Record, Error>;

    /// Returns at most the number of records that the remaining bytes can contain, plus one for the error that ends the
    /// iteration.
    fn size_hint(&self) -> (usize, Option<usize>) {
        let room = self.data.len().saturating_sub(self.position) / SMALLEST;
        (0, Some(self.left().min(room + 1)))
    }

    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            return self.next_message().transpose();
        }
        let Some(record) = self.read() else {
            return Some(Err(self.broken(0)));
        };
        self.left -= 1;
        let surplus = self.data.len() - self.position;
        if self.left == 0 && (surplus > 0 || self.damage.is_some()) {
            return Some(Err(self.broken(surplus)));
        }
        Some(Ok(record))
    }
}
