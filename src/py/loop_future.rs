//! [`LoopFuture`]: an asyncio task awaits this object until a [`WaitSource`] is ready.
//!
//! A `LoopFuture` implements the part of asyncio's Future that tasks use. An asyncio Future resumes its task through
//! the loop's queue, which costs one more turn of the loop and a system call. A `LoopFuture` is faster than an asyncio
//! Future, because the callback of the [loop waker](super::event_loop) resumes the task directly. `event_loop.rs`
//! creates the futures and calls [`Waits::complete`].

use super::wait_source::WaitSource;
use pyo3::exceptions::PyStopIteration;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyTuple;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

/// The pending waits of one event loop, by number.
#[derive(Default)]
pub(super) struct Waits {
    futures: Mutex<HashMap<u64, Py<LoopFuture>>>,
    next: AtomicU64,
}

impl Waits {
    /// Returns the number of the next wait.
    pub(super) fn next_id(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Completes these waits. If a wait cannot resume its task, still completes the other waits, and returns the last
    /// error.
    pub(super) fn complete(&self, py: Python<'_>, ids: Vec<u64>) -> PyResult<()> {
        let mut result = Ok(());
        for id in ids {
            let future = self.futures().remove(&id);
            if let Some(Err(e)) = future.map(|future| LoopFuture::complete(future.bind(py))) {
                result = Err(e);
            }
        }
        result
    }

    fn forget(&self, id: u64) {
        // The future is dropped after the lock is released: it may hold the last reference to Python objects.
        let future = self.futures().remove(&id);
        drop(future);
    }

    /// Locks the map, and ignores poisoning. Each thread holds the lock for one statement, so a panic leaves the map
    /// consistent.
    fn futures(&self) -> MutexGuard<'_, HashMap<u64, Py<LoopFuture>>> {
        self.futures.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One wait of one task.
///
/// The result comes from [`WaitSource::result`], or from [`WaitSource::timed_out`] after the timeout.
#[pyclass(frozen, module = "klamm._klamm")]
pub(super) struct LoopFuture {
    running: Py<PyAny>,
    waits: Arc<Waits>,
    id: u64,
    waker: Waker,
    source: Box<dyn WaitSource>,
    /// The timeout in seconds, for the error message.
    timeout: Option<f64>,
    /// Set when the future is yielded. Tasks of asyncio check this flag to distinguish `await` from a bare `yield`.
    blocking: AtomicBool,
    state: Mutex<FutureState>,
}

#[derive(Default)]
struct FutureState {
    result: Option<PyResult<Py<PyAny>>>,
    /// Callbacks, each with the context in which it runs.
    callbacks: Vec<(Py<PyAny>, Option<Py<PyAny>>)>,
    timer: Option<Py<PyAny>>,
}

/// The caller that ends a wait.
enum EndedBy {
    /// The event loop ends the wait. The callbacks run immediately.
    Loop,
    /// Another task ends the wait. The callbacks run after that task has yielded.
    Task,
}

impl LoopFuture {
    /// Creates a wait on the running loop and registers it. The waker completes the wait by its number.
    pub(super) fn new<'py>(
        running: &Bound<'py, PyAny>,
        waits: &Arc<Waits>,
        (id, waker): (u64, Waker),
        source: Box<dyn WaitSource>,
        timeout: Option<f64>,
    ) -> PyResult<Bound<'py, Self>> {
        let py = running.py();
        let this = Self {
            running: running.clone().unbind(),
            waits: waits.clone(),
            id,
            waker: waker.clone(),
            source,
            timeout,
            blocking: AtomicBool::new(false),
            state: Mutex::default(),
        };
        let this = Bound::new(py, this)?;
        if let Some(seconds) = timeout {
            let expire = this.getattr(pyo3::intern!(py, "_expire"))?;
            let timer = running.call_method1(pyo3::intern!(py, "call_later"), (seconds.max(0.0), expire))?;
            this.get().state().timer = Some(timer.unbind());
        }
        waits.futures().insert(id, this.clone().unbind());
        this.get().source.on_ready(waker);
        Ok(this)
    }

    pub(super) fn source(&self) -> &dyn WaitSource {
        &*self.source
    }

    /// Ends the wait because the source is ready. The event loop calls this method.
    fn complete(slf: &Bound<'_, Self>) -> PyResult<()> {
        // The wait may be over: the task was cancelled, or the timeout came first.
        if slf.get().is_over() {
            return Ok(());
        }
        let result = slf.get().source.result(slf.py());
        Self::end(slf, result, EndedBy::Loop).map(drop)
    }

    /// Sets the result and runs the callbacks. Returns false if the wait had already ended.
    fn end(slf: &Bound<'_, Self>, result: PyResult<Py<PyAny>>, by: EndedBy) -> PyResult<bool> {
        let (py, this) = (slf.py(), slf.get());
        let (callbacks, timer) = {
            let mut state = this.state();
            if state.result.is_some() {
                return Ok(false);
            }
            state.result = Some(result);
            (std::mem::take(&mut state.callbacks), state.timer.take())
        };
        if let Some(timer) = timer {
            timer.call_method0(py, pyo3::intern!(py, "cancel"))?;
        }
        let mut ended = Ok(true);
        for (callback, context) in callbacks {
            let called = match (&by, context) {
                (EndedBy::Loop, Some(context)) => context.call_method1(py, pyo3::intern!(py, "run"), (callback, slf)),
                (EndedBy::Loop, None) => callback.call1(py, (slf,)),
                (EndedBy::Task, context) => this.call_soon(slf, callback, context),
            };
            // A callback that fails must not stop the others.
            if let Err(e) = called {
                ended = Err(e);
            }
        }
        ended
    }

