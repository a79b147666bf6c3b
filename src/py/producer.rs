//! `ProducerCore`: what the two producer classes share. `send` and `send_nowait` are called a million times a second and
//! are inherited as they are, without a Python frame of their own; everything else is a piece that `klamm.producer`
//! builds its methods of.
//!
//! A call that finds the buffer full waits for room with the interpreter given away, at most `max.block.ms`. Keys and
//! values are copied once, from the caller's objects into the open batch of a partition.

use super::arrow::{ArrowRows, RowCursor};
use super::error::{argument, exception, no_pickle, raise};
use super::event_loop;
use super::octets::{Header, Headers, Octets, optional_bytes};
use super::parked::{News, Parked};
use super::pending::{Deadline, Origin, Pending, wait_for};
use super::tokens;
use super::{arguments, commits, config};
use crate::arrow::Row;
use crate::client::{
    self, Appender, ClientType, Error, ErrorKind, Failure, GroupMetadata, NOW, NewRecord, PAUSE, TopicIndex,
};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyTuple};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The core of a producer.
#[pyclass(subclass, frozen, module = "klamm._klamm")]
pub(super) struct ProducerCore {
    client: Arc<client::Producer>,
    servers: String,
    on_error: Option<Py<PyAny>>,
    /// What `take_failures` gave and `flush` has not raised yet.
    failures: Mutex<Vec<Failure>>,
}

impl ProducerCore {
    fn origin(&self) -> Origin {
        Origin::Producer(self.client.clone())
    }

    /// Runs `attempt` until the buffer has room for its record.
    #[inline]
    fn when_room<T>(&self, py: Python<'_>, attempt: impl Fn() -> Result<T, Error>) -> PyResult<T> {
        match attempt() {
            Ok(done) => Ok(done),
            Err(e) => self.wait_and_retry(py, e, attempt),
        }
    }

    #[cold]
    fn wait_and_retry<T>(
        &self,
        py: Python<'_>,
        mut error: Error,
        attempt: impl Fn() -> Result<T, Error>,
    ) -> PyResult<T> {
        loop {
            if error.kind() != ErrorKind::BufferFull || self.client.drop_when_full() {
                return Err(raise(py, &error));
            }
            self.room(py)?;
            match attempt() {
                Ok(done) => return Ok(done),
                Err(e) => error = e,
            }
        }
    }

    /// Waits until the buffer has room again.
    fn room(&self, py: Python<'_>) -> PyResult<()> {
        let _waiting = self.client.may_wait().map_err(|e| {
            let message = format!("the buffer is full, and {}", e.message());
            exception(py, "BufferFullError", &message, e.hint())
        })?;
        let seconds = self.client.max_block().as_secs_f64();
        if wait_for(py, Deadline::after(Some(seconds)), |slice| self.client.wait_for_room(slice))? {
            return Ok(());
        }
        Err(self.no_room(py))
    }

    /// An error for a producer that is not to wait for room.
    fn refuse_to_wait(&self, py: Python<'_>, done: usize) -> PyResult<()> {
        if !self.client.drop_when_full() || self.client.has_room() {
            return Ok(());
        }
        let message = format!("the buffer is full; {done} records of the call were sent, and the rest were not");
        Err(exception(py, "BufferFullError", &message, Some("wait for deliveries, or raise buffer_memory")))
    }

    #[cold]
    fn no_room(&self, py: Python<'_>) -> PyErr {
        let message = format!("no room in the buffer within {} s", self.client.max_block().as_secs_f64());
        let (message, hint) = match (self.client.last_network_error(), self.client.last_refusal()) {
            (Some(e), _) => {
                (format!("{message}; the network said last: {}", e.message()), "look whether the brokers run")
            }
            (None, Some(e)) => (
                format!("{message}; a broker said last: {}", e.message()),
                "records are sent again until it takes them",
            ),
            (None, None) => {
                (message, "records come in faster than brokers take them: raise max_block_ms or buffer_memory")
            }
        };
        let error = Error::new(ErrorKind::Timeout, message).with_hint(hint);
        self.client.fail_transaction(&error);
        raise(py, &error)
    }
}

