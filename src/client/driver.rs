//! The sockets of a client. The driver moves bytes between a [`Network`] and its streams. It also moves requests and
//! responses between the network and the client's state machine.
//!
//! The driver does not depend on threads. The [core](super::core) locks the driver for the I/O thread, or for a caller
//! that runs one turn of the I/O loop.

use super::metrics::{NetworkSnapshot, families};
use super::shared::{ClientRole, Shared};
use super::{Error, ErrorKind};
use crate::engine::telemetry::{Step, Telemetry, TelemetryConfig};
use crate::engine::{
    Action, ClientResponse, ConnectionId, Network, NetworkConfig, RequestsInFlight, Target, Time, earliest,
};
use crate::net::{Event, Poller, Received, Stream, resolve, tls};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long a closing client waits until brokers have read the requests to which they do not respond.
const LINGER: Duration = Duration::from_secs(1);
/// The longest sleep of the I/O thread while the client is active. Callers that do the I/O thread's work create
/// deadlines that this thread does not know. These callers need not wake the thread for deadlines after the end of its
/// sleep.
pub(super) const MAX_ACTIVE_SLEEP: Duration = Duration::from_secs(1);
/// How long a client counts as active after it last sent something.
const ACTIVE_FOR: Duration = Duration::from_secs(5);

/// The resolved addresses of a host, for a connection.
type Resolved = (ConnectionId, io::Result<Vec<SocketAddr>>);

/// The sender of a request.
enum Origin<T> {
    /// The state machine, which identifies the request by a token.
    Role(T),
    Telemetry(Step),
}

struct Socket {
    stream: Stream,
    connected: bool,
    /// Whether the peer has proved to be a Kafka broker.
    proved: bool,
    host: String,
    address: SocketAddr,
    /// The addresses to try if the current address fails.
    others: Vec<SocketAddr>,
}

/// The sockets and the network state of a client.
pub(super) struct Driver<R: ClientRole> {
    poller: Arc<Poller>,
    tls: Option<Arc<tls::Client>>,
    network: Network,
    in_flight: RequestsInFlight<Origin<R::Token>>,
    telemetry: Telemetry,
    sockets: BTreeMap<ConnectionId, Socket>,
    resolved: Arc<Mutex<Vec<Resolved>>>,
    resolving: Vec<(ConnectionId, String)>,
    /// Addresses whose last connection failed before the peer proved to be a Kafka broker.
    failed: BTreeSet<SocketAddr>,
    keep_alive: bool,
    unread: Vec<ConnectionId>,
    scratch: Box<[u8]>,
    /// When the client last sent something.
    active: Time,
}

impl<R: ClientRole> Driver<R> {
    /// Creates a driver without connections.
    pub fn new(
        config: NetworkConfig,
        tls: Option<Arc<tls::Client>>,
        telemetry: TelemetryConfig,
        poller: Arc<Poller>,
    ) -> Self {
        Self {
            telemetry: Telemetry::new(telemetry),
            poller,
            tls,
            keep_alive: config.keep_alive,
            network: Network::new(config),
            in_flight: RequestsInFlight::default(),
            sockets: BTreeMap::new(),
            resolved: Arc::default(),
            resolving: Vec::new(),
            failed: BTreeSet::new(),
            unread: Vec::new(),
            scratch: Stream::scratch(),
            active: Time(0),
        }
    }

    /// Returns a snapshot of the network's metrics.
    pub fn snapshot(&self, now: Time) -> NetworkSnapshot {
        NetworkSnapshot {
            metrics: self.network.metrics().clone(),
            metadata_age: self.network.metadata_age(now),
            closed_at: None,
            links: self.network.links(),
            cluster: self.network.cluster().clone(),
        }
    }

    /// Returns the time at which the driver has to work again.
    pub fn sleeps_until(&self, shared: &Shared<R>) -> Time {
        let now = shared.now();
        if !self.unread.is_empty() {
            return now;
        }
        let next = earliest(self.network.next_timeout(now), shared.state().role.next_timeout(now));
        let next = earliest(next, self.telemetry.next_timeout()).unwrap_or(Time::NEVER);
        if self.is_active(now) { next.min(now + MAX_ACTIVE_SLEEP) } else { next }
    }

    /// Returns how long the I/O thread may pause and leave its work to callers. Returns `None` if there is too much
    /// work, if a step such as a login may take long, or if the client is not active.
    pub fn max_io_pause(&self, shared: &Shared<R>, has_visited: bool) -> Option<Duration> {
        let is_settled = self.is_active(shared.now()) && self.network.is_settled();
        is_settled.then(|| R::max_io_pause(&shared.state(), &shared.unlocked, has_visited)).flatten()
    }

