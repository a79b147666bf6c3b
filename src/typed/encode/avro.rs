//! Encodes values in Avro's binary encoding.
//!
//! A value must have the type of its schema: the encoder neither rounds a number nor takes a boolean for an integer. In a
//! union, the name of the value decides the branch. For a value without a name, the encoder tries the branches that can hold
//! the value, first those that keep all of it.

use super::{Source, Value};
use crate::typed::fault::{Fault, Result};
use crate::typed::schema::avro::{Id, Kind, Logical, Node, Schema, Unit};
use crate::typed::text::{show_uuid, uuid};
use crate::typed::varint::put_long;

/// Appends the encoded value. With `is_strict`, fields that the schema does not have are an error.
pub fn encode<S: Source>(schema: &Schema, source: &S, is_strict: bool, out: &mut Vec<u8>) -> Result<()> {
    let root = schema.node(schema.root());
    // Confluent's serializers write a value of the schema "bytes" without a length.
    if matches!((&root.kind, root.logical), (Kind::Bytes, None)) {
        return match source.value()? {
            Value::Bytes(bytes) => {
                out.extend_from_slice(bytes);
                Ok(())
            }
            _ => Err(unfit(root, source)),
        };
    }
    Encoder { schema, is_strict, attempts: ATTEMPTS, out }.put(schema.root(), source, 0)
}

struct Encoder<'a> {
    schema: &'a Schema,
    is_strict: bool,
    /// How many branches may still fail. Unions in unions could otherwise take exponential time.
    attempts: usize,
    out: &'a mut Vec<u8>,
}

