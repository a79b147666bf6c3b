//! `klamm.protocol`: the codec by name, as the tools see it. Messages are dicts with the names of Kafka's schemas, a
//! uuid is its text form, bytes are `bytes`.

use super::error::{argument, decode as decode_error, exception};
use crate::api::{self, Door, Entry};
use crate::client::murmur2 as java_murmur2;
use crate::wire::{Reason, Value};
use bytes::Bytes;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{
    PyBool, PyByteArray, PyBytes, PyDict, PyFloat, PyInt, PyList, PyMapping, PyMemoryView, PyString, PyTuple,
};

/// The fields of a request or response body.
#[pyfunction]
pub(super) fn decode<'py>(
    py: Python<'py>,
    api: &str,
    kind: &str,
    version: i16,
    body: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let door = door(py, api, kind)?;
    let body = Bytes::from_owner(octets(body)?);
    let value = (door.decode)(version, body).map_err(|e| refused(py, &e))?;
    to_python(py, &value)
}

/// The bytes of a request or response body; fields left out take their defaults.
#[pyfunction]
pub(super) fn encode<'py>(
    py: Python<'py>,
    api: &str,
    kind: &str,
    version: i16,
    fields: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyBytes>> {
    let door = door(py, api, kind)?;
    let body = (door.encode)(version, from_python(fields, 0)?).map_err(|e| refused(py, &e))?;
    Ok(PyBytes::new(py, &body))
}

fn door(py: Python<'_>, name: &str, kind: &str) -> PyResult<&'static Door> {
    let entry = api::by_name(name).ok_or_else(|| unknown_api(py, name))?;
    match kind {
        "request" => Ok(&entry.request),
        "response" => Ok(&entry.response),
        _ => Err(exception(py, "ConfigError", &format!("a message is a request or a response, not a {kind:?}"), None)),
    }
}

fn unknown_api(py: Python<'_>, name: &str) -> PyErr {
    let names = api::APIS.iter().map(|a| a.info.name);
    let nearest = names.min_by_key(|known| strsim::damerau_levenshtein(&known.to_lowercase(), &name.to_lowercase()));
    let hint = nearest.map(|n| format!("did you mean {n:?}? klamm.protocol.apis() lists all of them"));
    exception(py, "ConfigError", &format!("there is no API {name:?}"), hint.as_deref())
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
pub(super) fn octets(value: &Bound<'_, PyAny>) -> PyResult<PyBackedBytes> {
    let py = value.py();
    if value.is_instance_of::<PyBytes>() || value.is_instance_of::<PyByteArray>() {
        return Ok(value.extract()?);
    }
    match PyMemoryView::from(value) {
        Ok(view) => Ok(view.call_method0("tobytes")?.extract()?),
        Err(_) => Err(argument(py, &format!("{} is nothing that a field holds", value.get_type().name()?), None)),
    }
}

/// `(name, key, min, max, max_stable, flexible or None)` of every API.
#[pyfunction]
pub(super) fn apis() -> Vec<(&'static str, i16, i16, i16, i16, Option<i16>)> {
    let row = |Entry { info, .. }: &'static Entry| {
        let flexible = (info.flexible != i16::MAX).then_some(info.flexible);
        (info.name, info.key, info.min, info.max, info.max_stable, flexible)
    };
    api::APIS.iter().map(row).collect()
}

/// The hash that chooses a key's partition, as a signed 32-bit integer.
#[pyfunction]
pub(super) fn murmur2(data: &Bound<'_, PyAny>) -> PyResult<i32> {
    Ok(java_murmur2(&octets(data)?))
}

// The deepest of Kafka's own messages has five levels of structs, and a list around each.
const DEEPEST: usize = 32;
