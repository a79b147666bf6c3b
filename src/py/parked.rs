//! What a task awaits until klamm has news for it: as much of an asyncio future as tasks look at.
//!
//! A future of asyncio's own tells its task through the loop's queue, which costs another turn of the loop with a system
//! call in it. Here the loop itself calls when the news are there, so the task goes on in that call.

use super::event_loop::Bridge;
use super::pending::Pending;
use crate::client::{AnyClient, Consumer, Producer, ShareConsumer};
use pyo3::exceptions::PyStopIteration;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyTuple;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

/// What is waited for.
pub(super) enum News {
    /// The outcome of something that is under way.
    Of(Py<Pending>),
    /// Records, an error or the end.
    Records(Arc<Consumer>),
    /// The same from a share group.
    Shared(Arc<ShareConsumer>),
    /// Room in the buffer.
    Room(Arc<Producer>),
}

impl News {
    /// Whose sockets bring them, if a loop may watch those.
    pub(super) fn client(&self) -> Option<Arc<dyn AnyClient>> {
        match self {
            Self::Of(pending) => pending.get().producer().map(|p| p.clone() as _),
            Self::Records(consumer) => Some(consumer.clone()),
            Self::Shared(_) | Self::Room(_) => None,
        }
    }

    /// Has the waker called when they are there.
    pub(super) fn on_news(&self, waker: Waker) {
        match self {
            Self::Of(pending) => pending.get().on_done(waker),
            Self::Records(consumer) => consumer.on_records(waker),
            Self::Shared(consumer) => consumer.on_ready(waker),
            Self::Room(producer) => producer.on_ready(waker),
        }
    }

    /// Has it called no more: a client with nothing to tell would gather those of all who gave up.
    fn forget(&self, waker: &Waker) {
        match self {
            // It has its outcome before long, in any case.
            Self::Of(_) => {}
            Self::Records(consumer) => consumer.forget(waker),
            Self::Shared(consumer) => consumer.forget(waker),
            Self::Room(producer) => producer.forget(waker),
        }
    }
}

/// One wait of one task. Its outcome is that of what is pending, or else whether the news came in time.
#[pyclass(frozen, module = "klamm._klamm")]
pub(super) struct Parked {
    running: Py<PyAny>,
    bridge: Py<Bridge>,
    id: u64,
    waker: Waker,
    news: News,
    /// Seconds, for the message.
    timeout: Option<f64>,
    /// Set when it is yielded, as a task expects of what was awaited and not yielded by hand.
    blocking: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    outcome: Option<PyResult<Py<PyAny>>>,
    /// Whom to tell, and the context to do it in.
    callbacks: Vec<(Py<PyAny>, Option<Py<PyAny>>)>,
    timer: Option<Py<PyAny>>,
}

/// Who ends a wait.
enum Ending {
    /// The loop, which may go on with the task at once.
    Loop,
    /// Another task, which has to come to its own end first.
    Task,
}

