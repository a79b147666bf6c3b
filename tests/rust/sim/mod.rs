//! Simulates clients and the dev broker under a simulated clock, with random link faults and reproducible seeds.
//!
//! The simulation is one queue of events. Time jumps to the next event, so a scenario of minutes takes milliseconds.
//! Each scenario asserts its invariants at the end, with the seed in the message. `KLAMM_SIM_SEEDS=5000` runs 5000
//! scenarios of each kind, and `KLAMM_SIM_SEED=105` runs only the seed 105.

mod admin;
mod changing;
mod damaged;
mod followers;
mod forgetting;
mod groups;
mod producing;
mod shares;
mod tokens;
mod transactions;
mod zookeeper;

use crate::broker::frame;
use crate::network::network_config;
use bytes::{Buf, Bytes};
use klamm::api::header::RequestHeader;
use klamm::api::{
    self, ErrorCode, Request, add_partitions_to_txn, consumer_group_heartbeat, create_topics, encode, end_txn, fetch,
    find_coordinator, heartbeat, init_producer_id, join_group, list_offsets, metadata, offset_commit, offset_fetch,
    produce, share_group_heartbeat, sync_group,
};
use klamm::broker::{self, Cluster, Connection, Fault, Node, Options, Output};
use klamm::compress::Compression;
use klamm::engine::consumer::{ConsumerConfig, Reset};
use klamm::engine::producer::{NewRecord, Partitioner, ProducerConfig};
use klamm::engine::sasl::Credentials;
use klamm::engine::{Action, ConnectionId, Network, NetworkConfig, RequestsInFlight, Role, Target, Time, earliest};
use klamm::frame::Frames;
use klamm::wire::Reader;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

const NODES: i32 = 3;
const PARTITIONS: i32 = 3;
const SHORT_THROTTLE: Duration = Duration::from_millis(20);
const LONG_THROTTLE: Duration = Duration::from_millis(700);

/// Returns the seeds to run: `default` of them, unless the environment overrides it.
fn seeds(default: u64) -> Range<u64> {
    let number = |name| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    match number("KLAMM_SIM_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("KLAMM_SIM_SEEDS").unwrap_or(default),
    }
}

/// Xorshift: scenarios must differ and be reproducible, not unpredictable.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % n
    }
}

/// A fault that the simulation injects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum SimFault {
    /// A connection breaks after a request.
    CutAfterRequest,
    /// A connection breaks in the middle of a response.
    CutInResponse,
    /// A response and all later ones of its connection are lost.
    Mute,
    /// A request and all later ones of its connection never arrive. The connection stays open.
    SilentDrop,
    /// A metadata response denies its topics for a moment.
    DeniedTopics,
    /// A replica refuses a fetch.
    RefusedFetch,
    /// A response arrives twice.
    Duplicate,
    /// A response is damaged.
    Damage,
    /// A token provider returns a token that brokers refuse.
    RefusedToken,
    MoveLeader,
    MoveCoordinator,
    KillNode,
    StartNode,
}

impl SimFault {
    const ALL: [Self; 13] = [
        Self::CutAfterRequest,
        Self::CutInResponse,
        Self::Mute,
        Self::SilentDrop,
        Self::DeniedTopics,
        Self::RefusedFetch,
        Self::Duplicate,
        Self::Damage,
        Self::RefusedToken,
        Self::MoveLeader,
        Self::MoveCoordinator,
        Self::KillNode,
        Self::StartNode,
    ];
}

/// One TCP connection: the bytes in flight in both directions, in order.
struct Link {
    broker: Connection,
    node: i32,
    stands: bool,
    mute: bool,
    /// Whether requests get lost.
    deaf: bool,
    connected_at: Time,
    up: VecDeque<(Time, Bytes)>,
    down: VecDeque<(Time, Bytes)>,
    frames: Frames,
    /// APIs and versions of the expected responses.
    asked: VecDeque<(i16, i16)>,
    /// Whether the client has received bytes from this broker before.
    known: bool,
}

struct Client<R: Role> {
    network: Network,
    in_flight: RequestsInFlight<R::Token>,
    role: R,
    links: BTreeMap<ConnectionId, Link>,
    /// Brokers from which the client has received bytes.
    heard: BTreeSet<i32>,
    /// Brokers whose connection for general requests ended.
    disconnected: BTreeSet<i32>,
}

