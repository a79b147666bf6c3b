//! The encoding cursor: a growing buffer, the version, and the first error.

use super::declaration::LONGEST_STRING;
use super::{Error, Reason, varint};
use bytes::Bytes;

/// Appends values to a message body.
#[derive(Default)]
pub struct Writer {
    /// The encoded bytes.
    pub buf: Vec<u8>,
    /// The version of the message.
    pub version: i16,
    /// Whether this version has compact lengths and tagged fields.
    pub flexible: bool,
    error: Option<Error>,
    shared: Option<Shared>,
}

/// Long byte fields to send without a copy, with their positions in the buffer.
struct Shared {
    from: usize,
    slices: Vec<(usize, Bytes)>,
}

impl Writer {
    /// Starts an empty body.
    pub fn new(version: i16, flexible: bool) -> Self {
        Self { buf: Vec::new(), version, flexible, error: None, shared: None }
    }

    /// Makes the writer share byte fields of at least `from` bytes instead of copying them, except in tagged fields.
    /// After this call, [`Self::parts`] returns the message.
    pub fn sharing(mut self, from: usize) -> Self {
        self.shared = Some(Shared { from, slices: Vec::new() });
        self
    }

    /// Returns the current size of the body, including shared bytes.
    pub fn size(&self) -> usize {
        let shared = self.shared.iter().flat_map(|s| &s.slices).map(|(_, slice)| slice.len());
        self.buf.len() + shared.sum::<usize>()
    }

    /// Returns the body, or the error of the first value that this version cannot encode.
    pub fn finish(self) -> Result<Vec<u8>, Error> {
        debug_assert!(self.shared.is_none(), "a sharing writer ends in parts");
        match self.error {
            None => Ok(self.buf),
            Some(e) => Err(e),
        }
    }

    /// Returns the body as consecutive pieces, or the error of the first value that this version cannot encode.
    pub fn parts(self) -> Result<Vec<Bytes>, Error> {
        if let Some(e) = self.error {
            return Err(e);
        }
        let mut parts = Vec::new();
        let (mut own, mut done) = (Bytes::from(self.buf), 0);
        for (at, slice) in self.shared.into_iter().flat_map(|s| s.slices) {
            parts.push(own.split_to(at - done));
            parts.push(slice);
            done = at;
        }
        parts.push(own);
        parts.retain(|part| !part.is_empty());
        Ok(parts)
    }

    /// Records the first error. Writing continues, so that callers do not need to check.
    #[cold]
    #[inline(never)]
    pub fn fail(&mut self, reason: Reason) {
        let at = self.size();
        self.error.get_or_insert_with(|| Error::new(reason, at));
    }

    /// Records the error that `field` is null in a version that does not allow null.
    #[cold]
    #[inline(never)]
    pub fn fail_null(&mut self, field: &'static str) {
        let at = self.size();
        self.error.get_or_insert_with(|| Error::null(field, at));
    }

    /// Appends an unsigned variable-length integer.
    #[inline(never)]
    pub fn uvarint(&mut self, v: u32) {
        varint::put_u32(&mut self.buf, v);
    }

    /// Appends bytes that were encoded separately.
    pub(super) fn append(&mut self, part: Self) {
        let at = self.size();
        self.buf.extend_from_slice(&part.buf);
        self.error = self.error.take().or_else(|| part.error.map(|e| e.moved(at)));
    }

    /// Appends an empty section of tagged fields.
    #[inline(never)]
    pub fn no_tags(&mut self) {
        if self.flexible {
            self.buf.push(0);
        }
    }

    pub(super) fn bytes(&mut self, bytes: &Bytes) {
        match &mut self.shared {
            Some(shared) if bytes.len() >= shared.from => shared.slices.push((self.buf.len(), bytes.clone())),
            _ => self.buf.extend_from_slice(bytes),
        }
    }

    /// Appends the length of bytes or of a list.
    #[inline(never)]
    pub(super) fn length(&mut self, n: Option<usize>) {
        const LIMIT: usize = i32::MAX as usize - 1;
        match n {
            Some(length) if length > LIMIT => self.fail(Reason::TooLong { length, limit: LIMIT }),
            n if self.flexible => self.compact_length(n),
            n => self.buf.extend_from_slice(&n.map_or(-1, |n| n as i32).to_be_bytes()),
        }
    }

    #[inline(never)]
    pub(super) fn string_length(&mut self, n: Option<usize>) {
        match n {
            Some(length) if length > LONGEST_STRING => self.fail(Reason::TooLong { length, limit: LONGEST_STRING }),
            n if self.flexible => self.compact_length(n),
            n => self.buf.extend_from_slice(&n.map_or(-1, |n| n as i16).to_be_bytes()),
        }
    }

    fn compact_length(&mut self, n: Option<usize>) {
        self.uvarint(n.map_or(0, |n| n as u32 + 1));
    }
}

#[cfg(test)]
mod tests {
    use super::super::Wire;
    use super::*;

    #[test]
    fn parts_are_the_body_and_long_fields_are_not_copied() {
        let fields =
            [Bytes::from(vec![1; 10]), Bytes::from(vec![2; 3]), Bytes::new(), Bytes::from(vec![3; 20])].to_vec();
        let mut plain = Writer::new(0, true);
        let mut sharing = Writer::new(0, true).sharing(10);
        fields.put(&mut plain);
        fields.put(&mut sharing);
        assert_eq!(sharing.size(), plain.size());
        let parts = sharing.parts().unwrap();
        assert_eq!(parts.concat(), plain.finish().unwrap());
        assert_eq!(parts[1].as_ptr(), fields[0].as_ptr());
    }
}