impl Encoder<'_> {
    fn put<S: Source>(&mut self, id: Id, source: &S, depth: usize) -> Result<()> {
        let schema = self.schema;
        let node = schema.node(id);
        if depth > DEEPEST {
            return Err(Fault::new("the value is nested too deep"));
        }
        match &node.kind {
            Kind::Union { branches, .. } => return self.put_union(node, branches, source, depth),
            Kind::Record { .. } => return self.put_record(id, node, source, depth),
            _ => {}
        }
        match (&node.kind, source.value()?) {
            (Kind::Null, Value::Null) => {}
            (Kind::Boolean, Value::Boolean(value)) => self.out.push(u8::from(value)),
            (Kind::Int | Kind::Long, value) => {
                let number = integer(node, &value)?.ok_or_else(|| unfit(node, source))?;
                if matches!(node.kind, Kind::Int) && i32::try_from(number).is_err() {
                    return Err(Fault::new(format!("the number {number} does not fit the type int")));
                }
                put_long(number, self.out);
            }
            (Kind::Float, Value::Float(value)) => {
                if value.is_finite() && (value as f32).is_infinite() {
                    return Err(Fault::new(format!("the number {value} does not fit the type float")));
                }
                self.out.extend((value as f32).to_le_bytes());
            }
            (Kind::Double, Value::Float(value)) => self.out.extend(value.to_le_bytes()),
            (Kind::Float | Kind::Double, Value::Integer(value)) => {
                let is_float = matches!(node.kind, Kind::Float);
                let converted = if is_float { f64::from(value as f32) } else { value as f64 };
                // 2^63 as a float is no i64, and converts back to the largest one.
                if converted as i64 != value || value == i64::MAX {
                    let name = node.kind.name();
                    return Err(Fault::new(format!("the number {value} has more digits than the type {name}")));
                }
                match is_float {
                    true => self.out.extend((value as f32).to_le_bytes()),
                    false => self.out.extend(converted.to_le_bytes()),
                }
            }
            (Kind::Bytes | Kind::Fixed(..), value) => self.put_bytes(node, &value, source)?,
            (Kind::String, Value::Text(text)) => {
                if node.logical.is_some() {
                    uuid(text)?;
                }
                self.put_block(text.as_bytes());
            }
            (Kind::String, Value::Uuid(value)) if node.logical.is_some() => {
                self.put_block(&show_uuid(value));
            }
            (Kind::Enum { symbols, name, .. }, Value::Text(text)) => {
                let at = symbols.iter().position(|symbol| **symbol == *text);
                let at = at.ok_or_else(|| Fault::new(format!("the enum {} has no symbol {text:?}", name.full)))?;
                put_long(at as i64, self.out);
            }
            (Kind::Array(item), Value::List | Value::Named(..)) => self.put_list(*item, source, depth)?,
            (Kind::Map(item), Value::Map) => {
                if source.entry_count() > 0 {
                    put_long(source.entry_count() as i64, self.out);
                    source.entries(&mut |key, value| {
                        self.put_block(key.as_bytes());
                        self.put(*item, &value, depth + 1).map_err(|fault| fault.at_key(key.as_bytes()))
                    })?;
                }
                self.out.push(0);
            }
            _ => return Err(unfit(node, source)),
        }
        Ok(())
    }

    fn put_block(&mut self, bytes: &[u8]) {
        put_long(bytes.len() as i64, self.out);
        self.out.extend_from_slice(bytes);
    }

    fn put_list<S: Source>(&mut self, item: Id, source: &S, depth: usize) -> Result<()> {
        let mut length = 0;
        source.items(&mut |count| length = count, &mut |_| Ok(()))?;
        if length > 0 {
            put_long(length as i64, self.out);
            let mut index = 0;
            source.items(&mut |_| (), &mut |value| {
                self.put(item, &value, depth + 1).map_err(|fault| fault.at_index(index))?;
                index += 1;
                Ok(())
            })?;
        }
        self.out.push(0);
        Ok(())
    }

    fn put_bytes<S: Source>(&mut self, node: &Node, value: &Value<'_, S>, source: &S) -> Result<()> {
        let size = if let Kind::Fixed(_, size) = node.kind { Some(size) } else { None };
        let owned;
        let bytes = match (node.logical, value) {
            (Some(Logical::Decimal { precision, scale }), Value::Number(number)) => {
                owned = padded(number.unscaled(precision, scale)?, size);
                owned.as_slice()
            }
            (Some(Logical::BigDecimal), Value::Number(number)) => {
                let (digits, scale) = number.parts()?;
                let mut bytes = Vec::with_capacity(digits.len() + 6);
                put_long(digits.len() as i64, &mut bytes);
                bytes.extend(digits);
                put_long(i64::from(scale), &mut bytes);
                owned = bytes;
                owned.as_slice()
            }
            (Some(Logical::Decimal { .. } | Logical::BigDecimal), Value::Integer(value)) => {
                let number = super::number::Number::parse(&value.to_string());
                let number = number.ok_or_else(|| unfit(node, source))?;
                return self.put_bytes(node, &Value::Number(number), source);
            }
            (Some(Logical::Decimal { .. } | Logical::BigDecimal), _) => return Err(unfit(node, source)),
            (Some(Logical::Uuid), Value::Uuid(value)) => {
                owned = value.to_be_bytes().to_vec();
                owned.as_slice()
            }
            (Some(Logical::Uuid), Value::Text(text)) => {
                owned = uuid(text)?.to_be_bytes().to_vec();
                owned.as_slice()
            }
            (_, Value::Bytes(bytes)) => *bytes,
            _ => return Err(unfit(node, source)),
        };
        match size {
            None => self.put_block(bytes),
            Some(size) if size == bytes.len() => self.out.extend_from_slice(bytes),
            Some(size) => {
                let (name, length) = (node.kind.name(), bytes.len());
                return Err(Fault::new(format!("the value has {length} bytes, and {name} has {size}")));
            }
        }
        Ok(())
    }

    fn put_record<S: Source>(&mut self, id: Id, node: &Node, source: &S, depth: usize) -> Result<()> {
        let Kind::Record { fields, by_name, .. } = &node.kind else { return Err(unfit(node, source)) };
        match source.value()? {
            Value::Map => {}
            Value::Named(_, inner) => return self.put(id, &inner, depth + 1),
            _ => return Err(unfit(node, source)),
        }
        let schema = self.schema;
        for (at, field) in fields.iter().enumerate() {
            match (source.field(id.index(), at)?, &field.default, &schema.node(field.node).kind) {
                (Some(value), ..) => {
                    self.put(field.node, &value, depth + 1).map_err(|fault| fault.in_field(&field.name))?;
                }
                (None, Some(default), _) => self.out.extend_from_slice(default),
                (None, None, Kind::Null) => {}
                (None, None, Kind::Union { null: Some(null), .. }) => put_long(*null as i64, self.out),
                (None, None, _) => {
                    return Err(Fault::new("the field is missing, and the schema has no default").in_field(&field.name));
                }
            }
        }
        if self.is_strict {
            source.entries(&mut |key, _| match by_name.contains_key(key) || key == RECORD_NAME {
                true => Ok(()),
                false => Err(Fault::new("the schema does not have the field").in_field(key)),
            })?;
        }
        Ok(())
    }

    fn put_union<S: Source>(&mut self, node: &Node, branches: &[Id], source: &S, depth: usize) -> Result<()> {
        let Kind::Union { by_name, null, .. } = &node.kind else { return Err(unfit(node, source)) };
        let value = source.value()?;
        let has_array = || branches.iter().any(|id| matches!(self.schema.node(*id).kind, Kind::Array(_)));
        let unknown = |name: &str| Fault::new(format!("the union has no branch {name:?}"));
        match (&value, null) {
            (Value::Null, Some(null)) => {
                put_long(*null as i64, self.out);
                return Ok(());
            }
            (Value::Named(name, inner), _) => match by_name.get(name.as_str()) {
                Some(at) => return self.put_branch(branches, *at, inner, depth),
                None if has_array() => {}
                None => return Err(unknown(name)),
            },
            (Value::Map, _) => {
                if let Some((name, is_explicit)) = source.record_name()? {
                    match by_name.get(name.as_str()) {
                        Some(at) => return self.put_branch(branches, *at, source, depth),
                        None if is_explicit => return Err(unknown(&name)),
                        None => {}
                    }
                }
            }
            _ => {}
        }
        // The most common union: null and one other branch, whose error says what does not fit.
        if let ([_, _], Some(null)) = (branches, null) {
            return self.put_branch(branches, usize::from(*null == 0), source, depth);
        }
        let mut candidates = Vec::new();
        let kind = |branch: &Id| &self.schema.node(*branch).kind;
        let has_integer = branches.iter().any(|branch| matches!(kind(branch), Kind::Int | Kind::Long));
        for (at, branch) in branches.iter().enumerate() {
            let is_float = matches!(kind(branch), Kind::Float | Kind::Double);
            // An integer that does not fit the integer of the union is an error, and not a float.
            if matches!(value, Value::Integer(_)) && is_float && has_integer {
                continue;
            }
            if let Some(rank) = self.rank(*branch, &value, source)? {
                candidates.push((rank, at));
            }
        }
        candidates.sort_unstable();
        let (start, mut first) = (self.out.len(), None);
        for (_, at) in &candidates {
            match self.put_branch(branches, *at, source, depth) {
                Ok(()) => return Ok(()),
                Err(fault) => _ = first.get_or_insert(fault),
            }
            self.out.truncate(start);
            self.attempts = self.attempts.saturating_sub(1);
            if self.attempts == 0 {
                break;
            }
        }
        Err(first.unwrap_or_else(|| unfit(node, source)))
    }

    fn put_branch<S: Source>(&mut self, branches: &[Id], at: usize, source: &S, depth: usize) -> Result<()> {
        let branch = branches.get(at).ok_or_else(|| Fault::new("the union has no such branch"))?;
        put_long(at as i64, self.out);
        self.put(*branch, source, depth + 1)
    }

    /// Returns how much of the value a branch loses, for the order in which the branches are tried. 0 loses nothing.
    fn rank<S: Source>(&self, branch: Id, value: &Value<'_, S>, source: &S) -> Result<Option<usize>> {
        let node = self.schema.node(branch);
        let of_unit = |unit: Unit, micros: i64| usize::from(unit == Unit::Millis && micros % 1_000 != 0) * 2;
        Ok(match (value, &node.kind, node.logical) {
            (Value::Boolean(_), Kind::Boolean, _) => Some(0),
            (Value::Integer(_), Kind::Int | Kind::Long, logical) => Some(if logical.is_some() { 1 } else { 0 }),
            (Value::Integer(_), Kind::Double, _) => Some(2),
            (Value::Integer(_), Kind::Float, _) => Some(3),
            (Value::Integer(_) | Value::Number(_), _, Some(Logical::Decimal { .. })) => Some(2),
            (Value::Integer(_) | Value::Number(_), _, Some(Logical::BigDecimal)) => Some(3),
            (Value::Float(_), Kind::Double, _) => Some(0),
            (Value::Float(_), Kind::Float, _) => Some(1),
            (Value::Text(_), Kind::String, logical) => Some(usize::from(logical.is_some())),
            (Value::Text(_), Kind::Enum { .. }, _) => Some(0),
            (Value::Bytes(_), Kind::Bytes | Kind::Fixed(..), logical) => Some(usize::from(logical.is_some())),
            (Value::Uuid(_), _, Some(Logical::Uuid)) => Some(0),
            (Value::Date(_), _, Some(Logical::Date)) => Some(0),
            (Value::Time(micros), _, Some(Logical::Time(unit))) => Some(of_unit(unit, *micros)),
            (Value::DateTime(micros, false), _, Some(Logical::Timestamp { unit, is_local: false })) => {
                Some(of_unit(unit, *micros))
            }
            (Value::DateTime(micros, true), _, Some(Logical::Timestamp { unit, is_local })) => {
                Some(of_unit(unit, *micros) + usize::from(!is_local))
            }
            (Value::List | Value::Named(..), Kind::Array(_), _) => Some(0),
            // Before a record that lacks a key.
            (Value::Map, Kind::Map(_), _) => Some(MAP_RANK),
            (Value::Map, Kind::Record { fields, by_name, .. }, _) => {
                let mut known = 0;
                let mut unknown = 0;
                source.entries(&mut |key, _| {
                    if by_name.contains_key(key) {
                        known += 1;
                    } else if key != RECORD_NAME {
                        unknown += 1;
                    }
                    Ok(())
                })?;
                Some(unknown * (MAP_RANK + 1) + (fields.len() - known).min(MAP_RANK - 1))
            }
            _ => None,
        })
    }
}

