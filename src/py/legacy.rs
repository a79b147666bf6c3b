//! `klamm.legacy`: the codec of Kafka 0.6 and 0.7. Frames are dicts, messages are objects of their own.

use super::arguments::{self, of_type};
use super::error::{argument, decode as decode_error, exception, raise};
use super::octets::Octets;
use super::protocol::octets;
use super::record::shortened;
use crate::client;
use crate::compress::{Compression, DEFAULT_LIMIT};
use crate::legacy::{
    ErrorCode, Fetch, Fetched, Magic, Message, MessageSetBuilder, Messages, Offsets, Produce, Request, RequestType,
    Response,
};
use crate::wire::{self, Reason, Step, memory_limit};
use bytes::Bytes;
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The fields of a request, whose frame begins with its length.
#[pyfunction]
pub(super) fn decode_request<'py>(py: Python<'py>, frame: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyDict>> {
    let request =
        Request::decode_frame(Bytes::from_owner(octets("frame", frame)?)).map_err(|e| decode_error(py, &e))?;
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

/// The frame of a request, which begins with its length.
#[pyfunction]
pub(super) fn encode_request<'py>(py: Python<'py>, request: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
    let kind = request_type(py, &field::<String>(request, "", "type")?)?;
    let request = match kind {
        RequestType::Produce => Request::Produce(the_part(request, kind, produce)?),
        RequestType::Fetch => Request::Fetch(the_part(request, kind, fetch)?),
        RequestType::Offsets => Request::Offsets(the_part(request, kind, offsets)?),
        RequestType::MultiFetch => Request::MultiFetch(parts(request, fetch)?),
        RequestType::MultiProduce => Request::MultiProduce(parts(request, produce)?),
    };
    Ok(PyBytes::new(py, &request.encode().map_err(|e| refused(py, &e))?))
}

/// The fields of the response to a request of a type; its frame begins with its length.
#[pyfunction]
pub(super) fn decode_response<'py>(
    py: Python<'py>,
    #[pyo3(from_py_with = arguments::kind_of_request)] r#type: &str,
    frame: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyDict>> {
    let kind = answered(py, r#type)?;
    let response =
        Response::decode_frame(kind, Bytes::from_owner(octets("frame", frame)?)).map_err(|e| decode_error(py, &e))?;
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

/// The frame of the response to a request of a type; it begins with its length.
#[pyfunction]
pub(super) fn encode_response<'py>(
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
    Ok(PyBytes::new(py, &response.encode().map_err(|e| refused(py, &e))?))
}

/// The messages in a message set that begins at a byte offset; those of compressed ones in their place.
///
/// A message that is cut off at the end is left out. DecodeError for damage, wherever it is; for more than 8 wrappers around
/// a message; for more than 256 MiB out of one; and where the list would take more than that and than 64 times the data.
#[pyfunction]
#[pyo3(signature = (data, offset=0))]
pub(super) fn decode_messages(
    py: Python<'_>,
    data: &Bound<'_, PyAny>,
    #[pyo3(from_py_with = arguments::offset)] offset: i64,
) -> PyResult<Vec<Message07>> {
    let data = Bytes::from_owner(octets("data", data)?);
    // As lists go, this one may hold what any message of Kafka may, or what comes out of one wrapper.
    let limit = memory_limit(data.len()).max(DEFAULT_LIMIT);
    let (mut found, mut held) = (Vec::new(), 0);
    for message in Messages::new(data, offset, DEFAULT_LIMIT) {
        let message = message.map_err(|e| decode_error(py, &e))?;
        held += OF_ONE + message.payload.len();
        if held > limit {
            let too_many = wire::Error::new(Reason::Budget { limit }, 0).within(Step::Index(found.len()));
            return Err(decode_error(py, &too_many));
        }
        found.push(Message07::of(py, &message));
    }
    Ok(found)
}

/// A message set of payloads, those of messages being taken; compressed (`gzip`, `snappy`), all are in one message.
///
/// Magic 0 is what Kafka 0.6 takes, which has no compression. Snappy needs 0.7.1.
#[pyfunction]
#[pyo3(signature = (messages, *, magic=1, compression="none"))]
pub(super) fn encode_messages<'py>(
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
        set.append(required(&payload)?.as_bytes()).map_err(|e| refused(py, &e))?;
    }
    let set = set.seal(compression_of(py, compression)?).map_err(|e| refused(py, &e))?;
    Ok(PyBytes::new(py, &set))
}

