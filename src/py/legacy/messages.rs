//! The messages of Kafka 0.6 and 0.7, for `klamm.legacy`: [`Message07`] and the codec of message sets.

use super::codec::codec_error;
use crate::compress::{Compression, DEFAULT_LIMIT};
use crate::legacy::{ErrorCode, Fetched, Magic, Message, MessageSetBuilder, Messages, RequestType, Response};
use crate::py::arguments::{self, of_type};
use crate::py::bytes_like::{BytesLike, backed_bytes};
use crate::py::error::{argument, exception};
use crate::py::record::shortened;
use crate::wire::{self, Reason, Step, memory_limit};
use bytes::Bytes;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Decodes a message set of Kafka 0.6 or 0.7. The result contains the messages inside a compressed message instead of
/// the compressed message.
///
/// The function ignores a truncated message at the end.
///
/// Args:
///     data (bytes-like): The message set.
///     offset (int): The byte offset of the first message in the log. Defaults to 0.
///
/// Returns:
///     A list of Message07.
///
/// Raises:
///     DecodeError: A message is damaged, is inside more than 8 compressed messages, or decompresses to more than
///         256 MiB. The error also occurs if the list would take more than 256 MiB and more than 64 times the memory of
///         the data.
#[pyfunction]
#[pyo3(signature = (data, offset=0))]
pub(in crate::py) fn decode_messages(
    py: Python<'_>,
    data: &Bound<'_, PyAny>,
    #[pyo3(from_py_with = arguments::offset)] offset: i64,
) -> PyResult<Vec<Message07>> {
    let data = Bytes::from_owner(backed_bytes("data", data)?);
    // The list may take as much as any decoded message of Kafka, or as one decompressed message.
    let limit = memory_limit(data.len()).max(DEFAULT_LIMIT);
    let (mut messages, mut held) = (Vec::new(), 0);
    for message in Messages::new(data, offset, DEFAULT_LIMIT) {
        let message = message?;
        held += OF_ONE + message.payload.len();
        if held > limit {
            let too_many = wire::Error::new(Reason::Budget { limit }, 0).within(Step::Index(messages.len()));
            return Err(too_many.into());
        }
        messages.push(Message07::of(py, &message));
    }
    Ok(messages)
}

/// Encodes a message set of Kafka 0.6 or 0.7.
///
/// Args:
///     messages (iterable of bytes-like or Message07): The payloads. The function uses only the payload of a Message07.
///     magic (int): The message format: 1 (the default), or 0 for Kafka 0.6, which has no compression.
///     compression (str): "none" (the default), "gzip" or "snappy". Snappy requires Kafka 0.7.1 or later. With
///         compression, one message contains all payloads.
///
/// Returns:
///     The bytes of the message set.
///
/// Raises:
///     ArgumentError: A payload is not bytes-like.
///     ConfigError: The magic or the compression does not exist.
#[pyfunction]
#[pyo3(signature = (messages, *, magic=1, compression="none"))]
pub(in crate::py) fn encode_messages<'py>(
    py: Python<'py>,
    messages: &Bound<'py, PyAny>,
    #[pyo3(from_py_with = arguments::magic)] magic: i64,
    #[pyo3(from_py_with = arguments::compression)] compression: &str,
) -> PyResult<Bound<'py, PyBytes>> {
    let mut set = MessageSetBuilder::new(magic_of(py, magic)?);
    let allowed = "a list of payloads or messages";
    for message in messages.try_iter().map_err(|_| of_type("messages", messages, allowed, None))? {
        let message = message?;
        let payload = message.getattr("payload").unwrap_or(message);
        set.append(required(&payload)?.as_bytes()).map_err(|e| codec_error(py, &e))?;
    }
    let set = set.seal(compression_of(py, compression)?).map_err(|e| codec_error(py, &e))?;
    Ok(PyBytes::new(py, &set))
}

/// The result of one fetch.
#[pyclass(frozen, get_all, module = "klamm._klamm")]
pub(in crate::py) struct Fetched07 {
    error: i16,
    messages: Py<FetchedMessages>,
    /// The offset after the last message.
    next_offset: i64,
    /// The number of bytes after the last message, which belong to a truncated message.
    left: usize,
    /// The DecodeError of the first damaged message.
    damage: Option<Py<PyAny>>,
}

