//! Explains why a record of magic 2 is malformed, by reading the malformed record a second time. Valid records are read
//! only once, so precise errors do not slow them down.

use crate::wire::varint::{take_i32, take_i64};
use crate::wire::{Error, Reason};

/// Returns the error for a malformed record at `start` in the uncompressed bytes of a batch. `base` is the position of
/// these bytes in the batch.
#[cold]
pub(super) fn find(data: &[u8], start: usize, base: usize) -> Error {
    let found = Reading { data, at: start }.record();
    // The record itself is valid, but the data after it is incomplete.
    let (reason, at) = found.err().unwrap_or((Reason::Invalid("record is malformed"), start));
    Error::new(reason, base + at)
}

type Fault = (Reason, usize);

struct Reading<'a> {
    data: &'a [u8],
    at: usize,
}

impl Reading<'_> {
    fn record(&mut self) -> Result<(), Fault> {
        let start = self.at;
        let size = self.length(start)?;
        // The fields must not extend beyond the size of the record.
        self.data = self.data.get(..self.at + size).unwrap_or(self.data);
        if self.left() == 0 {
            return Err((Reason::Truncated { wanted: 1, left: 0 }, self.at));
        }
        self.at += 1;
        self.varint(take_i64)?;
        self.varint(take_i32)?;
        self.sized(true)?;
        self.sized(true)?;
        let start = self.at;
        let (count, left) = (self.varint(take_i32)?, self.left());
        if count < 0 {
            return Err((Reason::NegativeLength(count.into()), start));
        }
        for _ in 0..count {
            // Each header takes at least two bytes, so a count that is too large ends here soon.
            if self.left() < 2 {
                return Err((Reason::Length { length: count.into(), left }, start));
            }
            self.sized(false)?;
            self.sized(true)?;
        }
        match self.left() {
            0 => Ok(()),
            n => Err((Reason::TrailingBytes(n), self.at)),
        }
    }

    fn left(&self) -> usize {
        self.data.len().saturating_sub(self.at)
    }

    fn varint<T>(&mut self, take: impl Fn(&mut &[u8]) -> Option<T>) -> Result<T, Fault> {
        let mut rest = self.data.get(self.at..).unwrap_or_default();
        match take(&mut rest) {
            Some(v) => {
                self.at = self.data.len() - rest.len();
                Ok(v)
            }
            None if rest.is_empty() => Err((Reason::Truncated { wanted: 1, left: 0 }, self.data.len())),
            None => Err((Reason::Varint, self.at)),
        }
    }

    /// Reads a length, which must not exceed the remaining bytes. `start` is the offset for errors.
    fn length(&mut self, start: usize) -> Result<usize, Fault> {
        let (length, left) = (self.varint(take_i32)?, self.left());
        let n = usize::try_from(length).map_err(|_| (Reason::NegativeLength(length.into()), start))?;
        if n > left { Err((Reason::Length { length: length.into(), left }, start)) } else { Ok(n) }
    }

    fn sized(&mut self, nullable: bool) -> Result<(), Fault> {
        match self.length(self.at) {
            Ok(n) => self.at += n,
            Err((Reason::NegativeLength(_), _)) if nullable => {}
            Err(fault) => return Err(fault),
        }
        Ok(())
    }
}
