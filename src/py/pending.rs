//! [`Pending`]: the result of an operation that may still be running. `.result(timeout)` and `await` both wait for the
//! result.
//!
//! A `Pending` holds a completion of the client, and the function that converts the value to Python. `deadline.rs`
//! implements the wait in a thread, and `event_loop.rs` implements the wait in asyncio.

use super::arguments;
use super::deadline::{Deadline, wait_for};
use super::error::exception;
use super::event_loop;
use super::loop_future::{LoopFuture, stop_iteration};
use super::record::metadata;
use super::wait_source::WaitSource;
use crate::client::{self, AnyClient, ErrorKind};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::task::{Wake, Waker};
use std::time::Duration;

/// A completion whose value becomes a Python object when Python asks for it.
trait Completion: Send + Sync {
    /// Returns the name of the value, for the error message of a timeout.
    fn operation(&self) -> &str;
    /// Returns the reason why the value is not available yet, if klamm knows the reason.
    fn why(&self) -> Option<client::Error>;
    fn wait(&self, timeout: Duration) -> bool;
    fn is_done(&self) -> bool;
    fn get(&self, py: Python<'_>) -> Option<PyResult<Py<PyAny>>>;
    fn on_done(&self, waker: Waker);
}

struct Converted<T, F, W> {
    operation: Cow<'static, str>,
    pending: client::Pending<T>,
    convert: F,
    why: W,
}

impl<T, F, W> Completion for Converted<T, F, W>
where
    T: Clone + Send + Sync,
    F: Fn(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + Sync,
    W: Fn() -> Option<client::Error> + Send + Sync,
{
    fn operation(&self) -> &str {
        &self.operation
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
        Some(self.pending.get()?.map_err(PyErr::from).and_then(|value| (self.convert)(py, value)))
    }
    fn on_done(&self, waker: Waker) {
        self.pending.on_done(waker);
    }
}

/// A value that is known when the [`Pending`] is created.
struct Ready(&'static str, Py<PyAny>);

impl Completion for Ready {
    fn operation(&self) -> &str {
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

/// The result of an operation that may still be running.
///
/// To wait for the result, call `result()`, or use `await` on an asyncio event loop. Any number of threads and tasks
/// may wait for the same object, and each gets the same result. `klamm.Delivery`, the result of a sent record, is
/// another name for this class.
///
/// Example:
///     delivery = producer.send("greetings", b"hello")
///     metadata = delivery.result(timeout=5)
#[pyclass(frozen, name = "Pending", module = "klamm._klamm", generic)]
pub(super) struct Pending {
    work: Work,
}

enum Work {
    /// The acknowledgement of a record, and whether the program has taken the result or has set a callback. This
    /// variant needs no box, because a producer creates an acknowledgement for each record.
    Delivery(client::Pending<client::RecordMetadata>, Arc<client::Producer>, AtomicBool),
    Other(Box<dyn Completion>, Arc<dyn AnyClient>),
}

/// If the program drops a delivery without taking its result, the producer reports the failure of the record.
impl Drop for Pending {
    fn drop(&mut self) {
        match &self.work {
            Work::Delivery(pending, producer, is_taken) if !is_taken.load(Relaxed) => producer.abandon(pending),
            _ => {}
        }
    }
}

impl Pending {
    /// Returns the acknowledgement of a record.
    pub(super) fn delivery(pending: client::Pending<client::RecordMetadata>, producer: Arc<client::Producer>) -> Self {
        Self { work: Work::Delivery(pending, producer, AtomicBool::new(false)) }
    }

    /// Returns a result that `convert` creates from the completion's value. The error message of a timeout calls the
    /// result `operation`.
    pub(super) fn new<T, F>(
        operation: &'static str,
        client: Arc<dyn AnyClient>,
        pending: client::Pending<T>,
        convert: F,
    ) -> Self
    where
        T: Clone + Send + Sync + 'static,
        F: Fn(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + Sync + 'static,
    {
        Self::explained(operation, client, pending, convert, || None)
    }

    /// Returns a result whose value is None.
    pub(super) fn empty(operation: &'static str, client: Arc<dyn AnyClient>, pending: client::Pending<()>) -> Self {
        Self::new(operation, client, pending, |py, ()| Ok(py.None()))
    }

    /// Returns a result for which the client keeps trying after a wait has timed out. `why` returns the error that has
    /// prevented the result so far.
    pub(super) fn explained<T, F, W>(
        operation: impl Into<Cow<'static, str>>,
        client: Arc<dyn AnyClient>,
        pending: client::Pending<T>,
        convert: F,
        why: W,
    ) -> Self
    where
        T: Clone + Send + Sync + 'static,
        F: Fn(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + Sync + 'static,
        W: Fn() -> Option<client::Error> + Send + Sync + 'static,
    {
        Self { work: Work::Other(Box::new(Converted { operation: operation.into(), pending, convert, why }), client) }
    }

    /// Returns a result that is already known.
    pub(super) fn ready(operation: &'static str, client: Arc<dyn AnyClient>, value: Py<PyAny>) -> Self {
        Self { work: Work::Other(Box::new(Ready(operation, value)), client) }
    }

    fn client(&self) -> &dyn AnyClient {
        match &self.work {
            Work::Delivery(_, producer, _) => &**producer,
            Work::Other(_, client) => &**client,
        }
    }

    /// Fails in a forked child process. The operation belongs to the parent, and locks may stay locked for ever.
    fn check(&self) -> PyResult<()> {
        match self.client().check() {
            Err(e) if e.kind() == ErrorKind::Forked => Err(e.into()),
            _ => Ok(()),
        }
    }

    fn operation(&self) -> &str {
        match &self.work {
            Work::Delivery(..) => "acknowledgement",
            Work::Other(completion, _) => completion.operation(),
        }
    }

    /// Returns the reason why there is no result yet, if klamm knows the reason.
    fn why(&self) -> Option<client::Error> {
        let own = match &self.work {
            Work::Delivery(..) => None,
            Work::Other(completion, _) => completion.why(),
        };
        own.or_else(|| self.client().last_error())
    }

    fn wait(&self, timeout: Duration) -> bool {
        match &self.work {
            Work::Delivery(pending, producer, _) => producer.wait(pending, timeout),
            Work::Other(completion, _) => completion.wait(timeout),
        }
    }

    fn is_done(&self) -> bool {
        match &self.work {
            Work::Delivery(pending, ..) => pending.is_done(),
            Work::Other(completion, _) => completion.is_done(),
        }
    }

    /// Notes that the program takes the result itself. `on_error`, `flush` and `close` then do not report a failure.
    fn note_taken(&self) {
        if let (Work::Delivery(_, _, is_taken), false) = (&self.work, OBSERVES.get()) {
            is_taken.store(true, Relaxed);
        }
    }

    /// Calls a function with this object when the operation ends, or immediately if it has ended.
    fn call_when_done(slf: &Bound<'_, Self>, callback: Py<PyAny>, observes: bool) {
        slf.get().on_done(Arc::new(Callback { pending: slf.clone().unbind(), callback, observes }).into());
    }

    /// Returns the result for the program, if there is one.
    fn take(&self, py: Python<'_>) -> Option<PyResult<Py<PyAny>>> {
        let result = self.get(py)?;
        self.note_taken();
        Some(result)
    }

    /// Returns the result, if there is one.
    fn get(&self, py: Python<'_>) -> Option<PyResult<Py<PyAny>>> {
        match &self.work {
            Work::Delivery(pending, ..) => Some(pending.get()?.map_err(PyErr::from).and_then(|m| metadata(py, m))),
            Work::Other(completion, _) => completion.get(py),
        }
    }

    fn on_done(&self, waker: Waker) {
        match &self.work {
            Work::Delivery(pending, ..) => pending.on_done(waker),
            Work::Other(completion, _) => completion.on_done(waker),
        }
    }

    fn wait_for_result(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<PyResult<Py<PyAny>>> {
        self.check()?;
        let waits = !self.is_done() && timeout.is_none_or(|seconds| seconds > 0.0);
        let _waiting = waits.then(|| self.client().may_wait()).transpose()?;
        if !wait_for(py, Deadline::after(timeout), |slice| self.wait(slice))? {
            return Err(self.timed_out(py, timeout.unwrap_or_default()));
        }
        self.take(py).ok_or_else(|| self.timed_out(py, 0.0))
    }

    /// Returns the error of a wait that timed out without a result.
    #[cold]
    fn timed_out(&self, py: Python<'_>, seconds: f64) -> PyErr {
        let why = py.detach(|| self.why());
        let message = match &why {
            Some(error) => format!("no {} within {seconds} s: {}", self.operation(), error.message_with_broker()),
            None => format!("no {} within {seconds} s", self.operation()),
        };
        let hint = why.as_ref().and_then(|error| error.hint());
        let hint =
            hint.unwrap_or("the operation continues: increase the timeout, or check that the brokers are reachable");
        exception(py, "KafkaTimeoutError", &message, Some(hint))
    }
}

#[pymethods]
impl Pending {
    /// Waits for the result and returns it.
    ///
    /// Args:
    ///     timeout (float | None): Longest wait in seconds. None (the default) waits until there is a result.
    ///
    /// Returns:
    ///     The result: a RecordMetadata for the Delivery of a record.
    ///
    /// Raises:
    ///     KafkaTimeoutError: There is no result within the timeout. The operation continues.
    ///     KafkaError: The operation failed. For a record, the error is for example a BrokerError or a NetworkError.
    #[pyo3(signature = (timeout = None))]
    fn result(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arguments::timeout)] timeout: Option<f64>,
    ) -> PyResult<Py<PyAny>> {
        self.wait_for_result(py, timeout)?
    }

    /// Waits for the result and returns the error of the operation, or None if it succeeded.
    ///
    /// Args:
    ///     timeout (float | None): Longest wait in seconds. None (the default) waits until there is a result.
    ///
    /// Returns:
    ///     The exception that `result()` would raise, or None.
    ///
    /// Raises:
    ///     KafkaTimeoutError: There is no result within the timeout. The operation continues.
    #[pyo3(signature = (timeout = None))]
    fn exception(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arguments::timeout)] timeout: Option<f64>,
    ) -> PyResult<Option<Py<PyAny>>> {
        Ok(self.wait_for_result(py, timeout)?.err().map(|e| e.into_value(py).into_any()))
    }

    /// Returns True if the operation has succeeded or failed.
    fn done(&self) -> PyResult<bool> {
        self.check()?;
        Ok(self.is_done())
    }

    /// Calls a function with this object when the operation ends, or immediately if it has ended.
    ///
    /// The thread that completes the operation calls the function. That thread is mostly the client's I/O thread, so
    /// the function must be short and must not wait. An exception of the function goes to `sys.unraisablehook`.
    ///
    /// Args:
    ///     callback (Callable[[Pending], object]): The function.
    ///
    /// Raises:
    ///     ArgumentError: `callback` is not callable.
    fn add_done_callback(slf: &Bound<'_, Self>, callback: Py<PyAny>) -> PyResult<()> {
        let this = slf.get();
        this.check()?;
        if !callback.bind(slf.py()).is_callable() {
            return Err(arguments::of_type("callback", callback.bind(slf.py()), "a function", None));
        }
        this.note_taken();
        Self::call_when_done(slf, callback, false);
        Ok(())
    }

    /// Returns an awaitable that waits for the result, at most `timeout` seconds.
    ///
    /// Args:
    ///     timeout (float | None): Longest wait in seconds. None waits until there is a result.
    ///
    /// Returns:
    ///     An awaitable of the result.
    ///
    /// Raises:
    ///     KafkaTimeoutError: The `await` raises this error if there is no result within the timeout. The operation
    ///         continues.
    ///
    /// Example:
    ///     metadata = await producer.send_nowait("greetings", b"hello").within(5)
    #[pyo3(signature = (timeout))]
    fn within<'py>(
        slf: &Bound<'py, Self>,
        #[pyo3(from_py_with = arguments::timeout)] timeout: Option<f64>,
    ) -> PyResult<Bound<'py, PendingWait>> {
        Bound::new(slf.py(), PendingWait { pending: slf.clone().unbind(), timeout, wait: OnceLock::new() })
    }

    fn __await__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.get().check()?;
        match slf.get().is_done() {
            true => Ok(Self::within(slf, None)?.into_any()),
            false => Ok(event_loop::wait_on(slf.py(), slf.clone().unbind(), None)?.into_any()),
        }
    }

    /// Runs one step of a task. Together with `throw` and `close`, this method makes the object a coroutine, which
    /// `asyncio.create_task` requires.
    ///
    /// While the result is pending, each step starts its own wait, so that any number of tasks can share one object.
    fn send<'py>(slf: &Bound<'py, Self>, _value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, LoopFuture>> {
        let (py, this) = (slf.py(), slf.get());
        this.check()?;
        match this.take(py) {
            Some(result) => Err(stop_iteration(result?)),
            None => LoopFuture::__next__(event_loop::wait_on(py, slf.clone().unbind(), None)?),
        }
    }

    #[pyo3(signature = (error, *_more))]
    fn throw(&self, error: Bound<'_, PyAny>, _more: &Bound<'_, PyTuple>) -> PyResult<()> {
        Err(PyErr::from_value(error))
    }

    fn close(&self) {}

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        self.check()?;
        Ok(match self.get(py) {
            None => format!("<Pending {}>", self.operation()),
            Some(Ok(value)) => format!("<Pending {}: {}>", self.operation(), value.bind(py).repr()?),
            Some(Err(error)) => format!("<Pending {}: {}>", self.operation(), error.value(py).repr()?),
        })
    }
}

