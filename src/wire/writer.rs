//! The encoding cursor: a growing buffer, the version, and the first thing that could not be written.

use super::{Error, Reason, Step, varint};

/// Appends values to a message body.
#[derive(Default)]
pub struct Writer {
    /// What is written so far.
    pub buf: Vec<u8>,
    /// The message's version.
    pub version: i16,
    /// Whether this version has compact lengths and tagged fields.
    pub flexible: bool,
    error: Option<Error>,
}

impl Writer {
    /// Starts an empty body.
    pub fn new(version: i16, flexible: bool) -> Self {
        Self { buf: Vec::new(), version, flexible, error: None }
    }

    /// The body, or the first value that has no form in this version.
    pub fn finish(self) -> Result<Vec<u8>, Error> {
        match self.error {
            None => Ok(self.buf),
            Some(e) => Err(e),
        }
    }

    /// Remembers the first error; writing goes on, so that no call site has to check.
    #[cold]
    #[inline(never)]
    pub fn fail(&mut self, reason: Reason) {
        let at = self.buf.len();
        self.error.get_or_insert_with(|| Error::new(reason, at));
    }

    /// Remembers that `field` is null where this version allows none.
    #[cold]
    #[inline(never)]
    pub fn fail_null(&mut self, field: &'static str) {
        let at = self.buf.len();
        self.error.get_or_insert_with(|| Error::new(Reason::Null, at).within(Step::Field(field)));
    }

    /// An unsigned variable-length integer.
    #[inline(never)]
    pub fn uvarint(&mut self, v: u32) {
        varint::put_u32(&mut self.buf, v);
    }

    #[inline(never)]
    pub(super) fn length(&mut self, n: Option<usize>, wide: bool) {
        let bytes = n.unwrap_or(0);
        let limit = if self.flexible || wide { i32::MAX as usize - 1 } else { i16::MAX as usize };
        if bytes > limit {
            self.fail(Reason::TooLong(bytes));
        } else if self.flexible {
            self.uvarint(n.map_or(0, |n| n as u32 + 1));
        } else if wide {
            self.buf.extend_from_slice(&n.map_or(-1, |n| n as i32).to_be_bytes());
        } else {
            self.buf.extend_from_slice(&n.map_or(-1, |n| n as i16).to_be_bytes());
        }
    }
}

/// The tagged fields of one struct, counted before they are written.
#[derive(Default)]
pub struct Tags {
    count: u32,
    body: Vec<u8>,
}

impl Tags {
    /// Adds a field; tags come in rising order because they are declared so.
    #[inline(never)]
    pub fn add(&mut self, w: &mut Writer, tag: u32, put: &dyn Fn(&mut Writer)) {
        let mut field = Writer::new(w.version, true);
        put(&mut field);
        varint::put_u32(&mut self.body, tag);
        varint::put_u32(&mut self.body, field.buf.len() as u32);
        self.body.extend_from_slice(&field.buf);
        self.count += 1;
        if w.error.is_none() {
            w.error = field.error;
        }
    }

    /// Writes the count and the fields.
    #[inline(never)]
    pub fn finish(self, w: &mut Writer) {
        w.uvarint(self.count);
        w.buf.extend_from_slice(&self.body);
    }
}