    /// Returns whether the client has sent something within the last five seconds (`ACTIVE_FOR`).
    fn is_active(&self, now: Time) -> bool {
        now.since(self.active) < ACTIVE_FOR
    }

    /// Handles socket events.
    pub fn handle(&mut self, shared: &Shared<R>, events: &mut Vec<Event>) {
        self.take_resolved(shared);
        for connection in std::mem::take(&mut self.unread) {
            self.receive(shared, connection, true);
        }
        for event in events.drain(..) {
            self.handle_event(shared, event);
        }
    }

    /// Closes the sockets after brokers have read the requests to which they do not respond.
    ///
    /// If a client closes a socket with unread bytes, the kernel resets the connection. The broker then drops the
    /// requests that it has not read yet. Closing only the sending side of the socket once lost a record on Kafka 0.9.
    /// The driver therefore sends one more request, which the broker answers after it has read all earlier requests.
    pub fn linger(mut self) {
        let network = &mut self.network;
        self.sockets.retain(|connection, _| network.is_unconfirmed(*connection));
        for (connection, socket) in &mut self.sockets {
            network.ask_confirmation(*connection).into_iter().for_each(|bytes| socket.stream.queue(bytes));
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
                if !matches!(result, Ok(Received::Drained)) || !self.network.is_unconfirmed(connection) {
                    self.close(connection);
                }
            }
            let remaining = end.saturating_duration_since(Instant::now());
            if self.sockets.is_empty() || remaining.is_zero() || self.poller.wait(Some(remaining), &mut events).is_err()
            {
                break;
            }
            events.clear();
        }
    }

    /// Exchanges requests and responses between the network and the state machine once, and appends the results to
    /// `done`. Returns whether there is more work.
    pub fn turn(&mut self, shared: &Shared<R>, done: &mut Vec<R::Done>) -> bool {
        let now = shared.now();
        if let Some(mailbox) = &shared.login_mailbox {
            if let Some(token) = mailbox.take_token() {
                self.network.handle_token(now, token.map(|(token, lasts)| token.expiring(now + lasts)));
            }
            for (connection, answer) in mailbox.take_answers() {
                self.network.handle_library_result(now, connection, answer);
            }
            while let Some(question) = self.network.poll_library_call() {
                mailbox.ask(question);
            }
        }
        self.network.handle_timeout(now);
        if let Some(mailbox) = shared.login_mailbox.as_ref().filter(|_| self.network.poll_token_demand()) {
            mailbox.refuse_token();
        }
        let prepared = self.responses(shared, now);
        let (cluster, unreachable) = (self.network.poll_cluster(), self.network.poll_unreachable());
        let disconnects: Vec<Target> = std::iter::from_fn(|| self.network.poll_disconnect()).collect();
        self.network.log_reachability(now, unreachable.as_ref());

        let known = done.len();
        let mut changed = !prepared.is_empty() || cluster.is_some() || unreachable.is_some();
        let mut guard = shared.state();
        let state = &mut *guard;
        // A request that has timed out stays so, even if its response came at the same moment.
        state.handle_timeout(&shared.unlocked, now);
        if let Some(cluster) = &cluster {
            state.role.handle_cluster(now, cluster);
            shared.set_network_error(None);
        }
        if let Some(error) = unreachable {
            state.role.handle_unreachable(now, &error);
            shared.set_network_error(Some(error));
        }
        for target in disconnects {
            state.role.handle_disconnect(now, target);
        }
        for answer in prepared {
            R::before_response(state, &answer);
            state.role.handle_response(now, answer);
        }
        if changed {
            // A request that a response started may be due at once.
            state.handle_timeout(&shared.unlocked, now);
        }
        let demand = state.role.next_demand();
        let requests: Vec<R::Request> = std::iter::from_fn(|| state.poll_send(now)).collect();
        done.extend(std::iter::from_fn(|| R::poll_done(state, &shared.unlocked)));
        shared.after_change(state);
        drop(guard);
        if let Some(flight) = shared.log.flight() {
            flight.dump_if_failed();
        }
        changed |= done.len() > known;
        if changed {
            shared.notify();
        }

        if let Some(demand) = demand {
            self.network.demand(now, demand);
        }
        if !requests.is_empty() {
            self.active = now;
        }
        for request in requests {
            self.network.submit(now, self.in_flight.begin(R::build_request(request).map(Origin::Role)));
        }
        self.push_telemetry(shared, now);
        self.act(shared);
        self.network.has_output()
    }

    /// Returns the responses for the state machine, and passes the remaining responses to the telemetry.
    fn responses(&mut self, shared: &Shared<R>, now: Time) -> Vec<R::Prepared> {
        let mut prepared = Vec::new();
        while let Some(response) = self.network.poll_response() {
            let Some(ClientResponse { token, node, result }) = self.in_flight.end(response) else { continue };
            match token {
                Origin::Role(token) => prepared.push(R::prepare(ClientResponse { token, node, result })),
                Origin::Telemetry(token) => {
                    self.telemetry.handle_response(now, ClientResponse { token, node, result });
                    if let Some(id) = self.telemetry.instance() {
                        shared.identity.set(id);
                    }
                    if let Some(error) = self.telemetry.take_failure() {
                        shared.identity.fail(&error);
                    }
                }
            }
        }
        prepared
    }

    /// Sends the telemetry's next request, if one is due.
    fn push_telemetry(&mut self, shared: &Shared<R>, now: Time) {
        if !self.network.cluster().brokers.is_empty() {
            self.telemetry.start();
        }
        if shared.identity.is_wanted() {
            self.telemetry.ask_now(now);
        }
        if !self.telemetry.is_due(now) {
            return;
        }
        let network = self.snapshot(now);
        if let Some(outgoing) = self.telemetry.poll_send(now, || families(shared, &network, now)) {
            self.network.submit(now, self.in_flight.begin(outgoing.map(Origin::Telemetry)));
        }
    }

    /// Pushes the metrics for the last time, if brokers have subscribed to them, and waits a moment for the response.
    pub fn push_last(&mut self, shared: &Shared<R>) {
        let now = shared.now();
        let network = self.snapshot(now);
        let Some(outgoing) = self.telemetry.last_push(now, || families(shared, &network, now)) else { return };
        self.network.submit(now, self.in_flight.begin(outgoing.map(Origin::Telemetry)));
        self.act(shared);
        let end = Instant::now() + LINGER;
        let mut events = Vec::new();
        while Instant::now() < end {
            self.handle(shared, &mut events);
            while let Some(response) = self.network.poll_response() {
                let response = self.in_flight.end(response);
                if response.is_some_and(|r| matches!(r.token, Origin::Telemetry(Step::Push { is_last: true }))) {
                    return;
                }
            }
            self.act(shared);
            let remaining = end.saturating_duration_since(Instant::now());
            if self.poller.wait(Some(remaining), &mut events).is_err() {
                return;
            }
        }
    }

    /// Performs the actions of the network: connects, sends and closes.
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
                Ok(mut addresses) => {
                    if addresses.iter().all(|address| self.failed.contains(address)) {
                        self.failed.retain(|address| !addresses.contains(address));
                    }
                    addresses.retain(|address| !self.failed.contains(address));
                    self.connect(shared, connection, host, addresses, "host name has no address".to_owned())
                }
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
            let shown = (host.parse() != Ok(address.ip())).then(|| address.to_string());
            self.network.note_address(connection, shown, !addresses.is_empty());
            match Stream::connect(&self.poller, connection.0, address) {
                Ok(mut stream) => {
                    if self.keep_alive {
                        stream.keep_alive();
                    }
                    if let Some(tls) = &self.tls {
                        match tls.session(&host) {
                            Ok(session) => stream.secure(session),
                            Err(failure) => return self.fail(shared, connection, &failure),
                        }
                    }
                    let (connected, proved, others) = (false, false, addresses);
                    self.sockets.insert(connection, Socket { stream, connected, proved, host, address, others });
                    return;
                }
                Err(e) => {
                    self.failed.insert(address);
                    why = e.to_string();
                }
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
                    if self.tls.is_some() {
                        self.network.note_handshake(shared.now());
                    }
                    self.network.handle_connected(shared.now(), connection);
                    self.act(shared);
                }
                Err(e) if tls::Failure::of(&e).is_some() && socket.others.is_empty() => {
                    return self.lost_to(shared, connection, &e);
                }
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
                // What the broker sent before it closed the connection explains more than the failed write.
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
            if let Some(socket) = self.sockets.get_mut(&connection).filter(|s| !s.proved)
                && self.network.was_ready(connection)
            {
                socket.proved = true;
                self.failed.remove(&socket.address);
            }
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
            if !socket.proved {
                self.failed.insert(socket.address);
            }
            socket.stream.close(&self.poller);
        }
    }
}
