//! The producer: records gather in batches, batches of several partitions go to their leader in one request, failures
//! are tried again in order, and every record has exactly one outcome.
//!
//! A record's way: `append` → the partition's open batch (or a queue of its topic while the topic is unknown) → closed
//! when full, when it lingered long enough or when the connection is idle → `Packet` → in flight → an [`Event`].
//!
//! With `linger` 0 a lone record leaves at once; while two requests to the same broker are in flight, further records
//! gather instead, so that a busy producer sends large batches without being told to wait.

mod accumulate;
mod batch;
mod identity;
mod partitioner;

pub use accumulate::NewRecord;
pub use batch::Delivery;
pub use partitioner::{murmur2, partition_of};

use super::ops::UNKNOWN_TOPIC_GRACE;
use super::{Answer, Backoff, Call, Cluster, Error, ErrorKind, Outgoing, Reply, Role, Target, Time, Wish, earliest};
use crate::api::{ErrorCode, Info, init_producer_id, produce};
use crate::compress::Compression;
use crate::record::Producer as ProducedAs;
use crate::wire::{Uuid, Wire, Writer};
use accumulate::Topic;
use batch::{Batch, Partition};
use identity::Identity;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// The first version of Produce that takes record batches of magic 2 (Kafka 0.11).
const MIN_PRODUCE: i16 = 3;
/// Requests in flight to a broker beyond which open batches go on filling although `linger` is 0.
const EAGER_IN_FLIGHT: usize = 2;

/// What a producer needs to know.
#[derive(Clone, Debug)]
pub struct ProducerConfig {
    /// 0: the broker does not answer; 1: the leader has it; -1: all in-sync replicas have it.
    pub acks: i16,
    /// How long a batch waits for more records.
    pub linger: Duration,
    /// A batch that reaches this size is sent, bytes.
    pub batch_size: usize,
    /// Bytes of records that may wait or be in flight.
    pub buffer_memory: usize,
    /// The largest request and record, bytes.
    pub max_request_size: usize,
    /// How batches are compressed.
    pub compression: Compression,
    /// From `append` to the outcome, at most.
    pub delivery_timeout: Duration,
    /// How long the broker may wait for replicas, and the client for the broker.
    pub request_timeout: Duration,
    /// How long a record may wait for its topic to be known.
    pub max_block: Duration,
    /// The first and the longest wait before trying again.
    pub retry_backoff: (Duration, Duration),
    /// How often a batch is tried again.
    pub retries: u32,
    /// Whether the broker drops duplicates of retries (KIP-98).
    pub idempotent: bool,
    /// Requests in flight to one broker, at most.
    pub max_in_flight: usize,
    /// Seed of the jitter and of the first sticky partition.
    pub seed: u64,
}

/// What became of a batch.
#[derive(Debug)]
pub struct Event<D> {
    /// The topic.
    pub topic: Arc<str>,
    /// The partition; -1 if none was chosen.
    pub partition: i32,
    /// The records somebody waits for.
    pub deliveries: Vec<Delivery<D>>,
    /// Records nobody waits for.
    pub untracked: u64,
    /// The first record's offset (-1 if the broker did not say) and the log-append time (-1 for create time), or why not.
    pub result: Result<(i64, i64), Error>,
}

/// A batch in flight.
pub struct Flight<D> {
    topic: usize,
    partition: usize,
    batch: Batch<D>,
    producer: ProducedAs,
}

/// What an answer is matched with.
pub enum Token<D> {
    /// Batches, and what went wrong before they could be sent.
    Produce(Vec<Flight<D>>),
    /// InitProducerId.
    Identity,
}

/// A request before compression and checksums.
pub enum Packet<D> {
    /// Batches for one broker.
    Produce {
        /// The leader.
        node: i32,
        /// The batches, by topic.
        flights: Vec<Flight<D>>,
        /// Names and ids of their topics.
        names: HashMap<usize, (Arc<str>, Uuid)>,
        /// How to compress.
        compression: Compression,
        /// The request's `acks`.
        acks: i16,
        /// The broker's time.
        timeout: Duration,
        /// When to give up.
        deadline: Time,
    },
    /// Anything else.
    Ready(Outgoing<Token<D>>),
}

