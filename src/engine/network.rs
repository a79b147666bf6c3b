//! All connections of a client: where a request goes, what is known of the cluster, and how the client gets in.
//!
//! A peer is a broker of the cluster (its id) or an address of the bootstrap list (negative). Each has at most one
//! connection: `Idle` → `Connecting` → `Up`, and after a failure `Waiting` until it may be tried again. A request for a
//! broker waits for that broker's connection and fails with it; a request for any broker waits until one is reached
//! or its time is over. When no broker of the cluster answers, the bootstrap list is tried again (KIP-899); a
//! cluster may ask for that, too (KIP-1102).
//!
//! Who is refused, by TLS or SASL, will be refused again: nobody waits for that. Requests fail at once when no broker is
//! left to try, and for [`REFUSED_WAIT`], after which the next one may find the broker of another mind.

mod brokers;
mod metadata_requests;
mod refusal;
mod version_probes;

use self::refusal::{REFUSED_WAIT, is_refusal};
use super::peer::{Link, Peer, PeerId, PeerToken};
use super::sasl::{Credentials, Nonces};
use super::version_probe::VersionProbe;
use super::{
    Backoff, Call, ClientResponse, Cluster, Connection, Deadline, Error, ErrorKind, MetadataDemand, Outgoing, Proof,
    Reply, Target, Time, earliest,
};
use crate::api::Release;
use crate::frame::Frames;
use crate::wire::Uuid;
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// What a network needs to know.
#[derive(Clone, Debug)]
pub struct NetworkConfig {
    /// Where to get in.
    pub bootstrap: Vec<(String, u16)>,
    /// The name in the brokers' logs and quotas.
    pub client_id: String,
    /// How long a broker may take to answer.
    pub request_timeout: Duration,
    /// How long a connection may take to stand.
    pub setup_timeout: Duration,
    /// The first and the longest wait before connecting again.
    pub reconnect_backoff: (Duration, Duration),
    /// The first and the longest wait before asking for metadata again.
    pub retry_backoff: (Duration, Duration),
    /// When what is known of the cluster is asked for again.
    pub metadata_max_age: Duration,
    /// Whether asking about a topic may create it.
    pub allow_auto_topic_creation: bool,
    /// The largest answer, bytes.
    pub max_frame: usize,
    /// Seed of the jitter.
    pub seed: u64,
    /// How long a broker may be silent about its versions until it is asked whether it is one before 0.10.
    pub versions_timeout: Duration,
    /// What a broker is taken for that does not say its versions; `None` to find out.
    pub version_fallback: Option<Release>,
    /// Who the client says it is, where brokers ask.
    pub credentials: Option<Arc<Credentials>>,
    /// What logins are made unique with.
    pub nonces: Nonces,
}

/// A connection, from the attempt to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionId(pub usize);

/// What the network wants done to its sockets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Connect, and say how it ended.
    Connect(ConnectionId, String, u16),
    /// Send bytes.
    Send(ConnectionId, Bytes),
    /// Close, without saying so.
    Close(ConnectionId),
}

/// The machine. Requests come with a number each, see [`super::RequestsInFlight`].
pub struct Network {
    config: NetworkConfig,
    peers: BTreeMap<PeerId, Peer>,
    connections: BTreeMap<ConnectionId, PeerId>,
    /// How to begin with addresses that did not say their versions when they were first asked.
    version_probes: HashMap<(String, u16), VersionProbe>,
    /// Addresses that said their versions: whatever happens, there is no broker before 0.10.
    said_versions: HashSet<(String, u16)>,
    next_connection: usize,
    cluster: Arc<Cluster>,
    /// The epoch of the features that were heard of last.
    features: i64,
    /// Topics that somebody wants to know.
    topics: BTreeSet<Arc<str>>,
    /// Topics that nobody wants to know any more, since when.
    let_go: BTreeMap<Arc<str>, Time>,
    /// Topics to ask for by id, once, and when.
    ids: BTreeSet<Uuid>,
    ids_at: Time,
    all_topics: bool,
    /// Whether every refresh asks for all topics.
    watches_all: bool,
    refresh_at: Option<Time>,
    metadata_in_flight: bool,
    metadata_backoff: Backoff,
    waiting: VecDeque<Outgoing<usize>>,
    actions: VecDeque<Action>,
    answers: VecDeque<ClientResponse<usize>>,
    cluster_changed: bool,
    unreachable: Option<Error>,
    /// Why there is no token to log in with.
    no_token: Option<Error>,
}

