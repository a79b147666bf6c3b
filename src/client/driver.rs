//! The I/O thread: moves bytes between a [`Network`] and its sockets, and requests and answers between the network and
//! the client's [`Role`]. While it sleeps, a caller may do a turn of its work: a lone request then leaves a thread switch
//! earlier, and its answer comes a thread switch earlier to a caller that [waits in its place](super::lead), or to an
//! event loop that [watches the sockets](super::watch).
//!
//! Locks are taken in the order driver, role; outcomes are handed out under neither. Only a caller that has the I/O thread's
//! place ever waits for the driver.

use super::config::Connecting;
use super::fork::Birth;
use super::lead::Lead;
use super::pending::closed;
use super::watch::Watchers;
use super::{Error, ErrorKind, Tokens};
use crate::engine::{Action, ConnectionId, Network, NetworkConfig, RequestsInFlight, Role, Time};
use crate::net::{Event, Poller, Received, Stream, Wake, resolve, tls};
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// A role as a client uses it: with outcomes that are handed out outside of the lock.
pub trait Serve: Role + Sized + 'static {
    /// An outcome.
    type Done: Send;
    /// The next outcome.
    fn poll_done(&mut self) -> Option<Self::Done>;
    /// Hands it to whoever waits.
    fn deliver(done: Self::Done, shared: &Shared<Self>);
    /// Called with the lock held after anything may have changed.
    fn settle(&mut self, _shared: &Shared<Self>) {}
    /// For how long the I/O thread may leave its work to callers, so little is under way; `came`: one was there since that
    /// thread looked last.
    fn may_stand_by(&self, _came: bool) -> Option<Duration> {
        None
    }
    /// Ends everything with an error.
    fn fail_all(&mut self, error: &Error);
}

/// What callers and the I/O thread share.
pub struct Shared<R: Serve> {
    role: Mutex<R>,
    changed: Condvar,
    waiting: AtomicUsize,
    /// Others do so in the I/O thread's place.
    reading: AtomicUsize,
    start: Instant,
    birth: Birth,
    closed: AtomicBool,
    unreachable: Mutex<Option<Error>>,
    thread: Mutex<Option<(Wake, Option<JoinHandle<()>>)>>,
    pub(super) driver: Mutex<Option<Driver<R>>>,
    poller: OnceLock<Arc<Poller>>,
    pub(super) lead: Lead,
    pub(super) watchers: Watchers,
    /// Until when the I/O thread sleeps, microseconds of the client's clock.
    sleeps_until: AtomicU64,
    config: NetworkConfig,
    tls: Option<Arc<tls::Client>>,
    tokens: Option<Tokens>,
}

impl<R: Serve> Shared<R> {
    pub fn new(mut role: R, Connecting { network: config, tls }: Connecting) -> Arc<Self> {
        let nobody = config.no_response_yet();
        role.handle_unreachable(Time(0), &nobody);
        Arc::new(Self {
            role: Mutex::new(role),
            changed: Condvar::new(),
            waiting: AtomicUsize::new(0),
            reading: AtomicUsize::new(0),
            start: Instant::now(),
            birth: Birth::now(),
            closed: AtomicBool::new(false),
            unreachable: Mutex::new(Some(nobody)),
            thread: Mutex::new(None),
            driver: Mutex::new(None),
            poller: OnceLock::new(),
            lead: Lead::default(),
            watchers: Watchers::default(),
            sleeps_until: AtomicU64::new(0),
            tokens: config.credentials.as_ref().is_some_and(|c| c.needs_help()).then(Tokens::default),
            config,
            tls,
        })
    }

    pub fn now(&self) -> Time {
        Time(u64::try_from(self.start.elapsed().as_micros()).unwrap_or(u64::MAX))
    }

    pub fn role(&self) -> MutexGuard<'_, R> {
        self.role.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An error if the client cannot be used any more.
    pub fn check(&self) -> Result<(), Error> {
        self.birth.check()?;
        if self.closed.load(SeqCst) { Err(closed()) } else { Ok(()) }
    }

