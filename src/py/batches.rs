//! Decodes and encodes record batches of every format, for `klamm.protocol`.
//!
//! A batch stays compressed until Python reads one of its records. Of all batches that a call decodes, only the batch
//! that was read last stays decompressed. A call therefore needs memory for its input and one decompressed batch, but
//! not for Python objects of all records. Python objects of all records could need too much memory: a record takes 400
//! bytes, and 20 KB of compressed input can contain two million records.

use super::arguments::not_whole;
use super::bytes_like::{Headers, backed_bytes, header_name, optional_bytes};
use super::construct::construct;
use super::error::exception;
use crate::compress::{Codec, Compression, DEFAULT_LIMIT};
use crate::record::{self, Batch, BatchBuilder, Control, Header, MessageSetBuilder, RecordSet, View};
use crate::wire::{self, Step};
use bytes::Bytes;
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyList};
use std::sync::{Arc, Mutex, PoisonError};

/// The batches as dicts, without a truncated batch at the end. If a batch is damaged, the tuple also has the batch's
/// intact records and the error.
type Decoded<'py> = (Vec<Bound<'py, PyDict>>, Option<PackedRecords>, Option<PyErr>);

/// Decodes the record batches in `data`.
#[pyfunction]
pub(super) fn decode_records<'py>(
    py: Python<'py>,
    data: &Bound<'py, PyAny>,
    check_crcs: bool,
) -> PyResult<Decoded<'py>> {
    let mut decoded = Vec::new();
    let last = Arc::new(Mutex::new(None));
    for batch in record::batches(Bytes::from_owner(backed_bytes("data", data)?)) {
        let at = Step::Index(decoded.len());
        let read = batch.and_then(|batch| {
            if check_crcs {
                batch.check_crc()?;
            }
            let packed = PackedRecords { batch, number: decoded.len(), check_crcs, count: 0, last: last.clone() };
            packed.open(py).map(|open| (packed, open))
        });
        match read {
            Ok((packed, open)) => {
                let packed = PackedRecords { count: open.count, ..packed };
                match &open.damage {
                    None => decoded.push(batch_fields(py, packed, open.first_offset)?),
                    Some(e) => return Ok((decoded, Some(packed), Some(e.clone().within(at).into()))),
                }
            }
            Err(e) => return Ok((decoded, None, Some(e.within(at).into()))),
        }
    }
    Ok((decoded, None, None))
}

/// The records of a batch, which may be compressed.
#[pyclass(frozen, module = "klamm._klamm")]
pub(super) struct PackedRecords {
    batch: Batch,
    number: usize,
    check_crcs: bool,
    count: usize,
    /// The last decompressed batch, among all batches of the same call.
    last: Arc<Mutex<Option<(usize, Arc<Open>)>>>,
}

impl PackedRecords {
    fn open(&self, py: Python<'_>) -> Result<Arc<Open>, wire::Error> {
        let last = || self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let previous = last().take_if(|(number, _)| *number != self.number);
        drop(previous); // free it before the next batch needs memory
        if let Some((_, open)) = &*last() {
            return Ok(open.clone());
        }
        let open = py.detach(|| Open::new(&self.batch, self.check_crcs)).map(Arc::new)?;
        *last() = Some((self.number, open.clone()));
        Ok(open)
    }
}

#[pymethods]
impl PackedRecords {
    fn __len__(&self) -> usize {
        self.count
    }

    /// Decompresses the records.
    #[pyo3(name = "open")]
    fn opened(slf: &Bound<'_, Self>) -> PyResult<OpenRecords> {
        let py = slf.py();
        let open = slf.get().open(py)?;
        Ok(OpenRecords { open, header: slf.get().batch.header.clone() })
    }
}

/// The records of a batch, decompressed.
#[pyclass(frozen, module = "klamm._klamm")]
pub(super) struct OpenRecords {
    open: Arc<Open>,
    header: Header,
}

#[pymethods]
impl OpenRecords {
    /// Returns a record as a `klamm.protocol.BatchRecord`.
    fn record<'py>(&self, py: Python<'py>, index: usize) -> PyResult<Bound<'py, PyAny>> {
        let missing = || PyIndexError::new_err(format!("record index {index} out of range"));
        let mut records = self.open.marks.get(index / STRIDE).ok_or_else(missing)?.clone();
        for _ in 0..index % STRIDE {
            records.next();
        }
        match records.next_view() {
            Some(Ok(view)) => batch_record(py, &self.header, &view),
            Some(Err(_)) | None => Err(missing()),
        }
    }
}

/// A decompressed batch whose records were all checked.
struct Open {
    /// The state of the iterator before every [`STRIDE`]th record.
    marks: Vec<RecordSet>,
    count: usize,
    first_offset: Option<i64>,
    /// The error of the record after the last intact record.
    damage: Option<wire::Error>,
}

