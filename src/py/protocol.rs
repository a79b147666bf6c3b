//! Encodes and decodes a message by its name, for `klamm.protocol` and the command-line tools.
//!
//! Messages are dicts with the field names of Kafka's schemas. A UUID is a string and binary data is `bytes`. The codec
//! is in `src/api`, and this file converts values and errors.

use super::arguments;
use super::bytes_like::backed_bytes;
use super::construct::{construct, list};
use super::error::{argument, exception};
use crate::api::header::{RequestHeader, ResponseHeader, get_response_header};
use crate::api::{self, Entry, Info, MessageHandle};
use crate::client::murmur2 as java_murmur2;
use crate::wire::{Field, Reader, Reason, Shape, Type, Value, camel_case, take_value};
use bytes::Bytes;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyMapping, PyString, PyTuple};
use std::collections::HashMap;
use std::sync::Arc;

/// Decodes the body of a message.
///
/// Decoding takes at most 128 KiB plus 256 times the memory of the body. Half of this memory is for reading, and half
/// is for the dicts.
///
/// Args:
///     name (str): The name of the API or structure, for example "Fetch".
///     kind (str): "request", "response", "header" or "data".
///     version (int): The version of the message.
///     body (bytes-like): The bytes. All of them must belong to the message.
///
/// Returns:
///     A dict of the fields, with Kafka's names.
///
/// Raises:
///     DecodeError: The bytes are damaged, or bytes are left over. `path` and `offset` of the error say where.
///     ConfigError: The message or the version does not exist.
///
/// Example:
///     fields = klamm.protocol.decode("Fetch", "request", 17, body)
#[pyfunction]
pub(super) fn decode<'py>(
    py: Python<'py>,
    #[pyo3(from_py_with = arguments::name)] name: &str,
    #[pyo3(from_py_with = arguments::kind)] kind: &str,
    #[pyo3(from_py_with = arguments::version)] version: i16,
    body: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let handle = handle(py, name, kind)?;
    let body = Bytes::from_owner(backed_bytes("body", body)?);
    let value = handle.decode(version, body).map_err(|e| codec_error(py, e))?;
    to_python(py, value, &mut Names::new())
}

/// Decodes the body at the start of some bytes.
///
/// Returns the fields, the number of unknown tagged fields, and the bytes after the body.
#[pyfunction]
pub(super) fn decode_prefix<'py>(
    py: Python<'py>,
    #[pyo3(from_py_with = arguments::name)] name: &str,
    #[pyo3(from_py_with = arguments::kind)] kind: &str,
    #[pyo3(from_py_with = arguments::version)] version: i16,
    data: &Bound<'py, PyAny>,
) -> PyResult<(Bound<'py, PyAny>, usize, Bound<'py, PyBytes>)> {
    let handle = handle(py, name, kind)?;
    let data = Bytes::from_owner(backed_bytes("data", data)?);
    let decoded = handle.decode_prefix(version, data).map_err(|e| codec_error(py, e))?;
    let rest = PyBytes::new(py, &decoded.rest);
    Ok((to_python(py, decoded.value, &mut Names::new())?, decoded.unknown_tags, rest))
}

/// Encodes the body of a message.
///
/// Args:
///     name (str): The name of the API or structure, for example "Fetch".
///     kind (str): "request", "response", "header" or "data".
///     version (int): The version of the message.
///     fields (dict): The fields, with Kafka's names. Missing fields take their defaults.
///
/// Returns:
///     The bytes of the body.
///
/// Raises:
///     ArgumentError: A field has the wrong type.
///     ConfigError: The message, the version or a field does not exist, or a value does not fit its field.
///
/// Example:
///     body = klamm.protocol.encode("ApiVersions", "request", 3, {"clientSoftwareName": "test"})
#[pyfunction]
pub(super) fn encode<'py>(
    py: Python<'py>,
    #[pyo3(from_py_with = arguments::name)] name: &str,
    #[pyo3(from_py_with = arguments::kind)] kind: &str,
    #[pyo3(from_py_with = arguments::version)] version: i16,
    fields: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyBytes>> {
    let handle = handle(py, name, kind)?;
    let body = handle.encode(version, from_python(fields, 0)?).map_err(|e| unwritable(py, &e))?;
    Ok(PyBytes::new(py, &body))
}

