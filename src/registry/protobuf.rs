//! Decodes Protobuf's wire format into columns.
//!
//! Python turns the descriptor of a message into a [`Message`] (`klamm/registry/columns/protobuf.py`). As in every
//! Protobuf parser, the last value of a field wins, embedded messages that appear twice are merged, and unknown fields
//! are skipped.

use super::column::{Column, Data, nanoseconds_per_unit};
use crate::typed::fault::{Fault, Result};
use serde_json::Value;
use std::borrow::Cow;

/// A message and its fields. Field `i` is child `i` of the column.
#[derive(Debug)]
pub struct Message {
    fields: Vec<Field>,
    /// Indices of the fields with small numbers, by field number.
    by_number: Vec<Option<usize>>,
    /// Field numbers and indices of the other fields, in order.
    others: Vec<(u32, usize)>,
}

#[derive(Debug)]
struct Field {
    number: u32,
    name: String,
    kind: Kind,
    shape: Shape,
    /// The number of the field's oneof. All fields of a oneof have the same number.
    oneof: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// A field that is null if it is missing.
    Optional,
    /// A field that has the default of its type if it is missing.
    Implicit,
    Repeated,
    Map,
}

#[derive(Debug)]
enum Kind {
    Int32,
    Int64,
    UInt32,
    UInt64,
    SInt32,
    SInt64,
    Fixed32,
    Fixed64,
    SFixed32,
    SFixed64,
    Bool,
    Float,
    Double,
    Text,
    Bytes,
    /// An enum: the names by number.
    Enum(Vec<(i32, String)>),
    Message(Box<Message>),
    /// A message between the tags of a group, with the number of its field.
    Group(u32, Box<Message>),
    /// A message that stays encoded.
    Encoded,
    /// `google.protobuf.Timestamp` and `Duration`.
    Time,
    /// A message of `google/protobuf/wrappers.proto`.
    Wrapper(Box<Message>),
}

impl Message {
    /// Reads a plan from JSON.
    pub fn parse(plan: &Value) -> Option<Self> {
        let fields = plan.as_array()?.iter().map(Field::parse).collect::<Option<Vec<_>>>()?;
        let (mut by_number, mut others) = (vec![None; DIRECT_NUMBERS], Vec::new());
        for (index, field) in fields.iter().enumerate() {
            match by_number.get_mut(field.number as usize) {
                Some(slot) => *slot = Some(index),
                None => others.push((field.number, index)),
            }
        }
        others.sort_unstable();
        Some(Self { fields, by_number, others })
    }

    #[inline]
    fn find(&self, number: u32) -> Option<usize> {
        match self.by_number.get(number as usize) {
            Some(found) => *found,
            None => {
                let at = self.others.binary_search_by_key(&number, |(number, _)| *number).ok()?;
                self.others.get(at).map(|(_, index)| *index)
            }
        }
    }
}

impl Field {
    fn parse(plan: &Value) -> Option<Self> {
        let shape = match plan.get(3)?.as_str()? {
            "optional" => Shape::Optional,
            "implicit" => Shape::Implicit,
            "repeated" => Shape::Repeated,
            "map" => Shape::Map,
            _ => return None,
        };
        Some(Self {
            number: u32::try_from(plan.get(0)?.as_u64()?).ok()?,
            name: plan.get(1)?.as_str()?.to_owned(),
            kind: Kind::parse(plan.get(2)?)?,
            shape,
            oneof: plan.get(4).and_then(Value::as_u64),
        })
    }
}

impl Kind {
    fn parse(plan: &Value) -> Option<Self> {
        Some(match plan.get(0)?.as_str()? {
            "int32" => Self::Int32,
            "int64" => Self::Int64,
            "uint32" => Self::UInt32,
            "uint64" => Self::UInt64,
            "sint32" => Self::SInt32,
            "sint64" => Self::SInt64,
            "fixed32" => Self::Fixed32,
            "fixed64" => Self::Fixed64,
            "sfixed32" => Self::SFixed32,
            "sfixed64" => Self::SFixed64,
            "bool" => Self::Bool,
            "float" => Self::Float,
            "double" => Self::Double,
            "string" => Self::Text,
            "bytes" => Self::Bytes,
            "enum" => {
                let value =
                    |v: &Value| Some((i32::try_from(v.get(0)?.as_i64()?).ok()?, v.get(1)?.as_str()?.to_owned()));
                Self::Enum(plan.get(1)?.as_array()?.iter().map(value).collect::<Option<_>>()?)
            }
            "message" => Self::Message(Box::new(Message::parse(plan.get(1)?)?)),
            "group" => {
                let number = u32::try_from(plan.get(2)?.as_u64()?).ok()?;
                Self::Group(number, Box::new(Message::parse(plan.get(1)?)?))
            }
            "encoded" => Self::Encoded,
            "time" => Self::Time,
            "wrapper" => Self::Wrapper(Box::new(Message::parse(plan.get(1)?)?)),
            _ => return None,
        })
    }