/// The messages of a fetch. Each message becomes a Python object when the program reads it, which saves work for the
/// garbage collector.
#[pyclass(frozen, module = "klamm._klamm")]
pub(in crate::py) struct FetchedMessages(Arc<Vec<Message>>);

#[pymethods]
impl FetchedMessages {
    fn __len__(&self) -> usize {
        self.0.len()
    }

    fn __iter__(&self) -> MessageIterator {
        MessageIterator { messages: self.0.clone(), next: AtomicUsize::new(0) }
    }
}

/// `for message in messages`.
#[pyclass(frozen, module = "klamm._klamm")]
struct MessageIterator {
    messages: Arc<Vec<Message>>,
    next: AtomicUsize,
}

#[pymethods]
impl MessageIterator {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> Option<Message07> {
        self.messages.get(self.next.fetch_add(1, Relaxed)).map(|message| Message07::of(py, message))
    }
}

/// Decodes the response to a fetch, or to a multifetch of several offsets: one Fetched07 for each offset.
///
/// A result has the messages before the first damaged message, and the error of the damaged message as `damage`.
#[pyfunction]
pub(in crate::py) fn decode_fetched(
    py: Python<'_>,
    body: &Bound<'_, PyAny>,
    multi: bool,
    offsets: Vec<i64>,
) -> PyResult<Vec<Fetched07>> {
    let kind = if multi { RequestType::MultiFetch } else { RequestType::Fetch };
    let body = Bytes::from_owner(backed_bytes("body", body)?);
    let parts = match Response::decode(kind, body)? {
        Response::Fetch(part) => vec![part],
        Response::MultiFetch { error: ErrorCode::NONE, parts } => parts,
        Response::MultiFetch { error, .. } => vec![Fetched { error, message_set: Bytes::new() }; offsets.len()],
        Response::Offsets { .. } => Vec::new(),
    };
    if parts.len() != offsets.len() {
        let message = format!("expected a response with {} parts, not {}", offsets.len(), parts.len());
        return Err(exception(py, "DecodeError", &message, None));
    }
    let read = |(part, offset): (Fetched, i64)| -> PyResult<Fetched07> {
        let limit = memory_limit(part.message_set.len()).max(DEFAULT_LIMIT);
        let mut walk = Messages::new(part.message_set, offset, DEFAULT_LIMIT);
        let (mut messages, mut held, mut end, mut damage) = (Vec::new(), 0, offset, None);
        for message in walk.by_ref() {
            match message {
                Ok(message) => {
                    held += OF_ONE + message.payload.len();
                    if held > limit {
                        let too_many =
                            wire::Error::new(Reason::Budget { limit }, 0).within(Step::Index(messages.len()));
                        return Err(too_many.into());
                    }
                    end = message.next_offset;
                    messages.push(message);
                }
                Err(e) => damage = Some(PyErr::from(e).into_value(py).into_any()),
            }
        }
        // A compressed message without inner messages moves the offset, too.
        let end = if damage.is_none() { walk.offset() } else { end };
        let messages = Py::new(py, FetchedMessages(Arc::new(messages)))?;
        Ok(Fetched07 { error: part.error.0, messages, next_offset: end, left: walk.left(), damage })
    };
    parts.into_iter().zip(offsets).map(read).collect()
}

/// A message of Kafka 0.6 or 0.7 and its position in the log.
///
/// Encoding uses only the payload. The other attributes are results of decoding.
///
/// Args:
///     payload (bytes-like): The payload.
///     magic (int): The message format, 0 or 1 (the default).
///     compression (str): "none" (the default), "gzip" or "snappy".
///     offset (int): The byte offset of the outermost message. Defaults to 0.
///     next_offset (int): The byte offset of the next outermost message. Defaults to 0.
///     index (int): The index among the messages with this offset. Defaults to 0.
///     count (int): The number of messages with this offset. Defaults to 1.
#[pyclass(frozen, freelist = 8, module = "klamm.legacy")]
pub(in crate::py) struct Message07 {
    /// The payload.
    #[pyo3(get)]
    payload: Py<PyBytes>,
    magic: Magic,
    compression: Compression,
    /// The byte offset of the outermost message that contains this message.
    #[pyo3(get)]
    offset: i64,
    /// The byte offset of the next outermost message.
    #[pyo3(get)]
    next_offset: i64,
    /// The index among the messages with this offset.
    #[pyo3(get)]
    index: usize,
    /// The number of messages with this offset.
    #[pyo3(get)]
    count: usize,
}