#[pymethods]
impl ProducerCore {
    #[new]
    #[pyo3(signature = (bootstrap_servers=None, *, on_error=None, **config))]
    fn new(
        bootstrap_servers: Option<&Bound<'_, PyAny>>,
        on_error: Option<Py<PyAny>>,
        config: Option<&Bound<'_, PyDict>>,
        py: Python<'_>,
    ) -> PyResult<Self> {
        if let Some(on_error) = &on_error {
            arguments::function("on_error", on_error.bind(py))?;
        }
        let (config, servers, login) = config::parse(py, ClientType::Producer, bootstrap_servers, config)?;
        let client = client::Producer::new(&config).map_err(|e| raise(py, &e))?;
        tokens::start(py, client.login_mailbox(), login)?;
        Ok(Self { client: Arc::new(client), servers, on_error, failures: Mutex::default() })
    }

    /// Sends a record; the returned Delivery is its acknowledgement.
    #[pyo3(signature = (topic, value=None, key=None, partition=None, timestamp_ms=None, headers=None))]
    fn send(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arguments::topic)] topic: &str,
        value: Option<&Bound<'_, PyAny>>,
        key: Option<&Bound<'_, PyAny>>,
        #[pyo3(from_py_with = arguments::partition)] partition: Option<i32>,
        #[pyo3(from_py_with = arguments::timestamp_ms)] timestamp_ms: Option<i64>,
        headers: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Pending> {
        let (value, key, headers) = parts(value, key, headers)?;
        let headers = headers.parts()?;
        let record = || record(&value, &key, partition, timestamp_ms, &headers);
        let pending = self.when_room(py, || self.client.send(topic, record()))?;
        Ok(Pending::delivery(pending, self.origin()))
    }

    /// Sends a record without a handle for it: what goes wrong reaches `on_error` and `flush`.
    #[pyo3(signature = (topic, value=None, key=None, partition=None, timestamp_ms=None, headers=None))]
    fn send_nowait(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arguments::topic)] topic: &str,
        value: Option<&Bound<'_, PyAny>>,
        key: Option<&Bound<'_, PyAny>>,
        #[pyo3(from_py_with = arguments::partition)] partition: Option<i32>,
        #[pyo3(from_py_with = arguments::timestamp_ms)] timestamp_ms: Option<i64>,
        headers: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let (value, key, headers) = parts(value, key, headers)?;
        let headers = headers.parts()?;
        let record = || record(&value, &key, partition, timestamp_ms, &headers);
        if self.on_error.is_some() {
            self.report(py)?;
        }
        self.when_room(py, || self.client.send_nowait(topic, record()))
    }

    /// `send` that raises BufferFullError instead of waiting.
    #[pyo3(name = "_try_send", signature = (topic, value, key, partition, timestamp_ms, headers))]
    fn try_send(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arguments::topic)] topic: &str,
        value: Option<&Bound<'_, PyAny>>,
        key: Option<&Bound<'_, PyAny>>,
        #[pyo3(from_py_with = arguments::partition)] partition: Option<i32>,
        #[pyo3(from_py_with = arguments::timestamp_ms)] timestamp_ms: Option<i64>,
        headers: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Pending> {
        let (value, key, headers) = parts(value, key, headers)?;
        let headers = headers.parts()?;
        let record = record(&value, &key, partition, timestamp_ms, &headers);
        let pending = self.client.send(topic, record).map_err(|e| raise(py, &e))?;
        Ok(Pending::delivery(pending, self.origin()))
    }

    /// Sends values from `start` on while there is room; returns the first one not sent.
    #[pyo3(name = "_send_values", signature = (topic, values, keys, partition, start))]
    fn send_values(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arguments::topic)] topic: &str,
        values: &Bound<'_, PyAny>,
        keys: Option<&Bound<'_, PyAny>>,
        #[pyo3(from_py_with = arguments::partition)] partition: Option<i32>,
        start: usize,
    ) -> PyResult<usize> {
        let values = Items::new("values", values)?;
        let keys = keys.map(|keys| Items::new("keys", keys)).transpose()?;
        let length = values.len();
        let mut next = start;
        let mut chunk: Vec<KeyAndValue<'_>> = Vec::with_capacity(CHUNK);
        while next < length {
            // Whatever Python code an item may run (exporting its buffer) has run before the producer is locked.
            chunk.clear();
            for i in next..length.min(next + CHUNK) {
                let key = keys.as_ref().map_or(Ok(None), |keys| keys.get(i))?;
                chunk.push((key, values.get(i)?));
            }
            let (sent, is_enough) = self.append(topic, partition, &chunk).map_err(|e| raise(py, &e))?;
            next += sent;
            if is_enough {
                break;
            }
        }
        Ok(next)
    }

    /// Sends rows of Arrow data while there is room; whether that were all.
    #[pyo3(name = "_send_rows", signature = (topic, rows))]
    fn send_rows(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arguments::topic_or_none)] topic: Option<&str>,
        rows: &Bound<'_, ArrowRows>,
    ) -> PyResult<bool> {
        let rows = rows.get();
        let stopped = py.detach(|| {
            let mut cursor = rows.0.lock().unwrap_or_else(PoisonError::into_inner);
            self.append_rows(topic, &mut cursor)
        });
        match stopped {
            Ok(()) => Ok(true),
            Err(Stop::Full) => Ok(false),
            Err(Stop::Data(why)) => Err(argument(py, &why, None)),
            Err(Stop::Client(e)) => Err(raise(py, &e)),
        }
    }

    /// Waits until the buffer has room, at most `max.block.ms`, or the network has caught up; `done` of a call's records
    /// were sent before.
    #[pyo3(name = "_wait_for_room", signature = (done))]
    fn wait_for_room(&self, py: Python<'_>, done: usize) -> PyResult<()> {
        self.client.check().map_err(|e| raise(py, &e))?;
        if self.client.is_paced() && self.client.has_room() {
            py.detach(|| self.client.pause());
            return Ok(());
        }
        self.refuse_to_wait(py, done)?;
        self.room(py)
    }

    /// For how many seconds at most a call with many records waits for the network to catch up; None if it has, or if the
    /// buffer is full.
    #[pyo3(name = "_pause")]
    fn pause(&self) -> Option<f64> {
        (self.client.is_paced() && self.client.has_room()).then(|| PAUSE.as_secs_f64())
    }

    /// Has it go on although the network has not.
    #[pyo3(name = "_run_ahead")]
    fn run_ahead(&self) {
        self.client.run_ahead();
    }

    /// Awaits that the buffer has room and the network has caught up, at most for so many seconds; whether it is so.
    #[pyo3(name = "_room", signature = (done, timeout))]
    fn await_room<'py>(&self, py: Python<'py>, done: usize, timeout: f64) -> PyResult<Bound<'py, Parked>> {
        self.client.check().map_err(|e| raise(py, &e))?;
        self.refuse_to_wait(py, done)?;
        event_loop::park(py, News::Room(self.client.clone()), Some(timeout))
    }

    /// The error for having waited that long in vain.
    #[pyo3(name = "_no_room")]
    fn no_room_error(&self, py: Python<'_>) -> Py<PyAny> {
        self.no_room(py).into_value(py).into_any()
    }

    /// Whether a full buffer is an error at once.
    #[getter(_drops)]
    fn drops(&self) -> bool {
        self.client.drop_when_full()
    }

    /// The longest that sending waits for room, seconds.
    #[getter(_max_block)]
    fn max_block(&self) -> f64 {
        self.client.max_block().as_secs_f64()
    }

    /// Everything sent so far is on its way or has failed.
    #[pyo3(name = "_flush")]
    fn flush(&self, py: Python<'_>) -> PyResult<Pending> {
        self.call(py, "end of the flush", client::Producer::flush)
    }

    /// Tells `on_error` what failed since the last call, and returns what failed since the last `_failures(True)`:
    /// exceptions, and how many records each stands for.
    #[pyo3(name = "_failures", signature = (take))]
    fn failures(&self, py: Python<'_>, take: bool) -> PyResult<Vec<(Py<PyAny>, u64)>> {
        self.report(py)?;
        if !take {
            return Ok(Vec::new());
        }
        let failures = std::mem::take(&mut *self.failures.lock().unwrap_or_else(PoisonError::into_inner));
        Ok(failures.iter().map(|f| (raise(py, &f.error).into_value(py).into_any(), f.count)).collect())
    }

    /// The producer is ready for transactions.
    #[pyo3(name = "_init_transactions")]
    fn init_transactions(&self, py: Python<'_>) -> PyResult<Pending> {
        self.call(py, "producer id for transactions", client::Producer::init_transactions)
    }

    /// Opens a transaction.
    #[pyo3(name = "_begin_transaction")]
    fn begin_transaction(&self, py: Python<'_>) -> PyResult<()> {
        self.client.begin_transaction().map_err(|e| raise(py, &e))
    }

    /// The transaction has ended.
    #[pyo3(name = "_end_transaction", signature = (commit))]
    fn end_transaction(&self, py: Python<'_>, commit: bool) -> PyResult<Pending> {
        self.call(py, "end of the transaction", |client| client.end_transaction(commit))
    }

    /// The abort of the transaction that is open, if one is.
    #[pyo3(name = "_abort_transaction")]
    fn abort_transaction(&self) -> Option<Pending> {
        let abort = self.client.abort_transaction()?;
        Some(Pending::new("end of the transaction", self.origin(), abort, |py, ()| Ok(py.None())))
    }

    /// Has the transaction, if one is open, end in an abort: a record that was to be part of it could not be sent.
    #[pyo3(name = "_fail_transaction", signature = (why))]
    fn fail_transaction(&self, why: &str) {
        self.client.fail_transaction(&Error::new(ErrorKind::Aborted, format!("a record could not be sent: {why}")));
    }

    /// A group's offsets are part of the transaction.
    #[pyo3(name = "_commit_offsets", signature = (group, generation, member, instance, offsets))]
    fn commit_offsets(
        &self,
        py: Python<'_>,
        group: String,
        generation: i32,
        member: String,
        instance: Option<String>,
        offsets: Vec<commits::Given>,
    ) -> PyResult<Pending> {
        let group = GroupMetadata { group, generation, member, instance };
        let offsets = offsets.into_iter().map(commits::offset).collect();
        self.call(py, "commit of offsets in the transaction", |client| client.commit_offsets(group, offsets))
    }

    /// The partitions of a topic.
    #[pyo3(name = "_partitions_for", signature = (topic))]
    fn partitions_for(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arguments::topic)] topic: &str,
    ) -> PyResult<Pending> {
        let (asked, pending) = self.client.partitions_for(topic).map_err(|e| raise(py, &e))?;
        let (what, client) = (format!("answer about topic {topic:?}"), self.client.clone());
        Ok(Pending::explained(what, self.origin(), pending, list, move || client.why(asked)))
    }

    /// What was counted: (topic, numbers), (broker, numbers), bytes that wait, records without an outcome. Times are in
    /// seconds.
    #[pyo3(name = "_metrics")]
    fn metrics(&self, py: Python<'_>) -> PyResult<MetricsFields> {
        let metrics = self.client.metrics().map_err(|e| raise(py, &e))?;
        let topic = |(name, m): (Arc<str>, client::TopicMetrics)| {
            (name.to_string(), (m.records, m.bytes, m.batches, m.errors, m.retries, m.queue_time.as_secs_f64()))
        };
        let broker = |(node, m): (i32, client::BrokerMetrics)| {
            let (latency, max_latency) = (m.latency.as_secs_f64(), m.max_latency.as_secs_f64());
            (node, (m.requests, m.bytes, m.errors, m.in_flight, latency, max_latency, m.throttled.as_secs_f64()))
        };
        Ok((
            metrics.topics.into_iter().map(topic).collect(),
            metrics.brokers.into_iter().map(broker).collect(),
            metrics.buffered_bytes,
            metrics.outstanding,
        ))
    }

    /// Ends the client; what is not sent by then is lost. `waited` is how long the caller waited before, in seconds.
    #[pyo3(name = "_close", signature = (timeout, waited=0.0))]
    fn close(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arguments::timeout)] timeout: Option<f64>,
        waited: f64,
    ) -> PyResult<()> {
        event_loop::forget(py, &(self.client.clone() as _))?;
        let Ok(flush) = self.client.flush() else { return Ok(()) };
        // A callback closes at once: what it would wait for comes when it has returned.
        let waiting = self.client.may_wait();
        let timeout = if waiting.is_ok() { timeout } else { Some(0.0) };
        let end = Deadline::after(timeout);
        if let Some(abort) = self.client.abort_transaction() {
            wait_for(py, end, |slice| abort.wait(slice))?;
        }
        let is_flushed = wait_for(py, end, |slice| flush.wait(slice));
        let left = self.client.outstanding();
        // It gives an error if something is left, which is said better below.
        let _ = py.detach(|| self.client.close(Duration::ZERO));
        if is_flushed? || left == 0 {
            return Ok(());
        }
        let seconds = timeout.unwrap_or_default() + waited;
        let message = format!("{left} records had no outcome when the producer was closed after {seconds} s");
        Err(exception(py, "KafkaTimeoutError", &message, Some("close later, or flush first")))
    }

    /// Records without an outcome; none if the client cannot be used any more.
    #[pyo3(name = "_outstanding")]
    fn outstanding(&self) -> u64 {
        if self.client.check().is_ok() { self.client.outstanding() } else { 0 }
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        Ok(format!("<klamm.{} of {}>", slf.get_type().name()?, slf.get().servers))
    }

    fn __reduce__(slf: &Bound<'_, Self>) -> PyResult<Py<PyAny>> {
        Err(no_pickle(slf.py(), "producer"))
    }
}

