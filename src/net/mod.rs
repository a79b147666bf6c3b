//! Sockets, TLS, readiness and wake-ups: moves bytes, knows no Kafka.
//!
//! One thread waits in a [`Poller`]; others may use the sockets registered with it meanwhile, and reach that thread
//! through a [`Wake`], which costs a system call only when the thread sleeps or is about to. On Linux a second thread may
//! wait there, too, and is the one that the kernel wakes, and other pollers may watch it. Names are looked up on a thread of
//! their own, because the system's resolver blocks.

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

const WAKE: Token = Token(usize::MAX);

/// What happened to a socket.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// The number the socket was registered under.
    pub token: usize,
    /// There is something to read, or the end of it.
    pub readable: bool,
    /// There is room to write, or a connection attempt is over.
    pub writable: bool,
    /// The peer closed its side or the connection broke. There will be no other event, so what is read after this one
    /// has to be read to its end even if a read comes short.
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
    /// Ends the current or next wait; cheap if the thread is awake anyway.
    pub fn wake(&self) {
        if self.0.armed.swap(false, SeqCst) {
            // The only errors are those of a descriptor that is gone together with its poller.
            let _ = self.0.waker.wake();
        }
    }

    /// Ends a wait even if the thread that usually waits is awake.
    pub fn insist(&self) {
        let _ = self.0.waker.wake();
    }
}

/// Waits for sockets.
#[derive(Debug)]
pub struct Poller {
    poll: Mutex<(Poll, Events)>,
    registry: Registry,
    wake: Wake,
}

impl Poller {
    /// Whether two threads can wait in one poller.
    pub const HAS_ROOM: bool = cfg!(target_os = "linux");

    /// A poller without sockets.
    #[allow(clippy::disallowed_methods, reason = "others register sockets while one thread waits")]
    pub fn new() -> io::Result<Self> {
        let poll = Poll::new()?;
        let waker = Waker::new(poll.registry(), WAKE)?;
        let wake = Wake(Arc::new(Shared { waker, armed: AtomicBool::new(false) }));
        let registry = poll.registry().try_clone()?;
        Ok(Self { poll: Mutex::new((poll, Events::with_capacity(256))), registry, wake })
    }

    /// The handle for other threads.
    pub fn wake(&self) -> Wake {
        self.wake.clone()
    }

    /// To be called before looking for work that other threads left: a [`Wake::wake`] from here on ends the wait.
    pub fn arm(&self) {
        self.wake.0.armed.store(true, SeqCst);
    }

    /// Waits for events, a wake-up or the timeout, whichever comes first, and appends the events to `out`.
    pub fn wait(&self, timeout: Option<Duration>, out: &mut Vec<Event>) -> io::Result<()> {
        // The kernel counts milliseconds; a shorter wait would spin.
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

    /// Waits while another thread waits already: what happens comes here, since the kernel wakes the thread that came last,
    /// and no other. Says whether it was woken; who takes a wake-up from the other thread has to look for its work.
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

    /// What another poller can watch this one by: readable when there are events.
    #[cfg(target_os = "linux")]
    pub fn descriptor(&self) -> io::Result<std::os::fd::OwnedFd> {
        std::os::fd::AsFd::as_fd(&self.registry).try_clone_to_owned()
    }

    /// Other systems' pollers are not tried.
    #[cfg(all(unix, not(target_os = "linux")))]
    pub fn descriptor(&self) -> io::Result<std::os::fd::OwnedFd> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Other systems' pollers have room for one thread.
    #[cfg(not(target_os = "linux"))]
    pub fn wait_first(&self, _timeout: Duration, _out: &mut Vec<Event>) -> io::Result<bool> {
        Err(io::ErrorKind::Unsupported.into())
    }
}
