//! Converts arguments of public methods, for `from_py_with`.
//!
//! An argument of the wrong type raises an `ArgumentError`. A number out of range raises a `ConfigError`. Each error
//! names the argument and the allowed values. `klamm.arguments` checks composite arguments, such as partitions, and
//! uses the same error messages as this file.

use super::deadline::bounded;
use super::error::{argument, exception};
use crate::client::NOW;
use crate::record::NO_TIMESTAMP;
use pyo3::exceptions::PyOverflowError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyString};
use std::time::Duration;

macro_rules! text_arguments {
    ($($name:ident)*) => { $(
        #[inline]
        pub(super) fn $name<'a>(value: &'a Bound<'_, PyAny>) -> PyResult<&'a str> {
            text(stringify!($name), value)
        }
    )* };
}

text_arguments!(topic kind name acknowledge_type compression);

/// Converts the request type of a Kafka 0.7 request.
pub(super) fn kind_of_request<'a>(value: &'a Bound<'_, PyAny>) -> PyResult<&'a str> {
    text("type", value)
}

macro_rules! optional_text_arguments {
    ($($function:ident: $name:ident)*) => { $(
        #[inline]
        pub(super) fn $function<'a>(value: &'a Bound<'_, PyAny>) -> PyResult<Option<&'a str>> {
            if value.is_none() { Ok(None) } else { text(stringify!($name), value).map(Some) }
        }
    )* };
}

optional_text_arguments!(topic_or_none: topic group_id: group_id pattern: pattern api: api);

#[inline]
pub(super) fn text<'a>(name: &str, value: &'a Bound<'_, PyAny>) -> PyResult<&'a str> {
    match value.cast::<PyString>().map(|text| text.to_str()) {
        Ok(Ok(text)) => Ok(text),
        Ok(Err(_)) => Err(no_unicode(name, value)),
        Err(_) => Err(of_type(name, value, "a str", None)),
    }
}

/// Converts a timeout in seconds. None means no limit.
#[inline]
pub(super) fn timeout(value: &Bound<'_, PyAny>) -> PyResult<Option<f64>> {
    if value.is_none() {
        return Ok(None);
    }
    match value.extract() {
        Ok(seconds) => Ok(Some(seconds)),
        Err(e) if e.is_instance_of::<PyOverflowError>(value.py()) => Ok(None), // more seconds than a float holds
        Err(_) => Err(no_seconds(value)),
    }
}

/// Converts the timeout of a request. None selects the client's setting.
pub(super) fn time_limit(value: &Bound<'_, PyAny>) -> PyResult<Option<Duration>> {
    timeout(value).map(|seconds| seconds.map(|seconds| bounded(Some(seconds))))
}

#[cold]
fn no_seconds(value: &Bound<'_, PyAny>) -> PyErr {
    let hint = value.hasattr("total_seconds").is_ok_and(|has| has).then_some("give its total_seconds()");
    of_type("timeout", value, "a number of seconds, or None to wait for ever", hint)
}

/// Converts the partition of a record, or None.
#[inline]
pub(super) fn partition(value: &Bound<'_, PyAny>) -> PyResult<Option<i32>> {
    if value.is_none() {
        return Ok(None);
    }
    value.extract().map(Some).map_err(|_| not_whole("partition", value, "an int or None", "from 0 to 2147483647"))
}

/// Converts the timestamp argument of a record. None stays None.
///
/// Like librdkafka, the function accepts times before 1970. The function rejects the two numbers that Kafka and the
/// client use for "no time".
#[inline]
pub(super) fn timestamp_ms(value: &Bound<'_, PyAny>) -> PyResult<Option<i64>> {
    if value.is_none() {
        return Ok(None);
    }
    match time(value)? {
        NO_TIMESTAMP | NOW => Err(no_timestamp(value)),
        ms => Ok(Some(ms)),
    }
}

#[cold]
fn no_timestamp(value: &Bound<'_, PyAny>) -> PyErr {
    let message = format!("timestamp_ms cannot be {value}, which stands for a record without a timestamp");
    let hint = "pass milliseconds since 1970, or leave timestamp_ms out for the current time";
    exception(value.py(), "ConfigError", &message, Some(hint))
}

/// Converts a timestamp.
#[inline]
pub(super) fn time(value: &Bound<'_, PyAny>) -> PyResult<i64> {
    let timestamp = match value.is_instance_of::<PyBool>() {
        true => None,
        false => value.extract().ok().or_else(|| of_datetime(value)),
    };
    timestamp.ok_or_else(|| no_time(value))
}

#[cold]
fn no_time(value: &Bound<'_, PyAny>) -> PyErr {
    let types = "an int (milliseconds since 1970), a datetime or None";
    if value.is_instance_of::<PyBool>() {
        return of_type("timestamp_ms", value, types, None);
    }
    not_whole("timestamp_ms", value, types, "of milliseconds that fits 64 bits")
}

