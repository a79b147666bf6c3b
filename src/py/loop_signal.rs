//! [`LoopSignal`]: schedules a function on an asyncio event loop, from a thread that must not wait for the GIL.
//!
//! The calling thread may hold locks of a client. If the calling thread waited for the GIL, it could deadlock with a
//! thread that holds the GIL and waits for one of the locks. On Unix, the loop watches a socket pair, and the calling
//! thread only writes one byte to it. If a loop cannot watch sockets, or runs on Windows, a separate thread calls
//! `call_soon_threadsafe`.

use pyo3::prelude::*;
use pyo3::types::{PyWeakrefMethods, PyWeakrefReference};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::Builder;

/// Wakes one event loop.
pub(super) enum LoopSignal {
    /// A socket pair that the loop watches.
    #[cfg(unix)]
    Pair(pair::Pair),
    /// A channel to the thread that calls the loop. The thread ends when the sender is dropped.
    Thread(SyncSender<()>),
}

impl LoopSignal {
    /// Makes the loop call one of two functions after each [`LoopSignal::send`]. A loop that watches sockets calls the
    /// first function, and owns it until the loop is closed.
    pub fn connect(
        running: &Bound<'_, PyAny>,
        when_watched: &Bound<'_, PyAny>,
        when_called: Bound<'_, PyAny>,
    ) -> PyResult<Self> {
        #[cfg(unix)]
        if let Some(pair) = pair::Pair::watched_by(running, when_watched)? {
            return Ok(Self::Pair(pair));
        }
        #[cfg(not(unix))]
        let _ = when_watched;
        let (sender, requests) = sync_channel(1);
        // Weak, because a loop that ended must not stay in memory until the thread ends.
        let (running, function) = (PyWeakrefReference::new(running)?.unbind(), when_called.unbind());
        Builder::new().name("klamm-loop".to_owned()).spawn(move || call(&requests, running, function))?;
        Ok(Self::Thread(sender))
    }

    /// Returns whether the loop can watch sockets.
    pub fn is_watched(&self) -> bool {
        !matches!(self, Self::Thread(_))
    }

    /// Wakes the loop. Any thread may call this method.
    pub fn send(&self) {
        match self {
            #[cfg(unix)]
            Self::Pair(pair) => pair.send(),
            // A full channel holds a request already, and one is enough.
            Self::Thread(sender) => drop(sender.try_send(())),
        }
    }

    /// Clears the signal. The loop calls this method before it looks for work.
    pub fn clear(&self) {
        #[cfg(unix)]
        if let Self::Pair(pair) = self {
            pair.clear();
        }
    }
}

/// Calls the function on the loop after each request, until the signal is dropped or the interpreter ends.
fn call(requests: &Receiver<()>, running: Py<PyWeakrefReference>, function: Py<PyAny>) {
    while requests.recv().is_ok() {
        let called = Python::try_attach(|py| {
            if let Some(running) = running.bind(py).upgrade() {
                // This fails only if the loop is closed.
                let _ = running.call_method1("call_soon_threadsafe", (&function,));
            }
        });
        if called.is_none() {
            // Without an interpreter there is nothing to release.
            std::mem::forget((running, function));
            return;
        }
    }
}

#[cfg(unix)]
mod pair {
    use pyo3::exceptions::PyNotImplementedError;
    use pyo3::prelude::*;
    use std::io::{Read, Write};
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    pub(crate) struct Pair {
        reader: UnixStream,
        writer: UnixStream,
    }

    impl Pair {
        /// Returns a pair that the loop watches, or `None` if the loop cannot watch sockets.
        pub(super) fn watched_by(running: &Bound<'_, PyAny>, function: &Bound<'_, PyAny>) -> PyResult<Option<Self>> {
            let (reader, writer) = UnixStream::pair()?;
            reader.set_nonblocking(true)?;
            writer.set_nonblocking(true)?;
            match running.call_method1("add_reader", (reader.as_raw_fd(), function)) {
                Err(e) if e.is_instance_of::<PyNotImplementedError>(running.py()) => Ok(None),
                result => result.map(|_| Some(Self { reader, writer })),
            }
        }

        /// Writes a byte. If the socket is full, it already holds a byte, and one byte is enough. If the socket is
        /// broken, the loop no longer exists.
        pub(super) fn send(&self) {
            let _ = (&self.writer).write(&[1]);
        }

        pub(super) fn clear(&self) {
            let _ = (&self.reader).read(&mut [0; 64]);
        }
    }
}