struct World {
    seed: u64,
    now: Time,
    random: Random,
    cluster: Cluster,
    next_connection: u64,
    /// One in this number of deliveries cuts its link; 0 for none.
    cut_one_in: u64,
    /// One in this number of responses is lost, with all later ones on its link, which stays open. 0 for none.
    mute_one_in: u64,
    /// One in this number of requests is lost, with all later ones on its link, which stays open. 0 for none.
    drop_one_in: u64,
    /// One in this number of metadata responses denies its topics; 0 for none.
    deny_one_in: u64,
    /// One in this number of fetches is refused; 0 for none.
    refuse_one_in: u64,
    /// One in this number of responses is duplicated; 0 for none.
    twice_one_in: u64,
    /// One in this number of responses is damaged; 0 for none.
    damage_one_in: u64,
    /// One in this number of checks moves a leader or a coordinator, or stops or starts a node; 0 for none.
    trouble_one_in: u64,
    /// The transactional id or group whose coordinator moves.
    coordinated: &'static str,
    look_every: Duration,
    metadata_max_age: Duration,
    /// Whether metadata requests create topics.
    makes_topics: bool,
    /// The credentials of new clients.
    credentials: Option<Arc<Credentials>>,
    /// Topics in metadata requests, with their times.
    named: Vec<(Time, BTreeSet<String>)>,
    /// Responses of the cluster that are not sent yet.
    outputs: VecDeque<Output>,
    down: Option<i32>,
    /// The faults that have struck.
    struck: BTreeSet<SimFault>,
}

/// Returns the topics in a metadata request.
fn named(frame: &Bytes) -> Option<BTreeSet<String>> {
    let mut r = Reader::new(frame.clone(), 0, false);
    let header = RequestHeader::get(&mut r, |key| api::by_key(key).map(|entry| entry.info)).unwrap();
    if header.request_api_key != metadata::API.key {
        return None;
    }
    let request: metadata::Request = api::decode(header.request_api_version, r.rest()).unwrap();
    Some(request.topics.into_iter().flatten().filter_map(|t| t.name).collect())
}

fn nodes() -> Vec<Node> {
    (1..=NODES).map(|id| Node { id, host: "sim".to_owned(), port: 9000 + id as u16 }).collect()
}

/// Prints the seed if a scenario panics.
impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("in the scenario of KLAMM_SIM_SEED={}", self.seed);
        }
    }
}

impl World {
    fn new(seed: u64, cut_one_in: u64) -> Self {
        Self::of(seed, cut_one_in, |options| options)
    }

    /// Creates a world whose brokers have other options.
    fn of(seed: u64, cut_one_in: u64, change: impl FnOnce(Options) -> Options) -> Self {
        // Both protocols of transactions have their turn.
        let transaction_version = 1 + (seed % 2) as i16;
        let nodes_and_partitions =
            Options { nodes: NODES as usize, default_partitions: PARTITIONS, ..Options::default() };
        let options = change(Options { transaction_version, ..nodes_and_partitions });
        let cluster = Cluster::new(&options, nodes(), 1_700_000_000_000, seed);
        Self {
            seed,
            now: Time(0),
            random: Random(seed.wrapping_mul(2) | 1),
            cluster,
            next_connection: 0,
            cut_one_in,
            mute_one_in: 0,
            drop_one_in: 0,
            deny_one_in: 0,
            refuse_one_in: 0,
            twice_one_in: 0,
            damage_one_in: 0,
            trouble_one_in: 0,
            coordinated: "tx",
            look_every: Duration::from_millis(5),
            metadata_max_age: Duration::from_secs(300),
            makes_topics: true,
            credentials: None,
            named: Vec::new(),
            outputs: VecDeque::new(),
            down: None,
            struck: BTreeSet::new(),
        }
    }

    /// Decides whether a fault strikes, which one of `one_in` calls does; 0 is never.
    fn strikes(&mut self, fault: SimFault, one_in: u64) -> bool {
        let strikes = one_in > 0 && self.random.below(one_in) == 0;
        if strikes {
            self.struck.insert(fault);
        }
        strikes
    }

