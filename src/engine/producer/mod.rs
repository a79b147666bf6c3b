//! The producer: collects records in batches, sends them to the partition leaders, retries failures in order, and
//! reports exactly one result for each record.
//!
//! The path of a record: `append` → the partition's open batch (or a queue of the topic while its metadata is missing)
//! → [`ProducerRequest`] → in flight → an [`Event`]. The producer closes an open batch when the batch is full, when
//! `linger` ends or when the broker is idle.
//!
//! ```text
//! accumulator   records into batches             partitioner    chooses the partition
//! bulk          many records of one call         backpressure   pauses bulk appends
//! send          batches into requests            producer_id    producer ID and epoch without transactions
//! completion    results, retries, timeouts       transaction    transactions
//! batch         batches of a partition           pending        records that a flush waits for
//! produce_response   reads produce responses
//! ```
//!
//! With `linger` 0, the producer sends a record immediately if fewer than two requests to the partition leader are in
//! flight. While two requests to the same broker are in flight, new records collect in the open batch. A busy producer
//! therefore sends large batches without a configured delay.

mod accumulator;
mod backpressure;
mod batch;
mod bulk;
mod completion;
mod families;
mod measured;
mod metrics;
mod partitioner;
mod pending;
mod produce_response;
mod producer_id;
mod send;
mod timed_out;
mod transaction;

pub use accumulator::{NewRecord, TopicIndex};
pub use batch::Delivery;
pub use metrics::{BrokerMetrics, Metrics, TopicMetrics};
pub use partitioner::{Partitioner, crc32_partition_of, fnv1a_partition_of, murmur2, partition_of};
pub use send::ProducerRequest;

use super::ops::{Completion, Op, OpToken, Ops, Output};
use super::{Backoff, ClientResponse, Cluster, Error, ErrorKind, MetadataDemand, Outgoing, Role, Target, Time};
use crate::api::ErrorCode;
use crate::compress::Codec;
use crate::record::Producer as ProducedAs;
use accumulator::{Topic, TopicState};
use backpressure::Backpressure;
use batch::{Batch, Partition};
use measured::Measured;
use pending::PendingRecords;
use producer_id::ProducerId;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use transaction::{Settings, Step, Transactions};

/// How many buffers of completed batches the producer keeps for reuse.
const MAX_SPARE: usize = 16;

/// Configuration of a producer.
#[derive(Clone, Debug)]
pub struct ProducerConfig {
    /// When the broker responds: never (0), after the leader has written the batch (1), or after all in-sync replicas
    /// have written it (-1).
    pub acks: i16,
    /// How long a batch waits for more records.
    pub linger: Duration,
    /// The size at which the producer closes a batch, in bytes.
    pub batch_size: usize,
    /// The limit for buffered records, including records in flight, in bytes.
    pub buffer_memory: usize,
    /// The largest size of a request and of a record, in bytes.
    pub max_request_size: usize,
    /// The codec of batches.
    pub compression: Codec,
    /// The longest time from `append` to the result.
    pub delivery_timeout: Duration,
    /// How long the broker waits for replicas, and how long the client waits for the broker's response.
    pub request_timeout: Duration,
    /// How long a record waits for the metadata of its topic.
    pub max_block: Duration,
    /// The first and the longest retry backoff.
    pub retry_backoff: (Duration, Duration),
    /// The largest number of retries of a batch.
    pub retries: u32,
    /// Whether batches have sequence numbers, so that brokers drop duplicates (KIP-98).
    pub idempotent: bool,
    /// Whether it is an error if a broker does not support idempotence. If it is not an error, the producer continues
    /// without idempotence.
    pub idempotence_required: bool,
    /// The transactional ID, and how long a transaction may stay open.
    pub transactions: Option<(Arc<str>, Duration)>,
    /// How the producer chooses partitions.
    pub partitioner: Partitioner,
    /// Whether records without a key avoid slow partitions (KIP-794).
    pub adaptive: bool,
    /// The largest number of requests in flight to one broker.
    pub max_in_flight: usize,
    /// How long the producer keeps the metadata of a topic after the last record for this topic.
    pub metadata_max_idle: Duration,
    /// The seed of the jitter and of the first sticky partition.
    pub seed: u64,
}

