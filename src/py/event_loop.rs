//! Waking an asyncio event loop from the I/O thread, without that thread ever holding the interpreter.
//!
//! A loop gets one bridge: a socket pair that the loop watches like any other connection, a queue of integers, and a map
//! from integers to waits. The I/O thread pushes an integer and, if the queue was empty, writes one byte; the loop's
//! callback takes the whole queue and has the tasks go on. Python objects never leave the loop's side. A loop that
//! cannot watch sockets (Windows' proactor) is called through `call_soon_threadsafe` instead.
//!
//! A loop that awaits a producer's records one by one, or a consumer's as they trickle in, watches the client's sockets as
//! well, and needs no bridge for what comes there.

use super::parked::{News, Parked};
use crate::client::{AnyClient, Sockets};
use pyo3::exceptions::{PyException, PyNotImplementedError, PyStopIteration};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyTuple, PyWeakrefMethods, PyWeakrefReference};
use std::cell::RefCell;
use std::collections::HashMap;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::task::{Wake, Waker};

/// A wait on the running loop that is over when there are news, or after so many seconds.
pub(super) fn park(py: Python<'_>, news: News, timeout: Option<f64>) -> PyResult<Bound<'_, Parked>> {
    let running = running_loop(py)?;
    let bridge = bridge_of(&running)?;
    let this = bridge.get();
    let id = this.next.fetch_add(1, Ordering::Relaxed);
    let waker: Waker = Arc::new(Slot { id, queue: this.queue.clone() }).into();
    let parked = Parked::new(&running, &bridge, (id, waker.clone()), news, timeout)?;
    lock(&this.parked).insert(id, parked.clone().unbind());
    let news = parked.get().news();
    news.on_news(waker);
    if let Some(client) = news.client() {
        Bridge::note_wait(&bridge, &running, &client)?;
    }
    Ok(parked)
}

fn running_loop(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    static FUNCTION: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    FUNCTION.import(py, "asyncio", "get_running_loop")?.call0()
}

thread_local! {
    /// The loop that last ran in this thread, weakly, and its bridge.
    static LATEST: RefCell<Option<(Py<PyWeakrefReference>, Py<Bridge>)>> = const { RefCell::new(None) };
}

fn bridge_of<'py>(running: &Bound<'py, PyAny>) -> PyResult<Bound<'py, Bridge>> {
    if let Some(bridge) = known_bridge_of(running) {
        return Ok(bridge);
    }
    let bridge = Bridge::connect(running)?;
    let weak = PyWeakrefReference::new(running)?.unbind();
    let before = LATEST.replace(Some((weak, bridge.clone().unbind())));
    drop(before);
    Ok(bridge)
}

fn known_bridge_of<'py>(running: &Bound<'py, PyAny>) -> Option<Bound<'py, Bridge>> {
    let py = running.py();
    LATEST.with_borrow(|latest| {
        let (of, bridge) = latest.as_ref()?;
        of.bind(py).upgrade().is_some_and(|of| of.is(running)).then(|| bridge.bind(py).clone())
    })
}

/// Between one event loop and the I/O threads.
#[pyclass(frozen, module = "klamm._klamm")]
pub(super) struct Bridge {
    queue: Arc<Queue>,
    reader: UnixStream,
    parked: Mutex<HashMap<u64, Py<Parked>>>,
    next: AtomicU64,
    /// Clients whose records are awaited here, by where they are.
    watches: Mutex<HashMap<usize, Watch>>,
}

/// How often in a row the loop has to await a lone record before it watches the client's sockets, and how often these may
/// turn out to be the I/O thread's business before it leaves them alone.
const PATIENCE: u32 = 8;

struct Watch {
    client: Weak<dyn AnyClient>,
    sockets: Option<Sockets>,
    /// What was so in a row: lone records without sockets, turns in vain with them.
    count: u32,
}

impl Bridge {
    fn connect<'py>(running: &Bound<'py, PyAny>) -> PyResult<Bound<'py, Self>> {
        let py = running.py();
        let (reader, writer) = UnixStream::pair()?;
        reader.set_nonblocking(true)?;
        writer.set_nonblocking(true)?;
        let fd = reader.as_raw_fd();
        let queue = Arc::new(Queue { waiting: Mutex::default(), writer, call: OnceLock::new() });
        let bridge = Self {
            queue: queue.clone(),
            reader,
            parked: Mutex::default(),
            next: AtomicU64::new(0),
            watches: Mutex::default(),
        };
        let bridge = Bound::new(py, bridge)?;
        let drain = bridge.getattr("drain")?;
        if let Err(e) = running.call_method1("add_reader", (fd, &drain)) {
            if !e.is_instance_of::<PyNotImplementedError>(py) {
                return Err(e);
            }
            let call = Call { soon: running.getattr("call_soon_threadsafe")?.unbind(), drain: drain.unbind() };
            // Nobody else has this queue yet.
            let _ = queue.call.set(call);
        }
        Ok(bridge)
    }

    /// A wait is over without news.
    pub(super) fn forget_wait(&self, id: u64) {
        // Outside of the lock: it may be the last that holds objects of the interpreter.
        let parked = lock(&self.parked).remove(&id);
        drop(parked);
    }

    /// The loop awaits a record.
    fn note_wait(slf: &Bound<'_, Self>, running: &Bound<'_, PyAny>, client: &Arc<dyn AnyClient>) -> PyResult<()> {
        let this = slf.get();
        if this.queue.call.get().is_some() {
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
            if watch.count < PATIENCE {
                return Ok(());
            }
            watch.count = 0;
        }
        this.forget_dead(running)?;
        let Ok(sockets) = client.sockets() else { return Ok(()) };
        match running.call_method1("add_reader", (sockets.as_raw_fd(), slf.getattr("turn")?, key)) {
            // A loop that cannot watch pollers does without, as with several records under way.
            Err(e) if e.is_instance_of::<PyException>(slf.py()) => return Ok(()),
            result => drop(result?),
        }
        if let Some(watch) = lock(&this.watches).get_mut(&key) {
            watch.sockets = Some(sockets);
        }
        Ok(())
    }

    /// Ends the watches of clients that are gone.
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
            running.call_method1("remove_reader", (sockets.as_raw_fd(),))?;
        }
        Ok(())
    }

    fn settle(&self, py: Python<'_>, ids: Vec<u64>) -> PyResult<()> {
        let mut result = Ok(());
        for id in ids {
            let parked = lock(&self.parked).remove(&id);
            // What one task does with its news must not keep the others waiting.
            if let Some(Err(e)) = parked.map(|p| Parked::settle(p.bind(py))) {
                result = Err(e);
            }
        }
        result
    }
}

