//! The requests and responses of Kafka 0.6 and 0.7, for `klamm.legacy`. Frames are dicts in Python.

use crate::legacy::{ErrorCode, Fetch, Fetched, Offsets, Produce, Request, RequestType, Response};
use crate::py::arguments::{self, of_type};
use crate::py::bytes_like::backed_bytes;
use crate::py::error::{argument, exception};
use crate::wire;
use bytes::Bytes;
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};

/// Decodes a request of Kafka 0.6 or 0.7.
///
/// Args:
///     frame (bytes-like): The frame, with its length prefix.
///
/// Returns:
///     A dict: `type` and the list `parts`.
///
/// Raises:
///     DecodeError: The frame is damaged.
#[pyfunction]
pub(in crate::py) fn decode_request<'py>(py: Python<'py>, frame: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyDict>> {
    let request = Request::decode_frame(Bytes::from_owner(backed_bytes("frame", frame)?))?;
    let parts = match &request {
        Request::Produce(part) => PyList::new(py, [produce_fields(py, part)?])?,
        Request::Fetch(part) => PyList::new(py, [fetch_fields(py, part)?])?,
        Request::MultiFetch(parts) => list(py, parts, fetch_fields)?,
        Request::MultiProduce(parts) => list(py, parts, produce_fields)?,
        Request::Offsets(part) => PyList::new(py, [offsets_fields(py, part)?])?,
    };
    let fields = PyDict::new(py);
    fields.set_item("type", request.request_type().name())?;
    fields.set_item("parts", parts)?;
    Ok(fields)
}

/// Encodes a request of Kafka 0.6 or 0.7.
///
/// Args:
///     request (dict): `type` and the list `parts`, as `decode_request` returns them.
///
/// Returns:
///     The frame, with its length prefix.
///
/// Raises:
///     ArgumentError: A field has the wrong type.
///     ConfigError: A field is missing, or a value does not fit its field.
#[pyfunction]
pub(in crate::py) fn encode_request<'py>(
    py: Python<'py>,
    request: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyBytes>> {
    let kind = request_type(py, &field::<String>(request, "", "type")?)?;
    let request = match kind {
        RequestType::Produce => Request::Produce(the_part(request, kind, produce)?),
        RequestType::Fetch => Request::Fetch(the_part(request, kind, fetch)?),
        RequestType::Offsets => Request::Offsets(the_part(request, kind, offsets)?),
        RequestType::MultiFetch => Request::MultiFetch(parts(request, fetch)?),
        RequestType::MultiProduce => Request::MultiProduce(parts(request, produce)?),
    };
    Ok(PyBytes::new(py, &request.encode().map_err(|e| codec_error(py, &e))?))
}

