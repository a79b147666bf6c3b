//! The records of a batch. A record stores only positions in the batch, and returns its key, value and headers as
//! slices of the batch. `record_set` and `message_set` compute the positions of keys, values and headers.

use crate::wire::varint::take_i32;

/// The positions of a record's parts in the bytes of its [`super::RecordSet`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// The offset in the partition.
    pub offset: i64,
    /// The timestamp in milliseconds since 1970, or -1.
    pub timestamp: i64,
    pub(super) key: Span,
    pub(super) value: Span,
    pub(super) headers: Span,
}

/// A start and a length, where a negative length means null. Batches are smaller than 2 GiB, so 32 bits are enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub start: u32,
    pub length: i32,
}

impl Span {
    /// Returns the end of the span. A record set is smaller than 2 GiB.
    #[inline]
    fn end(self) -> u32 {
        self.start.wrapping_add(self.length.max(0).cast_unsigned())
    }

    #[inline]
    pub fn of(self, data: &[u8]) -> Option<&[u8]> {
        let (from, length) = self.from(data)?;
        from.get(..length)
    }

    #[inline]
    fn from(self, data: &[u8]) -> Option<(&[u8], usize)> {
        let length = usize::try_from(self.length).ok()?;
        Some((data.get(self.start as usize..)?, length))
    }
}

impl Record {
    /// Returns the key from the set's bytes, or `None` for null.
    #[inline]
    pub fn key<'a>(&self, data: &'a [u8]) -> Option<&'a [u8]> {
        self.key.of(data)
    }

    /// Returns the value from the set's bytes, or `None` for null (a tombstone).
    #[inline]
    pub fn value<'a>(&self, data: &'a [u8]) -> Option<&'a [u8]> {
        self.value.of(data)
    }

    /// Returns the set's bytes from the key on, and the length of the key, or `None` for null. A caller may copy more
    /// bytes than the key if this is faster.
    #[inline]
    pub fn key_from<'a>(&self, data: &'a [u8]) -> Option<(&'a [u8], usize)> {
        self.key.from(data)
    }

    /// Returns the set's bytes from the value on, and the length of the value.
    #[inline]
    pub fn value_from<'a>(&self, data: &'a [u8]) -> Option<(&'a [u8], usize)> {
        self.value.from(data)
    }

    /// Returns the headers from the set's bytes.
    #[inline]
    pub fn headers<'a>(&self, data: &'a [u8]) -> Headers<'a> {
        Headers {
            left: self.headers.length.max(0) as u32,
            data: data.get(self.headers.start as usize..).unwrap_or(&[]),
        }
    }

    /// Returns the number of headers.
    #[inline]
    pub fn header_count(&self) -> usize {
        self.headers.length.max(0) as usize
    }

    /// Returns the size of the key, or `None` for null.
    #[inline]
    pub fn key_size(&self) -> Option<usize> {
        usize::try_from(self.key.length).ok()
    }

    /// Returns the size of the value, or `None` for null.
    #[inline]
    pub fn value_size(&self) -> Option<usize> {
        usize::try_from(self.value.length).ok()
    }

    /// Returns the number of bytes from this record's key to the end of the value of `last`, a later record of the same
    /// set.
    #[inline]
    pub fn size_to(&self, last: &Self) -> usize {
        last.value.end().saturating_sub(self.key.start) as usize
    }
}

/// A record together with the bytes that contain it.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    pub(super) data: &'a [u8],
    /// The positions of the record's parts.
    pub record: Record,
}

impl<'a> View<'a> {
    /// Returns the offset in the partition.
    #[inline]
    pub fn offset(&self) -> i64 {
        self.record.offset
    }

    /// Returns the timestamp in milliseconds since 1970, or -1.
    #[inline]
    pub fn timestamp(&self) -> i64 {
        self.record.timestamp
    }

    /// Returns the key, or `None` for null.
    #[inline]
    pub fn key(&self) -> Option<&'a [u8]> {
        self.record.key(self.data)
    }

    /// Returns the value, or `None` for null.
    #[inline]
    pub fn value(&self) -> Option<&'a [u8]> {
        self.record.value(self.data)
    }

    /// Returns the headers in order. Keys may repeat.
    #[inline]
    pub fn headers(&self) -> Headers<'a> {
        self.record.headers(self.data)
    }
}

/// The headers of a record. The reader has validated the headers together with the record, so the iteration cannot
/// fail.
#[derive(Clone, Debug)]
pub struct Headers<'a> {
    left: u32,
    data: &'a [u8],
}

impl<'a> Iterator for Headers<'a> {
    /// The key (bytes, usually UTF-8) and the value, where `None` is null.
    type Item = (&'a [u8], Option<&'a [u8]>);

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let key = take_sized(&mut self.data)??;
        let value = take_sized(&mut self.data)?;
        Some((key, value))
    }
}

/// Reads a length and that number of bytes. The outer `None` means that the data is incomplete, and the inner `None`
/// means null.
pub(super) fn take_sized<'a>(data: &mut &'a [u8]) -> Option<Option<&'a [u8]>> {
    let Ok(length) = usize::try_from(take_i32(data)?) else {
        return Some(None);
    };
    let (bytes, rest) = data.split_at_checked(length)?;
    *data = rest;
    Some(Some(bytes))
}