    /// Lets brokers throttle producers after some Produce responses (KIP-219).
    fn throttle(&mut self) {
        for (i, by) in [SHORT_THROTTLE, LONG_THROTTLE].into_iter().enumerate() {
            let (api, seed) = (Some(produce::API.key), self.seed + i as u64);
            let always = Fault::always(broker::Action::Throttle(by));
            self.cluster.fault(Fault { api, probability: 0.1, seed, ..always });
        }
    }

    /// Creates the topic of the scenarios with a configuration. Otherwise it would be created automatically.
    fn create_topic(&mut self, name: &str, value: String) {
        let configs = vec![create_topics::Config { name: name.to_owned(), value: Some(value) }];
        let (num_partitions, replication_factor) = (-1, -1);
        let topic = create_topics::Topic {
            name: "t".to_owned(),
            num_partitions,
            replication_factor,
            configs,
            ..Default::default()
        };
        let request = create_topics::Request { topics: vec![topic], ..Default::default() };
        self.by_hand(&request);
    }

    /// Sends a request to a running node directly, without a link.
    fn by_hand<R: Request>(&mut self, request: &R) {
        let api = R::API;
        let body = encode(api.max, request).unwrap();
        let by_hand = Connection(u64::MAX);
        let node = if self.down == Some(1) { 2 } else { 1 };
        self.cluster.connect(node, by_hand);
        self.cluster.handle(self.since_start(), by_hand, frame(api, api.max, 0, &body));
        let mut answered = false;
        while let Some(output) = self.cluster.poll_send() {
            match output {
                Output::Reply { connection, .. } if connection == by_hand => answered = true,
                of_others => self.outputs.push_back(of_others),
            }
        }
        assert!(answered);
        self.cluster.disconnect(self.since_start(), by_hand);
    }

    fn since_start(&self) -> Duration {
        self.now.since(Time(0))
    }

    fn latency(&mut self) -> Duration {
        Duration::from_micros(100 + self.random.below(5_000))
    }

    fn client<R: Role>(&self, role: R) -> Client<R> {
        let network = NetworkConfig {
            bootstrap: vec![("sim".to_owned(), 9001), ("sim".to_owned(), 9002)],
            request_timeout: Duration::from_secs(5),
            keep_alive: true,
            max_idle: None,
            setup_timeout: Duration::from_secs(2),
            metadata_max_age: self.metadata_max_age,
            allow_auto_topic_creation: self.makes_topics,
            max_frame: 1 << 24,
            credentials: self.credentials.clone(),
            ..network_config("sim", 9001)
        };
        Client {
            network: Network::new(network),
            in_flight: RequestsInFlight::default(),
            role,
            links: BTreeMap::new(),
            heard: BTreeSet::new(),
            disconnected: BTreeSet::new(),
        }
    }

    /// Delivers due bytes to a client, runs it, and returns its next deadline.
    fn run<R: Role>(&mut self, client: &mut Client<R>) -> Option<Time> {
        self.deliver(client);
        while self.exchange(client) {}
        let timers = earliest(client.network.next_timeout(self.now), client.role.next_timeout(self.now));
        let link = |l: &Link| {
            let connected = (!l.stands).then_some(l.connected_at);
            [connected, l.up.front().map(|(t, _)| *t), l.down.front().map(|(t, _)| *t)].into_iter().flatten().min()
        };
        earliest(timers, client.links.values().filter_map(link).min())
    }

    fn exchange<R: Role>(&mut self, client: &mut Client<R>) -> bool {
        let now = self.now;
        client.role.handle_timeout(now);
        client.network.handle_timeout(now);
        if let Some(demand) = client.role.next_demand() {
            client.network.demand(now, demand);
        }
        while let Some(request) = client.role.poll_send(now) {
            client.network.submit(now, client.in_flight.begin(R::build_request(request)));
        }
        let mut more = false;
        while let Some(action) = client.network.poll_action() {
            more = true;
            self.act(client, action);
        }
        while let Some(target) = client.network.poll_disconnect() {
            client.disconnected.extend(if let Target::Node(node) = target { Some(node) } else { None });
            client.role.handle_disconnect(now, target);
        }
        while let Some(answer) = client.network.poll_response() {
            more = true;
            let answer = client.in_flight.end(answer).expect("one answer for each request");
            client.role.handle_response(now, R::prepare(answer));
        }
        if let Some(cluster) = client.network.poll_cluster() {
            more = true;
            client.role.handle_cluster(now, &cluster);
        }
        if let Some(error) = client.network.poll_unreachable() {
            client.role.handle_unreachable(now, &error);
        }
        more
    }

