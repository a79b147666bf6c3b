//! The producer: records gather in batches, batches of several partitions go to their leader in one request, failures
//! are tried again in order, and every record has exactly one outcome.
//!
//! A record's way: `append` → the partition's open batch (or a queue of its topic while the topic is unknown) → closed
//! when full, when it lingered long enough or when the connection is idle → `Packet` → in flight → an [`Event`].
//!
//! ```text
//! accumulate    records into batches           partitioner   which partition
//! bulk          the same for many at a time
//! send          batches into requests          identity      ids, epochs and sequences without transactions
//! outcome       answers into events, or again  transaction   and with them
//! outstanding   what a flush waits for         pace          how far bulk calls run ahead
//! ```
//!
//! With `linger` 0 a lone record leaves at once; while two requests to the same broker are in flight, further records
//! gather instead, so that a busy producer sends large batches without being told to wait.

mod accumulate;
mod batch;
mod bulk;
mod identity;
mod metrics;
mod outcome;
mod outstanding;
mod pace;
mod partitioner;
mod send;
mod transaction;

pub use accumulate::{NewRecord, TopicIndex};
pub use batch::Delivery;
pub use metrics::{BrokerMetrics, Metrics, TopicMetrics};
pub use partitioner::{Partitioner, crc32_partition_of, fnv1a_partition_of, murmur2, partition_of};
pub use send::Packet;

use super::ops::{Completion, Op, OpToken, Ops, Output, UNKNOWN_TOPIC_GRACE};
use super::{Backoff, ClientResponse, Cluster, Error, ErrorKind, MetadataDemand, Outgoing, Role, Time, earliest};
use crate::compress::Codec;
use crate::record::Producer as ProducedAs;
use accumulate::{Topic, TopicState};
use batch::{Batch, Partition};
use identity::Identity;
use outstanding::Outstanding;
use pace::Pace;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use transaction::{Settings, Step, Transactions};

/// Buffers kept for the next batches.
const MAX_SPARE: usize = 16;

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
    pub compression: Codec,
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
    /// Whether brokers that cannot do that are an error, instead of doing without.
    pub idempotence_required: bool,
    /// Who the producer is over restarts, if it has transactions, and how long one may stay open.
    pub transactions: Option<(Arc<str>, Duration)>,
    /// Which partition a record goes to that names none.
    pub partitioner: Partitioner,
    /// Whether records without a key avoid partitions that are slow (KIP-794).
    pub adaptive: bool,
    /// Requests in flight to one broker, at most.
    pub max_in_flight: usize,
    /// For how long a topic is kept known to which nothing is sent.
    pub metadata_max_idle: Duration,
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
    /// Counts what was sent to the partition.
    number: u64,
    batch: Batch<D>,
    producer: ProducedAs,
}

/// What is there of a batch in flight until its time is over, by when that is, its partition, and its number there.
type Flying<D> = BTreeMap<(Time, usize, usize, u64), Waits<D>>;

/// Whoever waits for the outcome of a batch in flight.
struct Waits<D> {
    deliveries: Vec<Delivery<D>>,
    count: i32,
    generation: u64,
    /// Why the attempt before failed.
    error: Option<Error>,
}

/// A request with batches.
pub struct Sent<D> {
    flights: Vec<Flight<D>>,
    at: Time,
    /// What the batches take in it.
    bytes: u64,
}

/// What an answer is matched with.
pub enum ProducerToken<D> {
    /// Batches.
    Produce(Sent<D>),
    /// InitProducerId of a producer without transactions.
    Identity,
    /// A step of a transaction.
    Transaction(Step),
    /// A request of an operation.
    Op(OpToken),
}

