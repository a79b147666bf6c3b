//! Offsets on their way between Python and the group, and who wants to hear how a commit in the background ended.
//!
//! Commits end in the order in which they were asked for, one after the other, so the first that is not over hides no other.
//! Whoever wants to hear is called where the consumer is used, never on the client's own thread.

use super::error::raise;
use super::pending::{Deadline, wait_for};
use crate::client::{self, CommittedOffset};
use pyo3::prelude::*;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Topic, partition, offset, text, the leader epoch of the record before it, and when it was committed.
pub(super) type Given = (String, i32, i64, String, Option<i32>, Option<i64>);

/// An offset as Python gives it.
pub(super) fn offset((topic, partition, offset, metadata, epoch, timestamp): Given) -> CommittedOffset {
    let (leader_epoch, timestamp) = (epoch.unwrap_or(-1), timestamp.unwrap_or(-1));
    CommittedOffset { leader_epoch, timestamp, metadata, ..CommittedOffset::new(topic.into(), partition, offset) }
}

/// An offset's text and leader epoch as Python takes them.
pub(super) fn kept(offset: CommittedOffset) -> (i64, String, Option<i32>) {
    (offset.offset, offset.metadata, Some(offset.leader_epoch).filter(|epoch| *epoch >= 0))
}

/// A commit that nobody waits for.
struct Unattended {
    pending: client::Pending<()>,
    offsets: Vec<CommittedOffset>,
    on_commit: Option<Py<PyAny>>,
}

/// The commits that nobody waits for, until their outcome is told.
#[derive(Default)]
pub(super) struct Commits {
    /// Whether there is any: what every record asks.
    any: AtomicBool,
    queue: Mutex<VecDeque<Unattended>>,
}

impl Commits {
    fn queue(&self) -> MutexGuard<'_, VecDeque<Unattended>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn note(
        &self,
        pending: client::Pending<()>,
        offsets: Vec<CommittedOffset>,
        on_commit: Option<Py<PyAny>>,
    ) {
        self.queue().push_back(Unattended { pending, offsets, on_commit });
        self.any.store(true, Relaxed);
    }

    /// Whether the outcome of one is there to be told.
    #[inline]
    pub(super) fn is_due(&self) -> bool {
        self.any.load(Relaxed) && self.queue().front().is_some_and(|first| first.pending.is_done())
    }

    /// Waits until all are over; whether they are.
    pub(super) fn wait(&self, py: Python<'_>, end: Deadline) -> PyResult<bool> {
        // Commits end in order.
        let last = self.queue().back().map(|last| last.pending.clone());
        last.map_or(Ok(true), |last| wait_for(py, end, |slice| last.wait(slice)))
    }

    /// Calls who wants to hear of those that are over. What one raises ends this, and the next are told the next time.
    pub(super) fn tell(&self, py: Python<'_>) -> PyResult<()> {
        while let Some(over) = self.take() {
            let (Some(on_commit), Some(result)) = (over.on_commit, over.pending.get()) else {
                continue;
            };
            let error = result.err().map(|e| raise(py, &e).into_value(py));
            let named = |o: CommittedOffset| {
                let timestamp = Some(o.timestamp).filter(|timestamp| *timestamp >= 0);
                let (offset, metadata, epoch) = kept(o.clone());
                (o.topic.to_string(), o.partition, (offset, metadata, epoch, timestamp))
            };
            let offsets: Vec<_> = over.offsets.into_iter().map(named).collect();
            let offsets = py.import("klamm.record")?.call_method1("offsets_of", (offsets,))?;
            on_commit.call1(py, (offsets, error))?;
        }
        Ok(())
    }

    /// The first, if it is over.
    fn take(&self) -> Option<Unattended> {
        let mut queue = self.queue();
        let first = queue.pop_front_if(|first| first.pending.is_done());
        self.any.store(!queue.is_empty(), Relaxed);
        first
    }
}