struct ProduceCall(produce::Request);

impl Call for ProduceCall {
    fn api(&self) -> &'static Info {
        &produce::API
    }
    fn put(&self, w: &mut Writer) {
        Wire::put(&self.0, w);
    }
    fn min_version(&self) -> i16 {
        MIN_PRODUCE
    }
    fn is_answered(&self) -> bool {
        self.0.acks != 0
    }
}

/// The machine. `D` is what a record's outcome is matched with.
pub struct Producer<D> {
    config: ProducerConfig,
    topics: Vec<Topic<D>>,
    by_name: HashMap<Arc<str>, usize>,
    /// Partitions with something to send.
    active: BTreeSet<(usize, usize)>,
    in_flight: HashMap<i32, usize>,
    identity: Identity,
    /// The topic of the last record.
    latest: usize,
    memory: usize,
    pressure: bool,
    generation: u64,
    outstanding: BTreeMap<u64, u64>,
    flush_below: u64,
    cluster: Arc<Cluster>,
    wish: Wish,
    events: VecDeque<Event<D>>,
    unreachable: Option<Error>,
}

impl<D> Producer<D> {
    /// A producer that has seen nothing.
    pub fn new(config: ProducerConfig) -> Self {
        let backoff = Backoff::new(config.retry_backoff.0, config.retry_backoff.1, config.seed);
        Self {
            identity: Identity::new(config.idempotent, backoff),
            topics: Vec::new(),
            by_name: HashMap::new(),
            active: BTreeSet::new(),
            in_flight: HashMap::new(),
            latest: 0,
            memory: 0,
            pressure: false,
            generation: 0,
            outstanding: BTreeMap::new(),
            flush_below: 0,
            cluster: Arc::default(),
            wish: Wish::default(),
            events: VecDeque::new(),
            unreachable: None,
            config,
        }
    }

    /// Sends what lingers, and gives the number that [`Producer::is_flushed`] wants.
    pub fn flush(&mut self) -> u64 {
        let flush = self.generation;
        self.generation += 1;
        self.flush_below = self.generation;
        flush
    }

    /// Whether everything appended before a flush has its outcome.
    pub fn is_flushed(&self, flush: u64) -> bool {
        self.outstanding.keys().next().is_none_or(|oldest| *oldest > flush)
    }

    /// Records without an outcome.
    pub fn outstanding(&self) -> u64 {
        self.outstanding.values().sum()
    }

    /// Whether a buffer that was full has room again.
    pub fn has_room(&self) -> bool {
        !self.pressure
    }

    /// The next outcome.
    pub fn poll_event(&mut self) -> Option<Event<D>> {
        self.events.pop_front()
    }

    /// Ends every record that is not in flight with an error; what is in flight still has its outcome.
    pub fn fail_all(&mut self, error: &Error) {
        for topic in 0..self.topics.len() {
            self.fail_waiting(topic, error);
        }
        for (topic, partition) in std::mem::take(&mut self.active) {
            let Some(p) = self.partition(topic, partition) else {
                continue;
            };
            p.close_open();
            for batch in std::mem::take(&mut p.queue) {
                self.settle(topic, partition, batch, Err(error.clone()));
            }
        }
    }

    fn partition(&mut self, topic: usize, partition: usize) -> Option<&mut Partition<D>> {
        self.topics.get_mut(topic)?.partitions.get_mut(partition)
    }

    /// A record's end: memory and flushes are told, the outcome goes out.
    fn settle(&mut self, topic: usize, partition: usize, batch: Batch<D>, result: Result<(i64, i64), Error>) {
        self.release(batch.bytes, batch.generation, batch.count as u64);
        let Some(t) = self.topics.get(topic) else {
            return;
        };
        let result = result.map_err(|e| e.at(&t.name, partition as i32));
        let untracked = batch.count as u64 - batch.deliveries.len() as u64;
        let event = Event {
            topic: t.name.clone(),
            partition: partition as i32,
            deliveries: batch.deliveries,
            untracked,
            result,
        };
        self.events.push_back(event);
    }

