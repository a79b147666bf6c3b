//! The queue for log lines: clients write to it, and `klamm.logs` reads it in a separate thread and calls Python's
//! loggers.
//!
//! A client puts its lines into the queue without the GIL. If the queue is full, it drops new lines and counts them.
//! Each client has a [`LogTarget`], which holds the client's loggers and their levels.

use super::commits::offset_and_metadata;
use super::deadline::bounded;
use super::error::raise;
use crate::client::{CommitResult, CommittedOffset, Error};
use crate::logging::flight::Flight;
use crate::logging::{Component, Line, Sink, begin_passing_lines};
use log::{Level, LevelFilter};
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use std::any::Any;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Maximum number of lines in the queue.
const CAPACITY: usize = 10_000;
/// Maximum number of a client's errors that wait for the callback.
const MOST_ERRORS: usize = 100;
/// Maximum number of commit results that wait for interceptors.
const MOST_COMMITS: usize = 1000;

/// A log line, its loggers, and the time at which the client wrote it, in seconds since 1970.
struct Waiting {
    loggers: Arc<Py<PyAny>>,
    line: Line,
    at: f64,
}

#[derive(Default)]
struct Queue {
    lines: VecDeque<Waiting>,
    dropped: u64,
    /// Whether the draining thread is writing lines that it has taken.
    is_writing: bool,
    is_closed: bool,
}

/// The queue that clients fill and a thread drains. All clients of a process share one queue.
#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
    has_drain: AtomicBool,
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until a condition is true or the time has passed.
    fn wait(&self, time: Duration, is_over: impl Fn(&Queue) -> bool) -> MutexGuard<'_, Queue> {
        let waited = self.changed.wait_timeout_while(self.queue(), time, |queue| !is_over(queue));
        waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

/// The log lines of all clients of this process that are not written yet.
#[pyclass(frozen, module = "klamm._klamm")]
pub(super) struct LogQueue {
    shared: Arc<Shared>,
}

/// A line for Python.
#[pyclass(frozen, get_all, module = "klamm._klamm")]
pub(super) struct LogLine {
    /// The loggers of the client, one for each component.
    loggers: Py<PyAny>,
    /// The number of the component.
    component: usize,
    level: u8,
    text: String,
    client_id: String,
    broker: Option<String>,
    topic: Option<String>,
    partition: Option<i32>,
    /// When the client wrote the line, in seconds since 1970.
    created: f64,
    /// Whether the client's configuration requests the line, regardless of the logger's level.
    is_demanded: bool,
}

#[pymethods]
impl LogQueue {
    #[new]
    fn new() -> Self {
        Self { shared: Arc::default() }
    }

    /// Waits for lines. Returns the lines and the number of dropped lines, or None after the queue is closed and empty.
    fn take(&self, py: Python<'_>) -> Option<(Vec<LogLine>, u64)> {
        begin_passing_lines();
        let (lines, dropped) = py.detach(|| {
            let mut queue = self.shared.queue();
            queue.is_writing = false;
            drop(queue);
            self.shared.changed.notify_all();
            queue = self.shared.wait(Duration::MAX, |queue| !queue.lines.is_empty() || queue.is_closed);
            queue.is_writing = true;
            (std::mem::take(&mut queue.lines), std::mem::take(&mut queue.dropped))
        });
        if lines.is_empty() {
            self.shared.queue().is_writing = false;
            return None;
        }
        let line = |Waiting { loggers, line, at }: Waiting| LogLine {
            loggers: loggers.clone_ref(py),
            component: line.component as usize,
            level: level_number(line.level),
            text: line.text,
            client_id: line.client_id.to_string(),
            broker: line.broker,
            topic: line.topic,
            partition: line.partition,
            created: at,
            is_demanded: line.is_demanded,
        };
        Some((lines.into_iter().map(line).collect(), dropped))
    }

    /// Waits up to `seconds` until all lines are written. Returns whether all lines are written.
    fn flush(&self, py: Python<'_>, seconds: f64) -> bool {
        let is_done = |queue: &Queue| queue.lines.is_empty() && !queue.is_writing;
        !self.shared.has_drain.load(Relaxed)
            || py.detach(|| is_done(&self.shared.wait(bounded(Some(seconds)), is_done)))
    }

