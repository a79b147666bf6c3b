//! [`Records`]: the sequence of records that a poll returns. The sequence creates each record when the program accesses
//! it.

use super::arguments;
use super::arrow::{ArrowBatch, ArrowColumns};
use super::deserializers::{Deserializers, deserialized};
use super::error::argument;
use super::record::{Record, RecordRange};
use crate::client::{Slice, TopicPartition};
use pyo3::exceptions::{PyIndexError, PyOverflowError, PyStopIteration};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PySlice};
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The sequence of records that `Consumer.poll` returns.
///
/// The sequence behaves like an immutable list: it has a length, indexes, slices and iteration. Each record is created
/// when the program reads it.
///
/// Example:
///     records = consumer.poll(timeout=1.0)
///     for record in records:
///         print(record.offset, record.value)
#[pyclass(frozen, generic, module = "klamm", sequence)]
pub(super) struct Records {
    parts: Vec<RecordRange>,
    length: usize,
    deserializers: Option<Py<Deserializers>>,
}

impl Records {
    pub(super) fn new(parts: Vec<RecordRange>) -> Self {
        let length = parts.iter().map(|p| p.range.len()).sum();
        Self { parts, length, deserializers: None }
    }

    /// Returns some of these records with the same deserializers.
    fn with_parts(&self, py: Python<'_>, parts: Vec<RecordRange>) -> Self {
        Self { deserializers: self.deserializers.as_ref().map(|d| d.clone_ref(py)), ..Self::new(parts) }
    }

    pub(super) fn len(&self) -> usize {
        self.length
    }

    pub(super) fn ranges(&self) -> &[RecordRange] {
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

    fn cut(&self, start: usize, stop: usize) -> Vec<RecordRange> {
        let mut parts = Vec::new();
        let mut before = 0;
        for part in &self.parts {
            let length = part.range.len();
            let (from, to) = (start.saturating_sub(before).min(length), stop.saturating_sub(before).min(length));
            if from < to {
                let range = part.range.start + from..part.range.start + to;
                parts.push(RecordRange { slice: part.slice.clone(), range });
            }
            before += length;
        }
        parts
    }
}

/// Returns the ranges of a record or of the records of a poll.
pub(super) fn ranges_of(records: &Bound<'_, PyAny>) -> PyResult<Vec<RecordRange>> {
    match records.cast::<Records>() {
        Ok(records) => Ok(records.get().parts.clone()),
        Err(_) => Ok(vec![records.cast::<Record>()?.get().range()]),
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
        let position: isize = index.extract().map_err(|e: PyErr| match e.is_instance_of::<PyOverflowError>(py) {
            true => PyIndexError::new_err(out_of_range(index, length)),
            false => e,
        })?;
        let index = if position < 0 { position + length } else { position };
        let record = usize::try_from(index).ok().and_then(|index| self.get(index));
        match (record, &self.deserializers) {
            (Some(record), None) => Ok(Bound::new(py, record)?.into_any()),
            (Some(record), Some(deserializers)) => Ok(deserialized(deserializers.bind(py), record)?.into_any()),
            (None, _) => Err(PyIndexError::new_err(out_of_range(position, length))),
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

    /// Returns whether two sequences have equal records in the same order.
    fn __eq__(&self, other: &Self) -> bool {
        self.length == other.length && self.records().eq(other.records())
    }

    /// Returns the index of the first record that equals `value`, like `list.index`.
    ///
    /// Args:
    ///     value (Record): The record to look for.
    ///     start (int | None): First index of the search. Defaults to 0.
    ///     stop (int | None): Index before which the search stops. Defaults to the end.
    ///
    /// Returns:
    ///     The index.
    ///
    /// Raises:
    ///     ValueError: No record equals `value`.
    #[pyo3(signature = (value, start=None, stop=None))]
    fn index<'py>(
        slf: &Bound<'py, Self>,
        value: &Bound<'py, PyAny>,
        start: Option<isize>,
        stop: Option<isize>,
    ) -> PyResult<Bound<'py, PyAny>> {
        sequence(slf.py())?.call_method1("index", (slf, value, start.unwrap_or(0), stop))
    }

    /// Returns the number of records that equal `value`.
    fn count<'py>(slf: &Bound<'py, Self>, value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        sequence(slf.py())?.call_method1("count", (slf, value))
    }

