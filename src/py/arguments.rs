//! Arguments of public methods, for `from_py_with`: what cannot be used raises klamm's own errors, which say what was given
//! and what is allowed. A type that cannot be used is an `ArgumentError`, a number outside of what there is a `ConfigError`.
//!
//! What is made of several objects, as partitions and offsets are, `klamm.arguments` takes apart in the same words.

use super::error::{argument, exception};
use super::octets::of_datetime;
use super::pending::bounded;
use pyo3::exceptions::PyOverflowError;
use pyo3::prelude::*;
use pyo3::types::PyString;
use std::time::Duration;

macro_rules! text_arguments {
    ($($name:ident)*) => { $(
        #[inline]
        pub(super) fn $name<'a>(value: &'a Bound<'_, PyAny>) -> PyResult<&'a str> {
            text(stringify!($name), value)
        }
    )* };
}

text_arguments!(topic group kind name acknowledge_type compression);

/// The type of a request of Kafka 0.7.
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

/// Seconds to wait, or None for ever.
#[inline]
pub(super) fn timeout(value: &Bound<'_, PyAny>) -> PyResult<Option<f64>> {
    if value.is_none() {
        return Ok(None);
    }
    match value.extract() {
        Ok(seconds) => Ok(Some(seconds)),
        Err(e) if e.is_instance_of::<PyOverflowError>(value.py()) => Ok(None), // longer than anybody waits
        Err(_) => Err(no_seconds(value)),
    }
}

/// The time that a call may take, or None for what the client's settings say.
pub(super) fn time_limit(value: &Bound<'_, PyAny>) -> PyResult<Option<Duration>> {
    timeout(value).map(|seconds| seconds.map(|seconds| bounded(Some(seconds))))
}

#[cold]
fn no_seconds(value: &Bound<'_, PyAny>) -> PyErr {
    let hint = value.hasattr("total_seconds").is_ok_and(|has| has).then_some("give its total_seconds()");
    of_type("timeout", value, "a number of seconds, or None to wait for ever", hint)
}

/// The partition of a record, or None.
#[inline]
pub(super) fn partition(value: &Bound<'_, PyAny>) -> PyResult<Option<i32>> {
    if value.is_none() {
        return Ok(None);
    }
    value.extract().map(Some).map_err(|_| not_whole("partition", value, "an int or None", "from 0 to 2147483647"))
}

/// The time of a record, or None.
#[inline]
pub(super) fn timestamp_ms(value: &Bound<'_, PyAny>) -> PyResult<Option<i64>> {
    if value.is_none() {
        return Ok(None);
    }
    match value.extract() {
        Ok(ms) => Ok(Some(ms)),
        Err(_) => of_datetime(value).map(Some).ok_or_else(|| {
            let kind = "an int (milliseconds since 1970), a datetime or None";
            not_whole("timestamp_ms", value, kind, "of milliseconds that fits 64 bits")
        }),
    }
}

/// An offset to go to.
pub(super) fn offset(value: &Bound<'_, PyAny>) -> PyResult<i64> {
    value.extract().map_err(|_| not_whole("offset", value, "an int", "from 0 to 9223372036854775807"))
}

/// How many records or bytes are wanted at most, or None.
#[inline]
pub(super) fn max_records(value: &Bound<'_, PyAny>) -> PyResult<Option<usize>> {
    if value.is_none() {
        return Ok(None);
    }
    value.extract().map(Some).map_err(|_| not_whole("max_records", value, "an int or None", "from 0"))
}

/// The format of messages.
pub(super) fn magic(value: &Bound<'_, PyAny>) -> PyResult<i64> {
    value.extract().map_err(|_| not_whole("magic", value, "an int", "that is a format of messages"))
}

/// A version of a message.
pub(super) fn version(value: &Bound<'_, PyAny>) -> PyResult<i16> {
    value.extract().map_err(|_| not_whole("version", value, "an int", "from 0 to 32767"))
}

/// The same, or None.
pub(super) fn version_or_none(value: &Bound<'_, PyAny>) -> PyResult<Option<i16>> {
    if value.is_none() { Ok(None) } else { version(value).map(Some) }
}

/// How many offsets are wanted at most.
pub(super) fn limit(value: &Bound<'_, PyAny>) -> PyResult<i32> {
    let limit = value.extract().ok().filter(|limit| *limit > 0);
    limit.ok_or_else(|| not_whole("limit", value, "an int", "from 1 to 2147483647"))
}

/// Whether something is only to be tried.
pub(super) fn validate_only(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    value.extract().map_err(|_| of_type("validate_only", value, "a bool", None))
}

/// A function, or None.
pub(super) fn function(name: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
    if value.is_none() || value.is_callable() {
        return Ok(());
    }
    Err(of_type(name, value, "a function", None))
}

/// Names of topics: one, or several.
pub(super) fn topics(value: &Bound<'_, PyAny>) -> PyResult<Vec<String>> {
    if value.is_instance_of::<PyString>() {
        return Ok(vec![text("topics", value)?.to_owned()]);
    }
    texts("topics", "a topic", value)
}

/// Names of columns, or None for all.
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

/// For what is no whole number, or one that does not fit.
#[cold]
pub(super) fn not_whole(name: &str, value: &Bound<'_, PyAny>, types: &str, numbers: &str) -> PyErr {
    match value.call_method0("__index__") {
        Ok(number) => out_of_range(name, &number, &format!("a whole number {numbers}")),
        Err(_) => of_type(name, value, types, None),
    }
}

#[cold]
pub(super) fn out_of_range(name: &str, value: &Bound<'_, PyAny>, allowed: &str) -> PyErr {
    let given = value.repr().map_or_else(|_| "this".to_owned(), |text| text.to_string());
    exception(value.py(), "ConfigError", &format!("{name} cannot be {given}"), Some(&format!("allowed: {allowed}")))
}

#[cold]
pub(super) fn no_unicode(name: &str, value: &Bound<'_, PyAny>) -> PyErr {
    let given = value.repr().map_or_else(|_| "this".to_owned(), |text| text.to_string());
    let hint = "half of a surrogate pair has no form in UTF-8";
    exception(value.py(), "ConfigError", &format!("{name} cannot be {given}: it is no Unicode text"), Some(hint))
}
