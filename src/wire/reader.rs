//! The decoding cursor: the remaining bytes of a frame, the version, and the memory that the message may still take.

use super::declaration::LONGEST_STRING;
use super::{Error, Reason};
use bytes::{Buf, Bytes};

/// Returns the memory limit for decoding a message of `len` bytes: 64 times its size plus 64 KiB.
///
/// The highest ratio of a valid message is 64, in a ListGroups v3 response with empty group names. An empty string has
/// one byte on the wire and 24 bytes in memory, and a growing vector contains its elements twice for a moment.
pub fn memory_limit(len: usize) -> usize {
    len.saturating_mul(64).saturating_add(64 << 10)
}

/// Returns the memory limit for decoding a message of `len` bytes to values by name, which is twice as much. A value
/// has at least one byte on the wire, and 56 bytes in memory with its name.
pub fn memory_limit_by_name(len: usize) -> usize {
    memory_limit(len).saturating_mul(2)
}

/// Reads values from a message body.
pub struct Reader {
    buf: Bytes,
    end: usize,
    budget: usize,
    limit: usize,
    unknown_tags: usize,
    /// The version of the message.
    pub version: i16,
    /// Whether this version has compact lengths and tagged fields.
    pub flexible: bool,
}

impl Reader {
    /// Starts at the first byte of a message body.
    pub fn new(buf: Bytes, version: i16, flexible: bool) -> Self {
        let limit = memory_limit(buf.len());
        Self { end: buf.len(), buf, budget: limit, limit, unknown_tags: 0, version, flexible }
    }

    /// Returns the number of remaining bytes.
    pub fn remaining(&self) -> usize {
        self.buf.len()
    }

    /// Returns the number of bytes read since the start of the message.
    pub fn offset(&self) -> usize {
        self.end - self.buf.len()
    }

    /// Returns the next bytes without consuming them, or `None` if fewer remain.
    pub fn peek<const N: usize>(&self) -> Option<[u8; N]> {
        self.buf.first_chunk().copied()
    }

    pub(super) fn unread(&self) -> &[u8] {
        &self.buf
    }

    /// Skips `n` bytes. The caller has checked with [`Reader::peek`] that these bytes exist.
    pub(super) fn skip(&mut self, n: usize) {
        self.buf.advance(n);
    }

    /// Returns the number of unknown tagged fields that the reader has dropped.
    pub fn unknown_tags(&self) -> usize {
        self.unknown_tags
    }

    /// Returns the remaining bytes as a slice of the frame.
    pub fn rest(&mut self) -> Bytes {
        std::mem::take(&mut self.buf)
    }

    /// Fails if there are remaining bytes.
    pub fn finish(&self) -> Result<(), Error> {
        match self.remaining() {
            0 => Ok(()),
            n => Err(Error::new(Reason::TrailingBytes(n), self.offset())),
        }
    }

    /// Returns the next `n` bytes, which share memory with the frame. If too few bytes remain, the error reports `at`,
    /// the offset of the length field.
    pub(super) fn take(&mut self, n: usize, at: usize) -> Result<Bytes, Error> {
        if n > self.buf.len() {
            return Err(Error::new(Reason::Length { length: n as i64, left: self.remaining() }, at));
        }
        Ok(self.buf.split_to(n))
    }

