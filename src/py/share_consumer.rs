//! `ShareConsumerCore`: what the two share consumers have in common.
//!
//! What the client gives out of a fetch waits here until the program takes it, record by record or as a whole. With
//! implicit acknowledgement a record is accepted when the program asks for more, unless it said something else before.

use super::error::{exception, no_pickle, raise};
use super::event_loop::{self, Ready};
use super::parked::{News, Parked};
use super::pending::{Deadline, Origin, Pending, wait_for};
use super::record::{Part, Record, Records};
use super::tokens;
use super::{arguments, config};
use crate::api::ErrorCode;
use crate::client::{self, Acknowledgement, ClientType, Error, Outcomes, TopicPartition};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What was taken from the client.
#[derive(Default)]
struct Taken {
    /// What the program did not get yet.
    waiting: VecDeque<Part>,
    /// What it got and is not known to be done with.
    given: Vec<Part>,
    /// Whether it got that as a whole, and is done with all of it or nothing.
    as_whole: bool,
}

impl Taken {
    fn next(&mut self) -> Option<Record> {
        loop {
            let part = self.waiting.front_mut()?;
            let Some(index) = part.range.next() else {
                self.waiting.pop_front();
                continue;
            };
            match self.given.last_mut().filter(|g| Arc::ptr_eq(&g.slice, &part.slice) && g.range.end == index) {
                Some(given) => given.range.end = index + 1,
                None => self.given.push(Part { slice: part.slice.clone(), range: index..index + 1 }),
            }
            self.as_whole = false;
            return Some(Record::new(part.slice.clone(), index));
        }
    }

    fn take(&mut self, most: usize) -> Vec<Part> {
        let (mut left, mut parts) = (most, Vec::new());
        while left > 0
            && let Some(part) = self.waiting.front_mut()
        {
            let end = part.range.end.min(part.range.start.saturating_add(left));
            let taken = Part { slice: part.slice.clone(), range: part.range.start..end };
            part.range.start = end;
            if part.range.is_empty() {
                self.waiting.pop_front();
            }
            left -= taken.range.len();
            if !taken.range.is_empty() {
                parts.push(taken);
            }
        }
        self.given.extend(parts.iter().cloned());
        self.as_whole = true;
        parts
    }
}

/// The core of a share consumer.
#[pyclass(subclass, frozen, generic, module = "klamm._klamm")]
pub(super) struct ShareConsumerCore {
    client: Arc<client::ShareConsumer>,
    servers: String,
    /// Records of one poll, at most.
    most: usize,
    explicit: bool,
    taken: Mutex<Taken>,
    /// What wants to know what became of acknowledgements.
    listener: Mutex<Option<Py<PyAny>>>,
}

impl ShareConsumerCore {
    fn check(&self, py: Python<'_>) -> PyResult<()> {
        self.client.check().map_err(|e| raise(py, &e))
    }

    /// Each holder keeps it for a moment and never gives the interpreter away meanwhile.
    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn acknowledge_part(&self, py: Python<'_>, part: &Part, what: Acknowledgement) -> PyResult<usize> {
        let offsets = part.records().iter().map(|r| r.offset);
        let (topic, partition) = (&part.slice.topic, part.slice.partition);
        self.client.acknowledge(topic, partition, offsets, what).map_err(|e| raise(py, &e))
    }

    /// The program is done with all it got, or all but the last record or batch.
    fn settle(&self, py: Python<'_>, all: bool) -> PyResult<()> {
        let (mut given, as_whole) = {
            let mut taken = self.taken();
            (std::mem::take(&mut taken.given), taken.as_whole)
        };
        if self.explicit || as_whole && !all {
            return Ok(());
        }
        if let (false, Some(last)) = (all, given.last_mut()) {
            last.range.end -= 1;
        }
        given.iter().try_for_each(|part| self.acknowledge_part(py, part, Acknowledgement::Accept).map(drop))
    }