/// Decodes the response to a request of Kafka 0.6 or 0.7.
///
/// Args:
///     type (str): The type of the request: "fetch", "multifetch" or "offsets".
///     frame (bytes-like): The frame, with its length prefix.
///
/// Returns:
///     A dict of the fields.
///
/// Raises:
///     DecodeError: The frame is damaged.
///     ConfigError: The request type does not exist or has no response.
#[pyfunction]
pub(in crate::py) fn decode_response<'py>(
    py: Python<'py>,
    #[pyo3(from_py_with = arguments::kind_of_request)] r#type: &str,
    frame: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyDict>> {
    let kind = answered(py, r#type)?;
    let response = Response::decode_frame(kind, Bytes::from_owner(backed_bytes("frame", frame)?))?;
    let fields = PyDict::new(py);
    match &response {
        Response::Fetch(part) => return fetched_fields(py, part),
        Response::MultiFetch { error, parts } => {
            fields.set_item("outer_error", error.0)?;
            fields.set_item("parts", list(py, parts, fetched_fields)?)?;
        }
        Response::Offsets { error, offsets } => {
            fields.set_item("error", error.0)?;
            fields.set_item("offsets", offsets)?;
        }
    }
    Ok(fields)
}

/// Encodes the response to a request of Kafka 0.6 or 0.7.
///
/// Args:
///     type (str): The type of the request: "fetch", "multifetch" or "offsets".
///     response (dict): The fields, as `decode_response` returns them.
///
/// Returns:
///     The frame, with its length prefix.
///
/// Raises:
///     ArgumentError: A field has the wrong type.
///     ConfigError: A field is missing, a value does not fit, or the request type has no response.
#[pyfunction]
pub(in crate::py) fn encode_response<'py>(
    py: Python<'py>,
    #[pyo3(from_py_with = arguments::kind_of_request)] r#type: &str,
    response: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyBytes>> {
    let error = |name| field(response, "", name).map(ErrorCode);
    let response = match answered(py, r#type)? {
        RequestType::MultiFetch => {
            Response::MultiFetch { error: error("outer_error")?, parts: parts(response, fetched)? }
        }
        RequestType::Offsets => Response::Offsets { error: error("error")?, offsets: field(response, "", "offsets")? },
        _ => Response::Fetch(fetched(response, "")?),
    };
    Ok(PyBytes::new(py, &response.encode().map_err(|e| codec_error(py, &e))?))
}

fn list<'py, T>(
    py: Python<'py>,
    parts: &[T],
    fields: impl Fn(Python<'py>, &T) -> PyResult<Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyList>> {
    PyList::new(py, parts.iter().map(|part| fields(py, part)).collect::<PyResult<Vec<_>>>()?)
}

fn partition_fields<'py>(py: Python<'py>, topic: &str, partition: i32) -> PyResult<Bound<'py, PyDict>> {
    let fields = PyDict::new(py);
    fields.set_item("topic", topic)?;
    fields.set_item("partition", partition)?;
    Ok(fields)
}

fn produce_fields<'py>(py: Python<'py>, part: &Produce) -> PyResult<Bound<'py, PyDict>> {
    let fields = partition_fields(py, &part.topic, part.partition)?;
    fields.set_item("message_set", PyBytes::new(py, &part.message_set))?;
    Ok(fields)
}

fn fetch_fields<'py>(py: Python<'py>, part: &Fetch) -> PyResult<Bound<'py, PyDict>> {
    let fields = partition_fields(py, &part.topic, part.partition)?;
    fields.set_item("offset", part.offset)?;
    fields.set_item("max_size", part.max_size)?;
    Ok(fields)
}

fn offsets_fields<'py>(py: Python<'py>, part: &Offsets) -> PyResult<Bound<'py, PyDict>> {
    let fields = partition_fields(py, &part.topic, part.partition)?;
    fields.set_item("time", part.time)?;
    fields.set_item("max_number", part.max_number)?;
    Ok(fields)
}

fn fetched_fields<'py>(py: Python<'py>, part: &Fetched) -> PyResult<Bound<'py, PyDict>> {
    let fields = PyDict::new(py);
    fields.set_item("error", part.error.0)?;
    fields.set_item("message_set", PyBytes::new(py, &part.message_set))?;
    Ok(fields)
}

fn produce(part: &Bound<'_, PyAny>, path: &str) -> PyResult<Produce> {
    let (topic, partition) = (field(part, path, "topic")?, field(part, path, "partition")?);
    Ok(Produce { topic, partition, message_set: message_set(part, path)? })
}

fn fetch(part: &Bound<'_, PyAny>, path: &str) -> PyResult<Fetch> {
    let (topic, partition) = (field(part, path, "topic")?, field(part, path, "partition")?);
    Ok(Fetch { topic, partition, offset: field(part, path, "offset")?, max_size: field(part, path, "max_size")? })
}

fn offsets(part: &Bound<'_, PyAny>, path: &str) -> PyResult<Offsets> {
    let (topic, partition) = (field(part, path, "topic")?, field(part, path, "partition")?);
    Ok(Offsets { topic, partition, time: field(part, path, "time")?, max_number: field(part, path, "max_number")? })
}

