//! Builds an Arrow column value by value, and can remove values from its end.
//!
//! The decoders append values to the columns directly. If a record is damaged, `truncate` removes the values that the
//! decoder has already appended for this record, so that the other records of the batch stay readable. All fields are
//! nullable, because a tombstone or a failed record becomes null.
//!
//! An item of a list can need a value in each of thousands of columns, and one byte in the record. So `grow` limits the
//! memory that the items of one record need, and an allocation that fails is an error.

use crate::typed::fault::{Fault, Result};
use arrow_array::types::{Decimal128Type, Decimal256Type};
use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, BinaryArray, BooleanArray, FixedSizeBinaryArray, ListArray, MapArray,
    NullArray, PrimitiveArray, StringArray, StructArray, make_array, types,
};
use arrow_buffer::{
    ArrowNativeType, BooleanBufferBuilder, Buffer, NullBuffer, NullBufferBuilder, OffsetBuffer, ScalarBuffer, i256,
};
use arrow_schema::{DataType, Field, FieldRef, IntervalUnit, TimeUnit};
use std::collections::TryReserveError;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A column under construction.
pub struct Column {
    pub(super) field: FieldRef,
    pub(super) data: Data,
    pub(super) nulls: NullBufferBuilder,
    /// Whether the values are JSON text of any type. The field of such a column has the metadata `klamm.json`.
    pub(super) is_json: bool,
    /// Memory of one value in bytes, without the items of lists and without strings.
    width: usize,
    /// Memory in bytes that the current record can still add. All columns of a value share the number.
    room: Arc<AtomicUsize>,
}

/// The values of a column.
pub(super) enum Data {
    Null,
    Bool(BooleanBufferBuilder),
    I8(Vec<i8>),
    I16(Vec<i16>),
    I32(Vec<i32>),
    I64(Vec<i64>),
    /// Times that the decoder appends in another unit, with the nanoseconds of both units: decoded and stored.
    Times {
        values: Vec<i64>,
        from: i64,
        to: i64,
    },
    U8(Vec<u8>),
    U16(Vec<u16>),
    U32(Vec<u32>),
    U64(Vec<u64>),
    F32(Vec<f32>),
    F64(Vec<f64>),
    I128(Vec<i128>),
    I256(Vec<i256>),
    Binary(Bytes),
    Text(Bytes),
    Fixed {
        width: usize,
        bytes: Vec<u8>,
    },
    List {
        offsets: Vec<i32>,
        items: Box<Column>,
    },
    Map {
        offsets: Vec<i32>,
        entries: Box<Column>,
    },
    Struct(Vec<Column>),
}

impl Data {
    /// Returns an empty column of times that klamm decodes in the unit of the metadata `klamm.nanoseconds`.
    fn times(field: &FieldRef) -> Option<Self> {
        let from = field.metadata().get("klamm.nanoseconds")?.parse().ok().filter(|from| *from > 0)?;
        Some(Self::Times { values: Vec::new(), from, to: nanoseconds_per_unit(field.data_type())? })
    }

    /// Returns the memory of one value in bytes, without the items of lists and without strings.
    fn width(&self) -> usize {
        match self {
            Self::Null => 0,
            Self::Bool(_) | Self::I8(_) | Self::U8(_) => 1,
            Self::I16(_) | Self::U16(_) => 2,
            Self::I32(_) | Self::U32(_) | Self::F32(_) => 4,
            Self::Binary(_) | Self::Text(_) | Self::List { .. } | Self::Map { .. } => 4,
            Self::I64(_) | Self::Times { .. } | Self::U64(_) | Self::F64(_) => 8,
            Self::I128(_) => 16,
            Self::I256(_) => 32,
            Self::Fixed { width, .. } => *width,
            Self::Struct(children) => children.iter().map(|child| child.width).sum(),
        }
    }
}

/// Values of different lengths.
pub(super) struct Bytes {
    offsets: Vec<i32>,
    bytes: Vec<u8>,
}

impl Bytes {
    fn new() -> Self {
        Self { offsets: vec![0], bytes: Vec::new() }
    }

    #[inline]
    fn push(&mut self, value: &[u8]) -> Result<()> {
        let end = i32::try_from(self.bytes.len() + value.len()).map_err(|_| too_large())?;
        self.bytes.try_reserve(value.len()).map_err(|_| no_memory())?;
        self.bytes.extend_from_slice(value);
        self.offsets.push(end);
        Ok(())
    }

