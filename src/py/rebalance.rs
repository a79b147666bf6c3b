//! Handles rebalances and the closing of a consumer: calls the rebalance listener, and commits offsets before the
//! consumer loses partitions or leaves its group.

use super::consumer::ConsumerCore;
use super::deadline::{Deadline, LEAST_CLOSE, wait_for};
use super::delivery_buffer::Processed;
use crate::client::{AnyClient, Change, TopicPartition};
use pyo3::prelude::*;
use pyo3::types::PySet;
use std::sync::PoisonError;
use std::sync::atomic::Ordering::Relaxed;

impl ConsumerCore {
    pub(super) fn listener(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.listener.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(|l| l.clone_ref(py))
    }

    /// Sets the listener. With `defers`, Python calls the listener.
    pub(super) fn listen(&self, listener: Option<Py<PyAny>>, defers: bool) {
        // The old listener is dropped last: its `__del__` may call this consumer.
        let before = std::mem::replace(&mut *self.listener.lock().unwrap_or_else(PoisonError::into_inner), listener);
        self.defers.store(defers, Relaxed);
        drop(before);
    }

    /// Returns the next change of the assignment: the listener's method and the partitions.
    ///
    /// All delivered records count as processed. The method drops the records of revoked partitions from the delivery
    /// buffer.
    pub(super) fn next_change(&self) -> PyResult<Option<(&'static str, Vec<TopicPartition>)>> {
        let mut buffer = self.buffer();
        buffer.finish(&self.client, Processed::All);
        let Some(change) = self.client.take_change()? else {
            return Ok(None);
        };
        let (name, partitions) = match change {
            Change::Assigned(partitions) => ("assigned", partitions),
            Change::Revoked(partitions) => ("revoked", partitions),
            Change::Lost(partitions) => ("lost", partitions),
        };
        for TopicPartition { topic, partition } in partitions.iter().filter(|_| name != "assigned") {
            if let Some(offset) = buffer.position(topic, *partition) {
                self.client.rewind(topic, *partition, offset);
            }
            buffer.forget(topic, *partition);
        }
        Ok(Some((name, partitions)))
    }

    /// Handles changes of the assignment, if Python does not handle them, and runs the callbacks of background commits.
    pub(super) fn follow(&self, py: Python<'_>) -> PyResult<()> {
        if self.commits.is_due() {
            self.commits.run_callbacks(py)?;
        }
        while self.client.has_change() && !self.defers.load(Relaxed) {
            let Some((name, partitions)) = self.next_change()? else {
                break;
            };
            let notified = match self.listener(py) {
                Some(listener) => call_listener(py, &listener, name, &partitions),
                None => Ok(()),
            };
            self.client.handled()?;
            notified?;
        }
        Ok(())
    }

    /// Prepares to give up all partitions: calls the listener, if Python does not call the listener, and commits the
    /// processed records.
    ///
    /// With `None` for `handled`, the method commits nothing. Returns whether a signal ended the wait for the commit,
    /// and the first error.
    pub(super) fn give_up(&self, py: Python<'_>, end: Deadline, handled: Option<Processed>) -> (bool, PyResult<()>) {
        if let Some(handled) = handled {
            self.buffer().finish(&self.client, handled);
        }
        let notified = if self.defers.load(Relaxed) { Ok(()) } else { self.revoke_all(py) };
        if self.client.check().is_err() {
            return (false, notified); // the listener closed the consumer, which did the rest
        }
        let commit = match self.client.commit_finished(handled.is_some()) {
            Ok(Some(commit)) => commit,
            Ok(None) => return (false, notified),
            Err(e) => return (false, notified.and(Err(e.into()))),
        };
        match wait_for(py, end, |slice| commit.wait(slice) || self.cutoff.is_over()) {
            Ok(_) => {
                let committed = commit.result().map_err(PyErr::from);
                (false, notified.and(committed))
            }
            Err(signal) => (true, notified.and(Err(signal))),
        }
    }

    /// Gives up all partitions, waits for the commits in the background, leaves the group, and ends the client.
    ///
    /// A signal ends the waits. With `None` for `handled`, the method commits nothing.
    pub(super) fn leave_and_end(&self, py: Python<'_>, end: Deadline, handled: Option<Processed>) -> PyResult<()> {
        if self.client.check().is_err() {
            return Ok(());
        }
        let end = end.at_least(LEAST_CLOSE);
        let (is_interrupted, given_up) = self.give_up(py, end, handled);
        if self.client.check().is_err() {
            return given_up;
        }
        let over = if is_interrupted { Ok(false) } else { self.commits.wait(py, end, &self.cutoff) };
        let has_left = |slice| self.client.wait_until_left(slice) || self.cutoff.is_over();
        let has_left_group = match self.client.leave() {
            // A commit that took all the time must not keep the member in the group until its session times out.
            Ok(()) if !is_interrupted && over.is_ok() => wait_for(py, end.at_least(LEAST_CLOSE), has_left),
            _ => Ok(false),
        };
        py.detach(|| self.client.end());
        given_up.and(over.map(drop)).and(has_left_group.map(drop))
    }

    /// Notifies the listener that all partitions are revoked, and removes it. The listener may close the consumer.
    pub(super) fn revoke_all(&self, py: Python<'_>) -> PyResult<()> {
        let Some(listener) = self.listener(py) else {
            return Ok(());
        };
        self.listen(None, false);
        let partitions = self.client.assignment()?;
        if partitions.is_empty() {
            return Ok(());
        }
        call_listener(py, &listener, "revoked", &partitions)
    }
}

/// Calls a method of the listener with a set of partitions.
fn call_listener(py: Python<'_>, listener: &Py<PyAny>, name: &str, partitions: &[TopicPartition]) -> PyResult<()> {
    let partitions = PySet::new(py, partitions)?;
    listener.call_method1(py, name, (partitions,)).map(drop)
}
