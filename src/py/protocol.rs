//! `klamm.protocol`: the codec by name, as the tools see it. Messages are dicts with the names of Kafka's schemas, a
//! uuid is its text form, bytes are `bytes`.

use super::arguments;
use super::error::{argument, decode as decode_error, exception};
use super::octets::from_buffer;
use crate::api::header::{RequestHeader, ResponseHeader, get_response_header};
use crate::api::{self, Door, Entry, Info};
use crate::client::murmur2 as java_murmur2;
use crate::wire::{Field, Reader, Reason, Shape, Type, Value, camel_case, take_value};
use bytes::Bytes;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBool, PyByteArray, PyBytes, PyDict, PyFloat, PyInt, PyList, PyMapping, PyString, PyTuple};
use std::collections::HashMap;
use std::sync::Arc;

/// The fields of a body.
#[pyfunction]
pub(super) fn decode<'py>(
    py: Python<'py>,
    #[pyo3(from_py_with = arguments::name)] name: &str,
    #[pyo3(from_py_with = arguments::kind)] kind: &str,
    #[pyo3(from_py_with = arguments::version)] version: i16,
    body: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let door = door(py, name, kind)?;
    let body = Bytes::from_owner(octets("body", body)?);
    let value = door.decode(version, body).map_err(|e| refused(py, &e))?;
    to_python(py, value, &mut Names::new())
}

/// The fields of the body that bytes begin with, how many tagged fields were dropped, and the bytes behind it.
#[pyfunction]
pub(super) fn decode_prefix<'py>(
    py: Python<'py>,
    #[pyo3(from_py_with = arguments::name)] name: &str,
    #[pyo3(from_py_with = arguments::kind)] kind: &str,
    #[pyo3(from_py_with = arguments::version)] version: i16,
    data: &Bound<'py, PyAny>,
) -> PyResult<(Bound<'py, PyAny>, usize, Bound<'py, PyBytes>)> {
    let door = door(py, name, kind)?;
    let data = Bytes::from_owner(octets("data", data)?);
    let found = door.decode_prefix(version, data).map_err(|e| refused(py, &e))?;
    let rest = PyBytes::new(py, &found.rest);
    Ok((to_python(py, found.value, &mut Names::new())?, found.unknown_tags, rest))
}

/// The bytes of a body; fields left out take their defaults.
#[pyfunction]
pub(super) fn encode<'py>(
    py: Python<'py>,
    #[pyo3(from_py_with = arguments::name)] name: &str,
    #[pyo3(from_py_with = arguments::kind)] kind: &str,
    #[pyo3(from_py_with = arguments::version)] version: i16,
    fields: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyBytes>> {
    let door = door(py, name, kind)?;
    let body = door.encode(version, from_python(fields, 0)?).map_err(|e| unwritable(py, &e))?;
    Ok(PyBytes::new(py, &body))
}

/// The fields of the header that a frame begins with, and the body behind it.
#[pyfunction]
#[pyo3(signature = (kind, frame, api=None, version=None))]
pub(super) fn decode_header<'py>(
    py: Python<'py>,
    #[pyo3(from_py_with = arguments::kind)] kind: &str,
    frame: &Bound<'py, PyAny>,
    #[pyo3(from_py_with = arguments::api)] api: Option<&str>,
    #[pyo3(from_py_with = arguments::version_or_none)] version: Option<i16>,
) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyBytes>)> {
    let mut r = Reader::new(Bytes::from_owner(octets("frame", frame)?), 0, false);
    let header = match (kind, api, version) {
        ("request", ..) => RequestHeader::get(&mut r, |key| api::by_key(key).map(|entry| entry.info))
            .map(|mut header| take_value(&mut Shape::Struct(&mut header), r.version))
            .map_err(|e| e.of("RequestHeader", "header", r.version)),
        ("response", Some(api), Some(version)) => {
            let info = door(py, api, kind)?.info();
            get_response_header(info, version, &mut r)
                .map(|correlation_id| take_value(&mut Shape::Struct(&mut ResponseHeader { correlation_id }), r.version))
        }
        ("response", ..) => {
            let hint = Some("it does not say itself what it answers");
            return Err(exception(py, "ConfigError", "the header of a response needs its api and version", hint));
        }
        _ => {
            let message = format!("a header is that of a request or a response, not of {kind:?}");
            return Err(exception(py, "ConfigError", &message, None));
        }
    };
    let header = to_python(py, header.map_err(|e| refused(py, &e))?, &mut Names::new())?;
    Ok((header, PyBytes::new(py, &r.rest())))
}