impl Message07 {
    /// Copies the payload, so that a stored message does not keep the whole response in memory.
    fn of(py: Python<'_>, message: &Message) -> Self {
        let Message { magic, compression, offset, next_offset, index, count, .. } = *message;
        let payload = PyBytes::new(py, &message.payload).unbind();
        Self { payload, magic, compression, offset, next_offset, index, count }
    }

    fn parts<'a>(&'a self, py: Python<'a>) -> (&'a [u8], u8, &'static str, i64, i64, usize, usize) {
        let (magic, compression) = (self.magic.number(), self.compression.name());
        (self.payload.as_bytes(py), magic, compression, self.offset, self.next_offset, self.index, self.count)
    }
}

#[pymethods]
impl Message07 {
    #[new]
    #[pyo3(signature = (payload, magic=1, compression="none", offset=0, next_offset=0, index=0, count=1))]
    fn new(
        payload: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = arguments::magic)] magic: i64,
        #[pyo3(from_py_with = arguments::compression)] compression: &str,
        #[pyo3(from_py_with = arguments::offset)] offset: i64,
        next_offset: i64,
        index: usize,
        count: usize,
    ) -> PyResult<Self> {
        let py = payload.py();
        let (magic, compression) = (magic_of(py, magic)?, compression_of(py, compression)?);
        let payload = PyBytes::new(py, required(payload)?.as_bytes()).unbind();
        Ok(Self { payload, magic, compression, offset, next_offset, index, count })
    }

    /// The format of the message itself, 0 or 1. A compressed message that contains this message has format 1.
    #[getter]
    fn magic(&self) -> u8 {
        self.magic.number()
    }

    /// The compression of the outermost message that contains this message: `none`, `gzip` or `snappy`.
    #[getter]
    fn compression(&self) -> &'static str {
        self.compression.name()
    }

    fn __eq__(&self, other: &Bound<'_, Self>) -> bool {
        self.parts(other.py()) == other.get().parts(other.py())
    }

    fn __hash__(&self, py: Python<'_>) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.parts(py).hash(&mut hasher);
        hasher.finish()
    }

    fn __getnewargs__<'py>(&self, py: Python<'py>) -> (Bound<'py, PyBytes>, u8, &'static str, i64, i64, usize, usize) {
        let (_, magic, compression, offset, next_offset, index, count) = self.parts(py);
        (self.payload.bind(py).clone(), magic, compression, offset, next_offset, index, count)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let (payload, magic, compression, offset, next_offset, index, count) = self.parts(py);
        let payload = shortened(py, Some(payload))?;
        Ok(format!(
            "Message07(payload={payload}, magic={magic}, compression='{compression}', offset={offset}, \
             next_offset={next_offset}, index={index}, count={count})"
        ))
    }
}

fn magic_of(py: Python<'_>, number: i64) -> PyResult<Magic> {
    let unknown = || exception(py, "ConfigError", &format!("there is no magic {number} here, only 0 and 1"), None);
    u8::try_from(number).ok().and_then(Magic::from_number).ok_or_else(unknown)
}

fn compression_of(py: Python<'_>, name: &str) -> PyResult<Compression> {
    let compression = Compression::from_name(name).filter(|c| matches!(c.number(), 0..=2));
    let unknown = || format!("there is no compression {name:?} here, only none, gzip, snappy");
    compression.ok_or_else(|| exception(py, "ConfigError", &unknown(), None))
}

/// Converts a payload, which cannot be None.
fn required<'a, 'py>(payload: &'a Bound<'py, PyAny>) -> PyResult<BytesLike<'a, 'py>> {
    let null = || argument(payload.py(), "payload has to be bytes-like, not None", None);
    BytesLike::optional("payload", Some(payload))?.ok_or_else(null)
}

/// Approximate number of bytes that a message takes in Python, without its payload.
const OF_ONE: usize = 160;
