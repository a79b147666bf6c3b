//! `ConsumerCore`: what the two consumer classes share, and the iterator behind `for record in consumer`, which makes a
//! record without a Python frame of its own.
//!
//! The client gives out slices of batches; what the program has not taken of them waits in `Taken`, and so positions are
//! counted there too. A record counts as finished with when the program asks for more, not when it gets it: offsets that
//! are committed by themselves never pass a record whose handling failed.

use super::commits::{self, Commits};
use super::error::{exception, no_pickle, raise};
use super::event_loop::{self, Ready};
use super::parked::{News, Parked};
use super::pending::{Deadline, Origin, Pending, wait_for};
use super::producer::list;
use super::record::{Record, Records};
use super::taken::{Chunk, Handled, Taken};
use super::tokens;
use super::{arguments, assignors, config};
use crate::client::{self, Assigned, ClientType, CommittedOffset, Error, Slice, TopicPartition};
use pyo3::exceptions::PyStopAsyncIteration;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A partition as Python names it.
pub(super) type Place = (String, i32);

/// The core of a consumer.
#[pyclass(subclass, frozen, generic, module = "klamm._klamm")]
pub(super) struct ConsumerCore {
    pub(super) client: Arc<client::Consumer>,
    servers: String,
    /// Records of one poll, at most.
    most: usize,
    taken: Mutex<Taken>,
    pub(super) commits: Commits,
    /// What wants to know of partitions that come and go.
    pub(super) listener: Mutex<Option<Py<PyAny>>>,
    /// Whether changes are followed by Python, which may have to await the listener.
    pub(super) defers: AtomicBool,
    /// Whether the client's thread may call Python, for an assignor.
    calls_python: bool,
}

impl Drop for ConsumerCore {
    fn drop(&mut self) {
        // The end of the client's thread is waited for, which may wait for the interpreter.
        if self.calls_python && Arc::strong_count(&self.client) == 1 {
            Python::try_attach(|py| py.detach(|| self.client.end()));
        }
    }
}

/// How waiting for records ended.
#[derive(PartialEq)]
enum Fetched {
    Records,
    /// Every partition with an end has reached it.
    End,
    Nothing,
}

impl ConsumerCore {
    fn origin(&self) -> Origin {
        Origin::Consumer(self.client.clone())
    }

    fn pending_commit(&self, pending: client::Pending<()>) -> Pending {
        let client = self.client.clone();
        Pending::explained("commit", self.origin(), pending, |py, ()| Ok(py.None()), move || client.why_not_committed())
    }

    #[inline]
    fn check(&self, py: Python<'_>) -> PyResult<()> {
        self.client.check().map_err(|e| raise(py, &e))
    }

