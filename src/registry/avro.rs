//! Decodes Avro's binary encoding into columns.
//!
//! An [`Op`] reads a value of the writer's schema and appends it to the column of the reader's schema. Before
//! the first record of a writer's schema, Python compiles this schema and the reader's schema into operations
//! (`klamm/registry/columns/avro.py`).

use super::column::{Column, Data};
use crate::typed::fault::{Fault, Result};
use arrow_buffer::i256;
use serde_json::Value;

/// An operation that reads a value of the writer's schema into a column.
#[derive(Debug)]
pub enum Op {
    Null,
    Bool,
    Int,
    Long,
    Float,
    Double,
    /// Bytes or a string.
    Bytes,
    /// The remaining bytes, because Confluent's serializers write a value of the schema "bytes" without a length.
    Rest,
    Fixed(usize),
    /// Bytes, or a fixed number of bytes, and the number of digits after the point.
    Decimal(Option<usize>, i8),
    /// 16 bytes that become the text of a UUID.
    Uuid,
    /// An integer that the decoder multiplies and divides, because the reader counts time in another unit.
    Scaled(i64, i64),
    /// A time of day that the decoder multiplies and divides, and that must be below a limit.
    Time(i64, i64, i64),
    /// The reader's symbol for each symbol of the writer. False marks a symbol of the writer for which the reader has
    /// no symbol and no default.
    Enum(Vec<(String, bool)>),
    /// The items, and their smallest size in bytes.
    Array(Box<Op>, usize),
    Map(Box<Op>),
    Record(Vec<Step>),
    Union(Vec<Op>),
    /// A branch of a union. Each branch has its own column.
    Member(usize, Box<Op>),
    /// A value that the reader's schema does not allow.
    Fail(String),
}

/// An operation that reads a field of a record.
#[derive(Debug)]
pub enum Step {
    Read(usize, String, Op),
    Skip(String, Op),
    /// A field that only the reader has, with its encoded default.
    Fill(usize, String, Op, Vec<u8>),
}

impl Op {
    /// Reads a plan from JSON.
    pub fn parse(plan: &Value) -> Option<Self> {
        let parts = plan.as_array()?;
        let op = |at: usize| parts.get(at).and_then(Self::parse);
        let number = |at: usize| parts.get(at).and_then(Value::as_i64);
        let size = |at: usize| number(at).and_then(|n| usize::try_from(n).ok());
        Some(match parts.first()?.as_str()? {
            "null" => Self::Null,
            "boolean" => Self::Bool,
            "int" => Self::Int,
            "long" => Self::Long,
            "float" => Self::Float,
            "double" => Self::Double,
            "bytes" => Self::Bytes,
            "rest" => Self::Rest,
            "fixed" => Self::Fixed(size(1)?),
            "decimal" => Self::Decimal(size(1), i8::try_from(number(2)?).ok()?),
            "uuid" => Self::Uuid,
            "time" => Self::Time(number(1)?, number(2)?, number(3)?),
            "scaled" => Self::Scaled(number(1)?, number(2)?),
            "enum" => {
                let symbol = |v: &Value| Some((v.get(0)?.as_str()?.to_owned(), v.get(1)?.as_bool()?));
                Self::Enum(parts.get(1)?.as_array()?.iter().map(symbol).collect::<Option<_>>()?)
            }
            "array" => {
                let items = op(1)?;
                let least = items.least();
                Self::Array(Box::new(items), least)
            }
            "map" => Self::Map(Box::new(op(1)?)),
            "record" => Self::Record(parts.get(1)?.as_array()?.iter().map(Step::parse).collect::<Option<_>>()?),
            "union" => Self::Union(parts.get(1)?.as_array()?.iter().map(Self::parse).collect::<Option<_>>()?),
            "member" => Self::Member(size(1)?, Box::new(op(2)?)),
            "fail" => Self::Fail(parts.get(1)?.as_str()?.to_owned()),
            _ => return None,
        })
    }

    /// Returns the minimum number of bytes of a value.
    fn least(&self) -> usize {
        match self {
            Self::Null | Self::Rest | Self::Fail(_) => 0,
            Self::Fixed(size) | Self::Decimal(Some(size), _) => *size,
            Self::Uuid => 16,
            Self::Float => 4,
            Self::Double => 8,
            Self::Member(_, inner) => inner.least(),
            Self::Record(steps) => steps
                .iter()
                .map(|step| match step {
                    Step::Read(_, _, op) | Step::Skip(_, op) => op.least(),
                    Step::Fill(..) => 0,
                })
                .fold(0, usize::saturating_add),
            _ => 1,
        }
    }
}