    /// The next records from the client, if there are any.
    fn try_fetch(&self, py: Python<'_>) -> PyResult<bool> {
        self.tell(py)?;
        self.settle(py, true)?;
        if self.explicit {
            match self.client.unacknowledged().map_err(|e| raise(py, &e))? {
                0 => {}
                left => {
                    let message = format!("{left} records were not acknowledged, with explicit acknowledgement");
                    let hint = "acknowledge every record before asking for more; renew those that need more time";
                    return Err(exception(py, "ConfigError", &message, Some(hint)));
                }
            }
        }
        let slices = self.client.try_poll(self.most).map_err(|e| raise(py, &e))?;
        let mut taken = self.taken();
        taken.waiting.extend(slices.into_iter().map(|s| Part { range: 0..s.records.len(), slice: Arc::new(s) }));
        Ok(!taken.waiting.is_empty())
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
                self.refuse_to_wait_for_nothing(py)?;
            }
            py.check_signals()?;
            wait_for(py, end, |slice| self.client.wait_for_records(slice))?;
        }
    }

    /// An error for who would wait for ever.
    fn refuse_to_wait_for_nothing(&self, py: Python<'_>) -> PyResult<()> {
        if !self.client.subscription().map_err(|e| raise(py, &e))?.is_empty() {
            return Ok(());
        }
        let message = "the consumer would wait for ever: it has no topics to read";
        Err(exception(py, "ConfigError", message, Some("subscribe first")))
    }

    fn next_record(&self, py: Python<'_>) -> PyResult<Option<Record>> {
        loop {
            let next = self.taken().next();
            if next.is_some() {
                return Ok(next);
            }
            self.check(py)?;
            self.fetch(py, Deadline::after(None))?;
        }
    }

    /// Tells the listener what became of acknowledgements.
    fn tell(&self, py: Python<'_>) -> PyResult<()> {
        let Some(listener) =
            self.listener.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(|l| l.clone_ref(py))
        else {
            return Ok(());
        };
        let outcomes = self.client.take_outcomes().map_err(|e| raise(py, &e))?;
        if outcomes.is_empty() {
            return Ok(());
        }
        listener.call1(py, (named(py, outcomes)?,)).map(drop)
    }
}

