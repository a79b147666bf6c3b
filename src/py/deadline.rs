//! Timeouts of Python calls, and waits that release the GIL.
//!
//! A waiting thread wakes up every 100 ms ([`SLICE`]) and checks for signals, so Ctrl+C interrupts the wait.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Longest wait between two checks for signals.
pub(super) const SLICE: Duration = Duration::from_millis(100);

/// How long a close waits even with a timeout of zero. In this time, healthy brokers store a commit and remove the
/// member from its group.
pub(super) const LEAST_CLOSE: Duration = Duration::from_millis(100);

/// First and longest pause of a greenlet between two checks for a result.
const SHORTEST_PAUSE: Duration = Duration::from_micros(250);
const LONGEST_PAUSE: Duration = Duration::from_millis(10);

/// The time at which a wait times out, or never.
#[derive(Clone, Copy)]
pub(super) struct Deadline(Option<Instant>);

impl Deadline {
    /// Returns the deadline that is `seconds` from now. `None` never times out.
    pub(super) fn after(seconds: Option<f64>) -> Self {
        Self(seconds.and_then(duration).and_then(|d| Instant::now().checked_add(d)))
    }

    pub(super) fn is_never(self) -> bool {
        self.0.is_none()
    }

    /// Returns the later of this deadline and the deadline that is `time` from now.
    pub(super) fn at_least(self, time: Duration) -> Self {
        Self(self.0.map(|end| end.max(Instant::now() + time)))
    }

    pub(super) fn left(self) -> Duration {
        self.0.map_or(Duration::MAX, |end| end.saturating_duration_since(Instant::now()))
    }
}

/// Ends the waits of a close early. Another thread may set the cutoff while the close is running.
#[derive(Default)]
pub(super) struct Cutoff(Mutex<Option<Instant>>);

impl Cutoff {
    /// Ends the waits `seconds` from now.
    pub(super) fn after(&self, seconds: f64) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Deadline::after(Some(seconds)).0;
    }

    pub(super) fn is_over(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_some_and(|end| end <= Instant::now())
    }
}

/// Calls `wait` in slices, with the interpreter released, until `wait` returns true or the deadline has passed.
///
/// Returns whether `wait` returned true. An exception from a signal handler ends the wait.
pub(super) fn wait_for(py: Python<'_>, end: Deadline, wait: impl Fn(Duration) -> bool + Sync) -> PyResult<bool> {
    if wait(Duration::ZERO) {
        return Ok(true);
    }
    if let Some(sleep) = greenlet_sleep(py)? {
        return wait_in_greenlet(&sleep, end, wait);
    }
    loop {
        let slice = end.left().min(SLICE);
        if py.detach(|| wait(slice)) {
            return Ok(true);
        }
        py.check_signals()?;
        if end.left().is_zero() {
            return Ok(false);
        }
    }
}

/// Returns gevent's `sleep` if the caller is a greenlet of gevent, because a native wait would block all greenlets of
/// this thread.
///
/// Returns `None` in a thread without a hub, which has no other greenlets, and in the hub itself, which cannot switch
/// to greenlets.
fn greenlet_sleep(py: Python<'_>) -> PyResult<Option<Bound<'_, PyAny>>> {
    // Every call that blocks comes here. Importing `sys` each time was 13 % of the instructions of a blocking send.
    static MODULES: PyOnceLock<Py<PyDict>> = PyOnceLock::new();
    let modules = MODULES.get_or_try_init(py, || {
        Ok::<_, PyErr>(py.import("sys")?.getattr("modules")?.cast_into::<PyDict>()?.unbind())
    })?;
    let Some(hubs) = modules.bind(py).get_item(intern!(py, "gevent._hub_local"))? else { return Ok(None) };
    let hub = hubs.call_method0("get_hub_if_exists")?;
    if hub.is_none() || py.import("greenlet")?.call_method0("getcurrent")?.is(&hub) {
        return Ok(None);
    }
    py.import("gevent")?.getattr("sleep").map(Some)
}

/// Calls `wait` without blocking until `wait` returns true or the deadline has passed. Other greenlets run in between.
fn wait_in_greenlet(sleep: &Bound<'_, PyAny>, end: Deadline, wait: impl Fn(Duration) -> bool) -> PyResult<bool> {
    let mut pause = SHORTEST_PAUSE;
    loop {
        sleep.call1((pause.min(end.left()).as_secs_f64(),))?;
        if wait(Duration::ZERO) {
            return Ok(true);
        }
        if end.left().is_zero() {
            return Ok(false);
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Converts a Python timeout. Negative numbers and NaN become zero. The result is `None` if the time is too long for a
/// `Duration`.
pub(super) fn duration(seconds: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(seconds.max(0.0)).ok()
}

/// Converts a timeout for a call that cannot wait without limit. The result is at most `u32::MAX` seconds.
pub(super) fn bounded(seconds: Option<f64>) -> Duration {
    seconds.and_then(duration).unwrap_or(Duration::MAX).min(Duration::from_secs(u32::MAX.into()))
}
