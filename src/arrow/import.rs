//! Converts columns to records: `value`, and optionally `key`, `headers`, `timestamp`, `partition` and `topic`.
//!
//! Text and binary columns may have any of Arrow's types (plain, large, view, fixed size, or a dictionary of one of
//! these types). Timestamps may have any unit, or be int64 milliseconds. The import ignores the columns `offset` and
//! `timestamp_type`, which only fetched records have. A column with an unknown name is an error, because klamm would
//! lose data silently if it ignored a misspelled column. The caller drops the columns that `is_pandas_index` finds.

use crate::record::NO_TIMESTAMP;
use arrow_array::cast::AsArray;
use arrow_array::types::{
    Int32Type, Int64Type, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType,
};
use arrow_array::{
    Array, BinaryArray, BinaryViewArray, FixedSizeBinaryArray, Int32Array, Int64Array, LargeBinaryArray,
    LargeStringArray, RecordBatch, StringArray, StringViewArray, downcast_dictionary_array,
};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_schema::{DataType, FieldRef, TimeUnit};
use std::ops::Range;

/// The column names that a batch to send may have.
const NAMES: [&str; 6] = ["value", "key", "headers", "timestamp", "partition", "topic"];

/// The column names that only a batch of fetched records has. The import ignores these columns.
const IGNORED: [&str; 2] = ["offset", "timestamp_type"];

/// The error if data cannot be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    /// The column or the row, and the problem with it.
    pub message: String,
    /// What the user can do.
    pub hint: Option<String>,
}

impl Invalid {
    fn new(message: String, hint: impl Into<String>) -> Self {
        Self { message, hint: Some(hint.into()) }
    }

    fn wrong_type(name: &str, found: &DataType, expected: &str) -> Self {
        let hint = match found {
            DataType::RunEndEncoded(_, values) => {
                format!("decode the column: pyarrow.compute.run_end_decode, or cast it to {}", values.data_type())
            }
            DataType::Float16 | DataType::Float32 | DataType::Float64 if name == "partition" => {
                "pandas turns integers with gaps into floats: use astype(\"Int32\"), or cast the column".to_owned()
            }
            _ => "cast the column".to_owned(),
        };
        Self::new(format!("column `{name}` is {found}, but has to be {expected}"), hint)
    }
}

impl From<String> for Invalid {
    fn from(message: String) -> Self {
        Self { message, hint: None }
    }
}

/// Returns whether pandas created this column from an index without a name.
pub fn is_pandas_index(column: &str) -> bool {
    let level = column.strip_prefix("__index_level_").and_then(|rest| rest.strip_suffix("__"));
    level.is_some_and(|level| !level.is_empty() && level.bytes().all(|b| b.is_ascii_digit()))
}

/// Returns whether a batch to send may have this column.
pub fn is_known(column: &str) -> bool {
    NAMES.contains(&column) || IGNORED.contains(&column)
}

enum Bytes {
    Null,
    Binary(BinaryArray),
    LargeBinary(LargeBinaryArray),
    BinaryView(BinaryViewArray),
    FixedSize(FixedSizeBinaryArray),
    Text(StringArray),
    LargeText(LargeStringArray),
    TextView(StringViewArray),
    Dictionary { keys: Vec<usize>, nulls: Option<NullBuffer>, values: Box<Bytes> },
}

impl Bytes {
    fn of(name: &str, array: &dyn Array) -> Result<Self, Invalid> {
        Ok(match array.data_type() {
            DataType::Null => Self::Null,
            DataType::Binary => Self::Binary(array.as_binary().clone()),
            DataType::LargeBinary => Self::LargeBinary(array.as_binary().clone()),
            DataType::BinaryView => Self::BinaryView(array.as_binary_view().clone()),
            DataType::FixedSizeBinary(_) => Self::FixedSize(array.as_fixed_size_binary().clone()),
            DataType::Utf8 => Self::Text(array.as_string().clone()),
            DataType::LargeUtf8 => Self::LargeText(array.as_string().clone()),
            DataType::Utf8View => Self::TextView(array.as_string_view().clone()),
            DataType::Dictionary(_, _) => Self::dictionary(name, array)?,
            other => return Err(Invalid::wrong_type(name, other, "binary or utf8")),
        })
    }

