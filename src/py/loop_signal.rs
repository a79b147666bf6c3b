//! [`LoopSignal`]: makes an asyncio event loop call a function, from a thread that does not hold the interpreter.
//!
//! Unix loops watch a socket pair, which costs one write. Loops that cannot watch sockets, and all loops on Windows, are
//! called by `call_soon_threadsafe`, for which the thread attaches to the interpreter.

use pyo3::prelude::*;
use pyo3::types::{PyWeakrefMethods, PyWeakrefReference};

/// How to wake one event loop.
pub(super) enum LoopSignal {
    /// A socket pair that the loop watches.
    #[cfg(unix)]
    Pair(pair::Pair),
    /// The loop, and what it calls. The reference is weak, because a loop that ended must not live on in here.
    Call(Py<PyWeakrefReference>, Py<PyAny>),
}

impl LoopSignal {
    /// Makes the loop call one of two functions after each [`LoopSignal::send`]. A loop that watches sockets owns the first
    /// until it is closed.
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
        let weak = PyWeakrefReference::new(running)?;
        Ok(Self::Call(weak.unbind(), when_called.unbind()))
    }

    /// Returns whether the loop can watch sockets.
    pub fn is_watched(&self) -> bool {
        !matches!(self, Self::Call(..))
    }

    /// Wakes the loop. Any thread may call it.
    pub fn send(&self) {
        match self {
            #[cfg(unix)]
            Self::Pair(pair) => pair.send(),
            // This fails only if the loop is closed.
            Self::Call(running, function) => Python::attach(|py| {
                if let Some(running) = running.bind(py).upgrade() {
                    let _ = running.call_method1("call_soon_threadsafe", (function,));
                }
            }),
        }
    }

    /// Takes back what was sent. The loop calls it before it looks for work.
    pub fn clear(&self) {
        #[cfg(unix)]
        if let Self::Pair(pair) = self {
            pair.clear();
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

        /// Writes a byte. A full socket holds bytes already, and one is enough. A broken one means that the loop is gone.
        pub(super) fn send(&self) {
            let _ = (&self.writer).write(&[1]);
        }

        pub(super) fn clear(&self) {
            let _ = (&self.reader).read(&mut [0; 64]);
        }
    }
}
