//! Records as Python sees them: views into a fetch, whose bytes become Python objects when somebody looks.
//!
//! A [`Record`] is a reference to the slice of a batch that it came in and an index; it keeps the whole slice in memory,
//! so whoever stores records for long stores values instead.
//!
//! Deserializers come as a class of their own on top, so that records without them pay for nothing.

use super::arguments;
use super::arrow::{ArrowBatch, ArrowColumns};
use super::error::{argument, deserialization, exception};
use super::octets::{Headers, Octets};
use crate::client::{self, Slice};
use crate::compress::{Compression, DEFAULT_LIMIT};
use crate::record::{self, BatchBuilder, TimestampType};
use pyo3::exceptions::{PyException, PyIndexError, PyOverflowError, PyStopIteration};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyList, PySlice, PyString, PyTuple};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Where a record went.
#[pyclass(frozen, eq, hash, module = "klamm")]
#[derive(PartialEq, Eq, Hash)]
pub(super) struct RecordMetadata {
    topic: Arc<str>,
    /// The partition.
    #[pyo3(get)]
    partition: i32,
    /// Its place there; -1 with acks=0, where the broker does not say.
    #[pyo3(get)]
    offset: i64,
    /// Milliseconds since 1970: the record's own, or the broker's if the topic is configured so.
    #[pyo3(get)]
    timestamp_ms: i64,
}

/// The Python form of what a broker acknowledged.
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
// A loop drops each record before it takes the next, so that a short list of free ones is enough.
#[pyclass(frozen, subclass, generic, freelist = 8, module = "klamm")]
pub(super) struct Record {
    slice: Arc<Slice>,
    index: usize,
}

impl Record {
    #[inline]
    pub(super) fn new(slice: Arc<Slice>, index: usize) -> Self {
        Self { slice, index }
    }

    #[inline]
    fn view(&self) -> &record::Record {
        &self.slice.records[self.index]
    }

    /// Topic, partition and offset.
    pub(super) fn place(&self) -> (&Arc<str>, i32, i64) {
        (&self.slice.topic, self.slice.partition, self.view().offset)
    }

    fn raw_headers(&self) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
        self.view().headers(&self.slice.data)
    }
}

impl PartialEq for Record {
    fn eq(&self, other: &Self) -> bool {
        let (one, two) = (self.view(), other.view());
        let (data, others) = (&self.slice.data, &other.slice.data);
        self.slice.partition == other.slice.partition
            && (one.offset, one.timestamp) == (two.offset, two.timestamp)
            && self.timestamp_type() == other.timestamp_type()
            && self.slice.topic == other.slice.topic
            && one.key(data) == two.key(others)
            && one.value(data) == two.value(others)
            && self.raw_headers().eq(other.raw_headers())
    }
}

#[pymethods]
impl Record {
    /// A record of your own, for tests of what handles records.
    #[new]
    #[pyo3(signature = (topic, partition=0, offset=0, timestamp_ms=-1, key=None, value=None, headers=None, timestamp_type=0, delivery_count=0))]
    #[allow(clippy::too_many_arguments, reason = "a record has as many fields")]
    fn from_parts(
        py: Python<'_>,
        #[pyo3(from_py_with = arguments::topic)] topic: &str,
        partition: i32,
        offset: i64,
        timestamp_ms: i64,
        key: Option<&Bound<'_, PyAny>>,
        value: Option<&Bound<'_, PyAny>>,
        headers: Option<&Bound<'_, PyAny>>,
        timestamp_type: i32,
        delivery_count: i16,
    ) -> PyResult<Self> {
        let timestamp_type = match timestamp_type {
            1 => TimestampType::LogAppendTime,
            0 | -1 => TimestampType::CreateTime,
            other => return Err(exception(py, "ConfigError", &format!("there is no timestamp type {other}"), None)),
        };
        let (key, value) = (Octets::optional("key", key)?, Octets::optional("value", value)?);
        let headers = Headers::new(headers)?;
        let mut builder = BatchBuilder::with_capacity(256);
        let parts = headers.parts()?;
        builder.append(timestamp_ms, key.as_ref().map(Octets::as_bytes), value.as_ref().map(Octets::as_bytes), &parts);
        // Nothing is compressed, and what was just written can be read.
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

    /// The place in the partition.
    #[getter]
    fn offset(&self) -> i64 {
        self.view().offset
    }

    /// Milliseconds since 1970; -1 if the record has no timestamp.
    #[getter]
    fn timestamp_ms(&self) -> i64 {
        self.view().timestamp
    }

    /// Who set the timestamp: 0 the producer, 1 the broker when it appended the record, -1 nobody.
    #[getter]
    fn timestamp_type(&self) -> i32 {
        if self.view().timestamp == -1 { -1 } else { self.slice.timestamp_type as i32 }
    }

    /// How often a share group delivered the record, this time included; 0 outside of share groups.
    #[getter]
    fn delivery_count(&self) -> i16 {
        self.slice.delivery_count
    }

    /// The timestamp as an aware datetime in UTC; None if there is none.
    #[getter]
    fn timestamp<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        static FROM_MS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        match self.view().timestamp {
            -1 => Ok(None),
            ms => FROM_MS.import(py, "klamm.record", "datetime_of")?.call1((ms,)).map(Some),
        }
    }