    fn release(&mut self, bytes: usize, generation: u64, records: u64) {
        self.memory = self.memory.saturating_sub(bytes);
        if self.memory <= self.config.buffer_memory / 2 {
            self.pressure = false;
        }
        if let Some(left) = self.outstanding.get_mut(&generation) {
            *left = left.saturating_sub(records);
            if *left == 0 {
                self.outstanding.remove(&generation);
            }
        }
    }

    /// Fails a batch for good. A sequence number that was used up leaves a gap, so the identity goes with it.
    fn fail(&mut self, topic: usize, partition: usize, batch: Batch<D>, error: Error) {
        if batch.producer.is_some() {
            self.identity.abandon();
        }
        self.settle(topic, partition, batch, Err(error));
    }

    fn is_due(&self, batch: &Batch<D>, node: i32, now: Time) -> bool {
        let eager = self.in_flight.get(&node).copied().unwrap_or(0) < EAGER_IN_FLIGHT;
        batch.generation < self.flush_below
            || self.pressure
            || (if self.config.linger.is_zero() { eager } else { now >= batch.created + self.config.linger })
    }

    /// The leader of a partition if something may be sent there now.
    fn sendable(&self, topic: usize, partition: usize, now: Time) -> Option<i32> {
        let t = self.topics.get(topic)?;
        let p = t.partitions.get(partition)?;
        let (node, _) = self.cluster.leader(&t.name, partition as i32)?;
        if p.retry_at > now || (p.recovering && p.in_flight > 0) {
            return None;
        }
        if self.in_flight.get(&node).copied().unwrap_or(0) >= self.config.max_in_flight {
            return None;
        }
        let due = !p.queue.is_empty() || p.open.as_ref().is_some_and(|open| self.is_due(open, node, now));
        due.then_some(node)
    }

    fn handle_produced(&mut self, now: Time, node: i32, flights: Vec<Flight<D>>, result: Result<Reply, Error>) {
        let acks = self.config.acks;
        if let Some(n) = self.in_flight.get_mut(&node) {
            *n = n.saturating_sub(1);
        }
        let response = match result {
            Ok(_) if acks == 0 => Ok(None),
            Ok(reply) => reply.decode::<produce::Response>().map(Some),
            Err(e) => Err(e),
        };
        for mut flight in flights {
            if let Some(p) = self.partition(flight.topic, flight.partition) {
                p.in_flight -= 1;
            }
            flight.batch.producer = Some(flight.producer).filter(|p| p.id >= 0);
            let result = match &response {
                Ok(None) => Ok((-1, -1)),
                Ok(Some(response)) => self.outcome_of(&flight, response),
                Err(e) => Err(e.clone()),
            };
            match result {
                Ok(found) => {
                    if let Some(p) = self.partition(flight.topic, flight.partition) {
                        p.recovering = false;
                    }
                    self.settle(flight.topic, flight.partition, flight.batch, Ok(found));
                }
                Err(error) => self.retry(now, flight, error),
            }
        }
        let in_flight = self.in_flight.values().sum();
        if self.identity.drained(in_flight) {
            self.restart_sequences();
        }
    }

    fn outcome_of(&self, flight: &Flight<D>, response: &produce::Response) -> Result<(i64, i64), Error> {
        let (name, id) = self.topics.get(flight.topic).map_or(("", Uuid::ZERO), |t| (&*t.name, t.id));
        let found = response
            .responses
            .iter()
            .filter(|t| if t.topic_id.is_zero() { t.name == name } else { t.topic_id == id })
            .flat_map(|t| &t.partition_responses)
            .find(|p| p.index == flight.partition as i32);
        let Some(p) = found else {
            return Err(Error::new(ErrorKind::Decode, format!("broker said nothing of {name}-{}", flight.partition)));
        };
        match p.error_code {
            ErrorCode::NONE => Ok((p.base_offset, p.log_append_time_ms)),
            // The broker has the batch, but no longer knows where.
            ErrorCode::DUPLICATE_SEQUENCE_NUMBER => Ok((-1, -1)),
            code => {
                let why = p.record_errors.iter().find_map(|e| e.batch_index_error_message.clone());
                let why = p.error_message.clone().or(why).map_or_else(String::new, |w| format!(" ({w})"));
                Err(Error::refused(code, format!("produce to {name}-{}{why}", flight.partition)))
            }
        }
    }

