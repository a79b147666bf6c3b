//! Converts records to columns: one pass and one copy for each column, directly from the fetched buffers.
//!
//! The exported columns use Arrow's 32-bit offsets, so a column holds less than 2 GiB. The caller must limit each batch
//! to less than 2 GiB per column, because the export fails for a larger batch. In header keys, klamm's layout writes
//! bytes that are not UTF-8 as escapes such as `\xe4`. Spark's layout has replacement characters in place of these
//! bytes.

use super::columns::{Column, Columns, Layout, header_field, header_fields};
use crate::record::{NO_TIMESTAMP, Record, TimestampType};
use arrow_array::types::Int32Type;
use arrow_array::{
    ArrayRef, BinaryArray, DictionaryArray, Int32Array, Int64Array, ListArray, RecordBatch, RecordBatchOptions,
    StringArray, StructArray, TimestampMicrosecondArray, TimestampMillisecondArray, new_empty_array,
};
use arrow_buffer::{Buffer, NullBuffer, NullBufferBuilder, OffsetBuffer, ScalarBuffer};
use arrow_schema::DataType;
use std::fmt;
use std::sync::Arc;

/// Consecutive records of one batch, with the bytes that contain them.
#[derive(Clone, Copy, Debug)]
pub struct Rows<'a> {
    /// The topic.
    pub topic: &'a str,
    /// The partition.
    pub partition: i32,
    /// The source of the timestamps.
    pub timestamp_type: TimestampType,
    /// The bytes that contain the records.
    pub data: &'a [u8],
    /// The records.
    pub records: &'a [Record],
}

/// The error if records cannot become columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportError {
    /// The data exceeds the maximum size of a column.
    TooLarge,
    /// The system has no memory for a column of this number of bytes.
    OutOfMemory(usize),
}

impl fmt::Display for ExportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge => {
                f.write_str("the records hold 2 GiB or more, which one Arrow batch cannot: take fewer at a time")
            }
            Self::OutOfMemory(bytes) => write!(f, "no memory for an Arrow column of {bytes} bytes"),
        }
    }
}

/// Builds the columns from `rows`.
pub fn to_batch(columns: &Columns, rows: &[Rows<'_>]) -> Result<RecordBatch, ExportError> {
    let count = rows.iter().map(|r| r.records.len()).sum();
    let has = |column| columns.columns.contains(&column);
    let mut keys = Binary::new(rows, has(Column::Key), Record::key_size)?;
    let mut values = Binary::new(rows, has(Column::Value), Record::value_size)?;
    let mut offsets = Numbers::new(count, has(Column::Offset));
    let mut timestamps = Numbers::new(count, has(Column::Timestamp));
    let mut header_count = 0;
    for r in rows {
        // All columns copy from a block while it is in the CPU cache: the records and bytes of a whole slice do not
        // fit.
        for block in r.records.chunks(BLOCK) {
            keys.append(block, |record| record.key_from(r.data));
            values.append(block, |record| record.value_from(r.data));
            offsets.append(block, |record| record.offset);
            timestamps.append(block, |record| record.timestamp);
            header_count += block.iter().map(Record::header_count).sum::<usize>();
        }
    }
    let (keys, values) = (keys.finish(), values.finish());
    let offsets: ArrayRef = Arc::new(Int64Array::from(offsets.values));
    let timestamps = times(columns.layout, timestamps.values);
    let array = |column: &Column| -> Result<ArrayRef, ExportError> {
        Ok(match column {
            Column::Topic => topics(columns.layout, rows, count)?,
            Column::Partition => Arc::new(Int32Array::from(per_slice(rows, count, |r| r.partition))),
            Column::Offset => offsets.clone(),
            Column::Timestamp => timestamps.clone(),
            Column::TimestampType => Arc::new(Int32Array::from(per_slice(rows, count, |r| r.timestamp_type as i32))),
            Column::Key => keys.clone(),
            Column::Value => values.clone(),
            Column::Headers if header_count == 0 => Arc::new(no_headers(columns.layout, count)),
            Column::Headers => Arc::new(headers(columns.layout, rows, count)?),
        })
    };
    let arrays = columns.columns.iter().map(array).collect::<Result<Vec<_>, _>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(count));
    // The arrays were built for this schema and all have `count` rows.
    Ok(RecordBatch::try_new_with_options(columns.schema().clone(), arrays, &options).expect("columns fit the schema"))
}

