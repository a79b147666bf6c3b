//! Converts offsets between Python objects and Rust types, and tracks the commits that run in the background.
//!
//! Background commits complete in the order in which the program requested them, so the first commit in the queue is
//! always the next to complete. `on_commit` callbacks run in the thread that uses the consumer, never in the I/O
//! thread.

use super::construct::construct;
use super::deadline::{Cutoff, Deadline, wait_for};
use crate::client::{self, CommittedOffset, TopicPartition};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A `klamm.record.OffsetToCommit`.
#[derive(FromPyObject)]
pub(super) struct OffsetToCommit {
    topic: String,
    partition: i32,
    offset: i64,
    metadata: String,
    leader_epoch: Option<i32>,
    timestamp_ms: Option<i64>,
}

impl From<OffsetToCommit> for CommittedOffset {
    fn from(o: OffsetToCommit) -> Self {
        Self {
            leader_epoch: o.leader_epoch.unwrap_or(-1),
            timestamp: o.timestamp_ms.unwrap_or(-1),
            metadata: o.metadata,
            ..Self::new(o.topic.into(), o.partition, o.offset)
        }
    }
}

/// Creates a `klamm.record.OffsetToCommit`.
pub(super) fn offset_to_commit(py: Python<'_>, o: &CommittedOffset) -> PyResult<Py<PyAny>> {
    construct!(py, "klamm.record.OffsetToCommit", {
        topic: &*o.topic,
        partition: o.partition,
        offset: o.offset,
        metadata: &o.metadata,
        leader_epoch: unless_negative(o.leader_epoch),
        timestamp_ms: unless_negative(o.timestamp),
    })
}

/// Creates a `klamm.OffsetAndMetadata`.
pub(super) fn offset_and_metadata(py: Python<'_>, o: &CommittedOffset) -> PyResult<Py<PyAny>> {
    construct!(py, "klamm.record.OffsetAndMetadata", {
        offset: o.offset,
        metadata: &o.metadata,
        leader_epoch: unless_negative(o.leader_epoch),
        timestamp_ms: unless_negative(o.timestamp),
    })
}

fn unless_negative<T: PartialOrd + From<i8>>(number: T) -> Option<T> {
    Some(number).filter(|number| *number >= T::from(0))
}

/// A commit that runs in the background.
struct BackgroundCommit {
    pending: client::Pending<()>,
    offsets: Vec<CommittedOffset>,
    on_commit: Option<Py<PyAny>>,
}

/// The commits that run in the background, until their callbacks have run.
#[derive(Default)]
pub(super) struct Commits {
    /// Whether the queue has an entry. The consumer checks this flag for every record.
    any: AtomicBool,
    queue: Mutex<VecDeque<BackgroundCommit>>,
}

impl Commits {
    fn queue(&self) -> MutexGuard<'_, VecDeque<BackgroundCommit>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn note(
        &self,
        pending: client::Pending<()>,
        offsets: Vec<CommittedOffset>,
        on_commit: Option<Py<PyAny>>,
    ) {
        self.queue().push_back(BackgroundCommit { pending, offsets, on_commit });
        self.any.store(true, Relaxed);
    }

    /// Returns whether a commit has completed but its callback has not run.
    #[inline]
    pub(super) fn is_due(&self) -> bool {
        self.any.load(Relaxed) && self.queue().front().is_some_and(|first| first.pending.is_done())
    }

    /// Waits until all commits have completed. Returns false after the timeout. The cutoff also ends the wait.
    pub(super) fn wait(&self, py: Python<'_>, end: Deadline, cutoff: &Cutoff) -> PyResult<bool> {
        // Commits complete in order.
        let last = self.queue().back().map(|last| last.pending.clone());
        last.map_or(Ok(true), |last| wait_for(py, end, |slice| last.wait(slice) || cutoff.is_over()))
    }

    /// Runs the callbacks of commits that have completed. If a callback raises an exception, the next call runs the
    /// remaining callbacks.
    pub(super) fn run_callbacks(&self, py: Python<'_>) -> PyResult<()> {
        while let Some(done) = self.take() {
            let (Some(on_commit), Some(result)) = (done.on_commit, done.pending.get()) else {
                continue;
            };
            let error = result.err().map(|e| PyErr::from(e).into_value(py));
            let offsets = PyDict::new(py);
            for o in &done.offsets {
                let partition = TopicPartition::new(o.topic.clone(), o.partition);
                offsets.set_item(&partition, offset_and_metadata(py, o)?)?;
            }
            on_commit.call1(py, (offsets, error))?;
        }
        Ok(())
    }

    /// Removes and returns the first commit if it has completed.
    fn take(&self) -> Option<BackgroundCommit> {
        let mut queue = self.queue();
        let first = queue.pop_front_if(|first| first.pending.is_done());
        self.any.store(!queue.is_empty(), Relaxed);
        first
    }
}