    /// The key; None for null.
    #[getter]
    fn key<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        Some(PyBytes::new(py, self.view().key(&self.slice.data)?))
    }

    /// The value; None for null, which is a tombstone in a compacted topic.
    #[getter]
    fn value<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        Some(PyBytes::new(py, self.view().value(&self.slice.data)?))
    }

    /// The headers, in order; keys may repeat.
    #[getter]
    fn headers<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let pair = |(key, value): (&[u8], Option<&[u8]>)| {
            (String::from_utf8_lossy(key).into_owned(), value.map(|v| PyBytes::new(py, v)))
        };
        PyList::new(py, self.raw_headers().map(pair).collect::<Vec<_>>())
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let (py, r) = (slf.py(), slf.get());
        let place = (r.topic(), r.partition(), r.offset(), r.timestamp_ms());
        let parts = (r.key(py), r.value(py), r.headers(py)?);
        let kinds = (r.timestamp_type(), r.delivery_count());
        let args = (place.0, place.1, place.2, place.3, parts.0, parts.1, parts.2, kinds.0, kinds.1);
        Ok((slf.get_type().into_any(), args.into_pyobject(py)?))
    }

    /// Whether both are the same record of a partition, with the same in it.
    fn __eq__(&self, other: &Self) -> bool {
        self == other
    }

    /// Of the place alone: no two records share one.
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
    /// The first headers as Python writes them.
    fn shown_headers(&self, py: Python<'_>, count: usize) -> PyResult<String> {
        const MOST: usize = 4;
        let mut shown = Vec::new();
        for (key, value) in self.raw_headers().take(MOST) {
            let key = String::from_utf8_lossy(&key[..key.len().min(64)]);
            shown.push(format!("({}, {})", PyString::new(py, &key).repr()?, shortened(py, value)?));
        }
        let more = if count > MOST { format!(", ... ({count} headers)") } else { String::new() };
        Ok(shown.join(", ") + &more)
    }
}

/// Bytes as Python writes them, at most so many that a line stays readable.
pub(super) fn shortened(py: Python<'_>, bytes: Option<&[u8]>) -> PyResult<String> {
    const MOST: usize = 64;
    let Some(bytes) = bytes else { return Ok("None".to_owned()) };
    let shown = PyBytes::new(py, &bytes[..bytes.len().min(MOST)]).repr()?;
    Ok(if bytes.len() > MOST { format!("{shown}... ({} bytes)", bytes.len()) } else { shown.to_string() })
}

/// Some records of a slice.
#[derive(Clone)]
pub(super) struct Part {
    pub(super) slice: Arc<Slice>,
    pub(super) range: Range<usize>,
}

impl Part {
    pub(super) fn records(&self) -> &[record::Record] {
        &self.slice.records[self.range.clone()]
    }

    /// About as many bytes as its records lie in.
    pub(super) fn size(&self) -> usize {
        let records = self.records();
        let Some((first, last)) = records.first().zip(records.last()) else { return 0 };
        let headers = last.headers(&self.slice.data).map(|(name, value)| name.len() + value.map_or(0, <[u8]>::len));
        first.size_to(last) + headers.sum::<usize>()
    }
}

