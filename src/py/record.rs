//! The Python classes [`Record`] and [`RecordMetadata`].
//!
//! A [`Record`] consists of an index and a reference to a slice of fetched records. The key, value and headers of a
//! record become Python objects when the program reads them. Each [`Record`] keeps its whole slice in memory. A program
//! that needs many records for a long time should store the values instead of the records.

use super::arguments;
use super::bytes_like::{BytesLike, Headers, header_name};
use super::error::exception;
use crate::client::{self, Slice};
use crate::compress::{Compression, DEFAULT_LIMIT};
use crate::record::{self, BatchBuilder, TimestampType};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyList, PyString, PyTuple};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;
use std::sync::Arc;

/// The acknowledgement of a record by the broker, with the position of the record.
///
/// Args:
///     topic (str): The topic.
///     partition (int): The partition.
///     offset (int): The offset in the partition. With acks=0, the offset is -1, because the broker does not report it.
///     timestamp_ms (int): The timestamp in milliseconds since 1970.
#[pyclass(frozen, eq, hash, module = "klamm")]
#[derive(PartialEq, Eq, Hash)]
pub(super) struct RecordMetadata {
    topic: Arc<str>,
    /// The partition.
    #[pyo3(get)]
    partition: i32,
    /// The offset in the partition. With acks=0, the offset is -1, because the broker does not report it.
    #[pyo3(get)]
    offset: i64,
    /// The timestamp in milliseconds since 1970. The producer sets it, or the broker if the topic uses LogAppendTime.
    #[pyo3(get)]
    timestamp_ms: i64,
}

/// Converts an acknowledgement.
pub(super) fn metadata(py: Python<'_>, m: client::RecordMetadata) -> PyResult<Py<PyAny>> {
    let made = RecordMetadata { topic: m.topic, partition: m.partition, offset: m.offset, timestamp_ms: m.timestamp };
    Ok(Py::new(py, made)?.into_any())
}

#[pymethods]
impl RecordMetadata {
    #[new]
    fn new(topic: &str, partition: i32, offset: i64, timestamp_ms: i64) -> Self {
        Self { topic: topic.into(), partition, offset, timestamp_ms }
    }

    /// The topic.
    #[getter]
    fn topic(&self) -> &str {
        &self.topic
    }

    fn __getnewargs__(&self) -> (&str, i32, i64, i64) {
        (&self.topic, self.partition, self.offset, self.timestamp_ms)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let topic = PyString::new(py, &self.topic).repr()?;
        let Self { partition, offset, timestamp_ms, .. } = self;
        Ok(format!(
            "RecordMetadata(topic={topic}, partition={partition}, offset={offset}, timestamp_ms={timestamp_ms})"
        ))
    }
}

/// One record of a topic.
///
/// Consumers return records. Create a record yourself only to test code that handles records.
///
/// Args:
///     topic (str): The topic.
///     partition (int): The partition. Defaults to 0.
///     offset (int): The offset in the partition. Defaults to 0.
///     timestamp_ms (int | datetime): Milliseconds since 1970, or a datetime. Defaults to -1, which means no timestamp.
///     key (bytes-like | None): The key. Defaults to None.
///     value (bytes-like | None): The value. Defaults to None.
///     headers (sequence or mapping): The headers, in the same form as for `Producer.send`. Defaults to no headers.
///     timestamp_type (int): 0 (the default) if the producer set the timestamp, 1 if the broker set it.
///     delivery_count (int): Number of deliveries by a share group. Defaults to 0.
///
/// Raises:
///     ArgumentError: An argument has the wrong type.
///     ConfigError: The timestamp type does not exist.
// A loop drops each record before it takes the next, so a short free list is enough.
#[pyclass(frozen, subclass, generic, freelist = 8, module = "klamm")]
#[derive(Clone)]
pub(super) struct Record {
    slice: Arc<Slice>,
    index: usize,
}

impl Record {
    #[inline]
    pub(super) fn new(slice: Arc<Slice>, index: usize) -> Self {
        Self { slice, index }
    }

    /// Returns the range that contains only this record.
    pub(super) fn range(&self) -> RecordRange {
        RecordRange { slice: self.slice.clone(), range: self.index..self.index + 1 }
    }

    #[inline]
    fn view(&self) -> &record::Record {
        &self.slice.records[self.index]
    }

    /// Returns topic, partition and offset.
    pub(super) fn position(&self) -> (&Arc<str>, i32, i64) {
        (&self.slice.topic, self.slice.partition, self.view().offset)
    }

    fn raw_headers(&self) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
        self.view().headers(&self.slice.data)
    }
}