fn key_of(client: &Arc<dyn AnyClient>) -> usize {
    // As long as a `Weak` is kept, nothing else gets the place.
    Arc::as_ptr(client).addr()
}

/// The running loop, if there is one, watches a client's sockets no more.
pub(super) fn forget(py: Python<'_>, client: &Arc<dyn AnyClient>) -> PyResult<()> {
    let Ok(running) = running_loop(py) else { return Ok(()) };
    known_bridge_of(&running).map_or(Ok(()), |bridge| bridge.get().unwatch(&running, key_of(client), true))
}

#[pymethods]
impl Bridge {
    /// Ends the waits whose turn has come; the loop calls it.
    fn drain(&self, py: Python<'_>) -> PyResult<()> {
        // Read first: an id pushed after this writes a byte again.
        let mut bytes = [0; 64];
        let _ = (&self.reader).read(&mut bytes);
        let ids = std::mem::take(&mut lock(&self.queue.waiting).ids);
        self.settle(py, ids)
    }

    /// Does a client's work, whose sockets the loop watches; the loop calls it when something happened to them.
    fn turn(&self, py: Python<'_>, key: usize) -> PyResult<()> {
        let client = lock(&self.watches).get(&key).and_then(|watch| watch.client.upgrade());
        let Some(client) = client.filter(|c| c.check().is_ok()) else {
            return self.unwatch(&running_loop(py)?, key, true);
        };
        lock(&self.queue.waiting).in_turn = true;
        let was_ours = client.work();
        let ids = {
            let mut waiting = lock(&self.queue.waiting);
            waiting.in_turn = false;
            std::mem::take(&mut waiting.ids)
        };
        let count = lock(&self.watches).get_mut(&key).map_or(0, |watch| {
            watch.count = if was_ours { 0 } else { watch.count + 1 };
            watch.count
        });
        if count >= PATIENCE {
            self.unwatch(&running_loop(py)?, key, false)?;
        }
        self.settle(py, ids)
    }
}

/// The I/O threads' side of a bridge.
struct Queue {
    waiting: Mutex<Waiting>,
    writer: UnixStream,
    call: OnceLock<Call>,
}

struct Call {
    soon: Py<PyAny>,
    drain: Py<PyAny>,
}

#[derive(Default)]
struct Waiting {
    ids: Vec<u64>,
    /// Whether the loop does a client's work now, and looks here at its end.
    in_turn: bool,
}

impl Queue {
    fn push(&self, id: u64) {
        let is_news = {
            let mut waiting = lock(&self.waiting);
            waiting.ids.push(id);
            waiting.ids.len() == 1 && !waiting.in_turn
        };
        if !is_news {
            return;
        }
        match self.call.get() {
            // A full pipe has a byte in it, and one is enough; a broken one means that the loop is gone.
            None => drop((&self.writer).write(&[1])),
            // It fails only if the loop is closed.
            Some(call) => Python::attach(|py| drop(call.soon.call1(py, (&call.drain,)))),
        }
    }
}

struct Slot {
    id: u64,
    queue: Arc<Queue>,
}

impl Wake for Slot {
    fn wake(self: Arc<Self>) {
        self.queue.push(self.id);
    }
}

/// An awaitable whose value is there already: `await` goes on without a turn of the loop.
#[pyclass(frozen, module = "klamm._klamm")]
pub(super) struct Ready(Py<PyAny>);

impl Ready {
    pub(super) fn new(py: Python<'_>, value: Py<PyAny>) -> PyResult<Bound<'_, Self>> {
        Bound::new(py, Self(value))
    }
}

#[pymethods]
impl Ready {
    fn __await__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }
    fn __next__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        // In a tuple, since a value that is a tuple would be taken for the exception's arguments.
        Err(PyStopIteration::new_err((self.0.clone_ref(py),)))
    }

    // What makes it a coroutine, which a task can be made of.

    fn send(&self, py: Python<'_>, _value: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        self.__next__(py)
    }

    #[pyo3(signature = (error, *_more))]
    fn throw(&self, error: Bound<'_, PyAny>, _more: &Bound<'_, PyTuple>) -> PyResult<()> {
        Err(PyErr::from_value(error))
    }

    fn close(&self) {}
}

/// A thread that panicked while it held one of these locks left the data whole: each holds it for one statement.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