    fn dictionary(name: &str, array: &dyn Array) -> Result<Self, Invalid> {
        let nulls = array.nulls().cloned();
        downcast_dictionary_array!(
            array => {
                if array.values().is_empty() {
                    return Ok(Self::Null);
                }
                let keys = arrow_array::array::AnyDictionaryArray::normalized_keys(array);
                let values = Box::new(Self::of(name, array.values())?);
                Ok(Self::Dictionary { keys, nulls, values })
            },
            other => Err(Invalid::wrong_type(name, other, "binary or utf8"))
        )
    }

    fn is_text(&self) -> bool {
        match self {
            Self::Text(_) | Self::LargeText(_) | Self::TextView(_) => true,
            Self::Dictionary { values, .. } => values.is_text(),
            _ => false,
        }
    }

    #[inline]
    fn get(&self, row: usize) -> Option<&[u8]> {
        match self {
            Self::Null => None,
            Self::Binary(a) => a.is_valid(row).then(|| a.value(row)),
            Self::LargeBinary(a) => a.is_valid(row).then(|| a.value(row)),
            Self::BinaryView(a) => a.is_valid(row).then(|| a.value(row)),
            Self::FixedSize(a) => a.is_valid(row).then(|| a.value(row)),
            Self::Text(a) => a.is_valid(row).then(|| a.value(row).as_bytes()),
            Self::LargeText(a) => a.is_valid(row).then(|| a.value(row).as_bytes()),
            Self::TextView(a) => a.is_valid(row).then(|| a.value(row).as_bytes()),
            Self::Dictionary { keys, nulls, values } => {
                let valid = nulls.as_ref().is_none_or(|n| n.is_valid(row));
                valid.then(|| values.get(keys[row])).flatten()
            }
        }
    }

    fn text(&self, row: usize) -> Result<Option<&str>, String> {
        self.get(row).map(std::str::from_utf8).transpose().map_err(|_| format!("row {row}: a name is not UTF-8"))
    }
}

struct Headers {
    offsets: OffsetBuffer<i64>,
    nulls: Option<NullBuffer>,
    keys: Bytes,
    values: Bytes,
    /// Which header structs are null.
    null_items: Option<NullBuffer>,
}

impl Headers {
    fn of(array: &dyn Array) -> Result<Self, Invalid> {
        let (offsets, items) = match array.data_type() {
            DataType::List(_) => {
                let list = array.as_list::<i32>();
                (widen(list.offsets()), list.values().clone())
            }
            DataType::LargeList(_) => {
                let list = array.as_list::<i64>();
                (list.offsets().clone(), list.values().clone())
            }
            DataType::Map(_, _) => {
                let map = array.as_map();
                let entries = map.entries();
                let (keys, values) =
                    (Bytes::of("headers", entries.column(0))?, Bytes::of("headers", entries.column(1))?);
                let (nulls, null_items) = (map.nulls().cloned(), entries.nulls().cloned());
                return Ok(Self { offsets: widen(map.offsets()), nulls, keys, values, null_items });
            }
            other => return Err(not_headers(other)),
        };
        if *items.data_type() == DataType::Null {
            // Lists of nulls have no other type.
            let null_items = Some(NullBuffer::new_null(items.len()));
            return Ok(Self {
                offsets,
                nulls: array.nulls().cloned(),
                keys: Bytes::Null,
                values: Bytes::Null,
                null_items,
            });
        }
        let parts = items.as_struct_opt().and_then(|s| s.column_by_name("key").zip(s.column_by_name("value")));
        let Some((keys, values)) = parts else { return Err(not_headers(array.data_type())) };
        let (keys, values) = (Bytes::of("headers.key", keys)?, Bytes::of("headers.value", values)?);
        Ok(Self { offsets, nulls: array.nulls().cloned(), keys, values, null_items: items.nulls().cloned() })
    }
}