/// What one fetch gave: its error, the messages, the offset behind the last of them, bytes left over, and the error of the
/// first that is damaged.
type Fetch07 = (i16, FetchedMessages, i64, usize, Option<Py<PyAny>>);

/// Messages that become objects one at a time: those that nobody keeps cost the garbage collector nothing.
#[pyclass(frozen, module = "klamm._klamm")]
pub(super) struct FetchedMessages(Arc<Vec<Message>>);

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

/// The messages of each part of the answer to a fetch, or to a multifetch of more than one offset, by where they begin.
///
/// As many as come before damage; what is damaged is an exception that nobody has raised.
#[pyfunction]
pub(super) fn decode_fetched(
    py: Python<'_>,
    body: &Bound<'_, PyAny>,
    multi: bool,
    offsets: Vec<i64>,
) -> PyResult<Vec<Fetch07>> {
    let kind = if multi { RequestType::MultiFetch } else { RequestType::Fetch };
    let body = Bytes::from_owner(octets("body", body)?);
    let parts = match Response::decode(kind, body).map_err(|e| decode_error(py, &e))? {
        Response::Fetch(part) => vec![part],
        Response::MultiFetch { error: ErrorCode::NONE, parts } => parts,
        Response::MultiFetch { error, .. } => vec![Fetched { error, message_set: Bytes::new() }; offsets.len()],
        Response::Offsets { .. } => Vec::new(),
    };
    if parts.len() != offsets.len() {
        let message = format!("{} parts were asked for, and {} came", offsets.len(), parts.len());
        return Err(exception(py, "DecodeError", &message, None));
    }
    let read = |(part, offset): (Fetched, i64)| -> PyResult<Fetch07> {
        let limit = memory_limit(part.message_set.len()).max(DEFAULT_LIMIT);
        let mut walk = Messages::new(part.message_set, offset, DEFAULT_LIMIT);
        let (mut found, mut held, mut end, mut damage) = (Vec::new(), 0, offset, None);
        for message in walk.by_ref() {
            match message {
                Ok(message) => {
                    held += OF_ONE + message.payload.len();
                    if held > limit {
                        let too_many = wire::Error::new(Reason::Budget { limit }, 0).within(Step::Index(found.len()));
                        return Err(decode_error(py, &too_many));
                    }
                    end = message.next_offset;
                    found.push(message);
                }
                Err(e) => damage = Some(decode_error(py, &e).into_value(py).into_any()),
            }
        }
        // A wrapper without messages counts too.
        let end = if damage.is_none() { walk.offset() } else { end };
        Ok((part.error.0, FetchedMessages(Arc::new(found)), end, walk.left(), damage))
    };
    parts.into_iter().zip(offsets).map(read).collect()
}

/// A connection to a broker; one thread at a time.
#[pyclass(frozen, module = "klamm._klamm")]
pub(super) struct LegacyConnection(Mutex<client::LegacyConnection>);