/// A sequence of records, made when they are asked for.
#[pyclass(frozen, generic, module = "klamm", sequence)]
pub(super) struct Records {
    parts: Vec<Part>,
    length: usize,
    deserializers: Option<Py<Deserializers>>,
}

impl Records {
    pub(super) fn new(parts: Vec<Part>) -> Self {
        let length = parts.iter().map(|p| p.range.len()).sum();
        Self { parts, length, deserializers: None }
    }

    /// Some of these, made in the same way.
    fn with_parts(&self, py: Python<'_>, parts: Vec<Part>) -> Self {
        Self { deserializers: self.deserializers.as_ref().map(|d| d.clone_ref(py)), ..Self::new(parts) }
    }

    pub(super) fn len(&self) -> usize {
        self.length
    }

    pub(super) fn parts(&self) -> &[Part] {
        &self.parts
    }

    fn get(&self, mut index: usize) -> Option<Record> {
        for part in &self.parts {
            if index < part.range.len() {
                return Some(Record::new(part.slice.clone(), part.range.start + index));
            }
            index -= part.range.len();
        }
        None
    }

    fn records(&self) -> impl Iterator<Item = Record> + '_ {
        self.parts.iter().flat_map(|part| part.range.clone().map(|index| Record::new(part.slice.clone(), index)))
    }

    fn cut(&self, start: usize, stop: usize) -> Vec<Part> {
        let mut parts = Vec::new();
        let mut before = 0;
        for part in &self.parts {
            let length = part.range.len();
            let (from, to) = (start.saturating_sub(before).min(length), stop.saturating_sub(before).min(length));
            if from < to {
                let range = part.range.start + from..part.range.start + to;
                parts.push(Part { slice: part.slice.clone(), range });
            }
            before += length;
        }
        parts
    }
}

#[pymethods]
impl Records {
    #[new]
    fn empty() -> Self {
        Self::new(Vec::new())
    }

    fn __len__(&self) -> usize {
        self.length
    }

