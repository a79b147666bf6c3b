//! Clients and the dev broker under a clock of their own: links with latency that are cut at random, seeds that replay.
//!
//! The world is one queue of events. Nothing waits: time jumps to whatever is due next, so a scenario of minutes takes
//! milliseconds. What must hold whatever happens is asserted at the end of each scenario, with the seed in the message.

use bytes::Bytes;
use klamm::broker::{Cluster, Connection, Node, Options, Output};
use klamm::compress::Compression;
use klamm::engine::consumer::{Consumer, ConsumerConfig, Reset};
use klamm::engine::producer::{NewRecord, Partitioner, Producer, ProducerConfig};
use klamm::engine::{Action, ConnectionId, Network, NetworkConfig, Role, Time, earliest};
use klamm::frame::Frames;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

const NODES: i32 = 3;
const PARTITIONS: i32 = 3;
const SEEDS: u64 = 300;

/// Xorshift: scenarios need to differ and to repeat, not to be unpredictable.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % n
    }
}

/// One TCP connection: what is under way in both directions, in order.
struct Link {
    broker: Connection,
    node: i32,
    stands: bool,
    connected_at: Time,
    up: VecDeque<(Time, Bytes)>,
    down: VecDeque<(Time, Bytes)>,
    frames: Frames,
}

struct Client<R: Role> {
    network: Network<R::Token>,
    role: R,
    links: BTreeMap<ConnectionId, Link>,
}

struct World {
    now: Time,
    random: Random,
    cluster: Cluster,
    next_connection: u64,
    /// One in so many deliveries cuts its link; 0 for none.
    cut_one_in: u64,
}

fn nodes() -> Vec<Node> {
    (1..=NODES).map(|id| Node { id, host: "sim".to_owned(), port: 9000 + id as u16 }).collect()
}

impl World {
    fn new(seed: u64, cut_one_in: u64) -> Self {
        let options = Options { nodes: NODES as usize, default_partitions: PARTITIONS, ..Options::default() };
        let cluster = Cluster::new(&options, nodes(), 1_700_000_000_000, seed);
        Self { now: Time(0), random: Random(seed.wrapping_mul(2) | 1), cluster, next_connection: 0, cut_one_in }
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
            client_id: "sim".to_owned(),
            request_timeout: Duration::from_secs(5),
            setup_timeout: Duration::from_secs(2),
            reconnect_backoff: (Duration::from_millis(50), Duration::from_secs(1)),
            retry_backoff: (Duration::from_millis(100), Duration::from_secs(1)),
            metadata_max_age: Duration::from_secs(300),
            allow_auto_topic_creation: true,
            max_frame: 1 << 24,
            seed: 1,
        };
        Client { network: Network::new(network), role, links: BTreeMap::new() }
    }

    /// Delivers what is due for a client, lets it work, and says when it has something to do next.
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
        if let Some(wish) = client.role.poll_wish() {
            client.network.wish(now, wish);
        }
        while let Some(packet) = client.role.poll_send(now) {
            client.network.submit(now, R::pack(packet));
        }
        let mut more = false;
        while let Some(action) = client.network.poll_action() {
            more = true;
            self.act(client, action);
        }
        while let Some(answer) = client.network.poll_answer() {
            more = true;
            client.role.handle_answer(now, R::prepare(answer));
        }
        if let Some(cluster) = client.network.poll_cluster() {
            more = true;
            client.role.handle_cluster(now, &cluster);
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
                client.links.insert(id, Link { broker, node, stands: false, connected_at, up, down, frames });
            }
            Action::Send(id, bytes) => {
                let latency = self.latency();
                if let Some(link) = client.links.get_mut(&id) {
                    let at = link.up.back().map_or(Time(0), |(t, _)| *t).max(self.now + latency);
                    link.up.push_back((at, bytes));
                }
            }
            Action::Close(id) => self.cut(client, id),
        }
    }

    fn cut<R: Role>(&mut self, client: &mut Client<R>, id: ConnectionId) {
        if let Some(link) = client.links.remove(&id) {
            self.cluster.disconnect(link.broker);
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
                link.stands = true;
                self.cluster.connect(link.node, link.broker);
                client.network.handle_connected(now, id);
            }
            while let Some(link) = client.links.get_mut(&id)
                && let Some((_, bytes)) = link.up.pop_front_if(|(t, _)| *t <= now)
            {
                link.frames.buffer().extend_from_slice(&bytes);
                while let Ok(Some(frame)) = link.frames.next_frame() {
                    self.cluster.handle(Duration::from_micros(now.0), link.broker, frame);
                }
                self.lose_one_in(client, id);
            }
            while let Some(link) = client.links.get_mut(&id)
                && let Some((_, bytes)) = link.down.pop_front_if(|(t, _)| *t <= now)
            {
                if let Some(buffer) = client.network.buffer(id) {
                    // Half of the bytes arrive before a cut in mid-frame.
                    let cut = self.cut_one_in > 0 && self.random.below(self.cut_one_in) == 0;
                    buffer.extend_from_slice(if cut { &bytes[..bytes.len() / 2] } else { &bytes });
                    client.network.handle_received(now, id);
                    if cut {
                        self.cut(client, id);
                        client.network.handle_closed(now, id, None);
                    }
                }
            }
        }
    }

    fn lose_one_in<R: Role>(&mut self, client: &mut Client<R>, id: ConnectionId) {
        if self.cut_one_in > 0 && self.random.below(self.cut_one_in) == 0 {
            self.cut(client, id);
            client.network.handle_closed(self.now, id, Some("cut".to_owned()));
        }
    }

    /// Puts the broker's answers on their way.
    fn answer<A: Role, B: Role>(&mut self, a: &mut Client<A>, b: &mut Client<B>) {
        while let Some(output) = self.cluster.poll_send() {
            let latency = self.latency();
            let (Output::Reply { connection, .. } | Output::Close { connection }) = &output;
            let link = a.links.values_mut().chain(b.links.values_mut()).find(|l| l.broker == *connection);
            let (Some(link), Output::Reply { parts, .. }) = (link, &output) else {
                continue;
            };
            let at = link.down.back().map_or(Time(0), |(t, _)| *t).max(self.now + latency);
            link.down.push_back((at, parts.concat().into()));
        }
    }

    /// Runs both clients until `done` or the end of time; says whether it was done.
    fn play<A: Role, B: Role>(
        &mut self,
        a: &mut Client<A>,
        b: &mut Client<B>,
        until: Duration,
        mut done: impl FnMut(&mut Self, &mut Client<A>, &mut Client<B>) -> bool,
    ) -> bool {
        let end = self.now + until;
        while self.now < end {
            if done(self, a, b) {
                return true;
            }
            let mut next = earliest(self.run(a), self.run(b));
            self.cluster.handle_timeout(self.since_start());
            self.answer(a, b);
            let broker = self.cluster.next_timeout().map(|d| Time(d.as_micros() as u64 + 1));
            let replies =
                a.links.values().chain(b.links.values()).filter_map(|l| l.down.front()).map(|(t, _)| *t).min();
            next = earliest(earliest(next, broker), replies);
            // The story itself has no timers: it is asked again soon.
            let soon = self.now + Duration::from_millis(5);
            self.now = next.unwrap_or(soon).max(self.now + Duration::from_micros(1)).min(soon);
        }
        false
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
        seed,
    }
}

