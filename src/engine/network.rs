//! All connections of a client: bootstrap, metadata, and the choice of the connection for each request.
//!
//! A peer is a broker of the cluster or an address of the bootstrap list. A broker has at most one connection for each
//! purpose: general requests, fetches, and group requests. A client has one connection for telemetry. The states of a
//! connection are `Idle`, `Connecting` and `Up`, and after a failure `Waiting` until the next attempt. A request for one
//! broker waits for that broker's connection and fails if the connection fails. A request that any broker can handle
//! waits until the client reaches a broker, or until the deadline of the request. If no broker of the cluster responds,
//! or a broker returns REBOOTSTRAP_REQUIRED (KIP-1102), the network tries the bootstrap list again (KIP-899).
//!
//! A broker that rejects the client's TLS or SASL authentication will probably also reject the next attempt. If the
//! client has no other broker to try, all waiting requests therefore fail at once. For at least
//! [`REFUSED_WAIT`] after the rejection, new requests fail at once, too. The first request after that starts a new
//! attempt to connect.

mod attempts;
mod brokers;
mod counting;
mod dedicated;
mod endpoints;
mod events;
mod expiry;
mod metadata_requests;
mod metrics;
mod peer;
mod refusal;
mod silence;
mod version_probes;

pub use self::endpoints::Endpoints;
pub use self::metrics::{LinkState, NetworkMetrics};
use self::peer::{Attempt, Creation, Link, Peer, PeerId, PeerToken};
use super::reminder::Reminder;
use super::sasl::{Credentials, Nonces};
use super::version_probe::VersionProbe;
use super::{
    Backoff, Call, ClientResponse, Cluster, Connection, ConnectionId, Deadline, Error, ErrorKind, LoginConfig,
    MetadataDemand, Outgoing, Reply, Target, Time,
};
use crate::api::Release;
use crate::frame::Frames;
use crate::wire::Uuid;
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// How long the client does not connect again to a peer after an error for which [`Error::is_refusal`] holds. Without
/// this wait, a loop of calls with a rejected authentication could lock the account. The client also waits so long
/// before it requests the metadata of a denied topic again.
const REFUSED_WAIT: Duration = Duration::from_secs(5);

/// Settings of a network.
#[derive(Clone, Debug)]
pub struct NetworkConfig {
    /// The addresses of the bootstrap list.
    pub bootstrap: Vec<(String, u16)>,
    /// The type of the nodes at the bootstrap addresses.
    pub endpoints: Endpoints,
    /// The client ID, for the brokers' logs and quotas.
    pub client_id: String,
    /// How long a broker may take to respond.
    pub request_timeout: Duration,
    /// Whether the operating system probes idle connections.
    pub keep_alive: bool,
    /// How long a connection may be idle before the client closes it.
    pub max_idle: Option<Duration>,
    /// How long the client tries to establish a connection.
    pub setup_timeout: Duration,
    /// The shortest and the longest wait before connecting again.
    pub reconnect_backoff: (Duration, Duration),
    /// The shortest and the longest wait before requesting metadata again.
    pub retry_backoff: (Duration, Duration),
    /// The age at which the client requests metadata again.
    pub metadata_max_age: Duration,
    /// Whether a metadata request may create a topic.
    pub allow_auto_topic_creation: bool,
    /// The size of the largest response, in bytes.
    pub max_frame: usize,
    /// The seed of the jitter.
    pub seed: u64,
    /// How long a broker may take to begin its response to ApiVersions. After that time, the client probes the broker
    /// as a release before 0.10.
    pub versions_timeout: Duration,
    /// The release of brokers that do not report their versions. With `None`, the client probes such brokers.
    pub version_fallback: Option<Release>,
    /// The client's credentials, if brokers require authentication.
    pub credentials: Option<Arc<Credentials>>,
    /// The source of the nonces of logins.
    pub nonces: Nonces,
}

