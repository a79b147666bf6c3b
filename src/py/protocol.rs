//! `klamm.protocol`: the codec by name, as the tools see it. Messages are dicts with the names of Kafka's schemas, a
//! uuid is its text form, bytes are `bytes`; record batches are dicts that `klamm.protocol` makes dataclasses of.

use super::error::{argument, decode as decode_error, exception};
use crate::api::{self, Door, Entry, Info};
use crate::client::murmur2 as java_murmur2;
use crate::compress::{Compression, DEFAULT_LIMIT};
use crate::record::{self, BatchBuilder, TimestampType};
use crate::wire::{Field, Reason, Type, Value, camel_case};
use bytes::Bytes;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{
    PyBool, PyByteArray, PyBytes, PyDict, PyFloat, PyInt, PyList, PyMapping, PyMemoryView, PyString, PyTuple,
};

/// The fields of a body.
#[pyfunction]
pub(super) fn decode<'py>(
    py: Python<'py>,
    name: &str,
    kind: &str,
    version: i16,
    body: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let door = door(py, name, kind)?;
    let body = Bytes::from_owner(octets(body)?);
    let value = door.decode(version, body).map_err(|e| refused(py, &e))?;
    to_python(py, &value)
}

/// The bytes of a body; fields left out take their defaults.
#[pyfunction]
pub(super) fn encode<'py>(
    py: Python<'py>,
    name: &str,
    kind: &str,
    version: i16,
    fields: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyBytes>> {
    let door = door(py, name, kind)?;
    let body = door.encode(version, from_python(fields, 0)?).map_err(|e| refused(py, &e))?;
    Ok(PyBytes::new(py, &body))
}

fn door(py: Python<'_>, name: &str, kind: &str) -> PyResult<&'static Door> {
    api::by_kind(name, kind).ok_or_else(|| unknown_message(py, name, kind))
}

#[cold]
fn unknown_message(py: Python<'_>, name: &str, kind: &str) -> PyErr {
    let (what, names, list): (_, Vec<_>, _) = match kind {
        "request" | "response" => ("API", api::APIS.iter().map(|api| api.info.name).collect(), "apis"),
        "header" | "data" => {
            let alike = api::STRUCTURES.iter().filter(|door| door.kind == kind);
            ("structure", alike.map(|door| door.info.name).collect(), "structures")
        }
        _ => {
            let message = format!("a message is of the kind request, response, header or data, not {kind:?}");
            return exception(py, "ConfigError", &message, None);
        }
    };
    let distance = |known: &&str| strsim::damerau_levenshtein(&known.to_lowercase(), &name.to_lowercase());
    let nearest = names.into_iter().min_by_key(distance);
    let hint = nearest.map(|n| format!("did you mean {n:?}? klamm.protocol.{list}() lists all of them"));
    exception(py, "ConfigError", &format!("there is no {what} {name:?}"), hint.as_deref())
}

/// A version that does not exist and fields that do not fit are the caller's fault, everything else the data's.
fn refused(py: Python<'_>, error: &crate::wire::Error) -> PyErr {
    match error.reason() {
        Reason::Version { .. } | Reason::UnknownField { .. } => exception(py, "ConfigError", &error.to_string(), None),
        Reason::Type { .. } => argument(py, &error.to_string(), None),
        _ => decode_error(py, error),
    }
}

fn to_python<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::Null => py.None().into_bound(py),
        Value::Bool(v) => PyBool::new(py, *v).to_owned().into_any(),
        Value::Int(v) => PyInt::new(py, *v).into_any(),
        Value::Float(v) => PyFloat::new(py, *v).into_any(),
        Value::String(v) => PyString::new(py, v).into_any(),
        Value::Bytes(v) => PyBytes::new(py, v).into_any(),
        Value::Uuid(v) => PyString::new(py, &v.to_string()).into_any(),
        Value::List(items) => {
            let items = items.iter().map(|item| to_python(py, item)).collect::<PyResult<Vec<_>>>()?;
            PyList::new(py, items)?.into_any()
        }
        Value::Struct(fields) => {
            let dict = PyDict::new(py);
            for (name, value) in fields {
                dict.set_item(name, to_python(py, value)?)?;
            }
            dict.into_any()
        }
    })
}