/// Returns the integer for a value of an int or long, or `None` if the value has another type.
fn integer<S>(node: &Node, value: &Value<'_, S>) -> Result<Option<i64>> {
    Ok(match (node.logical, value) {
        (Some(Logical::Date), Value::Date(days)) => Some(*days),
        (Some(Logical::Time(unit)), Value::Time(_) | Value::Integer(_)) => {
            let number = match value {
                Value::Time(micros) if unit == Unit::Millis => micros / 1_000,
                Value::Time(number) | Value::Integer(number) => *number,
                _ => 0,
            };
            if !(0..86_400 * unit.per_second()).contains(&number) {
                return Err(Fault::new(format!("the time of day {number} is not within a day")));
            }
            Some(number)
        }
        (Some(Logical::Timestamp { unit, .. }), Value::DateTime(micros, _)) => Some(match unit {
            Unit::Millis => micros.div_euclid(1_000),
            Unit::Micros => *micros,
            Unit::Nanos => micros
                .checked_mul(1_000)
                .ok_or_else(|| Fault::new("the time is outside the years that nanoseconds can hold, 1677 to 2262"))?,
        }),
        (_, Value::Integer(number)) => Some(*number),
        _ => None,
    })
}

/// Returns a number in two's complement with the number of bytes of a fixed type. A longer number stays as it is.
fn padded(bytes: Vec<u8>, size: Option<usize>) -> Vec<u8> {
    let Some(missing) = size.and_then(|size| size.checked_sub(bytes.len())) else { return bytes };
    let filler = if bytes.first().is_some_and(|first| *first >= 0x80) { 0xff } else { 0 };
    let mut wide = vec![filler; missing];
    wide.extend(bytes);
    wide
}

/// Returns the error for a value of another type than its schema.
#[cold]
fn unfit<S: Source>(node: &Node, source: &S) -> Box<Fault> {
    let expected = match node.logical {
        Some(logical) => format!("{} ({})", node.kind.name(), logical.name()),
        None => node.kind.name().to_owned(),
    };
    Fault::new(format!("the value is of type {}, and the schema has {expected}", source.type_name()))
}

/// The key that names the record of a dict, as in fastavro.
pub const RECORD_NAME: &str = "-type";

/// Maximum depth of a value.
const DEEPEST: usize = 256;

/// Maximum number of branches that fail before the encoder gives up.
const ATTEMPTS: usize = 10_000;

/// Rank of a map in a union.
const MAP_RANK: usize = 1_000;
