//! The core of every client: the I/O thread, calls that wait, and closing.
//!
//! [`Producer`](super::Producer), [`Consumer`](super::Consumer), [`ShareConsumer`](super::ShareConsumer) and
//! [`Admin`](super::Admin) are type aliases of [`Client`], each with its own state machine. `producer.rs`,
//! `consumer.rs`, `share_consumer.rs` and `admin.rs` add the calls of each client.
//!
//! The I/O thread starts when the client is first used, not at import, so a program may import klamm before it forks.
//! While the I/O thread sleeps, a caller may run one turn of the I/O loop itself, to send a single request without a
//! thread switch. The response needs no thread switch either if the caller [polls inline](super::inline_polling), or
//! if an [event loop](super::event_loop) polls the sockets.

use super::config::Connecting;
use super::driver::Driver;
use super::event_loop::Sockets;
use super::metrics::{NetworkSnapshot, details, families};
use super::shared::{ClientRole, Shared, State};
use super::{Error, ErrorKind, Family, LoginMailbox, Pending, Waiting, dispatch};
use crate::engine::ops::{Completion, Op, Output};
use crate::engine::telemetry::{APPLICATION, TelemetryConfig};
use crate::engine::{Endpoints, NetworkConfig, Time};
use crate::logging::Component;
use crate::net::{Event, Poller, tls};
use crate::wire::Uuid;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::Waker;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// A client. Any number of threads may share a client. Dropping a client closes it.
pub struct Client<R: ClientRole> {
    core: Arc<Core<R>>,
}

/// A client of any type, for code that treats all clients alike.
pub trait AnyClient: Send + Sync {
    /// Fails if the client is closed or was created before a fork.
    fn check(&self) -> Result<(), Error>;
    /// Allows the caller to wait for this client. Fails in a callback if the wait would never end.
    fn may_wait(&self) -> Result<Waiting, Error>;
    /// Returns the last error after which the client is retrying: no broker is reachable, or a broker rejected a
    /// request.
    fn last_error(&self) -> Option<Error>;
    /// Returns whether there is so little work that an event loop may poll the sockets.
    fn is_light(&self) -> bool;
    /// Returns the sockets for an event loop, which calls [`AnyClient::work`] when a socket is ready.
    fn sockets(&self) -> io::Result<Sockets>;
    /// Does the I/O thread's work in an event loop. Returns whether the I/O thread has left the work to the event loop.
    fn work(&self) -> bool;
    /// Returns the metrics and, with `detail`, the state of connections and partitions. A closed client returns its
    /// last values. The call fails only in the child process of a fork.
    fn families(&self, detail: bool) -> Result<Vec<Family>, Error>;
    /// Returns the configured `client.id`.
    fn id(&self) -> &str;
    /// Returns the ID that a broker assigns to the client (KIP-714).
    fn instance_id(&self) -> Result<Pending<Uuid>, Error>;
    /// Replaces the application's metrics that the client pushes (KIP-1076). Each metric has a name, whether it is a
    /// total, tags, and a value.
    fn set_application_metrics(&self, metrics: Vec<(String, bool, Vec<(String, String)>, f64)>);
    /// Stops the I/O thread at once. All calls without a result fail.
    fn end(&self);
}

/// A state machine that runs operations.
pub(super) trait RunsOps: ClientRole {
    /// Starts an operation that ends within `timeout`.
    fn start_op(&mut self, now: Time, op: Box<dyn Op>, timeout: Duration, completion: Completion);
}

/// The state of a client with its I/O thread.
struct Core<R: ClientRole> {
    shared: Shared<R>,
    /// The driver, or `None` before the start and after the end of the I/O thread.
    driver: Mutex<Option<Driver<R>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    is_started: AtomicBool,
    /// The time at which the I/O thread wakes up, in microseconds of the client's clock.
    sleeps_until: AtomicU64,
    network: NetworkConfig,
    tls: Option<Arc<tls::Client>>,
    telemetry: TelemetryConfig,
    /// The timeout of operations without a timeout of their own.
    api_timeout: Duration,
    /// The metrics of the network after the end of the driver.
    last_network: Mutex<NetworkSnapshot>,
}

/// Returns when a timeout ends. Limits very long timeouts, because they would overflow the clock of some systems.
pub(super) fn deadline(timeout: Duration) -> Instant {
    Instant::now() + timeout.min(Duration::from_secs(1 << 30))
}