/// Builds a column of bytes. [`Binary::new`] first measures all values, so that the column is allocated only once.
struct Binary {
    wanted: bool,
    offsets: Vec<i32>,
    values: Vec<u8>,
    nulls: NullBufferBuilder,
}

impl Binary {
    fn new(rows: &[Rows<'_>], wanted: bool, length: impl Fn(&Record) -> Option<usize>) -> Result<Self, ExportError> {
        let (mut count, mut size) = (0, 0);
        for r in rows.iter().filter(|_| wanted) {
            count += r.records.len();
            size += r.records.iter().map(|record| length(record).unwrap_or(0)).sum::<usize>();
        }
        i32::try_from(size).map_err(|_| ExportError::TooLarge)?;
        let mut offsets = Vec::with_capacity(count + 1);
        offsets.push(0);
        // The size comes from the broker, so a failed allocation must not end the process.
        let mut values = Vec::new();
        values.try_reserve_exact(size + SHORT).map_err(|_| ExportError::OutOfMemory(size))?;
        Ok(Self { wanted, offsets, values, nulls: NullBufferBuilder::new(count) })
    }

    #[inline]
    fn append<'a>(&mut self, block: &[Record], part: impl Fn(&Record) -> Option<(&'a [u8], usize)>) {
        if !self.wanted {
            return;
        }
        let (values, mut nulls) = (&mut self.values, 0);
        self.offsets.extend(block.iter().map(|record| {
            match part(record) {
                Some((from, size)) => put(values, from, size),
                None => nulls += 1,
            }
            // All of them together are below 2 GiB.
            values.len() as i32
        }));
        if nulls == 0 {
            self.nulls.append_n_non_nulls(block.len());
        } else {
            block.iter().for_each(|record| self.nulls.append(part(record).is_some()));
        }
    }

    fn finish(mut self) -> ArrayRef {
        let values = Buffer::from_vec(self.values);
        Arc::new(BinaryArray::new(offset_buffer(self.offsets), values, self.nulls.finish()))
    }
}

/// Appends the first `size` bytes of `from`. For short data, copies a fixed number of bytes without checking the
/// length. The column has room for these bytes after its last value.
#[inline]
fn put(values: &mut Vec<u8>, from: &[u8], size: usize) {
    match from.first_chunk::<SHORT>() {
        Some(more) if size <= SHORT => {
            let end = values.len() + size;
            values.extend_from_slice(more);
            values.truncate(end);
        }
        _ => values.extend_from_slice(from.get(..size).unwrap_or_default()),
    }
}

/// Builds a column of numbers.
struct Numbers {
    wanted: bool,
    values: Vec<i64>,
}

impl Numbers {
    fn new(count: usize, wanted: bool) -> Self {
        Self { wanted, values: Vec::with_capacity(if wanted { count } else { 0 }) }
    }

    #[inline]
    fn append(&mut self, block: &[Record], value: impl Fn(&Record) -> i64) {
        if self.wanted {
            self.values.extend(block.iter().map(value));
        }
    }
}

fn per_slice<T: Copy>(rows: &[Rows<'_>], count: usize, value: impl Fn(&Rows<'_>) -> T) -> Vec<T> {
    let mut out = Vec::with_capacity(count);
    for r in rows {
        out.resize(out.len() + r.records.len(), value(r));
    }
    out
}