    fn act<R: Role>(&mut self, client: &mut Client<R>, action: Action) {
        match action {
            Action::Connect(id, _, port) => {
                let broker = Connection(self.next_connection);
                self.next_connection += 1;
                let connected_at = self.now + self.latency();
                let (node, up, down) = (i32::from(port) - 9000, VecDeque::new(), VecDeque::new());
                let frames = Frames::new(1 << 24);
                let (stands, mute, deaf) = (false, false, false);
                let (asked, known) = (VecDeque::new(), client.heard.contains(&node));
                client.links.insert(
                    id,
                    Link { broker, node, stands, mute, deaf, connected_at, up, down, frames, asked, known },
                );
            }
            Action::Send(id, bytes) => {
                let latency = self.latency();
                if let Some(link) = client.links.get_mut(&id) {
                    client.network.handle_written(self.now, id);
                    let at = link.up.back().map_or(Time(0), |(t, _)| *t).max(self.now + latency);
                    link.up.push_back((at, bytes));
                }
            }
            Action::Close(id) => self.cut(client, id),
        }
    }

    fn cut<R: Role>(&mut self, client: &mut Client<R>, id: ConnectionId) {
        if let Some(link) = client.links.remove(&id) {
            let now = self.since_start();
            self.cluster.disconnect(now, link.broker);
        }
    }

    fn deliver<R: Role>(&mut self, client: &mut Client<R>) {
        let ids: Vec<ConnectionId> = client.links.keys().copied().collect();
        for id in ids {
            let now = self.now;
            let Some(link) = client.links.get_mut(&id) else {
                continue;
            };
            if !link.stands && link.connected_at <= now {
                if self.down == Some(link.node) {
                    client.links.remove(&id);
                    client.network.handle_closed(now, id, Some("connection refused".to_owned()));
                    continue;
                }
                link.stands = true;
                self.cluster.connect(link.node, link.broker);
                client.network.handle_connected(now, id);
            }
            while let Some(link) = client.links.get_mut(&id)
                && let Some((_, bytes)) = link.up.pop_front_if(|(t, _)| *t <= now)
            {
                link.frames.buffer().extend_from_slice(&bytes);
                while let Ok(Some(frame)) = link.frames.next_frame() {
                    link.deaf |= self.strikes(SimFault::SilentDrop, self.drop_one_in);
                    if link.deaf {
                        continue;
                    }
                    let mut header = frame.clone();
                    let (api, version) = (header.try_get_i16().unwrap(), header.try_get_i16().unwrap());
                    if api == fetch::API.key && self.strikes(SimFault::RefusedFetch, self.refuse_one_in) {
                        let once = Fault::always(broker::Action::Error(ErrorCode::NOT_LEADER_OR_FOLLOWER));
                        self.cluster.fault(Fault { api: Some(api), times: Some(1), ..once });
                    }
                    link.asked.push_back((api, version));
                    self.named.extend(named(&frame).map(|topics| (now, topics)));
                    self.cluster.handle(Duration::from_micros(now.0), link.broker, frame);
                }
                self.lose_one_in(client, id);
            }
            while let Some(link) = client.links.get_mut(&id)
                && let Some((_, bytes)) = link.down.pop_front_if(|(t, _)| *t <= now)
            {
                if let Some(frames) = client.network.frames(id) {
                    // Half of the bytes arrive before a cut in mid-frame.
                    let cut = self.strikes(SimFault::CutInResponse, self.cut_one_in);
                    frames.buffer().extend_from_slice(if cut { &bytes[..bytes.len() / 2] } else { &bytes });
                    let node = link.node;
                    client.network.handle_received(now, id);
                    if cut {
                        self.cut(client, id);
                        client.network.handle_closed(now, id, None);
                    } else {
                        client.heard.insert(node);
                    }
                }
            }
        }
    }

    fn lose_one_in<R: Role>(&mut self, client: &mut Client<R>, id: ConnectionId) {
        if self.strikes(SimFault::CutAfterRequest, self.cut_one_in) {
            self.cut(client, id);
            client.network.handle_closed(self.now, id, Some("cut".to_owned()));
        }
    }