impl PartialEq for Record {
    fn eq(&self, other: &Self) -> bool {
        let (one, two) = (self.view(), other.view());
        let (data, other_data) = (&self.slice.data, &other.slice.data);
        self.slice.partition == other.slice.partition
            && (one.offset, one.timestamp) == (two.offset, two.timestamp)
            && self.timestamp_type() == other.timestamp_type()
            && self.slice.topic == other.slice.topic
            && one.key(data) == two.key(other_data)
            && one.value(data) == two.value(other_data)
            && self.raw_headers().eq(other.raw_headers())
    }
}

#[pymethods]
impl Record {
    #[new]
    #[pyo3(signature = (topic, partition=0, offset=0, timestamp_ms=-1, key=None, value=None, headers=None, timestamp_type=0, delivery_count=0))]
    #[allow(clippy::too_many_arguments, reason = "a record has as many fields")]
    fn from_parts(
        py: Python<'_>,
        #[pyo3(from_py_with = arguments::topic)] topic: &str,
        partition: i32,
        offset: i64,
        #[pyo3(from_py_with = arguments::time)] timestamp_ms: i64,
        key: Option<&Bound<'_, PyAny>>,
        value: Option<&Bound<'_, PyAny>>,
        headers: Option<&Bound<'_, PyAny>>,
        timestamp_type: i32,
        delivery_count: i16,
    ) -> PyResult<Self> {
        let timestamp_type = match timestamp_type {
            1 => TimestampType::LogAppendTime,
            0 | -1 => TimestampType::CreateTime,
            other => return Err(exception(py, "ConfigError", &format!("timestamp type {other} does not exist"), None)),
        };
        let (key, value) = (BytesLike::optional("key", key)?, BytesLike::optional("value", value)?);
        let headers = Headers::new(headers)?;
        let mut builder = BatchBuilder::with_capacity(256);
        let parts = headers.parts();
        builder.append(
            timestamp_ms,
            key.as_ref().map(BytesLike::as_bytes),
            value.as_ref().map(BytesLike::as_bytes),
            &parts,
        );
        // Sealing without compression cannot fail, and the batch was just written by klamm.
        let sealed = builder.seal(Compression::None, record::Producer::NONE).map_err(|e| e.to_string());
        let mut batch = sealed.map(|s| s.data.to_vec()).unwrap_or_default();
        batch[..8].copy_from_slice(&offset.to_be_bytes());
        let batch = record::batches(batch.into()).next().and_then(Result::ok);
        let set = batch.as_ref().and_then(|b| b.records(DEFAULT_LIMIT).ok());
        let Some(set) = set else { unreachable!("a batch of our own") };
        let data = set.data().clone();
        let records = set.filter_map(Result::ok).collect();
        let slice = Slice { topic: topic.into(), partition, timestamp_type, data, records, delivery_count };
        Ok(Self { slice: Arc::new(slice), index: 0 })
    }

    /// The topic.
    #[getter]
    fn topic(&self) -> &str {
        &self.slice.topic
    }

    /// The partition.
    #[getter]
    fn partition(&self) -> i32 {
        self.slice.partition
    }

    /// The offset in the partition.
    #[getter]
    fn offset(&self) -> i64 {
        self.view().offset
    }

    /// The timestamp in milliseconds since 1970, or -1 if the record has no timestamp.
    #[getter]
    fn timestamp_ms(&self) -> i64 {
        self.view().timestamp
    }

    /// The origin of the timestamp: 0 for the producer, 1 for the broker when it appended the record, -1 for a record
    /// without a timestamp.
    #[getter]
    fn timestamp_type(&self) -> i32 {
        if self.view().timestamp == -1 { -1 } else { self.slice.timestamp_type as i32 }
    }

    /// The number of deliveries of the record by a share group, including this delivery. Outside of share groups, the
    /// number is 0.
    #[getter]
    fn delivery_count(&self) -> i16 {
        self.slice.delivery_count
    }

