//! [`Failures`]: the errors of records whose result the program does not take.
//!
//! `on_error` gets each error once. `flush` and `close` raise the errors, together with the number of records.

use super::error::raise;
use crate::client::{ErrorKind, Producer};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard, PoisonError};

pub(super) struct Failures {
    on_error: Option<Py<PyAny>>,
    /// The exceptions that `flush` has not raised yet, and the number of records of each exception.
    kept: Mutex<Vec<(Py<PyAny>, u64)>>,
    /// Whether `flush` raises new failures. Between the end of a transaction and the start of the next one, it does not:
    /// a failure of the ended transaction can still arrive.
    is_keeping: AtomicBool,
}

impl Failures {
    pub fn new(on_error: Option<Py<PyAny>>) -> Self {
        Self { on_error, kept: Mutex::default(), is_keeping: AtomicBool::new(true) }
    }

    /// Calls `on_error` for new failures, before a call that sends a record.
    #[inline]
    pub fn before_send(&self, py: Python<'_>, client: &Producer) -> PyResult<()> {
        if self.on_error.is_some() { self.report(py, client) } else { Ok(()) }
    }

    /// Takes new failures from the client and calls `on_error`.
    pub fn report(&self, py: Python<'_>, client: &Producer) -> PyResult<()> {
        if !client.has_failures() || client.check().is_err_and(|e| e.kind() == ErrorKind::Forked) {
            return Ok(());
        }
        let failures = client.take_failures();
        let failures: Vec<_> =
            failures.iter().map(|f| (raise(py, &f.error).into_value(py).into_any(), f.count)).collect();
        self.add(py, failures)
    }

    /// Adds failures and calls `on_error`.
    pub fn add(&self, py: Python<'_>, failures: Vec<(Py<PyAny>, u64)>) -> PyResult<()> {
        if self.is_keeping.load(SeqCst) {
            self.kept().extend(failures.iter().map(|(error, count)| (error.clone_ref(py), *count)));
        }
        let Some(on_error) = &self.on_error else { return Ok(()) };
        failures.into_iter().try_for_each(|(error, _)| on_error.call1(py, (error,)).map(drop))
    }

    /// Returns the failures since the last call.
    pub fn take(&self) -> Vec<(Py<PyAny>, u64)> {
        std::mem::take(&mut *self.kept())
    }

    /// Keeps new failures for `flush`, because a transaction begins.
    pub fn keep(&self) {
        self.is_keeping.store(true, SeqCst);
    }

    /// Drops the failures of a transaction that ends, and keeps no new ones until the next transaction begins.
    pub fn drop_kept(&self) {
        self.is_keeping.store(false, SeqCst);
        self.kept().clear();
    }

    pub fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.on_error)
    }

    fn kept(&self) -> MutexGuard<'_, Vec<(Py<PyAny>, u64)>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