    fn repeat_end(&mut self) {
        self.offsets.push(self.offsets.last().copied().unwrap_or_default());
    }

    fn truncate(&mut self, length: usize) {
        self.offsets.truncate(length + 1);
        self.bytes.truncate(self.offsets.last().map_or(0, |end| *end as usize));
    }
}

#[cold]
fn too_large() -> Box<Fault> {
    Fault::too_large("the column has 2 GiB or 2^31 values, which one Arrow batch cannot hold")
}

#[cold]
fn no_memory() -> Box<Fault> {
    Fault::too_large("there is not enough memory for the column")
}

impl Column {
    /// Creates an empty column. Fails if klamm does not support columns of this type.
    pub fn new(field: &FieldRef) -> std::result::Result<Self, String> {
        Self::at_depth(field, 0, &Arc::new(AtomicUsize::new(LARGEST_RECORD)))
    }

    fn at_depth(field: &FieldRef, depth: usize, room: &Arc<AtomicUsize>) -> std::result::Result<Self, String> {
        if depth > MAX_DEPTH {
            return Err(format!("the type is nested more than {MAX_DEPTH} levels deep"));
        }
        let child = |field: &FieldRef| Self::at_depth(field, depth + 1, room);
        let data = match field.data_type() {
            DataType::Null => Data::Null,
            DataType::Boolean => Data::Bool(BooleanBufferBuilder::new(0)),
            DataType::Int8 => Data::I8(Vec::new()),
            DataType::Int16 => Data::I16(Vec::new()),
            DataType::Int32
            | DataType::Date32
            | DataType::Time32(_)
            | DataType::Decimal32(..)
            | DataType::Interval(IntervalUnit::YearMonth) => Data::I32(Vec::new()),
            DataType::Int64
            | DataType::Date64
            | DataType::Time64(_)
            | DataType::Timestamp(..)
            | DataType::Duration(_)
            | DataType::Decimal64(..) => Data::times(field).unwrap_or_else(|| Data::I64(Vec::new())),
            DataType::UInt8 => Data::U8(Vec::new()),
            DataType::UInt16 => Data::U16(Vec::new()),
            DataType::UInt32 => Data::U32(Vec::new()),
            DataType::UInt64 => Data::U64(Vec::new()),
            DataType::Float32 => Data::F32(Vec::new()),
            DataType::Float64 => Data::F64(Vec::new()),
            DataType::Decimal128(..) => Data::I128(Vec::new()),
            DataType::Decimal256(..) => Data::I256(Vec::new()),
            DataType::Binary => Data::Binary(Bytes::new()),
            DataType::Utf8 => Data::Text(Bytes::new()),
            DataType::FixedSizeBinary(width) => {
                Data::Fixed { width: usize::try_from(*width).unwrap_or_default(), bytes: Vec::new() }
            }
            DataType::List(item) => Data::List { offsets: vec![0], items: Box::new(child(item)?) },
            DataType::Map(entries, _) => Data::Map { offsets: vec![0], entries: Box::new(child(entries)?) },
            DataType::Struct(fields) => Data::Struct(fields.iter().map(child).collect::<std::result::Result<_, _>>()?),
            other => return Err(format!("values cannot be decoded to the Arrow type {other}")),
        };
        let is_json = field.metadata().contains_key("klamm.json");
        let width = data.width();
        Ok(Self { field: field.clone(), data, nulls: NullBufferBuilder::new(0), is_json, width, room: room.clone() })
    }

    /// Begins a record, which can add a limited amount of memory.
    pub(super) fn begin_record(&self) {
        self.room.store(LARGEST_RECORD, Ordering::Relaxed);
    }

    /// Makes room for another value of a list, a map or the whole column. Fails if the record needs too much memory.
    #[inline]
    pub(super) fn grow(&mut self) -> Result<()> {
        if self.len().is_power_of_two() { self.double() } else { Ok(()) }
    }

    #[cold]
    fn double(&mut self) -> Result<()> {
        self.take_room(self.len().saturating_mul(self.width))?;
        self.reserve(self.len()).map_err(|_| no_memory())
    }

    /// Returns the memory in bytes that the current record can still add.
    pub(super) fn room(&self) -> usize {
        self.room.load(Ordering::Relaxed)
    }