impl Open {
    fn new(batch: &Batch, check_crcs: bool) -> Result<Self, wire::Error> {
        let records = batch.records(DEFAULT_LIMIT)?;
        let mut records = if check_crcs { records } else { records.skip_crcs() };
        let mut open = Self { marks: Vec::new(), count: 0, first_offset: None, damage: None };
        loop {
            let mark = open.count.is_multiple_of(STRIDE).then(|| records.clone());
            match records.next() {
                None => return Ok(open),
                Some(Ok(record)) => {
                    open.marks.extend(mark);
                    open.first_offset.get_or_insert(record.offset);
                    open.count += 1;
                }
                Some(Err(e)) => {
                    let e = e.within(Step::Index(open.count)).within(Step::Field("records"));
                    return Ok(Self { damage: Some(e), ..open });
                }
            }
        }
    }
}

fn batch_fields(py: Python<'_>, records: PackedRecords, first_offset: Option<i64>) -> PyResult<Bound<'_, PyDict>> {
    let header = &records.batch.header;
    let old = header.magic < 2;
    let fields = PyDict::new(py);
    fields.set_item("magic", header.magic)?;
    fields.set_item("size", header.size())?;
    // The base offset of a compressed message is that of its first inner message.
    fields.set_item("base_offset", first_offset.filter(|_| old).unwrap_or(header.base_offset))?;
    fields.set_item("last_offset", header.last_offset())?;
    fields.set_item("next_offset", header.next_offset())?;
    fields.set_item("crc", header.crc)?;
    fields.set_item("attributes", header.attributes)?;
    fields.set_item("compression", header.compression().unwrap_or_default().name())?;
    fields.set_item("timestamp_type", header.timestamp_type().name())?;
    fields.set_item("base_timestamp", header.base_timestamp)?;
    fields.set_item("max_timestamp", header.max_timestamp)?;
    fields.set_item("partition_leader_epoch", header.partition_leader_epoch)?;
    fields.set_item("last_offset_delta", header.last_offset_delta)?;
    fields.set_item("producer_id", header.producer_id)?;
    fields.set_item("producer_epoch", header.producer_epoch)?;
    fields.set_item("base_sequence", header.base_sequence)?;
    fields.set_item("last_sequence", header.last_sequence())?;
    fields.set_item("count", records.count)?;
    fields.set_item("transactional", header.is_transactional())?;
    fields.set_item("control", header.is_control())?;
    fields.set_item("delete_horizon_ms", header.delete_horizon_ms())?;
    fields.set_item("records", records)?;
    Ok(fields)
}

/// Creates a `klamm.protocol.BatchRecord`. The function passes the arguments by position, because it runs once for each
/// record.
fn batch_record<'py>(py: Python<'py>, header: &Header, view: &View<'_>) -> PyResult<Bound<'py, PyAny>> {
    static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let pair = |(k, v): (&[u8], Option<&[u8]>)| Ok((header_name(py, k)?, v.map(|v| PyBytes::new(py, v))));
    let headers = view.headers().map(pair).collect::<PyResult<Vec<_>>>()?;
    let (key, value) = (view.key().map(|k| PyBytes::new(py, k)), view.value().map(|v| PyBytes::new(py, v)));
    let control = Control::parse(view.key(), view.value()).filter(|_| header.is_control());
    let control = control.map(|c| {
        construct!(py, "klamm.protocol.Control", {
            version: c.version,
            type_id: c.control_type.number(),
            type: c.control_type.name(),
            coordinator_epoch: c.coordinator_epoch,
        })
    });
    let (headers, control) = (PyList::new(py, headers)?, control.transpose()?);
    let sequence = header.sequence_at(view.offset());
    let timestamp_type = header.timestamp_type().name();
    let fields = (view.offset(), view.timestamp(), key, value, headers, timestamp_type, sequence, control);
    CLASS.import(py, "klamm.protocol", "BatchRecord")?.call1(fields)
}

/// A record to encode.
struct Plain<'py> {
    offset: i64,
    timestamp: i64,
    key: Option<Bound<'py, PyBytes>>,
    value: Option<Bound<'py, PyBytes>>,
    headers: Headers<'py>,
}

impl<'py> Plain<'py> {
    /// Converts the fields of the record at `index`.
    fn of(index: usize, [offset, timestamp, key, value, headers]: [Bound<'py, PyAny>; 5]) -> PyResult<Self> {
        let name = |field: &str| format!("records[{index}].{field}");
        let number = |field: &str, value: &Bound<'py, PyAny>| {
            value.extract().map_err(|_| not_whole(&name(field), value, "an int", "that fits 64 bits"))
        };
        let bytes = |field: &str, value: Bound<'py, PyAny>| match value.cast_into_exact::<PyBytes>() {
            Ok(bytes) => Ok(Some(bytes)),
            Err(e) => optional_bytes(&name(field), e.into_inner()),
        };
        Ok(Self {
            offset: number("offset", &offset)?,
            timestamp: number("timestamp", &timestamp)?,
            key: bytes("key", key)?,
            value: bytes("value", value)?,
            headers: Headers::of_record(index, &headers)?,
        })
    }

    fn key(&self) -> Option<&[u8]> {
        self.key.as_ref().map(|key| key.as_bytes())
    }

    fn value(&self) -> Option<&[u8]> {
        self.value.as_ref().map(|value| value.as_bytes())
    }
}

