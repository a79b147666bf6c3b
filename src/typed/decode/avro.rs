//! Decodes Avro's binary encoding.
//!
//! The decoder trusts neither the bytes nor the schemas: it compares each length with the remaining bytes, and limits the
//! depth of a value and the work for values that have no bytes.

use super::Sink;
use super::json_text::JsonText;
use crate::typed::fault::{Fault, Result};
use crate::typed::resolve::{Number, Op, OpId, Plan, Scale, Step, missing};
use crate::typed::schema::avro::{Id, Kind, Schema};

/// Decodes one value, which must fill all bytes.
pub fn decode<S: Sink>(plan: &Plan, data: &[u8], sink: &mut S) -> Result<S::Value> {
    let work = WORK.saturating_add(data.len().saturating_mul(WORK_PER_BYTE));
    let mut left = Left { work, empty_items: S::EMPTY_ITEMS.saturating_add(data.len()) };
    let mut input = Input { data, left: &mut left };
    let value = read(plan, plan.root(), &mut input, sink, 0)?;
    match input.data.len() {
        0 => Ok(value),
        left => Err(Fault::new(format!("the value ends {left} bytes before the end of the record"))),
    }
}

struct Input<'a, 'l> {
    data: &'a [u8],
    left: &'l mut Left,
}

/// What a value may still have without bytes.
struct Left {
    /// Work for items without bytes, and for defaults.
    work: usize,
    /// Items without bytes.
    empty_items: usize,
}

impl<'a> Input<'a, '_> {
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
                return Err(Fault::new(match byte {
                    0x80.. => "a number has more than ten bytes",
                    _ => "a number does not fit into 64 bits",
                }));
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
    fn int(&mut self) -> Result<i32> {
        let value = self.long()?;
        i32::try_from(value).map_err(|_| Fault::new(format!("an int is {value}, which does not fit into 32 bits")))
    }

    #[inline]
    fn bytes(&mut self) -> Result<&'a [u8]> {
        let length = self.long()?;
        match usize::try_from(length).ok().and_then(|size| self.data.split_at_checked(size)) {
            Some((bytes, rest)) => {
                self.data = rest;
                Ok(bytes)
            }
            None => Err(Fault::new(format!("a length is {length}, and {} bytes remain", self.data.len()))),
        }
    }

    #[inline]
    fn text(&mut self) -> Result<&'a str> {
        text(self.bytes()?)
    }

    fn boolean(&mut self) -> Result<bool> {
        match self.array()? {
            [0] => Ok(false),
            [1] => Ok(true),
            [other] => Err(Fault::new(format!("a boolean is {other} instead of 0 or 1"))),
        }
    }

    /// Reads an index below `length`.
    #[inline]
    fn index(&mut self, length: usize, owner: &str, name: &str) -> Result<usize> {
        let index = self.long()?;
        match usize::try_from(index) {
            Ok(index) if index < length => Ok(index),
            _ => Err(Fault::new(format!("the {owner} has no {name} {index}, only {length}"))),
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
        let empty = if least == 0 { count } else { 0 };
        let work = empty.saturating_mul(WORK_PER_ITEM);
        if work > self.left.work || empty > self.left.empty_items || count.saturating_mul(least) > self.data.len() {
            let remaining = self.data.len();
            return Err(Fault::new(format!("a block says that it has {count} items, and {remaining} bytes remain")));
        }
        self.left.work -= work;
        self.left.empty_items -= empty;
        Ok(count)
    }
}

#[cold]
fn too_short() -> Box<Fault> {
    Fault::new("the value is shorter than its schema says")
}

fn text(bytes: &[u8]) -> Result<&str> {
    std::str::from_utf8(bytes).map_err(|_| Fault::new("the string is not UTF-8"))
}