    /// Injects a random fault into the cluster, or none.
    fn trouble(&mut self) {
        if self.trouble_one_in == 0 || self.random.below(self.trouble_one_in) != 0 {
            return;
        }
        let now = self.since_start();
        let node = self.random.below(NODES as u64) as i32 + 1;
        let partition = self.random.below(PARTITIONS as u64) as i32;
        // Some of it is refused: a topic that is not there yet, a node that is down. That is nothing, too.
        let (fault, result) = match (self.random.below(4), self.down) {
            (0, _) => (SimFault::MoveLeader, self.cluster.move_leader(now, "t", partition, node)),
            (1, _) => (SimFault::MoveCoordinator, self.cluster.move_coordinator(now, self.coordinated, node)),
            (_, None) => (SimFault::KillNode, self.cluster.kill(now, node).map(|()| self.down = Some(node))),
            (_, Some(down)) => {
                self.cluster.start_node(now, nodes().swap_remove(down as usize - 1));
                self.down = None;
                (SimFault::StartNode, Ok(()))
            }
        };
        if result.is_ok() {
            self.struck.insert(fault);
        }
    }

    fn end_trouble(&mut self) {
        self.trouble_one_in = 0;
        if let Some(down) = self.down.take() {
            self.cluster.start_node(self.since_start(), nodes().swap_remove(down as usize - 1));
        }
    }

    /// Sends the broker's responses.
    fn answer<A: Role, B: Role>(&mut self, a: &mut Client<A>, bs: &mut [Client<B>]) {
        while let Some(output) = self.outputs.pop_front().or_else(|| self.cluster.poll_send()) {
            let latency = self.latency();
            let (Output::Reply { connection, .. } | Output::Close { connection }) = &output;
            let Output::Reply { parts, .. } = &output else {
                self.hang_up(a, *connection);
                bs.iter_mut().for_each(|b| self.hang_up(b, *connection));
                continue;
            };
            let mut links = a.links.values_mut().chain(bs.iter_mut().flat_map(|b| b.links.values_mut()));
            let link = links.find(|l| l.broker == *connection);
            let Some(link) = link else {
                continue;
            };
            let (api, version) = link.asked.pop_front().unwrap();
            link.mute |= self.strikes(SimFault::Mute, self.mute_one_in);
            if link.mute {
                continue;
            }
            let times = 1 + usize::from(self.strikes(SimFault::Duplicate, self.twice_one_in));
            let at = link.down.back().map_or(Time(0), |(t, _)| *t).max(self.now + latency);
            let mut frame = parts.concat();
            if api == metadata::API.key && self.strikes(SimFault::DeniedTopics, self.deny_one_in) {
                deny_topics(&mut frame, version);
            }
            if self.strikes(SimFault::Damage, self.damage_one_in) {
                damage(&mut frame, api, link.known);
            }
            link.down.extend(std::iter::repeat_n((at, Bytes::from(frame)), times));
        }
    }

    fn hang_up<R: Role>(&mut self, client: &mut Client<R>, connection: Connection) {
        if let Some(id) = client.links.iter().find(|(_, l)| l.broker == connection).map(|(id, _)| *id) {
            client.links.remove(&id);
            client.network.handle_closed(self.now, id, None);
        }
    }

    /// Runs both clients until `done` or the time limit, and returns whether it was done.
    fn play<A: Role, B: Role>(
        &mut self,
        a: &mut Client<A>,
        b: &mut Client<B>,
        until: Duration,
        mut done: impl FnMut(&mut Self, &mut Client<A>, &mut Client<B>) -> bool,
    ) -> bool {
        self.play_many(a, std::slice::from_mut(b), until, |world, a, b| done(world, a, &mut b[0]))
    }

