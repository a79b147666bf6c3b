//! The lock around a client's state machine, and how threads wait for changes of the state and wake each other.
//!
//! [`ClientRole`] is the part that a producer, consumer, share consumer or admin client adds to its state machine.
//! [`Shared`] has no sockets and no thread. The [driver](super::driver) moves bytes, and the [core](super::core) owns
//! the I/O thread.
//!
//! A thread that needs both locks takes the driver's lock first, then the state's lock. A thread dispatches results
//! only while it holds neither the driver's lock nor the state's lock.

use super::completion::{catch, closed};
use super::event_loop::ExternalPollers;
use super::fork::Birth;
use super::identity::Identity;
use super::inline_polling::InlinePolling;
use super::{Error, ErrorKind, LoginMailbox, dispatch};
use crate::engine::metrics::Family;
use crate::engine::{Role, Time};
use crate::logging::{self, Entered, LogIdentity};
use crate::net::Poller;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::Waker;
use std::time::{Duration, Instant};

/// A state machine that a [`super::Client`] can run. Methods with a default body are hooks that some clients need.
pub trait ClientRole: Role + Sized + 'static {
    /// The state of the client under the same lock as the state machine.
    type Locked: Default + Send;
    /// The values that the client's calls read without the lock: settings and atomic counters.
    type Unlocked: Send + Sync;
    /// The result of a call or of an operation, to pass to the caller that waits for it.
    type Done: Send;

    /// The Java client's name for this type of client in the groups of metrics.
    const METRICS: &str;

    /// Returns the metrics of the state machine.
    fn families(state: &State<Self>, unlocked: &Self::Unlocked, now: Time) -> Vec<Family>;
    /// Returns the metrics that librdkafka's statistics show as windows of time, except the metrics of the network.
    fn windows(_state: &State<Self>, _now: Time) -> Vec<Family> {
        Vec::new()
    }
    /// Returns the next result.
    fn poll_done(state: &mut State<Self>, unlocked: &Self::Unlocked) -> Option<Self::Done>;
    /// Passes a result to the caller that waits for it. Runs without the lock.
    fn deliver(done: Self::Done, shared: &Shared<Self>);
    /// Ends all calls and operations with an error.
    fn fail_all(state: &mut State<Self>, error: &Error);

    /// Returns whether to call the wakers of [`super::Client::on_ready`].
    fn ends_wait(_state: &State<Self>) -> bool {
        false
    }
    /// Returns whether a wait without a timeout would never end, because the client has nothing to read.
    fn reads_nothing(_state: &State<Self>) -> bool {
        false
    }
    /// Runs before [`Role::handle_timeout`].
    fn before_timeout(_state: &mut State<Self>, _unlocked: &Self::Unlocked, _now: Time) {}
    /// Runs before [`Role::handle_response`].
    fn before_response(_state: &mut State<Self>, _answer: &Self::Prepared) {}
    /// Runs for each request that is sent.
    fn on_request(_state: &mut State<Self>, _request: &Self::Request) {}
    /// Runs after a call has changed the state machine.
    fn on_call(_unlocked: &Self::Unlocked) {}
    /// Copies state into `unlocked` after every change.
    fn publish(_state: &State<Self>, _unlocked: &Self::Unlocked) {}
    /// Returns how long the I/O thread may pause and leave its work to callers, because little is in flight.
    /// `has_visited` tells whether an event loop or an inline poller has polled since the I/O thread last checked.
    fn max_io_pause(_state: &State<Self>, _unlocked: &Self::Unlocked, _has_visited: bool) -> Option<Duration> {
        None
    }
    /// Returns whether there is so little work that an event loop may poll the sockets.
    fn is_light(_state: &State<Self>) -> bool {
        false
    }
    /// Returns the error of a request that the client will send again, if there is one.
    fn refusal(_state: &State<Self>) -> Option<Error> {
        None
    }
}

/// The state that the lock of a client guards.
pub struct State<R: ClientRole> {
    /// The state machine.
    pub role: R,
    /// The state that the client adds to the state machine.
    pub local: R::Locked,
    /// The wakers to call when [`ClientRole::ends_wait`] returns true.
    pub wakers: Vec<Waker>,
}

impl<R: ClientRole> State<R> {
    /// Handles the deadlines that have passed.
    pub fn handle_timeout(&mut self, unlocked: &R::Unlocked, now: Time) {
        R::before_timeout(self, unlocked, now);
        self.role.handle_timeout(now);
    }

    /// Returns the next request to send.
    pub fn poll_send(&mut self, now: Time) -> Option<R::Request> {
        let request = self.role.poll_send(now)?;
        R::on_request(self, &request);
        Some(request)
    }
}