impl ProducerCore {
    fn call(
        &self,
        py: Python<'_>,
        what: &'static str,
        f: impl FnOnce(&client::Producer) -> Result<client::Pending<()>, Error>,
    ) -> PyResult<Pending> {
        let pending = f(&self.client).map_err(|e| raise(py, &e))?;
        Ok(Pending::new(what, self.origin(), pending, |py, ()| Ok(py.None())))
    }

    /// Appends records under one lock while there is room; how many were, and whether no more are to follow for now.
    fn append(&self, topic: &str, partition: Option<i32>, chunk: &[KeyAndValue<'_>]) -> Result<(usize, bool), Error> {
        let mut records = Vec::with_capacity(chunk.len());
        for (key, value) in chunk {
            let (key, value) = (key.as_ref().map(|k| k.as_bytes()), value.as_ref().map(|v| v.as_bytes()));
            records.push(NewRecord { partition, timestamp: NOW, is_timed: false, key, value, headers: &[] });
        }
        let mut appender = self.client.batch()?;
        let topic = appender.topic(topic)?;
        match appender.send_many(topic, &mut records) {
            (sent, Ok(())) => Ok((sent, appender.is_ahead())),
            (sent, Err(e)) if e.kind() == ErrorKind::BufferFull => Ok((sent, true)),
            (_, Err(e)) => Err(e),
        }
    }

    fn append_rows(&self, topic: Option<&str>, cursor: &mut RowCursor) -> Result<(), Stop> {
        // A batch at a time: the next one may have to be computed by Python code, which must not run under a lock.
        while cursor.fill().map_err(Stop::Data)? {
            let Some((input, next)) = &mut cursor.current else { break };
            let rows = *next..input.len().min(*next + CHUNK);
            let headers = input.headers(rows.clone());
            let mut appender = self.client.batch().map_err(Stop::Client)?;
            let given = topic.map(|name| appender.topic(name)).transpose().map_err(Stop::Client)?;
            let mut run = Run { given, topic: given, records: Vec::with_capacity(rows.len()), sent: 0 };
            let mut result = Ok(());
            for (i, number) in rows.enumerate() {
                let row = headers.get(i).and_then(|headers| input.row(number, headers)).map_err(Stop::Data);
                result = row.and_then(|row| run.push(&mut appender, number, &row));
                if result.is_err() {
                    break;
                }
            }
            // What is before a bad row is sent.
            let sent = run.send(&mut appender);
            *next += run.sent;
            cursor.sent += run.sent;
            sent.and(result)?;
            if appender.is_ahead() {
                return Err(Stop::Full);
            }
        }
        Ok(())
    }

    /// Takes what failed from the client and tells `on_error`.
    fn report(&self, py: Python<'_>) -> PyResult<()> {
        if !self.client.has_failures() || self.client.check().is_err_and(|e| e.kind() == ErrorKind::Forked) {
            return Ok(());
        }
        let failures = self.client.take_failures();
        let told: Vec<PyErr> = failures.iter().map(|f| raise(py, &f.error)).collect();
        self.failures.lock().unwrap_or_else(PoisonError::into_inner).extend(failures);
        if let Some(on_error) = &self.on_error {
            for error in told {
                on_error.call1(py, (error.into_value(py),))?;
            }
        }
        Ok(())
    }
}

/// Rows that go to one topic after the other.
struct Run<'a> {
    /// The topic of all, if the caller said so.
    given: Option<TopicIndex>,
    topic: Option<TopicIndex>,
    records: Vec<NewRecord<'a>>,
    /// How many were sent.
    sent: usize,
}

