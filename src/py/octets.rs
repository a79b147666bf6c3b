//! Bytes on their way in. `bytes` are borrowed until they are copied into a batch; anything else with a buffer is copied
//! into `bytes` first (the stable ABI of Python 3.10 gives no borrowed view of one). Text is refused: Kafka stores bytes,
//! and which encoding is meant is the caller's decision.

use super::arguments::{no_unicode, of_type};
use super::error::argument;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyMapping, PyMemoryView, PyString, PyTuple};

/// A bytes-like argument.
pub(super) enum Octets<'a, 'py> {
    Borrowed(&'a Bound<'py, PyBytes>),
    Owned(Bound<'py, PyBytes>),
}

impl<'a, 'py> Octets<'a, 'py> {
    /// An argument that may be None, which is null. `what` names it in messages.
    #[inline]
    pub(super) fn optional(what: &str, value: Option<&'a Bound<'py, PyAny>>) -> PyResult<Option<Self>> {
        match value {
            None => Ok(None),
            Some(value) => match value.cast::<PyBytes>() {
                Ok(bytes) => Ok(Some(Self::Borrowed(bytes))),
                Err(_) if value.is_none() => Ok(None),
                Err(_) => copied(what, value).map(|bytes| Some(Self::Owned(bytes))),
            },
        }
    }

    #[inline]
    pub(super) fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Borrowed(bytes) => bytes.as_bytes(),
            Self::Owned(bytes) => bytes.as_bytes(),
        }
    }
}

/// `bytes` of anything bytes-like, None staying None: for sequences, whose items have no other owner.
pub(super) fn optional_bytes<'py>(what: &str, value: Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyBytes>>> {
    // Asked whether they are of a type made from theirs, the objects take a call of the interpreter more.
    match value.cast_into_exact::<PyBytes>() {
        Ok(bytes) => Ok(Some(bytes)),
        Err(e) => match e.into_inner() {
            value if value.is_none() => Ok(None),
            value => copied(what, &value).map(Some),
        },
    }
}

#[cold]
fn copied<'py>(what: &str, value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
    let py = value.py();
    if value.is_instance_of::<PyString>() {
        let hint = format!("encode it: {what}.encode()");
        return Err(argument(py, &format!("{what} is a str, and Kafka stores bytes"), Some(&hint)));
    }
    from_buffer(what, value, "bytes-like or None")
}

/// The bytes of anything with a buffer, unless that holds a number or where objects are: nobody who gives those means the
/// bytes that this machine has for them.
#[cold]
pub(super) fn from_buffer<'py>(what: &str, value: &Bound<'py, PyAny>, allowed: &str) -> PyResult<Bound<'py, PyBytes>> {
    let Ok(view) = PyMemoryView::from(value) else {
        return Err(of_type(what, value, allowed, None));
    };
    let (format, dimensions): (String, usize) = (view.getattr("format")?.extract()?, view.getattr("ndim")?.extract()?);
    let kind = value.get_type().name()?;
    // Names of a struct's fields stand between colons.
    if format.split(':').step_by(2).any(|codes| codes.contains(ADDRESSES)) {
        let message = format!("{what} holds objects: the buffer of {kind} is where they are, not their bytes");
        return Err(argument(value.py(), &message, Some("give bytes, or a list of the objects if each is a value")));
    }
    if dimensions == 0 && matches!(format.trim_start_matches(ORDERS).as_bytes(), [code] if NUMBERS.contains(code)) {
        let message = format!("{what} is a number, {kind}, and Kafka stores bytes");
        return Err(argument(value.py(), &message, Some("encode it, as text or with struct.pack")));
    }
    Ok(view.call_method0("tobytes")?.cast_into()?)
}

/// A record's timestamp of a datetime (one without a zone is local time, as everywhere in Python); None for anything else,
/// and for one that has none, as the last hours of the year 9999 may.
#[cold]
pub(super) fn of_datetime(value: &Bound<'_, PyAny>) -> Option<i64> {
    let seconds: f64 = value.call_method0("timestamp").ok()?.extract().ok()?;
    // Whole microseconds are exact in a float of this size; milliseconds are cut, not rounded, as the Java client's.
    Some(((seconds * 1e6).round() / 1e3).floor() as i64)
}