    /// The role of a client that can be used. Whoever closes it waits for the lock and ends all that was begun under it.
    pub fn open(&self) -> Result<MutexGuard<'_, R>, Error> {
        self.check()?;
        let role = self.role();
        self.check()?;
        Ok(role)
    }

    /// An error in the child of a fork, where the lock of the role may be held for ever.
    pub fn check_birth(&self) -> Result<(), Error> {
        self.birth.check()
    }

    /// Why no broker was reachable when one was last tried, if that was so; from the start until one was.
    pub fn unreachable(&self) -> Option<Error> {
        self.unreachable.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Where tokens to log in with are left, if the client needs some.
    pub fn tokens(&self) -> Option<&Tokens> {
        self.tokens.as_ref()
    }

    /// Waits until `ready` holds for the role, or the timeout; says whether it does.
    pub fn wait_until(&self, timeout: Duration, ready: impl Fn(&R) -> bool) -> bool {
        self.wait_with_deadline(Instant::now() + timeout.min(Duration::from_secs(1 << 30)), ready)
    }

    fn wait_with_deadline(&self, deadline: Instant, ready: impl Fn(&R) -> bool) -> bool {
        self.waiting.fetch_add(1, SeqCst);
        let mut role = self.role();
        let mut is_ready = ready(&role);
        while !is_ready && !self.closed.load(SeqCst) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            role = self.changed.wait_timeout(role, left).unwrap_or_else(PoisonError::into_inner).0;
            is_ready = ready(&role);
        }
        drop(role);
        self.waiting.fetch_sub(1, SeqCst);
        is_ready
    }

    /// The same, [in the I/O thread's place](super::lead) if there is one: for who waits often and for little.
    pub fn wait_in_place_until(self: &Arc<Self>, timeout: Duration, ready: impl Fn(&R) -> bool) -> bool {
        let deadline = Instant::now() + timeout.min(Duration::from_secs(1 << 30));
        if Poller::HAS_ROOM {
            self.reading.fetch_add(1, SeqCst);
            self.watchers.come_to_read();
            self.wait_in_place(deadline, || ready(&self.role()));
            self.watchers.come_to_read();
            self.reading.fetch_sub(1, SeqCst);
        }
        self.wait_with_deadline(deadline, ready)
    }

    fn notify(&self) {
        if self.waiting.load(SeqCst) > 0 {
            // A waiter between its check and its wait holds the lock; taking it once orders the two.
            drop(self.role());
            self.changed.notify_all();
        }
        if self.reading.load(SeqCst) > 0 {
            self.call_leader();
        }
    }

    /// Makes the I/O thread look for work; starts it at the first use.
    pub fn wake(self: &Arc<Self>) -> Result<(), Error> {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((wake, _)) = &*thread {
            wake.wake();
            self.watchers.call_back();
            return Ok(());
        }
        let start = || -> io::Result<(Wake, JoinHandle<()>)> {
            let poller = Arc::new(Poller::new()?);
            let (wake, _) = (poller.wake(), self.poller.set(poller.clone()));
            if let Some(tokens) = &self.tokens {
                tokens.attach(wake.clone());
            }
            *self.driver() = Some(Driver::new(self.config.clone(), poller.clone()));
            let shared = self.clone();
            Ok((wake, Builder::new().name("klamm-io".to_owned()).spawn(move || run(&shared, &poller))?))
        };
        let (wake, handle) =
            start().map_err(|e| Error::new(ErrorKind::Network, format!("cannot start the I/O thread: {e}")))?;
        *thread = Some((wake, Some(handle)));
        Ok(())
    }

    /// Makes the I/O thread look again, if there is one.
    pub fn nudge(&self) {
        if let Some((wake, _)) = &*self.thread.lock().unwrap_or_else(PoisonError::into_inner) {
            wake.wake();
            self.watchers.call_back();
        }
    }

    pub(super) fn driver(&self) -> MutexGuard<'_, Option<Driver<R>>> {
        self.driver.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn poller(&self) -> Option<&Arc<Poller>> {
        self.poller.get()
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(SeqCst)
    }

    /// Does the I/O thread's work once, if that thread sleeps; wakes it otherwise.
    pub fn push(self: &Arc<Self>) -> Result<(), Error> {
        let Ok(guard) = self.driver.try_lock() else {
            return self.wake();
        };
        if guard.is_none() {
            drop(guard);
            return self.wake();
        }
        if self.work(guard, &mut Vec::new()) {
            self.call_leader();
        }
        Ok(())
    }

    /// Does the I/O thread's work, with what happened to the sockets, for a caller; says whether outcomes were handed
    /// out. The I/O thread is woken only if it would sleep longer than it now may.
    pub(super) fn work(
        self: &Arc<Self>,
        mut guard: MutexGuard<'_, Option<Driver<R>>>,
        events: &mut Vec<Event>,
    ) -> bool {
        let Some(driver) = guard.as_mut() else { return false };
        let mut done = Vec::new();
        driver.handle(self, events);
        while driver.turn(self, &mut done) {}
        let until = driver.sleeps_until(self);
        drop(guard);
        let has_outcomes = !done.is_empty();
        self.hand_out(done);
        if until.0 < self.sleeps_until.load(SeqCst) {
            self.nudge();
        }
        has_outcomes
    }

    /// Has a caller that waits in the I/O thread's place look whether what it waits for is there.
    pub(super) fn call_leader(&self) {
        if let (true, Some(poller)) = (self.lead.is_taken(), self.poller.get()) {
            poller.wake().insist();
        }
    }

    /// Ends the I/O thread. What has no outcome by now gets an error.
    pub fn close(&self) {
        if self.birth.check().is_err() {
            // The thread did not survive the fork, and its locks may be held for ever.
            return;
        }
        self.closed.store(true, SeqCst);
        if let Some(tokens) = &self.tokens {
            tokens.close();
        }
        let handle = match &mut *self.thread.lock().unwrap_or_else(PoisonError::into_inner) {
            Some((wake, handle)) => {
                wake.wake();
                self.watchers.call_back();
                handle.take()
            }
            None => None,
        };
        match handle {
            // A callback that closes its own client: the thread ends when it has returned.
            Some(handle) if handle.thread().id() == std::thread::current().id() => {}
            // An I/O thread that panicked has nothing left to say.
            Some(handle) => drop(handle.join()),
            None => self.end(),
        }
    }

    fn end(&self) {
        let mut role = self.role();
        role.fail_all(&closed());
        role.settle(self);
        drop(role);
        loop {
            // Some outcomes are there only when others were handed out.
            let mut role = self.role();
            let done: Vec<R::Done> = std::iter::from_fn(|| role.poll_done()).collect();
            drop(role);
            if done.is_empty() {
                break;
            }
            self.hand_out(done);
        }
        self.notify();
    }
}