/// An action that the driver has to perform on a socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Connect to the host and port, then call [`Network::handle_connected`] or [`Network::handle_closed`].
    Connect(ConnectionId, String, u16),
    /// Send bytes.
    Send(ConnectionId, Bytes),
    /// Close the connection, and do not report the end to the network.
    Close(ConnectionId),
}

/// The connections of a client. The tokens of requests are numbers here, see [`super::RequestsInFlight`].
pub struct Network {
    config: NetworkConfig,
    peers: BTreeMap<PeerId, Peer>,
    connections: BTreeMap<ConnectionId, PeerId>,
    /// How the next connection starts, for addresses where the broker did not report its versions at first.
    version_probes: HashMap<(String, u16), VersionProbe>,
    /// The addresses of brokers that have reported their versions, which shows that these brokers are Kafka 0.10 or
    /// newer.
    reported_versions: HashSet<(String, u16)>,
    next_connection: usize,
    cluster: Arc<Cluster>,
    /// The newest epoch of the cluster's finalized features, or -1 if unknown.
    finalized_features_epoch: i64,
    /// The topics whose metadata the role needs.
    topics: BTreeSet<Arc<str>>,
    /// The topics that the role no longer needs, and when it stopped needing each topic.
    unneeded_topics: BTreeMap<Arc<str>, Time>,
    /// The topic IDs to request once, at `topic_ids_due_at`.
    topic_ids: BTreeSet<Uuid>,
    topic_ids_due_at: Time,
    creation: Creation,
    all_topics: bool,
    /// Whether each metadata refresh requests all topics.
    watches_all: bool,
    refresh_at: Option<Time>,
    metadata_in_flight: bool,
    metadata_backoff: Backoff,
    waiting: VecDeque<Outgoing<usize>>,
    actions: VecDeque<Action>,
    responses: VecDeque<ClientResponse<usize>>,
    cluster_changed: bool,
    /// The brokers whose connections ended.
    disconnects: VecDeque<Target>,
    unreachable: Option<Error>,
    /// The reason why the client has no newer bearer token.
    no_token: Option<Error>,
    /// How many tokens in a row brokers rejected.
    refused_tokens: u32,
    /// Whether the client needs another token from the token provider.
    demands_token: bool,
    metrics: NetworkMetrics,
    /// The log reminders of topics whose metadata has an error.
    missing: BTreeMap<Arc<str>, Reminder>,
    unreachable_log: Reminder,
}

impl Network {
    /// Creates a network that knows only its bootstrap list.
    pub fn new(config: NetworkConfig) -> Self {
        let (first, max) = config.retry_backoff;
        let mut this = Self {
            metadata_backoff: Backoff::new(first, max, config.seed),
            peers: BTreeMap::new(),
            connections: BTreeMap::new(),
            version_probes: HashMap::new(),
            reported_versions: HashSet::new(),
            next_connection: 0,
            cluster: Arc::new(Cluster { controller: -1, ..Cluster::default() }),
            finalized_features_epoch: -1,
            topics: BTreeSet::new(),
            unneeded_topics: BTreeMap::new(),
            topic_ids: BTreeSet::new(),
            topic_ids_due_at: Time(0),
            creation: Creation::default(),
            all_topics: false,
            watches_all: false,
            refresh_at: None,
            metadata_in_flight: false,
            waiting: VecDeque::new(),
            actions: VecDeque::new(),
            responses: VecDeque::new(),
            cluster_changed: false,
            disconnects: VecDeque::new(),
            unreachable: None,
            no_token: None,
            refused_tokens: 0,
            demands_token: false,
            metrics: NetworkMetrics::default(),
            missing: BTreeMap::new(),
            unreachable_log: Reminder::default(),
            config,
        };
        for (i, (host, port)) in this.config.bootstrap.clone().into_iter().enumerate() {
            this.add_peer(PeerId::Bootstrap(i), host, port);
        }
        this
    }

    fn add_peer(&mut self, id: PeerId, host: String, port: u16) {
        let (first, max) = self.config.reconnect_backoff;
        let backoff = Backoff::new(first, max, self.config.seed ^ self.peers.len() as u64);
        let peer = Peer {
            host,
            port,
            link: Link::Idle,
            backoff,
            queue: VecDeque::new(),
            error: None,
            attempt: Attempt::default(),
            connects: 0,
        };
        self.peers.insert(id, peer);
    }