fn from_python(value: &Bound<'_, PyAny>, depth: usize) -> PyResult<Value> {
    let py = value.py();
    if depth > DEEPEST {
        return Err(argument(py, "fields are nested deeper than any message of Kafka", None));
    }
    if value.is_none() {
        return Ok(Value::Null);
    }
    if let Ok(v) = value.cast::<PyBool>() {
        return Ok(Value::Bool(v.is_true()));
    }
    if let Ok(v) = value.cast::<PyInt>() {
        let number = v.extract::<i64>().map_err(|_| argument(py, &format!("{v} does not fit 64 bits"), None));
        return number.map(Value::Int);
    }
    if let Ok(v) = value.cast::<PyFloat>() {
        return Ok(Value::Float(v.value()));
    }
    if let Ok(v) = value.cast::<PyString>() {
        return Ok(Value::String(v.to_str()?.to_owned()));
    }
    if let Ok(v) = value.cast::<PyDict>() {
        let field = |(name, value): (Bound<'_, PyAny>, Bound<'_, PyAny>)| {
            Ok((name.extract::<String>()?, from_python(&value, depth + 1)?))
        };
        return v.iter().map(field).collect::<PyResult<_>>().map(Value::Struct);
    }
    if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        let items = value.try_iter()?.map(|item| from_python(&item?, depth + 1));
        return items.collect::<PyResult<_>>().map(Value::List);
    }
    if let Ok(v) = value.cast::<PyMapping>() {
        let dict = PyDict::new(py);
        dict.update(v)?;
        return from_python(&dict, depth);
    }
    Ok(Value::Bytes(Bytes::from_owner(octets(value)?)))
}

/// The bytes of a bytes-like object; `bytes` are not copied.
fn octets(value: &Bound<'_, PyAny>) -> PyResult<PyBackedBytes> {
    let py = value.py();
    if value.is_instance_of::<PyBytes>() || value.is_instance_of::<PyByteArray>() {
        return Ok(value.extract()?);
    }
    match PyMemoryView::from(value) {
        Ok(view) => Ok(view.call_method0("tobytes")?.extract()?),
        Err(_) => Err(argument(py, &format!("{} is nothing that a field holds", value.get_type().name()?), None)),
    }
}

/// `(name, key, min, max, max_stable, flexible or None, internal)` of every API.
#[pyfunction]
pub(super) fn apis() -> Vec<(&'static str, i16, i16, i16, i16, Option<i16>, bool)> {
    let row = |Entry { info, .. }: &'static Entry| {
        (info.name, info.key, info.min, info.max, info.max_stable, flexible(info), info.internal)
    };
    api::APIS.iter().map(row).collect()
}

/// `(name, kind, min, max, flexible or None)` of every header and structure.
#[pyfunction]
pub(super) fn structures() -> Vec<(&'static str, &'static str, i16, i16, Option<i16>)> {
    let row = |Door { info, kind, .. }: &'static Door| (info.name, *kind, info.min, info.max, flexible(info));
    api::STRUCTURES.iter().map(row).collect()
}

fn flexible(info: &Info) -> Option<i16> {
    (info.flexible != i16::MAX).then_some(info.flexible)
}

/// What a message is made of, in the form of Kafka's own schema files.
#[pyfunction]
pub(super) fn schema<'py>(py: Python<'py>, name: &str, kind: &str) -> PyResult<Bound<'py, PyDict>> {
    let door = door(py, name, kind)?;
    let info = door.info;
    let found = PyDict::new(py);
    if info.key >= 0 {
        found.set_item("apiKey", info.key)?;
    }
    found.set_item("type", door.kind)?;
    found.set_item("name", info.name)?;
    found.set_item("validVersions", versions(info.min, info.max))?;
    let flexible = flexible(info).map_or_else(|| "none".to_owned(), |first| versions(first, i16::MAX));
    found.set_item("flexibleVersions", flexible)?;
    found.set_item("latestVersionUnstable", info.max_stable < info.max)?;
    if let Type::Struct { fields, .. } = door.describe() {
        found.set_item("fields", fields_schema(py, &fields)?)?;
    }
    Ok(found)
}

