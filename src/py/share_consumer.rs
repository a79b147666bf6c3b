//! [`ShareConsumerCore`]: the base class of `ShareConsumer` and `AsyncShareConsumer`.
//!
//! The class holds the records of a fetch until the program consumes them, one by one or as a batch. With implicit
//! acknowledgement, the class accepts a record when the program asks for the next record, unless the program has
//! acknowledged the record itself. The client fetches records and sends acknowledgements.

use super::client::ClientCore;
use super::deadline::{Cutoff, Deadline, LEAST_CLOSE, wait_for};
use super::error::{exception, not_end_of_loop};
use super::event_loop;
use super::login_mailbox;
use super::loop_future::LoopFuture;
use super::pending::Pending;
use super::record::{Record, RecordRange};
use super::records::{Records, ranges_of};
use super::wait_source::RecordWait;
use super::{arguments, config};
use crate::api::ErrorCode;
use crate::client::{self, AckResults, Acknowledgement, AnyClient, ClientType, Error};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The records that the client has acquired for the program.
#[derive(Default)]
struct AcquiredRecords {
    /// Records that the program has not consumed.
    waiting: VecDeque<RecordRange>,
    /// Records that the program has consumed and may still be processing.
    delivered: Vec<RecordRange>,
    /// Whether the program consumed the records as a batch. A batch counts as processed as a whole.
    as_whole: bool,
}

impl AcquiredRecords {
    fn next(&mut self) -> Option<Record> {
        loop {
            let part = self.waiting.front_mut()?;
            let Some(index) = part.range.next() else {
                self.waiting.pop_front();
                continue;
            };
            match self.delivered.last_mut().filter(|g| Arc::ptr_eq(&g.slice, &part.slice) && g.range.end == index) {
                Some(delivered) => delivered.range.end = index + 1,
                None => self.delivered.push(RecordRange { slice: part.slice.clone(), range: index..index + 1 }),
            }
            self.as_whole = false;
            return Some(Record::new(part.slice.clone(), index));
        }
    }

    fn take(&mut self, max_records: usize) -> Vec<RecordRange> {
        let (mut remaining, mut parts) = (max_records, Vec::new());
        while remaining > 0
            && let Some(part) = self.waiting.front_mut()
        {
            let end = part.range.end.min(part.range.start.saturating_add(remaining));
            let consumed = RecordRange { slice: part.slice.clone(), range: part.range.start..end };
            part.range.start = end;
            if part.range.is_empty() {
                self.waiting.pop_front();
            }
            remaining -= consumed.range.len();
            if !consumed.range.is_empty() {
                parts.push(consumed);
            }
        }
        self.delivered.extend(parts.iter().cloned());
        self.as_whole = true;
        parts
    }

    /// Takes back the last records, which the program did not get after all.
    fn put_back(&mut self, parts: &[RecordRange]) {
        for part in parts.iter().rev() {
            let is_end = |d: &&mut RecordRange| Arc::ptr_eq(&d.slice, &part.slice) && d.range.end == part.range.end;
            let Some(delivered) = self.delivered.last_mut().filter(is_end) else { return };
            delivered.range.end = part.range.start;
            if delivered.range.is_empty() {
                self.delivered.pop();
            }
            match self.waiting.front_mut() {
                Some(next) if Arc::ptr_eq(&next.slice, &part.slice) => next.range.start = part.range.start,
                _ => self.waiting.push_front(part.clone()),
            }
        }
    }
}

/// The base class of the share consumers.
#[pyclass(extends = ClientCore, subclass, frozen, generic, name = "ShareConsumer", module = "klamm")]
pub(super) struct ShareConsumerCore {
    client: Arc<client::ShareConsumer>,
    max_poll_records: usize,
    explicit: bool,
    close_timeout: f64,
    default_close_timeout: f64,
    cutoff: Cutoff,
    buffer: Mutex<AcquiredRecords>,
    /// The callback `on_acknowledged`.
    listener: Mutex<Option<Py<PyAny>>>,
}

impl ShareConsumerCore {
    fn check(&self) -> PyResult<()> {
        Ok(self.client.check()?)
    }