/// Reads a value and delivers it. The function is a part of its callers, so that a value without inner values needs no
/// call.
#[inline(always)]
fn read<S: Sink>(plan: &Plan, id: OpId, input: &mut Input<'_, '_>, sink: &mut S, depth: usize) -> Result<S::Value> {
    match plan.op(id) {
        Op::Null => sink.null(),
        Op::Boolean => sink.boolean(input.boolean()?),
        Op::Int(number) => {
            let value = input.int()?;
            match number {
                Number::Integer => sink.integer(i64::from(value)),
                Number::Float => sink.float(value as f32),
                Number::Double => sink.double(f64::from(value)),
            }
        }
        Op::Long(number) => {
            let value = input.long()?;
            match number {
                Number::Integer => sink.integer(value),
                Number::Float => sink.float(value as f32),
                Number::Double => sink.double(value as f64),
            }
        }
        Op::Float(number) => {
            let value = f32::from_le_bytes(input.array()?);
            if *number == Number::Double { sink.double(f64::from(value)) } else { sink.float(value) }
        }
        Op::Double => sink.double(f64::from_le_bytes(input.array()?)),
        Op::Bytes => sink.bytes(input.bytes()?),
        Op::Text => sink.text(input.text()?),
        Op::Rest { is_text } => {
            let rest = std::mem::take(&mut input.data);
            if *is_text { sink.text(text(rest)?) } else { sink.bytes(rest) }
        }
        Op::Fixed(size) => sink.bytes(input.take(*size)?),
        Op::Date => sink.date(input.int()?),
        Op::Timestamp { unit, is_local, scale } => sink.timestamp(scaled(input.long()?, *scale)?, *unit, *is_local),
        _ => read_any(plan, id, input, sink, depth),
    }
}