fn fields_schema<'py>(py: Python<'py>, fields: &[Field]) -> PyResult<Vec<Bound<'py, PyDict>>> {
    let each = fields.iter().map(|Field { name, when, holds, default }| {
        let found = PyDict::new(py);
        found.set_item("name", camel_case(name))?;
        let (spelled, fields) = type_schema(holds);
        found.set_item("type", spelled)?;
        found.set_item("versions", versions(when.first, when.last))?;
        if let Type::Nullable(_) = holds {
            let (from, until) = (when.null_from.max(when.first), when.null_until.min(when.last));
            found.set_item("nullableVersions", versions(from, until))?;
        }
        if let Some(tag) = when.tag {
            found.set_item("tag", tag)?;
            found.set_item("taggedVersions", versions(when.first, when.last))?;
        }
        if let Some(default) = default {
            found.set_item("default", to_python(py, default)?)?;
        }
        if let Some(fields) = fields {
            found.set_item("fields", fields_schema(py, fields)?)?;
        }
        Ok(found)
    });
    each.collect()
}

/// A type as Kafka's schemas spell it, and the fields of the struct that it is or holds.
fn type_schema(of: &Type) -> (String, Option<&[Field]>) {
    let name = match of {
        Type::Bool => "bool",
        Type::Int8 => "int8",
        Type::Int16 => "int16",
        Type::Uint16 => "uint16",
        Type::Int32 => "int32",
        Type::Uint32 => "uint32",
        Type::Int64 => "int64",
        Type::Float64 => "float64",
        Type::String => "string",
        Type::Bytes => "bytes",
        Type::Uuid => "uuid",
        Type::Nullable(of) => return type_schema(of),
        Type::Array(of) => {
            let (name, fields) = type_schema(of);
            return (format!("[]{name}"), fields);
        }
        Type::Struct { name, fields } => return ((*name).to_owned(), Some(fields)),
    };
    (name.to_owned(), None)
}

/// `3`, `3-5` or `3+`.
fn versions(first: i16, last: i16) -> String {
    match last {
        i16::MAX => format!("{first}+"),
        last if last == first => first.to_string(),
        last => format!("{first}-{last}"),
    }
}

/// The record batches in `data` as dicts, and how many bytes of a batch that is cut off follow them.
#[pyfunction]
pub(super) fn decode_records<'py>(
    py: Python<'py>,
    data: &Bound<'py, PyAny>,
    check_crcs: bool,
) -> PyResult<(Vec<Bound<'py, PyDict>>, usize)> {
    let mut batches = record::batches(Bytes::from_owner(octets(data)?));
    let mut found = Vec::new();
    for batch in &mut batches {
        let batch = batch.map_err(|e| decode_error(py, &e))?;
        if check_crcs {
            batch.check_crc().map_err(|e| decode_error(py, &e))?;
        }
        found.push(batch_fields(py, &batch)?);
    }
    Ok((found, batches.left()))
}