    #[inline]
    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        match self.buf.first_chunk::<N>() {
            Some(&bytes) => {
                self.buf.advance(N);
                Ok(bytes)
            }
            None => Err(Error::new(Reason::Truncated { wanted: N, left: self.remaining() }, self.offset())),
        }
    }

    #[inline]
    pub(super) fn spend(&mut self, n: usize) -> Result<(), Error> {
        match self.budget.checked_sub(n) {
            Some(rest) => {
                self.budget = rest;
                Ok(())
            }
            None => Err(Error::new(Reason::Budget { limit: self.limit }, self.offset())),
        }
    }

    /// Reads a string, or returns `None` for null.
    #[inline(never)]
    pub(super) fn string(&mut self) -> Result<Option<String>, Error> {
        let at = self.offset();
        let length = if self.flexible { self.compact_length()? } else { i16::from_be_bytes(self.array()?).into() };
        let Some(n) = self.checked(length, at)? else {
            return Ok(None);
        };
        if n > LONGEST_STRING {
            return Err(Error::new(Reason::TooLong { length: n, limit: LONGEST_STRING }, at));
        }
        let Some(bytes) = self.buf.get(..n) else {
            return Err(Error::new(Reason::Length { length: n as i64, left: self.remaining() }, at));
        };
        match std::str::from_utf8(bytes) {
            Ok(s) => {
                let s = s.to_owned();
                self.buf.advance(n);
                Ok(Some(s))
            }
            Err(_) => Err(Error::new(Reason::NotUtf8, self.offset())),
        }
    }

    /// Reads an unsigned 32-bit variable-length integer.
    #[inline(never)]
    pub fn uvarint(&mut self) -> Result<u32, Error> {
        // Lengths and counts are one byte mostly.
        if let Some(&first) = self.buf.first()
            && first < 0x80
        {
            self.buf.advance(1);
            return Ok(first.into());
        }
        let mut data = &self.buf[..];
        match super::varint::take_u32(&mut data) {
            Some(v) => {
                let used = self.buf.len() - data.len();
                self.buf.advance(used);
                Ok(v)
            }
            None if data.is_empty() => Err(Error::new(Reason::Truncated { wanted: 1, left: 0 }, self.end)),
            None => Err(Error::new(Reason::Varint, self.offset())),
        }
    }

    /// Reads a length or count, or returns `None` for null. Flexible versions encode the number plus one as a varint.
    /// Other versions encode the number in 32 bits.
    #[inline(never)]
    pub(super) fn length(&mut self) -> Result<Option<usize>, Error> {
        let at = self.offset();
        let length = if self.flexible { self.compact_length()? } else { i32::from_be_bytes(self.array()?).into() };
        self.checked(length, at)
    }

    fn compact_length(&mut self) -> Result<i64, Error> {
        Ok(i64::from(self.uvarint()?) - 1)
    }

    fn checked(&self, length: i64, at: usize) -> Result<Option<usize>, Error> {
        match length {
            -1 => Ok(None),
            n => usize::try_from(n).map(Some).map_err(|_| Error::new(Reason::NegativeLength(n), at)),
        }
    }

    /// Skips the tagged fields of a struct that declares no tagged fields.
    #[inline(never)]
    pub fn no_tags(&mut self) -> Result<(), Error> {
        if self.flexible && self.buf.first() == Some(&0) {
            self.buf.advance(1);
            return Ok(());
        }
        self.tags("", &mut |_, _| Ok(false))
    }

    /// Reads the tagged fields of a struct. `each` reads one field and returns whether it knows the tag.
    #[inline(never)]
    pub fn tags(
        &mut self,
        declared: &'static str,
        each: &mut dyn FnMut(u32, &mut Self) -> Result<bool, Error>,
    ) -> Result<(), Error> {
        if !self.flexible {
            return Ok(());
        }
        for _ in 0..self.uvarint()? {
            let tag = self.uvarint()?;
            let at = self.offset();
            let len = self.uvarint()? as usize;
            let version = self.version;
            let field = self.take(len, at).map_err(|e| e.in_tag(declared, tag, version))?;
            let after = std::mem::replace(&mut self.buf, field);
            let field_end = self.end - after.len();
            let end = std::mem::replace(&mut self.end, field_end);
            let read = each(tag, self).and_then(|is_known| if is_known { self.finish().map(|()| 0) } else { Ok(1) });
            self.unknown_tags += read.map_err(|e| e.in_tag(declared, tag, version))?;
            self.buf = after;
            self.end = end;
        }
        Ok(())
    }
}