    /// Returns the memory in bytes that the current record has taken from its room.
    pub(super) fn taken(&self) -> usize {
        LARGEST_RECORD - self.room()
    }

    /// Takes memory from the room of the current record. Fails if the record needs too much memory.
    pub(super) fn take_room(&self, more: usize) -> Result<()> {
        let room = self.room().checked_sub(more).ok_or_else(|| {
            Fault::too_large(format!("the columns of the record need more than {} MiB", LARGEST_RECORD >> 20))
        })?;
        self.room.store(room, Ordering::Relaxed);
        Ok(())
    }

    fn reserve(&mut self, more: usize) -> std::result::Result<(), TryReserveError> {
        match &mut self.data {
            Data::Null | Data::Bool(_) => Ok(()),
            Data::I8(values) => values.try_reserve(more),
            Data::I16(values) => values.try_reserve(more),
            Data::I32(values) => values.try_reserve(more),
            Data::I64(values) | Data::Times { values, .. } => values.try_reserve(more),
            Data::U8(values) => values.try_reserve(more),
            Data::U16(values) => values.try_reserve(more),
            Data::U32(values) => values.try_reserve(more),
            Data::U64(values) => values.try_reserve(more),
            Data::F32(values) => values.try_reserve(more),
            Data::F64(values) => values.try_reserve(more),
            Data::I128(values) => values.try_reserve(more),
            Data::I256(values) => values.try_reserve(more),
            Data::Binary(values) | Data::Text(values) => values.offsets.try_reserve(more),
            Data::Fixed { width, bytes } => bytes.try_reserve(more.saturating_mul(*width)),
            Data::List { offsets, .. } | Data::Map { offsets, .. } => offsets.try_reserve(more),
            Data::Struct(children) => children.iter_mut().try_for_each(|child| child.reserve(more)),
        }
    }

    /// Returns the number of values.
    #[inline]
    pub fn len(&self) -> usize {
        self.nulls.len()
    }

    /// Returns the number of values as the end of a list.
    #[inline]
    pub(super) fn end(&self) -> Result<i32> {
        i32::try_from(self.len()).map_err(|_| too_large())
    }

    /// Returns whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the memory of the values in bytes.
    pub fn size(&self) -> usize {
        let own = self.len() * self.width + self.len() / 8;
        own + match &self.data {
            Data::Binary(values) | Data::Text(values) => values.bytes.len(),
            Data::List { items: inner, .. } | Data::Map { entries: inner, .. } => inner.size(),
            // `width` contains the values of the fields, and not their items and strings.
            Data::Struct(children) => children.iter().map(|child| child.size() - child.len() * child.width).sum(),
            _ => 0,
        }
    }

    /// Keeps the first `length` values.
    pub fn truncate(&mut self, length: usize) {
        self.nulls.truncate(length.min(self.nulls.len()));
        match &mut self.data {
            Data::Null => {}
            Data::Bool(values) => values.truncate(length),
            Data::I8(values) => values.truncate(length),
            Data::I16(values) => values.truncate(length),
            Data::I32(values) => values.truncate(length),
            Data::I64(values) | Data::Times { values, .. } => values.truncate(length),
            Data::U8(values) => values.truncate(length),
            Data::U16(values) => values.truncate(length),
            Data::U32(values) => values.truncate(length),
            Data::U64(values) => values.truncate(length),
            Data::F32(values) => values.truncate(length),
            Data::F64(values) => values.truncate(length),
            Data::I128(values) => values.truncate(length),
            Data::I256(values) => values.truncate(length),
            Data::Binary(values) | Data::Text(values) => values.truncate(length),
            Data::Fixed { width, bytes } => bytes.truncate(length * *width),
            Data::List { offsets, items: inner } | Data::Map { offsets, entries: inner } => {
                offsets.truncate(length + 1);
                inner.truncate(offsets.last().map_or(0, |end| *end as usize));
            }
            Data::Struct(children) => children.iter_mut().for_each(|child| child.truncate(length)),
        }
    }