    /// Returns the state of the cluster.
    pub fn cluster(&self) -> &Arc<Cluster> {
        &self.cluster
    }

    /// Returns the ready peer with the fewest requests in flight. Brokers come before bootstrap addresses.
    fn least_loaded(&self) -> Option<PeerId> {
        let load = |(id, peer): (&PeerId, &Peer)| match &peer.link {
            Link::Up(_, c) if c.is_ready() && !id.is_dedicated() => Some((id.node() < 0, c.in_flight(), *id)),
            _ => None,
        };
        self.peers.iter().filter_map(load).min().map(|(_, _, id)| id)
    }

    /// Connects to any broker, unless the client has a connection or is already connecting.
    fn connect_any(&mut self, now: Time) {
        let of_use = |id: &PeerId| !id.is_dedicated();
        let in_flight = |p: &Peer| matches!(p.link, Link::Connecting(..) | Link::Up(..));
        if self.peers.iter().any(|(id, p)| of_use(id) && in_flight(p)) {
            return;
        }
        // Brokers of the cluster first, then the bootstrap list; the one that failed least before.
        let next = self
            .peers
            .iter()
            .filter(|(id, p)| of_use(id) && matches!(p.link, Link::Idle))
            .min_by_key(|(id, p)| (p.backoff.failures(), **id));
        if let Some(id) = next.map(|(id, _)| *id) {
            self.connect(now, id);
        } else {
            self.fail_if_refused();
        }
    }

    fn connect(&mut self, now: Time, id: PeerId) {
        if let Some(error) = self.missing_token(now) {
            // Requests wait for the token until their deadline.
            self.unreachable = Some(error);
            return;
        }
        let Some(peer) = self.peers.get_mut(&id) else {
            return;
        };
        let connection = ConnectionId(self.next_connection);
        self.next_connection += 1;
        peer.link = Link::Connecting(connection, now + self.config.setup_timeout);
        Self::watch(peer, now);
        self.connections.insert(connection, id);
        self.actions.push_back(Action::Connect(connection, peer.host.clone(), peer.port));
    }

    /// Accepts a request. [`Network::poll_response`] later returns the response.
    pub fn submit(&mut self, now: Time, outgoing: Outgoing<usize>) {
        let peer = match self.resolve(outgoing.target) {
            Target::Node(id) => Some(PeerId::Broker(id)),
            Target::Fetch(id) => Some(self.dedicated_peer(PeerId::Fetch(id))),
            Target::Group(id) => Some(self.dedicated_peer(PeerId::Group(id))),
            Target::Telemetry => self.telemetry_peer(outgoing.call.api()),
            Target::Controller | Target::Any => self.least_loaded(),
        };
        if let Some(id) = peer {
            self.submit_to(now, id, outgoing);
        } else {
            self.waiting.push_back(outgoing);
            self.connect_any(now);
        }
    }

    fn submit_waiting(&mut self, now: Time) {
        for outgoing in std::mem::take(&mut self.waiting) {
            self.submit(now, outgoing);
        }
    }

    fn submit_to(&mut self, now: Time, id: PeerId, outgoing: Outgoing<usize>) {
        let Some(peer) = self.peers.get_mut(&id) else {
            if self.cluster.brokers.is_empty() {
                // The broker's ID came from another source than metadata, which has not arrived.
                self.waiting.push_back(outgoing);
                let demand = MetadataDemand { refresh: !self.metadata_in_flight, ..MetadataDemand::default() };
                return self.demand(now, demand);
            }
            let error =
                Error::new(ErrorKind::Network, format!("broker {} is not in the cluster's metadata", id.node()));
            self.responses.push_back(ClientResponse { token: outgoing.token, node: id.node(), result: Err(error) });
            return;
        };
        if peer.is_ready() && !self.checks_first(now, id) {
            let Outgoing { call, token, deadline, max_version, .. } = outgoing;
            return self.send(now, id, call, max_version, deadline, PeerToken::Role(token));
        }
        let Some(peer) = self.peers.get_mut(&id) else { return };
        let fails_at_once = |e: &&Error| e.is_refusal() || id == PeerId::Telemetry;
        if let (Link::Waiting(_), Some(error)) = (&peer.link, peer.error.as_ref().filter(fails_at_once)) {
            let result = Err(error.clone());
            return self.responses.push_back(ClientResponse { token: outgoing.token, node: id.node(), result });
        }
        peer.queue.push_back(outgoing);
        if matches!(peer.link, Link::Idle) {
            self.connect(now, id);
        }
    }