/// The result of a batch, or of some of its records.
#[derive(Debug)]
pub struct Event<D> {
    /// The topic.
    pub topic: Arc<str>,
    /// The partition, or -1 if the producer had not chosen it yet.
    pub partition: i32,
    /// The records for which the application wants a delivery report.
    pub deliveries: Vec<Delivery<D>>,
    /// The number of records without a delivery report.
    pub untracked: u64,
    /// The offset of the first record (-1 if unknown) and the log-append time (-1 if the topic uses the create time),
    /// or the error.
    pub result: Result<(i64, i64), Error>,
}

/// A batch in flight.
pub struct InFlightBatch<D> {
    topic: usize,
    partition: usize,
    /// The number of this batch among the batches that were sent to the partition.
    number: u64,
    batch: Batch<D>,
    producer: ProducedAs,
}

/// Batches in flight that have no result yet. The key is the end of the delivery timeout, the topic, the partition and
/// the number of the batch.
type Unreported<D> = BTreeMap<(Time, usize, usize, u64), Reports<D>>;

/// The delivery reports of a batch in flight.
struct Reports<D> {
    deliveries: Vec<Delivery<D>>,
    count: i32,
    flush_epoch: u64,
    /// The error of the previous attempt.
    error: Option<Error>,
}

/// A produce request in flight.
pub struct InFlightRequest<D> {
    batches: Vec<InFlightBatch<D>>,
    sent_at: Time,
    /// The compressed size of all batches in the request.
    compressed_bytes: u64,
}

/// Identifies the request to which a response belongs.
pub enum ProducerToken<D> {
    /// A produce request.
    Produce(InFlightRequest<D>),
    /// The InitProducerId request of a producer without transactions.
    InitProducerId,
    /// A step of a transaction.
    Transaction(Step),
    /// A request of an operation.
    Op(OpToken),
}

/// The names of a producer's timers.
#[derive(Clone, Copy, Debug)]
enum Timer {
    /// The delivery timeout of a batch in flight.
    Delivery,
    /// The delivery timeout of an unsent batch.
    UnsentDelivery,
    /// The end of a linger or of a retry backoff.
    Send,
    /// The retry of InitProducerId.
    ProducerId,
    /// The end of a broker's throttle time.
    Throttle,
    /// The end of the wait for a topic's metadata.
    Metadata,
    /// A deadline of the transaction.
    Transaction,
    /// A deadline of an operation.
    Operation,
}

impl Timer {
    const ALL: [Self; 8] = [
        Self::Delivery,
        Self::UnsentDelivery,
        Self::Send,
        Self::ProducerId,
        Self::Throttle,
        Self::Metadata,
        Self::Transaction,
        Self::Operation,
    ];
}