/// Converts a datetime to a record's timestamp. A datetime without a time zone is local time, as in Python's own
/// methods.
///
/// Returns None for other objects, and for a datetime without a timestamp. Datetimes in the last hours of the year 9999
/// can have no timestamp.
#[cold]
fn of_datetime(value: &Bound<'_, PyAny>) -> Option<i64> {
    let seconds: f64 = value.call_method0("timestamp").ok()?.extract().ok()?;
    // A float of this size holds whole microseconds exactly. Milliseconds are truncated, as in the Java client.
    Some(((seconds * 1e6).round() / 1e3).floor() as i64)
}

/// Converts an offset.
pub(super) fn offset(value: &Bound<'_, PyAny>) -> PyResult<i64> {
    value.extract().map_err(|_| not_whole("offset", value, "an int", "from 0 to 9223372036854775807"))
}

/// Converts a limit of records, or None.
#[inline]
pub(super) fn max_records(value: &Bound<'_, PyAny>) -> PyResult<Option<usize>> {
    if value.is_none() {
        return Ok(None);
    }
    value.extract().map(Some).map_err(|_| not_whole("max_records", value, "an int or None", "from 0"))
}

/// Converts the format of messages.
pub(super) fn magic(value: &Bound<'_, PyAny>) -> PyResult<i64> {
    value.extract().map_err(|_| not_whole("magic", value, "an int", "that is a message format"))
}

/// Converts the version of a message.
pub(super) fn version(value: &Bound<'_, PyAny>) -> PyResult<i16> {
    value.extract().map_err(|_| not_whole("version", value, "an int", "from 0 to 32767"))
}

/// Converts the version of a message, or None.
pub(super) fn version_or_none(value: &Bound<'_, PyAny>) -> PyResult<Option<i16>> {
    if value.is_none() { Ok(None) } else { version(value).map(Some) }
}

/// Converts a limit of offsets.
pub(super) fn limit(value: &Bound<'_, PyAny>) -> PyResult<i32> {
    let limit = value.extract().ok().filter(|limit| *limit > 0);
    limit.ok_or_else(|| not_whole("limit", value, "an int", "from 1 to 2147483647"))
}

/// Checks that an argument is callable or None.
pub(super) fn function(name: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
    if value.is_none() || value.is_callable() {
        return Ok(());
    }
    Err(of_type(name, value, "a function", None))
}

/// Converts one topic or a list of topics.
pub(super) fn topics(value: &Bound<'_, PyAny>) -> PyResult<Vec<String>> {
    if value.is_instance_of::<PyString>() {
        return Ok(vec![text("topics", value)?.to_owned()]);
    }
    texts("topics", "a topic", value)
}

/// Converts names of columns. None means all columns.
pub(super) fn columns(value: &Bound<'_, PyAny>) -> PyResult<Option<Vec<String>>> {
    if value.is_none() { Ok(None) } else { texts("columns", "a column", value).map(Some) }
}

fn texts(name: &str, one: &str, value: &Bound<'_, PyAny>) -> PyResult<Vec<String>> {
    let items = value.try_iter().ok().filter(|_| !value.is_instance_of::<PyString>());
    let items = items.ok_or_else(|| of_type(name, value, "a list of names", None))?;
    items.map(|item| text(one, &item?).map(str::to_owned)).collect()
}

#[cold]
pub(super) fn of_type(name: &str, value: &Bound<'_, PyAny>, allowed: &str, hint: Option<&str>) -> PyErr {
    let kind = value.get_type().name().map_or_else(|_| String::new(), |kind| kind.to_string());
    argument(value.py(), &format!("{name} has to be {allowed}, not {kind}"), hint)
}

/// Returns the error for an argument that is not a whole number or is out of range.
#[cold]
pub(super) fn not_whole(name: &str, value: &Bound<'_, PyAny>, types: &str, numbers: &str) -> PyErr {
    match value.call_method0("__index__") {
        Ok(number) => out_of_range(name, &number, &format!("a whole number {numbers}")),
        Err(_) => of_type(name, value, types, None),
    }
}

#[cold]
pub(super) fn out_of_range(name: &str, value: &Bound<'_, PyAny>, allowed: &str) -> PyErr {
    let shown = value.repr().map_or_else(|_| "this".to_owned(), |text| text.to_string());
    exception(value.py(), "ConfigError", &format!("{name} cannot be {shown}"), Some(&format!("allowed: {allowed}")))
}

#[cold]
pub(super) fn no_unicode(name: &str, value: &Bound<'_, PyAny>) -> PyErr {
    let shown = value.repr().map_or_else(|_| "this".to_owned(), |text| text.to_string());
    let hint = "it contains half of a surrogate pair, which UTF-8 cannot encode";
    exception(value.py(), "ConfigError", &format!("{name} cannot be {shown}: it is not valid Unicode text"), Some(hint))
}
