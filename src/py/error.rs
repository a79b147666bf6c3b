//! The only file that converts errors to Python exceptions. The operator `?` converts errors of the client and of the
//! codec.
//!
//! The exception classes are in `klamm.errors`, which is imported when the first error is raised. The kind of an error
//! selects the exception class. If the error has an error code from a broker, the code selects a subclass.

use crate::api::ErrorCode;
use crate::client::{Error, ErrorKind};
use crate::wire;
use pyo3::exceptions::{PyRuntimeError, PyStopAsyncIteration, PyStopIteration};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyModule};

impl From<Error> for PyErr {
    #[cold]
    fn from(error: Error) -> Self {
        Python::attach(|py| raise(py, &error))
    }
}

/// Converts the error to a `DecodeError`, with the field path and the offset of the invalid bytes, or to an
/// `OutOfMemoryError`.
impl From<wire::Error> for PyErr {
    #[cold]
    fn from(error: wire::Error) -> Self {
        let made = |py: Python<'_>| -> PyResult<Self> {
            if let wire::Reason::OutOfMemory(_) = error.reason() {
                return Ok(exception(py, "OutOfMemoryError", &error.to_string(), None));
            }
            let fields = PyDict::new(py);
            fields.set_item("path", error.path())?;
            fields.set_item("offset", error.offset())?;
            Ok(Self::from_value(errors(py)?.getattr("DecodeError")?.call((error.to_string(),), Some(&fields))?))
        };
        Python::attach(made).unwrap_or_else(|broken| broken)
    }
}

/// Returns the exception for an error of the client.
#[cold]
pub(super) fn raise(py: Python<'_>, error: &Error) -> PyErr {
    let fields = PyDict::new(py);
    build(py, fields.clone(), error).unwrap_or_else(|broken| broken)
}

fn build(py: Python<'_>, fields: Bound<'_, PyDict>, error: &Error) -> PyResult<PyErr> {
    fields.set_item("hint", error.hint())?;
    let kind = error.kind();
    let mismatch = (kind == ErrorKind::WrongEndpoint).then_some(ErrorCode::MISMATCHED_ENDPOINT_TYPE);
    if let Some(code) = mismatch.or(error.code()).filter(|code| code.is_error()) {
        fields.set_item("code", code.0)?;
        fields.set_item("topic", error.topic())?;
        fields.set_item("partition", error.partition())?;
        fields.set_item("broker", address(py, error)?)?;
        let class = errors(py)?.getattr("by_code")?.call1((code.0,))?;
        return Ok(PyErr::from_value(class.call((error.message(),), Some(&fields))?));
    }
    if let (ErrorKind::Aborted, Some(cause)) = (kind, error.cause()) {
        fields.set_item("code", cause.code().map(|code| code.0))?;
        let raised =
            PyErr::from_value(errors(py)?.getattr("TransactionAbortedError")?.call((error.message(),), Some(&fields))?);
        raised.set_cause(py, Some(raise(py, cause)));
        return Ok(raised);
    }
    let class = match kind {
        ErrorKind::Broker | ErrorKind::WrongEndpoint => "BrokerError",
        ErrorKind::Network | ErrorKind::Oversized => "NetworkError",
        ErrorKind::Timeout => "KafkaTimeoutError",
        ErrorKind::Config => "ConfigError",
        ErrorKind::Decode => "DecodeError",
        ErrorKind::OutOfMemory => "OutOfMemoryError",
        ErrorKind::Authentication | ErrorKind::NoToken => "AuthenticationError",
        ErrorKind::Fenced => "FencedError",
        ErrorKind::Aborted => "TransactionAbortedError",
        ErrorKind::Closed => "ClosedError",
        ErrorKind::BufferFull => "BufferFullError",
        ErrorKind::Forked => "ForkedClientError",
        ErrorKind::OtherCluster => "OtherClusterError",
        ErrorKind::Internal => "InternalError",
    };
    let raised = errors(py)?.getattr(class)?.call((error.message_with_broker(),), Some(&fields))?;
    if let Some(broker) = address(py, error)? {
        raised.setattr("broker", broker)?;
    }
    if let Some(topic) = error.topic() {
        raised.setattr("topic", topic)?;
        raised.setattr("partition", error.partition())?;
    }
    Ok(PyErr::from_value(raised))
}

