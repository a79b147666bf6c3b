//! [`LoopWaker`]: wakes an asyncio event loop from the I/O thread, which does not take the GIL to do so.
//!
//! Each loop has one waker. A waker consists of a socket pair, which the loop watches like any connection, and a queue
//! with the numbers of completed waits. The I/O thread pushes the number of a completed wait onto the queue. If the
//! queue was empty, the I/O thread writes one byte to the socket pair. The loop's callback takes the whole queue and
//! completes all waits in the queue. The I/O thread therefore uses no Python objects. `loop_signal.rs` wakes loops that
//! cannot watch sockets, such as the default loop on Windows (proactor).
//!
//! If a program awaits single records of a producer or a consumer, the loop also watches the client's sockets and does
//! the client's I/O. A loop that does the client's I/O needs no wake-up from the I/O thread.

use super::loop_future::{LoopFuture, Waits};
use super::loop_signal::LoopSignal;
use super::wait_source::WaitSource;
use crate::client::{AnyClient, Sockets};
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyWeakrefMethods, PyWeakrefReference};
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::task::{Wake, Waker};

/// Returns a future of the running loop, which completes when the source is ready or the timeout has passed.
pub(super) fn wait_on(
    py: Python<'_>,
    source: impl WaitSource + 'static,
    timeout: Option<f64>,
) -> PyResult<Bound<'_, LoopFuture>> {
    let running = running_loop(py)?;
    let loop_waker = waker_of(&running)?;
    let this = loop_waker.get();
    let id = this.waits.next_id();
    let waker: Waker = Arc::new(WaitWaker { id, queue: this.queue.clone() }).into();
    let future = LoopFuture::new(&running, &this.waits, (id, waker), Box::new(source), timeout)?;
    if let Some(client) = future.get().source().watched() {
        LoopWaker::note_wait(&loop_waker, &running, &client)?;
    }
    Ok(future)
}

fn running_loop(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    static FUNCTION: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    FUNCTION.import(py, "asyncio", "get_running_loop")?.call0()
}

thread_local! {
    /// The loop that last ran in this thread, as a weak reference, and its waker.
    static LATEST: RefCell<Option<(Py<PyWeakrefReference>, Py<LoopWaker>)>> = const { RefCell::new(None) };
}

fn waker_of<'py>(running: &Bound<'py, PyAny>) -> PyResult<Bound<'py, LoopWaker>> {
    if let Some(waker) = known_waker_of(running) {
        return Ok(waker);
    }
    let waker = LoopWaker::connect(running)?;
    let weak = PyWeakrefReference::new(running)?.unbind();
    let before = LATEST.replace(Some((weak, waker.clone().unbind())));
    drop(before);
    Ok(waker)
}

fn known_waker_of<'py>(running: &Bound<'py, PyAny>) -> Option<Bound<'py, LoopWaker>> {
    let py = running.py();
    LATEST.with_borrow(|latest| {
        let (of, waker) = latest.as_ref()?;
        of.bind(py).upgrade().is_some_and(|of| of.is(running)).then(|| waker.bind(py).clone())
    })
}

/// Connects one event loop with the I/O threads.
#[pyclass(frozen, module = "klamm._klamm")]
pub(super) struct LoopWaker {
    queue: Arc<Queue>,
    waits: Arc<Waits>,
    /// The clients for whose records tasks of this loop wait. The key is the client's memory address.
    watches: Mutex<HashMap<usize, Watch>>,
}

/// Number of consecutive waits for a single record after which the loop watches a client's sockets. The loop stops
/// watching after the same number of consecutive turns without work for the loop.
const SWITCH_COUNT: u32 = 8;

struct Watch {
    client: Weak<dyn AnyClient>,
    sockets: Option<Sockets>,
    /// Counts towards [`SWITCH_COUNT`]. Without sockets, it counts waits for single records. With sockets, it counts
    /// turns without work.
    count: u32,
}

impl LoopWaker {
    fn connect<'py>(running: &Bound<'py, PyAny>) -> PyResult<Bound<'py, Self>> {
        let py = running.py();
        let queue = Arc::<Queue>::default();
        let waker = Self { queue: queue.clone(), waits: Arc::default(), watches: Mutex::default() };
        let waker = Bound::new(py, waker)?;
        let when_called = LoopDrain { queue: Arc::downgrade(&queue), waits: waker.get().waits.clone() };
        let signal = LoopSignal::connect(running, &waker.getattr("drain")?, Bound::new(py, when_called)?.into_any())?;
        // The cell is empty: no other thread has this queue yet.
        let _ = queue.signal.set(signal);
        Ok(waker)
    }

    /// Counts a wait for a record, and watches the client's sockets after [`SWITCH_COUNT`] consecutive waits for single
    /// records.
    fn note_wait(slf: &Bound<'_, Self>, running: &Bound<'_, PyAny>, client: &Arc<dyn AnyClient>) -> PyResult<()> {
        let this = slf.get();
        if !this.queue.signal.get().is_some_and(LoopSignal::is_watched) {
            return Ok(());
        }
        let key = key_of(client);
        {
            let mut watches = lock(&this.watches);
            let new = || Watch { client: Arc::downgrade(client), sockets: None, count: 0 };
            let watch = watches.entry(key).or_insert_with(new);
            if watch.sockets.is_some() {
                return Ok(());
            }
            watch.count = if client.is_light() { watch.count + 1 } else { 0 };
            if watch.count < SWITCH_COUNT {
                return Ok(());
            }
            watch.count = 0;
        }
        this.forget_dead(running)?;
        let Ok(sockets) = client.sockets() else { return Ok(()) };
        match running.call_method1("add_reader", (sockets.number(), slf.getattr("turn")?, key)) {
            // A loop that cannot watch a poller is woken by the I/O thread, as with several records in flight.
            Err(e) if e.is_instance_of::<PyException>(slf.py()) => return Ok(()),
            result => drop(result?),
        }
        if let Some(watch) = lock(&this.watches).get_mut(&key) {
            watch.sockets = Some(sockets);
        }
        Ok(())
    }

    /// Stops watching clients that are closed or dropped.
    fn forget_dead(&self, running: &Bound<'_, PyAny>) -> PyResult<()> {
        let is_dead = |watch: &Watch| watch.client.upgrade().is_none_or(|c| c.check().is_err());
        let dead: Vec<usize> = lock(&self.watches).iter().filter(|(_, w)| is_dead(w)).map(|(key, _)| *key).collect();
        dead.into_iter().try_for_each(|key| self.unwatch(running, key, true))
    }

    fn unwatch(&self, running: &Bound<'_, PyAny>, key: usize, forget: bool) -> PyResult<()> {
        let sockets = match (&mut *lock(&self.watches), forget) {
            (watches, true) => watches.remove(&key).and_then(|watch| watch.sockets),
            (watches, false) => watches.get_mut(&key).and_then(|watch| watch.sockets.take()),
        };
        if let Some(sockets) = sockets {
            running.call_method1("remove_reader", (sockets.number(),))?;
        }
        Ok(())
    }
}