/// The fields of a batch without its records. `klamm.protocol` has checked them.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(super) struct Fields {
    magic: i8,
    base_offset: i64,
    compression: String,
    level: Option<i32>,
    log_append_time: Option<i64>,
    partition_leader_epoch: i32,
    producer_id: i64,
    producer_epoch: i16,
    base_sequence: i32,
    transactional: bool,
    control: bool,
    base_timestamp: Option<i64>,
    delete_horizon_ms: Option<i64>,
    last_offset_delta: Option<i32>,
    max_timestamp: Option<i64>,
}

/// Encodes a batch of magic 2, or messages of magic 0 or 1. Compressed messages are inside one outer message.
#[pyfunction]
pub(super) fn encode_batch<'py>(
    py: Python<'py>,
    records: Vec<[Bound<'py, PyAny>; 5]>,
    fields: Fields,
) -> PyResult<Bound<'py, PyBytes>> {
    let error = |message: String| config_error(py, &message);
    let records = records.into_iter().enumerate().map(|(index, fields)| Plain::of(index, fields));
    let records: Vec<Plain<'py>> = records.collect::<PyResult<_>>()?;
    let Some(compression) = Compression::from_name(&fields.compression) else {
        let names = Compression::ALL.map(Compression::name).join(", ");
        return Err(error(format!("there is no compression {:?}, only {names}", fields.compression)));
    };
    let codec = match fields.level {
        Some(level) => Codec::with_level(compression, level).map_err(error)?,
        None => compression.into(),
    };
    let data = match fields.magic {
        0 => messages(py, MessageSetBuilder::magic_0(), &records, codec),
        1 => messages(py, MessageSetBuilder::magic_1(fields.log_append_time), &records, codec),
        _ => batch(py, &records, &fields, codec),
    };
    Ok(PyBytes::new(py, &data?))
}

fn config_error(py: Python<'_>, message: &str) -> PyErr {
    exception(py, "ConfigError", message, None)
}

fn messages(py: Python<'_>, mut set: MessageSetBuilder, records: &[Plain<'_>], codec: Codec) -> PyResult<Vec<u8>> {
    if codec.compression() == Compression::Zstd {
        return Err(config_error(py, "zstd needs magic 2"));
    }
    for record in records {
        if !record.headers.is_empty() {
            return Err(config_error(py, "headers need magic 2"));
        }
        set.append(record.offset, record.timestamp, record.key(), record.value());
    }
    set.seal(codec).map_err(|e| config_error(py, &e.to_string()))
}

fn batch(py: Python<'_>, records: &[Plain<'_>], fields: &Fields, codec: Codec) -> PyResult<Vec<u8>> {
    let builder = BatchBuilder::with_capacity(1024);
    let mut builder = match fields.delete_horizon_ms.or(fields.base_timestamp) {
        Some(ms) => builder.with_base_timestamp(ms),
        None => builder,
    };
    for record in records {
        let (offset, base) = (record.offset, fields.base_offset);
        let delta = offset.checked_sub(base).and_then(|delta| u32::try_from(delta).ok()?.try_into().ok());
        let delta = delta.ok_or_else(|| {
            config_error(py, &format!("offset {offset} cannot be in a batch with base offset {base}"))
        })?;
        builder.append_at(delta, record.timestamp, record.key(), record.value(), &record.headers.parts());
    }
    let producer = record::Producer {
        id: fields.producer_id,
        epoch: fields.producer_epoch,
        base_sequence: fields.base_sequence,
        transactional: fields.transactional,
    };
    let mut data = builder.seal(codec, producer).map_err(|e| config_error(py, &e.to_string()))?.data.to_vec();
    let header = Header::parse(&data).map_err(|e| config_error(py, &e.to_string()))?;
    let mut header = header.ok_or_else(|| config_error(py, "more than 2 GiB in a batch"))?;
    header.base_offset = fields.base_offset;
    header.partition_leader_epoch = fields.partition_leader_epoch;
    header.last_offset_delta = fields.last_offset_delta.unwrap_or(header.last_offset_delta);
    header.max_timestamp = fields.max_timestamp.unwrap_or(header.max_timestamp);
    if let Some(ms) = fields.log_append_time {
        header.set_append_time(ms);
    }
    if fields.control {
        header.set_control();
    }
    if fields.delete_horizon_ms.is_some() {
        header.set_delete_horizon();
    }
    header.stamp(&mut data);
    Ok(data)
}

/// Computes the CRC-32C (Castagnoli) checksum of magic 2.
///
/// Args:
///     data (bytes-like): The bytes.
///
/// Returns:
///     The checksum, an unsigned 32-bit integer.
#[pyfunction]
pub(super) fn crc32c(data: &Bound<'_, PyAny>) -> PyResult<u32> {
    Ok(record::crc32c(&backed_bytes("data", data)?))
}

// A mark has 136 bytes and the smallest record 7, so marks of every 32nd record take at most 0.6 of the memory of the
// records. Finding a record takes 16 steps on average, 160 ns. Creating its Python object takes 1000 ns.
const STRIDE: usize = 32;
