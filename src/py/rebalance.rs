//! A consumer's rebalances: what its listener hears of them, and what comes before it leaves its group.

use super::consumer::{ConsumerCore, Place, owned};
use super::error::raise;
use super::pending::{Deadline, wait_for};
use super::taken::Handled;
use crate::client::{Change, TopicPartition};
use pyo3::prelude::*;
use std::sync::PoisonError;
use std::sync::atomic::Ordering::Relaxed;

impl ConsumerCore {
    pub(super) fn listener(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.listener.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(|l| l.clone_ref(py))
    }

    /// Has a listener hear of changes; `defers`: from Python.
    pub(super) fn listen(&self, listener: Option<Py<PyAny>>, defers: bool) {
        // What a listener does when it goes may come back here.
        let before = std::mem::replace(&mut *self.listener.lock().unwrap_or_else(PoisonError::into_inner), listener);
        self.defers.store(defers, Relaxed);
        drop(before);
    }

    /// What the group changed, as the listener's method and partitions. The program is done with every record it got; what
    /// it did not get of partitions that go is dropped.
    pub(super) fn next_change(&self, py: Python<'_>) -> PyResult<Option<(&'static str, Vec<Place>)>> {
        let mut taken = self.taken();
        taken.finish(&self.client, Handled::All);
        let Some(change) = self.client.take_change().map_err(|e| raise(py, &e))? else {
            return Ok(None);
        };
        let (name, places) = match change {
            Change::Assigned(places) => ("assigned", places),
            Change::Revoked(places) => ("revoked", places),
            Change::Lost(places) => ("lost", places),
        };
        for TopicPartition { topic, partition } in places.iter().filter(|_| name != "assigned") {
            if let Some(offset) = taken.position(topic, *partition) {
                self.client.rewind(topic, *partition, offset);
            }
            taken.forget(topic, *partition);
        }
        Ok(Some((name, places.into_iter().map(owned).collect())))
    }

    /// Follows the group, unless Python does, and tells of commits that are over.
    pub(super) fn follow(&self, py: Python<'_>) -> PyResult<()> {
        if self.commits.is_due() {
            self.commits.tell(py)?;
        }
        while self.client.has_change() && !self.defers.load(Relaxed) {
            let Some((name, places)) = self.next_change(py)? else {
                break;
            };
            let told = match self.listener(py) {
                Some(listener) => tell(py, &listener, name, places),
                None => Ok(()),
            };
            self.client.handled().map_err(|e| raise(py, &e))?;
            told?;
        }
        Ok(())
    }

    /// What comes before leaving the group: tells the listener, unless Python does, and commits what is finished. Says
    /// whether a signal ended the wait for that, and what went wrong first.
    pub(super) fn give_up(&self, py: Python<'_>, end: Deadline, handled: Handled) -> (bool, PyResult<()>) {
        self.taken().finish(&self.client, handled);
        let told = if self.defers.load(Relaxed) { Ok(()) } else { self.tell_all_go(py) };
        if self.client.check().is_err() {
            return (false, told); // by the listener, and all was done there
        }
        let commit = match self.client.commit_finished() {
            Ok(Some(commit)) => commit,
            Ok(None) => return (false, told),
            Err(e) => return (false, told.and(Err(raise(py, &e)))),
        };
        match wait_for(py, end, |slice| commit.wait(slice)) {
            Ok(_) => {
                let committed = commit.result().map_err(|e| raise(py, &e));
                (false, told.and(committed))
            }
            Err(signal) => (true, told.and(Err(signal))),
        }
    }

    /// Tells the listener that the consumer's partitions go, which is the last that it hears: it may close the consumer.
    pub(super) fn tell_all_go(&self, py: Python<'_>) -> PyResult<()> {
        let Some(listener) = self.listener(py) else {
            return Ok(());
        };
        self.listen(None, false);
        let places = self.client.assignment().map_err(|e| raise(py, &e))?;
        if places.is_empty() {
            return Ok(());
        }
        tell(py, &listener, "revoked", places.into_iter().map(owned).collect())
    }
}

/// Calls a listener's method with a set of partitions.
fn tell(py: Python<'_>, listener: &Py<PyAny>, name: &str, places: Vec<Place>) -> PyResult<()> {
    let named = py.import("klamm.rebalance")?.call_method1("partitions", (places,))?;
    listener.call_method1(py, name, (named,)).map(drop)
}