impl<'a> Run<'a> {
    #[inline]
    fn push(&mut self, appender: &mut Appender<'_>, number: usize, row: &Row<'a>) -> Result<(), Stop> {
        let topic = match (self.given, row.topic) {
            (Some(topic), _) => topic,
            (None, Some(name)) => appender.topic(name).map_err(Stop::Client)?,
            (None, None) => {
                let why = format!("row {number}: there is no topic, neither as argument nor in the data");
                return Err(Stop::Data(why));
            }
        };
        if self.topic != Some(topic) {
            self.send(appender)?;
            self.topic = Some(topic);
        }
        let Row { partition, key, value, headers, .. } = *row;
        let timestamp = row.timestamp.unwrap_or(NOW);
        self.records.push(NewRecord { partition, timestamp, is_timed: false, key, value, headers });
        Ok(())
    }

    fn send(&mut self, appender: &mut Appender<'_>) -> Result<(), Stop> {
        let Some(topic) = self.topic else { return Ok(()) };
        let (sent, result) = appender.send_many(topic, &mut self.records);
        self.records.clear();
        self.sent += sent;
        match result {
            Err(e) if e.kind() == ErrorKind::BufferFull => Err(Stop::Full),
            result => result.map_err(Stop::Client),
        }
    }
}

/// Why sending rows stopped early.
enum Stop {
    Full,
    Data(String),
    Client(Error),
}

