//! The decoding cursor: a slice of a frame, the version, and how much memory may still be taken.

use super::{Error, LONGEST_STRING, Reason};
use bytes::{Buf, Bytes};

/// Memory that decoding a message of `len` bytes may take: 64 times its size and 64 KiB.
///
/// The largest ratio of a valid message is 64, a ListGroups response v3 of groups without names: an empty string is one
/// byte on the wire and 24 in memory, and a vector that grows holds its elements twice.
pub fn memory_limit(len: usize) -> usize {
    len.saturating_mul(64).saturating_add(64 << 10)
}

/// Memory that decoding a message of `len` bytes by name may take: twice as much. A value takes a byte on the wire at
/// least, and with its name 56 in memory.
pub fn memory_limit_by_name(len: usize) -> usize {
    memory_limit(len).saturating_mul(2)
}

/// Takes values off the front of a message body.
pub struct Reader {
    buf: Bytes,
    end: usize,
    budget: usize,
    limit: usize,
    unknown_tags: usize,
    /// The message's version.
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

    /// Bytes that are left.
    pub fn left(&self) -> usize {
        self.buf.len()
    }

    /// Bytes read since the start of the message.
    pub fn offset(&self) -> usize {
        self.end - self.buf.len()
    }

    /// The next bytes, which stay where they are; `None` if there are fewer.
    pub fn peek<const N: usize>(&self) -> Option<[u8; N]> {
        self.buf.first_chunk().copied()
    }

    pub(super) fn unread(&self) -> &[u8] {
        &self.buf
    }

    /// Leaves out bytes that were looked at, of which there are as many.
    pub(super) fn skip(&mut self, n: usize) {
        self.buf.advance(n);
    }

    /// Tagged fields that were dropped because nobody knows them.
    pub fn unknown_tags(&self) -> usize {
        self.unknown_tags
    }

    /// What is left, as a slice of the frame.
    pub fn rest(&mut self) -> Bytes {
        std::mem::take(&mut self.buf)
    }

    /// Refuses bytes that are left over.
    pub fn finish(&self) -> Result<(), Error> {
        match self.left() {
            0 => Ok(()),
            n => Err(Error::new(Reason::TrailingBytes(n), self.offset())),
        }
    }

    /// The next `n` bytes, shared with the frame. `at` is where the length was read, which is what is wrong if there
    /// are not as many.
    pub(super) fn take(&mut self, n: usize, at: usize) -> Result<Bytes, Error> {
        if n > self.buf.len() {
            return Err(Error::new(Reason::Length { length: n as i64, left: self.left() }, at));
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
            None => Err(Error::new(Reason::Truncated { wanted: N, left: self.left() }, self.offset())),
        }
    }

    #[inline]
    pub(super) fn charge(&mut self, n: usize) -> Result<(), Error> {
        match self.budget.checked_sub(n) {
            Some(left) => {
                self.budget = left;
                Ok(())
            }
            None => Err(Error::new(Reason::Budget { limit: self.limit }, self.offset())),
        }
    }

    /// A string; `None` is null.
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
            return Err(Error::new(Reason::Length { length: n as i64, left: self.left() }, at));
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

    /// An unsigned 32-bit variable-length integer.
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

    /// A length of bytes or a count; `None` is null. Flexible ones are one more than they say, others take 32 bits.
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

    /// The tagged fields of a struct that knows none.
    #[inline(never)]
    pub fn no_tags(&mut self) -> Result<(), Error> {
        if self.flexible && self.buf.first() == Some(&0) {
            self.buf.advance(1);
            return Ok(());
        }
        self.tags("", &mut |_, _| Ok(false))
    }

    /// The tagged fields of a struct that is declared so. `each` reads one into its field and says whether it knows the tag.
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