    fn __getitem__<'py>(&self, py: Python<'py>, index: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let length = self.length as isize;
        if let Ok(slice) = index.cast::<PySlice>() {
            let at = slice.indices(length)?;
            if at.step == 1 {
                let parts = self.cut(at.start as usize, at.stop.max(at.start) as usize);
                return Ok(Bound::new(py, self.with_parts(py, parts))?.into_any());
            }
            let indices = (0..at.slicelength as isize).map(|i| (at.start + i * at.step) as usize);
            let parts = indices.flat_map(|i| self.cut(i, i + 1)).collect();
            return Ok(Bound::new(py, self.with_parts(py, parts))?.into_any());
        }
        let asked: isize = index.extract().map_err(|e: PyErr| match e.is_instance_of::<PyOverflowError>(py) {
            true => PyIndexError::new_err(format!("there is no record {index}, only {length} of them")),
            false => e,
        })?;
        let index = if asked < 0 { asked + length } else { asked };
        let record = usize::try_from(index).ok().and_then(|index| self.get(index));
        match (record, &self.deserializers) {
            (Some(record), None) => Ok(Bound::new(py, record)?.into_any()),
            (Some(record), Some(deserializers)) => Ok(deserialized(deserializers.bind(py), record)?.into_any()),
            (None, _) => Err(PyIndexError::new_err(format!("there is no record {asked}, only {length} of them"))),
        }
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let parts = self.parts.clone();
        let plain = Bound::new(py, RecordsIterator { parts, part: AtomicUsize::new(0), index: AtomicUsize::new(0) })?;
        match &self.deserializers {
            None => Ok(plain.into_any()),
            Some(deserializers) => py.import("builtins")?.call_method1("map", (deserializers, plain)),
        }
    }

    /// Whether both have the same records, in the same order.
    fn __eq__(&self, other: &Self) -> bool {
        self.length == other.length && self.records().eq(other.records())
    }

    /// The place of the first record that equals this one, as a list's; ValueError if none does.
    #[pyo3(signature = (value, start=None, stop=None))]
    fn index<'py>(
        slf: &Bound<'py, Self>,
        value: &Bound<'py, PyAny>,
        start: Option<isize>,
        stop: Option<isize>,
    ) -> PyResult<Bound<'py, PyAny>> {
        sequence(slf.py())?.call_method1("index", (slf, value, start.unwrap_or(0), stop))
    }

    /// How many records equal this one.
    fn count<'py>(slf: &Bound<'py, Self>, value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        sequence(slf.py())?.call_method1("count", (slf, value))
    }

    /// The same records with deserializers.
    #[pyo3(name = "_deserialized")]
    fn with(&self, deserializers: Py<Deserializers>) -> Self {
        Self { deserializers: Some(deserializers), ..Self::new(self.parts.clone()) }
    }

    /// The records of each partition, as a dict from TopicPartition to Records.
    fn by_partition<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let mut places: Vec<Vec<Part>> = Vec::new();
        let mut known: HashMap<(&str, i32), usize> = HashMap::new();
        for part in &self.parts {
            let place = *known.entry((&part.slice.topic, part.slice.partition)).or_insert_with(|| {
                places.push(Vec::new());
                places.len() - 1
            });
            places[place].push(part.clone());
        }
        let dict = PyDict::new(py);
        for parts in places {
            let Some(Part { slice, .. }) = parts.first() else { continue };
            let key = topic_partition(py, &slice.topic, slice.partition)?;
            dict.set_item(key, Bound::new(py, self.with_parts(py, parts))?)?;
        }
        Ok(dict)
    }

    /// The records as a pyarrow.RecordBatch: all columns, or those named.
    #[pyo3(signature = (columns=None))]
    fn to_arrow<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = arguments::columns)] columns: Option<Vec<String>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let batch = Bound::new(py, self.columns(py, &Bound::new(py, ArrowColumns::of(py, columns)?)?)?)?;
        py.import("klamm.consumer")?.call_method1("_record_batch", (batch,))
    }

    /// The records as columns.
    #[pyo3(name = "_columns", signature = (columns))]
    fn columns(&self, py: Python<'_>, columns: &Bound<'_, ArrowColumns>) -> PyResult<ArrowBatch> {
        ArrowBatch::build(py, &columns.get().0, self)
    }

    fn __repr__(&self) -> String {
        const MOST: usize = 4;
        // Neighbours of one partition as a run: how many, from where to where.
        let mut runs: Vec<(&Slice, usize, i64, i64)> = Vec::new();
        for part in &self.parts {
            let (Some(first), Some(last)) = (part.records().first(), part.records().last()) else { continue };
            let (slice, count) = (&*part.slice, part.range.len());
            match runs.last_mut() {
                Some((of, so_far, _, end)) if (of.partition, &of.topic) == (slice.partition, &slice.topic) => {
                    (*so_far, *end) = (*so_far + count, last.offset);
                }
                _ => runs.push((slice, count, first.offset, last.offset)),
            }
        }
        let named = |(slice, count, first, last): &(&Slice, usize, i64, i64)| {
            format!("{count} of {}-{} (offsets {first} to {last})", slice.topic, slice.partition)
        };
        let shown: Vec<_> = runs.iter().take(MOST).map(named).collect();
        let more = if runs.len() > MOST { format!(", ... ({} records)", self.length) } else { String::new() };
        if shown.is_empty() { "<Records: none>".into() } else { format!("<Records: {}{more}>", shown.join(", ")) }
    }

    fn __reduce__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        Err(argument(py, "a Records cannot be pickled: it shares memory with a fetch", Some("use list(records)")))
    }
}

/// Walks a Records.
#[pyclass(frozen, module = "klamm._klamm")]
pub(super) struct RecordsIterator {
    parts: Vec<Part>,
    part: AtomicUsize,
    index: AtomicUsize,
}

#[pymethods]
impl RecordsIterator {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__(&self) -> PyResult<Record> {
        // Two threads that share an iterator may see a record twice, as with any iterator; never one that is not there.
        loop {
            let at = self.part.load(Ordering::Relaxed);
            let Some(part) = self.parts.get(at) else { return Err(PyStopIteration::new_err(())) };
            let index = self.index.fetch_add(1, Ordering::Relaxed);
            if index < part.range.len() {
                return Ok(Record::new(part.slice.clone(), part.range.start + index));
            }
            self.part.store(at + 1, Ordering::Relaxed);
            self.index.store(0, Ordering::Relaxed);
        }
    }
}