    /// The same with any number of clients of the second kind.
    fn play_many<A: Role, B: Role>(
        &mut self,
        a: &mut Client<A>,
        bs: &mut [Client<B>],
        until: Duration,
        mut done: impl FnMut(&mut Self, &mut Client<A>, &mut [Client<B>]) -> bool,
    ) -> bool {
        let end = self.now + until;
        while self.now < end {
            if done(self, a, bs) {
                return true;
            }
            self.trouble();
            let mut next = bs.iter_mut().fold(self.run(a), |next, b| earliest(next, self.run(b)));
            self.cluster.handle_timeout(self.since_start());
            self.answer(a, bs);
            let broker = self.cluster.next_timeout().map(|d| Time(d.as_micros() as u64 + 1));
            let links = a.links.values().chain(bs.iter().flat_map(|b| b.links.values()));
            let replies = links.filter_map(|l| l.down.front()).map(|(t, _)| *t).min();
            next = earliest(earliest(next, broker), replies);
            // The story itself has no timers: it is asked again soon.
            let soon = self.now + self.look_every;
            self.now = next.unwrap_or(soon).max(self.now + Duration::from_micros(1)).min(soon);
        }
        false
    }
}

/// Makes a metadata response deny its topics.
fn deny_topics(frame: &mut Vec<u8>, version: i16) {
    let body = 8 + usize::from(metadata::API.is_flexible(version));
    let mut response: metadata::Response = api::decode(version, Bytes::copy_from_slice(&frame[body..])).unwrap();
    for topic in &mut response.topics {
        topic.error_code = ErrorCode::UNKNOWN_TOPIC_OR_PARTITION;
        topic.partitions.clear();
    }
    frame.truncate(body);
    frame.extend_from_slice(&encode(version, &response).unwrap());
    let length = frame.len() as u32 - 4;
    frame[..4].copy_from_slice(&length.to_be_bytes());
}

/// Damages the length of a response, or truncates it. The first response of a broker keeps its length, because the
/// client would otherwise not treat the peer as a broker.
fn damage(frame: &mut Vec<u8>, api: i16, known: bool) {
    const CUT_SHORT: [i16; 14] = [
        produce::API.key,
        fetch::API.key,
        find_coordinator::API.key,
        list_offsets::API.key,
        offset_commit::API.key,
        offset_fetch::API.key,
        join_group::API.key,
        heartbeat::API.key,
        sync_group::API.key,
        init_producer_id::API.key,
        add_partitions_to_txn::API.key,
        end_txn::API.key,
        consumer_group_heartbeat::API.key,
        share_group_heartbeat::API.key,
    ];
    if CUT_SHORT.contains(&api) {
        frame.pop();
        let length = frame.len() as u32 - 4;
        frame[..4].copy_from_slice(&length.to_be_bytes());
    } else if known {
        frame[0] ^= 0x10;
    }
}

fn producer_config(idempotent: bool, seed: u64) -> ProducerConfig {
    ProducerConfig {
        acks: -1,
        linger: Duration::from_millis(seed % 3),
        batch_size: 600,
        buffer_memory: 1 << 20,
        max_request_size: 1 << 20,
        compression: [Compression::None, Compression::Lz4][seed as usize % 2].into(),
        delivery_timeout: Duration::from_secs(60),
        request_timeout: Duration::from_secs(5),
        max_block: Duration::from_secs(30),
        retry_backoff: (Duration::from_millis(50), Duration::from_secs(1)),
        retries: u32::MAX,
        idempotent,
        idempotence_required: idempotent,
        transactions: None,
        partitioner: Partitioner::Murmur2,
        adaptive: true,
        max_in_flight: 5,
        metadata_max_idle: Duration::from_secs(300),
        seed,
    }
}

/// Returns a record of these scenarios.
fn record(partition: Option<i32>, value: &[u8]) -> NewRecord<'_> {
    let timestamp = 1_700_000_000_000;
    NewRecord { partition, timestamp, has_explicit_timestamp: false, key: None, value: Some(value), headers: &[] }
}

fn consumer_config(read_committed: bool) -> ConsumerConfig {
    ConsumerConfig {
        group: None,
        reset: Reset::Earliest,
        started_ms: 1_700_000_000_000,
        auto_commit: None,
        offsets_retention: None,
        min_bytes: 1,
        max_wait: Duration::from_millis(500),
        max_bytes: 1 << 20,
        max_partition_bytes: 2000,
        prefetch_bytes: 8000,
        check_crcs: true,
        read_committed,
        rack: String::new(),
        replica_max_age: Duration::from_secs(300),
        retry_backoff: (Duration::from_millis(50), Duration::from_secs(1)),
        request_timeout: Duration::from_secs(5),
        api_timeout: Duration::from_secs(60),
        decompress_limit: 1 << 20,
    }
}