fn topics(layout: Layout, rows: &[Rows<'_>], count: usize) -> Result<ArrayRef, ExportError> {
    if layout == Layout::Spark {
        let bytes: usize = rows.iter().map(|r| r.topic.len() * r.records.len()).sum();
        i32::try_from(bytes).map_err(|_| ExportError::TooLarge)?;
        let names = rows.iter().flat_map(|r| std::iter::repeat_n(r.topic, r.records.len()));
        return Ok(Arc::new(StringArray::from_iter_values(names)));
    }
    // There are few topics, and mostly the same one as before.
    let mut names: Vec<&str> = Vec::new();
    let mut keys: Vec<i32> = Vec::with_capacity(count);
    for r in rows {
        let key = names.iter().rposition(|name| *name == r.topic).unwrap_or_else(|| {
            names.push(r.topic);
            names.len() - 1
        });
        keys.resize(keys.len() + r.records.len(), key as i32);
    }
    let values = Arc::new(StringArray::from_iter_values(names));
    Ok(Arc::new(DictionaryArray::<Int32Type>::new(Int32Array::from(keys), values)))
}

fn times(layout: Layout, millis: Vec<i64>) -> ArrayRef {
    if layout == Layout::Spark {
        let micros = millis.into_iter().map(|millis| millis.saturating_mul(1000)).collect::<Vec<_>>();
        return Arc::new(TimestampMicrosecondArray::from(micros).with_timezone("UTC"));
    }
    let mut nulls = NullBufferBuilder::new(millis.len());
    if millis.contains(&NO_TIMESTAMP) {
        millis.iter().for_each(|millis| nulls.append(*millis != NO_TIMESTAMP));
    }
    Arc::new(TimestampMillisecondArray::new(millis.into(), nulls.finish()).with_timezone("UTC"))
}

fn no_headers(layout: Layout, count: usize) -> ListArray {
    let nulls = (layout == Layout::Spark).then(|| NullBuffer::new_null(count));
    let none = new_empty_array(&DataType::Struct(header_fields()));
    ListArray::new(header_field(layout), OffsetBuffer::new_zeroed(count), none, nulls)
}

fn headers(layout: Layout, rows: &[Rows<'_>], count: usize) -> Result<ListArray, ExportError> {
    let mut offsets: Vec<i32> = Vec::with_capacity(count + 1);
    let mut nulls = NullBufferBuilder::new(count);
    let (mut keys, mut key_ends): (Vec<u8>, Vec<i32>) = (Vec::new(), vec![0]);
    let (mut values, mut value_ends): (Vec<u8>, Vec<i32>) = (Vec::new(), vec![0]);
    let mut value_nulls = NullBufferBuilder::new(count);
    offsets.push(0);
    for r in rows {
        if r.records.iter().all(|record| record.header_count() == 0) {
            offsets.resize(offsets.len() + r.records.len(), key_ends.len() as i32 - 1);
            match layout {
                Layout::Klamm => nulls.append_n_non_nulls(r.records.len()),
                Layout::Spark => nulls.append_n_nulls(r.records.len()),
            }
            continue;
        }
        for record in r.records {
            nulls.append(layout == Layout::Klamm || record.header_count() > 0);
            for (key, value) in record.headers(r.data) {
                put_name(&mut keys, key, layout);
                key_ends.push(keys.len() as i32);
                values.extend_from_slice(value.unwrap_or_default());
                value_ends.push(values.len() as i32);
                value_nulls.append(value.is_some());
            }
            offsets.push(key_ends.len() as i32 - 1);
        }
    }
    i32::try_from(keys.len().max(values.len()).max(key_ends.len())).map_err(|_| ExportError::TooLarge)?;
    let keys = StringArray::new(offset_buffer(key_ends), Buffer::from_vec(keys), None);
    let values = BinaryArray::new(offset_buffer(value_ends), Buffer::from_vec(values), value_nulls.finish());
    let structs = StructArray::new(header_fields(), vec![Arc::new(keys), Arc::new(values)], None);
    Ok(ListArray::new(header_field(layout), offset_buffer(offsets), Arc::new(structs), nulls.finish()))
}

/// Appends the name of a header. Arrow's strings are UTF-8, so klamm's layout writes other bytes as escapes such as
/// `\xe4`, which keeps different names different. Spark's layout replaces such bytes, as Spark's connector does.
fn put_name(names: &mut Vec<u8>, name: &[u8], layout: Layout) {
    for chunk in name.utf8_chunks() {
        names.extend_from_slice(chunk.valid().as_bytes());
        match layout {
            Layout::Klamm => {
                chunk.invalid().iter().for_each(|b| names.extend_from_slice(format!("\\x{b:02x}").as_bytes()))
            }
            Layout::Spark if chunk.invalid().is_empty() => {}
            Layout::Spark => names.extend_from_slice("\u{fffd}".as_bytes()),
        }
    }
}

fn offset_buffer(offsets: Vec<i32>) -> OffsetBuffer<i32> {
    OffsetBuffer::new(ScalarBuffer::from(offsets))
}

// Records of 40 bytes: a core's first-level cache also has room for the output.
const BLOCK: usize = 512;

// Covers most keys, with two registers.
const SHORT: usize = 32;