/// What makes a program's own objects of keys and values: called with a record, it gives the record that does so.
#[pyclass(frozen, module = "klamm._klamm")]
pub(super) struct Deserializers {
    key: Option<Py<PyAny>>,
    value: Option<Py<PyAny>>,
}

#[pymethods]
impl Deserializers {
    #[new]
    #[pyo3(signature = (key, value))]
    fn new(key: Option<Py<PyAny>>, value: Option<Py<PyAny>>) -> Self {
        Self { key, value }
    }

    #[pyo3(signature = (record, /))]
    fn __call__<'py>(slf: &Bound<'py, Self>, record: &Bound<'py, Record>) -> PyResult<Bound<'py, DeserializedRecord>> {
        deserialized(slf, plain(record))
    }

    fn __getnewargs__(&self, py: Python<'_>) -> (Option<Py<PyAny>>, Option<Py<PyAny>>) {
        let same = |f: &Option<Py<PyAny>>| f.as_ref().map(|f| f.clone_ref(py));
        (same(&self.key), same(&self.value))
    }
}

/// What lists and tuples have in common in Python.
fn sequence(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    py.import("collections.abc")?.getattr("Sequence")
}

fn plain(record: &Bound<'_, Record>) -> Record {
    Record::new(record.get().slice.clone(), record.get().index)
}

fn deserialized<'py>(with: &Bound<'py, Deserializers>, record: Record) -> PyResult<Bound<'py, DeserializedRecord>> {
    let (key, value) = (PyOnceLock::new(), PyOnceLock::new());
    let on_top = DeserializedRecord { deserializers: with.clone().unbind(), key, value };
    Bound::new(with.py(), PyClassInitializer::from(record).add_subclass(on_top))
}

/// A record whose key and value are what deserializers make of the bytes, once, when somebody looks.
// Without a free list of its own it would inherit that of plain records, which are smaller.
#[pyclass(frozen, extends = Record, freelist = 8, module = "klamm._klamm")]
pub(super) struct DeserializedRecord {
    deserializers: Py<Deserializers>,
    key: PyOnceLock<Py<PyAny>>,
    value: PyOnceLock<Py<PyAny>>,
}

#[pymethods]
impl DeserializedRecord {
    /// What the deserializer makes of the key; None for null.
    #[getter]
    fn key<'py>(slf: &Bound<'py, Self>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let (py, this, record) = (slf.py(), slf.get(), slf.as_super());
        let bytes = record.get().key(py);
        made(record, "key", bytes, this.deserializers.get().key.as_ref(), &this.key)
    }

    /// What the deserializer makes of the value; None for null.
    #[getter]
    fn value<'py>(slf: &Bound<'py, Self>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let (py, this, record) = (slf.py(), slf.get(), slf.as_super());
        let bytes = record.get().value(py);
        made(record, "value", bytes, this.deserializers.get().value.as_ref(), &this.value)
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Py<Deserializers>, (Bound<'py, Record>,))> {
        let py = slf.py();
        Ok((slf.get().deserializers.clone_ref(py), (Bound::new(py, plain(slf.as_super()))?,)))
    }
}

/// What a deserializer makes of bytes, if there are any; what it raises says of which record.
fn made<'py>(
    record: &Bound<'py, Record>,
    field: &str,
    bytes: Option<Bound<'py, PyBytes>>,
    deserializer: Option<&Py<PyAny>>,
    known: &PyOnceLock<Py<PyAny>>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = record.py();
    let (Some(bytes), Some(deserializer)) = (&bytes, deserializer) else {
        return Ok(bytes.map(Bound::into_any));
    };
    let made = known.get_or_try_init(py, || {
        deserializer.call1(py, (bytes,)).map_err(|error| {
            if !error.is_instance_of::<PyException>(py) {
                return error;
            }
            Bound::new(py, plain(record)).map_or_else(|e| e, |plain| deserialization(field, plain.as_any(), error))
        })
    });
    made.map(|made| Some(made.bind(py).clone()))
}

/// A `klamm.TopicPartition`.
pub(super) fn topic_partition<'py>(py: Python<'py>, topic: &str, partition: i32) -> PyResult<Bound<'py, PyAny>> {
    static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    CLASS.import(py, "klamm.record", "TopicPartition")?.call1((topic, partition))
}