impl Step {
    fn parse(plan: &Value) -> Option<Self> {
        let column = |at: usize| usize::try_from(plan.get(at)?.as_u64()?).ok();
        let name = |at: usize| Some(plan.get(at)?.as_str()?.to_owned());
        Some(match plan.get(0)?.as_str()? {
            "read" => Self::Read(column(1)?, name(2)?, Op::parse(plan.get(3)?)?),
            "skip" => Self::Skip(name(1)?, Op::parse(plan.get(2)?)?),
            "fill" => {
                let byte = |v: &Value| v.as_u64().and_then(|v| u8::try_from(v).ok());
                let bytes = plan.get(4)?.as_array()?.iter().map(byte).collect::<Option<_>>()?;
                Self::Fill(column(1)?, name(2)?, Op::parse(plan.get(3)?)?, bytes)
            }
            _ => return None,
        })
    }
}

/// Reads one value, which must fill all bytes.
pub fn decode(op: &Op, data: &[u8], column: &mut Column) -> Result<()> {
    let mut input = Input { data, items_left: data.len() + SPARE_ITEMS };
    read(op, &mut input, column)?;
    match input.data.len() {
        0 => Ok(()),
        left => Err(Fault::new(format!("the value ends {left} bytes before the end of the record"))),
    }
}

struct Input<'a> {
    data: &'a [u8],
    /// How many items of arrays and maps this record may still have. The limit is necessary because items can have no
    /// bytes.
    items_left: usize,
}

impl<'a> Input<'a> {
    #[inline]
    fn take(&mut self, size: usize) -> Result<&'a [u8]> {
        let Some((bytes, rest)) = self.data.split_at_checked(size) else { return Err(too_short()) };
        self.data = rest;
        Ok(bytes)
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let Some((bytes, rest)) = self.data.split_first_chunk::<N>() else { return Err(too_short()) };
        self.data = rest;
        Ok(*bytes)
    }

    #[inline]
    fn long(&mut self) -> Result<i64> {
        let Some((&first, rest)) = self.data.split_first() else { return Err(too_short()) };
        if first < 0x80 {
            self.data = rest;
            return Ok(i64::from(first >> 1) ^ -i64::from(first & 1));
        }
        self.long_varint()
    }

    fn long_varint(&mut self) -> Result<i64> {
        let mut value = 0u64;
        for (at, &byte) in self.data.iter().take(10).enumerate() {
            if at == 9 && byte > 1 {
                return Err(Fault::new("a number does not fit into 64 bits"));
            }
            value |= u64::from(byte & 0x7f) << (at * 7);
            if byte < 0x80 {
                self.data = self.data.get(at + 1..).unwrap_or_default();
                return Ok((value >> 1) as i64 ^ -((value & 1) as i64));
            }
        }
        Err(too_short())
    }

    #[inline]
    fn int(&mut self) -> Result<i64> {
        let value = self.long()?;
        match i32::try_from(value) {
            Ok(_) => Ok(value),
            Err(_) => Err(Fault::new("an int does not fit into 32 bits")),
        }
    }

    #[inline]
    fn bytes(&mut self) -> Result<&'a [u8]> {
        let length = self.long()?;
        let Ok(size) = usize::try_from(length) else {
            return Err(Fault::new(format!("a length is negative: {length}")));
        };
        self.take(size)
    }

    fn bool(&mut self) -> Result<bool> {
        match self.array()? {
            [0] => Ok(false),
            [1] => Ok(true),
            [other] => Err(Fault::new(format!("a boolean is {other} instead of 0 or 1"))),
        }
    }

    /// Reads an index below `length`.
    fn index(&mut self, length: usize, name: &str) -> Result<usize> {
        let index = self.long()?;
        match usize::try_from(index) {
            Ok(index) if index < length => Ok(index),
            _ => Err(Fault::new(format!("there is no {name} {index}, only {length}"))),
        }
    }

    /// Reads the number of items of the next block of an array or map. The number is 0 at the end.
    fn block(&mut self, least: usize) -> Result<usize> {
        let count = self.long()?;
        if count < 0 {
            // The size in bytes, for readers that skip.
            let size = self.long()?;
            if usize::try_from(size).map_or(true, |size| size > self.data.len()) {
                return Err(Fault::new(format!("a block of items has {size} bytes, and {} remain", self.data.len())));
            }
        }
        let count = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
        if count > self.items_left || count.saturating_mul(least) > self.data.len() {
            let remaining = self.data.len();
            return Err(Fault::new(format!("a block says that it has {count} items, and {remaining} bytes remain")));
        }
        self.items_left -= count;
        Ok(count)
    }
}