    fn retry(&mut self, now: Time, flight: Flight<D>, error: Error) {
        let Flight { topic, partition, mut batch, .. } = flight;
        let code = error.code().unwrap_or(ErrorCode::NONE);
        let restarts = match code {
            ErrorCode::UNKNOWN_PRODUCER_ID | ErrorCode::INVALID_PRODUCER_EPOCH => true,
            // Behind a batch that failed this is to be expected; in front of all others it means that the broker lost
            // what was acknowledged before.
            ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER => self.partition(topic, partition).is_some_and(|p| !p.recovering),
            _ => false,
        };
        let again = error.is_retriable() || restarts || code == ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER;
        let again = again && self.identity_allows(code);
        if code.is_stale_metadata() || error.kind() == ErrorKind::Network {
            self.wish.refresh = true;
        }
        if restarts {
            self.identity.abandon();
        }
        batch.attempts += 1;
        if !again || batch.attempts > self.config.retries || now >= batch.created + self.config.delivery_timeout {
            return self.fail(topic, partition, batch, error);
        }
        let (first, max) = self.config.retry_backoff;
        let wait = first.saturating_mul(1 << (batch.attempts - 1).min(16)).min(max);
        batch.error = Some(error);
        if let Some(p) = self.partition(topic, partition) {
            p.retry_at = now + wait;
            p.requeue(batch);
            self.active.insert((topic, partition));
        }
    }

    /// Without an identity, errors about identities are nothing a retry mends.
    fn identity_allows(&self, code: ErrorCode) -> bool {
        let about_identity = matches!(
            code,
            ErrorCode::UNKNOWN_PRODUCER_ID
                | ErrorCode::INVALID_PRODUCER_EPOCH
                | ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER
        );
        !about_identity || self.identity.is_idempotent()
    }

    fn restart_sequences(&mut self) {
        for p in self.topics.iter_mut().flat_map(|t| &mut t.partitions) {
            p.next_sequence = 0;
            p.recovering = true;
            for batch in &mut p.queue {
                batch.producer = None;
            }
        }
    }

    fn handle_identity(&mut self, now: Time, result: Result<Reply, Error>) {
        let tried = "get a producer id";
        let result = result
            .and_then(Reply::decode::<init_producer_id::Response>)
            .and_then(|r| r.error_code.check().map(|()| r).map_err(|code| Error::refused(code, tried)));
        match result {
            Ok(r) => self.identity.known(r.producer_id, r.producer_epoch),
            Err(e) => {
                self.identity.refused(now);
                if !e.is_retriable() {
                    self.fail_all(&e);
                }
            }
        }
    }

    /// What may no longer wait: batches and records whose time is over.
    fn expire(&mut self, now: Time) {
        let limit = self.config.delivery_timeout;
        for (topic, partition) in self.active.clone() {
            let Some(p) = self.partition(topic, partition) else {
                continue;
            };
            if p.open.as_ref().is_some_and(|b| b.created + limit <= now) {
                p.close_open();
            }
            while let Some(p) = self.partition(topic, partition) {
                let Some(batch) = p.queue.pop_front_if(|b| b.created + limit <= now) else {
                    break;
                };
                let error = self.timed_out("delivery.timeout.ms", limit, batch.error.clone());
                self.fail(topic, partition, batch, error);
            }
            if self.partition(topic, partition).is_some_and(|p| p.is_idle()) {
                self.active.remove(&(topic, partition));
            }
        }
        if self.identity.drained(self.in_flight.values().sum()) {
            self.restart_sequences();
        }
    }

