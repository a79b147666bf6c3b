//! Finds the framing of a key or value. The framing names the schema, in bytes before the payload or in a record
//! header.
//!
//! `klamm/registry/framing.py` describes the framings. `frame.rs` only separates the framing from the payload. Python
//! interprets each distinct framing once.

use crate::record::Record;
use crate::typed::fault::{Fault, Result};

/// The framing of a column's records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Framing {
    /// Whether values have a framing. Plain JSON has no framing.
    pub is_framed: bool,
    /// Length of a schema ID: 4 bytes, or 8 bytes in some configurations of Apicurio.
    pub id_bytes: usize,
    /// Whether the position of a Protobuf message in its schema follows the ID.
    pub has_indexes: bool,
    /// Whether values can start with the bytes of a framing and have none. Only Avro values can.
    pub is_ambiguous: bool,
    /// Whether the column contains keys instead of values.
    pub is_key: bool,
}

/// A framing and its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Framed<'a> {
    /// Magic byte, schema ID and message indexes.
    pub prefix: &'a [u8],
    /// The encoded value.
    pub payload: &'a [u8],
}

/// The framings that a key or value can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Framings<'a> {
    /// The most likely framing.
    pub first: Framed<'a>,
    /// The framing of a value that cannot be decoded with the first one.
    pub second: Option<Framed<'a>>,
}

impl Framing {
    /// Returns the framings of a record's key or value, or `None` for a null key or value.
    ///
    /// If a program copied the headers of a record, a value with a framing of its own can have the header of an earlier
    /// value. The last header of a name counts.
    pub fn of<'a>(&self, record: &Record, data: &'a [u8]) -> Result<Option<Framings<'a>>> {
        let bytes = if self.is_key { record.key(data) } else { record.value(data) };
        let Some(bytes) = bytes else { return Ok(None) };
        if !self.is_framed {
            return Ok(Some(Framings { first: Framed { prefix: &[], payload: bytes }, second: None }));
        }
        if record.header_count() > 0 {
            let name: &[u8] = if self.is_key { b"__key_schema_id" } else { b"__value_schema_id" };
            let headers = record.headers(data).filter(|(key, _)| *key == name).filter_map(|(_, value)| value);
            if let Some(header) = headers.last() {
                return self.with_header(header, bytes).map(Some);
            }
        }
        Ok(Some(Framings { first: self.in_value(bytes)?, second: None }))
    }

    fn with_header<'a>(&self, header: &'a [u8], bytes: &'a [u8]) -> Result<Framings<'a>> {
        let of_header = self
            .end(header, " of the record header")
            .map(|end| Framed { prefix: header.get(..end).unwrap_or_default(), payload: bytes });
        let own = if matches!(bytes, [0 | 1, ..]) { self.in_value(bytes).ok() } else { None };
        Ok(match own {
            Some(own) if self.is_ambiguous => match of_header {
                Ok(first) => Framings { first, second: Some(own) },
                Err(_) => Framings { first: own, second: None },
            },
            // JSON text and Protobuf messages never start with 0 or 1.
            Some(first) => Framings { first, second: None },
            None => Framings { first: of_header?, second: None },
        })
    }

    fn in_value<'a>(&self, bytes: &'a [u8]) -> Result<Framed<'a>> {
        let (prefix, payload) = bytes.split_at(self.end(bytes, "")?);
        Ok(Framed { prefix, payload })
    }

    /// Returns the length of the framing.
    #[inline]
    fn end(&self, source: &[u8], whose: &str) -> Result<usize> {
        let size = match source {
            [0, ..] => 1 + self.id_bytes,
            [1, ..] => 17,
            [0xc3, 1, ..] => 10,
            [] => return Err(Fault::new("the value is empty, so it has no schema ID")),
            [first, ..] => {
                return Err(Fault::new(format!(
                    "the first byte{whose} is {first}, which is not the start of a known framing"
                )));
            }
        };
        if source.len() < size {
            return Err(Fault::new(format!("the framing{whose} needs {size} bytes and has {}", source.len())));
        }
        if self.has_indexes { indexes_end(source, size) } else { Ok(size) }
    }
}

fn indexes_end(source: &[u8], start: usize) -> Result<usize> {
    let mut at = start;
    let count = varint(source, &mut at)?;
    if !(0..=MAX_INDEXES).contains(&count) {
        return Err(Fault::new(format!("the framing has {count} message indexes, and {MAX_INDEXES} are allowed")));
    }
    for _ in 0..count {
        varint(source, &mut at)?;
    }
    Ok(at)
}

fn varint(source: &[u8], at: &mut usize) -> Result<i64> {
    let mut value = 0u64;
    for shift in (0..35).step_by(7) {
        let Some(&byte) = source.get(*at) else { return Err(Fault::new("the framing ends in the message indexes")) };
        *at += 1;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok((value >> 1) as i64 ^ -((value & 1) as i64));
        }
    }
    Err(Fault::new("the framing has a message index that is too large"))
}

/// Maximum number of message indexes, as in `klamm/registry/framing.py`.
const MAX_INDEXES: i64 = 64;