    fn send(
        &mut self,
        now: Time,
        id: PeerId,
        call: Box<dyn Call>,
        max_version: i16,
        deadline: Deadline,
        token: PeerToken,
    ) {
        let Some(Peer { link: Link::Up(connection, c), .. }) = self.peers.get_mut(&id) else {
            return;
        };
        let connection = *connection;
        let latest = now + self.config.request_timeout + call.max_broker_wait();
        let deadline = match deadline {
            Deadline::ToSend(_) => latest,
            Deadline::ToAnswer(time) => time.min(latest),
        };
        c.note_use(now);
        let rejected = c.send(&*call, max_version, deadline, token).err();
        while let Some(bytes) = c.poll_send() {
            self.actions.push_back(Action::Send(connection, bytes));
        }
        self.collect(now, connection);
        if let Some((token, error)) = rejected {
            self.complete(now, id, token, Err(error));
        }
    }

    /// Notes that a connection was established.
    pub fn handle_connected(&mut self, now: Time, connection: ConnectionId) {
        let Some(id) = self.connections.get(&connection).copied() else {
            return;
        };
        let Some(peer) = self.peers.get_mut(&id) else {
            return;
        };
        let Link::Connecting(_, deadline) = peer.link else {
            return;
        };
        let timeout = deadline.since(now).max(Duration::from_millis(1));
        let (client_id, nonces) = (self.config.client_id.clone(), self.config.nonces.of(connection.0));
        let login_config = self.config.credentials.clone().map(|credentials| LoginConfig {
            credentials,
            nonces,
            renewal_timeout: self.config.request_timeout,
        });
        let (address, max_frame) = (peer.address(), self.config.max_frame);
        let key = (peer.host.clone(), peer.port);
        let mut c = if login_config.is_some() {
            Connection::new(now, address, client_id, max_frame, timeout, login_config)
        } else {
            let probe = self.version_probes.get(&key).copied().unwrap_or_default();
            let probe = if self.reported_versions.contains(&key) { VersionProbe::Wait } else { probe };
            let versions_timeout = self.config.versions_timeout;
            Connection::with_version_probe(now, address, client_id, max_frame, timeout, probe, versions_timeout)
        };
        // Another cluster may have taken over the address since the last connection.
        if let Some(id) = self.cluster.id.as_ref().filter(|_| self.reported_versions.contains(&key)) {
            c.expect_cluster(id);
        }
        let is_ready = c.is_ready();
        while let Some(bytes) = c.poll_send() {
            self.actions.push_back(Action::Send(connection, bytes));
        }
        peer.link = Link::Up(connection, Box::new(c));
        peer.connects += 1;
        self.metrics.note_opened(now, peer.connects > 1);
        if is_ready {
            self.handle_ready(now, id);
        }
    }

    /// Notes that the driver has written all bytes of a connection.
    pub fn handle_written(&mut self, now: Time, connection: ConnectionId) {
        if let Some(c) = self.up(connection) {
            c.handle_written();
            self.collect(now, connection);
        }
    }

    /// Returns whether there are requests to which the broker does not respond, and which it has possibly not read yet.
    /// See [`Connection::is_unconfirmed`].
    pub fn is_unconfirmed(&mut self, connection: ConnectionId) -> bool {
        self.up(connection).is_some_and(|c| c.is_unconfirmed())
    }

