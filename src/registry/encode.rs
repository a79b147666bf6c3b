//! Encodes a typed column as values of records, in Avro, JSON or Protobuf. The framing before each value names the
//! schema.
//!
//! Python chooses the schema, compiles the schema to a plan, and casts the column to the types that the plan expects
//! (`klamm/registry/columns/writing.py`). This file encodes the column according to the plan. A null in the column
//! becomes a tombstone.

use crate::typed::decode::avro::big_decimal;
use crate::typed::fault::{Fault, Result};
use crate::typed::text::{show_date, show_timestamp, uuid};
use crate::typed::varint::put_long;
use arrow_array::builder::BinaryBuilder;
use arrow_array::cast::AsArray;
use arrow_array::types::{
    Decimal128Type, Decimal256Type, Float32Type, Float64Type, Int32Type, Int64Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, BinaryArray, BooleanArray, FixedSizeBinaryArray, StringArray};
use arrow_buffer::{NullBuffer, i256};
use arrow_schema::DataType;
use serde_json::Value;
use std::sync::Arc;

/// Encodes each value of a column.
pub fn encode(column: &ArrayRef, plan: &str, prefix: &[u8]) -> std::result::Result<ArrayRef, (usize, Box<Fault>)> {
    let broken = || (0, Fault::new("the plan does not fit the column"));
    let plan: Value = serde_json::from_str(plan).map_err(|_| broken())?;
    let node = Node::bind(column.as_ref(), plan.get(1).unwrap_or(&Value::Null)).ok_or_else(broken)?;
    let format = plan.get(0).and_then(Value::as_str).unwrap_or_default();
    let mut values = BinaryBuilder::with_capacity(column.len(), column.len() * (prefix.len() + TYPICAL_SIZE));
    let (mut out, mut size) = (Vec::new(), 0usize);
    for row in 0..column.len() {
        if column.is_null(row) {
            values.append_null();
            continue;
        }
        out.clear();
        out.extend_from_slice(prefix);
        match format {
            "avro" => avro(&node, row, &mut out),
            "json" => json(&node, row, &mut out),
            "protobuf" => message(&node, row, &mut out),
            _ => return Err(broken()),
        }
        .map_err(|fault| (row, fault))?;
        size += out.len();
        if i32::try_from(size).is_err() {
            return Err((row, Fault::new("the records of the batch have 2 GiB or more: send smaller batches")));
        }
        values.append_value(&out);
    }
    Ok(Arc::new(values.finish()))
}

/// A column, and its part of the plan.
struct Node<'a> {
    nulls: Option<&'a NullBuffer>,
    values: Values<'a>,
    op: Op,
    /// Avro: in a union with null, the bytes for null, and the bytes before a value.
    union: Option<(Vec<u8>, Vec<u8>)>,
}