/// Returns the two ends of an operation's result: the completion for the state machine, and the [`Pending`] for the
/// caller.
pub(super) fn completion<T: Send + 'static>(convert: fn(Output) -> Option<T>) -> (Completion, Pending<T>) {
    let (promise, pending) = Pending::new();
    let completion = move |result: Result<Output, Error>| match result.map(convert) {
        Ok(Some(value)) => promise.complete(Ok(value)),
        // An operation has one type of output. Another one is dropped and reads as a closed client.
        Ok(None) => drop(promise),
        Err(e) => promise.complete(Err(e)),
    };
    (Box::new(completion), pending)
}

impl<R: ClientRole> Client<R> {
    pub(super) fn start(role: R, unlocked: R::Unlocked, connecting: Connecting, api_timeout: Duration) -> Self {
        let Connecting { network, tls, telemetry, log } = connecting;
        let needs_login_mailbox = network.credentials.as_ref().is_some_and(|c| c.needs_help());
        let core = Core {
            shared: Shared::new(role, unlocked, network.no_response_yet(), needs_login_mailbox, log),
            driver: Mutex::new(None),
            thread: Mutex::new(None),
            is_started: AtomicBool::new(false),
            sleeps_until: AtomicU64::new(0),
            network,
            tls,
            telemetry,
            api_timeout,
            last_network: Mutex::default(),
        };
        Self { core: Arc::new(core) }
    }

    /// Reports an error to the application in the name of this client, and writes it as a log line.
    pub(super) fn report(&self, component: Component, error: &Error) {
        let _entered = self.core.shared.enter();
        error.report(component);
    }

    /// Returns the timeout of calls without a timeout of their own.
    pub fn api_timeout(&self) -> Duration {
        self.core.api_timeout
    }

    /// Returns the type of the nodes to which the client connects.
    pub fn endpoints(&self) -> Endpoints {
        self.core.network.endpoints
    }

    pub(super) fn now(&self) -> Time {
        self.core.shared.now()
    }

    pub(super) fn unlocked(&self) -> &R::Unlocked {
        &self.core.shared.unlocked
    }

    pub(super) fn shared(&self) -> &Shared<R> {
        &self.core.shared
    }