    /// The timestamp as an aware datetime in UTC, or None if the record has no timestamp.
    ///
    /// The result is also None if a datetime cannot represent the timestamp. `timestamp_ms` always has the number.
    #[getter]
    fn timestamp<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        static FROM_MS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        match self.view().timestamp {
            -1 => Ok(None),
            ms => FROM_MS.import(py, "klamm.record", "datetime_of")?.call1((ms,)).map(Some),
        }
    }

    /// The key as bytes, or the result of the key deserializer. None stands for a null key.
    #[getter]
    pub(super) fn key<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        self.view().key(&self.slice.data).map(|key| bytes(py, key)).transpose()
    }

    /// The value as bytes, or the result of the value deserializer. None stands for a null value, which is a tombstone
    /// in a compacted topic.
    #[getter]
    pub(super) fn value<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        self.view().value(&self.slice.data).map(|value| bytes(py, value)).transpose()
    }

    /// The bytes of the key, even if the consumer has a key deserializer. None stands for a null key.
    #[getter]
    fn raw_key<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        self.key(py)
    }

    /// The bytes of the value, even if the consumer has a value deserializer. None stands for a null value.
    #[getter]
    fn raw_value<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        self.value(py)
    }

    /// The headers in order, as (name, value) pairs. Names may repeat.
    ///
    /// If bytes of a name are not UTF-8, the name contains them as lone surrogates, as with Python's error handler
    /// `surrogateescape`.
    #[getter]
    fn headers<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let pair =
            |(name, value): (&[u8], Option<&[u8]>)| Ok((header_name(py, name)?, value.map(|v| PyBytes::new(py, v))));
        PyList::new(py, self.raw_headers().map(pair).collect::<PyResult<Vec<_>>>()?)
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let (py, r) = (slf.py(), slf.get());
        let (topic, partition, offset, timestamp_ms) = (r.topic(), r.partition(), r.offset(), r.timestamp_ms());
        let (key, value, headers) = (r.key(py)?, r.value(py)?, r.headers(py)?);
        let (timestamp_type, delivery_count) = (r.timestamp_type(), r.delivery_count());
        let args = (topic, partition, offset, timestamp_ms, key, value, headers, timestamp_type, delivery_count);
        Ok((slf.get_type().into_any(), args.into_pyobject(py)?))
    }

    /// Returns whether both objects are views of the same fetched record.
    #[pyo3(name = "_is_same", signature = (other))]
    fn is_same(&self, other: &Self) -> bool {
        self.index == other.index && Arc::ptr_eq(&self.slice, &other.slice)
    }

    /// Compares position, timestamp, key, value and headers.
    fn __eq__(&self, other: &Self) -> bool {
        self == other
    }

    /// Hashes the position only, which is unique.
    fn __hash__(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (&self.slice.topic, self.slice.partition, self.view().offset).hash(&mut hasher);
        hasher.finish()
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let topic = PyString::new(py, self.topic()).repr()?;
        let (key, value) = (self.view().key(&self.slice.data), self.view().value(&self.slice.data));
        let (key, value) = (shortened(py, key)?, shortened(py, value)?);
        let (partition, offset, ms) = (self.partition(), self.offset(), self.timestamp_ms());
        let headers = match self.view().header_count() {
            0 => String::new(),
            count => format!(", headers=[{}]", self.shown_headers(py, count)?),
        };
        Ok(format!(
            "Record(topic={topic}, partition={partition}, offset={offset}, timestamp_ms={ms}, key={key}, value={value}{headers})"
        ))
    }
}

impl Record {
    /// Formats the first headers for `repr`.
    fn shown_headers(&self, py: Python<'_>, count: usize) -> PyResult<String> {
        const MOST: usize = 4;
        let mut shown = Vec::new();
        for (key, value) in self.raw_headers().take(MOST) {
            let name = header_name(py, &key[..key.len().min(64)])?;
            shown.push(format!("({}, {})", name.repr()?, shortened(py, value)?));
        }
        let more = if count > MOST { format!(", ... ({count} headers)") } else { String::new() };
        Ok(shown.join(", ") + &more)
    }
}

/// Formats at most 64 bytes for `repr`.
pub(super) fn shortened(py: Python<'_>, bytes: Option<&[u8]>) -> PyResult<String> {
    const MOST: usize = 64;
    let Some(bytes) = bytes else { return Ok("None".to_owned()) };
    let shown = PyBytes::new(py, &bytes[..bytes.len().min(MOST)]).repr()?;
    Ok(if bytes.len() > MOST { format!("{shown}... ({} bytes)", bytes.len()) } else { shown.to_string() })
}

/// Consecutive records of a slice.
#[derive(Clone)]
pub(super) struct RecordRange {
    pub(super) slice: Arc<Slice>,
    pub(super) range: Range<usize>,
}

impl RecordRange {
    pub(super) fn records(&self) -> &[record::Record] {
        &self.slice.records[self.range.clone()]
    }

    /// Returns the approximate number of bytes that the records take.
    pub(super) fn size(&self) -> usize {
        let records = self.records();
        let Some((first, last)) = records.first().zip(records.last()) else { return 0 };
        let headers = last.headers(&self.slice.data).map(|(name, value)| name.len() + value.map_or(0, <[u8]>::len));
        first.size_to(last) + headers.sum::<usize>()
    }
}

/// Copies bytes. [`PyBytes::new`] panics if there is no memory, which the sender of a large value can cause.
/// [`PyBytes::new_with`] does not, but first fills the memory with zeros.
fn bytes<'py>(py: Python<'py>, data: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
    if data.len() < LARGE {
        return Ok(PyBytes::new(py, data));
    }
    PyBytes::new_with(py, data.len(), |new| {
        new.copy_from_slice(data);
        Ok(())
    })
}

/// From this size on, a failed allocation of a value is likely enough to handle it.
const LARGE: usize = 1 << 20;