/// Reads a value with inner values, or a value whose conversion costs more than a call.
fn read_any<S: Sink>(plan: &Plan, id: OpId, input: &mut Input<'_, '_>, sink: &mut S, depth: usize) -> Result<S::Value> {
    match plan.op(id) {
        Op::Decimal { size, precision, scale } => {
            let bytes = match size {
                Some(size) => input.take(*size)?,
                None => input.bytes()?,
            };
            let digits = trimmed(bytes);
            if !digits_fit(digits, *precision) {
                return Err(Fault::new(format!("the decimal has more than {precision} digits")));
            }
            sink.decimal(digits, *precision, i32::try_from(*scale).unwrap_or(i32::MAX))
        }
        Op::BigDecimal => {
            let (digits, scale) = big_decimal(input.bytes()?)?;
            sink.decimal(digits, u32::MAX, scale)
        }
        Op::Uuid { is_fixed: true } => sink.uuid(u128::from_be_bytes(input.array()?)),
        Op::Uuid { .. } => sink.uuid_text(input.text()?),
        Op::Time(unit, scale) => {
            let value = scaled(input.long()?, *scale)?;
            if !(0..86_400 * unit.per_second()).contains(&value) {
                return Err(Fault::new(format!("the time of day {value} is not within a day")));
            }
            sink.time(value, *unit)
        }
        Op::Enum(symbols) => match symbols.get(input.index(symbols.len(), "enum", "symbol")?) {
            Some(Ok(id)) => sink.symbol(*id, plan.name(*id)),
            Some(Err(symbol)) => Err(Fault::new(format!("the reader schema has no symbol {symbol:?} and no default"))),
            None => Err(too_short()),
        },
        Op::Array(item, least) => {
            check_depth(depth)?;
            let mut list = sink.list()?;
            let mut index = 0;
            loop {
                let count = input.block(*least)?;
                if count == 0 {
                    return sink.end_list(list);
                }
                for _ in 0..count {
                    sink.item(&mut list, |sink| read(plan, *item, input, sink, depth + 1))
                        .map_err(|fault| fault.at_index(index))?;
                    index += 1;
                }
            }
        }
        Op::Map(item, least) => {
            check_depth(depth)?;
            let mut map = sink.map()?;
            loop {
                let count = input.block(*least)?;
                if count == 0 {
                    return sink.end_map(map);
                }
                for _ in 0..count {
                    let bytes = input.bytes()?;
                    let key = text(bytes).map_err(|fault| fault.at_key(bytes))?;
                    sink.entry(&mut map, key, |sink| read(plan, *item, input, sink, depth + 1))
                        .map_err(|fault| fault.at_key(bytes))?;
                }
            }
        }
        Op::Record(steps) => {
            if let Some(limit) = sink.text_limit() {
                return read_text(plan, id, input, sink, depth, limit);
            }
            check_depth(depth)?;
            let mut record = sink.record()?;
            for step in steps {
                match step {
                    Step::Read(at, name, op) => sink
                        .field(&mut record, *at, *name, |sink| read(plan, *op, input, sink, depth + 1))
                        .map_err(|fault| fault.in_field(plan.name(*name)))?,
                    Step::Skip(name, node) => {
                        skip(&plan.writer, *node, input, depth + 1).map_err(|fault| fault.in_field(plan.name(*name)))?
                    }
                    Step::Fill(at, name, op, bytes) => {
                        let left = input.left.work.checked_sub(bytes.len());
                        input.left.work = left.ok_or_else(|| Fault::new("the defaults of the value are too large"))?;
                        let mut input = Input { data: bytes, left: input.left };
                        sink.field(&mut record, *at, *name, |sink| read(plan, *op, &mut input, sink, depth + 1))
                            .map_err(|fault| fault.in_field(plan.name(*name)))?;
                    }
                    Step::Missing(name) => return Err(missing().in_field(plan.name(*name))),
                }
            }
            sink.end_record(record)
        }
        Op::Union(branches) => {
            let id = *branches.get(input.index(branches.len(), "union", "branch")?).ok_or_else(too_short)?;
            match plan.op(id) {
                Op::Branch(branch) => sink.branch(branch, |sink| read(plan, branch.op, input, sink, depth)),
                _ => read(plan, id, input, sink, depth),
            }
        }
        Op::Branch(branch) => sink.branch(branch, |sink| read(plan, branch.op, input, sink, depth)),
        Op::Fail(why) => Err(Fault::new(&**why)),
        // The caller has read the values of all other operations.
        Op::Null | Op::Boolean | Op::Int(_) | Op::Long(_) | Op::Float(_) | Op::Double | Op::Bytes | Op::Text => {
            Err(too_short())
        }
        Op::Rest { .. } | Op::Fixed(_) | Op::Date | Op::Timestamp { .. } => Err(too_short()),
    }
}

/// Reads a record, and delivers it as JSON text.
#[inline(never)]
fn read_text<S: Sink>(
    plan: &Plan,
    id: OpId,
    input: &mut Input<'_, '_>,
    sink: &mut S,
    depth: usize,
    limit: usize,
) -> Result<S::Value> {
    let mut json = JsonText::new(plan.names(), limit);
    read(plan, id, input, &mut json, depth)?;
    sink.json(&json.text)
}

/// Returns the number of a big-decimal without its point, and the number of digits after the point.
pub fn big_decimal(bytes: &[u8]) -> Result<(&[u8], i32)> {
    let mut input = Input { data: bytes, left: &mut Left { work: 0, empty_items: 0 } };
    let digits = trimmed(input.bytes()?);
    let scale = input.int()?;
    if !input.data.is_empty() || digits.len() > LONGEST_DECIMAL || scale.unsigned_abs() > LARGEST_SCALE {
        return Err(Fault::new("the big-decimal is not valid"));
    }
    Ok((digits, scale))
}