    /// Locks the state, even if the client is closed.
    pub(super) fn state(&self) -> MutexGuard<'_, State<R>> {
        self.core.shared.state()
    }

    /// Locks the state. Fails if the client is closed.
    pub(super) fn open(&self) -> Result<MutexGuard<'_, State<R>>, Error> {
        self.core.shared.open()
    }

    /// Changes the state machine, and wakes the I/O thread to handle the consequences.
    pub(super) fn change<T>(&self, f: impl FnOnce(Time, &mut State<R>) -> Result<T, Error>) -> Result<T, Error> {
        let state = self.open()?;
        let result = self.core.shared.guarded(move || {
            let _entered = self.core.shared.enter();
            let mut state = state;
            let result = f(self.now(), &mut state);
            if R::reads_nothing(&state) {
                state.wakers.drain(..).for_each(Waker::wake);
            }
            result
        });
        let result = result.unwrap_or_else(|| Err(self.core.shared.why_closed()))?;
        R::on_call(self.unlocked());
        self.wake()?;
        Ok(result)
    }

    /// Changes the state machine like [`Client::change`], for changes that cannot fail.
    pub(super) fn update<T>(&self, f: impl FnOnce(Time, &mut State<R>) -> T) -> Result<T, Error> {
        self.change(|now, state| Ok(f(now, state)))
    }

    /// Starts an operation.
    pub(super) fn op<T: Send + 'static>(
        &self,
        op: impl Op + 'static,
        timeout: Option<Duration>,
        convert: fn(Output) -> Option<T>,
    ) -> Result<Pending<T>, Error>
    where
        R: RunsOps,
    {
        let (completion, pending) = completion(convert);
        let timeout = timeout.unwrap_or(self.core.api_timeout);
        self.update(|now, state| state.role.start_op(now, Box::new(op), timeout, completion))?;
        Ok(pending)
    }

    /// Makes the I/O thread look for work. The first call starts the I/O thread.
    pub(super) fn wake(&self) -> Result<(), Error> {
        self.core.wake()
    }

    /// Makes the I/O thread look for work, if it has started.
    pub(super) fn nudge(&self) {
        self.core.shared.nudge();
    }

    /// Notes that the current thread sends a record.
    #[inline]
    pub(super) fn note_send(&self) {
        self.core.shared.log.note_send();
    }

    /// Does the I/O thread's work once if the I/O thread sleeps. Otherwise wakes the I/O thread.
    pub(super) fn push(&self) -> Result<(), Error> {
        self.core.push()
    }

    /// Waits until `ready` returns true, at most for the timeout. Returns the last result of `ready`.
    pub(super) fn wait_until(&self, timeout: Duration, ready: impl Fn(&State<R>) -> bool) -> bool {
        self.core.shared.wait_until(deadline(timeout), ready)
    }

    /// Waits like [`Client::wait_until`], but polls inline if possible. Call this function if callers wait often and
    /// briefly.
    pub(super) fn wait_inline_until(&self, timeout: Duration, ready: impl Fn(&State<R>) -> bool) -> bool {
        let shared = &self.core.shared;
        let end = deadline(timeout);
        if Poller::TAKES_TWO_THREADS {
            shared.begin_inline_polling();
            self.core.poll_inline(end, || ready(&shared.state()));
            shared.end_inline_polling();
        }
        shared.wait_until(end, ready)
    }

    /// Waits for a result like [`Pending::wait`], but polls inline if possible, which saves a thread switch.
    pub fn wait<T>(&self, pending: &Pending<T>, timeout: Duration) -> bool {
        let end = deadline(timeout);
        if !timeout.is_zero() {
            self.core.poll_inline(end, || pending.is_done());
        }
        pending.wait(end.saturating_duration_since(Instant::now()))
    }

    /// Calls the waker as soon as the client is ready or closed. A producer is ready when it has room again, and a
    /// consumer when it has records. A waker without a timeout is also called if there is nothing to read.
    pub fn on_ready(&self, waker: Waker, has_timeout: bool) {
        let mut state = self.state();
        if R::ends_wait(&state) || (!has_timeout && R::reads_nothing(&state)) || self.check().is_err() {
            drop(state);
            waker.wake();
        } else {
            state.wakers.push(waker);
        }
    }

    /// Forgets a waker of [`Client::on_ready`].
    pub fn forget(&self, waker: &Waker) {
        // In the child of a fork the state may stay locked for ever, and a closed client has no wakers.
        if self.check().is_ok() {
            self.state().wakers.retain(|w| !w.will_wake(waker));
        }
    }

    /// Fails if the client is closed or was created before a fork.
    pub fn check(&self) -> Result<(), Error> {
        self.core.shared.check()
    }

    /// Fails in the child process of a fork, where the state may stay locked forever.
    pub(super) fn check_birth(&self) -> Result<(), Error> {
        self.core.shared.check_birth()
    }

    /// Returns the error of the last attempt to connect, if no broker could be reached.
    pub fn last_network_error(&self) -> Option<Error> {
        self.core.shared.last_network_error()
    }

    /// Returns the mailbox for tokens and library calls, if logins need help from the application.
    pub fn login_mailbox(&self) -> Option<&LoginMailbox> {
        self.core.shared.login_mailbox.as_ref()
    }

    /// Allows the caller to wait for this client. Fails in a callback if the wait would never end.
    pub fn may_wait(&self) -> Result<Waiting, Error> {
        dispatch::may_wait(self.core.shared.address())
    }
}

impl<R: ClientRole> AnyClient for Client<R> {
    fn check(&self) -> Result<(), Error> {
        Client::check(self)
    }

    fn may_wait(&self) -> Result<Waiting, Error> {
        Client::may_wait(self)
    }

    fn last_error(&self) -> Option<Error> {
        self.last_network_error().or_else(|| R::refusal(&self.state()))
    }

    fn is_light(&self) -> bool {
        R::is_light(&self.state())
    }

    fn sockets(&self) -> io::Result<Sockets> {
        self.core.sockets()
    }

    fn work(&self) -> bool {
        self.core.work_for_event_loop()
    }

