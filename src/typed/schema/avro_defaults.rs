//! Encodes the defaults of Avro's fields, and so checks that each default fits the type of its field.

use super::avro::{Id, Kind, Schema};
use crate::typed::fault::{Fault, Result};
use crate::typed::varint::put_long;
use serde_json::Value;
use std::collections::HashMap;
use std::sync::Arc;

/// Sets the defaults of a schema's fields: the record, the position of the field, and the default as JSON.
pub(super) fn set(schema: &mut Schema, defaults: Vec<(Id, usize, Value)>) -> Result<()> {
    let index = defaults.iter().map(|(record, at, value)| ((*record, *at), value)).collect();
    let mut encoder = Encoder { schema, defaults: index, left: LARGEST_DEFAULTS };
    let mut encoded = Vec::with_capacity(defaults.len());
    for (record, at, value) in &defaults {
        let Kind::Record { name, fields, .. } = &encoder.schema.node(*record).kind else { continue };
        let Some(field) = fields.get(*at) else { continue };
        let mut out = Vec::new();
        let done = encoder.encode(field.node, value, &mut out, 0);
        done.map_err(|fault| fault.in_field(&field.name).in_field(&name.full))?;
        encoded.push((*record, *at, Arc::from(out)));
    }
    for (record, at, default) in encoded {
        schema.set_default(record, at, default);
    }
    Ok(())
}

struct Encoder<'a> {
    schema: &'a Schema,
    defaults: HashMap<(Id, usize), &'a Value>,
    /// How many bytes and values all defaults together may still have. Defaults of records can contain each other.
    left: usize,
}

impl Encoder<'_> {
    fn encode(&mut self, id: Id, value: &Value, out: &mut Vec<u8>, depth: usize) -> Result<()> {
        let schema = self.schema;
        let kind = &schema.node(id).kind;
        let unfit = || {
            let shown: String = value.to_string().chars().take(LONGEST_VALUE).collect();
            Fault::new(format!("the default {shown} does not fit the type {}", kind.name()))
        };
        let cost = 1 + value.as_str().map_or(0, str::len);
        self.left =
            self.left.checked_sub(cost).ok_or_else(|| Fault::new("the defaults of the schema are too large"))?;
        if depth > DEEPEST_DEFAULT {
            return Err(Fault::new("a default is nested too deep"));
        }
        match (kind, value) {
            (Kind::Null, Value::Null) => {}
            (Kind::Boolean, Value::Bool(value)) => out.push(u8::from(*value)),
            (Kind::Int, value) => match value.as_i64().filter(|value| i32::try_from(*value).is_ok()) {
                Some(value) => put_long(value, out),
                None => return Err(unfit()),
            },
            (Kind::Long, value) => put_long(value.as_i64().ok_or_else(unfit)?, out),
            (Kind::Float, value) => out.extend((value.as_f64().ok_or_else(unfit)? as f32).to_le_bytes()),
            (Kind::Double, value) => out.extend(value.as_f64().ok_or_else(unfit)?.to_le_bytes()),
            (Kind::String, Value::String(text)) => {
                put_long(text.len() as i64, out);
                out.extend_from_slice(text.as_bytes());
            }
            // Each character is a byte.
            (Kind::Bytes | Kind::Fixed(..), Value::String(text)) => {
                let bytes: Option<Vec<u8>> = text.chars().map(|c| u8::try_from(u32::from(c)).ok()).collect();
                let bytes = bytes.ok_or_else(unfit)?;
                match kind {
                    Kind::Fixed(_, size) if *size != bytes.len() => return Err(unfit()),
                    Kind::Fixed(..) => {}
                    _ => put_long(bytes.len() as i64, out),
                }
                out.extend(bytes);
            }
            (Kind::Enum { symbols, .. }, Value::String(text)) => {
                let at = symbols.iter().position(|symbol| **symbol == **text).ok_or_else(unfit)?;
                put_long(at as i64, out);
            }
            (Kind::Array(item), Value::Array(values)) => {
                if !values.is_empty() {
                    put_long(values.len() as i64, out);
                }
                for value in values {
                    self.encode(*item, value, out, depth + 1)?;
                }
                out.push(0);
            }
            (Kind::Map(item), Value::Object(entries)) => {
                if !entries.is_empty() {
                    put_long(entries.len() as i64, out);
                }
                for (key, value) in entries {
                    put_long(key.len() as i64, out);
                    out.extend_from_slice(key.as_bytes());
                    self.encode(*item, value, out, depth + 1)?;
                }
                out.push(0);
            }
            (Kind::Union { branches, .. }, value) => {
                // The specification allows any branch since 1.12, and the first before.
                let start = out.len();
                for (at, branch) in branches.iter().enumerate() {
                    put_long(at as i64, out);
                    if self.encode(*branch, value, out, depth + 1).is_ok() {
                        return Ok(());
                    }
                    out.truncate(start);
                    self.left = self.left.saturating_sub(FAILED_BRANCH);
                }
                return Err(unfit());
            }
            (Kind::Record { fields, .. }, Value::Object(values)) => {
                for (at, field) in fields.iter().enumerate() {
                    let given = values.get(&*field.name).or_else(|| self.defaults.get(&(id, at)).copied());
                    let given = given.ok_or_else(unfit)?;
                    self.encode(field.node, given, out, depth + 1)?;
                }
            }
            _ => return Err(unfit()),
        }
        Ok(())
    }
}

/// Limit of the bytes and values of all defaults of a schema.
const LARGEST_DEFAULTS: usize = 2 << 20;

/// Cost of a branch of a union that does not fit a default.
const FAILED_BRANCH: usize = 1000;

/// Maximum depth of a default.
const DEEPEST_DEFAULT: usize = 128;

/// Maximum number of characters of a default in an error.
const LONGEST_VALUE: usize = 60;