/// How long the end of a client waits at most for brokers to have read what they do not answer.
const LINGER: Duration = Duration::from_secs(1);
/// How long the I/O thread sleeps at most after something happened, and for how long after: callers that do its work make
/// deadlines it does not know of, and need not wake it for those that are later.
pub(super) const NAP: Duration = Duration::from_secs(1);
const NAPS_AFTER: Duration = Duration::from_secs(5);

/// A connection attempt whose host was looked up.
type Resolved = (ConnectionId, io::Result<Vec<SocketAddr>>);

struct Socket {
    stream: Stream,
    connected: bool,
    host: String,
    /// Addresses to try if this one fails.
    others: Vec<SocketAddr>,
}

/// Ends the client with its I/O thread, however that ends: nobody waits for a thread that is gone.
struct End<R: Serve>(Arc<Shared<R>>);

impl<R: Serve> Drop for End<R> {
    fn drop(&mut self) {
        self.0.closed.store(true, SeqCst);
        self.0.end();
    }
}

pub(super) struct Driver<R: Serve> {
    poller: Arc<Poller>,
    network: Network,
    in_flight: RequestsInFlight<R::Token>,
    sockets: BTreeMap<ConnectionId, Socket>,
    resolved: Arc<Mutex<Vec<Resolved>>>,
    resolving: Vec<(ConnectionId, String)>,
    unread: Vec<ConnectionId>,
    scratch: Box<[u8]>,
    /// When something happened last.
    active: Time,
}