/// The state that the callers of a client and its I/O thread share.
pub struct Shared<R: ClientRole> {
    state: Mutex<State<R>>,
    pub unlocked: R::Unlocked,
    changed: Condvar,
    /// The number of threads that wait for `changed`.
    waiting: AtomicUsize,
    /// The number of threads that wait by polling inline.
    polling: AtomicUsize,
    start: Instant,
    birth: Birth,
    is_closed: AtomicBool,
    /// The error that ended the client, if the application did not close it.
    failure: OnceLock<Error>,
    last_network_error: Mutex<Option<Error>>,
    /// The poller, which exists from the start of the I/O thread on.
    poller: OnceLock<Arc<Poller>>,
    pub(super) inline: InlinePolling,
    pub(super) external: ExternalPollers,
    pub login_mailbox: Option<LoginMailbox>,
    pub(super) identity: Identity,
    /// The identity of this client in log lines.
    pub log: Arc<LogIdentity>,
}

impl<R: ClientRole> Shared<R> {
    /// Creates the shared state of a client. The error explains why the client has not reached any broker yet.
    pub fn new(
        mut role: R,
        unlocked: R::Unlocked,
        not_connected: Error,
        needs_login_mailbox: bool,
        log: Arc<LogIdentity>,
    ) -> Self {
        role.handle_unreachable(Time(0), &not_connected);
        Self {
            state: Mutex::new(State { role, local: R::Locked::default(), wakers: Vec::new() }),
            unlocked,
            changed: Condvar::new(),
            waiting: AtomicUsize::new(0),
            polling: AtomicUsize::new(0),
            start: Instant::now(),
            birth: Birth::now(),
            is_closed: AtomicBool::new(false),
            failure: OnceLock::new(),
            last_network_error: Mutex::new(Some(not_connected)),
            poller: OnceLock::new(),
            inline: InlinePolling::default(),
            external: ExternalPollers::default(),
            login_mailbox: needs_login_mailbox.then(LoginMailbox::default),
            identity: Identity::default(),
            log,
        }
    }

    /// Returns the time on the client's clock.
    pub fn now(&self) -> Time {
        Time(u64::try_from(self.start.elapsed().as_micros()).unwrap_or(u64::MAX))
    }

    /// Marks the log lines of the current thread with this client's identity, until the result is dropped.
    pub fn enter(&self) -> Entered {
        logging::enter(&self.log)
    }