/// The awaitable of [`Pending::within`]. The wait starts at the first step, so an awaitable that is never awaited does
/// not wait.
#[pyclass(frozen, module = "klamm._klamm")]
pub(super) struct PendingWait {
    pending: Py<Pending>,
    timeout: Option<f64>,
    /// The wait, which the first step sets if there was no result yet.
    wait: OnceLock<Py<LoopFuture>>,
}

#[pymethods]
impl PendingWait {
    fn __await__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, LoopFuture>> {
        if let Some(wait) = self.wait.get() {
            return LoopFuture::__next__(wait.bind(py).clone());
        }
        let pending = self.pending.get();
        pending.check()?;
        if let Some(result) = pending.take(py) {
            return Err(stop_iteration(result?));
        }
        let wait = event_loop::wait_on(py, self.pending.clone_ref(py), self.timeout)?;
        // One task awaits this object, so the cell is empty.
        let _ = self.wait.set(wait.clone().unbind());
        LoopFuture::__next__(wait)
    }

    // With `send`, `throw` and `close` it is a coroutine, so `asyncio.create_task` accepts it.

    fn send<'py>(&self, py: Python<'py>, _value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, LoopFuture>> {
        self.__next__(py)
    }

    #[pyo3(signature = (error, *_more))]
    fn throw(&self, error: Bound<'_, PyAny>, _more: &Bound<'_, PyTuple>) -> PyResult<()> {
        Err(PyErr::from_value(error))
    }