    fn timed_out(&self, bound: &str, limit: Duration, why: Option<Error>) -> Error {
        let message = format!("record was not acknowledged within {bound} ({} ms)", limit.as_millis());
        match why.or_else(|| self.unreachable.clone()) {
            Some(e) => Error::new(ErrorKind::Timeout, format!("{message}: {}", e.message()))
                .with_hint(e.hint().unwrap_or("check the brokers and the network")),
            None => Error::new(ErrorKind::Timeout, message).with_hint("check the brokers and the network"),
        }
    }

    fn expire_waiting(&mut self, now: Time) {
        let limit = self.config.max_block.min(self.config.delivery_timeout);
        for topic in 0..self.topics.len() {
            let Some(t) = self.topics.get(topic) else {
                continue;
            };
            let Some(since) = t.waiting_since() else {
                continue;
            };
            let code = self.cluster.topics.get(&t.name).map_or(ErrorCode::NONE, |known| known.error);
            let unknown =
                code == ErrorCode::UNKNOWN_TOPIC_OR_PARTITION && now >= since + UNKNOWN_TOPIC_GRACE.min(limit);
            if unknown || (code.is_error() && !code.is_retriable()) {
                let error = Error::refused(code, format!("produce to topic {:?}", t.name));
                self.fail_waiting(topic, &error);
            } else if now >= since + limit {
                let why = Some(code).filter(|c| c.is_error()).map(|c| Error::refused(c, format!("topic {:?}", t.name)));
                let error = self.timed_out("max.block.ms", limit, why);
                self.fail_waiting(topic, &error);
            }
        }
    }
}

impl<D: Send> Role for Producer<D> {
    type Token = Token<D>;
    type Packet = Packet<D>;
    type Prepared = Answer<Token<D>>;