/// Returns the `BrokerAddress` of an error, if the error names a broker.
fn address<'py>(py: Python<'py>, error: &Error) -> PyResult<Option<Bound<'py, PyAny>>> {
    let Some(broker) = error.broker() else { return Ok(None) };
    errors(py)?.getattr("BrokerAddress")?.call1((broker, error.node())).map(Some)
}

/// Returns an exception of a class of `klamm.errors`, for errors that `src/py` itself detects.
#[cold]
pub(super) fn exception(py: Python<'_>, class: &str, message: &str, hint: Option<&str>) -> PyErr {
    let made = || -> PyResult<PyErr> {
        let fields = PyDict::new(py);
        fields.set_item("hint", hint)?;
        Ok(PyErr::from_value(errors(py)?.getattr(class)?.call((message,), Some(&fields))?))
    };
    made().unwrap_or_else(|broken| broken)
}

/// Returns an `ArgumentError`, which is also a `TypeError`, for an argument of the wrong type.
#[cold]
pub(super) fn argument(py: Python<'_>, message: &str, hint: Option<&str>) -> PyErr {
    exception(py, "ArgumentError", message, hint)
}

/// Returns the exception for a deserializer that raised `cause` for a field of this record.
#[cold]
pub(super) fn deserialization(field: &str, record: &Bound<'_, PyAny>, cause: PyErr) -> PyErr {
    let py = record.py();
    let made = || errors(py)?.getattr("DeserializationError")?.call1((field, record));
    let error = made().map_or_else(|broken| broken, PyErr::from_value);
    error.set_cause(py, Some(cause));
    error
}

/// Converts an error of code that an iteration of the program runs, such as a listener, a callback or a signal handler.
///
/// `StopIteration` and `StopAsyncIteration` would end the loop of the program as if it had read all records. They become
/// the cause of a `RuntimeError`, as in Python's generators (PEP 479).
#[cold]
pub(super) fn not_end_of_loop(py: Python<'_>, error: PyErr) -> PyErr {
    let stops = error.is_instance_of::<PyStopIteration>(py) || error.is_instance_of::<PyStopAsyncIteration>(py);
    if !stops {
        return error;
    }
    let raised = PyRuntimeError::new_err("a listener, callback or signal handler raised StopIteration in a loop");
    raised.set_cause(py, Some(error));
    raised
}

fn errors(py: Python<'_>) -> PyResult<&Bound<'_, PyModule>> {
    static MODULE: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let module = MODULE.get_or_try_init(py, || py.import("klamm.errors").map(Bound::unbind))?;
    Ok(module.bind(py))
}

/// Marks the parent's clients as unusable in a forked child process, so that they raise an error instead of hanging.
///
/// The hook of `os.register_at_fork` calls this function.
#[pyfunction]
pub(super) fn after_fork_in_child() {
    crate::client::fork::forked();
}

/// Returns the exception for an error code in a response. `tried` says what klamm tried, and `why` is the broker's
/// message.
#[pyfunction]
#[pyo3(signature = (code, tried, why=None, topic=None, partition=None))]
pub(super) fn broker_error(
    py: Python<'_>,
    code: i16,
    tried: &str,
    why: Option<&str>,
    topic: Option<&str>,
    partition: Option<i32>,
) -> Py<PyAny> {
    let why = why.filter(|why| !why.is_empty()).map_or_else(String::new, |why| format!(": {why}"));
    let error = Error::refused(ErrorCode(code), format!("{tried}{why}"));
    let error = topic.map_or(error.clone(), |topic| error.at(&topic.into(), partition));
    PyErr::from(error).into_value(py).into_any()
}

/// Returns `(code, name, retriable, refresh_metadata)` of every error code of Kafka, for `klamm.errors`.
#[pyfunction]
pub(super) fn error_codes() -> Vec<(i16, &'static str, bool, bool)> {
    let row = |c: ErrorCode| (c.0, c.name(), c.is_retriable(), c.is_stale_metadata());
    ErrorCode::all().map(row).collect()
}