fn fetched(part: &Bound<'_, PyAny>, path: &str) -> PyResult<Fetched> {
    Ok(Fetched { error: ErrorCode(field(part, path, "error")?), message_set: message_set(part, path)? })
}

fn message_set(part: &Bound<'_, PyAny>, path: &str) -> PyResult<Bytes> {
    let name = "message_set";
    backed_bytes(&format!("{path}{name}"), &item(part, path, name)?).map(Bytes::from_owner)
}

/// Reads the parts of a request or response.
fn parts<T>(of: &Bound<'_, PyAny>, read: impl Fn(&Bound<'_, PyAny>, &str) -> PyResult<T>) -> PyResult<Vec<T>> {
    let parts = item(of, "", "parts")?;
    let items = parts.try_iter().map_err(|_| of_type("parts", &parts, "a list of dicts", None))?;
    items.enumerate().map(|(i, part)| read(&part?, &format!("parts[{i}]."))).collect()
}

/// Reads the only part of a request.
fn the_part<T>(
    of: &Bound<'_, PyAny>,
    kind: RequestType,
    read: impl Fn(&Bound<'_, PyAny>, &str) -> PyResult<T>,
) -> PyResult<T> {
    let mut parts = parts(of, read)?;
    match (parts.pop(), parts.len()) {
        (Some(part), 0) => Ok(part),
        (last, n) => {
            let count = n + usize::from(last.is_some());
            let message = format!("a {} request has one part, not {count}", kind.name());
            Err(exception(of.py(), "ConfigError", &message, None))
        }
    }
}

/// Reads a field of a dict. `path` is the path of the dict.
fn field<'py, T: FromPyObjectOwned<'py> + Held>(of: &Bound<'py, PyAny>, path: &str, name: &str) -> PyResult<T> {
    let value = item(of, path, name)?;
    let shown = || value.repr().map_or_else(|_| "this".to_owned(), |text| text.to_string());
    let wrong = |_| argument(of.py(), &format!("{path}{name} has to be {}, not {}", T::ALLOWED, shown()), None);
    value.extract().map_err(Into::<PyErr>::into).map_err(wrong)
}

/// The type of a field, for errors.
trait Held {
    const ALLOWED: &str;
}

impl Held for String {
    const ALLOWED: &str = "a str";
}

impl Held for i16 {
    const ALLOWED: &str = "an int of 16 bits";
}

impl Held for i32 {
    const ALLOWED: &str = "an int of 32 bits";
}

impl Held for i64 {
    const ALLOWED: &str = "an int of 64 bits";
}

impl Held for Vec<i64> {
    const ALLOWED: &str = "a list of ints of 64 bits";
}

fn item<'py>(of: &Bound<'py, PyAny>, path: &str, name: &str) -> PyResult<Bound<'py, PyAny>> {
    let py = of.py();
    of.get_item(name).map_err(|e| {
        if e.is_instance_of::<PyKeyError>(py) {
            return exception(py, "ConfigError", &format!("{path}{name} is missing"), None);
        }
        argument(py, &format!("{path}{name} has to be a field of a dict, not of {of}"), None)
    })
}

fn request_type(py: Python<'_>, name: &str) -> PyResult<RequestType> {
    RequestType::from_name(name).ok_or_else(|| {
        let names = RequestType::ALL.map(RequestType::name).join(", ");
        exception(py, "ConfigError", &format!("there is no request {name:?}, only {names}"), None)
    })
}

/// Returns the request type of this name, which must have a response.
fn answered(py: Python<'_>, name: &str) -> PyResult<RequestType> {
    match request_type(py, name)? {
        RequestType::Produce | RequestType::MultiProduce => {
            Err(exception(py, "ConfigError", &format!("a {name} request has no response"), None))
        }
        kind => Ok(kind),
    }
}

/// Returns the `ConfigError` for values that cannot be encoded.
pub(super) fn codec_error(py: Python<'_>, error: &wire::Error) -> PyErr {
    exception(py, "ConfigError", &error.to_string(), None)
}