/// The I/O thread.
fn run<R: Serve>(shared: &Arc<Shared<R>>, poller: &Poller) {
    let _end = End(shared.clone());
    let (mut events, mut done) = (Vec::new(), Vec::new());
    loop {
        poller.arm();
        shared.watchers.arm();
        if shared.closed.load(SeqCst) {
            let driver = shared.driver().take();
            return driver.into_iter().for_each(Driver::linger);
        }
        let mut guard = shared.driver();
        let Some(driver) = guard.as_mut() else { return };
        driver.handle(shared, &mut events);
        while driver.turn(shared, &mut done) {}
        let until = driver.sleeps_until(shared);
        shared.sleeps_until.store(until.0, SeqCst);
        let stand_by = shared.watchers.look().and_then(|came| driver.may_stand_by(shared, came));
        drop(guard);
        let has_outcomes = !done.is_empty();
        shared.hand_out(done.drain(..));
        if has_outcomes {
            shared.call_leader();
        }
        let mut timeout = (until < Time::NEVER).then(|| until.since(shared.now()));
        match stand_by {
            Some(most) => {
                shared.watchers.stand_by(timeout.map_or(most, |t| t.min(most)));
                // What happened meanwhile comes before any deadline.
                timeout = Some(Duration::ZERO);
            }
            None if shared.lead.is_taken() => {
                shared.lead.stand_aside(timeout);
                continue;
            }
            None => {}
        }
        if let Err(e) = poller.wait(timeout, &mut events) {
            let error = Error::new(ErrorKind::Network, format!("waiting for sockets failed: {e}"));
            *shared.unreachable.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            return;
        }
    }
}

impl<R: Serve> Driver<R> {
    fn new(config: NetworkConfig, poller: Arc<Poller>) -> Self {
        Self {
            poller,
            network: Network::new(config),
            in_flight: RequestsInFlight::default(),
            sockets: BTreeMap::new(),
            resolved: Arc::default(),
            resolving: Vec::new(),
            unread: Vec::new(),
            scratch: Stream::scratch(),
            active: Time(0),
        }
    }

    /// When there is something to do again.
    fn sleeps_until(&self, shared: &Shared<R>) -> Time {
        let now = shared.now();
        if !self.unread.is_empty() {
            return now;
        }
        let next = crate::engine::earliest(self.network.next_timeout(now), shared.role().next_timeout(now));
        let next = next.unwrap_or(Time::NEVER);
        if self.is_active(now) { next.min(now + NAP) } else { next }
    }

    /// For how long the work may be left to callers: it is little, and nothing in it takes long, as a login may.
    pub(super) fn may_stand_by(&self, shared: &Shared<R>, came: bool) -> Option<Duration> {
        let is_settled = self.is_active(shared.now()) && self.network.is_settled();
        is_settled.then(|| shared.role().may_stand_by(came)).flatten()
    }

    /// Whether something happened a short while ago.
    fn is_active(&self, now: Time) -> bool {
        now.since(self.active) < NAPS_AFTER
    }

    /// What happened to the sockets.
    fn handle(&mut self, shared: &Shared<R>, events: &mut Vec<Event>) {
        self.take_resolved(shared);
        for connection in std::mem::take(&mut self.unread) {
            self.receive(shared, connection, true);
        }
        for event in events.drain(..) {
            self.handle_event(shared, event);
        }
    }

    /// Closing a socket with something unread in it makes the kernel reset the connection, and the broker forget what it
    /// had not read yet; saying only that nothing more will come lost a record once on 0.9. So where nothing else would
    /// tell a loss, the broker is asked for an answer to what comes behind it.
    fn linger(mut self) {
        let network = &mut self.network;
        self.sockets.retain(|connection, _| network.is_unheard(*connection));
        for (connection, socket) in &mut self.sockets {
            network.say_farewell(*connection).into_iter().for_each(|bytes| socket.stream.queue(bytes));
        }
        let end = Instant::now() + LINGER;
        let mut events = Vec::new();
        loop {
            let connections: Vec<ConnectionId> = self.sockets.keys().copied().collect();
            for connection in connections {
                let Some(socket) = self.sockets.get_mut(&connection) else { continue };
                let mut result = socket.stream.flush(&self.poller).map(|()| Received::More);
                while matches!(result, Ok(Received::More))
                    && Instant::now() < end
                    && let Some(frames) = self.network.frames(connection)
                {
                    let (buffer, missing) = frames.inbox();
                    result = socket.stream.receive(&mut self.scratch, buffer, true, missing);
                    self.network.handle_received(Time(0), connection);
                }
                if !matches!(result, Ok(Received::Drained)) || !self.network.is_unheard(connection) {
                    self.close(connection);
                }
            }
            let left = end.saturating_duration_since(Instant::now());
            if self.sockets.is_empty() || left.is_zero() || self.poller.wait(Some(left), &mut events).is_err() {
                break;
            }
            events.clear();
        }
    }