/// Outcomes as a dict from TopicPartition to an exception or None.
fn named(py: Python<'_>, outcomes: Outcomes) -> PyResult<Py<PyAny>> {
    let pair = |(TopicPartition { topic, partition }, error): (TopicPartition, Option<Error>)| {
        (topic.to_string(), partition, error.map(|e| raise(py, &e).into_value(py).into_any()))
    };
    let list = PyList::new(py, outcomes.into_iter().map(pair).collect::<Vec<_>>())?;
    Ok(py.import("klamm.share")?.call_method1("outcomes", (list,))?.unbind())
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
    ) -> PyResult<Self> {
        let keywords = config.cloned().unwrap_or_else(|| PyDict::new(py));
        if let Some(group_id) = group_id {
            keywords.set_item("group_id", group_id)?;
        }
        let (config, servers, login) =
            config::parse(py, ClientType::ShareConsumer, bootstrap_servers, Some(&keywords))?;
        let client = client::ShareConsumer::new(&config).map_err(|e| raise(py, &e))?;
        tokens::start(py, client.login_mailbox(), login)?;
        let this = Self {
            client: Arc::new(client),
            servers,
            most: config.max_poll_records(),
            explicit: config.acknowledges_explicitly(),
            taken: Mutex::default(),
            listener: Mutex::default(),
        };
        if let Some(topics) = topics.filter(|t| !t.is_none()) {
            this.subscribe(py, topics)?;
        }
        Ok(this)
    }

    /// Who is told what became of acknowledgements.
    #[pyo3(name = "_listen", signature = (listener))]
    fn listen(&self, py: Python<'_>, listener: Option<Py<PyAny>>) -> PyResult<()> {
        if let Some(listener) = &listener {
            arguments::function("on_acknowledged", listener.bind(py))?;
        }
        *self.listener.lock().unwrap_or_else(PoisonError::into_inner) = listener;
        Ok(())
    }

    #[pyo3(name = "_subscribe", signature = (topics))]
    fn subscribe(&self, py: Python<'_>, topics: &Bound<'_, PyAny>) -> PyResult<()> {
        self.check(py)?;
        self.client.subscribe(arguments::topics(topics)?).map_err(|e| raise(py, &e))
    }

    #[pyo3(name = "_unsubscribe")]
    fn unsubscribe(&self, py: Python<'_>) -> PyResult<()> {
        self.client.unsubscribe().map_err(|e| raise(py, &e))
    }

    #[pyo3(name = "_subscription")]
    fn subscription(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let topics = self.client.subscription().map_err(|e| raise(py, &e))?;
        Ok(topics.iter().map(ToString::to_string).collect())
    }

    /// Group and member id.
    #[pyo3(name = "_member")]
    fn member(&self, py: Python<'_>) -> PyResult<(String, String)> {
        Ok((self.client.group().to_owned(), self.client.member_id().map_err(|e| raise(py, &e))?))
    }

    /// The iterator of `for record in consumer`.
    #[pyo3(name = "_records")]
    fn records(slf: &Bound<'_, Self>) -> ShareRecordIterator {
        ShareRecordIterator { consumer: slf.clone().unbind() }
    }

    /// The next record if one is here: an awaitable that is done, or None where it has to be waited for.
    #[pyo3(name = "_next_ready")]
    fn next_ready<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, Ready>>> {
        let mut next = self.taken().next();
        if next.is_none() {
            self.check(py)?;
            self.try_fetch(py)?;
            next = self.taken().next();
        }
        next.map(|record| Ready::new(py, Py::new(py, record)?.into_any())).transpose()
    }

    /// At most so many records; waits up to `timeout` seconds for the first.
    #[pyo3(name = "_poll", signature = (timeout, max_records))]
    fn poll(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arguments::timeout)] timeout: Option<f64>,
        #[pyo3(from_py_with = arguments::max_records)] max_records: Option<usize>,
    ) -> PyResult<Records> {
        self.check(py)?;
        self.settle(py, true)?;
        let most = max_records.unwrap_or(self.most);
        if self.taken().waiting.is_empty() {
            self.fetch(py, Deadline::after(timeout))?;
        }
        Ok(Records::new(self.taken().take(most)))
    }

    /// Awaits records or an error, at most for so many seconds; whether there is one.
    #[pyo3(name = "_ready", signature = (timeout))]
    fn ready<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = arguments::timeout)] timeout: Option<f64>,
    ) -> PyResult<Bound<'py, Parked>> {
        self.check(py)?;
        if timeout.is_none() {
            self.refuse_to_wait_for_nothing(py)?;
        }
        event_loop::park(py, News::Shared(self.client.clone()), timeout)
    }

    /// Says what became of a record, or of several.
    #[pyo3(name = "_acknowledge", signature = (records, what))]
    fn acknowledge(
        &self,
        py: Python<'_>,
        records: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = arguments::acknowledge_type)] what: &str,
    ) -> PyResult<()> {
        self.check(py)?;
        let Some((_, what)) = Acknowledgement::ALL.into_iter().find(|(name, _)| *name == what) else {
            let names: Vec<&str> = Acknowledgement::ALL.iter().map(|(name, _)| *name).collect();
            let message = format!("records cannot be acknowledged as {what:?}");
            return Err(exception(py, "ConfigError", &message, Some(&format!("allowed: {}", names.join(", ")))));
        };
        if let Ok(records) = records.cast::<Records>() {
            let records = records.get();
            let mut known = 0;
            for part in records.parts() {
                known += self.acknowledge_part(py, part, what)?;
            }
            return if known == records.len() { Ok(()) } else { Err(not_in_hand(py, "some of these records")) };
        }
        let Ok(record) = records.cast::<Record>() else {
            return Err(arguments::of_type("records", records, "a Record or the Records of a poll", None));
        };
        let record = record.get();
        let (topic, partition, offset) = record.place();
        let known = self.client.acknowledge(topic, partition, [offset].into_iter(), what);
        match known.map_err(|e| raise(py, &e))? {
            0 => Err(not_in_hand(py, &format!("record {offset} of {topic}-{partition}"))),
            _ => Ok(()),
        }
    }

    /// What brokers say to all acknowledgements so far; everything given out counts as accepted with implicit ones.
    #[pyo3(name = "_commit")]
    fn commit(&self, py: Python<'_>) -> PyResult<Pending> {
        self.check(py)?;
        self.settle(py, true)?;
        let pending = self.client.commit().map_err(|e| raise(py, &e))?;
        Ok(Pending::new("answer to acknowledgements", Origin::ShareConsumer(self.client.clone()), pending, named))
    }

    /// How long records are the consumer's, seconds; None before the first fetch.
    #[pyo3(name = "_lock")]
    fn lock(&self, py: Python<'_>) -> PyResult<Option<f64>> {
        Ok(self.client.lock().map_err(|e| raise(py, &e))?.map(|lock| lock.as_secs_f64()))
    }

    /// Ends the client. `handled`: the last record given out was handled, too.
    #[pyo3(name = "_close", signature = (timeout, handled))]
    fn close(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arguments::timeout)] timeout: Option<f64>,
        handled: bool,
    ) -> PyResult<()> {
        if self.client.check().is_err() {
            return Ok(());
        }
        let settled = self.settle(py, handled);
        let end = Deadline::after(timeout);
        let left = match self.client.leave() {
            Ok(()) => wait_for(py, end, |slice| self.client.wait_until_left(slice)),
            Err(_) => Ok(false),
        };
        let told = self.tell(py);
        py.detach(|| self.client.end());
        settled.and(told)?;
        left.map(drop)
    }

    #[pyo3(name = "_is_closed")]
    fn is_closed(&self) -> bool {
        self.client.check().is_err()
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        Ok(format!("<klamm.{} of {}>", slf.get_type().name()?, slf.get().servers))
    }

    fn __reduce__(slf: &Bound<'_, Self>) -> PyResult<Py<PyAny>> {
        Err(no_pickle(slf.py(), "share consumer"))
    }
}

fn not_in_hand(py: Python<'_>, what: &str) -> PyErr {
    let error = Error::refused(ErrorCode::INVALID_RECORD_STATE, format!("acknowledge {what}"));
    raise(py, &error.with_hint("they were acknowledged before, or did not come from this consumer"))
}

/// `for record in consumer`.
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
        self.consumer.get().next_record(py)
    }
}