    /// Returns whether the client is neither establishing nor authenticating a connection.
    pub fn is_settled(&self) -> bool {
        self.peers.values().all(|peer| match &peer.link {
            Link::Up(_, c) => c.is_ready(),
            Link::Connecting(..) => false,
            Link::Idle | Link::Waiting(_) => true,
        })
    }

    /// Returns a request whose response shows that the broker has read all earlier requests.
    pub fn ask_confirmation(&mut self, connection: ConnectionId) -> Vec<Bytes> {
        let Some(c) = self.up(connection) else { return Vec::new() };
        c.ask_confirmation();
        std::iter::from_fn(|| c.poll_send()).collect()
    }

    fn up(&mut self, connection: ConnectionId) -> Option<&mut Connection<PeerToken>> {
        match &mut self.peers.get_mut(self.connections.get(&connection)?)?.link {
            Link::Up(_, c) => Some(c),
            _ => None,
        }
    }

    /// Returns the buffer for the bytes received on a connection.
    pub fn frames(&mut self, connection: ConnectionId) -> Option<&mut Frames> {
        self.up(connection).map(Connection::frames)
    }

    /// Handles the bytes received on a connection.
    pub fn handle_received(&mut self, now: Time, connection: ConnectionId) {
        let Some(id) = self.connections.get(&connection).copied() else {
            return;
        };
        let Some(peer) = self.peers.get_mut(&id) else { return };
        let Link::Up(_, c) = &mut peer.link else { return };
        let was_ready = c.is_ready();
        let result = c.handle_received(now);
        let has_answered = c.has_answered();
        while let Some(bytes) = c.poll_send() {
            self.actions.push_back(Action::Send(connection, bytes));
        }
        let became_ready = !was_ready && c.is_ready();
        if has_answered {
            // A broker that demands a login lets a client without one get ready, and closes at the first request.
            peer.backoff.reset();
        }
        self.collect(now, connection);
        if let Err(error) = result {
            self.actions.push_back(Action::Close(connection));
            let error = self.retriable_if_known(id, error);
            if !self.handle_refused_token(now, id, &error) {
                self.fail_peer(now, id, &error);
            }
        } else if became_ready {
            self.handle_ready(now, id);
        }
    }

    fn handle_ready(&mut self, now: Time, id: PeerId) {
        if let Some(error) = self.wrong_endpoint(id) {
            return self.disconnect(now, id, &error);
        }
        let Some(peer) = self.peers.get_mut(&id) else {
            return;
        };
        (peer.error, peer.attempt.silence) = (None, None);
        self.refused_tokens = 0;
        let address = (peer.host.clone(), peer.port);
        self.config.endpoints.log_ready(peer, id, self.config.credentials.as_deref());
        if !matches!(self.version_probes.get(&address), Some(VersionProbe::Known(_))) {
            self.version_probes.remove(&address);
            self.reported_versions.insert(address);
        }
        if let Link::Up(_, c) = &peer.link
            && let Some((epoch, version)) =
                c.transaction_version().filter(|(epoch, _)| *epoch > self.finalized_features_epoch)
        {
            self.finalized_features_epoch = epoch;
            if self.cluster.transaction_version != version {
                self.cluster = Arc::new(Cluster { transaction_version: version, ..(*self.cluster).clone() });
                self.cluster_changed = true;
            }
        }
        let queued = std::mem::take(&mut peer.queue);
        for outgoing in queued {
            self.submit_to(now, id, outgoing);
        }
        self.submit_waiting(now);
        self.refresh_if_due(now);
    }

    /// Notes that a connection failed with an error that needs no further explanation.
    pub fn handle_failed(&mut self, now: Time, connection: ConnectionId, error: &Error) {
        if let Some(id) = self.connections.get(&connection).copied() {
            self.fail_peer(now, id, error);
        }
    }