    /// Appends a null.
    pub fn push_null(&mut self) {
        match &mut self.data {
            Data::Null => {}
            Data::Bool(values) => values.append(false),
            Data::I8(values) => values.push(0),
            Data::I16(values) => values.push(0),
            Data::I32(values) => values.push(0),
            Data::I64(values) | Data::Times { values, .. } => values.push(0),
            Data::U8(values) => values.push(0),
            Data::U16(values) => values.push(0),
            Data::U32(values) => values.push(0),
            Data::U64(values) => values.push(0),
            Data::F32(values) => values.push(0.0),
            Data::F64(values) => values.push(0.0),
            Data::I128(values) => values.push(0),
            Data::I256(values) => values.push(i256::ZERO),
            Data::Binary(values) | Data::Text(values) => values.repeat_end(),
            Data::Fixed { width, bytes } => bytes.resize(bytes.len() + *width, 0),
            Data::List { offsets, .. } | Data::Map { offsets, .. } => {
                offsets.push(offsets.last().copied().unwrap_or_default());
            }
            Data::Struct(children) => children.iter_mut().for_each(Self::push_null),
        }
        self.nulls.append_null();
    }

    /// Marks the values that were appended to `data` as one valid value.
    #[inline]
    pub(super) fn push_valid(&mut self) {
        self.nulls.append_non_null();
    }

    /// Appends an integer, converted to the type of the column.
    #[inline]
    pub(super) fn push_int(&mut self, value: i64) -> Result<()> {
        match &mut self.data {
            Data::I64(values) => values.push(value),
            Data::I32(values) => values.push(narrow(value)?),
            Data::F64(values) => values.push(value as f64),
            Data::F32(values) => values.push(value as f32),
            Data::I16(values) => values.push(narrow(value)?),
            Data::I8(values) => values.push(narrow(value)?),
            Data::U64(values) => values.push(narrow(value)?),
            Data::U32(values) => values.push(narrow(value)?),
            Data::U16(values) => values.push(narrow(value)?),
            Data::U8(values) => values.push(narrow(value)?),
            Data::Times { values, from, to } => values.push(converted(value, *from, *to)?),
            _ => return Err(self.unfit(&format!("the number {value}"))),
        }
        self.nulls.append_non_null();
        Ok(())
    }

    /// Appends an unsigned integer.
    #[inline]
    pub(super) fn push_unsigned(&mut self, value: u64) -> Result<()> {
        match &mut self.data {
            Data::U64(values) => values.push(value),
            Data::F64(values) => values.push(value as f64),
            _ => return self.push_int(narrow_unsigned(value)?),
        }
        self.nulls.append_non_null();
        Ok(())
    }

    #[inline]
    pub(super) fn push_f64(&mut self, value: f64) -> Result<()> {
        match &mut self.data {
            Data::F64(values) => values.push(value),
            Data::F32(values) => values.push(value as f32),
            _ => return Err(self.unfit(&format!("the number {value}"))),
        }
        self.nulls.append_non_null();
        Ok(())
    }

    #[inline]
    pub(super) fn push_f32(&mut self, value: f32) -> Result<()> {
        match &mut self.data {
            Data::F32(values) => values.push(value),
            Data::F64(values) => values.push(f64::from(value)),
            _ => return Err(self.unfit(&format!("the number {value}"))),
        }
        self.nulls.append_non_null();
        Ok(())
    }

    #[inline]
    pub(super) fn push_bool(&mut self, value: bool) -> Result<()> {
        let Data::Bool(values) = &mut self.data else { return Err(self.unfit(&value.to_string())) };
        values.append(value);
        self.nulls.append_non_null();
        Ok(())
    }

    /// Appends bytes to a column of binary values. Also appends UTF-8 bytes to a column of text.
    #[inline]
    pub(super) fn push_bytes(&mut self, value: &[u8]) -> Result<()> {
        match &mut self.data {
            Data::Text(values) => {
                if std::str::from_utf8(value).is_err() {
                    return Err(Fault::new("the string is not UTF-8"));
                }
                values.push(value)?;
            }
            Data::Binary(values) => values.push(value)?,
            Data::Fixed { width, bytes } if *width == value.len() => bytes.extend_from_slice(value),
            Data::Fixed { width, .. } => {
                return Err(Fault::new(format!("the value has {} bytes instead of {width}", value.len())));
            }
            _ => return Err(self.unfit("a string of bytes")),
        }
        self.nulls.append_non_null();
        Ok(())
    }