impl LegacyConnection {
    /// Lets the connection work until it is done; whatever ends that in the middle ends the connection.
    fn work<T: Send>(
        &self,
        py: Python<'_>,
        timeout: Option<f64>,
        mut step: impl FnMut(&mut client::LegacyConnection, Duration) -> Result<Option<T>, client::Error> + Send,
    ) -> PyResult<T> {
        let wait = timeout.map(|t| Duration::try_from_secs_f64(t.max(0.0)).unwrap_or(Duration::MAX));
        let deadline = wait.and_then(|wait| Instant::now().checked_add(wait));
        loop {
            let left = deadline.map_or(SLICE, |at| at.saturating_duration_since(Instant::now()));
            let slice = left.min(SLICE);
            let ended = match py.detach(|| step(&mut self.lock(), slice)).map_err(|e| raise(py, &e))? {
                Some(done) => return Ok(done),
                None => py.check_signals().err(),
            };
            let ended = ended.or_else(|| {
                let late = || exception(py, "KafkaTimeoutError", "the broker did not answer in time", None);
                left.is_zero().then(late)
            });
            if let Some(error) = ended {
                self.lock().close();
                return Err(error);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, client::LegacyConnection> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl LegacyConnection {
    #[new]
    fn new(host: &str, port: u16, max_frame: usize) -> Self {
        Self(Mutex::new(client::LegacyConnection::new(host, port, max_frame)))
    }

    /// Writes a frame; returns when the system has taken all of it.
    fn send(&self, py: Python<'_>, frame: &Bound<'_, PyAny>, timeout: Option<f64>) -> PyResult<()> {
        let frame = Bytes::from_owner(octets("frame", frame)?);
        self.lock().queue(frame).map_err(|e| raise(py, &e))?;
        self.work(py, timeout, |connection, slice| connection.write(slice).map(|done| done.then_some(())))
    }

    /// The body of the next answer.
    fn receive<'py>(&self, py: Python<'py>, timeout: Option<f64>) -> PyResult<Bound<'py, PyBytes>> {
        let body = self.work(py, timeout, client::LegacyConnection::read)?;
        Ok(PyBytes::new(py, &body))
    }

    /// Whether there is a connection that the broker has not closed, as far as is known here.
    fn is_open(&self) -> bool {
        self.lock().is_open()
    }

    /// Ends the connection; using it again makes a new one.
    fn close(&self) {
        self.lock().close();
    }
}

/// A message of Kafka 0.6 or 0.7, and where it was found.
///
/// All but the payload is for reading: what writes messages takes that alone.
#[pyclass(frozen, freelist = 8, module = "klamm.legacy")]
pub(super) struct Message07 {
    /// What the producer sent.
    #[pyo3(get)]
    payload: Py<PyBytes>,
    magic: Magic,
    compression: Compression,
    /// Where the outermost message around it begins.
    #[pyo3(get)]
    offset: i64,
    /// Where the next outermost message begins.
    #[pyo3(get)]
    next_offset: i64,
    /// Its place among the messages that have this offset.
    #[pyo3(get)]
    index: usize,
    /// How many messages have this offset.
    #[pyo3(get)]
    count: usize,
}

impl Message07 {
    /// Copies the payload, so that a message that is kept keeps nothing else.
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

    /// Its own format, 0 or 1; what is compressed is of 1 outside.
    #[getter]
    fn magic(&self) -> u8 {
        self.magic.number()
    }

    /// How the outermost message around it is compressed: `none`, `gzip` or `snappy`.
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

fn list<'py, T>(
    py: Python<'py>,
    parts: &[T],
    fields: impl Fn(Python<'py>, &T) -> PyResult<Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyList>> {
    PyList::new(py, parts.iter().map(|part| fields(py, part)).collect::<PyResult<Vec<_>>>()?)
}

fn place_fields<'py>(py: Python<'py>, topic: &str, partition: i32) -> PyResult<Bound<'py, PyDict>> {
    let fields = PyDict::new(py);
    fields.set_item("topic", topic)?;
    fields.set_item("partition", partition)?;
    Ok(fields)
}

fn produce_fields<'py>(py: Python<'py>, part: &Produce) -> PyResult<Bound<'py, PyDict>> {
    let fields = place_fields(py, &part.topic, part.partition)?;
    fields.set_item("message_set", PyBytes::new(py, &part.message_set))?;
    Ok(fields)
}

fn fetch_fields<'py>(py: Python<'py>, part: &Fetch) -> PyResult<Bound<'py, PyDict>> {
    let fields = place_fields(py, &part.topic, part.partition)?;
    fields.set_item("offset", part.offset)?;
    fields.set_item("max_size", part.max_size)?;
    Ok(fields)
}

