//! `Pending`: something that is under way. `.result(timeout)` waits for it, `await` parks on it; both see one outcome.
//!
//! Waiting gives the interpreter away and comes back every [`SLICE`] to look for signals, so that Ctrl+C ends it.

use super::arguments;
use super::error::{exception, raise};
use super::event_loop::{self, Ready};
use super::parked::{News, Parked};
use super::record::metadata;
use crate::client::{self, ErrorKind};
use pyo3::exceptions::PyStopIteration;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::borrow::Cow;
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};

/// A wait without looking for signals is no longer than this.
pub(super) const SLICE: Duration = Duration::from_millis(100);

/// Whose work it is: knows what the network said last, for messages.
#[derive(Clone)]
pub(super) enum Origin {
    Producer(Arc<client::Producer>),
    Consumer(Arc<client::Consumer>),
    ShareConsumer(Arc<client::ShareConsumer>),
    Admin(Arc<client::Admin>),
}

impl Origin {
    /// An error in the child of a fork: what is under way belongs to the parent, and a lock may be held for ever.
    fn check(&self, py: Python<'_>) -> PyResult<()> {
        let result = match self {
            Self::Producer(p) => p.check(),
            Self::Consumer(c) => c.check(),
            Self::ShareConsumer(c) => c.check(),
            Self::Admin(a) => a.check(),
        };
        match result {
            Err(e) if e.kind() == ErrorKind::Forked => Err(raise(py, &e)),
            _ => Ok(()),
        }
    }

    /// Lets whoever is about to wait do so; an error in a callback that would do it for ever.
    fn may_wait(&self, py: Python<'_>) -> PyResult<client::Waiting> {
        let result = match self {
            Self::Producer(p) => p.may_wait(),
            Self::Consumer(c) => c.may_wait(),
            Self::ShareConsumer(c) => c.may_wait(),
            Self::Admin(a) => a.may_wait(),
        };
        result.map_err(|e| raise(py, &e))
    }

    /// What went wrong last, of what is tried again.
    fn last_error(&self) -> Option<client::Error> {
        match self {
            Self::Producer(p) => p.last_network_error().or_else(|| p.last_refusal()),
            Self::Consumer(c) => c.last_network_error(),
            Self::ShareConsumer(c) => c.last_network_error(),
            Self::Admin(a) => a.last_network_error(),
        }
    }
}