    /// Appends text.
    #[inline]
    pub(super) fn push_text(&mut self, value: &str) -> Result<()> {
        match &mut self.data {
            Data::Text(values) | Data::Binary(values) => values.push(value.as_bytes())?,
            _ => return Err(self.unfit("a string")),
        }
        self.nulls.append_non_null();
        Ok(())
    }

    /// Appends the digits of a decimal number with `scale` digits after the point.
    pub(super) fn push_decimal(&mut self, digits: i256, scale: i8) -> Result<()> {
        let (precision, own_scale) = match self.field.data_type() {
            DataType::Decimal128(precision, scale)
            | DataType::Decimal256(precision, scale)
            | DataType::Decimal64(precision, scale)
            | DataType::Decimal32(precision, scale) => (*precision, *scale),
            _ => return Err(self.unfit("a decimal number")),
        };
        let scaled = rescaled(digits, i32::from(own_scale) - i32::from(scale))?;
        if scaled.wrapping_abs() >= power_of_ten(u32::from(precision)) || scaled == i256::MIN {
            return Err(Fault::new(format!("the decimal number has more than {precision} digits")));
        }
        // A number of at most so many digits fits the type of its precision.
        let narrow = scaled.to_i128().unwrap_or_default();
        match &mut self.data {
            Data::I256(values) => values.push(scaled),
            Data::I128(values) => values.push(narrow),
            Data::I64(values) => values.push(narrow as i64),
            Data::I32(values) => values.push(narrow as i32),
            _ => return Err(self.unfit("a decimal number")),
        }
        self.nulls.append_non_null();
        Ok(())
    }

    #[cold]
    pub(super) fn unfit(&self, value: &str) -> Box<Fault> {
        Fault::new(format!("the value is {value}, and the column is {}", self.field.data_type()))
    }

    /// Returns the values as an Arrow array, and leaves an empty column.
    pub fn finish(&mut self) -> ArrayRef {
        let length = self.len();
        let nulls = self.nulls.finish();
        self.nulls = NullBufferBuilder::new(0);
        let data_type = self.field.data_type().clone();
        match &mut self.data {
            Data::Null => Arc::new(NullArray::new(length)),
            Data::Bool(values) => Arc::new(BooleanArray::new(values.finish(), nulls)),
            Data::I8(values) => primitive::<types::Int8Type>(values, nulls, data_type),
            Data::I16(values) => primitive::<types::Int16Type>(values, nulls, data_type),
            Data::I32(values) => primitive::<types::Int32Type>(values, nulls, data_type),
            Data::I64(values) | Data::Times { values, .. } => primitive::<types::Int64Type>(values, nulls, data_type),
            Data::U8(values) => primitive::<types::UInt8Type>(values, nulls, data_type),
            Data::U16(values) => primitive::<types::UInt16Type>(values, nulls, data_type),
            Data::U32(values) => primitive::<types::UInt32Type>(values, nulls, data_type),
            Data::U64(values) => primitive::<types::UInt64Type>(values, nulls, data_type),
            Data::F32(values) => primitive::<types::Float32Type>(values, nulls, data_type),
            Data::F64(values) => primitive::<types::Float64Type>(values, nulls, data_type),
            Data::I128(values) => primitive::<Decimal128Type>(values, nulls, data_type),
            Data::I256(values) => primitive::<Decimal256Type>(values, nulls, data_type),
            Data::Binary(values) => {
                let bytes = std::mem::replace(values, Bytes::new());
                Arc::new(BinaryArray::new(offset_buffer(bytes.offsets), Buffer::from_vec(bytes.bytes), nulls))
            }
            Data::Text(values) => {
                let bytes = std::mem::replace(values, Bytes::new());
                Arc::new(StringArray::new(offset_buffer(bytes.offsets), Buffer::from_vec(bytes.bytes), nulls))
            }
            Data::Fixed { width, bytes } => {
                let values = Buffer::from_vec(std::mem::take(bytes));
                // The width came from an i32.
                Arc::new(
                    FixedSizeBinaryArray::try_new_with_len(*width as i32, values, nulls, length).expect("whole values"),
                )
            }
            Data::List { offsets, items } => {
                let offsets = offset_buffer(std::mem::replace(offsets, vec![0]));
                Arc::new(ListArray::new(items.field.clone(), offsets, items.finish(), nulls))
            }
            Data::Map { offsets, entries } => {
                let offsets = offset_buffer(std::mem::replace(offsets, vec![0]));
                let field = entries.field.clone();
                let finished = entries.finish();
                let entries = StructArray::from(finished.into_data());
                let is_sorted = matches!(data_type, DataType::Map(_, true));
                Arc::new(MapArray::new(field, offsets, entries, nulls, is_sorted))
            }
            Data::Struct(children) if children.is_empty() => Arc::new(StructArray::new_empty_fields(length, nulls)),
            Data::Struct(children) => {
                let fields = children.iter().map(|child| child.field.clone()).collect();
                Arc::new(StructArray::new(fields, children.iter_mut().map(Self::finish).collect(), nulls))
            }
        }
    }
}