    /// One exchange between network and role, with the outcomes to hand out; says whether there is more to do.
    fn turn(&mut self, shared: &Shared<R>, done: &mut Vec<R::Done>) -> bool {
        let now = shared.now();
        if let Some(tokens) = &shared.tokens {
            if let Some(token) = tokens.take() {
                self.network.handle_token(now, token);
            }
            for (connection, answer) in tokens.take_answers() {
                self.network.handle_gssapi_answer(now, connection, answer);
            }
            while let Some(question) = self.network.poll_question() {
                tokens.ask(question);
            }
        }
        self.network.handle_timeout(now);
        let answers = std::iter::from_fn(|| self.network.poll_response()).filter_map(|a| self.in_flight.end(a));
        let prepared: Vec<R::Prepared> = answers.map(R::prepare).collect();
        let (cluster, unreachable) = (self.network.poll_cluster(), self.network.poll_unreachable());

        let known = done.len();
        let mut changed = !prepared.is_empty() || cluster.is_some() || unreachable.is_some();
        let mut role = shared.role();
        // What is over is over, whatever came at the same moment; and what came may be due at once.
        role.handle_timeout(now);
        if let Some(cluster) = &cluster {
            role.handle_cluster(now, cluster);
            *shared.unreachable.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
        if let Some(error) = unreachable {
            role.handle_unreachable(now, &error);
            *shared.unreachable.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        }
        prepared.into_iter().for_each(|p| role.handle_response(now, p));
        if changed {
            role.handle_timeout(now);
        }
        let demand = role.next_demand();
        let packets: Vec<R::Packet> = std::iter::from_fn(|| role.poll_send(now)).collect();
        done.extend(std::iter::from_fn(|| role.poll_done()));
        role.settle(shared);
        drop(role);
        changed |= done.len() > known;
        if changed {
            shared.notify();
        }

        if let Some(demand) = demand {
            self.network.demand(now, demand);
        }
        if !packets.is_empty() {
            self.active = now;
        }
        for packet in packets {
            self.network.submit(now, self.in_flight.begin(R::pack(packet)));
        }
        self.act(shared);
        self.network.has_news()
    }

    /// Does what the network wants done to its sockets.
    fn act(&mut self, shared: &Shared<R>) {
        let mut written = Vec::new();
        while let Some(action) = self.network.poll_action() {
            match action {
                Action::Connect(connection, host, port) => {
                    let (resolved, wake) = (self.resolved.clone(), self.poller.wake());
                    self.resolving.push((connection, host.clone()));
                    resolve(&host, port, move |result| {
                        resolved.lock().unwrap_or_else(PoisonError::into_inner).push((connection, result));
                        wake.wake();
                    });
                    self.take_resolved(shared);
                }
                Action::Send(connection, bytes) => {
                    if let Some(socket) = self.sockets.get_mut(&connection) {
                        socket.stream.queue(bytes);
                        if written.last() != Some(&connection) {
                            written.push(connection);
                        }
                    }
                }
                Action::Close(connection) => {
                    self.resolving.retain(|(c, _)| *c != connection);
                    self.close(connection);
                }
            }
        }
        for connection in written {
            self.flush(shared, connection);
        }
    }

    fn take_resolved(&mut self, shared: &Shared<R>) {
        let resolved = std::mem::take(&mut *self.resolved.lock().unwrap_or_else(PoisonError::into_inner));
        for (connection, result) in resolved {
            let Some(at) = self.resolving.iter().position(|(c, _)| *c == connection) else {
                continue;
            };
            let (_, host) = self.resolving.swap_remove(at);
            match result {
                Ok(addresses) => self.connect(shared, connection, host, addresses, "host has no address".to_owned()),
                Err(e) => self.lost(shared, connection, Some(format!("host name cannot be resolved: {e}"))),
            }
        }
    }

    fn connect(
        &mut self,
        shared: &Shared<R>,
        connection: ConnectionId,
        host: String,
        mut addresses: Vec<SocketAddr>,
        mut why: String,
    ) {
        while !addresses.is_empty() {
            let address = addresses.remove(0);
            match Stream::connect(&self.poller, connection.0, address) {
                Ok(mut stream) => {
                    if let Some(tls) = &shared.tls {
                        match tls.session(&host) {
                            Ok(session) => stream.secure(session),
                            Err(failure) => return self.fail(shared, connection, &failure),
                        }
                    }
                    self.sockets.insert(connection, Socket { stream, connected: false, host, others: addresses });
                    return;
                }
                Err(e) => why = e.to_string(),
            }
        }
        self.lost(shared, connection, Some(why));
    }

    fn handle_event(&mut self, shared: &Shared<R>, event: Event) {
        let connection = ConnectionId(event.token);
        let Some(socket) = self.sockets.get_mut(&connection) else {
            return;
        };
        if !socket.connected {
            match socket.stream.connected(&mut self.scratch) {
                Ok(false) => return,
                Ok(true) => {
                    socket.connected = true;
                    self.network.handle_connected(shared.now(), connection);
                    self.act(shared);
                }
                Err(e) if tls::Failure::of(&e).is_some() => return self.lost_to(shared, connection, &e),
                Err(e) => {
                    let (host, others) = (std::mem::take(&mut socket.host), std::mem::take(&mut socket.others));
                    self.close(connection);
                    return self.connect(shared, connection, host, others, e.to_string());
                }
            }
        }
        if event.writable {
            self.flush(shared, connection);
        }
        if event.readable {
            self.receive(shared, connection, event.ended);
        }
    }

    fn flush(&mut self, shared: &Shared<R>, connection: ConnectionId) {
        let Some(socket) = self.sockets.get_mut(&connection).filter(|s| s.connected) else {
            return;
        };
        match socket.stream.flush(&self.poller) {
            Ok(()) if socket.stream.is_flushed() => self.network.handle_written(shared.now(), connection),
            Ok(()) => {}
            Err(e) => {
                // What the broker said before it hung up explains more than a failed write.
                self.receive(shared, connection, true);
                self.lost_to(shared, connection, &e);
            }
        }
    }

    fn receive(&mut self, shared: &Shared<R>, connection: ConnectionId, to_end: bool) {
        let Some(socket) = self.sockets.get_mut(&connection) else {
            return;
        };
        let Some(frames) = self.network.frames(connection) else {
            return;
        };
        let (buffer, missing) = frames.inbox();
        let before = buffer.len();
        let result = socket.stream.receive(&mut self.scratch, buffer, to_end, missing);
        if buffer.len() > before {
            self.network.handle_received(shared.now(), connection);
        }
        match result {
            Ok(Received::Drained) => {}
            Ok(Received::More) => self.unread.push(connection),
            Ok(Received::End) => self.lost(shared, connection, None),
            Err(e) => self.lost_to(shared, connection, &e),
        }
    }

    fn lost_to(&mut self, shared: &Shared<R>, connection: ConnectionId, error: &io::Error) {
        match tls::Failure::of(error) {
            Some(failure) => self.fail(shared, connection, failure),
            None => self.lost(shared, connection, Some(error.to_string())),
        }
    }

    fn fail(&mut self, shared: &Shared<R>, connection: ConnectionId, failure: &tls::Failure) {
        self.close(connection);
        let kind = if failure.is_final { ErrorKind::Authentication } else { ErrorKind::Network };
        let error = Error::new(kind, &*failure.message).with_hint(&*failure.hint);
        self.network.handle_failed(shared.now(), connection, &error);
    }

    fn lost(&mut self, shared: &Shared<R>, connection: ConnectionId, why: Option<String>) {
        self.close(connection);
        self.network.handle_closed(shared.now(), connection, why);
    }

    fn close(&mut self, connection: ConnectionId) {
        if let Some(socket) = self.sockets.remove(&connection) {
            socket.stream.close(&self.poller);
        }
    }
}