/// Skips a value that the reader does not have, with the same checks as for other values.
fn skip(schema: &Schema, id: Id, input: &mut Input<'_, '_>, depth: usize) -> Result<()> {
    check_depth(depth)?;
    match &schema.node(id).kind {
        Kind::Null => {}
        Kind::Boolean => _ = input.boolean()?,
        Kind::Int => _ = input.int()?,
        Kind::Long => _ = input.long()?,
        Kind::Float => _ = input.array::<4>()?,
        Kind::Double => _ = input.array::<8>()?,
        Kind::Bytes => _ = input.bytes()?,
        Kind::String => _ = input.text()?,
        Kind::Fixed(_, size) => _ = input.take(*size)?,
        Kind::Enum { symbols, .. } => _ = input.index(symbols.len(), "enum", "symbol")?,
        Kind::Array(item) => {
            let mut index = 0;
            loop {
                let count = input.block(schema.node(*item).least)?;
                if count == 0 {
                    break;
                }
                for _ in 0..count {
                    skip(schema, *item, input, depth + 1).map_err(|fault| fault.at_index(index))?;
                    index += 1;
                }
            }
        }
        Kind::Map(item) => loop {
            let count = input.block(schema.node(*item).least.saturating_add(1))?;
            if count == 0 {
                break;
            }
            for _ in 0..count {
                let key = input.bytes()?;
                skip(schema, *item, input, depth + 1).map_err(|fault| fault.at_key(key))?;
            }
        },
        Kind::Record { fields, .. } => {
            for field in fields {
                skip(schema, field.node, input, depth + 1).map_err(|fault| fault.in_field(&field.name))?;
            }
        }
        Kind::Union { branches, .. } => {
            let branch = branches.get(input.index(branches.len(), "union", "branch")?).ok_or_else(too_short)?;
            skip(schema, *branch, input, depth + 1)?;
        }
    }
    Ok(())
}

#[inline]
fn check_depth(depth: usize) -> Result<()> {
    if depth > DEEPEST {
        return Err(Fault::new("the value is nested too deep"));
    }
    Ok(())
}

fn scaled(value: i64, scale: Scale) -> Result<i64> {
    match value.checked_mul(scale.multiply) {
        Some(more) => Ok(more.div_euclid(scale.divide.max(1))),
        None => Err(Fault::new(format!("the time {value} does not fit the unit of the reader"))),
    }
}

/// Returns a big-endian number without the leading bytes that do not change it. The result has at least one byte.
fn trimmed(bytes: &[u8]) -> &[u8] {
    let mut rest = bytes;
    while let [first, tail @ ..] = rest
        && let Some(second) = tail.first()
        && ((*first == 0 && *second < 0x80) || (*first == 0xff && *second >= 0x80))
    {
        rest = tail;
    }
    if rest.is_empty() { &[0] } else { rest }
}

/// Returns whether a trimmed big-endian number has at most so many decimal digits.
fn digits_fit(bytes: &[u8], precision: u32) -> bool {
    if bytes.len() <= 16 {
        let filler = if bytes.first().is_some_and(|first| *first >= 0x80) { 0xff } else { 0 };
        let mut wide = [filler; 16];
        let start = wide.len() - bytes.len();
        if let Some(end) = wide.get_mut(start..) {
            end.copy_from_slice(bytes);
        }
        return 10u128.checked_pow(precision).is_none_or(|limit| i128::from_be_bytes(wide).unsigned_abs() < limit);
    }
    // A number of n bytes has at least 256^(n-1)/2 as its size. The sink compares the digits of numbers near the limit.
    (bytes.len() - 1) * 8 - 1 <= precision as usize * 33_220 / 10_000
}

/// Maximum depth of a value.
const DEEPEST: usize = 256;

/// The work for values without bytes that each value may need, and the additional work for each byte of a value.
const WORK: usize = 1 << 26;
const WORK_PER_BYTE: usize = 4096;

/// The work for an item without bytes.
const WORK_PER_ITEM: usize = 1024;

/// Maximum number of bytes of a big-decimal's digits.
const LONGEST_DECIMAL: usize = 4096;

/// Maximum number of digits after or before the point of a big-decimal.
const LARGEST_SCALE: u32 = 10_000;