    fn close(&self) {}

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.pending)?;
        self.wait.get().map_or(Ok(()), |wait| visit.call(wait))
    }
}

/// Converts numbers of partitions.
pub(super) fn int_list(py: Python<'_>, items: Vec<i32>) -> PyResult<Py<PyAny>> {
    Ok(PyList::new(py, items)?.into_any().unbind())
}

/// The source is ready when the operation has ended.
impl WaitSource for Py<Pending> {
    fn watched(&self) -> Option<Arc<dyn AnyClient>> {
        match &self.get().work {
            Work::Delivery(_, producer, _) => Some(producer.clone()),
            Work::Other(..) => None,
        }
    }
    fn on_ready(&self, waker: Waker) {
        self.get().on_done(waker);
    }
    fn result(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.get().take(py).unwrap_or_else(|| Ok(py.None()))
    }
    fn timed_out(&self, py: Python<'_>, seconds: f64) -> PyResult<Py<PyAny>> {
        Err(self.get().timed_out(py, seconds))
    }
    fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(self)
    }
}

/// The functions that a producer calls with each completed delivery.
pub(super) struct DeliveryCallbacks {
    pub on_delivery: Option<Py<PyAny>>,
    pub interceptors: Vec<Py<PyAny>>,
}

impl DeliveryCallbacks {
    pub fn is_empty(&self) -> bool {
        self.on_delivery.is_none() && self.interceptors.is_empty()
    }