fn key_of(client: &Arc<dyn AnyClient>) -> usize {
    // The address stays unique: `Watch` holds a `Weak`, which keeps the allocation.
    Arc::as_ptr(client).addr()
}

/// Makes the running loop stop watching a client's sockets. Does nothing if no loop is running.
pub(super) fn forget(py: Python<'_>, client: &Arc<dyn AnyClient>) -> PyResult<()> {
    if LATEST.with_borrow(Option::is_none) {
        // Importing asyncio for nothing takes time, and at the end of a program it hides that Ctrl+C ended the program.
        return Ok(());
    }
    let Ok(running) = running_loop(py) else { return Ok(()) };
    known_waker_of(&running).map_or(Ok(()), |waker| waker.get().unwatch(&running, key_of(client), true))
}

#[pymethods]
impl LoopWaker {
    /// Completes the waits in the queue. The event loop calls this method.
    fn drain(&self, py: Python<'_>) -> PyResult<()> {
        // Clear it before taking the queue: a number that is pushed after this sends it again.
        if let Some(signal) = self.queue.signal.get() {
            signal.clear();
        }
        self.queue.complete(py, &self.waits)
    }

    /// Does the I/O of a client whose sockets the loop watches. The event loop calls this method when a socket is
    /// ready.
    fn turn(&self, py: Python<'_>, key: usize) -> PyResult<()> {
        let client = lock(&self.watches).get(&key).and_then(|watch| watch.client.upgrade());
        let Some(client) = client.filter(|c| c.check().is_ok()) else {
            return self.unwatch(&running_loop(py)?, key, true);
        };
        lock(&self.queue.woken).in_turn = true;
        let was_ours = client.work();
        let ids = {
            let mut woken = lock(&self.queue.woken);
            woken.in_turn = false;
            std::mem::take(&mut woken.ids)
        };
        let count = lock(&self.watches).get_mut(&key).map_or(0, |watch| {
            watch.count = if was_ours { 0 } else { watch.count + 1 };
            watch.count
        });
        if count >= SWITCH_COUNT {
            self.unwatch(&running_loop(py)?, key, false)?;
        }
        self.waits.complete(py, ids)
    }
}

/// The callback of a loop that does not watch sockets. The callback does not own the queue, because the queue's
/// [`LoopSignal`] owns the callback.
#[pyclass(frozen, module = "klamm._klamm")]
pub(super) struct LoopDrain {
    queue: Weak<Queue>,
    waits: Arc<Waits>,
}

#[pymethods]
impl LoopDrain {
    /// Completes the waits in the queue.
    fn __call__(&self, py: Python<'_>) -> PyResult<()> {
        self.queue.upgrade().map_or(Ok(()), |queue| queue.complete(py, &self.waits))
    }
}

/// The side of a waker that the I/O threads use.
#[derive(Default)]
struct Queue {
    woken: Mutex<Woken>,
    signal: OnceLock<LoopSignal>,
}

#[derive(Default)]
struct Woken {
    ids: Vec<u64>,
    /// Whether the loop is in [`LoopWaker::turn`], which takes the queue before it returns.
    in_turn: bool,
}

impl Queue {
    fn complete(&self, py: Python<'_>, waits: &Waits) -> PyResult<()> {
        let ids = std::mem::take(&mut lock(&self.woken).ids);
        waits.complete(py, ids)
    }

    fn push(&self, id: u64) {
        let must_wake = {
            let mut woken = lock(&self.woken);
            woken.ids.push(id);
            woken.ids.len() == 1 && !woken.in_turn
        };
        if let Some(signal) = self.signal.get().filter(|_| must_wake) {
            signal.send();
        }
    }
}

struct WaitWaker {
    id: u64,
    queue: Arc<Queue>,
}

impl Wake for WaitWaker {
    fn wake(self: Arc<Self>) {
        self.queue.push(self.id);
    }
}

/// Locks a mutex, and ignores poisoning. Each thread holds the lock for one statement, so a panic leaves the data
/// consistent.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
