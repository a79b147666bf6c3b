//! [`ConsumerCore`]: the base class of `Consumer` and `AsyncConsumer`, and the iterator of `for record in consumer`.
//!
//! The iterator creates records in Rust, so that no Python code runs for each record. The client delivers slices of
//! batches, and the delivery buffer holds the records that the program has not consumed yet. A record counts as
//! processed when the program asks for the next record. Auto-commit therefore never commits an offset above a record
//! whose processing failed. `rebalance.rs` calls the rebalance listeners.

mod core;
mod fetching;

pub(super) use core::ConsumerCore;
use fetching::{CHUNK_BYTES, Fetched, POLL_BYTES};

use super::client::ClientCore;
use super::commits::{Commits, OffsetToCommit, offset_and_metadata, offset_to_commit};
use super::construct::{construct, list};
use super::deadline::{Cutoff, Deadline};
use super::delivery_buffer::Processed;
use super::error::{exception, not_end_of_loop};
use super::event_loop;
use super::login_mailbox;
use super::loop_future::LoopFuture;
use super::pending::{Pending, int_list};
use super::record::Record;
use super::records::{Records, ranges_of};
use super::wait_source::RecordWait;
use super::{arguments, assignors, config, metrics};
use crate::client::{self, AnyClient, Assigned, ClientType, Number, TopicPartition};
use pyo3::exceptions::PyStopAsyncIteration;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A topic and a partition.
pub(super) type PartitionTuple = (String, i32);

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
    ) -> PyResult<PyClassInitializer<Self>> {
        let keywords = config.cloned().unwrap_or_else(|| PyDict::new(py));
        if let Some(group_id) = group_id {
            keywords.set_item("group_id", group_id)?;
        }
        let assignors = assignors::take_assignors(bootstrap_servers, &keywords)?;
        let (config, servers, login, log_target) =
            config::parse_with(py, ClientType::Consumer, bootstrap_servers, Some(&keywords), assignors)?;
        let client = Arc::new(client::Consumer::new(&config)?);
        login_mailbox::start(py, client.login_mailbox(), login)?;
        let base = ClientCore::new(client.clone(), "a consumer", servers, log_target);
        let this = Self {
            client,
            max_poll_records: config.max_poll_records(),
            buffer: Arc::default(),
            commits: Commits::default(),
            listener: Mutex::default(),
            defers: AtomicBool::new(false),
            close_timeout: config.close_timeout().as_secs_f64(),
            default_close_timeout: config.default_close_timeout().as_secs_f64(),
            cutoff: Cutoff::default(),
        };
        if let Some(topics) = topics.filter(|t| !t.is_none()) {
            this.subscribe(py, Some(topics), None, None, false, true)?;
        }
        Ok(PyClassInitializer::from(base).add_subclass(this))
    }

    /// Returns the iterator of `for record in consumer`.
    #[pyo3(name = "_records")]
    fn records(slf: &Bound<'_, Self>) -> RecordIterator {
        RecordIterator { consumer: slf.clone().unbind() }
    }

    /// Returns the next record, or None if the caller has to wait.
    #[pyo3(name = "_try_next")]
    fn try_next(&self, py: Python<'_>) -> PyResult<Option<Record>> {
        self.client.note_progress();
        self.follow(py).map_err(|error| not_end_of_loop(py, error))?;
        let mut next = if self.client.has_change() { None } else { self.buffer().next(&self.client) };
        if next.is_none() {
            self.check()?;
            next = match self.try_fetch(usize::MAX, CHUNK_BYTES)? {
                Fetched::Records => self.buffer().next(&self.client),
                Fetched::End => return Err(PyStopAsyncIteration::new_err(())),
                Fetched::Nothing => None,
            };
        }
        Ok(next)
    }

    /// Returns up to `max_records` records and roughly `max_bytes` bytes, or None at the end of a bounded assignment.
    ///
    /// Waits up to `timeout` seconds for the first record.
    #[pyo3(name = "_poll", signature = (timeout, max_records, max_bytes=None))]
    fn poll(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arguments::timeout)] timeout: Option<f64>,
        #[pyo3(from_py_with = arguments::max_records)] max_records: Option<usize>,
        max_bytes: Option<usize>,
    ) -> PyResult<Option<Records>> {
        self.check()?;
        let max_records = max_records.unwrap_or(self.max_poll_records);
        let max_bytes = max_bytes.map_or(POLL_BYTES, |bytes| bytes.clamp(1, POLL_BYTES));
        self.client.note_progress();
        self.client.note_poll(true);
        self.buffer().finish(&self.client, Processed::All);
        self.follow(py)?;
        let records = self.gather(max_records, max_bytes)?;
        if records.len() > 0 || max_records == 0 {
            self.client.note_poll(false);
            return Ok(Some(records));
        }
        match self.fetch(py, Deadline::after(timeout), max_records, max_bytes)? {
            Fetched::End => Ok(None),
            Fetched::Nothing => {
                // `AsyncConsumer` continues the poll.
                if timeout != Some(0.0) {
                    self.client.note_poll(false);
                }
                Ok(Some(Records::new(Vec::new())))
            }
            Fetched::Records => self.gather(max_records, max_bytes).map(Some),
        }
    }

    /// Takes back a record or the records of a poll, which the program did not get after all. The poll is not over.
    #[pyo3(name = "_put_back", signature = (records))]
    fn put_back(&self, records: &Bound<'_, PyAny>) -> PyResult<()> {
        let (parts, paused) = (ranges_of(records)?, self.client.paused()?);
        self.client.note_poll(true);
        let is_paused = |topic: &str, number| paused.iter().any(|p| p.partition == number && *p.topic == *topic);
        self.buffer().put_back(&parts, is_paused);
        Ok(())
    }

    /// Takes records again that were put back. Returns false if they are no longer the next records.
    #[pyo3(name = "_take_again", signature = (records))]
    fn take_again(&self, records: &Bound<'_, PyAny>) -> PyResult<bool> {
        let parts = ranges_of(records)?;
        self.client.note_poll(false);
        Ok(self.buffer().take_again(&parts))
    }

    /// Returns a future that waits for records, an error or the end. The future's result is False after the timeout.
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

    /// Makes the running event loop stop watching the client's sockets.
    #[pyo3(name = "_unwatch")]
    fn unwatch(&self, py: Python<'_>) -> PyResult<()> {
        event_loop::forget(py, &(self.client.clone() as _))
    }

    /// Assigns partitions: `(topic, partition, offset or None, end offset or None)`.
    ///
    /// First gives up the old assignment, like `_close`. With `waits`, also waits for the commit.
    #[pyo3(name = "_assign", signature = (partitions, waits))]
    fn assign(
        &self,
        py: Python<'_>,
        partitions: Vec<(String, i32, Option<i64>, Option<i64>)>,
        waits: bool,
    ) -> PyResult<()> {
        self.check()?;
        let given_up = if waits {
            self.give_up(py, Deadline::after(None), Some(Processed::Batches)).1
        } else {
            self.buffer().finish(&self.client, Processed::Batches);
            Ok(())
        };
        self.rewind(partitions.iter().map(|(topic, partition, ..)| (topic.as_str(), *partition)));
        let assigned = |(topic, partition, offset, end_offset)| Assigned { topic, partition, offset, end_offset };
        self.client.assign(partitions.into_iter().map(assigned).collect())?;
        self.clear_buffer();
        self.listen(None, false);
        given_up
    }

    /// Subscribes to topics, or to a pattern. With `defers`, Python handles the changes of the assignment.
    ///
    /// An empty list ends the subscription. With `waits`, the call then also waits until the consumer has left its
    /// group.
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
        self.check()?;
        let topics = match topics {
            Some(topics) => arguments::topics(topics)?,
            None => Vec::new(),
        };
        let was_member = self.client.is_member();
        if topics.is_empty() && pattern.is_none() {
            if waits {
                return self.unsubscribe(py, None);
            }
            if was_member {
                let message = "subscribe([]) cannot wait until the consumer leaves its group";
                return Err(exception(py, "ConfigError", message, Some("call `await unsubscribe()` instead")));
            }
        }
        self.buffer().finish(&self.client, Processed::Batches);
        self.listen(listener, defers);
        let keeps_partitions = self.client.group().is_none();
        if keeps_partitions {
            let assigned = self.client.assignment()?;
            self.rewind(assigned.iter().map(|p| (&*p.topic, p.partition)));
        }
        let subscribed = match pattern {
            Some(pattern) => self.client.subscribe_pattern(pattern),
            None => self.client.subscribe(topics),
        };
        if keeps_partitions || (subscribed.is_ok() && !was_member) {
            self.clear_buffer();
        }
        Ok(subscribed?)
    }

    /// Ends the subscription or assignment. A member of a group first gives up its partitions, like `_close`.
    ///
    /// `handled` has the same meaning as in `_close`.
    #[pyo3(name = "_unsubscribe", signature = (handled))]
    fn unsubscribe(&self, py: Python<'_>, handled: Option<bool>) -> PyResult<()> {
        self.check()?;
        let (_, given_up) = self.give_up(py, Deadline::after(None), Some(handled.into()));
        if self.client.check().is_err() {
            return given_up;
        }
        self.client.unsubscribe()?;
        self.clear_buffer();
        self.listen(None, false);
        given_up
    }

    /// Returns the next change of the assignment: the listener's method and the partitions. The caller must then call
    /// `_handled`.
    #[pyo3(name = "_next_change")]
    fn python_next_change(&self) -> PyResult<Option<(&'static str, Vec<PartitionTuple>)>> {
        self.check()?;
        let change = if self.client.has_change() { self.next_change()? } else { None };
        Ok(change.map(|(name, partitions)| (name, partitions.into_iter().map(owned).collect())))
    }

    #[pyo3(name = "_handled")]
    fn handled(&self) -> PyResult<()> {
        Ok(self.client.handled()?)
    }

    /// Returns the `GroupMetadata`, or None without a group.
    #[pyo3(name = "_group_metadata")]
    fn group_metadata(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let Some(m) = self.client.group_metadata()? else { return Ok(None) };
        let metadata = construct!(py, "klamm.transaction.GroupMetadata", {
            group_id: m.group,
            generation_id: m.generation,
            member_id: m.member,
            group_instance_id: m.instance,
        })?;
        Ok(Some(metadata))
    }

    #[pyo3(name = "_assignment")]
    fn assignment(&self) -> PyResult<Vec<PartitionTuple>> {
        Ok(self.client.assignment()?.into_iter().map(owned).collect())
    }

    #[pyo3(name = "_seek", signature = (topic, partition, offset))]
    fn seek(&self, topic: &str, partition: i32, #[pyo3(from_py_with = arguments::offset)] offset: i64) -> PyResult<()> {
        self.check()?;
        self.client.seek(topic, partition, offset)?;
        self.buffer().forget(topic, partition);
        Ok(())
    }

    /// Seeks to a timestamp. The timestamp -1 is the end of the log, and -2 is its beginning.
    #[pyo3(name = "_seek_to", signature = (partitions, timestamp))]
    fn seek_to(&self, partitions: Vec<PartitionTuple>, timestamp: i64) -> PyResult<()> {
        self.check()?;
        self.client.seek_to(&partitions, timestamp)?;
        let mut buffer = self.buffer();
        for (topic, partition) in &partitions {
            buffer.forget(topic, *partition);
        }
        Ok(())
    }

    #[pyo3(name = "_position", signature = (topic, partition))]
    fn position(&self, py: Python<'_>, topic: &str, partition: i32) -> PyResult<Pending> {
        self.check()?;
        let buffered = self.buffer().position(topic, partition);
        match buffered {
            Some(offset) => Ok(Pending::ready("position", self.any(), offset.into_pyobject(py)?.into_any().unbind())),
            None => {
                let pending = self.client.position(topic, partition)?;
                let convert = |py: Python<'_>, at: i64| Ok(at.into_pyobject(py)?.into_any().unbind());
                let (operation, topic, client) =
                    (format!("position of {topic}-{partition}"), topic.to_owned(), self.client.clone());
                let why = move || client.why_no_position(&topic, partition);
                Ok(Pending::explained(operation, self.any(), pending, convert, why))
            }
        }
    }

    #[pyo3(name = "_pause", signature = (partitions))]
    fn pause(&self, partitions: Vec<PartitionTuple>) -> PyResult<()> {
        self.check()?;
        self.client.pause(&partitions)?;
        let mut buffer = self.buffer();
        for (topic, partition) in &partitions {
            buffer.pause(&self.client, topic, *partition);
        }
        Ok(())
    }

    #[pyo3(name = "_resume", signature = (partitions))]
    fn resume(&self, partitions: Vec<PartitionTuple>) -> PyResult<()> {
        self.check()?;
        self.client.resume(&partitions)?;
        let mut buffer = self.buffer();
        for (topic, partition) in &partitions {
            buffer.resume(topic, *partition);
        }
        Ok(())
    }

    #[pyo3(name = "_paused")]
    fn paused(&self) -> PyResult<Vec<PartitionTuple>> {
        Ok(self.client.paused()?.into_iter().map(owned).collect())
    }

    /// Commits `offsets`, or the offsets after the delivered records.
    #[pyo3(name = "_commit", signature = (offsets))]
    fn commit(&self, offsets: Option<Vec<OffsetToCommit>>) -> PyResult<Pending> {
        self.check()?;
        let offsets = self.to_commit(offsets)?;
        let pending = self.client.commit(offsets)?;
        Ok(self.pending_commit(pending))
    }

    /// Commits in the background. `_run_commit_callbacks` calls `on_commit`, and closing waits for the commit.
    #[pyo3(name = "_commit_nowait", signature = (offsets, on_commit))]
    fn commit_nowait(&self, offsets: Option<Vec<OffsetToCommit>>, on_commit: Option<Py<PyAny>>) -> PyResult<Pending> {
        self.check()?;
        let offsets = self.to_commit(offsets)?;
        let pending = self.client.commit(offsets.clone())?;
        self.commits.note(pending.clone(), offsets, on_commit);
        Ok(self.pending_commit(pending))
    }

    /// Calls the `on_commit` callbacks of the background commits that have completed.
    #[pyo3(name = "_run_commit_callbacks")]
    fn run_commit_callbacks(&self, py: Python<'_>) -> PyResult<()> {
        self.commits.run_callbacks(py)
    }

    /// Returns the offsets after the delivered records as a list of `OffsetToCommit`. A transaction can commit these
    /// offsets.
    #[pyo3(name = "_offsets_to_commit")]
    fn python_offsets_to_commit(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.check()?;
        let offsets = self.delivered_offsets()?;
        list(py, offsets.iter().map(|o| offset_to_commit(py, o)))
    }

    #[getter(_listener)]
    fn python_listener(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.listener(py)
    }

    /// Whether Python handles the changes of the assignment.
    #[getter(_defers)]
    fn defers(&self) -> bool {
        self.defers.load(Relaxed)
    }

    /// Whether the group assigns the partitions.
    #[getter(_is_member)]
    fn is_member(&self) -> bool {
        self.client.is_member()
    }

    /// Whether auto-commit is enabled.
    #[getter(_auto_commits)]
    fn auto_commits(&self) -> bool {
        self.client.auto_commits()
    }

    #[pyo3(name = "_committed", signature = (partitions, timeout))]
    fn committed(
        &self,
        partitions: Vec<PartitionTuple>,
        #[pyo3(from_py_with = arguments::time_limit)] timeout: Option<Duration>,
    ) -> PyResult<Pending> {
        self.check()?;
        let pending = self.client.committed(partitions, timeout)?;
        Ok(Pending::new("committed offsets", self.any(), pending, |py, offsets| {
            let committed =
                offsets.iter().map(|o| o.as_ref().map_or_else(|| Ok(py.None()), |o| offset_and_metadata(py, o)));
            list(py, committed)
        }))
    }

    /// Returns `(offset, timestamp)` of the first record at or after a timestamp, or None. The timestamp -1 is the end
    /// of the log, and -2 is its beginning.
    ///
    /// With `of_led`, the result is also None for a partition without a leader.
    #[pyo3(name = "_list_offsets", signature = (asked, timeout, of_led=false))]
    fn list_offsets(
        &self,
        asked: Vec<(String, i32, i64)>,
        #[pyo3(from_py_with = arguments::time_limit)] timeout: Option<Duration>,
        of_led: bool,
    ) -> PyResult<Pending> {
        self.check()?;
        let pending = self.client.list_offsets(asked, timeout, of_led)?;
        Ok(Pending::new("offsets", self.any(), pending, |py, offsets| {
            Ok(PyList::new(py, offsets)?.into_any().unbind())
        }))
    }

    /// Returns the lag of every assigned partition: `((topic, partition), records or None)`.
    #[pyo3(name = "_lag")]
    fn lag(&self) -> PyResult<Vec<(PartitionTuple, Option<i64>)>> {
        self.check()?;
        let lag = self.client.lag()?;
        let buffer = self.buffer();
        let own = |(p, lag): (TopicPartition, Option<i64>)| {
            let backlog = buffer.backlog(&p.topic, p.partition);
            (owned(p), lag.map(|lag| lag + backlog))
        };
        Ok(lag.into_iter().map(own).collect())
    }

    /// Returns the same metrics as `ClientCore`. The lag counts from the records that the program has consumed.
    #[pyo3(name = "_families", signature = (detail=false))]
    fn families(&self, py: Python<'_>, detail: bool) -> PyResult<Py<PyAny>> {
        let mut families = py.detach(|| self.client.families(detail))?;
        let buffer = self.buffer();
        for family in &mut families {
            // The client's position is after the records in the delivery buffer.
            if let [(_, topic), (key, partition)] = &*family.tags
                && key == "partition"
                && let Some((_, Number::Int(lag))) = family.values.iter_mut().find(|(name, _)| name == "records-lag")
            {
                let backlog = buffer.backlog(topic, partition.parse().unwrap_or(-1));
                *lag += u64::try_from(backlog).unwrap_or(0);
            }
        }
        drop(buffer);
        metrics::to_python(py, families)
    }

    #[pyo3(name = "_partitions_for", signature = (topic, timeout))]
    fn partitions_for(
        &self,
        #[pyo3(from_py_with = arguments::topic)] topic: &str,
        #[pyo3(from_py_with = arguments::time_limit)] timeout: Option<Duration>,
    ) -> PyResult<Pending> {
        self.check()?;
        let pending = self.client.partitions_for(topic, timeout)?;
        Ok(Pending::new("answer about the topic", self.any(), pending, int_list))
    }

    /// Closes the client. `handled` says whether the program has processed the last record, or is None if this is
    /// unknown.
    #[pyo3(name = "_close", signature = (timeout, handled, commit))]
    fn close(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arguments::timeout)] timeout: Option<f64>,
        handled: Option<bool>,
        commit: bool,
    ) -> PyResult<()> {
        let timeout = timeout.unwrap_or(self.default_close_timeout);
        self.leave_and_end(py, Deadline::after(Some(timeout)), commit.then_some(handled.into()))
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

    /// Timeout in seconds of a close to which the program passes no timeout.
    #[getter(_default_close_timeout)]
    fn default_close_timeout(&self) -> f64 {
        self.default_close_timeout
    }

    /// Whether all partitions have reached their end offset.
    #[pyo3(name = "_is_finished")]
    fn is_finished(&self) -> PyResult<bool> {
        self.check()?;
        Ok(self.buffer().chunks.is_empty() && self.client.is_finished())
    }
}

/// The iterator of `for record in consumer`.
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
        self.consumer.get().next_record(py).map_err(|error| not_end_of_loop(py, error))
    }
}

pub(super) fn owned(TopicPartition { topic, partition }: TopicPartition) -> PartitionTuple {
    (topic.to_string(), partition)
}