/// State machine of a producer. `D` is the completion for the delivery report of a record.
pub struct Producer<D> {
    config: ProducerConfig,
    topics: Vec<Topic<D>>,
    /// Reusable indexes of topics that never existed.
    vacant: Vec<usize>,
    by_name: HashMap<Arc<str>, usize>,
    /// The topics with records that wait for metadata.
    waiting_topics: BTreeSet<usize>,
    /// The partitions with batches to send.
    active: BTreeSet<(usize, usize)>,
    /// The ends of lingers and of retry backoffs, with the topic and the partition.
    send_timers: BTreeSet<(Time, usize, usize)>,
    /// No unsent batch reaches its delivery timeout before this time.
    unsent_expiry: Time,
    /// The number of requests in flight to each broker.
    in_flight: HashMap<i32, usize>,
    unreported: Unreported<D>,
    /// For each broker, when it stops throttling the client (KIP-219), and the longest throttle time of a response.
    throttled: HashMap<i32, (Time, Duration)>,
    producer_id: ProducerId,
    transactions: Option<Transactions>,
    brokers: BTreeMap<i32, BrokerMetrics>,
    measured: Measured,
    /// The topic of the last lookup.
    latest: usize,
    /// The bytes of buffered records.
    memory: usize,
    /// The partition and the largest possible size of each record of a bulk append. The producer reuses this memory.
    choices: Vec<(u32, u32)>,
    /// Buffers of completed batches. The producer reuses them because new memory costs a page fault for each page.
    spare: Vec<Vec<u8>>,
    /// Whether the buffer has been full, and has been more than half full since then.
    buffer_is_full: bool,
    backpressure: Backpressure,
    /// Counts flushes.
    flush_epoch: u64,
    pending: PendingRecords,
    /// The producer sends batches of flush epochs below this number without waiting for `linger`.
    flush_below: u64,
    cluster: Arc<Cluster>,
    demand: MetadataDemand,
    events: VecDeque<Event<D>>,
    ops: Ops<Completion>,
    unreachable: Option<Error>,
}