impl Parked {
    /// A wait on the running loop, for so many seconds at most, that the bridge knows by a number and ends with the waker.
    pub(super) fn new<'py>(
        running: &Bound<'py, PyAny>,
        bridge: &Bound<'py, Bridge>,
        (id, waker): (u64, Waker),
        news: News,
        timeout: Option<f64>,
    ) -> PyResult<Bound<'py, Self>> {
        let py = running.py();
        let this = Self {
            running: running.clone().unbind(),
            bridge: bridge.clone().unbind(),
            id,
            waker,
            news,
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
        Ok(this)
    }

    pub(super) fn news(&self) -> &News {
        &self.news
    }

    /// The news are there; the loop says so.
    pub(super) fn settle(slf: &Bound<'_, Self>) -> PyResult<()> {
        let (py, this) = (slf.py(), slf.get());
        // It is over when the task was cancelled, or it took too long.
        if this.is_over() {
            return Ok(());
        }
        let outcome = match &this.news {
            News::Of(pending) => pending.get().get(py).unwrap_or_else(|| Ok(py.None())),
            _ => Ok(true.into_pyobject(py)?.to_owned().into_any().unbind()),
        };
        Self::end(slf, outcome, Ending::Loop).map(drop)
    }

    /// Tells whoever waits, unless it is over; says whether it was not.
    fn end(slf: &Bound<'_, Self>, outcome: PyResult<Py<PyAny>>, ending: Ending) -> PyResult<bool> {
        let (py, this) = (slf.py(), slf.get());
        let (callbacks, timer) = {
            let mut state = this.state();
            if state.outcome.is_some() {
                return Ok(false);
            }
            state.outcome = Some(outcome);
            (std::mem::take(&mut state.callbacks), state.timer.take())
        };
        if let Some(timer) = timer {
            timer.call_method0(py, pyo3::intern!(py, "cancel"))?;
        }
        let mut result = Ok(true);
        for (callback, context) in callbacks {
            let told = match (&ending, context) {
                (Ending::Loop, Some(context)) => context.call_method1(py, pyo3::intern!(py, "run"), (callback, slf)),
                (Ending::Loop, None) => callback.call1(py, (slf,)),
                (Ending::Task, context) => this.tell_soon(slf, callback, context),
            };
            // One that cannot be told must not keep the others waiting.
            if let Err(e) = told {
                result = Err(e);
            }
        }
        result
    }

    fn tell_soon(&self, slf: &Bound<'_, Self>, callback: Py<PyAny>, context: Option<Py<PyAny>>) -> PyResult<Py<PyAny>> {
        let py = slf.py();
        let named = pyo3::types::PyDict::new(py);
        named.set_item("context", context)?;
        self.running.call_method(py, pyo3::intern!(py, "call_soon"), (callback, slf), Some(&named))
    }

    /// Nobody waits for the news any more.
    fn give_up(&self) {
        self.news.forget(&self.waker);
        self.bridge.get().forget_wait(self.id);
    }

    fn is_over(&self) -> bool {
        self.state().outcome.is_some()
    }

    /// A thread that panicked while it held the lock left the data whole: it is held for no more than an exchange.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl Parked {
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
        // In a tuple, since a value that is a tuple would be taken for the exception's arguments.
        this.result(slf.py()).and_then(|value| Err(PyStopIteration::new_err((value,))))
    }

    // What makes it a coroutine, which a task can be made of.

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

    /// The outcome, or asyncio's InvalidStateError if there is none yet.
    fn result(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        match &self.state().outcome {
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
            if state.outcome.is_none() {
                state.callbacks.push((callback, context));
                return Ok(());
            }
        }
        this.tell_soon(slf, callback, context).map(drop)
    }

    /// Ends the wait, not what is waited for; says whether it went on.
    #[pyo3(signature = (msg = None))]
    fn cancel(slf: &Bound<'_, Self>, msg: Option<Py<PyAny>>) -> PyResult<bool> {
        let py = slf.py();
        let cancelled = asyncio_error(py, "CancelledError", msg)?;
        slf.get().give_up();
        Self::end(slf, Err(cancelled), Ending::Task)
    }

    /// The time is over; the loop says so.
    #[pyo3(name = "_expire")]
    fn expire(slf: &Bound<'_, Self>) -> PyResult<()> {
        let (py, this) = (slf.py(), slf.get());
        let outcome = match &this.news {
            News::Of(pending) => Err(pending.get().timed_out(py, this.timeout.unwrap_or_default())),
            _ => Ok(false.into_pyobject(py)?.to_owned().into_any().unbind()),
        };
        this.give_up();
        Self::end(slf, outcome, Ending::Loop).map(drop)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.running)?;
        visit.call(&self.bridge)?;
        if let News::Of(pending) = &self.news {
            visit.call(pending)?;
        }
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

/// An exception of asyncio's.
fn asyncio_error(py: Python<'_>, name: &str, message: Option<Py<PyAny>>) -> PyResult<PyErr> {
    static MODULE: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let module = MODULE.get_or_try_init(py, || py.import("asyncio").map(Bound::unbind))?;
    let kind = module.bind(py).getattr(name)?;
    let error = message.map_or_else(|| kind.call0(), |message| kind.call1((message,)))?;
    Ok(PyErr::from_value(error))
}