fn offsets_fields<'py>(py: Python<'py>, part: &Offsets) -> PyResult<Bound<'py, PyDict>> {
    let fields = place_fields(py, &part.topic, part.partition)?;
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
    octets(&format!("{path}{name}"), &item(part, path, name)?).map(Bytes::from_owner)
}

/// The parts of a dict.
fn parts<T>(of: &Bound<'_, PyAny>, read: impl Fn(&Bound<'_, PyAny>, &str) -> PyResult<T>) -> PyResult<Vec<T>> {
    let parts = item(of, "", "parts")?;
    let items = parts.try_iter().map_err(|_| of_type("parts", &parts, "a list of dicts", None))?;
    items.enumerate().map(|(i, part)| read(&part?, &format!("parts[{i}]."))).collect()
}

/// The part of a dict that has one.
fn the_part<T>(
    of: &Bound<'_, PyAny>,
    kind: RequestType,
    read: impl Fn(&Bound<'_, PyAny>, &str) -> PyResult<T>,
) -> PyResult<T> {
    let mut parts = parts(of, read)?;
    match (parts.pop(), parts.len()) {
        (Some(part), 0) => Ok(part),
        (last, n) => {
            let found = n + usize::from(last.is_some());
            let message = format!("a {} request has one part, not {found}", kind.name());
            Err(exception(of.py(), "ConfigError", &message, None))
        }
    }
}

/// A field of a dict. `path` is where that is.
fn field<'py, T: FromPyObjectOwned<'py> + Held>(of: &Bound<'py, PyAny>, path: &str, name: &str) -> PyResult<T> {
    let value = item(of, path, name)?;
    let given = || value.repr().map_or_else(|_| "this".to_owned(), |text| text.to_string());
    let wrong = |_| argument(of.py(), &format!("{path}{name} has to be {}, not {}", T::ALLOWED, given()), None);
    value.extract().map_err(Into::<PyErr>::into).map_err(wrong)
}

/// What a field holds, in words.
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
        argument(py, &format!("{path}{name} is a field of a dict, and this is no dict: {of}"), None)
    })
}

fn request_type(py: Python<'_>, name: &str) -> PyResult<RequestType> {
    RequestType::from_name(name).ok_or_else(|| {
        let names = RequestType::ALL.map(RequestType::name).join(", ");
        exception(py, "ConfigError", &format!("there is no request {name:?}, only {names}"), None)
    })
}

/// A type of request that has a response.
fn answered(py: Python<'_>, name: &str) -> PyResult<RequestType> {
    match request_type(py, name)? {
        RequestType::Produce | RequestType::MultiProduce => {
            Err(exception(py, "ConfigError", &format!("a {name} request is never answered"), None))
        }
        kind => Ok(kind),
    }
}

fn magic_of(py: Python<'_>, number: i64) -> PyResult<Magic> {
    let unknown = || exception(py, "ConfigError", &format!("there is no magic {number} here, only 0 and 1"), None);
    u8::try_from(number).ok().and_then(Magic::from_number).ok_or_else(unknown)
}

fn compression_of(py: Python<'_>, name: &str) -> PyResult<Compression> {
    let known = Compression::from_name(name).filter(|c| matches!(c.number(), 0..=2));
    let unknown = || format!("there is no compression {name:?} here, only none, gzip, snappy");
    known.ok_or_else(|| exception(py, "ConfigError", &unknown(), None))
}

/// The bytes of a payload, which is never null.
fn required<'a, 'py>(payload: &'a Bound<'py, PyAny>) -> PyResult<Octets<'a, 'py>> {
    let null = || argument(payload.py(), "payload has to be bytes-like, not None", None);
    Octets::optional("payload", Some(payload))?.ok_or_else(null)
}

/// What has no form on the wire is the caller's fault.
fn refused(py: Python<'_>, error: &wire::Error) -> PyErr {
    exception(py, "ConfigError", &error.to_string(), None)
}

/// Bytes that a message takes in Python beside its payload, about.
const OF_ONE: usize = 160;

/// How long a wait goes on before it looks for signals.
const SLICE: Duration = Duration::from_millis(100);