fn batch_fields<'py>(py: Python<'py>, batch: &record::Batch) -> PyResult<Bound<'py, PyDict>> {
    let header = &batch.header;
    let fields = PyDict::new(py);
    fields.set_item("magic", header.magic)?;
    fields.set_item("size", header.size())?;
    fields.set_item("base_offset", header.base_offset)?;
    fields.set_item("last_offset", header.last_offset())?;
    fields.set_item("crc", header.crc)?;
    fields.set_item("attributes", header.attributes)?;
    fields.set_item("compression", header.compression().map_or("unknown", Compression::name))?;
    fields.set_item("timestamp_type", header.timestamp_type() as i32)?;
    fields.set_item("base_timestamp", header.base_timestamp)?;
    fields.set_item("max_timestamp", header.max_timestamp)?;
    fields.set_item("partition_leader_epoch", header.partition_leader_epoch)?;
    fields.set_item("producer_id", header.producer_id)?;
    fields.set_item("producer_epoch", header.producer_epoch)?;
    fields.set_item("base_sequence", header.base_sequence)?;
    fields.set_item("transactional", header.is_transactional())?;
    fields.set_item("control", header.is_control())?;
    fields.set_item("delete_horizon_ms", header.delete_horizon_ms())?;
    let mut set = batch.records(DEFAULT_LIMIT).map_err(|e| decode_error(py, &e))?;
    let mut records = Vec::with_capacity(set.left().min(batch.data.len()));
    while let Some(view) = set.next_view() {
        let view = view.map_err(|e| decode_error(py, &e))?;
        let headers = view.headers().map(|(k, v)| (String::from_utf8_lossy(k), v.map(|v| PyBytes::new(py, v))));
        let (key, value) = (view.key().map(|k| PyBytes::new(py, k)), view.value().map(|v| PyBytes::new(py, v)));
        records.push((view.offset(), view.timestamp(), key, value, PyList::new(py, headers)?));
    }
    fields.set_item("records", records)?;
    Ok(fields)
}

/// A record to encode: timestamp, key, value, headers.
type Plain = (i64, Option<PyBackedBytes>, Option<PyBackedBytes>, Vec<(String, Option<PyBackedBytes>)>);

/// One batch of magic 2 with these records, offsets rising by one from `base_offset`.
#[pyfunction]
pub(super) fn encode_batch<'py>(
    py: Python<'py>,
    records: Vec<Plain>,
    base_offset: i64,
    compression: &str,
    partition_leader_epoch: i32,
    producer_id: i64,
    producer_epoch: i16,
    base_sequence: i32,
    transactional: bool,
) -> PyResult<Bound<'py, PyBytes>> {
    let Some(compression) = Compression::from_name(compression) else {
        let names = Compression::ALL.map(Compression::name).join(", ");
        let message = format!("there is no compression {compression:?}, only {names}");
        return Err(exception(py, "ConfigError", &message, None));
    };
    let mut builder = BatchBuilder::with_capacity(1024);
    for (timestamp, key, value, headers) in &records {
        let headers: Vec<_> = headers.iter().map(|(k, v)| (k.as_str(), v.as_deref())).collect();
        builder.append(*timestamp, key.as_deref(), value.as_deref(), &headers);
    }
    let producer = record::Producer { id: producer_id, epoch: producer_epoch, base_sequence, transactional };
    let sealed = builder.seal(compression, producer);
    let sealed = sealed.map_err(|e| exception(py, "ConfigError", &e.to_string(), None))?;
    // Both lie before what the checksum covers.
    let mut batch = sealed.data.to_vec();
    batch[..8].copy_from_slice(&base_offset.to_be_bytes());
    batch[12..16].copy_from_slice(&partition_leader_epoch.to_be_bytes());
    Ok(PyBytes::new(py, &batch))
}

/// The hash that chooses a key's partition, as a signed 32-bit integer.
#[pyfunction]
pub(super) fn murmur2(data: &Bound<'_, PyAny>) -> PyResult<i32> {
    Ok(java_murmur2(&octets(data)?))
}

/// The checksum of record batches (Castagnoli).
#[pyfunction]
pub(super) fn crc32c(data: &Bound<'_, PyAny>) -> PyResult<u32> {
    Ok(record::crc32c(&octets(data)?))
}

// Timestamp types go to Python as Kafka's numbers.
const _: () = assert!(TimestampType::CreateTime as i32 == 0 && TimestampType::LogAppendTime as i32 == 1);

// The deepest of Kafka's own messages has five levels of structs, and a list around each.
const DEEPEST: usize = 32;
