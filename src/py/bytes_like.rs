//! Bytes-like arguments and record headers.
//!
//! klamm borrows a `bytes` object until it copies the data into a batch. klamm first copies a `bytearray`, a
//! `memoryview` or any other buffer into `bytes`, because the stable ABI of Python 3.10 cannot borrow a buffer. klamm
//! rejects a `str`, because the caller must choose the encoding.

use super::arguments::{no_unicode, of_type};
use super::error::argument;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyByteArray, PyBytes, PyDict, PyList, PyMapping, PyMemoryView, PyString, PyTuple};

/// A bytes-like argument.
pub(super) enum BytesLike<'a, 'py> {
    Borrowed(&'a Bound<'py, PyBytes>),
    Owned(Bound<'py, PyBytes>),
}

impl<'a, 'py> BytesLike<'a, 'py> {
    /// Converts an argument. None becomes null. Errors use `what` as the name of the argument.
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

/// A list or tuple of bytes-like objects.
pub(super) struct Items<'a, 'py> {
    what: &'static str,
    sequence: Sequence<'a, 'py>,
}

enum Sequence<'a, 'py> {
    List(&'a Bound<'py, PyList>),
    Tuple(&'a Bound<'py, PyTuple>),
}

impl<'a, 'py> Items<'a, 'py> {
    pub(super) fn new(what: &'static str, items: &'a Bound<'py, PyAny>) -> PyResult<Self> {
        let sequence = match items.cast::<PyList>() {
            Ok(list) => Sequence::List(list),
            Err(_) => Sequence::Tuple(items.cast::<PyTuple>()?),
        };
        Ok(Self { what, sequence })
    }

    pub(super) fn len(&self) -> usize {
        match self.sequence {
            Sequence::List(list) => list.len(),
            Sequence::Tuple(tuple) => tuple.len(),
        }
    }

    pub(super) fn get(&self, i: usize) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let item = match self.sequence {
            Sequence::List(list) => list.get_item(i)?,
            Sequence::Tuple(tuple) => tuple.get_item(i)?,
        };
        match item.cast_into_exact::<PyBytes>() {
            Ok(bytes) => Ok(Some(bytes)),
            Err(e) => match e.into_inner() {
                item if item.is_none() => Ok(None),
                item => optional_bytes(&format!("{}[{i}]", self.what), item),
            },
        }
    }
}

/// Converts an item of a sequence to `bytes`. None stays None.
pub(super) fn optional_bytes<'py>(what: &str, value: Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyBytes>>> {
    // `cast_into_exact` first: a check that includes subclasses costs one more call of the interpreter.
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
        return Err(argument(py, &format!("{what} is a str, but Kafka stores bytes"), Some(&hint)));
    }
    from_buffer(what, value, "bytes-like or None")
}

/// Copies the bytes of an object with a buffer.
///
/// Rejects buffers with pointers to objects, and buffers with a single number, because their bytes depend on the
/// machine.
#[cold]
pub(super) fn from_buffer<'py>(what: &str, value: &Bound<'py, PyAny>, allowed: &str) -> PyResult<Bound<'py, PyBytes>> {
    let Ok(view) = PyMemoryView::from(value) else {
        return Err(of_type(what, value, allowed, None));
    };
    let (format, dimensions): (String, usize) = (view.getattr("format")?.extract()?, view.getattr("ndim")?.extract()?);
    let kind = value.get_type().name()?;
    // The names of a struct's fields are between colons.
    if format.split(':').step_by(2).any(|codes| codes.contains(ADDRESSES)) {
        let message = format!("{what} holds Python objects: the buffer of {kind} has their addresses, not their bytes");
        return Err(argument(value.py(), &message, Some("give bytes, or a list of the objects if each is a value")));
    }
    if dimensions == 0 && matches!(format.trim_start_matches(ORDERS).as_bytes(), [code] if NUMBERS.contains(code)) {
        let message = format!("{what} is a number of type {kind}, but Kafka stores bytes");
        return Err(argument(value.py(), &message, Some("encode it as text or with struct.pack")));
    }
    Ok(view.call_method0("tobytes")?.cast_into()?)
}

/// Returns the bytes of an argument that must not be None. The function does not copy `bytes` and `bytearray`.
pub(super) fn backed_bytes(what: &str, value: &Bound<'_, PyAny>) -> PyResult<PyBackedBytes> {
    if value.is_instance_of::<PyBytes>() || value.is_instance_of::<PyByteArray>() {
        return Ok(value.extract()?);
    }
    Ok(from_buffer(what, value, "bytes-like")?.extract()?)
}

/// A header for the client: name and value.
pub(super) type Header<'a> = (&'a [u8], Option<&'a [u8]>);