    /// Adds the functions to a delivery.
    #[inline]
    pub fn add_to(&self, delivery: &Bound<'_, Pending>) {
        for interceptor in &self.interceptors {
            Pending::call_when_done(delivery, interceptor.clone_ref(delivery.py()), true);
        }
        if let Some(on_delivery) = &self.on_delivery {
            delivery.get().note_taken();
            Pending::call_when_done(delivery, on_delivery.clone_ref(delivery.py()), false);
        }
    }

    pub fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.interceptors.iter().try_for_each(|interceptor| visit.call(interceptor))?;
        visit.call(&self.on_delivery)
    }
}

/// A function of `add_done_callback`, `on_delivery` or an interceptor.
struct Callback {
    pending: Py<Pending>,
    callback: Py<PyAny>,
    /// Whether the function only observes the result. The program may still take the result.
    observes: bool,
}

thread_local! {
    /// The callbacks of the batch whose deliveries this thread completes.
    static CALLBACKS: RefCell<Vec<Arc<Callback>>> = const { RefCell::new(Vec::new()) };
    /// Whether this thread runs a function that only observes a result.
    static OBSERVES: Cell<bool> = const { Cell::new(false) };
}

impl Wake for Callback {
    /// Calls the function. The callbacks of a batch share one attachment to Python: the I/O thread would otherwise
    /// create and destroy a thread state for each callback, which takes ten times as long as the call.
    fn wake(self: Arc<Self>) {
        CALLBACKS.with_borrow_mut(|callbacks| callbacks.push(self));
        if !client::after_batch(call_callbacks) {
            call_callbacks();
        }
    }
}

fn call_callbacks() {
    let callbacks = CALLBACKS.take();
    // While the interpreter ends, no function can be called.
    let _ = Python::try_attach(|py| {
        for each in callbacks {
            let outer = OBSERVES.replace(each.observes);
            let result = each.callback.call1(py, (&each.pending,));
            OBSERVES.set(outer);
            if let Err(error) = result {
                error.write_unraisable(py, Some(each.callback.bind(py)));
            }
        }
    });
}