impl Network {
    /// A network that knows only its bootstrap list.
    pub fn new(config: NetworkConfig) -> Self {
        let (first, max) = config.retry_backoff;
        let mut this = Self {
            metadata_backoff: Backoff::new(first, max, config.seed),
            peers: BTreeMap::new(),
            connections: BTreeMap::new(),
            version_probes: HashMap::new(),
            said_versions: HashSet::new(),
            next_connection: 0,
            cluster: Arc::new(Cluster { controller: -1, ..Cluster::default() }),
            features: -1,
            topics: BTreeSet::new(),
            let_go: BTreeMap::new(),
            ids: BTreeSet::new(),
            ids_at: Time(0),
            all_topics: false,
            watches_all: false,
            refresh_at: None,
            metadata_in_flight: false,
            waiting: VecDeque::new(),
            actions: VecDeque::new(),
            answers: VecDeque::new(),
            cluster_changed: false,
            unreachable: None,
            no_token: None,
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
        let peer = Peer { host, port, link: Link::Idle, backoff, queue: VecDeque::new(), error: None };
        self.peers.insert(id, peer);
    }

    /// What is known of the cluster.
    pub fn cluster(&self) -> &Arc<Cluster> {
        &self.cluster
    }

    /// The ready peer with the least to do; brokers of the cluster before bootstrap addresses.
    fn nearest(&self) -> Option<PeerId> {
        let load = |(id, peer): (&PeerId, &Peer)| match &peer.link {
            Link::Up(_, c) if c.is_ready() && !id.is_apart() => Some((id.node() < 0, c.in_flight(), *id)),
            _ => None,
        };
        self.peers.iter().filter_map(load).min().map(|(_, _, id)| id)
    }

    /// Sees to it that a connection to some broker is being made.
    fn reach_somebody(&mut self, now: Time) {
        let of_use = |id: &PeerId| !id.is_apart();
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
        if !self.is_complete() {
            // Whoever waits goes on when the token is there.
            if let Some(error) = &self.no_token {
                self.fail_waiting(&error.clone());
            }
            let missing = || {
                Error::new(ErrorKind::Network, "there is no token yet to log in with")
                    .with_hint("sasl.oauth.token.provider, or the token endpoint, has not answered")
            };
            self.unreachable = Some(self.no_token.clone().unwrap_or_else(missing));
            return;
        }
        let Some(peer) = self.peers.get_mut(&id) else {
            return;
        };
        let connection = ConnectionId(self.next_connection);
        self.next_connection += 1;
        peer.link = Link::Connecting(connection, now + self.config.setup_timeout);
        self.connections.insert(connection, id);
        self.actions.push_back(Action::Connect(connection, peer.host.clone(), peer.port));
    }

    /// Takes a request; its answer comes out of [`Network::poll_response`].
    pub fn submit(&mut self, now: Time, outgoing: Outgoing<usize>) {
        let target = match outgoing.target {
            Target::Controller if self.cluster.brokers.contains_key(&self.cluster.controller) => {
                Target::Node(self.cluster.controller)
            }
            Target::Controller => Target::Any,
            other => other,
        };
        let apart = match target {
            Target::Node(id) => return self.submit_to(now, PeerId::Broker(id), outgoing),
            Target::Fetch(id) => Some(PeerId::Fetch(id)),
            Target::Group(id) => Some(PeerId::Group(id)),
            Target::Controller | Target::Any => None,
        };
        if let Some(id) = apart {
            if let (false, Some(b)) = (self.peers.contains_key(&id), self.cluster.brokers.get(&id.node())) {
                let (host, port) = (b.host.clone(), b.port);
                self.add_peer(id, host, port);
            }
            self.submit_to(now, id, outgoing);
        } else if let Some(id) = self.nearest() {
            self.submit_to(now, id, outgoing);
        } else {
            self.waiting.push_back(outgoing);
            self.reach_somebody(now);
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
                // Whoever named it was faster than the metadata.
                self.waiting.push_back(outgoing);
                let demand = MetadataDemand { refresh: !self.metadata_in_flight, ..MetadataDemand::default() };
                return self.demand(now, demand);
            }
            let error =
                Error::new(ErrorKind::Network, format!("broker {} is not in the cluster's metadata", id.node()));
            self.answers.push_back(ClientResponse { token: outgoing.token, node: id.node(), result: Err(error) });
            return;
        };
        if peer.is_ready() {
            let Outgoing { call, token, deadline, max_version, .. } = outgoing;
            return self.send(now, id, call, max_version, deadline, PeerToken::Role(token));
        }
        if let (Link::Waiting(_), Some(error)) = (&peer.link, peer.error.as_ref().filter(|e| is_refusal(e))) {
            let result = Err(error.clone());
            return self.answers.push_back(ClientResponse { token: outgoing.token, node: id.node(), result });
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
        let longest = now + self.config.request_timeout + call.held();
        let deadline = match deadline {
            Deadline::ToSend(_) => longest,
            Deadline::ToAnswer(time) => time.min(longest),
        };
        let refused = c.send(&*call, max_version, deadline, token).err();
        while let Some(bytes) = c.poll_send() {
            self.actions.push_back(Action::Send(connection, bytes));
        }
        self.collect(now, connection);
        if let Some((token, error)) = refused {
            self.answer(now, id, token, Err(error));
        }
    }

    /// Takes in that a connection stands.
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
        let proof = self.config.credentials.clone().map(|credentials| Proof {
            credentials,
            nonces,
            renewal_timeout: self.config.request_timeout,
        });
        let (address, max_frame) = (peer.address(), self.config.max_frame);
        let mut c = if proof.is_some() {
            Connection::new(now, address, client_id, max_frame, timeout, proof)
        } else {
            let place = (peer.host.clone(), peer.port);
            let probe = self.version_probes.get(&place).copied().unwrap_or_default();
            let probe = if self.said_versions.contains(&place) { VersionProbe::Wait } else { probe };
            let patience = self.config.versions_timeout;
            Connection::with_version_probe(now, address, client_id, max_frame, timeout, probe, patience)
        };
        let is_ready = c.is_ready();
        while let Some(bytes) = c.poll_send() {
            self.actions.push_back(Action::Send(connection, bytes));
        }
        peer.link = Link::Up(connection, Box::new(c));
        if is_ready {
            self.handle_ready(now, id);
        }
    }