/// The name of a header.
enum Name<'py> {
    Text(Bound<'py, PyString>),
    /// The bytes of a name that is not UTF-8. In a Python string, the invalid bytes are lone surrogates (PEP 383).
    Bytes(Bound<'py, PyBytes>),
}

impl<'py> Name<'py> {
    #[inline]
    fn new(text: Bound<'py, PyString>, what: impl FnOnce() -> String) -> PyResult<Self> {
        if text.to_str().is_ok() {
            return Ok(Self::Text(text));
        }
        let bytes =
            text.call_method1("encode", ("utf-8", "surrogateescape")).map_err(|_| no_unicode(&what(), &text))?;
        Ok(Self::Bytes(bytes.cast_into()?))
    }

    #[inline]
    fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Text(text) => text.to_str().map_or(&[], str::as_bytes), // `new` has checked it
            Self::Bytes(bytes) => bytes.as_bytes(),
        }
    }
}

/// Returns the name of a header as text. Bytes that are not UTF-8 become lone surrogates (PEP 383).
#[inline]
pub(super) fn header_name<'py>(py: Python<'py>, name: &[u8]) -> PyResult<Bound<'py, PyString>> {
    match std::str::from_utf8(name) {
        Ok(name) => Ok(PyString::new(py, name)),
        Err(_) => PyString::from_encoded_object(&PyBytes::new(py, name), Some(c"utf-8"), Some(c"surrogateescape")),
    }
}

/// The headers of a record, from a sequence of pairs or a mapping.
pub(super) struct Headers<'py> {
    pairs: Vec<(Name<'py>, Option<Bound<'py, PyBytes>>)>,
}

/// The index of the record in a list of records, for errors.
#[derive(Clone, Copy)]
struct RecordIndex(Option<usize>);

impl RecordIndex {
    #[cold]
    fn headers(self) -> String {
        self.0.map_or_else(|| "headers".to_owned(), |record| format!("records[{record}].headers"))
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
            None => Ok(Self { pairs: Vec::new() }),
            Some(value) => Self::read(value, RecordIndex(None)),
        }
    }

    /// Converts the headers of a record in a list.
    pub(super) fn of_record(record: usize, value: &Bound<'py, PyAny>) -> PyResult<Self> {
        Self::read(value, RecordIndex(Some(record)))
    }

    fn read(value: &Bound<'py, PyAny>, record: RecordIndex) -> PyResult<Self> {
        if value.is_none() {
            return Ok(Self { pairs: Vec::new() });
        }
        let pairs = if let Ok(dict) = value.cast::<PyDict>() {
            dict.items().into_any()
        } else if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
            value.clone() // the most common case first: the check for a mapping is slow
        } else if let Ok(mapping) = value.cast::<PyMapping>() {
            mapping.items()?.into_any()
        } else {
            value.clone()
        };
        let items = pairs.try_iter().map_err(|_| wrong(value, record))?.enumerate();
        let pairs = items.map(|(number, pair)| Self::pair(&pair?, record, number)).collect::<PyResult<_>>()?;
        Ok(Self { pairs })
    }

    fn pair(
        pair: &Bound<'py, PyAny>,
        record: RecordIndex,
        number: usize,
    ) -> PyResult<(Name<'py>, Option<Bound<'py, PyBytes>>)> {
        let is_pair = pair.is_instance_of::<PyTuple>() || pair.is_instance_of::<PyList>();
        if !is_pair || pair.len()? != 2 {
            return Err(wrong(pair, record));
        }
        let key = pair.get_item(0)?.cast_into::<PyString>().map_err(|_| wrong(pair, record))?;
        let key = Name::new(key, || record.header(number, "name"))?;
        let value = match pair.get_item(1)?.cast_into_exact::<PyBytes>() {
            Ok(bytes) => Some(bytes),
            Err(e) => match e.into_inner() {
                value if value.is_none() => None,
                value => optional_bytes(&record.header(number, "value"), value)?,
            },
        };
        Ok((key, value))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// Returns the headers as borrowed bytes.
    #[inline]
    pub(super) fn parts(&self) -> Vec<Header<'_>> {
        self.pairs.iter().map(|(name, value)| (name.as_bytes(), value.as_ref().map(|v| v.as_bytes()))).collect()
    }
}

#[cold]
fn wrong(value: &Bound<'_, PyAny>, record: RecordIndex) -> PyErr {
    let kind = value.get_type().name().map_or_else(|_| String::new(), |name| name.to_string());
    let hint = "write headers=[(\"name\", b\"value\")] or headers={\"name\": b\"value\"}";
    let what = record.headers();
    argument(value.py(), &format!("{what} have to be pairs of str and bytes, not {kind}"), Some(hint))
}

// Format codes of Python's `struct` module and of PEP 3118: objects and pointers, byte orders, numbers.
const ADDRESSES: [char; 5] = ['O', 'P', 'z', '&', 'X'];
const ORDERS: [char; 6] = ['@', '=', '<', '>', '!', '^'];
const NUMBERS: &[u8] = b"?bBhHiIlLqQnNefdg";
