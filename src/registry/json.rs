//! Decodes JSON text into columns.
//!
//! serde_json parses the text and limits its nesting. Missing fields of a struct are null, and unknown fields are
//! skipped. For a column of dates, times or bytes, the decoder parses JSON strings as dates, times or base64. Numbers for
//! decimal columns and for columns of times are never converted to floating point.

use super::column::{Column, Data, nanoseconds_per_unit, power_of_ten};
use crate::typed::fault::{Fault, Result};
use crate::typed::text;
use arrow_buffer::i256;
use arrow_schema::DataType;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::cell::RefCell;
use std::fmt;

/// Reads one value, which must fill all bytes. `time_unit` is the unit of numbers for columns of times, in nanoseconds.
pub fn decode(data: &[u8], column: &mut Column, time_unit: Option<i64>) -> Result<()> {
    let site = FaultSite { time_unit, ..FaultSite::default() };
    let mut parser = serde_json::Deserializer::from_slice(data);
    let read = Seed { column, site: &site }.deserialize(&mut parser).and_then(|()| parser.end());
    read.map_err(|error| {
        let fault = site.fault.into_inner();
        let fault = fault.unwrap_or_else(|| Fault::new(format!("the value is not valid JSON: {error}")));
        site.path.into_inner().into_iter().rev().fold(fault, |fault, step| match step {
            Step::Field(name) => fault.in_field(&name),
            Step::Index(index) => fault.at_index(index),
            Step::Key(key) => fault.at_key(key.as_bytes()),
        })
    })
}

/// The position of the parser in the value, and the error at this position.
#[derive(Default)]
struct FaultSite {
    time_unit: Option<i64>,
    path: RefCell<Vec<Step>>,
    fault: RefCell<Option<Box<Fault>>>,
}

enum Step {
    Field(String),
    Index(usize),
    Key(String),
}

impl FaultSite {
    /// Stores a fault, and returns an error that ends the parsing.
    #[cold]
    fn fail<E: serde::de::Error>(&self, fault: Box<Fault>) -> E {
        *self.fault.borrow_mut() = Some(fault);
        E::custom("")
    }

    /// Adds a step to the path of an error, and returns the error.
    #[cold]
    fn step<E>(&self, error: E, step: Step) -> E {
        self.path.borrow_mut().insert(0, step);
        error
    }
}