fn door(py: Python<'_>, name: &str, kind: &str) -> PyResult<&'static Door> {
    api::by_kind(name, kind).ok_or_else(|| unknown_message(py, name, kind))
}

#[cold]
fn unknown_message(py: Python<'_>, name: &str, kind: &str) -> PyErr {
    let (what, names, list): (_, Vec<_>, _) = match kind {
        "request" | "response" => ("API", api::APIS.iter().map(|api| api.info.name).collect(), "apis"),
        "header" | "data" => {
            let alike = api::STRUCTURES.iter().filter(|door| door.kind() == kind);
            ("structure", alike.map(|door| door.info().name).collect(), "structures")
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

/// A version that does not exist is the caller's fault, everything else the data's.
fn refused(py: Python<'_>, error: &crate::wire::Error) -> PyErr {
    match error.reason() {
        Reason::Version { .. } => exception(py, "ConfigError", &error.to_string(), None),
        _ => decode_error(py, error),
    }
}

/// What cannot be written is the caller's fault, whatever it is.
fn unwritable(py: Python<'_>, error: &crate::wire::Error) -> PyErr {
    match error.reason() {
        Reason::Type { .. } => argument(py, &error.to_string(), None),
        _ => exception(py, "ConfigError", &error.to_string(), None),
    }
}

/// The keys of dicts, of which there is one object for each name.
type Names<'py> = HashMap<Arc<str>, Bound<'py, PyString>>;

fn to_python<'py>(py: Python<'py>, value: Value, names: &mut Names<'py>) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::Null => py.None().into_bound(py),
        Value::Bool(v) => PyBool::new(py, v).to_owned().into_any(),
        Value::Int(v) => PyInt::new(py, v).into_any(),
        Value::Float(v) => PyFloat::new(py, v).into_any(),
        Value::String(v) => PyString::new(py, &v).into_any(),
        Value::Bytes(v) => PyBytes::new(py, &v).into_any(),
        Value::Foreign(what) => PyString::new(py, &what).into_any(),
        Value::Uuid(v) => PyString::new(py, &v.to_string()).into_any(),
        Value::List(items) => {
            let list = PyList::empty(py);
            for item in items {
                list.append(to_python(py, item, names)?)?;
            }
            list.into_any()
        }
        Value::Struct(fields) => {
            let dict = PyDict::new(py);
            for (name, value) in fields {
                let key = names.entry(name).or_insert_with_key(|name| PyString::new(py, name)).clone();
                dict.set_item(key, to_python(py, value, names)?)?;
            }
            dict.into_any()
        }
    })
}

/// What no field holds is for the message to refuse, which knows where it stands and what belongs there.
fn from_python(value: &Bound<'_, PyAny>, depth: usize) -> PyResult<Value> {
    if depth > DEEPEST {
        return Ok(Value::Foreign("what is nested deeper than any message of Kafka".to_owned()));
    }
    if value.is_none() {
        return Ok(Value::Null);
    }
    if let Ok(v) = value.cast::<PyBool>() {
        return Ok(Value::Bool(v.is_true()));
    }
    if let Ok(v) = value.cast::<PyInt>() {
        let beyond = |_| Value::Foreign("an integer of more than 64 bits".to_owned());
        return Ok(v.extract::<i64>().map_or_else(beyond, Value::Int));
    }
    if let Ok(v) = value.cast::<PyFloat>() {
        return Ok(Value::Float(v.value()));
    }
    if let Ok(v) = value.cast::<PyString>() {
        let half = |_| Value::Foreign("a string with half of a surrogate pair, which UTF-8 has not".to_owned());
        return Ok(v.to_str().map_or_else(half, |text| Value::String(text.to_owned())));
    }
    if let Ok(v) = value.cast::<PyDict>() {
        let field = |(name, value): (Bound<'_, PyAny>, Bound<'_, PyAny>)| {
            let known = name.extract::<String>().or_else(|_| name.repr().map(|shown| shown.to_string()));
            Ok((known?.into(), from_python(&value, depth + 1)?))
        };
        return v.iter().map(field).collect::<PyResult<_>>().map(Value::Struct);
    }
    if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        let items = value.try_iter()?.map(|item| from_python(&item?, depth + 1));
        return items.collect::<PyResult<_>>().map(Value::List);
    }
    if let Ok(v) = value.cast::<PyMapping>() {
        let dict = PyDict::new(value.py());
        dict.update(v)?;
        return from_python(&dict, depth);
    }
    Ok(match octets("a field", value) {
        Ok(bytes) => Value::Bytes(Bytes::from_owner(bytes)),
        Err(_) => Value::Foreign(format!("an object of type {}", value.get_type().name()?)),
    })
}

/// The bytes of a bytes-like object; `bytes` are not copied. `what` names it in messages.
pub(super) fn octets(what: &str, value: &Bound<'_, PyAny>) -> PyResult<PyBackedBytes> {
    if value.is_instance_of::<PyBytes>() || value.is_instance_of::<PyByteArray>() {
        return Ok(value.extract()?);
    }
    Ok(from_buffer(what, value, "bytes-like")?.extract()?)
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
    let row = |door: &'static Door| {
        let info = door.info();
        (info.name, door.kind(), info.min, info.max, flexible(info))
    };
    api::STRUCTURES.iter().map(row).collect()
}

fn flexible(info: &Info) -> Option<i16> {
    (info.flexible != i16::MAX).then_some(info.flexible)
}

/// What a message is made of, in the form of Kafka's own schema files.
#[pyfunction]
pub(super) fn schema<'py>(
    py: Python<'py>,
    #[pyo3(from_py_with = arguments::name)] name: &str,
    #[pyo3(from_py_with = arguments::kind)] kind: &str,
) -> PyResult<Bound<'py, PyDict>> {
    let door = door(py, name, kind)?;
    let info = door.info();
    let found = PyDict::new(py);
    if info.key >= 0 {
        found.set_item("apiKey", info.key)?;
    }
    found.set_item("type", door.kind())?;
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
            found.set_item("default", to_python(py, default.clone(), &mut Names::new())?)?;
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

/// The hash that chooses a key's partition, as a signed 32-bit integer.
#[pyfunction]
pub(super) fn murmur2(data: &Bound<'_, PyAny>) -> PyResult<i32> {
    Ok(java_murmur2(&octets("data", data)?))
}

// The deepest of Kafka's own messages has five levels of structs, and a list around each.
const DEEPEST: usize = 32;