    /// Takes in that a connection has written everything it was given.
    pub fn handle_written(&mut self, now: Time, connection: ConnectionId) {
        if let Some(c) = self.up(connection) {
            c.handle_written();
            self.collect(now, connection);
        }
    }

    /// Whether a connection carried requests that the broker does not answer, see [`Connection::is_unheard`].
    pub fn is_unheard(&mut self, connection: ConnectionId) -> bool {
        self.up(connection).is_some_and(|c| c.is_unheard())
    }

    /// Whether no connection is being made or logs in, so that there are only requests and answers to move.
    pub fn is_settled(&self) -> bool {
        self.peers.values().all(|peer| match &peer.link {
            Link::Up(_, c) => c.is_ready(),
            Link::Connecting(..) => false,
            Link::Idle | Link::Waiting(_) => true,
        })
    }

    /// What to send so that an answer tells that the broker has read all that it does not answer.
    pub fn say_farewell(&mut self, connection: ConnectionId) -> Vec<Bytes> {
        let Some(c) = self.up(connection) else { return Vec::new() };
        c.say_farewell();
        std::iter::from_fn(|| c.poll_send()).collect()
    }

    fn up(&mut self, connection: ConnectionId) -> Option<&mut Connection<PeerToken>> {
        match &mut self.peers.get_mut(self.connections.get(&connection)?)?.link {
            Link::Up(_, c) => Some(c),
            _ => None,
        }
    }

    /// Where the bytes received on a connection go to.
    pub fn frames(&mut self, connection: ConnectionId) -> Option<&mut Frames> {
        self.up(connection).map(Connection::frames)
    }

    /// Takes in that bytes were received.
    pub fn handle_received(&mut self, now: Time, connection: ConnectionId) {
        let Some(id) = self.connections.get(&connection).copied() else {
            return;
        };
        let Some(Peer { link: Link::Up(_, c), .. }) = self.peers.get_mut(&id) else {
            return;
        };
        let was_ready = c.is_ready();
        let result = c.handle_received(now);
        while let Some(bytes) = c.poll_send() {
            self.actions.push_back(Action::Send(connection, bytes));
        }
        let became_ready = !was_ready && c.is_ready();
        self.collect(now, connection);
        if let Err(error) = result {
            self.actions.push_back(Action::Close(connection));
            let error = self.retriable_if_known(id, error);
            self.lose(now, id, &error);
        } else if became_ready {
            self.handle_ready(now, id);
        }
    }