#[cold]
fn too_short() -> Box<Fault> {
    Fault::new("the value is shorter than its schema says")
}

/// Reads a value and appends it to a column.
fn read(op: &Op, input: &mut Input<'_>, column: &mut Column) -> Result<()> {
    match op {
        Op::Null => {
            column.push_null();
            Ok(())
        }
        Op::Bool => {
            let value = input.bool()?;
            column.push_bool(value)
        }
        Op::Int => column.push_int(input.int()?),
        Op::Long => column.push_int(input.long()?),
        Op::Float => column.push_f32(f32::from_le_bytes(input.array()?)),
        Op::Double => column.push_f64(f64::from_le_bytes(input.array()?)),
        Op::Bytes => column.push_bytes(input.bytes()?),
        Op::Rest => column.push_bytes(std::mem::take(&mut input.data)),
        Op::Fixed(size) => column.push_bytes(input.take(*size)?),
        Op::Decimal(size, scale) => {
            let bytes = match size {
                Some(size) => input.take(*size)?,
                None => input.bytes()?,
            };
            column.push_decimal(big_endian(bytes)?, *scale)
        }
        Op::Uuid => column.push_text(&uuid(&input.array()?)),
        Op::Scaled(multiply, divide) => column.push_int(scaled(input.long()?, *multiply, *divide)?),
        Op::Time(multiply, divide, limit) => {
            let value = scaled(input.long()?, *multiply, *divide)?;
            if !(0..*limit).contains(&value) {
                return Err(Fault::new(format!("the time of day {value} is not within a day")));
            }
            column.push_int(value)
        }
        Op::Enum(symbols) => column.push_text(symbol(symbols, input)?),
        Op::Array(item, least) => {
            let Data::List { offsets, items } = &mut column.data else { return Err(column.unfit("an array")) };
            let mut index = 0;
            loop {
                let count = input.block(*least)?;
                if count == 0 {
                    break;
                }
                for _ in 0..count {
                    items.grow().and_then(|()| read(item, input, items)).map_err(|f| f.at_index(index))?;
                    index += 1;
                }
            }
            offsets.push(items.end()?);
            column.push_valid();
            Ok(())
        }
        Op::Map(item) => read_map(item, input, column),
        Op::Record(steps) => {
            let Data::Struct(children) = &mut column.data else { return Err(column.unfit("a record")) };
            for step in steps {
                match step {
                    Step::Read(at, name, op) => {
                        let child = children.get_mut(*at).ok_or_else(no_column)?;
                        read(op, input, child).map_err(|f| f.in_field(name))?;
                    }
                    Step::Skip(name, op) => skip(op, input).map_err(|f| f.in_field(name))?,
                    Step::Fill(at, name, op, bytes) => {
                        let child = children.get_mut(*at).ok_or_else(no_column)?;
                        let mut input = Input { data: bytes, items_left: bytes.len() + SPARE_ITEMS };
                        read(op, &mut input, child).map_err(|f| f.in_field(name))?;
                    }
                }
            }
            column.push_valid();
            Ok(())
        }
        Op::Union(branches) => read(branch(branches, input)?, input, column),
        Op::Member(at, op) => {
            let Data::Struct(children) = &mut column.data else { return Err(column.unfit("a branch of a union")) };
            for (index, child) in children.iter_mut().enumerate() {
                match index == *at {
                    true => read(op, input, child)?,
                    false => child.push_null(),
                }
            }
            column.push_valid();
            Ok(())
        }
        Op::Fail(why) => Err(Fault::new(why.as_str())),
    }
}

fn read_map(item: &Op, input: &mut Input<'_>, column: &mut Column) -> Result<()> {
    let Data::Map { offsets, entries } = &mut column.data else { return Err(column.unfit("a map")) };
    let Column { data: Data::Struct(children), nulls, .. } = entries.as_mut() else { return Err(no_column()) };
    let [keys, values] = children.as_mut_slice() else { return Err(no_column()) };
    let least = 1 + item.least();
    loop {
        let count = input.block(least)?;
        if count == 0 {
            break;
        }
        for _ in 0..count {
            let key = input.bytes()?;
            keys.push_bytes(key)?;
            values.grow().and_then(|()| read(item, input, values)).map_err(|f| f.at_key(key))?;
            nulls.append_non_null();
        }
    }
    offsets.push(keys.end()?);
    column.push_valid();
    Ok(())
}

