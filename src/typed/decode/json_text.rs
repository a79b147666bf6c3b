//! Receives a value as JSON text, for columns of types that contain themselves.
//!
//! The text is that of Avro's JSON encoding with these differences: a value of a union does not name its branch, bytes are
//! base64, decimals are strings, and dates and times are ISO 8601. A float that is not finite is a string.

use super::Sink;
use crate::typed::fault::{Fault, Result};
use crate::typed::resolve::{Branch, NameId};
use crate::typed::schema::avro::Unit;
use crate::typed::text::{show_date, show_time, show_timestamp, show_uuid};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use std::fmt::{Arguments, Write as _};
use std::io::{Error, Write};
use std::sync::Arc;

/// The text of a value.
pub struct JsonText<'a> {
    /// The text in UTF-8.
    pub text: Vec<u8>,
    names: &'a [Arc<str>],
    /// Maximum length of the text in bytes.
    limit: usize,
}

impl<'a> JsonText<'a> {
    /// Creates an empty text for values of a plan with these names.
    pub fn new(names: &'a [Arc<str>], limit: usize) -> Self {
        Self { text: Vec::new(), names, limit }
    }

    fn put(&mut self, value: impl Serialize) -> Result<()> {
        serde_json::to_writer(self, &value).map_err(|error| Fault::too_large(error.to_string()))
    }

    fn raw(&mut self, text: &[u8]) -> Result<()> {
        self.write_all(text).map_err(|error| Fault::too_large(error.to_string()))
    }

    /// Writes a string without characters that JSON escapes, such as a name of the schema.
    fn quoted(&mut self, text: &[u8]) -> Result<()> {
        self.raw(b"\"")?;
        self.raw(text)?;
        self.raw(b"\"")
    }

    fn shown(&mut self, text: Arguments<'_>) -> Result<()> {
        self.write_fmt(text).map_err(|error| Fault::too_large(error.to_string()))
    }

    /// Reads a part of an array, map or record.
    fn part(&mut self, is_first: &mut bool, read: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        if !std::mem::take(is_first) {
            self.raw(b",")?;
        }
        read(self)
    }
}