/// The machine. `D` is what a record's outcome is matched with.
pub struct Producer<D> {
    config: ProducerConfig,
    topics: Vec<Topic<D>>,
    /// Places of topics that were never there.
    vacant: Vec<usize>,
    by_name: HashMap<Arc<str>, usize>,
    /// Partitions with something to send.
    active: BTreeSet<(usize, usize)>,
    in_flight: HashMap<i32, usize>,
    flying: Flying<D>,
    /// Until when brokers asked not to be sent anything (KIP-219).
    throttled: HashMap<i32, Time>,
    identity: Identity,
    transactions: Option<Transactions>,
    brokers: BTreeMap<i32, BrokerMetrics>,
    /// The topic of the last record.
    latest: usize,
    memory: usize,
    /// Where records of a call go that brings many, and the most that each takes: memory that is used again.
    places: Vec<(u32, u32)>,
    /// Memory of batches that were acknowledged, for the next ones: fresh memory costs a fault for each page.
    spare: Vec<Vec<u8>>,
    pressure: bool,
    pace: Pace,
    generation: u64,
    outstanding: Outstanding,
    flush_below: u64,
    cluster: Arc<Cluster>,
    demand: MetadataDemand,
    events: VecDeque<Event<D>>,
    ops: Ops<Completion>,
    unreachable: Option<Error>,
}