/// Skips a value that the reader does not have, with the same checks as for other values.
fn skip(op: &Op, input: &mut Input<'_>) -> Result<()> {
    match op {
        Op::Null => {}
        Op::Bool => _ = input.bool()?,
        Op::Int => _ = input.int()?,
        Op::Long | Op::Time(..) | Op::Scaled(..) => _ = input.long()?,
        Op::Float => _ = input.array::<4>()?,
        Op::Double => _ = input.array::<8>()?,
        Op::Bytes | Op::Decimal(None, _) => _ = input.bytes()?,
        Op::Rest => input.data = &[],
        Op::Fixed(size) | Op::Decimal(Some(size), _) => _ = input.take(*size)?,
        Op::Uuid => _ = input.array::<16>()?,
        Op::Enum(symbols) => _ = input.index(symbols.len(), "symbol of an enum")?,
        Op::Array(item, least) => {
            let mut index = 0;
            loop {
                let count = input.block(*least)?;
                if count == 0 {
                    break;
                }
                for _ in 0..count {
                    skip(item, input).map_err(|f| f.at_index(index))?;
                    index += 1;
                }
            }
        }
        Op::Map(item) => loop {
            let count = input.block(1 + item.least())?;
            if count == 0 {
                break;
            }
            for _ in 0..count {
                let key = input.bytes()?;
                skip(item, input).map_err(|f| f.at_key(key))?;
            }
        },
        Op::Record(steps) => {
            for step in steps {
                match step {
                    Step::Read(_, name, op) | Step::Skip(name, op) => {
                        skip(op, input).map_err(|f| f.in_field(name))?;
                    }
                    Step::Fill(..) => {}
                }
            }
        }
        Op::Union(branches) => skip(branch(branches, input)?, input)?,
        Op::Member(_, op) => skip(op, input)?,
        Op::Fail(why) => return Err(Fault::new(why.as_str())),
    }
    Ok(())
}

fn scaled(value: i64, multiply: i64, divide: i64) -> Result<i64> {
    match value.checked_mul(multiply) {
        Some(more) => Ok(more.div_euclid(divide.max(1))),
        None => Err(Fault::new(format!("the time {value} does not fit the unit of the column"))),
    }
}

fn branch<'a>(branches: &'a [Op], input: &mut Input<'_>) -> Result<&'a Op> {
    let index = input.index(branches.len(), "branch of a union")?;
    branches.get(index).ok_or_else(no_column)
}

fn symbol<'a>(symbols: &'a [(String, bool)], input: &mut Input<'_>) -> Result<&'a str> {
    match symbols.get(input.index(symbols.len(), "symbol of an enum")?) {
        Some((symbol, true)) => Ok(symbol),
        Some((symbol, false)) => Err(Fault::new(format!("the reader schema has no symbol {symbol:?} and no default"))),
        None => Err(no_column()),
    }
}

/// Returns a big-endian number of at most 32 bytes.
fn big_endian(bytes: &[u8]) -> Result<i256> {
    let is_negative = bytes.first().is_some_and(|byte| *byte >= 0x80);
    let filler = if is_negative { 0xff } else { 0 };
    let mut wide = [filler; 32];
    let extra = bytes.len().saturating_sub(wide.len());
    let (above, bytes) = bytes.split_at(extra);
    let start = wide.len() - bytes.len();
    let (_, end) = wide.split_at_mut(start);
    end.copy_from_slice(bytes);
    let number = i256::from_be_bytes(wide);
    if above.iter().any(|byte| *byte != filler) || number.is_negative() != is_negative {
        return Err(Fault::new("the decimal number has more digits than its column"));
    }
    Ok(number)
}

fn uuid(bytes: &[u8; 16]) -> String {
    let number = u128::from_be_bytes(*bytes);
    let text = format!("{number:032x}");
    let part = |from: usize, to: usize| text.get(from..to).unwrap_or_default();
    format!("{}-{}-{}-{}-{}", part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32))
}

/// Returns the error for a plan that does not belong to its column.
#[cold]
fn no_column() -> Box<Fault> {
    Fault::new("the plan does not fit the column")
}

/// By how much the number of items of a record may exceed the number of its bytes.
const SPARE_ITEMS: usize = 1000;