impl Write for JsonText<'_> {
    fn write(&mut self, text: &[u8]) -> std::io::Result<usize> {
        if text.len() > self.limit.saturating_sub(self.text.len()) {
            return Err(Error::other("the JSON text of the record is too large"));
        }
        self.text.try_reserve(text.len()).map_err(|_| Error::other("there is not enough memory for the JSON text"))?;
        self.text.extend_from_slice(text);
        Ok(text.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Sink for JsonText<'_> {
    type Value = ();
    /// Whether the next part is the first one.
    type List = bool;
    type Map = bool;
    type Record = bool;

    fn null(&mut self) -> Result<()> {
        self.raw(b"null")
    }

    fn boolean(&mut self, value: bool) -> Result<()> {
        self.put(value)
    }

    fn integer(&mut self, value: i64) -> Result<()> {
        self.put(value)
    }

    fn float(&mut self, value: f32) -> Result<()> {
        if value.is_finite() { self.put(value) } else { self.double(f64::from(value)) }
    }

    fn double(&mut self, value: f64) -> Result<()> {
        match value {
            f64::INFINITY => self.raw(b"\"Infinity\""),
            f64::NEG_INFINITY => self.raw(b"\"-Infinity\""),
            _ if value.is_nan() => self.raw(b"\"NaN\""),
            _ => self.put(value),
        }
    }

    fn bytes(&mut self, value: &[u8]) -> Result<()> {
        self.quoted(STANDARD.encode(value).as_bytes())
    }

    fn text(&mut self, value: &str) -> Result<()> {
        self.put(value)
    }

    fn symbol(&mut self, _: NameId, value: &str) -> Result<()> {
        self.quoted(value.as_bytes())
    }

    fn decimal(&mut self, unscaled: &[u8], _: u32, scale: i32) -> Result<()> {
        let sign = if unscaled.first().is_some_and(|first| *first >= 0x80) { "-" } else { "" };
        let digits = decimal_digits(unscaled);
        match usize::try_from(scale) {
            Ok(0) => self.shown(format_args!("\"{sign}{digits}\"")),
            Ok(scale) if scale <= LONGEST_FRACTION => {
                let digits = format!("{digits:0>width$}", width = scale + 1);
                let (whole, fraction) = digits.split_at(digits.len() - scale);
                self.shown(format_args!("\"{sign}{whole}.{fraction}\""))
            }
            _ => self.shown(format_args!("\"{sign}{digits}E{:+}\"", -i64::from(scale))),
        }
    }

    fn uuid(&mut self, value: u128) -> Result<()> {
        self.quoted(&show_uuid(value))
    }

    fn date(&mut self, days: i32) -> Result<()> {
        self.quoted(show_date(i64::from(days)).as_bytes())
    }

    fn time(&mut self, value: i64, unit: Unit) -> Result<()> {
        self.quoted(show_time(value.saturating_mul(nanoseconds(unit))).as_bytes())
    }

    fn timestamp(&mut self, value: i64, unit: Unit, is_local: bool) -> Result<()> {
        self.quoted(show_timestamp(value, nanoseconds(unit), !is_local).as_bytes())
    }

    fn list(&mut self) -> Result<bool> {
        self.raw(b"[")?;
        Ok(true)
    }

    fn item(&mut self, is_first: &mut bool, read: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        self.part(is_first, read)
    }

    fn end_list(&mut self, _: bool) -> Result<()> {
        self.raw(b"]")
    }

    fn map(&mut self) -> Result<bool> {
        self.raw(b"{")?;
        Ok(true)
    }

    fn entry(&mut self, is_first: &mut bool, key: &str, read: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        self.part(is_first, |text| {
            text.put(key)?;
            text.raw(b":")?;
            read(text)
        })
    }

    fn end_map(&mut self, _: bool) -> Result<()> {
        self.raw(b"}")
    }

    fn record(&mut self) -> Result<bool> {
        self.map()
    }

    fn field(
        &mut self,
        is_first: &mut bool,
        _: usize,
        name: NameId,
        read: impl FnOnce(&mut Self) -> Result<()>,
    ) -> Result<()> {
        let names = self.names;
        let name = names.get(name.index()).ok_or_else(|| Fault::new("the name is unknown"))?;
        self.part(is_first, |text| {
            text.quoted(name.as_bytes())?;
            text.raw(b":")?;
            read(text)
        })
    }

    fn end_record(&mut self, is_first: bool) -> Result<()> {
        self.end_map(is_first)
    }

    fn branch(&mut self, _: &Branch, read: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        read(self)
    }
}

fn nanoseconds(unit: Unit) -> i64 {
    1_000_000_000 / unit.per_second()
}

/// Returns the decimal digits of the absolute value of a big-endian number.
fn decimal_digits(bytes: &[u8]) -> String {
    let is_negative = bytes.first().is_some_and(|first| *first >= 0x80);
    // Nine digits in each part, the lowest part first. The complement is one less than the absolute value.
    let mut parts: Vec<u64> = vec![0];
    let mut shift = |bits: u32, value: u64| {
        let mut carry = value;
        for part in &mut parts {
            carry += *part << bits;
            *part = carry % BILLION;
            carry /= BILLION;
        }
        if carry > 0 {
            parts.push(carry);
        }
    };
    for byte in bytes {
        shift(8, u64::from(if is_negative { !byte } else { *byte }));
    }
    shift(0, u64::from(is_negative));
    let mut text = parts.pop().unwrap_or_default().to_string();
    for part in parts.iter().rev() {
        // Writing to a String cannot fail.
        _ = write!(text, "{part:09}");
    }
    text
}

const BILLION: u64 = 1_000_000_000;

/// Number of digits after the point up to which a decimal has no exponent.
const LONGEST_FRACTION: usize = 76;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_of_all_sizes_have_their_digits() {
        for number in [0i128, 1, -1, 255, -256, 999_999_999, 1_000_000_000, -1_000_000_000, i128::MAX, i128::MIN] {
            assert_eq!(decimal_digits(&number.to_be_bytes()), number.unsigned_abs().to_string());
        }
    }

    #[test]
    fn text_that_is_too_large_is_an_error() {
        let mut json = JsonText::new(&[], 5);
        assert!(json.text("abc").is_ok());
        assert!(json.null().is_err());
    }
}
