//! [`ProducerCore`]: the base class of `Producer` and `AsyncProducer`.
//!
//! Programs may call `send` and `send_nowait` a million times per second. `Producer` therefore inherits both methods
//! directly, so that a call runs no Python code. `klamm.producer` and its base classes define the other methods. If the
//! buffer is full, a call releases the GIL and waits for room, at most `max.block.ms`. Keys and values are copied once:
//! from the caller's objects into the open batch of a partition.

use super::arrow::ArrowRows;
use super::bytes_like::{BytesLike, Header, Headers, Items};
use super::client::ClientCore;
use super::commits::OffsetToCommit;
use super::consumer::ConsumerCore;
use super::deadline::{Deadline, wait_for};
use super::error::{argument, exception};
use super::event_loop;
use super::failures::Failures;
use super::login_mailbox;
use super::loop_future::LoopFuture;
use super::pending::{DeliveryCallbacks, Pending, int_list};
use super::send_rows::{SendStopReason, send_rows};
use super::transaction::{BoundConsumers, ConsumerOffsets, GroupMetadata};
use super::wait_source::BufferRoom;
use super::{arguments, config};
use crate::client::{self, AnyClient, ClientType, Error, ErrorKind, NOW, NewRecord, PAUSE, records_were, seconds};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use std::sync::{Arc, PoisonError};

/// The base class of the producers.
#[pyclass(extends = ClientCore, subclass, frozen, generic, name = "Producer", module = "klamm")]
pub(super) struct ProducerCore {
    client: Arc<client::Producer>,
    close_timeout: f64,
    default_close_timeout: f64,
    failures: Failures,
    callbacks: DeliveryCallbacks,
    /// The consumers whose offsets the transactions commit.
    consumers: BoundConsumers,
}

impl ProducerCore {
    fn any(&self) -> Arc<dyn AnyClient> {
        self.client.clone()
    }

    /// Calls `attempt`. While the buffer has no room for the record, waits and retries.
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
                return Err(error.into());
            }
            self.wait_until_room(py)?;
            match attempt() {
                Ok(done) => return Ok(done),
                Err(e) => error = e,
            }
        }
    }

    /// Waits until the buffer has room, at most `max.block.ms`.
    fn wait_until_room(&self, py: Python<'_>) -> PyResult<()> {
        let _waiting = self.client.may_wait().map_err(|e| {
            let message = format!("the buffer is full, and {}", e.message());
            exception(py, "BufferFullError", &message, e.hint())
        })?;
        let seconds = self.client.max_block().as_secs_f64();
        if wait_for(py, Deadline::after(Some(seconds)), |slice| self.client.wait_for_room(slice))? {
            return Ok(());
        }
        Err(self.room_timeout_error())
    }

    /// Fails if the buffer is full and the producer is configured not to wait.
    fn check_may_wait(&self, py: Python<'_>, done: usize) -> PyResult<()> {
        if !self.client.drop_when_full() || self.client.has_room() {
            return Ok(());
        }
        let message = format!("the buffer is full; {done} records of the call were sent, the others were not");
        Err(exception(py, "BufferFullError", &message, Some("wait for deliveries, or increase buffer_memory")))
    }

    #[cold]
    fn room_timeout_error(&self) -> PyErr {
        let message = format!("no room in the buffer within {} s", seconds(self.client.max_block()));
        let (message, hint) = match (self.client.last_network_error(), self.client.last_refusal()) {
            (Some(e), _) => (
                format!("{message}; last network error: {}", e.message_with_broker()),
                "check that the brokers are reachable",
            ),
            (None, Some(e)) => (
                format!("{message}; last error of a broker: {}", e.message_with_broker()),
                "the producer retries until the broker accepts the records",
            ),
            (None, None) => {
                (message, "the program sends faster than the brokers accept: increase max_block_ms or buffer_memory")
            }
        };
        let error = Error::new(ErrorKind::Timeout, message).with_hint(hint);
        self.client.fail_transaction(&error);
        error.into()
    }
}