    /// An address that spoke Kafka's protocol before is taken for a broker still: what came was damaged on the way.
    fn retriable_if_known(&self, id: PeerId, error: Error) -> Error {
        let is_known = |p: &Peer| self.said_versions.contains(&(p.host.clone(), p.port));
        match self.peers.get(&id).is_some_and(is_known) && error.kind() == ErrorKind::Decode {
            true => Error::new(ErrorKind::Network, error.message()),
            false => error,
        }
    }

    fn handle_ready(&mut self, now: Time, id: PeerId) {
        let Some(peer) = self.peers.get_mut(&id) else {
            return;
        };
        peer.backoff.reset();
        peer.error = None;
        let place = (peer.host.clone(), peer.port);
        if !matches!(self.version_probes.get(&place), Some(VersionProbe::Known(_))) {
            self.version_probes.remove(&place);
            self.said_versions.insert(place);
        }
        if let Link::Up(_, c) = &peer.link
            && let Some((epoch, version)) = c.transaction_version().filter(|(epoch, _)| *epoch > self.features)
        {
            self.features = epoch;
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

    /// Takes in that a connection failed for a reason that says all there is to say.
    pub fn handle_failed(&mut self, now: Time, connection: ConnectionId, error: &Error) {
        if let Some(id) = self.connections.get(&connection).copied() {
            self.lose(now, id, error);
        }
    }

    /// Takes in that a connection attempt failed or a connection ended; `error` is `None` if the peer just closed it.
    pub fn handle_closed(&mut self, now: Time, connection: ConnectionId, error: Option<String>) {
        let Some(id) = self.connections.get(&connection).copied() else {
            return;
        };
        if self.begins_anew(now, id, true) {
            return;
        }
        let Some(peer) = self.peers.get(&id) else {
            return;
        };
        let error = match (&peer.link, error) {
            (Link::Up(_, c), None) => c.closed_by_peer(),
            (Link::Up(..), Some(why)) => Error::new(ErrorKind::Network, format!("connection lost: {why}")),
            (_, why) => {
                let why = why.unwrap_or_else(|| "closed".to_owned());
                let error = Error::new(ErrorKind::Network, format!("cannot connect: {why}"));
                error.with_hint(if id.node() < 0 {
                    "check that the broker runs and that bootstrap.servers names its address"
                } else {
                    "the cluster advertises this address; check advertised.listeners of the broker"
                })
            }
        };
        self.lose(now, id, &error);
    }

    /// Ends a peer's connection: what is in flight and what waits for it fails.
    fn lose(&mut self, now: Time, id: PeerId, error: &Error) {
        self.note_end(id);
        let Some(peer) = self.peers.get_mut(&id) else {
            return;
        };
        let error = error.clone().from_broker(peer.address());
        let wait = if is_refusal(&error) { REFUSED_WAIT } else { Duration::ZERO }.max(peer.backoff.next_wait());
        match std::mem::replace(&mut peer.link, Link::Waiting(now + wait)) {
            Link::Connecting(connection, _) => {
                self.connections.remove(&connection);
            }
            Link::Up(connection, mut c) => {
                self.connections.remove(&connection);
                c.fail(&error);
                while let Some((token, result)) = c.poll_response() {
                    self.answer(now, id, token, result);
                }
            }
            Link::Idle | Link::Waiting(_) => {}
        }
        let Some(peer) = self.peers.get_mut(&id) else {
            return;
        };
        peer.error = Some(error.clone());
        for outgoing in std::mem::take(&mut peer.queue) {
            self.answers.push_back(ClientResponse {
                token: outgoing.token,
                node: id.node(),
                result: Err(error.clone()),
            });
        }
        // Whoever led something there may have moved.
        self.demand(now, MetadataDemand { refresh: id.node() >= 0, ..MetadataDemand::default() });
        if !self.waiting.is_empty() || self.asks_at().is_some() {
            self.reach_somebody(now);
        }
        self.note_unreachable();
    }

    /// Hands out a connection's answers. One of them may be metadata that gives the connection to another peer.
    fn collect(&mut self, now: Time, connection: ConnectionId) {
        while let Some(id) = self.connections.get(&connection).copied()
            && let Some(Peer { link: Link::Up(_, c), .. }) = self.peers.get_mut(&id)
            && let Some((token, result)) = c.poll_response()
        {
            self.answer(now, id, token, result);
        }
    }

    fn answer(&mut self, now: Time, id: PeerId, token: PeerToken, result: Result<Reply, Error>) {
        match token {
            PeerToken::Role(token) => {
                let address = || self.peers.get(&id).map_or_else(String::new, Peer::address);
                let result = result.map_err(|e| if e.broker().is_none() { e.from_broker(address()) } else { e });
                self.answers.push_back(ClientResponse { token, node: id.node(), result });
            }
            PeerToken::Metadata { all, ids } => self.take_metadata(now, id, (all, ids), result),
        }
    }

    /// What to do to the sockets next.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// The next answer.
    pub fn poll_response(&mut self) -> Option<ClientResponse<usize>> {
        self.answers.pop_front()
    }

    /// The cluster, if it changed since the last call.
    pub fn poll_cluster(&mut self) -> Option<Arc<Cluster>> {
        std::mem::take(&mut self.cluster_changed).then(|| self.cluster.clone())
    }

    /// Why no broker can be reached, if that became so since the last call.
    pub fn poll_unreachable(&mut self) -> Option<Error> {
        self.unreachable.take()
    }

    /// Whether one of the three has something.
    pub fn has_news(&self) -> bool {
        !self.answers.is_empty() || self.cluster_changed || self.unreachable.is_some()
    }

    /// When, after now, [`Network::handle_timeout`] has something to do.
    pub fn next_timeout(&self, now: Time) -> Option<Time> {
        let mut next = self.asks_at().filter(|t| *t > now && !self.metadata_in_flight);
        let mut at = |time: Time| next = earliest(next, Some(time).filter(|t| *t > now));
        for peer in self.peers.values() {
            match &peer.link {
                Link::Idle => {}
                Link::Waiting(until) => at(*until),
                Link::Connecting(_, deadline) => at(*deadline),
                Link::Up(_, c) => c.next_timeout().into_iter().for_each(&mut at),
            }
            peer.queue.iter().for_each(|o| at(o.deadline.time()));
        }
        self.waiting.iter().for_each(|o| at(o.deadline.time()));
        next
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Time) {
        let ids: Vec<PeerId> = self.peers.keys().copied().collect();
        for id in ids {
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
                    self.lose(now, id, &error);
                }
                Link::Up(connection, c) => {
                    let connection = *connection;
                    let result = c.handle_timeout(now);
                    while let Some(bytes) = c.poll_send() {
                        self.actions.push_back(Action::Send(connection, bytes));
                    }
                    if let Err(error) = result {
                        self.actions.push_back(Action::Close(connection));
                        if !self.begins_anew(now, id, false) {
                            self.lose(now, id, &error);
                        }
                    }
                }
                _ => {}
            }
            self.expire(now, id);
        }
        let (late, waiting) = std::mem::take(&mut self.waiting).into_iter().partition(|o| o.deadline.time() <= now);
        self.waiting = waiting;
        self.give_up(late, None);
        self.refresh_if_due(now);
        if !self.waiting.is_empty() {
            self.reach_somebody(now);
        }
    }