    /// Makes the draining thread end after it has written the waiting lines.
    fn close(&self) {
        self.shared.queue().is_closed = true;
        self.shared.changed.notify_all();
    }
}

/// The target of the lines of one client.
#[pyclass(frozen, weakref, module = "klamm._klamm")]
pub(super) struct LogTarget {
    sink: Arc<Target>,
}

struct Target {
    shared: Arc<Shared>,
    loggers: Arc<Py<PyAny>>,
    /// The most verbose level of each component.
    levels: [AtomicU8; Component::ALL.len()],
    /// The errors for the application's callback, or `None` without a callback.
    errors: Option<Arc<Errors>>,
    /// The flight recorder, once the client has started.
    flight: OnceLock<Arc<Flight>>,
    /// The commit results that interceptors have not received yet, or `None` without interceptors.
    commits: Mutex<Option<VecDeque<CommitResult>>>,
}

#[pymethods]
impl LogTarget {
    /// Creates a target for a list of loggers, one for each component.
    #[new]
    fn new(queue: &LogQueue, loggers: Py<PyAny>, errors: Option<&ErrorQueue>) -> Self {
        let (shared, loggers) = (queue.shared.clone(), Arc::new(loggers));
        let errors = errors.map(|errors| errors.errors.clone());
        Self {
            sink: Arc::new(Target {
                shared,
                loggers,
                levels: Default::default(),
                errors,
                flight: OnceLock::new(),
                commits: Mutex::default(),
            }),
        }
    }

    #[getter]
    pub fn loggers(&self, py: Python<'_>) -> Py<PyAny> {
        self.sink.loggers.clone_ref(py)
    }

    /// Writes the dump of the flight recorder to a file that only the user can read. Returns False if the recorder is
    /// disabled or the client has not started.
    fn dump_flight(&self, py: Python<'_>, path: PathBuf) -> PyResult<bool> {
        let Some(flight) = self.sink.flight.get() else { return Ok(false) };
        py.detach(|| flight.dump_to(&path)).map_err(|error| {
            let reason = error.to_string();
            let reason = reason.split(" (os error").next().unwrap_or_default().to_owned();
            PyOSError::new_err((error.raw_os_error(), reason, path))
        })?;
        Ok(true)
    }

    /// Keeps the results of commits for [`LogTarget::take_commits`].
    fn keep_commits(&self) {
        self.sink.commits().get_or_insert_default();
    }

    /// Returns the results of commits since the last call: the offsets by topic and partition, and the error or None.
    fn take_commits(&self, py: Python<'_>) -> PyResult<Vec<(Vec<(String, i32, Py<PyAny>)>, Option<Py<PyAny>>)>> {
        let commits = self.sink.commits().as_mut().map(std::mem::take).unwrap_or_default();
        let offset = |o: &CommittedOffset| Ok((o.topic.to_string(), o.partition, offset_and_metadata(py, o)?));
        let converted = commits.iter().map(|commit| {
            let offsets = commit.offsets.iter().map(offset).collect::<PyResult<_>>()?;
            Ok((offsets, commit.error.as_ref().map(|error| raise(py, error).into_value(py).into_any())))
        });
        converted.collect()
    }

    /// Sets the lowest level of each component, as a number of Python's `logging`.
    fn set_levels(&self, levels: [u32; Component::ALL.len()]) {
        for (level, number) in self.sink.levels.iter().zip(levels) {
            level.store(filter(number) as u8, Relaxed);
        }
    }
}

impl Target {
    fn commits(&self) -> MutexGuard<'_, Option<VecDeque<CommitResult>>> {
        self.commits.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LogTarget {
    pub(super) fn sink(&self) -> Arc<dyn Sink> {
        self.sink.clone()
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        self.end();
    }
}

/// Errors that wait for the callback, and whether the client is closed or dropped.
#[derive(Default)]
struct Errors {
    queue: Mutex<(VecDeque<Error>, bool)>,
    changed: Condvar,
}

impl Errors {
    fn queue(&self) -> MutexGuard<'_, (VecDeque<Error>, bool)> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn close(&self) {
        self.queue().1 = true;
        self.changed.notify_all();
    }
}