/// Decodes the header at the start of a frame.
///
/// A request contains its API and version. A response does not, so the caller must pass the API and the version. The
/// header versions follow Kafka's rules, including the exceptions for ApiVersions and ControlledShutdown. A version
/// that is too new for klamm has the header of the newest version that klamm knows.
///
/// Args:
///     kind (str): "request" or "response".
///     frame (bytes-like): The frame without its length prefix.
///     api (str | None): The name of the API. Required for a response.
///     version (int | None): The version of the API. Required for a response.
///
/// Returns:
///     The fields of the header as a dict, and the body as bytes.
///
/// Raises:
///     DecodeError: The header is damaged.
///     ConfigError: The kind, the API or the version is missing or does not exist.
#[pyfunction]
#[pyo3(signature = (kind, frame, api=None, version=None))]
pub(super) fn decode_header<'py>(
    py: Python<'py>,
    #[pyo3(from_py_with = arguments::kind)] kind: &str,
    frame: &Bound<'py, PyAny>,
    #[pyo3(from_py_with = arguments::api)] api: Option<&str>,
    #[pyo3(from_py_with = arguments::version_or_none)] version: Option<i16>,
) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyBytes>)> {
    let mut r = Reader::new(Bytes::from_owner(backed_bytes("frame", frame)?), 0, false);
    let header = match (kind, api, version) {
        ("request", ..) => RequestHeader::get(&mut r, |key| api::by_key(key).map(|entry| entry.info))
            .map(|mut header| take_value(&mut Shape::Struct(&mut header), r.version))
            .map_err(|e| e.of("RequestHeader", "header", r.version)),
        ("response", Some(api), Some(version)) => {
            let info = handle(py, api, kind)?.info();
            get_response_header(info, version, &mut r)
                .map(|correlation_id| take_value(&mut Shape::Struct(&mut ResponseHeader { correlation_id }), r.version))
        }
        ("response", ..) => {
            let hint = Some("pass both: a response does not contain them");
            return Err(exception(py, "ConfigError", "the header of a response needs its api and version", hint));
        }
        _ => {
            let message = format!("a header belongs to a request or a response, not to {kind:?}");
            return Err(exception(py, "ConfigError", &message, None));
        }
    };
    let header = to_python(py, header.map_err(|e| codec_error(py, e))?, &mut Names::new())?;
    Ok((header, PyBytes::new(py, &r.rest())))
}