#[pymethods]
impl ProducerCore {
    #[new]
    #[pyo3(signature = (
        bootstrap_servers=None, *, on_error=None, on_delivery=None, delivery_interceptors=Vec::new(), **config
    ))]
    fn new(
        bootstrap_servers: Option<&Bound<'_, PyAny>>,
        on_error: Option<Py<PyAny>>,
        on_delivery: Option<Py<PyAny>>,
        delivery_interceptors: Vec<Py<PyAny>>,
        config: Option<&Bound<'_, PyDict>>,
        py: Python<'_>,
    ) -> PyResult<PyClassInitializer<Self>> {
        if let Some(on_error) = &on_error {
            arguments::function("on_error", on_error.bind(py))?;
        }
        let config = config.cloned().unwrap_or_else(|| PyDict::new(py));
        let has_callback = bootstrap_servers.is_some_and(|servers| servers.contains(ERROR_CB).unwrap_or(false));
        if let (Some(on_error), false) = (&on_error, has_callback || config.contains(ERROR_CB)?) {
            config.set_item(ERROR_CB, on_error)?;
        }
        let (config, servers, login, log_target) =
            config::parse(py, ClientType::Producer, bootstrap_servers, Some(&config))?;
        let client = Arc::new(client::Producer::new(&config)?);
        login_mailbox::start(py, client.login_mailbox(), login)?;
        let close_timeout = config.close_timeout().as_secs_f64();
        let default_close_timeout = config.default_close_timeout().as_secs_f64();
        let failures = Failures::new(on_error);
        let callbacks = DeliveryCallbacks { on_delivery, interceptors: delivery_interceptors };
        let base = ClientCore::new(client.clone(), "a producer", servers, log_target);
        let consumers = BoundConsumers::new(client.clone());
        let core = Self { client, close_timeout, default_close_timeout, failures, callbacks, consumers };
        Ok(PyClassInitializer::from(base).add_subclass(core))
    }

    /// Sends a record.
    ///
    /// The call copies the record into the buffer and returns immediately. The call waits only while the buffer is
    /// full, at most `max_block_ms`.
    ///
    /// If the delivery fails, and the program has dropped the Delivery without taking its result, the producer calls
    /// `on_error` with the error, and `flush()` and `close()` raise the error.
    ///
    /// Args:
    ///     topic (str): The topic.
    ///     value (bytes-like | None): The value. None (the default) is a null value.
    ///     key (bytes-like | None): The key, which selects the partition unless `partition` is given. Defaults to None.
    ///     partition (int | None): The partition, from 0. None (the default) lets the partitioner choose.
    ///     timestamp_ms (int | datetime | None): Milliseconds since 1970, or a datetime. None (the default) means the
    ///         current time.
    ///     headers (sequence of (str, bytes-like | None), or mapping | None): The headers. Defaults to no headers.
    ///
    /// Returns:
    ///     A Delivery. Its method `result(timeout)` waits for the acknowledgement and returns it as a RecordMetadata.
    ///
    /// Raises:
    ///     KafkaTimeoutError: The buffer had no room within `max_block_ms`.
    ///     BufferFullError: The buffer is full, and `drop_when_full` is set.
    ///     ArgumentError: An argument has the wrong type.
    ///     ConfigError: The value of an argument is invalid, for example a partition that the topic does not have.
    ///     BrokerError: The record is larger than `max_request_size`, or the topic name is invalid.
    ///     ClosedError: The producer is closed.
    ///
    /// Example:
    ///     delivery = producer.send("greetings", b"hello", key=b"world", headers={"lang": b"en"})
    ///     print(delivery.result(timeout=5).offset)
    // With `**unknown`, the error could suggest a name. But Python would then build a dict for each call with keywords.
    #[pyo3(signature = (topic, value=None, key=None, partition=None, timestamp_ms=None, headers=None))]
    fn send<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = arguments::topic)] topic: &str,
        value: Option<&Bound<'py, PyAny>>,
        key: Option<&Bound<'py, PyAny>>,
        #[pyo3(from_py_with = arguments::partition)] partition: Option<i32>,
        #[pyo3(from_py_with = arguments::timestamp_ms)] timestamp_ms: Option<i64>,
        headers: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Bound<'py, Pending>> {
        let (value, key, headers) = convert_arguments(value, key, headers)?;
        let headers = headers.parts();
        let record = || record(&value, &key, partition, timestamp_ms, &headers);
        self.failures.before_send(py, &self.client)?;
        let pending = self.when_room(py, || self.client.send(topic, record()))?;
        self.delivery(py, pending)
    }

    /// Sends a record without returning a Delivery, which is faster than `send()`.
    ///
    /// If the delivery fails, the producer calls `on_error` with the error, and `flush()` and `close()` raise the
    /// error.
    ///
    /// Args:
    ///     topic (str): The topic.
    ///     value (bytes-like | None): The value. None (the default) is a null value.
    ///     key (bytes-like | None): The key, which selects the partition unless `partition` is given. Defaults to None.
    ///     partition (int | None): The partition, from 0. None (the default) lets the partitioner choose.
    ///     timestamp_ms (int | datetime | None): Milliseconds since 1970, or a datetime. None (the default) means the
    ///         current time.
    ///     headers (sequence of (str, bytes-like | None), or mapping | None): The headers. Defaults to no headers.
    ///
    /// Raises:
    ///     KafkaTimeoutError: The buffer had no room within `max_block_ms`.
    ///     BufferFullError: The buffer is full, and `drop_when_full` is set.
    ///     ArgumentError: An argument has the wrong type.
    ///     ConfigError: The value of an argument is invalid, for example a partition that the topic does not have.
    ///     BrokerError: The record is larger than `max_request_size`, or the topic name is invalid.
    ///     ClosedError: The producer is closed.
    ///
    /// Example:
    ///     for line in lines:
    ///         producer.send_nowait("lines", line)
    ///     producer.flush()
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
        let (value, key, headers) = convert_arguments(value, key, headers)?;
        let headers = headers.parts();
        let record = || record(&value, &key, partition, timestamp_ms, &headers);
        self.failures.before_send(py, &self.client)?;
        if self.callbacks.is_empty() {
            return self.when_room(py, || self.client.send_nowait(topic, record()));
        }
        let pending = self.when_room(py, || self.client.send(topic, record()))?;
        self.delivery(py, pending).map(drop)
    }

    /// Sends a record like `send`, but raises BufferFullError instead of waiting.
    #[pyo3(name = "_try_send", signature = (topic, value, key, partition, timestamp_ms, headers))]
    fn try_send<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = arguments::topic)] topic: &str,
        value: Option<&Bound<'_, PyAny>>,
        key: Option<&Bound<'_, PyAny>>,
        #[pyo3(from_py_with = arguments::partition)] partition: Option<i32>,
        #[pyo3(from_py_with = arguments::timestamp_ms)] timestamp_ms: Option<i64>,
        headers: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Bound<'py, Pending>> {
        let (value, key, headers) = convert_arguments(value, key, headers)?;
        let headers = headers.parts();
        let record = record(&value, &key, partition, timestamp_ms, &headers);
        self.failures.before_send(py, &self.client)?;
        let pending = self.client.send(topic, record)?;
        self.delivery(py, pending)
    }

    /// Sends values from index `start` while there is room. Returns the index of the first value that was not sent.
    #[pyo3(name = "_send_values", signature = (topic, values, keys, partition, start))]
    fn send_values(
        &self,
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
            // Reading an item may run Python code (it exports its buffer), so it happens before the producer is locked.
            chunk.clear();
            for i in next..length.min(next + CHUNK) {
                let key = keys.as_ref().map_or(Ok(None), |keys| keys.get(i))?;
                chunk.push((key, values.get(i)?));
            }
            let (sent, is_enough) = self.append(topic, partition, &chunk)?;
            next += sent;
            if is_enough {
                break;
            }
        }
        Ok(next)
    }

    /// Sends rows of Arrow data while there is room. Returns whether it sent all rows.
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
            send_rows(&self.client, topic, &mut cursor)
        });
        match stopped {
            Ok(()) => Ok(true),
            Err(SendStopReason::Full) => Ok(false),
            Err(SendStopReason::Data(why)) => Err(argument(py, &why.message, why.hint.as_deref())),
            Err(SendStopReason::Client(e)) => Err(e.into()),
        }
    }

    /// Waits until the buffer has room, at most `max.block.ms`, or until the network has caught up.
    ///
    /// `done` is the number of records that the bulk call has already sent, for the error message.
    #[pyo3(name = "_wait_for_room", signature = (done))]
    fn wait_for_room(&self, py: Python<'_>, done: usize) -> PyResult<()> {
        self.client.check()?;
        if self.client.is_paced() && self.client.has_room() {
            py.detach(|| self.client.pause());
            return Ok(());
        }
        self.check_may_wait(py, done)?;
        self.wait_until_room(py)
    }

    /// Returns the number of seconds that a bulk call may wait for the network to catch up.
    ///
    /// Returns None if the network has caught up, or if the buffer is full.
    #[pyo3(name = "_pause")]
    fn pause(&self) -> Option<f64> {
        (self.client.is_paced() && self.client.has_room()).then(|| PAUSE.as_secs_f64())
    }

    /// Lets the bulk call continue, although the network has not caught up.
    #[pyo3(name = "_run_ahead")]
    fn run_ahead(&self) {
        self.client.run_ahead();
    }

    /// Returns a future that waits for room and for the network to catch up. The future's result is False after the
    /// timeout.
    #[pyo3(name = "_room_future", signature = (done, timeout))]
    fn await_room<'py>(&self, py: Python<'py>, done: usize, timeout: f64) -> PyResult<Bound<'py, LoopFuture>> {
        self.client.check()?;
        self.check_may_wait(py, done)?;
        event_loop::wait_on(py, BufferRoom(self.client.clone()), Some(timeout))
    }

    /// Returns the error for a wait that timed out before the buffer had room.
    #[pyo3(name = "_room_timeout_error")]
    fn no_room_error(&self, py: Python<'_>) -> Py<PyAny> {
        self.room_timeout_error().into_value(py).into_any()
    }

    /// Whether a full buffer is an error immediately, without a wait.
    #[getter(_drops)]
    fn drops(&self) -> bool {
        self.client.drop_when_full()
    }

    /// Longest wait for room in seconds.
    #[getter(_max_block)]
    fn max_block(&self) -> f64 {
        self.client.max_block().as_secs_f64()
    }

    /// Timeout in seconds of a close after an interrupt.
    #[getter(_close_timeout)]
    fn close_timeout(&self) -> f64 {
        self.close_timeout
    }

    /// Timeout in seconds of a close to which the program passes no timeout.
    #[getter(_default_close_timeout)]
    fn default_close_timeout(&self) -> f64 {
        self.default_close_timeout
    }

    /// Waits until all records sent so far are delivered or have failed.
    #[pyo3(name = "_flush")]
    fn flush(&self) -> PyResult<Pending> {
        self.call("end of the flush", client::Producer::flush)
    }

    /// Calls `on_error` for new failures. With `take`, also returns all failures since the last call with `take`.
    ///
    /// A failure is an exception and the number of records that have failed with this exception.
    #[pyo3(name = "_failures", signature = (take))]
    fn failures(&self, py: Python<'_>, take: bool) -> PyResult<Vec<(Py<PyAny>, u64)>> {
        self.failures.report(py, &self.client)?;
        Ok(if take { self.failures.take() } else { Vec::new() })
    }

    /// Reports the failure of a record whose result the program does not take. Returns False if no later call can report
    /// the failure.
    #[pyo3(name = "_note_failure", signature = (error))]
    fn note_failure(&self, py: Python<'_>, error: Py<PyAny>) -> PyResult<bool> {
        if self.client.check().is_err() || !self.client.awaits_failures() {
            return Ok(false);
        }
        self.failures.add(py, vec![(error, 1)]).map(|()| true)
    }

    /// Prepares the producer for transactions.
    #[pyo3(name = "_init_transactions")]
    fn init_transactions(&self) -> PyResult<Pending> {
        self.call("producer id for transactions", client::Producer::init_transactions)
    }

    /// Opens a transaction.
    #[pyo3(name = "_begin_transaction")]
    fn begin_transaction(&self) -> PyResult<()> {
        self.client.begin_transaction()?;
        self.failures.keep();
        self.consumers.begin();
        Ok(())
    }

    /// Binds a consumer to the transactions of this producer. The consumer returns to the records of each transaction
    /// that aborts.
    #[pyo3(name = "_bind_consumer", signature = (consumer))]
    fn bind_consumer(&self, consumer: &ConsumerCore) {
        self.consumers.bind(&consumer.client, &consumer.buffer);
    }

    /// Releases a consumer from the transactions of this producer.
    #[pyo3(name = "_release_consumer", signature = (consumer))]
    fn release_consumer(&self, consumer: &ConsumerCore) {
        self.consumers.unbind(&consumer.client);
    }

    /// Makes the bound consumers return to their uncommitted records, because no transaction will commit their offsets.
    #[pyo3(name = "_rewind_consumers")]
    fn rewind_consumers(&self) {
        self.consumers.rewind();
    }

    /// Makes the bound consumers wait until the result of the running commit is known.
    #[pyo3(name = "_hold_consumers")]
    fn hold_consumers(&self) {
        self.consumers.hold();
    }

    /// Commits or aborts the transaction. First adds the offsets of a consumer, if there are any.
    #[pyo3(name = "_end_transaction", signature = (commit, offsets=None))]
    fn end_transaction(&self, commit: bool, offsets: Option<ConsumerOffsets>) -> PyResult<Pending> {
        if let Some((group, offsets, consumer)) = offsets {
            // If the producer cannot add the offsets, then the end of the transaction fails with the same error.
            let _ = self.consumers.commit_offsets(group, offsets, Some(consumer.get()));
        }
        let pending = self.client.end_transaction(commit);
        // The end of the transaction reports why records failed, so flushing and closing do not report it again.
        self.failures.drop_kept();
        if !commit || pending.is_err() {
            self.consumers.rewind();
        }
        let pending = if commit { self.consumers.follow(pending?) } else { pending? };
        Ok(Pending::empty("end of the transaction", self.any(), pending))
    }

    /// Aborts the open transaction. Returns None if none is open.
    #[pyo3(name = "_abort_transaction")]
    fn abort_transaction(&self) -> Option<Pending> {
        let abort = self.client.abort_transaction()?;
        self.consumers.rewind();
        Some(Pending::empty("end of the transaction", self.any(), abort))
    }

    /// Makes an open transaction end in an abort, because the producer could not send one of its records.
    #[pyo3(name = "_fail_transaction", signature = (why))]
    fn fail_transaction(&self, why: &str) {
        self.client.fail_transaction(&Error::new(ErrorKind::Aborted, format!("a record could not be sent: {why}")));
    }

    /// Adds a group's offsets to the transaction.
    #[pyo3(name = "_commit_offsets", signature = (group, offsets, consumer=None))]
    fn commit_offsets(
        &self,
        group: GroupMetadata,
        offsets: Vec<OffsetToCommit>,
        consumer: Option<Py<ConsumerCore>>,
    ) -> PyResult<Pending> {
        let pending = self.consumers.commit_offsets(group, offsets, consumer.as_ref().map(Py::get))?;
        Ok(Pending::empty("commit of offsets in the transaction", self.any(), pending))
    }

    /// Returns the partitions of a topic.
    #[pyo3(name = "_partitions_for", signature = (topic))]
    fn partitions_for(&self, #[pyo3(from_py_with = arguments::topic)] topic: &str) -> PyResult<Pending> {
        let (topic_index, pending) = self.client.partitions_for(topic)?;
        let (operation, client) = (format!("metadata of topic {topic:?}"), self.client.clone());
        Ok(Pending::explained(operation, self.any(), pending, int_list, move || client.why(topic_index)))
    }

    /// Closes the client, and drops the records that it has not sent when the timeout has passed.
    ///
    /// `waited` is the number of seconds that the caller has already waited, for the error message.
    #[pyo3(name = "_close", signature = (timeout, waited=0.0))]
    fn close(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arguments::timeout)] timeout: Option<f64>,
        waited: f64,
    ) -> PyResult<()> {
        event_loop::forget(py, &(self.client.clone() as _))?;
        let Ok(flush) = self.client.flush() else { return Ok(()) };
        // A callback cannot wait: the deliveries that it would wait for complete after it has returned.
        let waiting = self.client.may_wait();
        let timeout = if waiting.is_ok() { timeout.unwrap_or(self.default_close_timeout) } else { 0.0 };
        let end = Deadline::after(Some(timeout));
        let abort = self.client.abort_transaction();
        if abort.is_some() {
            self.consumers.rewind();
        }
        let aborted = abort.map_or(Ok(true), |abort| wait_for(py, end, |slice| abort.wait(slice)));
        let is_flushed = aborted.and_then(|_| wait_for(py, end, |slice| flush.wait(slice)));
        let (unsent, topics) = (self.client.outstanding(), self.client.outstanding_by_topic());
        py.detach(|| self.client.end());
        if is_flushed? || unsent == 0 {
            return Ok(());
        }
        let seconds = timeout + waited;
        let records = records_were(unsent);
        let message = format!("{records} still in flight when the producer was closed after {seconds} s: {topics}");
        Err(exception(py, "KafkaTimeoutError", &message, Some("increase the timeout, or call flush() first")))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.failures.traverse(&visit)?;
        self.callbacks.traverse(&visit)
    }

    /// Returns the number of records in flight or in the buffer, or 0 if the client is closed.
    #[pyo3(name = "_outstanding")]
    fn outstanding(&self) -> u64 {
        if self.client.check().is_ok() { self.client.outstanding() } else { 0 }
    }
}