struct Seed<'a> {
    column: &'a mut Column,
    site: &'a FaultSite,
}

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, parser: D) -> std::result::Result<(), D::Error> {
        let Self { column, site } = self;
        if column.is_json || is_read_as_text(column.field.data_type()) {
            let text = <&RawValue as serde::Deserialize>::deserialize(parser)?.get();
            let pushed = match text.as_bytes().first() {
                Some(b'n') => {
                    column.push_null();
                    Ok(())
                }
                _ if column.is_json => column.push_text(text),
                Some(b'-' | b'0'..=b'9') => push_number(text, column, site.time_unit),
                Some(b'"') => {
                    let string: Cow<'_, str> = serde_json::from_str(text).map_err(serde::de::Error::custom)?;
                    push_string(&string, column)
                }
                Some(b'[') => Err(column.unfit("an array")),
                Some(b'{') => Err(column.unfit("an object")),
                _ => Err(column.unfit(text)),
            };
            return pushed.map_err(|fault| site.fail(fault));
        }
        parser.deserialize_any(Self { column, site })
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E: serde::de::Error>(self) -> std::result::Result<(), E> {
        self.column.push_null();
        Ok(())
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> std::result::Result<(), E> {
        self.column.push_bool(value).map_err(|fault| self.site.fail(fault))
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> std::result::Result<(), E> {
        self.column.push_int(value).map_err(|fault| self.site.fail(fault))
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> std::result::Result<(), E> {
        match i64::try_from(value) {
            Ok(value) => self.visit_i64(value),
            Err(_) => self.column.push_unsigned(value).map_err(|fault| self.site.fail(fault)),
        }
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> std::result::Result<(), E> {
        let is_whole = value.fract() == 0.0 && value.abs() < EXACT_INTEGERS;
        let pushed = match &self.column.data {
            Data::F64(_) | Data::F32(_) => self.column.push_f64(value),
            // JSON has one type of numbers: 1.0 is an integer.
            _ if is_whole => self.column.push_int(value as i64),
            _ => Err(self.column.unfit(&format!("the number {value}"))),
        };
        pushed.map_err(|fault| self.site.fail(fault))
    }

    fn visit_str<E: serde::de::Error>(self, value: &str) -> std::result::Result<(), E> {
        push_string(value, self.column).map_err(|fault| self.site.fail(fault))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> std::result::Result<(), A::Error> {
        let Self { column, site } = self;
        let Data::List { offsets, items } = &mut column.data else {
            return Err(site.fail(column.unfit("an array")));
        };
        let mut index = 0;
        loop {
            items.grow().map_err(|fault| site.fail(fault))?;
            let item = sequence.next_element_seed(Seed { column: items, site });
            match item {
                Ok(Some(())) => index += 1,
                Ok(None) => break,
                Err(error) => return Err(site.step(error, Step::Index(index))),
            }
        }
        offsets.push(items.end().map_err(|fault| site.fail(fault))?);
        column.push_valid();
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> std::result::Result<(), A::Error> {
        let Self { column, site } = self;
        let length = column.len();
        match &mut column.data {
            Data::Struct(children) => {
                let mut expected = 0;
                while let Some(at) = object.next_key_seed(Field { columns: children, expected })? {
                    let Some(child) = at.and_then(|at| children.get_mut(at)) else {
                        object.next_value::<IgnoredAny>()?;
                        continue;
                    };
                    expected = at.unwrap_or(0) + 1;
                    child.truncate(length); // the last one of repeated fields counts
                    if let Err(error) = object.next_value_seed(Seed { column: &mut *child, site }) {
                        return Err(site.step(error, Step::Field(child.field.name().clone())));
                    }
                }
                children.iter_mut().filter(|child| child.len() == length).for_each(Column::push_null);
            }
            Data::Map { offsets, entries } => {
                let Column { data: Data::Struct(children), nulls, .. } = entries.as_mut() else {
                    return Err(site.fail(Fault::new("a map without entries")));
                };
                let [keys, values] = children.as_mut_slice() else {
                    return Err(site.fail(Fault::new("a map without entries")));
                };
                while let Some(key) = object.next_key::<String>()? {
                    keys.push_text(&key).and_then(|()| values.grow()).map_err(|fault| site.fail(fault))?;
                    if let Err(error) = object.next_value_seed(Seed { column: values, site }) {
                        return Err(site.step(error, Step::Key(key)));
                    }
                    nulls.append_non_null();
                }
                offsets.push(keys.end().map_err(|fault| site.fail(fault))?);
            }
            _ => return Err(site.fail(column.unfit("an object"))),
        }
        column.push_valid();
        Ok(())
    }
}

/// Finds the column of a field by its name. The search tries the next field first, because most writers keep the order
/// of the fields.
struct Field<'a> {
    columns: &'a [Column],
    expected: usize,
}

impl<'de> DeserializeSeed<'de> for Field<'_> {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'de>>(self, parser: D) -> std::result::Result<Self::Value, D::Error> {
        parser.deserialize_str(self)
    }
}

impl Visitor<'_> for Field<'_> {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a field")
    }

    fn visit_str<E: serde::de::Error>(self, name: &str) -> std::result::Result<Self::Value, E> {
        if self.columns.get(self.expected).is_some_and(|column| column.field.name() == name) {
            return Ok(Some(self.expected));
        }
        Ok(self.columns.iter().position(|column| column.field.name() == name))
    }
}

/// Appends a string to a column of text. For a column of another type, parses the string and appends the parsed value.
fn push_string(value: &str, column: &mut Column) -> Result<()> {
    let data_type = column.field.data_type();
    let shown = || format!("the string {:?}", value.chars().take(LONGEST_SHOWN).collect::<String>());
    let meant = match data_type {
        DataType::Utf8 => return column.push_text(value),
        DataType::Binary | DataType::FixedSizeBinary(_) => {
            let bytes = text::base64(value).ok_or_else(|| Fault::new("the string is not base64"))?;
            return column.push_bytes(&bytes);
        }
        DataType::Decimal128(..) | DataType::Decimal256(..) => {
            let (digits, scale) = text::decimal(value).ok_or_else(|| column.unfit(&shown()))?;
            return column.push_decimal(digits, scale);
        }
        DataType::Date32 => text::date(value),
        DataType::Timestamp(..) => text::timestamp(value, nanoseconds_per_unit(data_type).unwrap_or(1)),
        DataType::Time32(_) | DataType::Time64(_) => text::time(value, nanoseconds_per_unit(data_type).unwrap_or(1)),
        _ => None,
    };
    match meant {
        Some(number) if is_time_of_python(number, data_type) => column.push_int(number),
        Some(_) => Err(Fault::new(format!("the time {value} is not in the years 1 to 9999"))),
        None => Err(column.unfit(&shown())),
    }
}

/// Returns whether numbers for a column are read as text: for decimal numbers, which a double cannot represent exactly,
/// and for dates and times, whose numbers need a unit.
fn is_read_as_text(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Decimal32(..) | DataType::Decimal64(..) | DataType::Decimal128(..) | DataType::Decimal256(..)
    ) || matches!(data_type, DataType::Date32 | DataType::Date64)
        || nanoseconds_per_unit(data_type).is_some()
}

/// Appends a number to a column of decimal numbers or times. A number of a time has the unit `time_unit`, in
/// nanoseconds. The time is rounded down to the unit of the column.
fn push_number(number: &str, column: &mut Column, time_unit: Option<i64>) -> Result<()> {
    let data_type = column.field.data_type();
    let shown = || number.chars().take(LONGEST_SHOWN).collect::<String>();
    let unfit = || Fault::new(format!("the number {} does not fit {data_type}", shown()));
    match (nanoseconds_per_unit(data_type), time_unit) {
        (Some(unit), Some(time_unit)) => {
            let time = time_of(number, time_unit, unit).ok_or_else(unfit)?;
            if !is_time_of_python(time, data_type) {
                return Err(Fault::new(format!("the time {} is not in the years 1 to 9999", shown())));
            }
            column.push_int(time)
        }
        (Some(_), None) => Err(Fault::new(format!(
            "the number {} has no unit, and the column is {data_type}; the option timestamp_unit sets the unit",
            shown()
        ))),
        (None, _) if matches!(data_type, DataType::Date32 | DataType::Date64) => {
            Err(column.unfit(&format!("the number {}", shown())))
        }
        (None, _) => {
            let (digits, scale) = text::decimal(number).ok_or_else(unfit)?;
            column.push_decimal(digits, scale)
        }
    }
}

/// Converts a time from one unit to another. Both units are in nanoseconds.
fn time_of(number: &str, from: i64, to: i64) -> Option<i64> {
    let (digits, scale) = text::decimal(number)?;
    if scale.unsigned_abs() > LARGEST_SCALE {
        return None;
    }
    let power = power_of_ten(u32::from(scale.unsigned_abs()));
    let mut time = digits.checked_mul(i256::from(from))?;
    let mut unit = i256::from(to);
    if scale < 0 {
        time = time.checked_mul(power)?;
    } else {
        unit = unit.checked_mul(power)?;
    }
    let quotient = time.checked_div(unit)?.to_i128()?;
    let is_rounded_up = time.checked_rem(unit)? < i256::ZERO;
    i64::try_from(quotient - i128::from(is_rounded_up)).ok()
}

/// Returns whether a timestamp is in the years 1 to 9999, which Python and Spark can represent.
fn is_time_of_python(time: i64, data_type: &DataType) -> bool {
    let DataType::Timestamp(..) = data_type else { return true };
    let per_second = 1_000_000_000 / nanoseconds_per_unit(data_type).unwrap_or(1);
    (-62_135_596_800..=253_402_300_799).contains(&time.div_euclid(per_second))
}

/// Largest power of ten that a 256-bit number can represent.
const LARGEST_SCALE: u8 = 76;

/// Maximum number of characters of a value in an error.
const LONGEST_SHOWN: usize = 40;

/// The largest number up to which a double represents every integer.
const EXACT_INTEGERS: f64 = 9_007_199_254_740_992.0;