    /// Notes that an attempt to connect failed or that a connection ended. `error` is `None` if the peer closed the
    /// connection.
    pub fn handle_closed(&mut self, now: Time, connection: ConnectionId, error: Option<String>) {
        let Some(id) = self.connections.get(&connection).copied() else {
            return;
        };
        if self.tries_again(now, id) || self.reconnects(now, id, true) {
            return;
        }
        let Some(peer) = self.peers.get(&id) else {
            return;
        };
        let error = match (&peer.link, error) {
            (Link::Up(_, c), why) => c.lost_with_large_request().unwrap_or_else(|| match why {
                None => c.closed_by_peer(),
                Some(why) => Error::new(ErrorKind::Network, format!("connection lost: {why}")),
            }),
            (_, why) => {
                let why = why.unwrap_or_else(|| "closed".to_owned());
                let error = Error::new(ErrorKind::Network, format!("cannot connect: {why}"));
                let (node, key) = (self.config.endpoints.node(), self.config.endpoints.key());
                error.with_hint(if self.was_reached(peer) {
                    format!("the {node} responded at this address before; check that it still runs")
                } else if id.node() < 0 {
                    format!("check that the {node} runs and that {key} names its address")
                } else {
                    format!("the cluster advertises this address; check advertised.listeners of the {node}")
                })
            }
        };
        self.fail_peer(now, id, &error);
    }

    /// Ends a peer's connection. Fails the requests in flight and the requests that wait for the connection.
    fn fail_peer(&mut self, now: Time, id: PeerId, error: &Error) {
        self.note_end(id);
        self.count(now, id);
        if matches!(error.kind(), ErrorKind::Authentication | ErrorKind::NoToken) {
            self.metrics.note_refused_login(now);
        }
        let Some(peer) = self.peers.get_mut(&id) else {
            return;
        };
        let error = peer.attempt.name_address(error.clone()).from_broker(peer.address()).of_node(id.node());
        self.config.endpoints.log_end(peer, id, &error);
        let wait = if error.is_refusal() { REFUSED_WAIT } else { Duration::ZERO }.max(peer.backoff.next_wait());
        match std::mem::replace(&mut peer.link, Link::Waiting(now + wait)) {
            Link::Connecting(connection, _) => {
                self.connections.remove(&connection);
                self.metrics.unconnected.note(now);
            }
            Link::Up(connection, mut c) => {
                self.connections.remove(&connection);
                self.note_disconnect(now, id);
                c.fail(&error);
                while let Some((token, result)) = c.poll_response() {
                    self.complete(now, id, token, result);
                }
            }
            Link::Idle | Link::Waiting(_) => {}
        }
        let Some(peer) = self.peers.get_mut(&id) else {
            return;
        };
        (peer.error, peer.attempt.silence) = (Some(error.clone()), None);
        for outgoing in std::mem::take(&mut peer.queue) {
            self.responses.push_back(ClientResponse {
                token: outgoing.token,
                node: id.node(),
                result: Err(error.clone()),
            });
        }
        // Its partitions may have other leaders now.
        self.demand(now, MetadataDemand { refresh: id.node() >= 0, ..MetadataDemand::default() });
        if !self.waiting.is_empty() || self.metadata_due_at().is_some() {
            self.connect_any(now);
        }
        self.note_unreachable();
    }

    /// Handles a connection's responses. A metadata response may give the connection to another peer.
    fn collect(&mut self, now: Time, connection: ConnectionId) {
        if let Some(id) = self.connections.get(&connection).copied() {
            self.count(now, id);
        }
        while let Some(id) = self.connections.get(&connection).copied()
            && let Some(Peer { link: Link::Up(_, c), .. }) = self.peers.get_mut(&id)
            && let Some((token, result)) = c.poll_response()
        {
            self.complete(now, id, token, result);
        }
    }

    fn complete(&mut self, now: Time, id: PeerId, token: PeerToken, result: Result<Reply, Error>) {
        match token {
            PeerToken::Role(token) => {
                let address = || self.peers.get(&id).map_or_else(String::new, Peer::address);
                let result = result
                    .map_err(|e| if e.broker().is_none() { e.from_broker(address()).of_node(id.node()) } else { e });
                self.responses.push_back(ClientResponse { token, node: id.node(), result });
            }
            PeerToken::Metadata(purpose) => self.handle_metadata_response(now, id, purpose, result),
        }
    }