    /// Locks the state.
    pub fn state(&self) -> MutexGuard<'_, State<R>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the state of a client that is open. A thread that closes the client waits for this lock, and then fails
    /// all calls that began under the lock.
    pub fn open(&self) -> Result<MutexGuard<'_, State<R>>, Error> {
        self.check()?;
        let state = self.state();
        self.check()?;
        Ok(state)
    }

    /// Fails if the client is closed or was created before a fork.
    pub fn check(&self) -> Result<(), Error> {
        self.check_birth()?;
        if self.is_closed() { Err(self.why_closed()) } else { Ok(()) }
    }

    /// Returns the error of calls on the client after it was closed.
    pub fn why_closed(&self) -> Error {
        self.failure.get().cloned().unwrap_or_else(closed)
    }

    /// Runs `f`. If `f` panics, ends the client with the text of the panic, and returns `None`.
    pub fn guarded<T>(&self, f: impl FnOnce() -> T) -> Option<T> {
        let explain = |text: &str| {
            let message = format!("the client stopped because of an internal error: {text}");
            let error = Error::new(ErrorKind::Internal, message);
            error.with_hint("this is a defect of klamm: report it, and create a new client")
        };
        match catch(f, explain) {
            Ok(result) => Some(result),
            Err(error) => {
                // The first failure explains more than those that follow from it.
                let error = self.failure.get_or_init(|| error);
                self.set_closed();
                if let Some(flight) = self.log.flight() {
                    flight.dump_after_failure();
                }
                if let Some(mailbox) = &self.login_mailbox {
                    mailbox.close();
                }
                // The state may be inconsistent, so this may panic, too.
                let _ = catch(|| self.fail_all(), |_| error.clone());
                self.nudge();
                None
            }
        }
    }

    /// Fails in the child process of a fork, where the state may stay locked forever.
    pub fn check_birth(&self) -> Result<(), Error> {
        self.birth.check()
    }

    /// Returns whether the client is closed.
    pub fn is_closed(&self) -> bool {
        self.is_closed.load(SeqCst)
    }

    /// Marks the client as closed.
    pub fn set_closed(&self) {
        self.is_closed.store(true, SeqCst);
    }

    /// Returns why no broker can be reached. Before the first connection, the error is that there was no connection
    /// yet.
    pub fn last_network_error(&self) -> Option<Error> {
        self.last_network_error.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sets the reason why no broker can be reached, or `None` if a broker was reached.
    pub fn set_network_error(&self, error: Option<Error>) {
        *self.last_network_error.lock().unwrap_or_else(PoisonError::into_inner) = error;
    }

    /// Returns the poller, if the I/O thread has started.
    pub fn poller(&self) -> Option<&Arc<Poller>> {
        self.poller.get()
    }

    /// Returns the poller, and creates it for the I/O thread that is about to start.
    pub fn make_poller(&self) -> std::io::Result<Arc<Poller>> {
        if self.poller.get().is_none() {
            // Only the thread that starts the I/O thread gets here, so the cell is still empty.
            let _ = self.poller.set(Arc::new(Poller::new()?));
        }
        self.poller.get().cloned().ok_or_else(|| std::io::ErrorKind::NotConnected.into())
    }

    /// Makes the I/O thread look for work, if it has started.
    pub fn nudge(&self) {
        if let Some(poller) = self.poller.get() {
            poller.wake().wake();
            self.external.recall_io_thread();
        }
    }

    /// Makes the caller that polls inline check whether its wait is over.
    pub fn wake_inline_poller(&self) {
        if let (true, Some(poller)) = (self.inline.is_active(), self.poller.get()) {
            poller.wake().insist();
        }
    }

    /// Waits until `ready` returns true, at most until the deadline. Returns the last result of `ready`.
    pub fn wait_until(&self, deadline: Instant, ready: impl Fn(&State<R>) -> bool) -> bool {
        self.waiting.fetch_add(1, SeqCst);
        let mut state = self.state();
        let mut is_ready = ready(&state);
        while !is_ready && !self.is_closed() {
            let remaining = deadline.saturating_duration_since(Instant::now());
            if remaining.is_zero() {
                break;
            }
            state = self.changed.wait_timeout(state, remaining).unwrap_or_else(PoisonError::into_inner).0;
            is_ready = ready(&state);
        }
        drop(state);
        self.waiting.fetch_sub(1, SeqCst);
        is_ready
    }

    /// Counts a caller that starts to poll inline.
    pub fn begin_inline_polling(&self) {
        self.polling.fetch_add(1, SeqCst);
        self.external.note_reader();
    }

    /// Removes a caller that [`Shared::begin_inline_polling`] counted.
    pub fn end_inline_polling(&self) {
        self.external.note_reader();
        self.polling.fetch_sub(1, SeqCst);
    }

    /// Wakes the threads that wait for a change of the state.
    pub fn notify(&self) {
        if self.waiting.load(SeqCst) > 0 {
            // A waiter between its check and its wait holds the lock. Locking it once here orders the two.
            drop(self.state());
            self.changed.notify_all();
        }
        if self.polling.load(SeqCst) > 0 {
            self.wake_inline_poller();
        }
    }

    /// Calls the wakers if their wait is over, and updates the values that calls read without the lock. The caller
    /// holds the lock, so a waker must not wait for another lock, or for the Python interpreter.
    pub fn after_change(&self, state: &mut State<R>) {
        R::publish(state, &self.unlocked);
        if !state.wakers.is_empty() && (R::ends_wait(state) || self.check().is_err()) {
            state.wakers.drain(..).for_each(Waker::wake);
        }
    }

    /// Returns the number by which [`dispatch`] identifies this client.
    pub fn address(&self) -> usize {
        std::ptr::from_ref(self) as usize
    }

    /// Passes results to the callers that wait for them.
    pub fn dispatch(&self, done: impl IntoIterator<Item = R::Done>) {
        let _dispatching = dispatch::Dispatching::of(self.address());
        done.into_iter().for_each(|d| R::deliver(d, self));
    }

    /// Fails all calls that have no result yet, because the client is closed.
    pub fn fail_all(&self) {
        let _entered = self.enter();
        self.identity.fail(&self.why_closed());
        let mut state = self.state();
        R::fail_all(&mut state, &self.why_closed());
        self.after_change(&mut state);
        drop(state);
        loop {
            // Some results become available only after others were dispatched.
            let mut state = self.state();
            let done: Vec<R::Done> = std::iter::from_fn(|| R::poll_done(&mut state, &self.unlocked)).collect();
            drop(state);
            if done.is_empty() {
                break;
            }
            self.dispatch(done);
        }
        self.notify();
    }
}