fn consumer_config() -> ConsumerConfig {
    ConsumerConfig {
        group: None,
        reset: Reset::Earliest,
        auto_commit: None,
        min_bytes: 1,
        max_wait: Duration::from_millis(500),
        max_bytes: 1 << 20,
        max_partition_bytes: 2000,
        prefetch_bytes: 8000,
        check_crcs: true,
        read_committed: false,
        rack: String::new(),
        retry_backoff: (Duration::from_millis(50), Duration::from_secs(1)),
        request_timeout: Duration::from_secs(5),
        api_timeout: Duration::from_secs(60),
        decompress_limit: 1 << 20,
    }
}

/// What one scenario did: the log of each partition as a reader saw it, and each record's outcome.
struct Story {
    log: BTreeMap<i32, Vec<u32>>,
    acknowledged: HashMap<u32, (i32, i64)>,
    failed: usize,
    sent: u32,
    read_offsets: BTreeMap<i32, Vec<i64>>,
}

/// Produces `count` records through links that break, then reads everything through links that break.
fn tell(seed: u64, idempotent: bool, count: u32) -> Story {
    let mut world = World::new(seed, 40 + seed % 60);
    let mut writer = world.client(Producer::<u32>::new(producer_config(idempotent, seed)));
    let mut reader = world.client(Consumer::<u32>::new(consumer_config()));
    let mut story =
        Story { log: BTreeMap::new(), acknowledged: HashMap::new(), failed: 0, sent: 0, read_offsets: BTreeMap::new() };
    let mut next_send = Time(0);
    let settled = world.play(&mut writer, &mut reader, Duration::from_secs(600), |world, writer, _| {
        while story.sent < count && next_send <= world.now {
            let value = story.sent.to_be_bytes();
            let record = NewRecord {
                topic: "t",
                partition: Some((story.sent % PARTITIONS as u32) as i32),
                timestamp: 1_700_000_000_000,
                key: None,
                value: Some(&value),
                headers: &[],
            };
            writer.role.append(world.now, &record, Some(story.sent)).unwrap();
            story.sent += 1;
            next_send = world.now + Duration::from_micros(world.random.below(3_000));
        }
        while let Some(event) = writer.role.poll_event() {
            for d in event.deliveries {
                match &event.result {
                    Ok((base, _)) => {
                        let at = if *base < 0 { -1 } else { base + i64::from(d.index) };
                        assert!(story.acknowledged.insert(d.ticket, (event.partition, at)).is_none(), "two outcomes");
                    }
                    Err(_) => story.failed += 1,
                }
            }
        }
        story.sent == count && writer.role.outstanding() == 0
    });
    assert!(settled, "seed {seed}: {} records have no outcome", writer.role.outstanding());
    world.cut_one_in *= 2;
    reader.role.subscribe(world.now, vec!["t".to_owned()]);
    let wanted = story.acknowledged.len();
    let mut quiet = None;
    world.play(&mut writer, &mut reader, Duration::from_secs(600), |world, _, reader| {
        while let Ok(slices) = reader.role.poll_records(7, usize::MAX) {
            if slices.is_empty() {
                break;
            }
            for slice in slices {
                for record in &slice.records {
                    let value = record.value(&slice.data).and_then(|v| v.try_into().ok()).map(u32::from_be_bytes);
                    story.log.entry(slice.partition).or_default().push(value.unwrap());
                    story.read_offsets.entry(slice.partition).or_default().push(record.offset);
                }
            }
        }
        let read: usize = story.log.values().map(Vec::len).sum();
        // A few seconds more than it takes to read the rest, to see whether something comes twice.
        if read >= wanted {
            quiet.get_or_insert(world.now);
        }
        quiet.is_some_and(|q| world.now > q + Duration::from_secs(3))
    });
    story
}