/// The errors that a client reports to `on_error`.
#[pyclass(frozen, module = "klamm._klamm")]
pub(super) struct ErrorQueue {
    errors: Arc<Errors>,
}

#[pymethods]
impl ErrorQueue {
    #[new]
    fn new() -> Self {
        Self { errors: Arc::default() }
    }

    /// Makes [`ErrorQueue::take`] return None.
    fn close(&self) {
        self.errors.close();
    }

    /// Waits for an error. Returns None after the client is closed or dropped.
    fn take(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        let error = py.detach(|| {
            let queue =
                self.errors.changed.wait_while(self.errors.queue(), |(errors, is_over)| errors.is_empty() && !*is_over);
            queue.unwrap_or_else(PoisonError::into_inner).0.pop_front()
        });
        error.map(|error| raise(py, &error).into_value(py).into_any())
    }
}

impl Sink for Target {
    fn report(&self, problem: &(dyn Any + Send + Sync)) {
        if let Some(result) = problem.downcast_ref::<CommitResult>() {
            if let Some(commits) = self.commits().as_mut() {
                if commits.len() >= MOST_COMMITS {
                    commits.pop_front();
                }
                commits.push_back(result.clone());
            }
            return;
        }
        let (Some(errors), Some(error)) = (&self.errors, problem.downcast_ref::<Error>()) else { return };
        let mut queue = errors.queue();
        // A callback that blocks gets the newest errors when it returns.
        if queue.0.len() >= MOST_ERRORS {
            queue.0.pop_front();
        }
        queue.0.push_back(error.clone());
        drop(queue);
        errors.changed.notify_all();
    }

    fn end(&self) {
        if let Some(errors) = &self.errors {
            errors.close();
        }
    }

    fn start(&self, flight: Option<&Arc<Flight>>) {
        if let Some(flight) = flight {
            // A client starts once, so the cell is empty or has this recorder.
            let _ = self.flight.set(flight.clone());
        }
        if !self.shared.has_drain.swap(true, Relaxed) {
            // A failure, as while the interpreter ends, leaves the lines in the queue.
            let _ = Python::try_attach(|py| {
                let started = py.import("klamm.logs").and_then(|logs| logs.call_method0("start_drain"));
                if let Err(error) = started {
                    error.write_unraisable(py, None);
                }
            });
        }
    }

    fn is_enabled(&self, level: Level, component: Component) -> bool {
        level as u8 <= self.levels.get(component as usize).map_or(0, |most| most.load(Relaxed))
    }

    fn write(&self, line: Line) {
        let at = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64());
        let mut queue = self.shared.queue();
        if queue.lines.len() >= CAPACITY {
            queue.dropped += 1;
            return;
        }
        let is_first = queue.lines.is_empty();
        queue.lines.push_back(Waiting { loggers: self.loggers.clone(), line, at });
        drop(queue);
        if is_first {
            self.shared.changed.notify_all();
        }
    }
}

/// Sets the most verbose level that any client wants, as a number of Python's `logging`.
#[pyfunction]
pub(super) fn set_log_level(level: u32) {
    log::set_max_level(filter(level));
}

/// Returns the names of the components of a client that have loggers.
#[pyfunction]
pub(super) fn log_components() -> Vec<&'static str> {
    Component::ALL.iter().map(|component| component.name()).collect()
}

fn level_number(level: Level) -> u8 {
    match level {
        Level::Error => 40,
        Level::Warn => 30,
        Level::Info => 20,
        Level::Debug => 10,
        Level::Trace => 5,
    }
}

fn filter(number: u32) -> LevelFilter {
    match number {
        ..=5 => LevelFilter::Trace,
        6..=10 => LevelFilter::Debug,
        11..=20 => LevelFilter::Info,
        21..=30 => LevelFilter::Warn,
        31..=40 => LevelFilter::Error,
        _ => LevelFilter::Off,
    }
}