    /// Returns the wire type of a single value.
    fn wire(&self) -> u8 {
        match self {
            Self::Int32 | Self::Int64 | Self::UInt32 | Self::UInt64 | Self::SInt32 | Self::SInt64 => VARINT,
            Self::Bool | Self::Enum(_) => VARINT,
            Self::Fixed64 | Self::SFixed64 | Self::Double => EIGHT_BYTES,
            Self::Fixed32 | Self::SFixed32 | Self::Float => FOUR_BYTES,
            Self::Group(..) => GROUP,
            Self::Text | Self::Bytes | Self::Message(_) | Self::Encoded | Self::Time | Self::Wrapper(_) => LENGTH,
        }
    }

    fn merges(&self) -> bool {
        matches!(self, Self::Message(_) | Self::Group(..) | Self::Encoded | Self::Time | Self::Wrapper(_))
    }

    /// Reads the bytes of a value whose length is in the input.
    fn content<'a>(&self, input: &mut Input<'a>) -> Result<&'a [u8]> {
        match self {
            Self::Group(number, _) => input.group(*number),
            _ => input.bytes(),
        }
    }
}

/// Reads a message.
pub fn decode(message: &Message, data: &[u8], column: &mut Column) -> Result<()> {
    let length = column.len();
    let Data::Struct(children) = &mut column.data else { return Err(column.unfit("a message")) };
    if children.len() != message.fields.len() {
        return Err(Fault::new("the plan does not fit the column"));
    }
    let mut input = Input(data);
    // Embedded messages are decoded once, at the end: decoding each part and then the whole doubles the work of each
    // level.
    let mut embedded: Vec<(usize, Cow<'_, [u8]>)> = Vec::new();
    while !input.0.is_empty() {
        let (number, wire) = input.tag()?;
        let field = message.find(number).and_then(|at| Some((message.fields.get(at)?, at)));
        let Some((field, at)) = field else {
            input.skip(number, wire)?;
            continue;
        };
        if field.oneof.is_some() {
            let others = message.fields.iter().zip(children.iter_mut()).enumerate();
            others
                .filter(|(other, (of, _))| *other != at && of.oneof == field.oneof)
                .for_each(|(_, (_, child))| child.truncate(length));
            let is_other = |of: usize| message.fields.get(of).is_some_and(|other| other.oneof == field.oneof);
            embedded.retain(|(of, _)| *of == at || !is_other(*of));
        }
        let Some(child) = children.get_mut(at) else { continue };
        let read = match field.shape {
            Shape::Optional | Shape::Implicit if wire == field.kind.wire() && field.kind.merges() => {
                field.kind.content(&mut input).map(|bytes| match embedded.iter_mut().find(|(of, _)| *of == at) {
                    Some((_, parts)) => parts.to_mut().extend_from_slice(bytes),
                    None => embedded.push((at, Cow::Borrowed(bytes))),
                })
            }
            Shape::Optional | Shape::Implicit if wire == field.kind.wire() => {
                child.truncate(length);
                value(&field.kind, &mut input, child)
            }
            Shape::Repeated => repeated(field, wire, number, &mut input, child),
            Shape::Map if wire == LENGTH => entry(&field.kind, &mut input, child),
            _ => input.skip(number, wire), // the type has changed: the field is unknown
        };
        read.map_err(|fault| fault.in_field(&field.name))?;
    }
    for (at, bytes) in embedded {
        let (Some(field), Some(child)) = (message.fields.get(at), children.get_mut(at)) else { continue };
        payload(&field.kind, &bytes, child).map_err(|fault| fault.in_field(&field.name))?;
    }
    for (field, child) in message.fields.iter().zip(children.iter_mut()) {
        close(field, child, length).map_err(|fault| fault.in_field(&field.name))?;
    }
    column.push_valid();
    Ok(())
}

/// Completes a field of a message: ends the field's list, or adds the value of a missing field.
fn close(field: &Field, child: &mut Column, length: usize) -> Result<()> {
    match (field.shape, &mut child.data) {
        (Shape::Repeated, Data::List { offsets, items: inner })
        | (Shape::Map, Data::Map { offsets, entries: inner }) => {
            offsets.push(inner.end()?);
            child.push_valid();
            return Ok(());
        }
        _ => {}
    }
    if child.len() > length {
        return Ok(());
    }
    match field.shape {
        Shape::Implicit => default(&field.kind, child)?,
        _ => child.push_null(),
    }
    Ok(())
}

fn repeated(field: &Field, wire: u8, number: u32, input: &mut Input<'_>, child: &mut Column) -> Result<()> {
    let Data::List { items, offsets } = &mut child.data else { return Err(child.unfit("a repeated field")) };
    let first = offsets.last().map_or(0, |start| *start as usize);
    if wire == field.kind.wire() {
        let index = items.len() - first;
        return items.grow().and_then(|()| value(&field.kind, input, items)).map_err(|fault| fault.at_index(index));
    }
    if wire != LENGTH {
        return input.skip(number, wire);
    }
    let mut packed = Input(input.bytes()?);
    while !packed.0.is_empty() {
        let index = items.len() - first;
        items.grow().and_then(|()| value(&field.kind, &mut packed, items)).map_err(|fault| fault.at_index(index))?;
    }
    Ok(())
}

/// Reads an entry of a map: a message with a key and a value.
fn entry(kind: &Kind, input: &mut Input<'_>, child: &mut Column) -> Result<()> {
    let Data::Map { entries, .. } = &mut child.data else { return Err(child.unfit("a map")) };
    let Kind::Message(message) = kind else { return Err(entries.unfit("an entry of a map")) };
    entries.grow()?;
    decode(message, input.bytes()?, entries)
}

/// Reads one value.
#[inline]
fn value(kind: &Kind, input: &mut Input<'_>, column: &mut Column) -> Result<()> {
    match kind {
        // The type says how many of the 64 bits count.
        Kind::Int32 => column.push_int(i64::from(input.varint()? as i32)),
        Kind::Int64 => column.push_int(input.varint()? as i64),
        Kind::UInt32 => column.push_int(i64::from(input.varint()? as u32)),
        Kind::UInt64 => column.push_unsigned(input.varint()?),
        Kind::SInt32 => {
            let value = input.varint()? as u32;
            column.push_int(i64::from((value >> 1) as i32 ^ -((value & 1) as i32)))
        }
        Kind::SInt64 => {
            let value = input.varint()?;
            column.push_int((value >> 1) as i64 ^ -((value & 1) as i64))
        }
        Kind::Fixed32 => column.push_int(i64::from(u32::from_le_bytes(input.array()?))),
        Kind::Fixed64 => column.push_unsigned(u64::from_le_bytes(input.array()?)),
        Kind::SFixed32 => column.push_int(i64::from(i32::from_le_bytes(input.array()?))),
        Kind::SFixed64 => column.push_int(i64::from_le_bytes(input.array()?)),
        Kind::Bool => column.push_bool(input.varint()? != 0),
        Kind::Float => column.push_f32(f32::from_le_bytes(input.array()?)),
        Kind::Double => column.push_f64(f64::from_le_bytes(input.array()?)),
        Kind::Enum(names) => push_enum(names, input.varint()? as i32, column),
        Kind::Text
        | Kind::Bytes
        | Kind::Message(_)
        | Kind::Group(..)
        | Kind::Encoded
        | Kind::Time
        | Kind::Wrapper(_) => payload(kind, kind.content(input)?, column),
    }
}

fn payload(kind: &Kind, bytes: &[u8], column: &mut Column) -> Result<()> {
    match kind {
        Kind::Message(message) | Kind::Group(_, message) => decode(message, bytes, column),
        Kind::Time => time(bytes, column),
        Kind::Wrapper(message) => wrapped(message, bytes, column),
        _ => column.push_bytes(bytes),
    }
}

/// Appends the default of a type.
fn default(kind: &Kind, column: &mut Column) -> Result<()> {
    match kind {
        Kind::Bool => column.push_bool(false),
        Kind::Text | Kind::Bytes | Kind::Encoded => column.push_bytes(b""),
        Kind::Float | Kind::Double => column.push_f64(0.0),
        Kind::Enum(names) => push_enum(names, 0, column),
        Kind::Message(message) | Kind::Group(_, message) => decode(message, b"", column),
        Kind::Time => time(b"", column),
        Kind::Wrapper(message) => wrapped(message, b"", column),
        _ => column.push_int(0),
    }
}

fn push_enum(names: &[(i32, String)], number: i32, column: &mut Column) -> Result<()> {
    match names.iter().find(|(value, _)| *value == number) {
        Some((_, name)) => column.push_text(name),
        // Newer writers may have more values. Protobuf's own JSON shows them as numbers, too.
        None => column.push_text(&number.to_string()),
    }
}

/// Reads a message of seconds and nanoseconds.
fn time(bytes: &[u8], column: &mut Column) -> Result<()> {
    let mut input = Input(bytes);
    let (mut seconds, mut nanoseconds) = (0i64, 0i64);
    while !input.0.is_empty() {
        match input.tag()? {
            (1, VARINT) => seconds = input.varint()? as i64,
            (2, VARINT) => nanoseconds = i64::from(input.varint()? as i32),
            (number, wire) => input.skip(number, wire)?,
        }
    }
    let unit = nanoseconds_per_unit(column.field.data_type()).unwrap_or(1);
    let whole = seconds.checked_mul(1_000_000_000 / unit);
    let Some(value) = whole.and_then(|whole| whole.checked_add(nanoseconds.div_euclid(unit))) else {
        return Err(Fault::new(format!("the time of {seconds} seconds does not fit the column")));
    };
    column.push_int(value)
}

/// Reads a wrapper: a message whose only field is the value.
fn wrapped(message: &Message, bytes: &[u8], column: &mut Column) -> Result<()> {
    let length = column.len();
    let Some(field) = message.fields.first() else { return Err(Fault::new("the wrapper has no field")) };
    let mut input = Input(bytes);
    while !input.0.is_empty() {
        match input.tag()? {
            (1, wire) if wire == field.kind.wire() => {
                column.truncate(length);
                value(&field.kind, &mut input, column)?;
            }
            (number, wire) => input.skip(number, wire)?,
        }
    }
    if column.len() == length { default(&field.kind, column) } else { Ok(()) }
}

/// The remaining bytes of a message.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    #[inline]
    fn varint(&mut self) -> Result<u64> {
        let Some((&first, rest)) = self.0.split_first() else { return Err(too_short()) };
        if first < 0x80 {
            self.0 = rest;
            return Ok(u64::from(first));
        }
        let mut value = 0u64;
        for (at, &byte) in self.0.iter().take(10).enumerate() {
            if at == 9 && byte > 1 {
                return Err(Fault::new("a number does not fit into 64 bits"));
            }
            value |= u64::from(byte & 0x7f) << (at * 7);
            if byte < 0x80 {
                self.0 = self.0.get(at + 1..).unwrap_or_default();
                return Ok(value);
            }
        }
        Err(too_short())
    }

    #[inline]
    fn tag(&mut self) -> Result<(u32, u8)> {
        let tag = self.varint()?;
        let number = u32::try_from(tag >> 3).unwrap_or(0);
        if number == 0 || number > LARGEST_NUMBER {
            return Err(Fault::new(format!("there is no field with the number {}", tag >> 3)));
        }
        Ok((number, (tag & 7) as u8))
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let Some((bytes, rest)) = self.0.split_first_chunk::<N>() else { return Err(too_short()) };
        self.0 = rest;
        Ok(*bytes)
    }

    #[inline]
    fn bytes(&mut self) -> Result<&'a [u8]> {
        let size = usize::try_from(self.varint()?).unwrap_or(usize::MAX);
        let Some((bytes, rest)) = self.0.split_at_checked(size) else { return Err(too_short()) };
        self.0 = rest;
        Ok(bytes)
    }

    fn skip(&mut self, number: u32, wire: u8) -> Result<()> {
        match wire {
            VARINT => _ = self.varint()?,
            EIGHT_BYTES => _ = self.array::<8>()?,
            LENGTH => _ = self.bytes()?,
            FOUR_BYTES => _ = self.array::<4>()?,
            GROUP => _ = self.group(number)?,
            _ => return Err(Fault::new(format!("the field {number} has the unknown wire type {wire}"))),
        }
        Ok(())
    }

    /// Reads a group to its end. Returns the bytes between its tags.
    fn group(&mut self, number: u32) -> Result<&'a [u8]> {
        let (whole, mut open, mut left) = (self.0, vec![number], 0);
        while let Some(innermost) = open.last() {
            left = self.0.len();
            match self.tag()? {
                (number, GROUP) if open.len() < DEEPEST_GROUP => open.push(number),
                (_, GROUP) => return Err(Fault::new("groups are nested too deep")),
                (number, END_OF_GROUP) if number == *innermost => _ = open.pop(),
                (number, END_OF_GROUP) => {
                    return Err(Fault::new(format!("the group {number} ends, and the group {innermost} is open")));
                }
                (number, wire) => self.skip(number, wire)?,
            }
        }
        Ok(whole.get(..whole.len() - left).unwrap_or_default())
    }
}

#[cold]
fn too_short() -> Box<Fault> {
    Fault::new("the value is shorter than its fields say")
}

const VARINT: u8 = 0;
const EIGHT_BYTES: u8 = 1;
const LENGTH: u8 = 2;
const GROUP: u8 = 3;
const END_OF_GROUP: u8 = 4;
const FOUR_BYTES: u8 = 5;

/// The largest valid field number.
const LARGEST_NUMBER: u32 = (1 << 29) - 1;

/// The decoder finds fields with smaller numbers without a search.
const DIRECT_NUMBERS: usize = 64;

/// The maximum nesting of groups, as in Protobuf's own parsers.
const DEEPEST_GROUP: usize = 100;
