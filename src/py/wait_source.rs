//! [`WaitSource`]: an object that an asyncio task can await, such as a consumer.
//!
//! `pending.rs` implements [`WaitSource`] for the result of a single call.

use crate::client::{AnyClient, Consumer, Producer, ShareConsumer};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use std::sync::Arc;
use std::task::Waker;

pub(super) trait WaitSource: Send + Sync {
    /// Returns the client whose sockets an event loop may watch, if any.
    fn watched(&self) -> Option<Arc<dyn AnyClient>> {
        None
    }

    /// Registers a waker. The source calls the waker when it is ready.
    fn on_ready(&self, waker: Waker);

    /// Unregisters a waker. Otherwise, an idle client would collect the wakers of all cancelled waits.
    fn forget(&self, _waker: &Waker) {}

    /// Returns the result of the wait when the source is ready.
    fn result(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        Ok(true.into_pyobject(py)?.to_owned().into_any().unbind())
    }

    /// Returns the result of a wait that timed out after `_seconds`.
    fn timed_out(&self, py: Python<'_>, _seconds: f64) -> PyResult<Py<PyAny>> {
        Ok(false.into_pyobject(py)?.to_owned().into_any().unbind())
    }

    /// Visits the Python objects that the source holds, for the garbage collector.
    fn traverse(&self, _visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        Ok(())
    }
}

/// A wait for the records of a consumer or share consumer.
pub(super) struct RecordWait<C> {
    pub(super) client: Arc<C>,
    pub(super) has_timeout: bool,
}

/// The source is ready when the consumer has records, has an error, or has reached the end of its assignment. Without a
/// timeout, the source is also ready when the consumer has nothing to read.
impl WaitSource for RecordWait<Consumer> {
    fn watched(&self) -> Option<Arc<dyn AnyClient>> {
        Some(self.client.clone())
    }
    fn on_ready(&self, waker: Waker) {
        self.client.on_records(waker, self.has_timeout);
    }
    fn forget(&self, waker: &Waker) {
        self.client.forget(waker);
    }
}

/// The source is ready when the share consumer has records or an error. Without a timeout, the source is also ready
/// when the share consumer has no topics.
impl WaitSource for RecordWait<ShareConsumer> {
    fn on_ready(&self, waker: Waker) {
        self.client.on_ready(waker, self.has_timeout);
    }
    fn forget(&self, waker: &Waker) {
        self.client.forget(waker);
    }
}

/// A source that is ready when the producer's buffer has room.
pub(super) struct BufferRoom(pub(super) Arc<Producer>);

impl WaitSource for BufferRoom {
    fn on_ready(&self, waker: Waker) {
        self.0.on_ready(waker, true);
    }
    fn forget(&self, waker: &Waker) {
        self.0.forget(waker);
    }
}