    fn families(&self, detail: bool) -> Result<Vec<Family>, Error> {
        self.check_birth()?;
        let now = self.now();
        let live = self.core.driver().as_ref().map(|driver| driver.snapshot(now));
        let network = live.unwrap_or_else(|| self.core.last_network().clone());
        let now = network.closed_at.unwrap_or(now);
        let mut all = families(&self.core.shared, &network, now);
        if detail {
            all.extend(details(&self.core.shared, &network, now));
        }
        Ok(all)
    }

    fn id(&self) -> &str {
        &self.core.network.client_id
    }

    fn instance_id(&self) -> Result<Pending<Uuid>, Error> {
        self.check()?;
        if !self.core.telemetry.is_enabled {
            let error =
                Error::new(ErrorKind::Config, "the client has no instance ID, because it does not push metrics");
            return Err(error.with_hint("set enable.metrics.push to true"));
        }
        let pending = self.core.shared.identity.wait();
        self.wake()?;
        Ok(pending)
    }

    fn set_application_metrics(&self, metrics: Vec<(String, bool, Vec<(String, String)>, f64)>) {
        let families = metrics.into_iter().map(|(name, is_total, tags, value)| {
            let mut family = Family::new(APPLICATION[usize::from(is_total)]);
            family.tags = tags.into_iter().map(|(key, value)| (key.into(), value)).collect();
            family.put(name, value);
            family
        });
        self.core.shared.identity.set_application(families.collect());
    }

    fn end(&self) {
        self.core.close();
    }
}

impl<R: ClientRole> Drop for Client<R> {
    fn drop(&mut self) {
        self.core.close();
    }
}

/// Removes an event loop from the external pollers when it is dropped.
struct Membership<R: ClientRole>(Weak<Core<R>>);

impl<R: ClientRole> Drop for Membership<R> {
    fn drop(&mut self) {
        if let Some(core) = self.0.upgrade() {
            core.shared.external.leave(core.shared.check().is_ok());
        }
    }
}

impl<R: ClientRole> Core<R> {
    fn driver(&self) -> MutexGuard<'_, Option<Driver<R>>> {
        self.driver.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn last_network(&self) -> MutexGuard<'_, NetworkSnapshot> {
        self.last_network.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the driver, and stores a snapshot of its network metrics.
    fn take_driver(&self) -> Option<Driver<R>> {
        let mut guard = self.driver();
        if let Some(driver) = guard.as_ref() {
            let now = self.shared.now();
            *self.last_network() = NetworkSnapshot { closed_at: Some(now), ..driver.snapshot(now) };
        }
        guard.take()
    }

    fn wake(self: &Arc<Self>) -> Result<(), Error> {
        if !self.is_started.load(SeqCst) {
            self.shared.log.start();
            self.start().map_err(|e| Error::new(ErrorKind::Network, format!("cannot start the I/O thread: {e}")))?;
        }
        self.shared.nudge();
        Ok(())
    }

    fn start(self: &Arc<Self>) -> io::Result<()> {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if self.is_started.load(SeqCst) {
            return Ok(());
        }
        let poller = self.shared.make_poller()?;
        if let Some(mailbox) = &self.shared.login_mailbox {
            mailbox.attach(poller.wake());
        }
        *self.driver() =
            Some(Driver::new(self.network.clone(), self.tls.clone(), self.telemetry.clone(), poller.clone()));
        let core = self.clone();
        let run = move || {
            core.shared.guarded(|| run(&core, &poller));
            core.shared.set_closed();
            core.shared.guarded(|| {
                drop(core.take_driver());
                core.shared.fail_all();
            });
        };
        *thread = Some(Builder::new().name("klamm-io".to_owned()).spawn(run)?);
        self.is_started.store(true, SeqCst);
        Ok(())
    }

    fn push(self: &Arc<Self>) -> Result<(), Error> {
        let Ok(guard) = self.driver.try_lock() else {
            return self.wake();
        };
        if guard.is_none() {
            drop(guard);
            return self.wake();
        }
        if self.work(guard, &mut Vec::new()) {
            self.shared.wake_inline_poller();
        }
        Ok(())
    }

    /// Does the I/O thread's work in the thread of a caller, and handles the socket events. Returns whether it
    /// dispatched results. Wakes the I/O thread only if that thread would sleep too long.
    fn work(&self, guard: MutexGuard<'_, Option<Driver<R>>>, events: &mut Vec<Event>) -> bool {
        self.shared.guarded(|| self.work_once(guard, events)).unwrap_or(true)
    }