    /// Locks the acquired records. A thread keeps this lock only briefly, and does not release the interpreter while it
    /// has the lock.
    fn buffer(&self) -> MutexGuard<'_, AcquiredRecords> {
        self.buffer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn acknowledge_part(&self, part: &RecordRange, kind: Acknowledgement) -> PyResult<usize> {
        let offsets = part.records().iter().map(|r| r.offset);
        let (topic, partition) = (&part.slice.topic, part.slice.partition);
        Ok(self.client.acknowledge(topic, partition, offsets, kind)?)
    }

    /// Accepts all consumed records, or all but the last record or batch.
    fn accept(&self, all: bool) -> PyResult<()> {
        let (mut delivered, as_whole) = {
            let mut buffer = self.buffer();
            (std::mem::take(&mut buffer.delivered), buffer.as_whole)
        };
        if self.explicit || as_whole && !all {
            return Ok(());
        }
        if let (false, Some(last)) = (all, delivered.last_mut()) {
            last.range.end -= 1;
        }
        delivered.iter().try_for_each(|part| self.acknowledge_part(part, Acknowledgement::Accept).map(drop))
    }

    /// Takes the next records from the client without waiting. Returns whether there were any records.
    fn try_fetch(&self, py: Python<'_>) -> PyResult<bool> {
        self.run_callback(py)?;
        self.accept(true)?;
        if self.explicit {
            match self.client.unacknowledged()? {
                0 => {}
                left => {
                    let message =
                        format!("{left} records were not acknowledged, which explicit acknowledgement requires");
                    let hint = "acknowledge every record before the next poll, and renew those that need more time";
                    return Err(exception(py, "ConfigError", &message, Some(hint)));
                }
            }
        }
        let slices = self.client.try_poll(self.max_poll_records)?;
        let mut buffer = self.buffer();
        buffer
            .waiting
            .extend(slices.into_iter().map(|s| RecordRange { range: 0..s.records.len(), slice: Arc::new(s) }));
        Ok(!buffer.waiting.is_empty())
    }

    fn fetch(&self, py: Python<'_>, end: Deadline) -> PyResult<bool> {
        loop {
            if self.try_fetch(py)? {
                return Ok(true);
            }
            if end.left().is_zero() {
                return Ok(false);
            }
            if end.is_never() {
                self.check_has_source(py)?;
            }
            py.check_signals()?;
            // Another thread may unsubscribe during the wait.
            let is_over = |slice| self.client.wait_for_records(slice) || end.is_never() && self.client.reads_nothing();
            wait_for(py, end, is_over)?;
        }
    }

    /// Fails if a wait without a timeout could never end.
    fn check_has_source(&self, py: Python<'_>) -> PyResult<()> {
        if !self.client.reads_nothing() {
            return Ok(());
        }
        let message = "the consumer has no topics to read, so it would wait for ever";
        Err(exception(py, "ConfigError", message, Some("call subscribe() first")))
    }

    fn next_record(&self, py: Python<'_>) -> PyResult<Option<Record>> {
        loop {
            let next = self.buffer().next();
            if next.is_some() {
                return Ok(next);
            }
            self.check()?;
            self.fetch(py, Deadline::after(None))?;
        }
    }

    /// Calls `on_acknowledged` with the results of acknowledgements.
    fn run_callback(&self, py: Python<'_>) -> PyResult<()> {
        let Some(listener) =
            self.listener.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(|l| l.clone_ref(py))
        else {
            return Ok(());
        };
        let acknowledged = self.client.take_results()?;
        if acknowledged.is_empty() {
            return Ok(());
        }
        listener.call1(py, (results(py, acknowledged)?,)).map(drop)
    }
}

/// Returns a dict from TopicPartition to an exception or None.
fn results(py: Python<'_>, acknowledged: AckResults) -> PyResult<Py<PyAny>> {
    let results = PyDict::new(py);
    for (partition, error) in acknowledged {
        let error = error.map(|e| PyErr::from(e).into_value(py));
        results.set_item(&partition, error)?;
    }
    Ok(results.into_any().unbind())
}