impl<D> Producer<D> {
    /// Creates a producer without metadata.
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
            producer_id: ProducerId::new(config.idempotent, transactions.is_some(), backoff),
            transactions,
            throttled: HashMap::new(),
            brokers: BTreeMap::new(),
            measured: Measured::default(),
            topics: Vec::new(),
            vacant: Vec::new(),
            by_name: HashMap::new(),
            waiting_topics: BTreeSet::new(),
            active: BTreeSet::new(),
            send_timers: BTreeSet::new(),
            unsent_expiry: Time::NEVER,
            in_flight: HashMap::new(),
            unreported: BTreeMap::new(),
            latest: 0,
            memory: 0,
            choices: Vec::new(),
            spare: Vec::new(),
            buffer_is_full: false,
            backpressure: Backpressure::default(),
            flush_epoch: 0,
            pending: PendingRecords::default(),
            flush_below: 0,
            cluster: Arc::default(),
            demand: MetadataDemand::default(),
            events: VecDeque::new(),
            ops: Ops::new(config.retry_backoff),
            unreachable: None,
            config,
        }
    }

    /// Makes all batches ready to send, without waiting for `linger`. Returns the flush epoch for
    /// [`Producer::is_flushed`].
    pub fn flush(&mut self) -> u64 {
        let flush = self.flush_epoch;
        self.flush_epoch += 1;
        self.flush_below = self.flush_epoch;
        flush
    }

    /// Returns whether all records that were appended before a flush are acknowledged or failed.
    pub fn is_flushed(&self, flush: u64) -> bool {
        self.pending.oldest().is_none_or(|oldest| oldest > flush)
    }

    /// Returns the number of records that are neither acknowledged nor failed.
    pub fn outstanding(&self) -> u64 {
        self.pending.count()
    }

    /// Returns whether exactly one record is outstanding and `linger` does not delay it.
    pub fn is_single(&self) -> bool {
        self.config.linger.is_zero() && self.pending.count() == 1
    }

    /// Returns false after the buffer was full, until half of it is free again.
    pub fn has_room(&self) -> bool {
        !self.buffer_is_full
    }

    /// Returns the last error of a batch that is waiting for a retry.
    pub fn last_refusal(&self) -> Option<&Error> {
        let partitions = self.active.iter().filter_map(|(t, p)| self.topics.get(*t)?.partitions.get(*p));
        partitions.flat_map(|p| &p.queue).find_map(|batch| batch.error.as_ref())
    }

    /// Returns whether a bulk append must pause until [`Producer::is_paused`] is false.
    pub fn is_ahead(&mut self) -> bool {
        self.backpressure.is_ahead(self.memory)
    }

    /// Returns whether a paused bulk append must still wait for the network.
    pub fn is_paused(&self) -> bool {
        self.backpressure.is_paused()
    }

    /// Resumes paused bulk appends although the network is slow.
    pub fn run_ahead(&mut self) {
        self.backpressure.run_ahead(self.memory);
    }

    /// Returns the next result.
    pub fn poll_event(&mut self) -> Option<Event<D>> {
        self.events.pop_front()
    }

    /// Starts an operation with a timeout. Returns the operation's number for [`Producer::why`].
    pub fn start(&mut self, now: Time, op: Box<dyn Op>, timeout: Duration, completion: Completion) -> u64 {
        self.ops.start(now, op, timeout, completion)
    }

    /// Returns why an operation has no result yet, if the client knows the reason.
    pub fn why(&self, now: Time, op: u64) -> Option<Error> {
        self.ops.why(now, op)
    }

    /// Returns the next completed operation.
    pub fn poll_done(&mut self) -> Option<(Completion, Result<Output, Error>)> {
        self.ops.poll_done()
    }

    /// Initializes transactions. [`Producer::poll_call`] reports the result of this call.
    pub fn init_transactions(&mut self, now: Time) -> Result<u64, Error> {
        self.transact(|t| t.init(now))
    }

    /// Opens a transaction.
    pub fn begin_transaction(&mut self) -> Result<(), Error> {
        let version = self.cluster.transaction_version;
        self.transact(|t| t.begin(version))
    }

    /// Ends the transaction after all of its records are acknowledged or failed. Committing a failed transaction aborts
    /// it.
    pub fn end_transaction(&mut self, now: Time, commit: bool) -> Result<u64, Error> {
        let call = self.transact(|t| t.end(now, commit))?;
        self.flush();
        Ok(call)
    }

    /// Commits a consumer's offsets as part of the transaction.
    pub fn commit_offsets(
        &mut self,
        now: Time,
        group: crate::engine::group::GroupMetadata,
        offsets: Vec<super::ops::CommittedOffset>,
    ) -> Result<u64, Error> {
        self.transact(|t| t.commit_offsets(now, group, offsets))
    }

    /// Returns whether the producer sends records only in transactions.
    pub fn is_transactional(&self) -> bool {
        self.transactions.is_some()
    }

    /// Returns the transactional ID if a transaction has begun whose end the coordinator has not confirmed.
    pub fn unended_transaction(&self) -> Option<&str> {
        self.transactions.as_ref().filter(|t| t.is_unended()).map(|t| &**t.id())
    }

    /// Returns whether the program may not know yet that records have failed. The end of a transaction tells it.
    pub fn awaits_failures(&self) -> bool {
        self.transactions.as_ref().is_none_or(Transactions::has_failed)
    }

    /// Returns whether a transaction is open.
    pub fn is_in_transaction(&self) -> bool {
        self.transactions.as_ref().is_some_and(Transactions::is_open)
    }

    /// Returns the next completed transaction call.
    pub fn poll_call(&mut self) -> Option<(u64, Result<(), Error>)> {
        self.transactions.as_mut()?.poll_done()
    }

    fn transact<R>(&mut self, f: impl FnOnce(&mut Transactions) -> Result<R, Error>) -> Result<R, Error> {
        let Some(transactions) = &mut self.transactions else {
            return Err(
                Error::new(ErrorKind::Config, "producer is not transactional").with_hint("set transactional.id")
            );
        };
        let result = f(transactions);
        self.apply_transaction_effects();
        result
    }

    /// Applies the `Effects` of a transaction to the producer.
    fn apply_transaction_effects(&mut self) {
        let Some(effects) = self.transactions.as_mut().map(Transactions::take_effects) else {
            return;
        };
        if let Some(error) = effects.fail_unsent {
            self.fail_unsent(&error);
        }
        if let Some((id, epoch)) = effects.producer_id {
            self.producer_id.set(id, epoch);
            self.restart_sequences();
        }
    }

    /// Fails all unsent records. Batches in flight still get their result.
    pub fn fail_all(&mut self, error: &Error) {
        if let Some(transactions) = &mut self.transactions {
            transactions.fail_fatally(error);
        }
        self.fail_unsent(error);
        self.ops.fail_all(error);
    }

    /// Fails the batches in flight, because the client will not read their responses.
    pub fn abandon_all(&mut self, error: &Error) {
        for ((_, topic, partition, _), reports) in std::mem::take(&mut self.unreported) {
            // Only records with a delivery report: the others may have been written.
            let count = i32::try_from(reports.deliveries.len()).unwrap_or(i32::MAX);
            self.report(topic, partition, count, reports.deliveries, Err(error.clone()));
        }
    }

    fn fail_unsent(&mut self, error: &Error) {
        while let Some(topic) = self.waiting_topics.pop_first() {
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
                self.complete(topic, partition, batch, Err(error.clone()));
            }
        }
    }

    /// Returns the next deadline of a timer that is later than `now`.
    fn deadline(&self, timer: Timer, now: Time) -> Option<Time> {
        let is_later = |at: &Time| *at > now;
        match timer {
            Timer::Delivery => self.unreported.first_key_value().map(|((at, ..), _)| *at).filter(is_later),
            Timer::UnsentDelivery if self.active.is_empty() => None,
            Timer::UnsentDelivery => Some(self.unsent_expiry).filter(is_later),
            Timer::Send => self.next_send_timer(now),
            Timer::ProducerId if self.active.is_empty() => None,
            Timer::ProducerId => self.producer_id.next_timeout().filter(is_later),
            Timer::Throttle => self.throttled.values().map(|(until, _)| *until).filter(is_later).min(),
            Timer::Metadata => {
                let wait = self.config.max_block.min(self.config.delivery_timeout);
                let topics = self.waiting_topics.iter().filter_map(|topic| self.topics.get(*topic));
                let times = |t: &Topic<D>| [t.waiting_since().map(|since| since + wait), t.unknown.error_at()];
                topics.flat_map(times).flatten().filter(is_later).min()
            }
            Timer::Transaction => self.transactions.as_ref()?.next_timeout(now),
            Timer::Operation => self.ops.next_timeout(now),
        }
    }

    /// Returns when the next linger or retry backoff after `now` ends. Ignores entries of batches that were sent
    /// earlier, or that failed.
    fn next_send_timer(&self, now: Time) -> Option<Time> {
        let is_current = |(at, topic, partition): &&(Time, usize, usize)| {
            let p = self.topics.get(*topic).and_then(|t| t.partitions.get(*partition));
            p.is_some_and(|p| {
                let lingers = p.open.as_ref().is_some_and(|open| open.created + self.config.linger == *at);
                lingers || (p.retry_at == *at && !p.is_idle())
            })
        };
        let after = now + Duration::from_micros(1);
        self.send_timers.range((after, 0, 0)..).find(is_current).map(|(at, ..)| *at)
    }

    fn partition(&mut self, topic: usize, partition: usize) -> Option<&mut Partition<D>> {
        self.topics.get_mut(topic)?.partitions.get_mut(partition)
    }

    /// Completes a batch: reports its result, and frees its memory.
    fn complete(&mut self, topic: usize, partition: usize, mut batch: Batch<D>, result: Result<(i64, i64), Error>) {
        self.note_result(topic, &batch, result.is_ok());
        let deliveries = std::mem::take(&mut batch.deliveries);
        self.report(topic, partition, batch.count, deliveries, result);
        self.remove_batch(batch);
    }

    /// Queues the event with the result of `count` records. `deliveries` contains the records that need a delivery
    /// report.
    fn report(
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

    fn remove_batch(&mut self, batch: Batch<D>) {
        self.pending.remove(batch.flush_epoch, batch.count as u64);
        self.free_batch(batch);
    }

    /// Frees the memory of a batch.
    fn free_batch(&mut self, batch: Batch<D>) {
        self.release(batch.bytes);
        if self.spare.len() < MAX_SPARE {
            self.spare.extend(batch.into_buffer());
        }
    }

    fn release(&mut self, bytes: usize) {
        self.memory = self.memory.saturating_sub(bytes);
        if self.memory <= self.config.buffer_memory / 2 {
            self.buffer_is_full = false;
            self.measured.note_room();
        }
        self.backpressure.release(self.memory);
    }
}