fn widen(offsets: &OffsetBuffer<i32>) -> OffsetBuffer<i64> {
    OffsetBuffer::new(offsets.iter().map(|o| i64::from(*o)).collect())
}

fn not_headers(found: &DataType) -> Invalid {
    Invalid::wrong_type("headers", found, "a list of struct(key, value) or a map")
}

enum Partitions {
    Int32(Int32Array),
    Int64(Int64Array),
}

/// The name and the value of a header.
pub type Header<'a> = (&'a [u8], Option<&'a [u8]>);

/// One record of a batch to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row<'a> {
    /// The topic, if the batch has this column.
    pub topic: Option<&'a str>,
    /// The partition, if the row has one.
    pub partition: Option<i32>,
    /// The timestamp in milliseconds since 1970, if the row has one.
    pub timestamp: Option<i64>,
    /// The key.
    pub key: Option<&'a [u8]>,
    /// The value.
    pub value: Option<&'a [u8]>,
    /// The headers.
    pub headers: &'a [Header<'a>],
}

/// The headers of several rows.
pub struct RowHeaders<'a> {
    all: Vec<Header<'a>>,
    /// The end of each row's headers.
    ends: Vec<usize>,
    /// The result for all later rows: no headers, or the error of the first later row.
    rest: Result<(), String>,
}

impl<'a> RowHeaders<'a> {
    /// Returns the headers of a row. The number `row` counts from the first of these rows.
    #[inline]
    pub fn get(&self, row: usize) -> Result<&[Header<'a>], String> {
        let Some(end) = self.ends.get(row) else {
            return self.rest.clone().map(|()| [].as_slice());
        };
        let start = row.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or_default();
        Ok(self.all.get(start..*end).unwrap_or_default())
    }
}

/// A batch to send, after its column names and types have been validated.
pub struct Input {
    rows: usize,
    value: Bytes,
    key: Option<Bytes>,
    headers: Option<Headers>,
    timestamp: Option<Int64Array>,
    partition: Option<Partitions>,
    topic: Option<Bytes>,
}

impl Input {
    /// Validates the names and types of the columns. The error names the column and the expected type.
    pub fn new(batch: &RecordBatch) -> Result<Self, Invalid> {
        let fields = batch.schema_ref().fields();
        if let Some(field) = fields.iter().find(|f| !is_known(f.name())) {
            let message = format!("a record has no column `{}`, only {}", field.name(), NAMES.join(", "));
            return Err(Invalid::new(message, "rename the column, or drop it, for example with table.select"));
        }
        let repeated = |(i, f): &(usize, &FieldRef)| batch.schema_ref().index_of(f.name()).is_ok_and(|at| at < *i);
        if let Some((_, field)) = fields.iter().enumerate().find(repeated) {
            let message = format!("there are two columns `{}`, and a record has one", field.name());
            return Err(Invalid::new(message, "rename one of the columns, or drop it"));
        }
        let bytes = |name| batch.column_by_name(name).map(|a| Bytes::of(name, a)).transpose();
        let value = bytes("value")?.ok_or_else(|| {
            Invalid::new(
                "there is no column `value`".to_owned(),
                "rename the column that has the values, or add a column of nulls",
            )
        })?;
        let topic = bytes("topic")?;
        if topic.as_ref().is_some_and(|t| !t.is_text()) {
            return Err(Invalid::new("column `topic` has to be utf8".to_owned(), "cast the column"));
        }
        Ok(Self {
            rows: batch.num_rows(),
            value,
            key: bytes("key")?,
            headers: batch
                .column_by_name("headers")
                .filter(|a| *a.data_type() != DataType::Null)
                .map(|a| Headers::of(a))
                .transpose()?,
            timestamp: batch.column_by_name("timestamp").map(|a| millis(a)).transpose()?,
            partition: batch.column_by_name("partition").map(|a| partitions(a)).transpose()?,
            topic,
        })
    }