impl ProducerCore {
    fn call(
        &self,
        operation: &'static str,
        f: impl FnOnce(&client::Producer) -> Result<client::Pending<()>, Error>,
    ) -> PyResult<Pending> {
        let pending = f(&self.client)?;
        Ok(Pending::empty(operation, self.any(), pending))
    }

    /// Returns the delivery of a record, with the callbacks of the producer.
    #[inline]
    fn delivery<'py>(
        &self,
        py: Python<'py>,
        pending: client::Pending<client::RecordMetadata>,
    ) -> PyResult<Bound<'py, Pending>> {
        let delivery = Bound::new(py, Pending::delivery(pending, self.client.clone()))?;
        self.callbacks.add_to(&delivery);
        Ok(delivery)
    }

    /// Appends records under one lock while there is room. Returns the number of appended records, and whether the
    /// caller should pause.
    fn append(&self, topic: &str, partition: Option<i32>, chunk: &[KeyAndValue<'_>]) -> Result<(usize, bool), Error> {
        let mut records = Vec::with_capacity(chunk.len());
        for (key, value) in chunk {
            let (key, value) = (key.as_ref().map(|k| k.as_bytes()), value.as_ref().map(|v| v.as_bytes()));
            records.push(NewRecord {
                partition,
                timestamp: NOW,
                has_explicit_timestamp: false,
                key,
                value,
                headers: &[],
            });
        }
        let mut appender = self.client.batch()?;
        let topic = appender.topic(topic)?;
        match appender.send_many(topic, &mut records) {
            (sent, Ok(())) => Ok((sent, appender.is_ahead())),
            (sent, Err(e)) if e.kind() == ErrorKind::BufferFull => Ok((sent, true)),
            (_, Err(e)) => Err(e),
        }
    }
}