fn primitive<T: ArrowPrimitiveType>(values: &mut Vec<T::Native>, nulls: Option<NullBuffer>, to: DataType) -> ArrayRef
where
    T::Native: ArrowNativeType,
{
    let array = PrimitiveArray::<T>::new(ScalarBuffer::from(std::mem::take(values)), nulls);
    // A date or time has the same layout as its integers.
    make_array(array.into_data().into_builder().data_type(to).build().expect("the same layout"))
}

fn offset_buffer(offsets: Vec<i32>) -> OffsetBuffer<i32> {
    OffsetBuffer::new(ScalarBuffer::from(offsets))
}

#[inline]
fn narrow<T: TryFrom<i64>>(value: i64) -> Result<T> {
    T::try_from(value).map_err(|_| out_of_range(&value, std::any::type_name::<T>()))
}

fn narrow_unsigned(value: u64) -> Result<i64> {
    i64::try_from(value).map_err(|_| out_of_range(&value, "i64"))
}

#[cold]
fn out_of_range(value: &dyn std::fmt::Display, rust_type: &str) -> Box<Fault> {
    let arrow_type = rust_type.replacen('i', "int", 1).replacen('u', "uint", 1);
    Fault::new(format!("the number {value} does not fit the column's type {arrow_type}"))
}

/// Returns the digits with more or fewer decimal places. Fails if this would drop digits that are not zero.
fn rescaled(digits: i256, places: i32) -> Result<i256> {
    let exceeds = || Fault::new("the decimal number has more digits than its column");
    let factor = power_of_ten(places.unsigned_abs().min(76));
    if places >= 0 {
        return digits.checked_mul(factor).ok_or_else(exceeds);
    }
    match (digits.checked_div(factor), digits.checked_rem(factor)) {
        (Some(quotient), Some(rest)) if rest == i256::ZERO => Ok(quotient),
        _ => Err(Fault::new("the decimal number has more digits after the point than its column")),
    }
}

pub(super) fn power_of_ten(exponent: u32) -> i256 {
    i256::from_i128(10).wrapping_pow(exponent)
}

/// Returns the unit of a column of dates or times in nanoseconds, or `None` for other types.
pub(super) fn nanoseconds_per_unit(data_type: &DataType) -> Option<i64> {
    Some(match data_type {
        DataType::Timestamp(unit, _) | DataType::Duration(unit) | DataType::Time32(unit) | DataType::Time64(unit) => {
            match unit {
                TimeUnit::Second => 1_000_000_000,
                TimeUnit::Millisecond => 1_000_000,
                TimeUnit::Microsecond => 1000,
                TimeUnit::Nanosecond => 1,
            }
        }
        _ => return None,
    })
}

/// Converts a time from one unit to another. Both units are numbers of nanoseconds.
fn converted(time: i64, from: i64, to: i64) -> Result<i64> {
    if from >= to {
        let converted = time.checked_mul(from / to);
        return converted.ok_or_else(|| Fault::new(format!("the time {time} is out of the range of the column")));
    }
    if time % (to / from) != 0 {
        return Err(Fault::new(format!("the time {time} is more precise than the column")));
    }
    Ok(time / (to / from))
}

/// Returns a nullable field.
pub fn nullable(name: &str, data_type: DataType) -> FieldRef {
    Arc::new(Field::new(name, data_type, true))
}

/// Maximum depth of a type. The recursion of the decoders is as deep as the type.
pub const MAX_DEPTH: usize = 64;

/// How much memory the columns of one record can need in addition to the memory of its strings, in bytes.
const LARGEST_RECORD: usize = 512 << 20;