    /// Each holder keeps it for a moment and never gives the interpreter away meanwhile.
    #[inline]
    pub(super) fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has partitions that stay go on with what the program has not got of them; what was taken is to be dropped then.
    fn give_back<'a>(&self, partitions: impl Iterator<Item = (&'a str, i32)>) {
        let taken = self.taken();
        for (topic, partition) in partitions {
            if let Some(offset) = taken.position(topic, partition) {
                self.client.rewind(topic, partition, offset);
            }
        }
    }

    /// Drops what was taken, after a new assignment.
    fn leave(&self) {
        *self.taken() = Taken::default();
    }

    /// An error for who would wait for ever.
    fn refuse_to_wait_for_nothing(&self, py: Python<'_>) -> PyResult<()> {
        if !self.client.reads_nothing() {
            return Ok(());
        }
        let message = "the consumer would wait for ever: it has neither topics nor partitions to read";
        Err(exception(py, "ConfigError", message, Some("subscribe or assign first")))
    }

    /// Takes what the client has, without waiting.
    fn try_fetch(&self, py: Python<'_>, most: usize, bytes: usize) -> PyResult<Fetched> {
        let slices = self.client.try_poll(most, bytes).map_err(|e| raise(py, &e))?;
        if slices.is_empty() {
            return Ok(if self.client.is_finished() { Fetched::End } else { Fetched::Nothing });
        }
        Ok(if self.keep(slices) { Fetched::Records } else { Fetched::Nothing })
    }

    /// Keeps what the client gave; whether there is a record.
    fn keep(&self, slices: Vec<Slice>) -> bool {
        let mut taken = self.taken();
        taken.chunks.extend(slices.into_iter().filter(|s| !s.records.is_empty()).map(Chunk::new));
        !taken.chunks.is_empty()
    }

    /// The same, waiting until `end`.
    fn fetch(&self, py: Python<'_>, end: Deadline, most: usize, bytes: usize) -> PyResult<Fetched> {
        loop {
            self.follow(py)?;
            let fetched = self.try_fetch(py, most, bytes)?;
            if fetched != Fetched::Nothing || end.left().is_zero() {
                return Ok(fetched);
            }
            let _waiting = self.client.may_wait().map_err(|e| raise(py, &e))?;
            if end.is_never() {
                self.refuse_to_wait_for_nothing(py)?;
            }
            py.check_signals()?;
            wait_for(py, end, |slice| self.client.wait_for_records(slice) || self.commits.is_due())?;
        }
    }

    #[inline]
    fn next_record(&self, py: Python<'_>) -> PyResult<Option<Record>> {
        self.client.note_progress();
        loop {
            self.follow(py)?;
            let next = self.taken().next(&self.client);
            if next.is_some() {
                return Ok(next);
            }
            self.check(py)?;
            if self.fetch(py, Deadline::after(None), usize::MAX, CHUNK_BYTES)? == Fetched::End {
                return Ok(None);
            }
        }
    }

    /// What Python gives to commit; else what is behind every record given out.
    fn to_commit(&self, given: Option<Vec<commits::Given>>) -> Result<Vec<CommittedOffset>, Error> {
        if let Some(given) = given {
            return Ok(given.into_iter().map(commits::offset).collect());
        }
        self.taken().finish(&self.client, Handled::All);
        self.offsets_given_out()
    }

    /// What is behind every record given out, with the leader epochs that are known. Where the program has not taken all, it is
    /// before where the client is, unless that went back since.
    fn offsets_given_out(&self) -> Result<Vec<CommittedOffset>, Error> {
        let taken = self.taken();
        let positions = taken.positions();
        let offsets = self.client.given_out()?;
        if positions.is_empty() {
            return Ok(offsets);
        }
        let place = |o: &CommittedOffset| {
            let offset = positions.get(&(&*o.topic, o.partition)).map_or(o.offset, |offset| o.offset.min(*offset));
            (o.topic.clone(), o.partition, offset)
        };
        self.client.with_epochs(offsets.iter().map(place).collect())
    }

    /// At most `most` records of what is here, taking more from the client as long as it has some.
    fn gather(&self, py: Python<'_>, most: usize, bytes: usize) -> PyResult<Records> {
        let (mut parts, mut rows, mut size) = (Vec::new(), 0, 0);
        loop {
            for part in self.taken().take(most - rows, bytes - size) {
                rows += part.range.len();
                size += part.size();
                parts.push(part);
            }
            if rows >= most || size >= bytes {
                return Ok(Records::new(parts));
            }
            let more = if parts.is_empty() {
                self.try_fetch(py, most, bytes)? == Fetched::Records
            } else {
                self.keep(self.client.try_more(most - rows, bytes - size))
            };
            if !more {
                return Ok(Records::new(parts));
            }
        }
    }
}