    fn expire(&mut self, now: Time, id: PeerId) {
        let Some(peer) = self.peers.get_mut(&id) else {
            return;
        };
        if peer.queue.iter().any(|o| o.deadline.time() <= now) {
            let (late, queue) = std::mem::take(&mut peer.queue).into_iter().partition(|o| o.deadline.time() <= now);
            peer.queue = queue;
            self.give_up(late, Some(id));
        }
    }

    /// Ends requests whose time is over, which waited for a peer or for any: what went wrong with others is not the reason.
    fn give_up(&mut self, late: VecDeque<Outgoing<usize>>, awaited: Option<PeerId>) {
        let is_awaited = |id: &PeerId| awaited.map_or(!id.is_apart(), |awaited| *id == awaited);
        let why = self.peers.iter().filter(|(id, _)| is_awaited(id)).find_map(|(_, p)| p.error.clone());
        let why = why.or_else(|| self.no_token.clone());
        let node = awaited.map_or(-1, PeerId::node);
        for outgoing in late {
            let error = why.clone().unwrap_or_else(|| {
                Error::new(
                    ErrorKind::Timeout,
                    format!("no broker could be asked for {} in time", outgoing.call.api().name),
                )
            });
            self.answers.push_back(ClientResponse { token: outgoing.token, node, result: Err(error) });
        }
    }
}