enum Values<'a> {
    Null,
    Bool(&'a BooleanArray),
    I32(&'a [i32]),
    I64(&'a [i64]),
    U32(&'a [u32]),
    U64(&'a [u64]),
    F32(&'a [f32]),
    F64(&'a [f64]),
    I128(&'a [i128]),
    I256(&'a [i256]),
    Binary(&'a BinaryArray),
    Text(&'a StringArray),
    Fixed(&'a FixedSizeBinaryArray),
    List(&'a [i32], Box<Node<'a>>),
    Map(&'a [i32], Box<Node<'a>>, Box<Node<'a>>),
    Struct(Vec<Part<'a>>),
}

/// A field of a struct.
struct Part<'a> {
    name: String,
    /// The number of the field in Protobuf, or the branch of a union in Avro.
    number: u32,
    /// The encoded default of a field for which there is no column.
    fill: Vec<u8>,
    node: Option<Node<'a>>,
}

/// The operation that writes a value. For `Plain`, the type of the column determines the encoding.
enum Op {
    Plain,
    /// Avro: bytes without a length.
    Rest,
    /// Avro: a decimal number in a fixed number of bytes.
    FixedDecimal(usize),
    Enum(Vec<String>),
    /// Avro: a UUID, and whether the encoder writes its 16 bytes.
    Uuid(bool),
    /// Avro: bytes that have a decimal number with its scale.
    BigDecimal,
    /// Avro: a time of day below a limit.
    TimeOfDay(i64),
    /// Avro: a struct with a field for each branch of a union.
    Members,
    /// Protobuf: the type of the field, and whether the encoder also writes the default value.
    Field(String, bool),
    /// Protobuf: the numbers of an enum by name.
    Numbers(Vec<(String, i32)>, bool),
    /// JSON: a decimal number with this number of digits after the point.
    Scale(i8),
    /// JSON: text that already is JSON.
    Raw,
    Date,
    /// JSON: a timestamp with a unit in nanoseconds, and whether the timestamp has a time zone.
    Time(i64, bool),
}

impl<'a> Node<'a> {
    /// Binds a plan to a column: `[op, children, [branch of null, branch of the value]]`.
    fn bind(array: &'a dyn Array, plan: &Value) -> Option<Self> {
        let op = Op::parse(plan.get(0)?)?;
        let children = plan.get(1).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let child = |at: usize, array: &'a dyn Array| Self::bind(array, children.get(at)?).map(Box::new);
        let values = match array.data_type() {
            DataType::Null => Values::Null,
            DataType::Boolean => Values::Bool(array.as_boolean()),
            DataType::Int32 => Values::I32(array.as_primitive::<Int32Type>().values()),
            DataType::Int64 => Values::I64(array.as_primitive::<Int64Type>().values()),
            DataType::UInt32 => Values::U32(array.as_primitive::<UInt32Type>().values()),
            DataType::UInt64 => Values::U64(array.as_primitive::<UInt64Type>().values()),
            DataType::Float32 => Values::F32(array.as_primitive::<Float32Type>().values()),
            DataType::Float64 => Values::F64(array.as_primitive::<Float64Type>().values()),
            DataType::Decimal128(..) => Values::I128(array.as_primitive::<Decimal128Type>().values()),
            DataType::Decimal256(..) => Values::I256(array.as_primitive::<Decimal256Type>().values()),
            DataType::Binary => Values::Binary(array.as_binary()),
            DataType::Utf8 => Values::Text(array.as_string()),
            DataType::FixedSizeBinary(_) => Values::Fixed(array.as_fixed_size_binary()),
            DataType::List(_) => {
                let list = array.as_list::<i32>();
                Values::List(list.value_offsets(), child(0, list.values().as_ref())?)
            }
            DataType::Map(..) => {
                let map = array.as_map();
                Values::Map(map.value_offsets(), child(0, map.keys().as_ref())?, child(1, map.values().as_ref())?)
            }
            DataType::Struct(_) => {
                let columns = array.as_struct().columns();
                let part = |plan: &Value| {
                    let byte = |v: &Value| v.as_u64().and_then(|v| u8::try_from(v).ok());
                    let node = match plan.get(2)?.as_u64() {
                        Some(at) => Some(Node::bind(columns.get(usize::try_from(at).ok()?)?.as_ref(), plan.get(4)?)?),
                        None => None,
                    };
                    Some(Part {
                        name: plan.get(0)?.as_str()?.to_owned(),
                        number: u32::try_from(plan.get(1)?.as_u64()?).ok()?,
                        fill: plan.get(3)?.as_array()?.iter().map(byte).collect::<Option<_>>()?,
                        node,
                    })
                };
                Values::Struct(children.iter().map(part).collect::<Option<_>>()?)
            }
            _ => return None,
        };
        let branch = |v: &Value| {
            let mut bytes = Vec::new();
            v.as_i64().inspect(|index| put_long(*index, &mut bytes));
            bytes
        };
        let union = plan.get(2).and_then(|pair| Some((branch(pair.get(0)?), branch(pair.get(1)?))));
        Some(Self { nulls: array.nulls(), values, op, union })
    }

    fn is_null(&self, row: usize) -> bool {
        matches!(self.values, Values::Null) || self.nulls.is_some_and(|nulls| nulls.is_null(row))
    }
}

impl Op {
    fn parse(plan: &Value) -> Option<Self> {
        let names = |v: &Value| v.as_array()?.iter().map(|n| n.as_str().map(str::to_owned)).collect::<Option<Vec<_>>>();
        Some(match plan.get(0)?.as_str()? {
            "plain" => Self::Plain,
            "rest" => Self::Rest,
            "fixed_decimal" => Self::FixedDecimal(usize::try_from(plan.get(1)?.as_u64()?).ok()?),
            "enum" => Self::Enum(names(plan.get(1)?)?),
            "uuid" => Self::Uuid(plan.get(1)?.as_bool()?),
            "big_decimal" => Self::BigDecimal,
            "time_of_day" => Self::TimeOfDay(plan.get(1)?.as_i64()?),
            "members" => Self::Members,
            "field" => Self::Field(plan.get(1)?.as_str()?.to_owned(), plan.get(2)?.as_bool()?),
            "numbers" => {
                let value =
                    |v: &Value| Some((v.get(0)?.as_str()?.to_owned(), i32::try_from(v.get(1)?.as_i64()?).ok()?));
                let values = plan.get(1)?.as_array()?.iter().map(value).collect::<Option<_>>()?;
                Self::Numbers(values, plan.get(2)?.as_bool()?)
            }
            "scale" => Self::Scale(i8::try_from(plan.get(1)?.as_i64()?).ok()?),
            "raw" => Self::Raw,
            "date" => Self::Date,
            "time" => Self::Time(plan.get(1)?.as_i64()?, plan.get(2)?.as_bool()?),
            _ => return None,
        })
    }
}

/// Writes a value in Avro's binary encoding.
fn avro(node: &Node<'_>, row: usize, out: &mut Vec<u8>) -> Result<()> {
    match (&node.union, node.is_null(row)) {
        (Some((null, _)), true) => {
            out.extend_from_slice(null);
            return Ok(());
        }
        (Some((_, value)), false) => out.extend_from_slice(value),
        (None, true) if !matches!(node.values, Values::Null) => {
            return Err(Fault::new("the value is null, and the schema does not allow null"));
        }
        (None, _) => {}
    }
    match &node.values {
        Values::Null => {}
        Values::Bool(array) => out.push(u8::from(array.value(row))),
        Values::I32(values) => put_integer(i64::from(value(values, row)), &node.op, out)?,
        Values::I64(values) => put_integer(value(values, row), &node.op, out)?,
        Values::U32(values) => put_long(i64::from(value(values, row)), out),
        Values::U64(values) => {
            let number = value(values, row);
            put_long(i64::try_from(number).map_err(|_| Fault::new(format!("{number} is no long")))?, out);
        }
        Values::F32(values) => out.extend_from_slice(&value(values, row).to_le_bytes()),
        Values::F64(values) => out.extend_from_slice(&value(values, row).to_le_bytes()),
        Values::I128(values) => decimal(i256::from_i128(value(values, row)), &node.op, out)?,
        Values::I256(values) => decimal(value(values, row), &node.op, out)?,
        Values::Binary(array) if matches!(node.op, Op::Rest) => out.extend_from_slice(array.value(row)),
        Values::Binary(array) => {
            if matches!(node.op, Op::BigDecimal) {
                big_decimal(array.value(row))?;
            }
            put_bytes(array.value(row), out);
        }
        Values::Fixed(array) => out.extend_from_slice(array.value(row)),
        Values::Text(array) => match &node.op {
            Op::Enum(symbols) => {
                let symbol = array.value(row);
                let at = symbols.iter().position(|candidate| candidate == symbol);
                put_long(at.ok_or_else(|| Fault::new(format!("the enum has no symbol {symbol:?}")))? as i64, out);
            }
            Op::Uuid(is_fixed) => {
                let text = array.value(row);
                let number = uuid(text)?;
                match is_fixed {
                    true => out.extend_from_slice(&number.to_be_bytes()),
                    false => put_bytes(text.as_bytes(), out),
                }
            }
            _ => put_bytes(array.value(row).as_bytes(), out),
        },
        Values::List(offsets, items) => {
            let (start, end) = bounds(offsets, row);
            if start < end {
                put_long((end - start) as i64, out);
            }
            for at in start..end {
                avro(items, at, out).map_err(|fault| fault.at_index(at - start))?;
            }
            out.push(0);
        }
        Values::Map(offsets, keys, items) => {
            let (start, end) = bounds(offsets, row);
            if start < end {
                put_long((end - start) as i64, out);
            }
            for at in start..end {
                let from = out.len();
                avro(keys, at, out)?;
                avro(items, at, out).map_err(|fault| fault.at_key(out.get(from + 1..).unwrap_or_default()))?;
            }
            out.push(0);
        }
        Values::Struct(parts) if matches!(node.op, Op::Members) => {
            let mut set =
                parts.iter().filter_map(|part| part.node.as_ref().map(|n| (part, n))).filter(|(_, n)| !n.is_null(row));
            let (Some((part, member)), None) = (set.next(), set.next()) else {
                return Err(Fault::new("exactly one branch of a union has to have a value"));
            };
            put_long(i64::from(part.number), out);
            avro(member, row, out).map_err(|fault| fault.in_field(&part.name))?;
        }
        Values::Struct(parts) => {
            for part in parts {
                match &part.node {
                    Some(node) => avro(node, row, out).map_err(|fault| fault.in_field(&part.name))?,
                    None => out.extend_from_slice(&part.fill),
                }
            }
        }
    }
    Ok(())
}

#[inline]
fn put_integer(number: i64, op: &Op, out: &mut Vec<u8>) -> Result<()> {
    if let Op::TimeOfDay(limit) = op
        && !(0..*limit).contains(&number)
    {
        return Err(Fault::new(format!("the time of day {number} is not within a day")));
    }
    put_long(number, out);
    Ok(())
}

fn decimal(number: i256, op: &Op, out: &mut Vec<u8>) -> Result<()> {
    let wide = number.to_be_bytes();
    let filler = if number.is_negative() { 0xff } else { 0 };
    let is_spare = |at: usize| {
        let next = wide.get(at + 1).copied().unwrap_or_default();
        wide.get(at) == Some(&filler) && (next >= 0x80) == number.is_negative()
    };
    let spare = (0..wide.len() - 1).take_while(|at| is_spare(*at)).count();
    let short = wide.get(spare..).unwrap_or_default();
    match op {
        Op::FixedDecimal(size) if short.len() > *size => {
            Err(Fault::new(format!("the number needs more than {size} bytes")))
        }
        Op::FixedDecimal(size) => {
            out.extend(std::iter::repeat_n(filler, size - short.len()));
            out.extend_from_slice(short);
            Ok(())
        }
        _ => {
            put_bytes(short, out);
            Ok(())
        }
    }
}

/// Writes a value as JSON.
fn json(node: &Node<'_>, row: usize, out: &mut Vec<u8>) -> Result<()> {
    if node.is_null(row) {
        out.extend_from_slice(b"null");
        return Ok(());
    }
    match &node.values {
        Values::Null => out.extend_from_slice(b"null"),
        Values::Bool(array) => out.extend_from_slice(if array.value(row) { b"true" } else { b"false" }),
        Values::I32(values) => match node.op {
            Op::Date => put_date(&show_date(i64::from(value(values, row))), out)?,
            _ => put_number(value(values, row), out),
        },
        Values::I64(values) => match node.op {
            Op::Time(unit, has_zone) => put_date(&show_timestamp(value(values, row), unit, has_zone), out)?,
            _ => put_number(value(values, row), out),
        },
        Values::U32(values) => put_number(value(values, row), out),
        Values::U64(values) => put_number(value(values, row), out),
        Values::F32(values) => put_float(f64::from(value(values, row)), out)?,
        Values::F64(values) => put_float(value(values, row), out)?,
        Values::I128(values) => put_decimal(i256::from_i128(value(values, row)), &node.op, out),
        Values::I256(values) => put_decimal(value(values, row), &node.op, out),
        Values::Binary(array) => put_base64(array.value(row), out),
        Values::Fixed(array) => put_base64(array.value(row), out),
        Values::Text(array) if matches!(node.op, Op::Raw) => out.extend_from_slice(array.value(row).as_bytes()),
        Values::Text(array) => put_text(array.value(row), out),
        Values::List(offsets, items) => {
            let (start, end) = bounds(offsets, row);
            out.push(b'[');
            for at in start..end {
                if at > start {
                    out.push(b',');
                }
                json(items, at, out).map_err(|fault| fault.at_index(at - start))?;
            }
            out.push(b']');
        }
        Values::Map(offsets, keys, items) => {
            let (start, end) = bounds(offsets, row);
            out.push(b'{');
            for at in start..end {
                if at > start {
                    out.push(b',');
                }
                json(keys, at, out)?;
                out.push(b':');
                json(items, at, out)?;
            }
            out.push(b'}');
        }
        Values::Struct(parts) => {
            out.push(b'{');
            let start = out.len();
            for part in parts {
                let Some(node) = &part.node else { continue };
                if out.len() > start {
                    out.push(b',');
                }
                put_text(&part.name, out);
                out.push(b':');
                json(node, row, out).map_err(|fault| fault.in_field(&part.name))?;
            }
            out.push(b'}');
        }
    }
    Ok(())
}

fn put_text(text: &str, out: &mut Vec<u8>) {
    // Writing to a Vec cannot fail.
    _ = serde_json::to_writer(out, text);
}

/// Writes a date or timestamp as text, whose form has four digits for the year.
fn put_date(text: &str, out: &mut Vec<u8>) -> Result<()> {
    if text.as_bytes().get(4) != Some(&b'-') || text.starts_with('-') {
        return Err(Fault::new(format!("the year of {text} is not between 0 and 9999")));
    }
    put_text(text, out);
    Ok(())
}

fn put_number(number: impl std::fmt::Display, out: &mut Vec<u8>) {
    out.extend_from_slice(number.to_string().as_bytes());
}

fn put_float(number: f64, out: &mut Vec<u8>) -> Result<()> {
    if !number.is_finite() {
        return Err(Fault::new(format!("JSON has no {number}")));
    }
    _ = serde_json::to_writer(out, &number);
    Ok(())
}

fn put_decimal(number: i256, op: &Op, out: &mut Vec<u8>) {
    let scale = if let Op::Scale(scale) = op { usize::try_from(*scale).unwrap_or_default() } else { 0 };
    let text = number.to_string();
    let (sign, digits) = text.strip_prefix('-').map_or(("", text.as_str()), |digits| ("-", digits));
    let padded = format!("{digits:0>width$}", width = scale + 1);
    let (whole, fraction) = padded.split_at(padded.len() - scale);
    put_number(sign, out);
    put_number(whole, out);
    if scale > 0 {
        put_number(format_args!(".{fraction}"), out);
    }
}

fn put_base64(bytes: &[u8], out: &mut Vec<u8>) {
    use base64::Engine as _;
    put_text(&base64::engine::general_purpose::STANDARD.encode(bytes), out);
}

/// Writes the fields of a message in Protobuf's wire format.
fn message(node: &Node<'_>, row: usize, out: &mut Vec<u8>) -> Result<()> {
    let Values::Struct(parts) = &node.values else { return Err(Fault::new("a message has to be a struct")) };
    for part in parts {
        let Some(node) = &part.node else { continue };
        if node.is_null(row) {
            continue;
        }
        field(node, row, part.number, out).map_err(|fault| fault.in_field(&part.name))?;
    }
    Ok(())
}

fn field(node: &Node<'_>, row: usize, number: u32, out: &mut Vec<u8>) -> Result<()> {
    match &node.values {
        Values::List(offsets, items) => {
            let (start, end) = bounds(offsets, row);
            for at in start..end {
                if items.is_null(at) {
                    return Err(Fault::new("an item is null, which Protobuf does not allow").at_index(at - start));
                }
                field(items, at, number, out).map_err(|fault| fault.at_index(at - start))?;
            }
            Ok(())
        }
        Values::Map(offsets, keys, items) => {
            let (start, end) = bounds(offsets, row);
            let mut entry = Vec::new();
            for at in start..end {
                entry.clear();
                field(keys, at, 1, &mut entry)?;
                if items.is_null(at) {
                    return Err(Fault::new("a value of a map is null, which Protobuf does not allow"));
                }
                field(items, at, 2, &mut entry)?;
                put_delimited(number, &entry, out);
            }
            Ok(())
        }
        Values::Struct(_) => {
            let mut inner = Vec::new();
            message(node, row, &mut inner)?;
            put_delimited(number, &inner, out);
            Ok(())
        }
        _ => scalar(node, row, number, out),
    }
}

fn scalar(node: &Node<'_>, row: usize, number: u32, out: &mut Vec<u8>) -> Result<()> {
    let (kind, always) = match &node.op {
        Op::Field(kind, always) => (kind.as_str(), *always),
        Op::Numbers(names, always) => {
            let Values::Text(array) = &node.values else { return Err(Fault::new("an enum has to be a string")) };
            let name = array.value(row);
            let value = names.iter().find(|(candidate, _)| candidate == name).map(|(_, value)| *value);
            let value = value.or_else(|| name.parse().ok());
            let value = value.ok_or_else(|| Fault::new(format!("the enum has no value {name:?}")))?;
            if value != 0 || *always {
                put_tag(number, 0, out);
                put_varint(i64::from(value) as u64, out);
            }
            return Ok(());
        }
        _ => return Err(Fault::new("the plan does not fit the column")),
    };
    if matches!(kind, "timestamp" | "duration") {
        let Values::I64(values) = &node.values else { return Err(Fault::new("a time has to be an integer")) };
        let micros = value(values, row);
        // The parts of a duration have one sign, and the nanoseconds of a timestamp count forward.
        let (seconds, rest) = match kind {
            "duration" => (micros / 1_000_000, micros % 1_000_000),
            _ => (micros.div_euclid(1_000_000), micros.rem_euclid(1_000_000)),
        };
        let nanoseconds = rest * 1000;
        let mut inner = Vec::new();
        for (at, part) in [(1, seconds), (2, nanoseconds)] {
            if part != 0 {
                put_tag(at, 0, &mut inner);
                put_varint(part as u64, &mut inner);
            }
        }
        put_delimited(number, &inner, out);
        return Ok(());
    }
    let integer = match &node.values {
        Values::Bool(array) => i64::from(array.value(row)),
        Values::I32(values) => i64::from(value(values, row)),
        Values::I64(values) => value(values, row),
        Values::U32(values) => i64::from(value(values, row)),
        Values::U64(values) => value(values, row) as i64,
        Values::F32(values) => {
            let bits = value(values, row).to_bits();
            if bits != 0 || always {
                put_tag(number, 5, out);
                out.extend_from_slice(&bits.to_le_bytes());
            }
            return Ok(());
        }
        Values::F64(values) => {
            let bits = value(values, row).to_bits();
            if bits != 0 || always {
                put_tag(number, 1, out);
                out.extend_from_slice(&bits.to_le_bytes());
            }
            return Ok(());
        }
        Values::Binary(array) => {
            put_nonempty(number, array.value(row), always, out);
            return Ok(());
        }
        Values::Text(array) => {
            put_nonempty(number, array.value(row).as_bytes(), always, out);
            return Ok(());
        }
        _ => return Err(Fault::new("the plan does not fit the column")),
    };
    if integer == 0 && !always {
        return Ok(());
    }
    match kind {
        "fixed32" | "sfixed32" => {
            put_tag(number, 5, out);
            out.extend_from_slice(&(integer as u32).to_le_bytes());
        }
        "fixed64" | "sfixed64" => {
            put_tag(number, 1, out);
            out.extend_from_slice(&integer.to_le_bytes());
        }
        "sint32" | "sint64" => {
            put_tag(number, 0, out);
            put_varint(zigzag(integer), out);
        }
        _ => {
            put_tag(number, 0, out);
            put_varint(integer as u64, out);
        }
    }
    Ok(())
}

fn put_nonempty(number: u32, bytes: &[u8], always: bool, out: &mut Vec<u8>) {
    if always || !bytes.is_empty() {
        put_delimited(number, bytes, out);
    }
}

fn put_delimited(number: u32, bytes: &[u8], out: &mut Vec<u8>) {
    put_tag(number, 2, out);
    put_varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

fn put_tag(number: u32, wire: u64, out: &mut Vec<u8>) {
    put_varint(u64::from(number) << 3 | wire, out);
}

/// Returns a value of a column. The column must have the row.
#[inline]
fn value<T: Copy + Default>(values: &[T], row: usize) -> T {
    values.get(row).copied().unwrap_or_default()
}

fn bounds(offsets: &[i32], row: usize) -> (usize, usize) {
    (value(offsets, row) as usize, value(offsets, row + 1) as usize)
}

fn put_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    put_long(bytes.len() as i64, out);
    out.extend_from_slice(bytes);
}

fn zigzag(number: i64) -> u64 {
    ((number << 1) ^ (number >> 63)) as u64
}

#[inline]
fn put_varint(mut number: u64, out: &mut Vec<u8>) {
    while number > 0x7f {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Number of bytes that the encoder reserves for each record.
const TYPICAL_SIZE: usize = 64;
