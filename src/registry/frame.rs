//! Finds the framing of a key or value. The framing names the schema, in bytes before the payload or in a record
//! header.
//!
//! `klamm/registry/framing.py` describes the framings. `frame.rs` only separates the framing from the payload. Python
//! interprets each distinct framing once.

use super::fault::{Fault, Result};
use crate::record::Record;

/// The framing of a column's records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Framing {
    /// Whether values have a framing. Plain JSON has no framing.
    pub is_framed: bool,
    /// Length of a schema ID: 4 bytes, or 8 bytes in some configurations of Apicurio.
    pub id_bytes: usize,
    /// Whether the position of a Protobuf message in its schema follows the ID.
    pub has_indexes: bool,
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

impl Framing {
    /// Returns the key or value of a record with its framing, or `None` for a null key or value.
    pub fn of<'a>(&self, record: &Record, data: &'a [u8]) -> Result<Option<Framed<'a>>> {
        let bytes = if self.is_key { record.key(data) } else { record.value(data) };
        let Some(bytes) = bytes else { return Ok(None) };
        if !self.is_framed {
            return Ok(Some(Framed { prefix: &[], payload: bytes }));
        }
        if record.header_count() > 0 {
            let name: &[u8] = if self.is_key { b"__key_schema_id" } else { b"__value_schema_id" };
            let framing_header = record.headers(data).find_map(|(key, value)| value.filter(|_| key == name));
            if let Some(header) = framing_header {
                let end = self.end(header, " of the record header")?;
                return Ok(Some(Framed { prefix: header.get(..end).unwrap_or_default(), payload: bytes }));
            }
        }
        let (prefix, payload) = bytes.split_at(self.end(bytes, "")?);
        Ok(Some(Framed { prefix, payload }))
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