    fn work_once(&self, mut guard: MutexGuard<'_, Option<Driver<R>>>, events: &mut Vec<Event>) -> bool {
        let Some(driver) = guard.as_mut() else { return false };
        let _entered = self.shared.enter();
        let mut done = Vec::new();
        driver.handle(&self.shared, events);
        while driver.turn(&self.shared, &mut done) {}
        let until = driver.sleeps_until(&self.shared);
        drop(guard);
        let has_results = !done.is_empty();
        self.shared.dispatch(done);
        if until.0 < self.sleeps_until.load(SeqCst) {
            self.shared.nudge();
        }
        has_results
    }

    /// Polls inline until `is_done` returns true, or until `end`. Returns early if there is no I/O thread yet, or if
    /// another caller polls inline.
    fn poll_inline(&self, end: Instant, is_done: impl Fn() -> bool) {
        let Some(poller) = self.shared.poller() else { return };
        let mut events = Vec::new();
        loop {
            let Some(polling) = self.shared.inline.try_begin() else { return };
            // A thread that makes `is_done` true from here on wakes this thread. An earlier change is seen here.
            if is_done() || self.shared.is_closed() {
                return;
            }
            let remaining = end.saturating_duration_since(Instant::now());
            let result = poller.wait_first(remaining, &mut events);
            // The work below may call back into Python. No thread may have to wait for that.
            drop(polling);
            match result {
                Ok(false) if events.is_empty() && remaining.is_zero() => return,
                Ok(false) => {}
                // The wake-up may have been for the I/O thread, whose work is done below.
                Ok(true) => poller.arm(),
                Err(_) => return,
            }
            self.work(self.driver(), &mut events);
            if self.shared.is_closed() {
                // The I/O thread has to see it, too.
                poller.wake().insist();
                return;
            }
        }
    }

    /// Adds an event loop to the external pollers. Fails before the client is first used, and on systems where an event
    /// loop cannot watch a poller.
    fn sockets(self: &Arc<Self>) -> io::Result<Sockets> {
        let poller = self.shared.poller().ok_or(io::ErrorKind::NotConnected)?;
        let descriptor = poller.descriptor()?;
        self.shared.external.join();
        let membership = Box::new(Membership(Arc::downgrade(self)));
        let sockets = Sockets::new(descriptor, membership);
        poller.wake().insist();
        Ok(sockets)
    }

    fn work_for_event_loop(&self) -> bool {
        let external = &self.shared.external;
        external.note_visit();
        let Some(poller) = self.shared.poller().filter(|_| external.is_io_paused()) else {
            return false;
        };
        // The thread that takes events from the poller has to handle them, so the driver is locked first.
        let Ok(guard) = self.driver.try_lock() else { return false };
        let mut events = Vec::new();
        match poller.wait_first(Duration::ZERO, &mut events) {
            Ok(false) => {}
            // The wake-up may have been for the I/O thread, whose work is done below.
            Ok(true) => poller.arm(),
            Err(_) => return false,
        }
        if self.work(guard, &mut events) {
            self.shared.wake_inline_poller();
        }
        let is_too_much = |driver: &Driver<R>| driver.max_io_pause(&self.shared, true).is_none();
        if self.driver.try_lock().is_ok_and(|driver| driver.as_ref().is_some_and(is_too_much)) {
            external.recall_io_thread();
        }
        true
    }

    fn close(&self) {
        if self.shared.check_birth().is_err() {
            // The I/O thread did not survive the fork, and its locks may be held for ever.
            return;
        }
        self.shared.set_closed();
        if let Some(mailbox) = &self.shared.login_mailbox {
            mailbox.close();
        }
        let handle = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.shared.nudge();
        match handle {
            // A callback closes its own client: the thread ends after the callback returns.
            Some(handle) if handle.thread().id() == std::thread::current().id() => {}
            // The result of an I/O thread that panicked holds nothing of use.
            Some(handle) => drop(handle.join()),
            None => self.shared.fail_all(),
        }
        self.shared.log.end();
    }
}