type KeyAndValue<'py> = (Option<Bound<'py, PyBytes>>, Option<Bound<'py, PyBytes>>);

/// Converts the arguments of a record.
#[inline]
#[allow(clippy::type_complexity)]
fn convert_arguments<'a, 'py>(
    value: Option<&'a Bound<'py, PyAny>>,
    key: Option<&'a Bound<'py, PyAny>>,
    headers: Option<&'a Bound<'py, PyAny>>,
) -> PyResult<(Option<BytesLike<'a, 'py>>, Option<BytesLike<'a, 'py>>, Headers<'py>)> {
    Ok((BytesLike::optional("value", value)?, BytesLike::optional("key", key)?, Headers::new(headers)?))
}

#[inline]
fn record<'a>(
    value: &'a Option<BytesLike<'_, '_>>,
    key: &'a Option<BytesLike<'_, '_>>,
    partition: Option<i32>,
    timestamp: Option<i64>,
    headers: &'a [Header<'a>],
) -> NewRecord<'a> {
    let (key, value) = (key.as_ref().map(BytesLike::as_bytes), value.as_ref().map(BytesLike::as_bytes));
    NewRecord { partition, timestamp: timestamp.unwrap_or(NOW), has_explicit_timestamp: false, key, value, headers }
}

/// The key of the callback for problems of the client.
const ERROR_CB: &str = "error_cb";

/// Number of records that are appended under one lock. The number is large enough to make the lock cheap. The I/O
/// thread waits only about 15 microseconds, and the references fit into the L1 cache.
const CHUNK: usize = 256;