    fn pack(packet: Packet<D>) -> Outgoing<Token<D>> {
        let (node, mut flights, names, compression, acks, timeout, deadline) = match packet {
            Packet::Ready(outgoing) => return outgoing,
            Packet::Produce { node, flights, names, compression, acks, timeout, deadline } => {
                (node, flights, names, compression, acks, timeout, deadline)
            }
        };
        let mut topics: Vec<(usize, produce::TopicData)> = Vec::new();
        for flight in &mut flights {
            // A batch that cannot be compressed goes as it is: the codec was checked when the client was configured.
            let sealed = flight.batch.seal(compression, flight.producer);
            let records = sealed.or_else(|_| flight.batch.seal(Compression::None, flight.producer)).ok();
            let data = produce::PartitionData { index: flight.partition as i32, records };
            match topics.iter_mut().find(|(topic, _)| *topic == flight.topic) {
                Some((_, t)) => t.partition_data.push(data),
                None => {
                    let (name, topic_id) = names.get(&flight.topic).cloned().unwrap_or_default();
                    let t = produce::TopicData { name: name.to_string(), topic_id, partition_data: vec![data] };
                    topics.push((flight.topic, t));
                }
            }
        }
        let request = produce::Request {
            transactional_id: None,
            acks,
            timeout_ms: i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX),
            topic_data: topics.into_iter().map(|(_, t)| t).collect(),
        };
        // From version 13 on topics go by id alone.
        let max_version = if names.values().any(|(_, id)| id.is_zero()) { 12 } else { i16::MAX };
        let token = Token::Produce(flights);
        Outgoing { target: Target::Node(node), call: Box::new(ProduceCall(request)), token, deadline, max_version }
    }

    fn prepare(answer: Answer<Token<D>>) -> Answer<Token<D>> {
        answer
    }

    fn handle_answer(&mut self, now: Time, answer: Answer<Token<D>>) {
        match answer.token {
            Token::Identity => self.handle_identity(now, answer.result),
            Token::Produce(flights) => self.handle_produced(now, answer.node, flights, answer.result),
        }
    }

    fn handle_cluster(&mut self, now: Time, cluster: &Arc<Cluster>) {
        self.cluster = cluster.clone();
        self.unreachable = None;
        for topic in 0..self.topics.len() {
            self.settle_topic(now, topic);
        }
        self.expire_waiting(now);
    }

    fn handle_unreachable(&mut self, _now: Time, error: &Error) {
        self.unreachable = Some(error.clone());
    }

    fn poll_send(&mut self, now: Time) -> Option<Packet<D>> {
        if self.active.is_empty() {
            return None;
        }
        if self.identity.ask(now) {
            let request = init_producer_id::Request { transactional_id: None, ..Default::default() };
            return Some(Packet::Ready(Outgoing {
                target: Target::Any,
                call: Box::new(request),
                token: Token::Identity,
                deadline: now + self.config.request_timeout,
                max_version: i16::MAX,
            }));
        }
        self.identity.producer(0)?;
        let node = self.active.iter().find_map(|(t, p)| self.sendable(*t, *p, now))?;
        let mut flights = Vec::new();
        let mut names = HashMap::new();
        let (mut size, mut deadline) = (0, now + self.config.request_timeout);
        let led: Vec<(usize, usize)> = self.active.iter().copied().collect();
        for (topic, partition) in led {
            let Some(t) = self.topics.get_mut(topic) else {
                continue;
            };
            let Some(p) = t.partitions.get_mut(partition) else {
                continue;
            };
            let leader = self.cluster.leader(&t.name, partition as i32);
            let held = p.retry_at > now || (p.recovering && p.in_flight > 0);
            if held || leader.is_none_or(|(leader, _)| leader != node) {
                continue;
            }
            if p.queue.is_empty() {
                p.close_open();
            }
            let room = self.config.max_request_size.saturating_sub(size);
            let Some(batch) = p.queue.pop_front_if(|b| flights.is_empty() || b.size() <= room) else {
                continue;
            };
            let producer = match batch.producer {
                Some(producer) => producer,
                None => {
                    let sequence = p.next_sequence;
                    // Sequence numbers go from the largest back to 0.
                    p.next_sequence = (sequence.wrapping_add(batch.count)) & i32::MAX;
                    self.identity.producer(sequence)?
                }
            };
            size += batch.size();
            deadline = deadline.min(batch.created + self.config.delivery_timeout);
            p.in_flight += 1;
            names.entry(topic).or_insert_with(|| (t.name.clone(), t.id));
            flights.push(Flight { topic, partition, batch, producer });
            if p.is_idle() {
                self.active.remove(&(topic, partition));
            }
        }
        *self.in_flight.entry(node).or_default() += 1;
        let (compression, acks, timeout) = (self.config.compression, self.config.acks, self.config.request_timeout);
        Some(Packet::Produce { node, flights, names, compression, acks, timeout, deadline })
    }

    fn poll_wish(&mut self) -> Option<Wish> {
        (self.wish != Wish::default()).then(|| std::mem::take(&mut self.wish))
    }

    fn next_timeout(&self, now: Time) -> Option<Time> {
        let limit = self.config.delivery_timeout;
        let mut next = None;
        let mut at = |time: Time| next = earliest(next, Some(time).filter(|t| *t > now));
        if !self.active.is_empty() {
            self.identity.next_timeout().into_iter().for_each(&mut at);
        }
        for (topic, partition) in &self.active {
            let Some(p) = self.topics.get(*topic).and_then(|t| t.partitions.get(*partition)) else {
                continue;
            };
            if let Some(open) = &p.open {
                at(open.created + self.config.linger);
                at(open.created + limit);
            }
            if let Some(front) = p.queue.front() {
                at(front.created + limit);
                at(p.retry_at);
            }
        }
        let wait = self.config.max_block.min(limit);
        for t in &self.topics {
            if let Some(since) = t.waiting_since() {
                at(since + wait);
                at(since + UNKNOWN_TOPIC_GRACE);
            }
        }
        next
    }

    fn handle_timeout(&mut self, now: Time) {
        self.expire(now);
        self.expire_waiting(now);
    }
}