#[pymethods]
impl ShareConsumerCore {
    #[new]
    #[pyo3(signature = (bootstrap_servers=None, group_id=None, topics=None, **config))]
    fn new(
        py: Python<'_>,
        bootstrap_servers: Option<&Bound<'_, PyAny>>,
        #[pyo3(from_py_with = arguments::group_id)] group_id: Option<&str>,
        topics: Option<&Bound<'_, PyAny>>,
        config: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<PyClassInitializer<Self>> {
        let keywords = config.cloned().unwrap_or_else(|| PyDict::new(py));
        if let Some(group_id) = group_id {
            keywords.set_item("group_id", group_id)?;
        }
        let (config, servers, login, log_target) =
            config::parse(py, ClientType::ShareConsumer, bootstrap_servers, Some(&keywords))?;
        let client = Arc::new(client::ShareConsumer::new(&config)?);
        login_mailbox::start(py, client.login_mailbox(), login)?;
        let base = ClientCore::new(client.clone(), "a share consumer", servers, log_target);
        let this = Self {
            client,
            max_poll_records: config.max_poll_records(),
            explicit: config.acknowledges_explicitly(),
            close_timeout: config.close_timeout().as_secs_f64(),
            default_close_timeout: config.default_close_timeout().as_secs_f64(),
            cutoff: Cutoff::default(),
            buffer: Mutex::default(),
            listener: Mutex::default(),
        };
        if let Some(topics) = topics.filter(|t| !t.is_none()) {
            this.subscribe(topics)?;
        }
        Ok(PyClassInitializer::from(base).add_subclass(this))
    }

    /// Sets the callback `on_acknowledged`.
    #[pyo3(name = "_listen", signature = (listener))]
    fn listen(&self, py: Python<'_>, listener: Option<Py<PyAny>>) -> PyResult<()> {
        if let Some(listener) = &listener {
            arguments::function("on_acknowledged", listener.bind(py))?;
        }
        *self.listener.lock().unwrap_or_else(PoisonError::into_inner) = listener;
        Ok(())
    }

    #[pyo3(name = "_subscribe", signature = (topics))]
    fn subscribe(&self, topics: &Bound<'_, PyAny>) -> PyResult<()> {
        self.check()?;
        Ok(self.client.subscribe(arguments::topics(topics)?)?)
    }

    #[pyo3(name = "_unsubscribe")]
    fn unsubscribe(&self) -> PyResult<()> {
        Ok(self.client.unsubscribe()?)
    }

    #[pyo3(name = "_subscription")]
    fn subscription(&self) -> PyResult<Vec<String>> {
        let topics = self.client.subscription()?;
        Ok(topics.iter().map(ToString::to_string).collect())
    }

    /// Returns the group and the member ID.
    #[pyo3(name = "_member")]
    fn member(&self) -> PyResult<(String, String)> {
        Ok((self.client.group().to_owned(), self.client.member_id()?))
    }

    /// Returns the iterator of `for record in consumer`.
    #[pyo3(name = "_records")]
    fn records(slf: &Bound<'_, Self>) -> ShareRecordIterator {
        ShareRecordIterator { consumer: slf.clone().unbind() }
    }

    /// Returns the next record, or None if the caller has to wait.
    #[pyo3(name = "_try_next")]
    fn try_next(&self, py: Python<'_>) -> PyResult<Option<Record>> {
        let mut next = self.buffer().next();
        if next.is_none() {
            self.check()?;
            self.try_fetch(py).map_err(|error| not_end_of_loop(py, error))?;
            next = self.buffer().next();
        }
        Ok(next)
    }

    /// Returns up to `max_records` records. Waits up to `timeout` seconds for the first record.
    #[pyo3(name = "_poll", signature = (timeout, max_records))]
    fn poll(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arguments::timeout)] timeout: Option<f64>,
        #[pyo3(from_py_with = arguments::max_records)] max_records: Option<usize>,
    ) -> PyResult<Records> {
        self.check()?;
        self.accept(true)?;
        let most = max_records.unwrap_or(self.max_poll_records);
        if self.buffer().waiting.is_empty() {
            self.fetch(py, Deadline::after(timeout))?;
        }
        Ok(Records::new(self.buffer().take(most)))
    }

    /// Takes back a record or the records of a poll, which the program did not get after all. The poll is not over.
    #[pyo3(name = "_put_back", signature = (records))]
    fn put_back(&self, records: &Bound<'_, PyAny>) -> PyResult<()> {
        let parts = ranges_of(records)?;
        self.client.note_poll(true);
        self.buffer().put_back(&parts);
        Ok(())
    }

    /// Returns a future that waits for records or an error. The future's result is False after the timeout.
    #[pyo3(name = "_ready", signature = (timeout))]
    fn ready<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = arguments::timeout)] timeout: Option<f64>,
    ) -> PyResult<Bound<'py, LoopFuture>> {
        self.check()?;
        let has_timeout = timeout.is_some();
        if !has_timeout {
            self.check_has_source(py)?;
        }
        event_loop::wait_on(py, RecordWait { client: self.client.clone(), has_timeout }, timeout)
    }

    /// Acknowledges a record, or all records of a poll.
    #[pyo3(name = "_acknowledge", signature = (records, kind))]
    fn acknowledge(
        &self,
        py: Python<'_>,
        records: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = arguments::acknowledge_type)] kind: &str,
    ) -> PyResult<()> {
        self.check()?;
        let Some((_, kind)) = Acknowledgement::ALL.into_iter().find(|(name, _)| *name == kind) else {
            let names: Vec<&str> = Acknowledgement::ALL.iter().map(|(name, _)| *name).collect();
            let message = format!("acknowledge_type cannot be {kind:?}");
            return Err(exception(py, "ConfigError", &message, Some(&format!("allowed: {}", names.join(", ")))));
        };
        if let Ok(records) = records.cast::<Records>() {
            let records = records.get();
            let mut acknowledged = 0;
            for part in records.ranges() {
                acknowledged += self.acknowledge_part(part, kind)?;
            }
            return if acknowledged == records.len() { Ok(()) } else { Err(not_acquired("some of these records")) };
        }
        let Ok(record) = records.cast::<Record>() else {
            return Err(arguments::of_type("records", records, "a Record or the Records of a poll", None));
        };
        let record = record.get();
        let (topic, partition, offset) = record.position();
        let acknowledged = self.client.acknowledge(topic, partition, [offset].into_iter(), kind);
        match acknowledged? {
            0 => Err(not_acquired(&format!("record {offset} of {topic}-{partition}"))),
            _ => Ok(()),
        }
    }

    /// Sends all acknowledgements and returns their results. With implicit acknowledgement, first accepts the consumed
    /// records.
    #[pyo3(name = "_commit")]
    fn commit(&self) -> PyResult<Pending> {
        self.check()?;
        self.accept(true)?;
        let pending = self.client.commit()?;
        Ok(Pending::new("result of the acknowledgements", self.client.clone(), pending, results))
    }

    /// Returns the duration of the acquisition lock in seconds, or None before the first fetch.
    #[pyo3(name = "_lock")]
    fn lock(&self) -> PyResult<Option<f64>> {
        Ok(self.client.lock()?.map(|lock| lock.as_secs_f64()))
    }

    /// Closes the client. `handled` says whether the program has processed the last record. With None, the close
    /// accepts no record.
    #[pyo3(name = "_close", signature = (timeout, handled))]
    fn close(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arguments::timeout)] timeout: Option<f64>,
        handled: Option<bool>,
    ) -> PyResult<()> {
        if self.client.check().is_err() {
            return Ok(());
        }
        let accepted = handled.map_or(Ok(()), |handled| self.accept(handled));
        let end = Deadline::after(Some(timeout.unwrap_or(self.default_close_timeout))).at_least(LEAST_CLOSE);
        let has_left = |slice| self.client.wait_until_left(slice) || self.cutoff.is_over();
        let has_left_group = match self.client.leave() {
            Ok(()) => wait_for(py, end, has_left),
            Err(_) => Ok(false),
        };
        let called = self.run_callback(py);
        py.detach(|| self.client.end());
        accepted.and(called)?;
        has_left_group.map(drop)
    }

    /// Makes a close that is running in another thread end after `seconds`.
    #[pyo3(name = "_hurry", signature = (seconds))]
    fn hurry(&self, seconds: f64) {
        self.cutoff.after(seconds);
    }

    /// Timeout in seconds of a close after an exception.
    #[getter(_close_timeout)]
    fn close_timeout(&self) -> f64 {
        self.close_timeout
    }
}

fn not_acquired(what: &str) -> PyErr {
    let error = Error::refused(ErrorCode::INVALID_RECORD_STATE, format!("acknowledge {what}"));
    error.with_hint("the records were acknowledged before, or another consumer acquired them").into()
}

/// The iterator of `for record in consumer`.
#[pyclass(frozen, generic, module = "klamm._klamm")]
pub(super) struct ShareRecordIterator {
    consumer: Py<ShareConsumerCore>,
}

#[pymethods]
impl ShareRecordIterator {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Record>> {
        self.consumer.get().next_record(py).map_err(|error| not_end_of_loop(py, error))
    }
}