impl<D> Producer<D> {
    /// A producer that has seen nothing.
    pub fn new(config: ProducerConfig) -> Self {
        let backoff = Backoff::new(config.retry_backoff.0, config.retry_backoff.1, config.seed);
        let transactions = config.transactions.clone().map(|(id, timeout)| {
            let settings = Settings {
                id,
                timeout,
                request_timeout: config.request_timeout,
                init_timeout: config.max_block,
                end_timeout: config.delivery_timeout,
            };
            Transactions::new(settings, backoff.clone())
        });
        Self {
            identity: Identity::new(config.idempotent, transactions.is_some(), backoff),
            transactions,
            throttled: HashMap::new(),
            brokers: BTreeMap::new(),
            topics: Vec::new(),
            vacant: Vec::new(),
            by_name: HashMap::new(),
            active: BTreeSet::new(),
            in_flight: HashMap::new(),
            flying: BTreeMap::new(),
            latest: 0,
            memory: 0,
            places: Vec::new(),
            spare: Vec::new(),
            pressure: false,
            pace: Pace::default(),
            generation: 0,
            outstanding: Outstanding::default(),
            flush_below: 0,
            cluster: Arc::default(),
            demand: MetadataDemand::default(),
            events: VecDeque::new(),
            ops: Ops::new(config.retry_backoff),
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
        self.outstanding.oldest().is_none_or(|oldest| oldest > flush)
    }

    /// Records without an outcome.
    pub fn outstanding(&self) -> u64 {
        self.outstanding.count()
    }

    /// Whether there is one record without an outcome, and nothing keeps it back.
    pub fn is_lone(&self) -> bool {
        self.config.linger.is_zero() && self.outstanding.count() == 1
    }

    /// Whether a buffer that was full has room again.
    pub fn has_room(&self) -> bool {
        !self.pressure
    }

    /// Why a batch that is to be sent again was not taken, if there is one.
    pub fn last_refusal(&self) -> Option<&Error> {
        let partitions = self.topics.iter().flat_map(|t| &t.partitions);
        partitions.flat_map(|p| &p.queue).find_map(|batch| batch.error.as_ref())
    }

    /// Whether a call that brings many records is to pause until [`Producer::is_paced`] says otherwise.
    pub fn is_ahead(&mut self) -> bool {
        self.pace.is_ahead(self.memory)
    }

    /// Whether a call that paused is to wait still for the network.
    pub fn is_paced(&self) -> bool {
        self.pace.is_reached()
    }

    /// Has calls that pause go on although the network took little.
    pub fn run_ahead(&mut self) {
        self.pace.run_ahead(self.memory);
    }

    /// The next outcome.
    pub fn poll_event(&mut self) -> Option<Event<D>> {
        self.events.pop_front()
    }

    /// Starts an operation that ends within `timeout`, and returns its number for [`Producer::why`].
    pub fn start(&mut self, now: Time, op: Box<dyn Op>, timeout: Duration, completion: Completion) -> u64 {
        self.ops.start(now, op, timeout, completion)
    }

    /// Returns why an operation has no result yet, as far as the client knows.
    pub fn why(&self, now: Time, op: u64) -> Option<Error> {
        self.ops.why(now, op)
    }

    /// Returns the next operation that ended.
    pub fn poll_done(&mut self) -> Option<(Completion, Result<Output, Error>)> {
        self.ops.poll_done()
    }

    /// Gets ready for transactions; [`Producer::poll_call`] says when that is done.
    pub fn init_transactions(&mut self, now: Time) -> Result<u64, Error> {
        self.transact(|t| t.init(now))
    }

    /// Opens a transaction.
    pub fn begin_transaction(&mut self) -> Result<(), Error> {
        let version = self.cluster.transaction_version;
        self.transact(|t| t.begin(version))
    }

    /// Ends the transaction once everything sent in it has its outcome; a commit of one that failed aborts it.
    pub fn end_transaction(&mut self, now: Time, commit: bool) -> Result<u64, Error> {
        let call = self.transact(|t| t.end(now, commit))?;
        self.flush();
        Ok(call)
    }

    /// Commits the offsets of a consumer as part of the transaction.
    pub fn commit_offsets(
        &mut self,
        now: Time,
        group: crate::engine::group::GroupMetadata,
        offsets: Vec<super::ops::CommittedOffset>,
    ) -> Result<u64, Error> {
        self.transact(|t| t.commit_offsets(now, group, offsets))
    }

    /// Whether a transaction is open.
    pub fn is_in_transaction(&self) -> bool {
        self.transactions.as_ref().is_some_and(Transactions::is_open)
    }

    /// The next call about transactions that ended.
    pub fn poll_call(&mut self) -> Option<(u64, Result<(), Error>)> {
        self.transactions.as_mut()?.poll_done()
    }

    fn transact<R>(&mut self, f: impl FnOnce(&mut Transactions) -> Result<R, Error>) -> Result<R, Error> {
        let Some(transactions) = &mut self.transactions else {
            return Err(Error::new(ErrorKind::Config, "producer has no transactions").with_hint("set transactional.id"));
        };
        let result = f(transactions);
        self.take_news();
        result
    }

    /// Does what something that happened to the transaction asks for.
    fn take_news(&mut self) {
        let Some(news) = self.transactions.as_mut().map(Transactions::take_news) else {
            return;
        };
        if let Some(error) = news.gave_up {
            self.fail_unsent(&error);
        }
        if let Some((id, epoch)) = news.identity {
            self.identity.known(id, epoch);
            self.restart_sequences();
        }
    }

    /// Ends everything that is not in flight with an error; what is in flight still has its outcome.
    pub fn fail_all(&mut self, error: &Error) {
        if let Some(transactions) = &mut self.transactions {
            transactions.die(error);
        }
        self.fail_unsent(error);
        self.ops.fail_all(error);
    }

    /// Ends what is in flight, too: nobody hears any more what becomes of it.
    pub fn abandon_all(&mut self, error: &Error) {
        for ((_, topic, partition, _), waits) in std::mem::take(&mut self.flying) {
            // Only those who wait: the others are told of failures, which this need not be.
            let count = i32::try_from(waits.deliveries.len()).unwrap_or(i32::MAX);
            self.tell(topic, partition, count, waits.deliveries, Err(error.clone()));
        }
    }

    fn fail_unsent(&mut self, error: &Error) {
        for topic in 0..self.topics.len() {
            self.fail_waiting(topic, error);
        }
        for (topic, partition) in std::mem::take(&mut self.active) {
            let Some(p) = self.partition(topic, partition) else {
                continue;
            };
            p.close_open();
            for batch in std::mem::take(&mut p.queue) {
                if let (true, Some(t)) = (batch.producer.is_some(), &mut self.transactions) {
                    t.note_gap();
                }
                self.settle(topic, partition, batch, Err(error.clone()));
            }
        }
    }

    fn partition(&mut self, topic: usize, partition: usize) -> Option<&mut Partition<D>> {
        self.topics.get_mut(topic)?.partitions.get_mut(partition)
    }

    /// The end of a batch: memory and flushes are told, the outcome goes out.
    fn settle(&mut self, topic: usize, partition: usize, mut batch: Batch<D>, result: Result<(i64, i64), Error>) {
        if let Some(t) = self.topics.get_mut(topic) {
            t.metrics.note(&batch, result.is_ok());
        }
        let deliveries = std::mem::take(&mut batch.deliveries);
        self.tell(topic, partition, batch.count, deliveries, result);
        self.forget(batch);
    }

    /// Lets an outcome of so many records go out, some of which somebody waits for.
    fn tell(
        &mut self,
        topic: usize,
        partition: usize,
        count: i32,
        deliveries: Vec<Delivery<D>>,
        result: Result<(i64, i64), Error>,
    ) {
        let Some(t) = self.topics.get(topic) else {
            return;
        };
        let partition = partition as i32;
        let untracked = count as u64 - deliveries.len() as u64;
        let result = result.map_err(|e| e.at(&t.name, partition));
        self.events.push_back(Event { topic: t.name.clone(), partition, deliveries, untracked, result });
    }

    fn forget(&mut self, batch: Batch<D>) {
        self.outstanding.remove(batch.generation, batch.count as u64);
        self.give_back(batch);
    }

    /// The memory of a batch is free.
    fn give_back(&mut self, batch: Batch<D>) {
        self.release(batch.bytes);
        if self.spare.len() < MAX_SPARE {
            self.spare.extend(batch.into_buffer());
        }
    }

    fn release(&mut self, bytes: usize) {
        self.memory = self.memory.saturating_sub(bytes);
        if self.memory <= self.config.buffer_memory / 2 {
            self.pressure = false;
        }
        self.pace.caught_up(self.memory);
    }
}

impl<D: Send> Role for Producer<D> {
    type Token = ProducerToken<D>;
    type Packet = Packet<D>;
    type Prepared = ClientResponse<ProducerToken<D>>;

