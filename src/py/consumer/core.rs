//! [`ConsumerCore`]: the fields of a consumer, and what the files that implement its methods share: the lock of the
//! delivery buffer, and the offsets to commit.

use crate::client::{self, AnyClient, CommittedOffset, Error};
use crate::py::client::ClientCore;
use crate::py::commits::{Commits, OffsetToCommit};
use crate::py::deadline::Cutoff;
use crate::py::delivery_buffer::{DeliveryBuffer, Processed};
use crate::py::pending::Pending;
use pyo3::prelude::*;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The base class of the consumers.
#[pyclass(extends = ClientCore, subclass, frozen, generic, name = "Consumer", module = "klamm")]
pub(in crate::py) struct ConsumerCore {
    pub(in crate::py) client: Arc<client::Consumer>,
    pub(super) max_poll_records: usize,
    pub(in crate::py) buffer: Arc<Mutex<DeliveryBuffer>>,
    pub(in crate::py) commits: Commits,
    /// The rebalance listener.
    pub(in crate::py) listener: Mutex<Option<Py<PyAny>>>,
    /// Whether Python handles the changes of the assignment, because it has to await the listener.
    pub(in crate::py) defers: AtomicBool,
    pub(super) close_timeout: f64,
    pub(super) default_close_timeout: f64,
    pub(in crate::py) cutoff: Cutoff,
}

impl ConsumerCore {
    pub(super) fn any(&self) -> Arc<dyn AnyClient> {
        self.client.clone()
    }

    pub(super) fn pending_commit(&self, pending: client::Pending<()>) -> Pending {
        let client = self.client.clone();
        Pending::explained("commit", self.any(), pending, |py, ()| Ok(py.None()), move || client.why_not_committed())
    }

    #[inline]
    pub(super) fn check(&self) -> PyResult<()> {
        Ok(self.client.check()?)
    }

    /// Locks the delivery buffer. A thread keeps this lock only briefly, and does not release the interpreter while it
    /// has the lock.
    #[inline]
    pub(in crate::py) fn buffer(&self) -> MutexGuard<'_, DeliveryBuffer> {
        self.buffer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Rewinds each partition that stays assigned. The new position is the first record that the program has not
    /// consumed.
    ///
    /// The caller then drops the delivery buffer.
    pub(super) fn rewind<'a>(&self, partitions: impl Iterator<Item = (&'a str, i32)>) {
        let buffer = self.buffer();
        for (topic, partition) in partitions {
            if let Some(offset) = buffer.position(topic, partition) {
                self.client.rewind(topic, partition, offset);
            }
        }
    }

    /// Empties the delivery buffer after a new assignment.
    pub(super) fn clear_buffer(&self) {
        *self.buffer() = DeliveryBuffer::default();
    }

    /// Returns `offsets`, or the offsets after the delivered records if `offsets` is `None`.
    pub(super) fn to_commit(&self, offsets: Option<Vec<OffsetToCommit>>) -> Result<Vec<CommittedOffset>, Error> {
        if let Some(offsets) = offsets {
            return Ok(offsets.into_iter().map(Into::into).collect());
        }
        self.buffer().finish(&self.client, Processed::All);
        self.delivered_offsets()
    }

    /// Returns the offsets after the delivered records, with the known leader epochs.
    ///
    /// The client's position is after the records in the delivery buffer. For partitions in the delivery buffer, the
    /// position of the delivery buffer therefore applies. Only a seek to an earlier offset takes precedence.
    pub(super) fn delivered_offsets(&self) -> Result<Vec<CommittedOffset>, Error> {
        let buffer = self.buffer();
        let positions = buffer.positions();
        let offsets = self.client.positions()?;
        if positions.is_empty() {
            return Ok(offsets);
        }
        let position = |o: &CommittedOffset| {
            let offset = positions.get(&(&*o.topic, o.partition)).map_or(o.offset, |offset| o.offset.min(*offset));
            (o.topic.clone(), o.partition, offset)
        };
        self.client.with_epochs(offsets.iter().map(position).collect())
    }
}