    /// Returns the next action of the driver.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// Returns the next response to a role's request.
    pub fn poll_response(&mut self) -> Option<ClientResponse<usize>> {
        self.responses.pop_front()
    }

    /// Returns the state of the cluster, if it changed since the last call.
    pub fn poll_cluster(&mut self) -> Option<Arc<Cluster>> {
        std::mem::take(&mut self.cluster_changed).then(|| self.cluster.clone())
    }

    /// Returns why no broker can be reached. Each round of attempts returns this error once.
    pub fn poll_unreachable(&mut self) -> Option<Error> {
        self.unreachable.take()
    }

    /// Returns whether there is a response, a new state of the cluster, or an error to poll.
    pub fn has_output(&self) -> bool {
        !self.responses.is_empty() || self.cluster_changed || !self.disconnects.is_empty() || self.unreachable.is_some()
    }

    /// Returns when [`Network::handle_timeout`] has to be called.
    pub fn next_timeout(&self, now: Time) -> Option<Time> {
        // A metadata request that is due waits for a broker that can be reached.
        let metadata = self.metadata_due_at().filter(|at| *at > now && !self.metadata_in_flight);
        let waiting = self.waiting.iter().map(|o| o.deadline.time());
        let max_idle = self.config.max_idle;
        self.peers.values().filter_map(|peer| peer.next_timeout(max_idle)).chain(waiting).chain(metadata).min()
    }

    /// Handles the deadlines that have passed.
    pub fn handle_timeout(&mut self, now: Time) {
        let max_idle = self.config.max_idle;
        let is_due = |peer: &Peer| peer.next_timeout(max_idle).is_some_and(|at| at <= now);
        // Mostly empty, so nothing is allocated.
        let due: Vec<PeerId> = self.peers.iter().filter(|(_, peer)| is_due(peer)).map(|(id, _)| *id).collect();
        for id in due {
            self.note_silence(now, id);
            let Some(peer) = self.peers.get_mut(&id) else {
                continue;
            };
            match &mut peer.link {
                Link::Waiting(until) if *until <= now => {
                    peer.link = Link::Idle;
                    if !peer.queue.is_empty() {
                        self.connect(now, id);
                    }
                }
                Link::Connecting(connection, deadline) if *deadline <= now => {
                    self.actions.push_back(Action::Close(*connection));
                    let error = Error::new(ErrorKind::Network, "connection was not made in time")
                        .with_hint("check the address, firewalls, and socket.connection.setup.timeout.ms");
                    self.fail_peer(now, id, &error);
                }
                Link::Up(connection, c) => {
                    let connection = *connection;
                    let result = c.handle_timeout(now);
                    while let Some(bytes) = c.poll_send() {
                        self.actions.push_back(Action::Send(connection, bytes));
                    }
                    if c.is_idle_since(now, self.config.max_idle) {
                        self.actions.push_back(Action::Close(connection));
                        self.connections.remove(&connection);
                        peer.link = Link::Idle;
                        self.config.endpoints.log_idle(peer, id);
                        self.note_disconnect(now, id);
                    } else if let Err(error) = result {
                        self.actions.push_back(Action::Close(connection));
                        if !self.tries_again(now, id) && !self.reconnects(now, id, false) {
                            self.fail_peer(now, id, &error);
                        }
                    }
                }
                _ => {}
            }
            self.expire(now, id);
        }
        let is_late = |o: &Outgoing<usize>| o.deadline.time() <= now;
        if self.waiting.iter().any(is_late) {
            let (late, waiting) = std::mem::take(&mut self.waiting).into_iter().partition(is_late);
            self.waiting = waiting;
            self.give_up(now, late, None);
        }
        self.refresh_if_due(now);
        if !self.waiting.is_empty() {
            self.connect_any(now);
        }
    }
}