impl<D: Send> Role for Producer<D> {
    type Token = ProducerToken<D>;
    type Request = ProducerRequest<D>;
    type Prepared = ClientResponse<ProducerToken<D>>;

    fn build_request(request: ProducerRequest<D>) -> Outgoing<ProducerToken<D>> {
        send::build_request(request)
    }

    fn prepare(answer: ClientResponse<ProducerToken<D>>) -> ClientResponse<ProducerToken<D>> {
        answer
    }

    fn handle_response(&mut self, now: Time, answer: ClientResponse<ProducerToken<D>>) {
        self.measured.now = now;
        match answer.token {
            ProducerToken::InitProducerId => self.handle_producer_id(now, answer.result),
            ProducerToken::Produce(request) => self.handle_produced(now, answer.node, request, answer.result),
            ProducerToken::Transaction(step) => self.handle_transaction(now, step, answer.result),
            ProducerToken::Op(token) => {
                self.ops.handle_response(now, ClientResponse { token, node: answer.node, result: answer.result })
            }
        }
    }

    fn handle_cluster(&mut self, now: Time, cluster: &Arc<Cluster>) {
        self.cluster = cluster.clone();
        self.unreachable = None;
        for t in &mut self.topics {
            let error = cluster.topics.get(&t.name).map(|metadata| metadata.error);
            t.unknown.note(now, error == Some(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION));
        }
        for topic in 0..self.topics.len() {
            self.update_topic(now, topic);
        }
        self.expire_waiting(now);
        self.forget_topics(now);
        self.ops.handle_cluster(now, cluster);
    }