/// Runs the I/O thread.
fn run<R: ClientRole>(core: &Arc<Core<R>>, poller: &Poller) {
    let shared = &core.shared;
    let _entered = shared.enter();
    let (mut events, mut done) = (Vec::new(), Vec::new());
    loop {
        poller.arm();
        shared.external.arm();
        if shared.is_closed() {
            if let Some(driver) = core.driver().as_mut() {
                driver.push_last(shared);
            }
            return core.take_driver().into_iter().for_each(Driver::linger);
        }
        let mut guard = core.driver();
        let Some(driver) = guard.as_mut() else { return };
        driver.handle(shared, &mut events);
        while driver.turn(shared, &mut done) {}
        let until = driver.sleeps_until(shared);
        core.sleeps_until.store(until.0, SeqCst);
        let max_pause = shared.external.take_visit().and_then(|visited| driver.max_io_pause(shared, visited));
        drop(guard);
        let has_results = !done.is_empty();
        shared.dispatch(done.drain(..));
        if has_results {
            shared.wake_inline_poller();
        }
        let mut timeout = (until < Time::NEVER).then(|| until.since(shared.now()));
        match max_pause {
            Some(longest) => {
                shared.external.pause_io_thread(timeout.map_or(longest, |t| t.min(longest)));
                // What happened meanwhile comes before any deadline.
                timeout = Some(Duration::ZERO);
            }
            None if shared.inline.is_active() => {
                shared.inline.pause_io_thread(timeout);
                continue;
            }
            None => {}
        }
        if let Err(e) = poller.wait(timeout, &mut events) {
            let error = Error::new(ErrorKind::Network, format!("waiting for sockets failed: {e}"));
            return shared.set_network_error(Some(error));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Admin, ClientType, Config, Value};
    use super::*;
    use crate::engine::Reply;
    use crate::engine::ops::OpContext;

    /// An operation that panics after this number of steps.
    struct Broken(u32);

    impl Op for Broken {
        fn name(&self) -> &'static str {
            "break"
        }

        fn step(&mut self, _cx: &mut OpContext<'_>) -> Result<(), Error> {
            assert!(self.0 > 0, "a defect of {}", self.name());
            self.0 -= 1;
            Ok(())
        }

        fn take(&mut self, _cx: &mut OpContext<'_>, _part: u32, _node: i32, _reply: Reply) -> Result<(), Error> {
            Ok(())
        }

        fn output(&mut self) -> Option<Output> {
            None
        }
    }

    /// An operation that drops its promise and panics when the caller requests its result.
    struct Dropping(Option<super::super::Promise<()>>);

    impl Op for Dropping {
        fn name(&self) -> &'static str {
            "drop"
        }

        fn step(&mut self, _cx: &mut OpContext<'_>) -> Result<(), Error> {
            let _promise = self.0.take();
            panic!("a defect of {}", "drop")
        }

        fn take(&mut self, _cx: &mut OpContext<'_>, _part: u32, _node: i32, _reply: Reply) -> Result<(), Error> {
            Ok(())
        }

        fn output(&mut self) -> Option<Output> {
            None
        }
    }

    fn admin() -> Admin {
        let servers = ("bootstrap.servers".to_owned(), Value::String("127.0.0.1:1".to_owned()));
        Admin::new(&Config::parse(ClientType::Admin, [servers]).unwrap()).unwrap()
    }

    fn check(error: &Error) {
        assert_eq!(error.kind(), ErrorKind::Internal, "{error}");
        assert!(error.message().contains("a defect of"), "{error}");
    }

    #[test]
    fn a_panic_of_the_io_thread_is_the_error_of_every_call() {
        let admin = admin();
        let pending = admin.op(Broken(2), None, |_| Some(())).unwrap();
        assert!(pending.wait(Duration::from_secs(20)));
        check(&pending.get().unwrap().unwrap_err());
        check(&admin.describe(None, None).unwrap_err());
        check(&admin.check().unwrap_err());
    }

    #[test]
    fn a_panic_in_a_call_is_the_error_of_that_call_and_of_those_that_wait() {
        let admin = admin();
        let waiting = admin.op(Broken(u32::MAX), None, |_| Some(())).unwrap();
        let (promise, dropped) = Pending::new();
        check(&admin.op(Dropping(Some(promise)), None, |_| Some(())).unwrap_err());
        for pending in [waiting, dropped] {
            assert!(pending.wait(Duration::from_secs(20)));
            check(&pending.get().unwrap().unwrap_err());
        }
    }
}