#[test]
fn a_flush_covers_records_whose_topic_was_not_known_yet() {
    let mut world = World::new(1, 0);
    let mut writer = world.client(Producer::<u32>::new(producer_config(true, 1)));
    let mut reader = world.client(Consumer::<u32>::new(consumer_config()));
    let record = NewRecord { topic: "t", partition: None, timestamp: 1, key: None, value: Some(b"v"), headers: &[] };
    for ticket in 0..10 {
        writer.role.append(world.now, &record, Some(ticket)).unwrap();
    }
    let flush = writer.role.flush();
    let mut outcomes = 0;
    let flushed = world.play(&mut writer, &mut reader, Duration::from_secs(60), |_, writer, _| {
        outcomes += std::iter::from_fn(|| writer.role.poll_event()).map(|e| e.deliveries.len()).sum::<usize>();
        writer.role.is_flushed(flush)
    });
    assert!(flushed);
    assert_eq!(outcomes, 10);
}

#[test]
fn with_idempotence_every_acknowledged_record_is_in_the_log_once_and_in_order() {
    for seed in 0..SEEDS {
        let story = tell(seed, true, 120);
        assert_eq!(story.failed, 0, "seed {seed}: nothing may fail within the delivery timeout");
        for (partition, log) in &story.log {
            assert!(log.is_sorted_by(|a, b| a < b), "seed {seed}: partition {partition} holds {log:?}");
        }
        let logged: usize = story.log.values().map(Vec::len).sum();
        assert_eq!(logged, story.sent as usize, "seed {seed}");
    }
}

#[test]
fn without_idempotence_every_acknowledged_record_is_in_the_log_at_least_once() {
    for seed in 0..SEEDS {
        let story = tell(seed, false, 60);
        assert_eq!(story.acknowledged.len() + story.failed, story.sent as usize, "seed {seed}");
        for (record, (partition, _)) in &story.acknowledged {
            let log = story.log.get(partition).map(Vec::as_slice).unwrap_or_default();
            assert!(log.contains(record), "seed {seed}: record {record} is not in partition {partition}: {log:?}");
        }
    }
}

#[test]
fn an_acknowledged_offset_is_where_the_record_lies_and_readers_skip_nothing() {
    for seed in 0..SEEDS {
        let story = tell(seed, true, 60);
        for (partition, offsets) in &story.read_offsets {
            let expected: Vec<i64> = (0..offsets.len() as i64).collect();
            assert_eq!(*offsets, expected, "seed {seed}: partition {partition}");
        }
        for (record, (partition, offset)) in &story.acknowledged {
            if *offset >= 0 {
                assert_eq!(story.log[partition][*offset as usize], *record, "seed {seed}");
            }
        }
    }
}