    fn handle_disconnect(&mut self, _now: Time, target: Target) {
        if let Target::Node(node) = target {
            self.throttled.remove(&node);
        }
    }

    fn handle_unreachable(&mut self, now: Time, error: &Error) {
        if error.is_refusal() {
            self.handle_refusal(now, error);
        }
        self.unreachable = Some(error.clone());
        self.ops.handle_unreachable(now, error);
    }

    fn poll_send(&mut self, now: Time) -> Option<ProducerRequest<D>> {
        let request = self.next_request(now);
        request
            .or_else(|| self.ops.poll_send(now).map(|outgoing| ProducerRequest::Ready(outgoing.map(ProducerToken::Op))))
    }

    fn poll_demand(&mut self) -> Option<MetadataDemand> {
        MetadataDemand::merge([self.demand.take(), self.ops.poll_demand()])
    }

    fn needed_topics(&self) -> BTreeSet<Arc<str>> {
        let needed = self.topics.iter().filter(|t| t.state != TopicState::Forgotten);
        needed.map(|t| t.name.clone()).chain(self.ops.needed_topics()).collect()
    }

    fn next_timeout(&self, now: Time) -> Option<Time> {
        Timer::ALL.into_iter().filter_map(|timer| self.deadline(timer, now)).min()
    }

    fn handle_timeout(&mut self, now: Time) {
        self.measured.now = now;
        if let Some(transactions) = &mut self.transactions {
            transactions.handle_timeout(now, self.unreachable.as_ref());
            self.apply_transaction_effects();
        }
        while self.send_timers.first().is_some_and(|(at, ..)| *at <= now) {
            self.send_timers.pop_first();
        }
        self.expire(now);
        self.expire_waiting(now);
        self.ops.handle_timeout(now);
    }
}