    fn call_soon(&self, slf: &Bound<'_, Self>, callback: Py<PyAny>, context: Option<Py<PyAny>>) -> PyResult<Py<PyAny>> {
        let py = slf.py();
        let keywords = pyo3::types::PyDict::new(py);
        keywords.set_item("context", context)?;
        self.running.call_method(py, pyo3::intern!(py, "call_soon"), (callback, slf), Some(&keywords))
    }

    /// Unregisters the wait from the source and from the loop.
    fn give_up(&self) {
        self.source.forget(&self.waker);
        self.waits.forget(self.id);
    }

    fn is_over(&self) -> bool {
        self.state().result.is_some()
    }

    /// Locks the state, and ignores poisoning. Each thread only swaps values under the lock, so a panic leaves the
    /// state consistent.
    fn state(&self) -> MutexGuard<'_, FutureState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl LoopFuture {
    fn __await__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    pub(super) fn __next__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        let this = slf.get();
        if !this.is_over() {
            this.blocking.store(true, Ordering::Relaxed);
            return Ok(slf);
        }
        this.result(slf.py()).and_then(|value| Err(stop_iteration(value)))
    }

    // With `send`, `throw` and `close` it is a coroutine, so `asyncio.create_task` accepts it.

    fn send<'py>(slf: Bound<'py, Self>, _value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, Self>> {
        Self::__next__(slf)
    }

    #[pyo3(signature = (error, *_more))]
    fn throw(&self, error: Bound<'_, PyAny>, _more: &Bound<'_, PyTuple>) -> PyResult<()> {
        Err(PyErr::from_value(error))
    }

    fn close(&self) {}

    #[getter(_asyncio_future_blocking)]
    fn is_blocking(&self) -> bool {
        self.blocking.load(Ordering::Relaxed)
    }

    #[setter(_asyncio_future_blocking)]
    fn set_blocking(&self, blocking: bool) {
        self.blocking.store(blocking, Ordering::Relaxed);
    }

    fn get_loop(&self, py: Python<'_>) -> Py<PyAny> {
        self.running.clone_ref(py)
    }

    fn done(&self) -> bool {
        self.is_over()
    }

    /// Returns the result. Raises asyncio's InvalidStateError if there is no result yet.
    fn result(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        match &self.state().result {
            Some(Ok(value)) => Ok(value.clone_ref(py)),
            Some(Err(error)) => Err(error.clone_ref(py)),
            None => Err(asyncio_error(py, "InvalidStateError", None)?),
        }
    }

    #[pyo3(signature = (callback, *, context = None))]
    fn add_done_callback(slf: &Bound<'_, Self>, callback: Py<PyAny>, context: Option<Py<PyAny>>) -> PyResult<()> {
        let this = slf.get();
        {
            let mut state = this.state();
            if state.result.is_none() {
                state.callbacks.push((callback, context));
                return Ok(());
            }
        }
        this.call_soon(slf, callback, context).map(drop)
    }

    /// Ends the wait, but not the operation. Returns false if the wait had already ended.
    #[pyo3(signature = (msg = None))]
    fn cancel(slf: &Bound<'_, Self>, msg: Option<Py<PyAny>>) -> PyResult<bool> {
        let cancelled = asyncio_error(slf.py(), "CancelledError", msg)?;
        slf.get().give_up();
        Self::end(slf, Err(cancelled), EndedBy::Task)
    }

    /// Ends the wait because it timed out. The event loop calls this method.
    #[pyo3(name = "_expire")]
    fn expire(slf: &Bound<'_, Self>) -> PyResult<()> {
        let this = slf.get();
        let result = this.source.timed_out(slf.py(), this.timeout.unwrap_or_default());
        this.give_up();
        Self::end(slf, result, EndedBy::Loop).map(drop)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.running)?;
        self.source.traverse(&visit)?;
        if let Ok(state) = self.state.try_lock() {
            visit.call(&state.timer)?;
            for (callback, context) in &state.callbacks {
                visit.call(callback)?;
                visit.call(context)?;
            }
        }
        Ok(())
    }

    fn __clear__(&self) {
        let state = std::mem::take(&mut *self.state());
        drop(state);
    }
}

/// Returns the exception that ends an `await` with a value.
pub(super) fn stop_iteration(value: Py<PyAny>) -> PyErr {
    // In a tuple: a value that is a tuple itself would become the arguments of the exception.
    PyStopIteration::new_err((value,))
}

/// Creates an exception of a class of `asyncio`.
fn asyncio_error(py: Python<'_>, name: &str, message: Option<Py<PyAny>>) -> PyResult<PyErr> {
    static MODULE: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let module = MODULE.get_or_try_init(py, || py.import("asyncio").map(Bound::unbind))?;
    let class = module.bind(py).getattr(name)?;
    let error = message.map_or_else(|| class.call0(), |message| class.call1((message,)))?;
    Ok(PyErr::from_value(error))
}