#[pymethods]
impl ConsumerCore {
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
        let assignors = assignors::take_assignors(bootstrap_servers, &keywords)?;
        let calls_python = !assignors.is_empty();
        let (config, servers, login) =
            config::parse_with(py, ClientType::Consumer, bootstrap_servers, Some(&keywords), assignors)?;
        let most = config.max_poll_records();
        let client = client::Consumer::new(&config).map_err(|e| raise(py, &e))?;
        tokens::start(py, client.login_mailbox(), login)?;
        let this = Self {
            client: Arc::new(client),
            servers,
            most,
            taken: Mutex::default(),
            commits: Commits::default(),
            listener: Mutex::default(),
            defers: AtomicBool::new(false),
            calls_python,
        };
        if let Some(topics) = topics.filter(|t| !t.is_none()) {
            this.subscribe(py, Some(topics), None, None, false, true)?;
        }
        Ok(this)
    }

    /// The iterator of `for record in consumer`.
    #[pyo3(name = "_records")]
    fn records(slf: &Bound<'_, Self>) -> RecordIterator {
        RecordIterator { consumer: slf.clone().unbind() }
    }

    /// The next record if one is here: an awaitable that is done, or None where it has to be waited for.
    #[pyo3(name = "_next_ready")]
    fn next_ready<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, Ready>>> {
        self.client.note_progress();
        self.follow(py)?;
        let mut next = if self.client.has_change() { None } else { self.taken().next(&self.client) };
        if next.is_none() {
            self.check(py)?;
            next = match self.try_fetch(py, usize::MAX, CHUNK_BYTES)? {
                Fetched::Records => self.taken().next(&self.client),
                Fetched::End => return Err(PyStopAsyncIteration::new_err(())),
                Fetched::Nothing => None,
            };
        }
        next.map(|record| Ready::new(py, Py::new(py, record)?.into_any())).transpose()
    }

    /// At most so many records, and about so many bytes, of what is here; None at the end of a bounded assignment. Waits up
    /// to `timeout` seconds for the first.
    #[pyo3(name = "_poll", signature = (timeout, max_records, max_bytes=None))]
    fn poll(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arguments::timeout)] timeout: Option<f64>,
        #[pyo3(from_py_with = arguments::max_records)] max_records: Option<usize>,
        max_bytes: Option<usize>,
    ) -> PyResult<Option<Records>> {
        self.check(py)?;
        let max_records = max_records.unwrap_or(self.most);
        let max_bytes = max_bytes.map_or(POLL_BYTES, |bytes| bytes.clamp(1, POLL_BYTES));
        self.client.note_progress();
        self.taken().finish(&self.client, Handled::All);
        self.follow(py)?;
        let records = self.gather(py, max_records, max_bytes)?;
        if records.len() > 0 || max_records == 0 {
            return Ok(Some(records));
        }
        match self.fetch(py, Deadline::after(timeout), max_records, max_bytes)? {
            Fetched::End => Ok(None),
            Fetched::Nothing => Ok(Some(Records::new(Vec::new()))),
            Fetched::Records => self.gather(py, max_records, max_bytes).map(Some),
        }
    }

    /// Awaits records, an error or the end, at most for so many seconds; whether there is one.
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
        event_loop::park(py, News::Records(self.client.clone()), timeout)
    }

    /// Has the running loop watch the sockets no more.
    #[pyo3(name = "_unwatch")]
    fn unwatch(&self, py: Python<'_>) -> PyResult<()> {
        event_loop::forget(py, &(self.client.clone() as _))
    }

    /// Reads these partitions: `(topic, partition, offset or None, end offset or None)`. Gives up those before as at the end;
    /// `waits`: for the commit, too.
    #[pyo3(name = "_assign", signature = (partitions, waits))]
    fn assign(
        &self,
        py: Python<'_>,
        partitions: Vec<(String, i32, Option<i64>, Option<i64>)>,
        waits: bool,
    ) -> PyResult<()> {
        self.check(py)?;
        let given_up = if waits {
            self.give_up(py, Deadline::after(None), Handled::Polled).1
        } else {
            self.taken().finish(&self.client, Handled::Polled);
            Ok(())
        };
        self.give_back(partitions.iter().map(|(topic, partition, ..)| (topic.as_str(), *partition)));
        let assigned = |(topic, partition, offset, end_offset)| Assigned { topic, partition, offset, end_offset };
        self.client.assign(partitions.into_iter().map(assigned).collect()).map_err(|e| raise(py, &e))?;
        self.leave();
        self.listen(None, false);
        given_up
    }

    /// Reads topics, or those that match a pattern; `defers`: Python follows the changes, see `_next_change`.
    ///
    /// No topics are the end of a subscription; `waits`: it is waited for what goes with that.
    #[pyo3(name = "_subscribe", signature = (topics, pattern, listener, defers, waits))]
    fn subscribe(
        &self,
        py: Python<'_>,
        topics: Option<&Bound<'_, PyAny>>,
        #[pyo3(from_py_with = arguments::pattern)] pattern: Option<&str>,
        listener: Option<Py<PyAny>>,
        defers: bool,
        waits: bool,
    ) -> PyResult<()> {
        self.check(py)?;
        let topics = match topics {
            Some(topics) => arguments::topics(topics)?,
            None => Vec::new(),
        };
        let was_member = self.client.is_member();
        if topics.is_empty() && pattern.is_none() {
            if waits {
                return self.unsubscribe(py);
            }
            if was_member {
                let message = "subscribe to no topics cannot await that the consumer leaves its group";
                return Err(exception(py, "ConfigError", message, Some("await unsubscribe() instead")));
            }
        }
        self.taken().finish(&self.client, Handled::Polled);
        self.listen(listener, defers);
        let goes_on = self.client.group().is_none();
        if goes_on {
            let assigned = self.client.assignment().map_err(|e| raise(py, &e))?;
            self.give_back(assigned.iter().map(|p| (&*p.topic, p.partition)));
        }
        let subscribed = match pattern {
            Some(pattern) => self.client.subscribe_pattern(pattern),
            None => self.client.subscribe(topics),
        };
        if goes_on || (subscribed.is_ok() && !was_member) {
            self.leave();
        }
        subscribed.map_err(|e| raise(py, &e))
    }

    /// Reads nothing any more; a member gives up what it has as at the end.
    #[pyo3(name = "_unsubscribe")]
    fn unsubscribe(&self, py: Python<'_>) -> PyResult<()> {
        self.check(py)?;
        let (_, given_up) = self.give_up(py, Deadline::after(None), Handled::Polled);
        if self.client.check().is_err() {
            return given_up;
        }
        self.client.unsubscribe().map_err(|e| raise(py, &e))?;
        self.leave();
        self.listen(None, false);
        given_up
    }

    /// What the group changed: the listener's method and the partitions. `_handled` has to follow.
    #[pyo3(name = "_next_change")]
    fn python_next_change(&self, py: Python<'_>) -> PyResult<Option<(&'static str, Vec<Place>)>> {
        self.check(py)?;
        if self.client.has_change() { self.next_change(py) } else { Ok(None) }
    }

    #[pyo3(name = "_handled")]
    fn handled(&self, py: Python<'_>) -> PyResult<()> {
        self.client.handled().map_err(|e| raise(py, &e))
    }

    /// Group, generation, member id and instance id.
    #[pyo3(name = "_group_metadata")]
    fn group_metadata(&self, py: Python<'_>) -> PyResult<Option<(String, i32, String, Option<String>)>> {
        let metadata = self.client.group_metadata().map_err(|e| raise(py, &e))?;
        Ok(metadata.map(|m| (m.group, m.generation, m.member, m.instance)))
    }

    #[pyo3(name = "_assignment")]
    fn assignment(&self, py: Python<'_>) -> PyResult<Vec<Place>> {
        Ok(self.client.assignment().map_err(|e| raise(py, &e))?.into_iter().map(owned).collect())
    }

    #[pyo3(name = "_seek", signature = (topic, partition, offset))]
    fn seek(
        &self,
        py: Python<'_>,
        topic: &str,
        partition: i32,
        #[pyo3(from_py_with = arguments::offset)] offset: i64,
    ) -> PyResult<()> {
        self.check(py)?;
        self.client.seek(topic, partition, offset).map_err(|e| raise(py, &e))?;
        self.taken().forget(topic, partition);
        Ok(())
    }

    /// Seeks to a timestamp: -1 for the end, -2 for the beginning.
    #[pyo3(name = "_seek_to", signature = (places, timestamp))]
    fn seek_to(&self, py: Python<'_>, places: Vec<Place>, timestamp: i64) -> PyResult<()> {
        self.check(py)?;
        self.client.seek_to(&places, timestamp).map_err(|e| raise(py, &e))?;
        let mut taken = self.taken();
        for (topic, partition) in &places {
            taken.forget(topic, *partition);
        }
        Ok(())
    }

    #[pyo3(name = "_position", signature = (topic, partition))]
    fn position(&self, py: Python<'_>, topic: &str, partition: i32) -> PyResult<Pending> {
        self.check(py)?;
        let ours = self.taken().position(topic, partition);
        match ours {
            Some(offset) => {
                Ok(Pending::known("position", self.origin(), offset.into_pyobject(py)?.into_any().unbind()))
            }
            None => {
                let pending = self.client.position(topic, partition).map_err(|e| raise(py, &e))?;
                let convert = |py: Python<'_>, at: i64| Ok(at.into_pyobject(py)?.into_any().unbind());
                let (what, topic, client) =
                    (format!("position of {topic}-{partition}"), topic.to_owned(), self.client.clone());
                let why = move || client.why_no_position(&topic, partition);
                Ok(Pending::explained(what, self.origin(), pending, convert, why))
            }
        }
    }

    #[pyo3(name = "_pause", signature = (places))]
    fn pause(&self, py: Python<'_>, places: Vec<Place>) -> PyResult<()> {
        self.check(py)?;
        self.client.pause(&places).map_err(|e| raise(py, &e))?;
        let mut taken = self.taken();
        for (topic, partition) in &places {
            taken.pause(&self.client, topic, *partition);
        }
        Ok(())
    }

    #[pyo3(name = "_resume", signature = (places))]
    fn resume(&self, py: Python<'_>, places: Vec<Place>) -> PyResult<()> {
        self.check(py)?;
        self.client.resume(&places).map_err(|e| raise(py, &e))?;
        let mut taken = self.taken();
        for (topic, partition) in &places {
            taken.resume(topic, *partition);
        }
        Ok(())
    }

    #[pyo3(name = "_paused")]
    fn paused(&self, py: Python<'_>) -> PyResult<Vec<Place>> {
        Ok(self.client.paused().map_err(|e| raise(py, &e))?.into_iter().map(owned).collect())
    }

    /// Commits these offsets, or those after every record given out.
    #[pyo3(name = "_commit", signature = (offsets))]
    fn commit(&self, py: Python<'_>, offsets: Option<Vec<commits::Given>>) -> PyResult<Pending> {
        self.check(py)?;
        let offsets = self.to_commit(offsets).map_err(|e| raise(py, &e))?;
        let pending = self.client.commit(offsets).map_err(|e| raise(py, &e))?;
        Ok(self.pending_commit(pending))
    }

    /// The same for nobody to wait for, except at the end; `on_commit` hears of the outcome from `_tell_commits`.
    #[pyo3(name = "_commit_nowait", signature = (offsets, on_commit))]
    fn commit_nowait(
        &self,
        py: Python<'_>,
        offsets: Option<Vec<commits::Given>>,
        on_commit: Option<Py<PyAny>>,
    ) -> PyResult<Pending> {
        self.check(py)?;
        let offsets = self.to_commit(offsets).map_err(|e| raise(py, &e))?;
        let pending = self.client.commit(offsets.clone()).map_err(|e| raise(py, &e))?;
        self.commits.note(pending.clone(), offsets, on_commit);
        Ok(self.pending_commit(pending))
    }

    /// Calls who wants to hear of commits that are over.
    #[pyo3(name = "_tell_commits")]
    fn tell_commits(&self, py: Python<'_>) -> PyResult<()> {
        self.commits.tell(py)
    }

    /// The offsets behind every record given out, for a transaction to commit, with the leader epochs that are known.
    #[pyo3(name = "_given_out")]
    fn given_out(&self, py: Python<'_>) -> PyResult<Vec<(String, i32, i64, Option<i32>)>> {
        self.check(py)?;
        let offsets = self.offsets_given_out().map_err(|e| raise(py, &e))?;
        let epoch = |epoch: i32| Some(epoch).filter(|epoch| *epoch >= 0);
        Ok(offsets.into_iter().map(|o| (o.topic.to_string(), o.partition, o.offset, epoch(o.leader_epoch))).collect())
    }

    #[getter(_listener)]
    fn python_listener(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.listener(py)
    }

    /// Whether Python follows the changes of the group.
    #[getter(_defers)]
    fn defers(&self) -> bool {
        self.defers.load(Relaxed)
    }

    /// Whether the group says what is read.
    #[getter(_is_member)]
    fn is_member(&self) -> bool {
        self.client.is_member()
    }

    /// Whether offsets are committed by themselves.
    #[getter(_auto_commits)]
    fn auto_commits(&self) -> bool {
        self.client.auto_commits()
    }

    #[pyo3(name = "_committed", signature = (places, timeout))]
    fn committed(
        &self,
        py: Python<'_>,
        places: Vec<Place>,
        #[pyo3(from_py_with = arguments::time_limit)] timeout: Option<Duration>,
    ) -> PyResult<Pending> {
        self.check(py)?;
        let pending = self.client.committed(places, timeout).map_err(|e| raise(py, &e))?;
        Ok(Pending::new("committed offsets", self.origin(), pending, |py, offsets| {
            let found = offsets.into_iter().map(|o| o.map(commits::kept));
            Ok(PyList::new(py, found.collect::<Vec<_>>())?.into_any().unbind())
        }))
    }

    /// `(offset, timestamp)` of the first record at or after a timestamp (-1: the end, -2: the beginning), or None; with `of_led`
    /// also None of what has no leader.
    #[pyo3(name = "_list_offsets", signature = (asked, timeout, of_led=false))]
    fn list_offsets(
        &self,
        py: Python<'_>,
        asked: Vec<(String, i32, i64)>,
        #[pyo3(from_py_with = arguments::time_limit)] timeout: Option<Duration>,
        of_led: bool,
    ) -> PyResult<Pending> {
        self.check(py)?;
        let pending = self.client.list_offsets(asked, timeout, of_led).map_err(|e| raise(py, &e))?;
        Ok(Pending::new("offsets", self.origin(), pending, |py, offsets| {
            Ok(PyList::new(py, offsets)?.into_any().unbind())
        }))
    }

    /// `((topic, partition), records not read yet or None)` of every assigned partition.
    #[pyo3(name = "_lag")]
    fn lag(&self, py: Python<'_>) -> PyResult<Vec<(Place, Option<i64>)>> {
        self.check(py)?;
        let lag = self.client.lag().map_err(|e| raise(py, &e))?;
        let taken = self.taken();
        let own = |(place, lag): (TopicPartition, Option<i64>)| {
            let backlog = taken.backlog(&place.topic, place.partition);
            (owned(place), lag.map(|lag| lag + backlog))
        };
        Ok(lag.into_iter().map(own).collect())
    }

    #[pyo3(name = "_partitions_for", signature = (topic, timeout))]
    fn partitions_for(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arguments::topic)] topic: &str,
        #[pyo3(from_py_with = arguments::time_limit)] timeout: Option<Duration>,
    ) -> PyResult<Pending> {
        self.check(py)?;
        let pending = self.client.partitions_for(topic, timeout).map_err(|e| raise(py, &e))?;
        Ok(Pending::new("answer about the topic", self.origin(), pending, list))
    }

    /// Ends the client. `handled`: whether what was given out last was handled, too, if somebody knows.
    #[pyo3(name = "_close", signature = (timeout, handled))]
    fn close(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arguments::timeout)] timeout: Option<f64>,
        handled: Option<bool>,
    ) -> PyResult<()> {
        let handled = match handled {
            Some(true) => Handled::All,
            Some(false) => Handled::Before,
            None => Handled::Polled,
        };
        if self.client.check().is_err() {
            return Ok(());
        }
        let end = Deadline::after(timeout);
        let (is_interrupted, given_up) = self.give_up(py, end, handled);
        if self.client.check().is_err() {
            return given_up;
        }
        let over = if is_interrupted { Ok(false) } else { self.commits.wait(py, end) };
        let left = match self.client.leave() {
            Ok(()) if !is_interrupted && over.is_ok() => wait_for(py, end, |slice| self.client.wait_until_left(slice)),
            _ => Ok(false),
        };
        py.detach(|| self.client.end());
        given_up.and(over.map(drop)).and(left.map(drop))
    }

    #[pyo3(name = "_is_closed")]
    fn is_closed(&self) -> bool {
        self.client.check().is_err()
    }

    /// Whether every partition with an end has reached it.
    #[pyo3(name = "_is_finished")]
    fn is_finished(&self, py: Python<'_>) -> PyResult<bool> {
        self.check(py)?;
        Ok(self.taken().chunks.is_empty() && self.client.is_finished())
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        Ok(format!("<klamm.{} of {}>", slf.get_type().name()?, slf.get().servers))
    }

    fn __reduce__(slf: &Bound<'_, Self>) -> PyResult<Py<PyAny>> {
        Err(no_pickle(slf.py(), "consumer"))
    }
}

/// `for record in consumer`.
#[pyclass(frozen, generic, module = "klamm._klamm")]
pub(super) struct RecordIterator {
    consumer: Py<ConsumerCore>,
}

#[pymethods]
impl RecordIterator {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Record>> {
        self.consumer.get().next_record(py)
    }
}

pub(super) fn owned(TopicPartition { topic, partition }: TopicPartition) -> Place {
    (topic.to_string(), partition)
}

/// Taken from the client at a time while iterating: what is taken no longer counts towards the bound of the prefetch.
const CHUNK_BYTES: usize = 4 << 20;

/// The most that one call gathers, so that an Arrow column stays far below its 2 GiB.
const POLL_BYTES: usize = 64 << 20;