/// A completion whose value becomes a Python object when somebody looks.
trait Outcome: Send + Sync {
    /// What it is called in the message of a timeout.
    fn what(&self) -> &str;
    /// Why it is not there, if that is known.
    fn why(&self) -> Option<client::Error>;
    fn wait(&self, timeout: Duration) -> bool;
    fn is_done(&self) -> bool;
    fn get(&self, py: Python<'_>) -> Option<PyResult<Py<PyAny>>>;
    fn on_done(&self, waker: Waker);
}

struct Converted<T, F, W> {
    what: Cow<'static, str>,
    pending: client::Pending<T>,
    convert: F,
    why: W,
}

impl<T, F, W> Outcome for Converted<T, F, W>
where
    T: Clone + Send + Sync,
    F: Fn(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + Sync,
    W: Fn() -> Option<client::Error> + Send + Sync,
{
    fn what(&self) -> &str {
        &self.what
    }
    fn why(&self) -> Option<client::Error> {
        (self.why)()
    }
    fn wait(&self, timeout: Duration) -> bool {
        self.pending.wait(timeout)
    }
    fn is_done(&self) -> bool {
        self.pending.is_done()
    }
    fn get(&self, py: Python<'_>) -> Option<PyResult<Py<PyAny>>> {
        Some(self.pending.get()?.map_err(|e| raise(py, &e)).and_then(|value| (self.convert)(py, value)))
    }
    fn on_done(&self, waker: Waker) {
        self.pending.on_done(waker);
    }
}

/// What `add_done_callback` left to be called.
struct Callback {
    pending: Py<Pending>,
    callback: Py<PyAny>,
}

impl Wake for Callback {
    fn wake(self: Arc<Self>) {
        Python::attach(|py| {
            if let Err(error) = self.callback.call1(py, (&self.pending,)) {
                error.write_unraisable(py, Some(self.callback.bind(py)));
            }
        });
    }
}

/// A value that was there from the start.
struct Known(&'static str, Py<PyAny>);

impl Outcome for Known {
    fn what(&self) -> &str {
        self.0
    }
    fn why(&self) -> Option<client::Error> {
        None
    }
    fn wait(&self, _: Duration) -> bool {
        true
    }
    fn is_done(&self) -> bool {
        true
    }
    fn get(&self, py: Python<'_>) -> Option<PyResult<Py<PyAny>>> {
        Some(Ok(self.1.clone_ref(py)))
    }
    fn on_done(&self, waker: Waker) {
        waker.wake();
    }
}

/// Something under way: `.result(timeout)` waits for its outcome, and so does `await`.
#[pyclass(frozen, name = "Pending", module = "klamm._klamm", generic)]
pub(super) struct Pending {
    kind: Kind,
    origin: Origin,
}

/// Deliveries are many and need no box.
enum Kind {
    Delivery(client::Pending<client::RecordMetadata>),
    Other(Box<dyn Outcome>),
}

impl Pending {
    pub(super) fn delivery(pending: client::Pending<client::RecordMetadata>, origin: Origin) -> Self {
        Self { kind: Kind::Delivery(pending), origin }
    }

    /// `convert` makes the Python value; `what` names it in the message of a timeout.
    pub(super) fn new<T, F>(what: &'static str, origin: Origin, pending: client::Pending<T>, convert: F) -> Self
    where
        T: Clone + Send + Sync + 'static,
        F: Fn(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + Sync + 'static,
    {
        Self::explained(what, origin, pending, convert, || None)
    }

    /// The same of what may be waited for for less long than it is tried: `why` gives what is in its way so far.
    pub(super) fn explained<T, F, W>(
        what: impl Into<Cow<'static, str>>,
        origin: Origin,
        pending: client::Pending<T>,
        convert: F,
        why: W,
    ) -> Self
    where
        T: Clone + Send + Sync + 'static,
        F: Fn(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + Sync + 'static,
        W: Fn() -> Option<client::Error> + Send + Sync + 'static,
    {
        Self { kind: Kind::Other(Box::new(Converted { what: what.into(), pending, convert, why })), origin }
    }

    pub(super) fn known(what: &'static str, origin: Origin, value: Py<PyAny>) -> Self {
        Self { kind: Kind::Other(Box::new(Known(what, value))), origin }
    }

    fn what(&self) -> &str {
        match &self.kind {
            Kind::Delivery(_) => "acknowledgement",
            Kind::Other(outcome) => outcome.what(),
        }
    }

    /// Why there is no outcome yet, as far as that is known.
    fn why(&self) -> Option<client::Error> {
        let own = match &self.kind {
            Kind::Delivery(_) => None,
            Kind::Other(outcome) => outcome.why(),
        };
        own.or_else(|| self.origin.last_error())
    }

    fn wait(&self, timeout: Duration) -> bool {
        match &self.kind {
            Kind::Delivery(pending) => match &self.origin {
                Origin::Producer(producer) => producer.wait(pending, timeout),
                _ => pending.wait(timeout),
            },
            Kind::Other(outcome) => outcome.wait(timeout),
        }
    }

    /// Whose record it is.
    pub(super) fn producer(&self) -> Option<&Arc<client::Producer>> {
        match (&self.kind, &self.origin) {
            (Kind::Delivery(_), Origin::Producer(producer)) => Some(producer),
            _ => None,
        }
    }

    fn is_done(&self) -> bool {
        match &self.kind {
            Kind::Delivery(pending) => pending.is_done(),
            Kind::Other(outcome) => outcome.is_done(),
        }
    }

    /// The outcome, if there is one.
    pub(super) fn get(&self, py: Python<'_>) -> Option<PyResult<Py<PyAny>>> {
        match &self.kind {
            Kind::Delivery(pending) => Some(pending.get()?.map_err(|e| raise(py, &e)).and_then(|m| metadata(py, m))),
            Kind::Other(outcome) => outcome.get(py),
        }
    }

    pub(super) fn on_done(&self, waker: Waker) {
        match &self.kind {
            Kind::Delivery(pending) => pending.on_done(waker),
            Kind::Other(outcome) => outcome.on_done(waker),
        }
    }

    fn outcome(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<PyResult<Py<PyAny>>> {
        self.origin.check(py)?;
        let waits = !self.is_done() && timeout.is_none_or(|seconds| seconds > 0.0);
        let _waiting = waits.then(|| self.origin.may_wait(py)).transpose()?;
        if !wait_for(py, Deadline::after(timeout), |slice| self.wait(slice))? {
            return Err(self.timed_out(py, timeout.unwrap_or_default()));
        }
        self.get(py).ok_or_else(|| self.timed_out(py, 0.0))
    }
}

#[pymethods]
impl Pending {
    /// Waits for the outcome and returns it, or raises what went wrong.
    #[pyo3(signature = (timeout = None))]
    fn result(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arguments::timeout)] timeout: Option<f64>,
    ) -> PyResult<Py<PyAny>> {
        self.outcome(py, timeout)?
    }

    /// Waits for the outcome and returns what went wrong, or None.
    #[pyo3(signature = (timeout = None))]
    fn exception(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arguments::timeout)] timeout: Option<f64>,
    ) -> PyResult<Option<Py<PyAny>>> {
        Ok(self.outcome(py, timeout)?.err().map(|e| e.into_value(py).into_any()))
    }

    /// Whether there is an outcome.
    fn done(&self, py: Python<'_>) -> PyResult<bool> {
        self.origin.check(py)?;
        Ok(self.is_done())
    }

    /// Calls `callback` with this object when there is an outcome, at once if there is one.
    ///
    /// It runs in the thread that brings the outcome, mostly the client's I/O thread, so it must be short and wait for
    /// nothing; what it raises goes to `sys.unraisablehook`.
    fn add_done_callback(slf: &Bound<'_, Self>, callback: Py<PyAny>) -> PyResult<()> {
        let this = slf.get();
        this.origin.check(slf.py())?;
        if !callback.bind(slf.py()).is_callable() {
            return Err(arguments::of_type("callback", callback.bind(slf.py()), "a function", None));
        }
        this.on_done(Arc::new(Callback { pending: slf.clone().unbind(), callback }).into());
        Ok(())
    }

    /// Awaits the outcome, at most for so many seconds; KafkaTimeoutError is raised then, and the work goes on.
    #[pyo3(signature = (timeout))]
    fn within<'py>(
        slf: &Bound<'py, Self>,
        #[pyo3(from_py_with = arguments::timeout)] timeout: Option<f64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (py, this) = (slf.py(), slf.get());
        this.origin.check(py)?;
        match this.get(py) {
            Some(outcome) => Ok(Ready::new(py, outcome?)?.into_any()),
            None => Ok(event_loop::park(py, News::Of(slf.clone().unbind()), timeout)?.into_any()),
        }
    }

    fn __await__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Self::within(slf, None)
    }

    /// Does a step of a task; with `throw` and `close` this makes it a coroutine, as `asyncio.create_task` wants one.
    ///
    /// It looks whether there is an outcome and parks anew if there is none, so that any number of tasks may share one.
    fn send<'py>(slf: &Bound<'py, Self>, _value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, Parked>> {
        let (py, this) = (slf.py(), slf.get());
        this.origin.check(py)?;
        match this.get(py) {
            // In a tuple, since a value that is a tuple would be taken for the exception's arguments.
            Some(outcome) => Err(PyStopIteration::new_err((outcome?,))),
            None => Parked::__next__(event_loop::park(py, News::Of(slf.clone().unbind()), None)?),
        }
    }

    #[pyo3(signature = (error, *_more))]
    fn throw(&self, error: Bound<'_, PyAny>, _more: &Bound<'_, PyTuple>) -> PyResult<()> {
        Err(PyErr::from_value(error))
    }

    fn close(&self) {}

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        self.origin.check(py)?;
        Ok(match self.get(py) {
            None => format!("<Pending {}>", self.what()),
            Some(Ok(value)) => format!("<Pending {}: {}>", self.what(), value.bind(py).repr()?),
            Some(Err(error)) => format!("<Pending {}: {}>", self.what(), error.value(py).repr()?),
        })
    }
}