    /// Returns the number of records.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Returns whether there are no records.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Returns the headers of these rows.
    pub fn headers(&self, rows: Range<usize>) -> RowHeaders<'_> {
        let mut found = RowHeaders { all: Vec::new(), ends: Vec::new(), rest: Ok(()) };
        let Some(column) = &self.headers else {
            return found;
        };
        for row in rows {
            found.rest = column_headers(column, row, &mut found.all);
            if found.rest.is_err() {
                break;
            }
            found.ends.push(found.all.len());
        }
        found
    }

    /// Returns a record with its headers. The error names the row.
    #[inline]
    pub fn row<'a>(&'a self, row: usize, headers: &'a [Header<'a>]) -> Result<Row<'a>, String> {
        Ok(Row {
            topic: match &self.topic {
                Some(topic) => topic.text(row)?,
                None => None,
            },
            partition: match &self.partition {
                Some(partitions) => partition(partitions, row)?,
                None => None,
            },
            timestamp: self.timestamp.as_ref().map_or(Ok(None), |t| timestamp(t, row))?,
            key: self.key.as_ref().and_then(|k| k.get(row)),
            value: self.value.get(row),
            headers,
        })
    }
}

fn timestamp(column: &Int64Array, row: usize) -> Result<Option<i64>, String> {
    match column.is_valid(row).then(|| column.value(row)) {
        Some(ms @ (NO_TIMESTAMP | i64::MIN)) => {
            Err(format!("row {row}: timestamp cannot be {ms} ms, which stands for a record without a timestamp"))
        }
        known => Ok(known),
    }
}

fn column_headers<'a>(column: &'a Headers, row: usize, headers: &mut Vec<Header<'a>>) -> Result<(), String> {
    if column.nulls.as_ref().is_some_and(|n| n.is_null(row)) {
        return Ok(());
    }
    let first = column.offsets[row] as usize;
    for at in first..column.offsets[row + 1] as usize {
        if column.null_items.as_ref().is_some_and(|n| n.is_null(at)) {
            return Err(format!("row {row}: column `headers`: header {} is null", at - first));
        }
        let key = column
            .keys
            .get(at)
            .ok_or_else(|| format!("row {row}: column `headers`: the key of header {} is null", at - first))?;
        headers.push((key, column.values.get(at)));
    }
    Ok(())
}

fn partition(column: &Partitions, row: usize) -> Result<Option<i32>, String> {
    match column {
        Partitions::Int32(a) => Ok(a.is_valid(row).then(|| a.value(row))),
        Partitions::Int64(a) if a.is_null(row) => Ok(None),
        Partitions::Int64(a) => i32::try_from(a.value(row))
            .map(Some)
            .map_err(|_| format!("row {row}: {} is not a partition number", a.value(row))),
    }
}

fn partitions(array: &dyn Array) -> Result<Partitions, Invalid> {
    match array.data_type() {
        DataType::Null => Ok(Partitions::Int32(Int32Array::new_null(array.len()))),
        DataType::Int32 => Ok(Partitions::Int32(array.as_primitive::<Int32Type>().clone())),
        DataType::Int64 => Ok(Partitions::Int64(array.as_primitive::<Int64Type>().clone())),
        other => Err(Invalid::wrong_type("partition", other, "int32 or int64")),
    }
}

fn millis(array: &dyn Array) -> Result<Int64Array, Invalid> {
    match array.data_type() {
        DataType::Null => Ok(Int64Array::new_null(array.len())),
        DataType::Int64 => Ok(array.as_primitive::<Int64Type>().clone()),
        DataType::Timestamp(TimeUnit::Second, _) => {
            Ok(array.as_primitive::<TimestampSecondType>().unary(|s| s.saturating_mul(1000)))
        }
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            Ok(array.as_primitive::<TimestampMillisecondType>().unary(|ms| ms))
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            Ok(array.as_primitive::<TimestampMicrosecondType>().unary(|us| us.div_euclid(1000)))
        }
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            Ok(array.as_primitive::<TimestampNanosecondType>().unary(|ns| ns.div_euclid(1_000_000)))
        }
        other => Err(Invalid::wrong_type("timestamp", other, "a timestamp or int64 milliseconds")),
    }
}