fn handle(py: Python<'_>, name: &str, kind: &str) -> PyResult<&'static MessageHandle> {
    api::by_kind(name, kind).ok_or_else(|| unknown_message(py, name, kind))
}

#[cold]
fn unknown_message(py: Python<'_>, name: &str, kind: &str) -> PyErr {
    let (subject, names, list): (_, Vec<_>, _) = match kind {
        "request" | "response" => ("API", api::APIS.iter().map(|api| api.info.name).collect(), "apis"),
        "header" | "data" => {
            let alike = api::STRUCTURES.iter().filter(|handle| handle.kind() == kind);
            ("structure", alike.map(|handle| handle.info().name).collect(), "structures")
        }
        _ => {
            let message = format!("the kind of a message is request, response, header or data, not {kind:?}");
            return exception(py, "ConfigError", &message, None);
        }
    };
    let distance = |candidate: &&str| strsim::damerau_levenshtein(&candidate.to_lowercase(), &name.to_lowercase());
    let nearest = names.into_iter().min_by_key(distance);
    let hint = nearest.map(|n| format!("did you mean {n:?}? klamm.protocol.{list}() lists all of them"));
    exception(py, "ConfigError", &format!("there is no {subject} {name:?}"), hint.as_deref())
}

/// Returns a `ConfigError` for a version that does not exist, and a `DecodeError` for damaged data.
fn codec_error(py: Python<'_>, error: crate::wire::Error) -> PyErr {
    match error.reason() {
        Reason::Version { .. } => exception(py, "ConfigError", &error.to_string(), None),
        _ => error.into(),
    }
}

/// Returns the error for fields that cannot be encoded.
fn unwritable(py: Python<'_>, error: &crate::wire::Error) -> PyErr {
    match error.reason() {
        Reason::Type { .. } => argument(py, &error.to_string(), None),
        _ => exception(py, "ConfigError", &error.to_string(), None),
    }
}

/// The keys of dicts: one Python string for each name.
pub(super) type Names<'py> = HashMap<Arc<str>, Bound<'py, PyString>>;

pub(super) fn to_python<'py>(py: Python<'py>, value: Value, names: &mut Names<'py>) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::Null => py.None().into_bound(py),
        Value::Bool(v) => PyBool::new(py, v).to_owned().into_any(),
        Value::Int(v) => PyInt::new(py, v).into_any(),
        Value::Float(v) => PyFloat::new(py, v).into_any(),
        Value::String(v) => PyString::new(py, &v).into_any(),
        Value::Bytes(v) => PyBytes::new(py, &v).into_any(),
        Value::Unencodable(what) => PyString::new(py, &what).into_any(),
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

/// Converts a field. A value that no field can hold becomes `Value::Unencodable`. The codec rejects such a value with
/// the field's path.
pub(super) fn from_python(value: &Bound<'_, PyAny>, depth: usize) -> PyResult<Value> {
    if depth > DEEPEST {
        return Ok(Value::Unencodable("a value nested deeper than any message of Kafka".to_owned()));
    }
    if value.is_none() {
        return Ok(Value::Null);
    }
    if let Ok(v) = value.cast::<PyBool>() {
        return Ok(Value::Bool(v.is_true()));
    }
    if let Ok(v) = value.cast::<PyInt>() {
        let beyond = |_| Value::Unencodable("an integer of more than 64 bits".to_owned());
        return Ok(v.extract::<i64>().map_or_else(beyond, Value::Int));
    }
    if let Ok(v) = value.cast::<PyFloat>() {
        return Ok(Value::Float(v.value()));
    }
    if let Ok(v) = value.cast::<PyString>() {
        let half =
            |_| Value::Unencodable("a string with half of a surrogate pair, which UTF-8 cannot encode".to_owned());
        return Ok(v.to_str().map_or_else(half, |text| Value::String(text.to_owned())));
    }
    if let Ok(v) = value.cast::<PyDict>() {
        let field = |(name, value): (Bound<'_, PyAny>, Bound<'_, PyAny>)| {
            let text = name.extract::<String>().or_else(|_| name.repr().map(|shown| shown.to_string()));
            Ok((text?.into(), from_python(&value, depth + 1)?))
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
    Ok(match backed_bytes("a field", value) {
        Ok(bytes) => Value::Bytes(Bytes::from_owner(bytes)),
        Err(_) => Value::Unencodable(format!("an object of type {}", value.get_type().name()?)),
    })
}

/// Returns every API as a `klamm.protocol.Api`.
#[pyfunction]
pub(super) fn apis(py: Python<'_>) -> PyResult<Py<PyAny>> {
    let apis = api::APIS.iter().map(|Entry { info, .. }| {
        construct!(py, "klamm.protocol.Api", {
            name: info.name,
            key: info.key,
            min: info.min,
            max: info.max,
            max_stable: info.max_stable,
            flexible: flexible(info),
            internal: info.internal,
        })
    });
    list(py, apis)
}

/// Returns every header and data structure as a `klamm.protocol.Structure`.
#[pyfunction]
pub(super) fn structures(py: Python<'_>) -> PyResult<Py<PyAny>> {
    let structures = api::STRUCTURES.iter().map(|handle| {
        let info = handle.info();
        construct!(py, "klamm.protocol.Structure", {
            name: info.name,
            kind: handle.kind(),
            min: info.min,
            max: info.max,
            flexible: flexible(info),
        })
    });
    list(py, structures)
}

fn flexible(info: &Info) -> Option<i16> {
    (info.flexible != i16::MAX).then_some(info.flexible)
}

/// Returns the schema of a message in the form of Kafka's schema files.
///
/// Version ranges are strings (`3`, `3-5`, `3+`) and arrays have types such as `[]int32`. A struct contains the list of
/// its `fields`. Records are `bytes`. Defaults have the same form as the values that `decode` returns. The names of
/// structs are klamm's names.
///
/// Args:
///     name (str): The name of the API or structure, for example "Fetch".
///     kind (str): "request", "response", "header" or "data".
///
/// Returns:
///     The schema as a dict.
///
/// Raises:
///     ConfigError: The message does not exist.
#[pyfunction]
pub(super) fn schema<'py>(
    py: Python<'py>,
    #[pyo3(from_py_with = arguments::name)] name: &str,
    #[pyo3(from_py_with = arguments::kind)] kind: &str,
) -> PyResult<Bound<'py, PyDict>> {
    let handle = handle(py, name, kind)?;
    let info = handle.info();
    let schema = PyDict::new(py);
    if info.key >= 0 {
        schema.set_item("apiKey", info.key)?;
    }
    schema.set_item("type", handle.kind())?;
    schema.set_item("name", info.name)?;
    schema.set_item("validVersions", versions(info.min, info.max))?;
    let flexible = flexible(info).map_or_else(|| "none".to_owned(), |first| versions(first, i16::MAX));
    schema.set_item("flexibleVersions", flexible)?;
    schema.set_item("latestVersionUnstable", info.max_stable < info.max)?;
    if let Type::Struct { fields, .. } = handle.describe() {
        schema.set_item("fields", fields_schema(py, &fields)?)?;
    }
    Ok(schema)
}

fn fields_schema<'py>(py: Python<'py>, fields: &[Field]) -> PyResult<Vec<Bound<'py, PyDict>>> {
    let each = fields.iter().map(|Field { name, when, holds, default }| {
        let schema = PyDict::new(py);
        schema.set_item("name", camel_case(name))?;
        let (spelled, fields) = type_schema(holds);
        schema.set_item("type", spelled)?;
        schema.set_item("versions", versions(when.first, when.last))?;
        if let Type::Nullable(_) = holds {
            let (from, until) = (when.null_from.max(when.first), when.null_until.min(when.last));
            schema.set_item("nullableVersions", versions(from, until))?;
        }
        if let Some(tag) = when.tag {
            schema.set_item("tag", tag)?;
            schema.set_item("taggedVersions", versions(when.first, when.last))?;
        }
        if let Some(default) = default {
            schema.set_item("default", to_python(py, default.clone(), &mut Names::new())?)?;
        }
        if let Some(fields) = fields {
            schema.set_item("fields", fields_schema(py, fields)?)?;
        }
        Ok(schema)
    });
    each.collect()
}

/// Returns the name of a type in Kafka's schemas. For a struct or an array of structs, also returns the fields.
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

/// Formats a range of versions: `3`, `3-5` or `3+`.
fn versions(first: i16, last: i16) -> String {
    match last {
        i16::MAX => format!("{first}+"),
        last if last == first => first.to_string(),
        last => format!("{first}-{last}"),
    }
}

/// Computes the hash that selects the partition of a key.
///
/// Args:
///     data (bytes-like): The key.
///
/// Returns:
///     The murmur2 hash of Kafka's Java client, a signed 32-bit integer.
#[pyfunction]
pub(super) fn murmur2(data: &Bound<'_, PyAny>) -> PyResult<i32> {
    Ok(java_murmur2(&backed_bytes("data", data)?))
}

// Kafka's deepest message has five levels of structs, each in a list.
const DEEPEST: usize = 32;