/// A header as the client takes it.
pub(super) type Header<'a> = (&'a str, Option<&'a [u8]>);

/// The headers of a record: pairs of text and bytes, or a dict or another mapping of them.
pub(super) struct Headers<'py> {
    pairs: Vec<(Bound<'py, PyString>, Option<Bound<'py, PyBytes>>)>,
    place: Place,
}

/// Where the record is, if it is one in a list: errors name it.
#[derive(Clone, Copy)]
struct Place(Option<usize>);

impl Place {
    #[cold]
    fn headers(self) -> String {
        self.0.map_or_else(|| "headers".to_owned(), |place| format!("records[{place}].headers"))
    }

    #[cold]
    fn header(self, number: usize, field: &str) -> String {
        format!("{}[{number}].{field}", self.headers())
    }
}

impl<'py> Headers<'py> {
    #[inline]
    pub(super) fn new(value: Option<&Bound<'py, PyAny>>) -> PyResult<Self> {
        match value {
            None => Ok(Self { pairs: Vec::new(), place: Place(None) }),
            Some(value) => Self::read(value, Place(None)),
        }
    }

    /// Those of a record in a list.
    pub(super) fn of_record(place: usize, value: &Bound<'py, PyAny>) -> PyResult<Self> {
        Self::read(value, Place(Some(place)))
    }

    fn read(value: &Bound<'py, PyAny>, place: Place) -> PyResult<Self> {
        if value.is_none() {
            return Ok(Self { pairs: Vec::new(), place });
        }
        let pairs = if let Ok(dict) = value.cast::<PyDict>() {
            dict.items().into_any()
        } else if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
            value.clone() // what there is mostly: asking for another mapping is slow
        } else if let Ok(mapping) = value.cast::<PyMapping>() {
            mapping.items()?.into_any()
        } else {
            value.clone()
        };
        let items = pairs.try_iter().map_err(|_| wrong(value, place))?.enumerate();
        let pairs = items.map(|(number, pair)| Self::pair(&pair?, place, number)).collect::<PyResult<_>>()?;
        Ok(Self { pairs, place })
    }

    fn pair(
        pair: &Bound<'py, PyAny>,
        place: Place,
        number: usize,
    ) -> PyResult<(Bound<'py, PyString>, Option<Bound<'py, PyBytes>>)> {
        let is_pair = pair.is_instance_of::<PyTuple>() || pair.is_instance_of::<PyList>();
        if !is_pair || pair.len()? != 2 {
            return Err(wrong(pair, place));
        }
        let key = pair.get_item(0)?.cast_into::<PyString>().map_err(|_| wrong(pair, place))?;
        let value = match pair.get_item(1)?.cast_into_exact::<PyBytes>() {
            Ok(bytes) => Some(bytes),
            Err(e) => match e.into_inner() {
                value if value.is_none() => None,
                value => optional_bytes(&place.header(number, "value"), value)?,
            },
        };
        Ok((key, value))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// The headers, borrowed.
    #[inline]
    pub(super) fn parts(&self) -> PyResult<Vec<Header<'_>>> {
        if self.pairs.is_empty() {
            return Ok(Vec::new());
        }
        let pairs = self.pairs.iter().enumerate().map(|(number, (key, value))| {
            let name = key.to_str().map_err(|_| no_unicode(&self.place.header(number, "name"), key))?;
            Ok((name, value.as_ref().map(|v| v.as_bytes())))
        });
        pairs.collect()
    }
}

#[cold]
fn wrong(value: &Bound<'_, PyAny>, place: Place) -> PyErr {
    let kind = value.get_type().name().map_or_else(|_| String::new(), |name| name.to_string());
    let hint = "as headers=[(\"name\", b\"value\")] or headers={\"name\": b\"value\"}";
    let what = place.headers();
    argument(value.py(), &format!("{what} have to be pairs of str and bytes, not {kind}"), Some(hint))
}

// Codes of Python's `struct` and of PEP 3118: objects and pointers, orders of bytes, numbers.
const ADDRESSES: [char; 5] = ['O', 'P', 'z', '&', 'X'];
const ORDERS: [char; 6] = ['@', '=', '<', '>', '!', '^'];
const NUMBERS: &[u8] = b"?bBhHiIlLqQnNefdg";
