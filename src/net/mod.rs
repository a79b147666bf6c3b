//! Sockets, TLS, polling and wake-ups. The module moves bytes and does not depend on Kafka's protocol.
//!
//! One thread waits in a [`Poller`]. While this thread waits, other threads may use the poller's sockets, and wake the
//! waiting thread through a [`Wake`]. A wake-up costs a system call only if the waiting thread sleeps or is about to
//! sleep. On Linux, a second thread may wait in the same poller. If two threads wait when data arrives, the kernel
//! wakes the thread that started to wait last. An event loop can watch a poller's file descriptor in the same way as a
//! socket. `resolve.rs` resolves host names on separate threads, because the system's resolver blocks.

mod resolve;
mod stream;
pub mod tls;

pub use resolve::resolve;
pub use stream::{Listener, Received, Stream};

use mio::{Events, Poll, Registry, Token, Waker};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// A descriptor of a [`Poller`]. On systems without descriptors, this type has no values.
#[cfg(unix)]
pub type Descriptor = std::os::fd::OwnedFd;
/// A descriptor of a [`Poller`]. On systems without descriptors, this type has no values.
#[cfg(not(unix))]
pub type Descriptor = std::convert::Infallible;

const WAKE: Token = Token(usize::MAX);

/// The readiness of a socket.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// The token with which the socket was registered.
    pub token: usize,
    /// Whether a read returns data or the end of the stream.
    pub readable: bool,
    /// Whether the socket accepts data, or an attempt to connect has ended.
    pub writable: bool,
    /// Whether the peer closed its side, or the connection broke. No other event follows, so the caller must read the
    /// socket to its end, even if a read returns fewer bytes than requested.
    pub ended: bool,
}

/// Wakes the thread that waits in a [`Poller`].
#[derive(Clone, Debug)]
pub struct Wake(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    waker: Waker,
    armed: AtomicBool,
}

impl Wake {
    /// Ends the current or the next wait. Costs no system call if the thread is awake.
    pub fn wake(&self) {
        if self.0.armed.swap(false, SeqCst) {
            // It fails only after the poller was dropped.
            let _ = self.0.waker.wake();
        }
    }

    /// Ends a wait even if the thread that usually waits is awake, so that it also wakes a second thread in the poller.
    pub fn insist(&self) {
        let _ = self.0.waker.wake();
    }
}

/// Waits for events of sockets.
#[derive(Debug)]
pub struct Poller {
    poll: Mutex<(Poll, Events)>,
    registry: Registry,
    wake: Wake,
}

impl Poller {
    /// Whether two threads can wait in the same poller.
    pub const TAKES_TWO_THREADS: bool = cfg!(target_os = "linux");

    /// Creates a poller without sockets.
    #[allow(clippy::disallowed_methods, reason = "one thread waits while others register sockets")]
    pub fn new() -> io::Result<Self> {
        let poll = Poll::new()?;
        let waker = Waker::new(poll.registry(), WAKE)?;
        let wake = Wake(Arc::new(Shared { waker, armed: AtomicBool::new(false) }));
        let registry = poll.registry().try_clone()?;
        Ok(Self { poll: Mutex::new((poll, Events::with_capacity(256))), registry, wake })
    }

    /// Returns the handle for other threads.
    pub fn wake(&self) -> Wake {
        self.wake.clone()
    }

    /// Prepares the next wait, so that every later [`Wake::wake`] ends it. Call this before you look for work from
    /// other threads.
    pub fn arm(&self) {
        self.wake.0.armed.store(true, SeqCst);
    }

    /// Waits for events, a wake-up or the timeout, and appends the events to `out`.
    pub fn wait(&self, timeout: Option<Duration>, out: &mut Vec<Event>) -> io::Result<()> {
        // The kernel counts milliseconds. A shorter wait would spin.
        let timeout = timeout.map(|t| if t.is_zero() { t } else { t.max(Duration::from_millis(1)) });
        let (poll, ready) = &mut *self.poll.lock().unwrap_or_else(PoisonError::into_inner);
        match poll.poll(ready, timeout) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => return Ok(()),
            result => result?,
        }
        self.wake.0.armed.store(false, SeqCst);
        out.extend(ready.iter().filter(|e| e.token() != WAKE).map(|e| Event {
            token: e.token().0,
            readable: e.is_readable() || e.is_read_closed() || e.is_error(),
            writable: e.is_writable() || e.is_write_closed() || e.is_error(),
            ended: e.is_read_closed() || e.is_error(),
        }));
        Ok(())
    }

    /// Waits while another thread already waits. The kernel wakes only the thread that started to wait last, so the
    /// caller gets the events. Returns whether a [`Wake`] ended the wait. The wake-up may have been for the other
    /// thread, so the caller must then do that thread's work.
    #[cfg(target_os = "linux")]
    pub fn wait_first(&self, timeout: Duration, out: &mut Vec<Event>) -> io::Result<bool> {
        use rustix::event::{Timespec, epoll};
        use std::mem::MaybeUninit;
        let mut ready = [const { MaybeUninit::<epoll::Event>::uninit() }; 64];
        let timeout = Timespec {
            tv_sec: timeout.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: timeout.subsec_nanos().into(),
        };
        let (ready, _) = match epoll::wait(&self.registry, &mut ready, Some(&timeout)) {
            Err(rustix::io::Errno::INTR) => return Ok(false),
            result => result?,
        };
        let mut was_woken = false;
        for event in ready {
            let (token, flags) = (event.data.u64() as usize, event.flags);
            if token == WAKE.0 {
                was_woken = true;
                continue;
            }
            let is_broken = flags.contains(epoll::EventFlags::ERR);
            let ended = is_broken || flags.intersects(epoll::EventFlags::HUP | epoll::EventFlags::RDHUP);
            let readable = ended || flags.intersects(epoll::EventFlags::IN | epoll::EventFlags::PRI);
            let writable = is_broken || flags.intersects(epoll::EventFlags::OUT | epoll::EventFlags::HUP);
            out.push(Event { token, readable, writable, ended });
        }
        Ok(was_woken)
    }

    /// Returns a descriptor for another poller. The descriptor is readable when there are events.
    #[cfg(target_os = "linux")]
    pub fn descriptor(&self) -> io::Result<Descriptor> {
        std::os::fd::AsFd::as_fd(&self.registry).try_clone_to_owned()
    }

    /// Always fails, because nested pollers are untested on this system, and Windows has no descriptors for pollers.
    #[cfg(not(target_os = "linux"))]
    pub fn descriptor(&self) -> io::Result<Descriptor> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Always fails, because only a single thread can wait in a poller on this system.
    #[cfg(not(target_os = "linux"))]
    pub fn wait_first(&self, _timeout: Duration, _out: &mut Vec<Event>) -> io::Result<bool> {
        Err(io::ErrorKind::Unsupported.into())
    }
}