type MetricsFields =
    (Vec<(String, (u64, u64, u64, u64, u64, f64))>, Vec<(i32, (u64, u64, u64, u64, f64, f64, f64))>, usize, u64);

type KeyAndValue<'py> = (Option<Bound<'py, PyBytes>>, Option<Bound<'py, PyBytes>>);

/// A list or tuple of bytes-like objects.
struct Items<'a, 'py> {
    what: &'static str,
    sequence: Sequence<'a, 'py>,
}

enum Sequence<'a, 'py> {
    List(&'a Bound<'py, PyList>),
    Tuple(&'a Bound<'py, PyTuple>),
}

impl<'a, 'py> Items<'a, 'py> {
    fn new(what: &'static str, items: &'a Bound<'py, PyAny>) -> PyResult<Self> {
        let sequence = match items.cast::<PyList>() {
            Ok(list) => Sequence::List(list),
            Err(_) => Sequence::Tuple(items.cast::<PyTuple>()?),
        };
        Ok(Self { what, sequence })
    }

    fn len(&self) -> usize {
        match self.sequence {
            Sequence::List(list) => list.len(),
            Sequence::Tuple(tuple) => tuple.len(),
        }
    }

    fn get(&self, i: usize) -> PyResult<Option<Bound<'py, PyBytes>>> {
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

/// The bytes of a record's arguments.
#[inline]
#[allow(clippy::type_complexity)]
fn parts<'a, 'py>(
    value: Option<&'a Bound<'py, PyAny>>,
    key: Option<&'a Bound<'py, PyAny>>,
    headers: Option<&'a Bound<'py, PyAny>>,
) -> PyResult<(Option<Octets<'a, 'py>>, Option<Octets<'a, 'py>>, Headers<'py>)> {
    Ok((Octets::optional("value", value)?, Octets::optional("key", key)?, Headers::new(headers)?))
}

#[inline]
fn record<'a>(
    value: &'a Option<Octets<'_, '_>>,
    key: &'a Option<Octets<'_, '_>>,
    partition: Option<i32>,
    timestamp: Option<i64>,
    headers: &'a [Header<'a>],
) -> NewRecord<'a> {
    let (key, value) = (key.as_ref().map(Octets::as_bytes), value.as_ref().map(Octets::as_bytes));
    NewRecord { partition, timestamp: timestamp.unwrap_or(NOW), is_timed: false, key, value, headers }
}

pub(super) fn list(py: Python<'_>, items: Vec<i32>) -> PyResult<Py<PyAny>> {
    Ok(PyList::new(py, items)?.into_any().unbind())
}

/// Records of a sequence between two locks of the producer: enough that the lock costs nothing, few enough that the I/O
/// thread is not kept waiting (about 15 microseconds), and that what is known of them stays in the fastest cache.
const CHUNK: usize = 256;