    /// Returns the same records with deserializers.
    #[pyo3(name = "_deserialized")]
    fn with(&self, deserializers: Py<Deserializers>) -> Self {
        Self { deserializers: Some(deserializers), ..Self::new(self.parts.clone()) }
    }

    /// Groups the records by partition.
    ///
    /// Returns:
    ///     A dict from TopicPartition to Records, in the order in which the partitions first appear.
    fn by_partition<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let mut groups: Vec<Vec<RecordRange>> = Vec::new();
        let mut group_indexes: HashMap<(&str, i32), usize> = HashMap::new();
        for part in &self.parts {
            let group = *group_indexes.entry((&part.slice.topic, part.slice.partition)).or_insert_with(|| {
                groups.push(Vec::new());
                groups.len() - 1
            });
            groups[group].push(part.clone());
        }
        let dict = PyDict::new(py);
        for parts in groups {
            let Some(RecordRange { slice, .. }) = parts.first() else { continue };
            let key = TopicPartition::new(slice.topic.clone(), slice.partition);
            dict.set_item(&key, Bound::new(py, self.with_parts(py, parts))?)?;
        }
        Ok(dict)
    }

    /// Converts the records to Arrow.
    ///
    /// Args:
    ///     columns (list[str] | None): Names of the columns, in order. None (the default) selects all columns: topic,
    ///         partition, offset, timestamp, timestamp_type, key, value, headers.
    ///
    /// Returns:
    ///     A pyarrow.RecordBatch. Keys and values are bytes, even if the consumer has deserializers.
    ///
    /// Raises:
    ///     ConfigError: A column does not exist.
    #[pyo3(signature = (columns=None))]
    fn to_arrow<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = arguments::columns)] columns: Option<Vec<String>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let batch = Bound::new(py, self.columns(py, &Bound::new(py, ArrowColumns::of(py, columns)?)?)?)?;
        py.import("klamm.batches")?.call_method1("_record_batch", (batch,))
    }

    /// Converts the records to Arrow columns.
    #[pyo3(name = "_columns", signature = (columns))]
    fn columns(&self, py: Python<'_>, columns: &Bound<'_, ArrowColumns>) -> PyResult<ArrowBatch> {
        ArrowBatch::build(py, &columns.get().0, &self.parts)
    }

    fn __repr__(&self) -> String {
        const MOST: usize = 4;
        // Adjacent ranges of one partition become one run: slice, count, first offset, last offset.
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
        let summary = |(slice, count, first, last): &(&Slice, usize, i64, i64)| {
            format!("{count} of {}-{} (offsets {first} to {last})", slice.topic, slice.partition)
        };
        let shown: Vec<_> = runs.iter().take(MOST).map(summary).collect();
        let more = if runs.len() > MOST { format!(", ... ({} records)", self.length) } else { String::new() };
        if shown.is_empty() { "<Records: none>".into() } else { format!("<Records: {}{more}>", shown.join(", ")) }
    }

    fn __reduce__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        Err(argument(
            py,
            "Records cannot be pickled: they share memory with a fetch response",
            Some("pickle list(records)"),
        ))
    }
}

/// The iterator of a [`Records`].
#[pyclass(frozen, module = "klamm._klamm")]
pub(super) struct RecordsIterator {
    parts: Vec<RecordRange>,
    part: AtomicUsize,
    index: AtomicUsize,
}

#[pymethods]
impl RecordsIterator {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__(&self) -> PyResult<Record> {
        // Two threads that share the iterator may get the same record, but never one out of range.
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

fn out_of_range(index: impl std::fmt::Display, length: isize) -> String {
    format!("record index {index} out of range: there are {length} records")
}

/// Returns `collections.abc.Sequence`, which implements methods of lists.
fn sequence(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    py.import("collections.abc")?.getattr("Sequence")
}