impl Pending {
    /// The error for a wait of so many seconds that saw no outcome.
    #[cold]
    pub(super) fn timed_out(&self, py: Python<'_>, seconds: f64) -> PyErr {
        let why = py.detach(|| self.why());
        let message = match &why {
            Some(error) => format!("no {} within {seconds} s: {}", self.what(), error.placed()),
            None => format!("no {} within {seconds} s", self.what()),
        };
        let hint = why.as_ref().and_then(|error| error.hint());
        let hint = hint.unwrap_or("it may still come; wait longer, or look at the brokers");
        exception(py, "KafkaTimeoutError", &message, Some(hint))
    }
}

/// Waits in slices with the interpreter given away until `wait` says it is over, or it is too late. A signal's exception
/// ends it.
pub(super) fn wait_for(py: Python<'_>, end: Deadline, wait: impl Fn(Duration) -> bool + Sync) -> PyResult<bool> {
    if wait(Duration::ZERO) {
        return Ok(true);
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

/// When a wait is over; never, if no time was given.
#[derive(Clone, Copy)]
pub(super) struct Deadline(Option<Instant>);

impl Deadline {
    /// So many seconds from now.
    pub(super) fn after(seconds: Option<f64>) -> Self {
        Self(seconds.and_then(duration).and_then(|d| Instant::now().checked_add(d)))
    }

    pub(super) fn is_never(self) -> bool {
        self.0.is_none()
    }

    pub(super) fn left(self) -> Duration {
        self.0.map_or(Duration::MAX, |end| end.saturating_duration_since(Instant::now()))
    }
}

/// Seconds as Python has them; what is below zero, or no number, is now.
pub(super) fn duration(seconds: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(seconds.max(0.0)).ok()
}

/// Seconds for a call that cannot wait for ever, and does not look at the clock in slices.
pub(super) fn bounded(seconds: Option<f64>) -> Duration {
    seconds.and_then(duration).unwrap_or(Duration::MAX).min(Duration::from_secs(u32::MAX.into()))
}