    fn pack(packet: Packet<D>) -> Outgoing<ProducerToken<D>> {
        send::pack(packet)
    }

    fn prepare(answer: ClientResponse<ProducerToken<D>>) -> ClientResponse<ProducerToken<D>> {
        answer
    }

    fn handle_response(&mut self, now: Time, answer: ClientResponse<ProducerToken<D>>) {
        match answer.token {
            ProducerToken::Identity => self.handle_identity(now, answer.result),
            ProducerToken::Produce(sent) => self.handle_produced(now, answer.node, sent, answer.result),
            ProducerToken::Transaction(step) => self.handle_transaction(now, step, answer.result),
            ProducerToken::Op(token) => {
                self.ops.handle_response(now, ClientResponse { token, node: answer.node, result: answer.result })
            }
        }
    }

    fn handle_cluster(&mut self, now: Time, cluster: &Arc<Cluster>) {
        self.cluster = cluster.clone();
        self.unreachable = None;
        for topic in 0..self.topics.len() {
            self.settle_topic(now, topic);
        }
        self.expire_waiting(now);
        self.let_go(now);
        self.ops.handle_cluster(now, cluster);
    }

    fn handle_unreachable(&mut self, now: Time, error: &Error) {
        if error.kind() == ErrorKind::Authentication {
            self.be_refused(error);
        }
        self.unreachable = Some(error.clone());
        self.ops.handle_unreachable(now, error);
    }

    fn poll_send(&mut self, now: Time) -> Option<Packet<D>> {
        let packet = self.next_packet(now);
        packet.or_else(|| self.ops.poll_send(now).map(|outgoing| Packet::Ready(outgoing.map(ProducerToken::Op))))
    }

    fn poll_demand(&mut self) -> Option<MetadataDemand> {
        MetadataDemand::merge([self.demand.take(), self.ops.poll_demand()])
    }

    fn wanted_topics(&self) -> BTreeSet<Arc<str>> {
        let wanted = self.topics.iter().filter(|t| t.state != TopicState::Forgotten);
        wanted.map(|t| t.name.clone()).chain(self.ops.wanted_topics()).collect()
    }

    fn next_timeout(&self, now: Time) -> Option<Time> {
        let limit = self.config.delivery_timeout;
        let mut next = self.ops.next_timeout(now);
        let mut at = |time: Time| next = earliest(next, Some(time).filter(|t| *t > now));
        self.flying.first_key_value().into_iter().for_each(|((until, ..), _)| at(*until));
        if !self.active.is_empty() {
            self.identity.next_timeout().into_iter().for_each(&mut at);
        }
        self.transactions.iter().filter_map(|t| t.next_timeout(now)).for_each(&mut at);
        self.throttled.values().copied().for_each(&mut at);
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
            }
            at(p.retry_at);
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
        if let Some(transactions) = &mut self.transactions {
            transactions.handle_timeout(now, self.unreachable.as_ref());
            self.take_news();
        }
        self.expire(now);
        self.expire_waiting(now);
        self.ops.handle_timeout(now);
    }
}
