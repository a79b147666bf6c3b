//! Appends records to batches: finds the topic, chooses the partition, and encodes the record into the partition's open
//! batch.
//!
//! While the metadata of a topic is missing, its records wait in a queue of the topic. This file also decides for which
//! topics the producer requests metadata, and when it forgets an unused topic. `is_due` in `send.rs` decides when
//! `linger.ms` has passed.

use super::batch::{Batch, DELIVERY_BYTES, Delivery, Partition};
use super::measured::Sending;
use super::partitioner::{Chosen, Sticky};
use super::{Event, Producer, TopicMetrics};
use crate::api::ErrorCode;
use crate::engine::ops::UnknownTopic;
use crate::engine::reminder::Reminder;
use crate::engine::{Error, ErrorKind, Time};
use crate::record::{BatchBuilder, HEADER_SIZE, first_record_size, max_record_size};
use crate::wire::Uuid;
use std::collections::VecDeque;
use std::sync::Arc;

/// The initial capacity of a batch, in bytes. The capacity grows up to `batch.size`.
const FIRST_CAPACITY: usize = 16 << 10;

/// The index of a topic. A caller looks up a topic once for many records. The index is valid until the next call that
/// is not an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopicIndex(pub(super) usize);

/// A record to send.
#[derive(Clone, Copy, Debug)]
pub struct NewRecord<'a> {
    /// The partition. With `None`, the partitioner chooses it.
    pub partition: Option<i32>,
    /// The timestamp, in milliseconds since 1970.
    pub timestamp: i64,
    /// Whether the application set the timestamp. If so, the record fails if the broker cannot store timestamps.
    pub has_explicit_timestamp: bool,
    /// The key, where `None` is null.
    pub key: Option<&'a [u8]>,
    /// The value, where `None` is null (a tombstone).
    pub value: Option<&'a [u8]>,
    /// The headers, in order.
    pub headers: &'a [(&'a [u8], Option<&'a [u8]>)],
}

/// A record and its partition.
pub(super) struct PartitionedRecord<'a, D> {
    pub record: &'a NewRecord<'a>,
    pub partition: usize,
    /// The largest size that the record may have in the batch.
    pub bound: usize,
    pub completion: Option<D>,
}

/// A record that waits for the metadata of its topic.
struct Waiting<D> {
    partition: Option<i32>,
    timestamp: i64,
    has_explicit_timestamp: bool,
    key: Option<Box<[u8]>>,
    value: Option<Box<[u8]>>,
    headers: Vec<(Box<[u8]>, Option<Box<[u8]>>)>,
    completion: Option<D>,
    since: Time,
    bytes: usize,
    flush_epoch: u64,
}

/// A topic, and the records for it.
pub struct Topic<D> {
    pub name: Arc<str>,
    pub state: TopicState,
    /// When a record was last appended.
    pub last_used: Time,
    pub id: Uuid,
    pub partitions: Vec<Partition<D>>,
    /// The number of partitions to choose from. `partitions` may be longer if the topic was recreated with fewer
    /// partitions.
    pub count: usize,
    /// The metadata updates in a row in which the topic did not exist.
    pub unknown: UnknownTopic,
    /// Limits the log lines about failed records.
    pub failure_log: Reminder,
    pub metrics: TopicMetrics,
    pub sending: Sending,
    sticky: Sticky,
    waiting: VecDeque<Waiting<D>>,
}

/// Whether the producer has the metadata of a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TopicState {
    /// The producer does not need the metadata.
    Forgotten,
    /// The producer has requested the metadata, and records wait for it.
    Requested,
    /// The producer has the metadata and keeps it up to date.
    Known,
}

impl<D> Topic<D> {
    fn new(name: Arc<str>, seed: u64) -> Self {
        Self {
            name,
            state: TopicState::Forgotten,
            last_used: Time(0),
            id: Uuid::ZERO,
            partitions: Vec::new(),
            count: 0,
            unknown: UnknownTopic::default(),
            failure_log: Reminder::default(),
            metrics: TopicMetrics::default(),
            sending: Sending::default(),
            sticky: Sticky::new(seed),
            waiting: VecDeque::new(),
        }
    }

    pub fn is_known(&self) -> bool {
        self.state == TopicState::Known
    }

    /// Returns whether records of the topic are waiting or in flight.
    fn is_busy(&self) -> bool {
        !self.waiting.is_empty() || self.partitions.iter().any(|p| !p.is_idle() || p.in_flight() > 0)
    }

    /// Returns the number of records that wait for metadata.
    pub fn waiting_count(&self) -> u64 {
        self.waiting.len() as u64
    }

    /// Returns when the oldest record began to wait for metadata.
    pub fn waiting_since(&self) -> Option<Time> {
        self.waiting.front().map(|w| w.since)
    }
}

/// Checks a topic name against Kafka's rules. For an invalid name, a broker would only report an unknown topic.
fn check_name(topic: &str) -> Result<(), Error> {
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if (1..=249).contains(&topic.len()) && topic.chars().all(legal) && topic != "." && topic != ".." {
        return Ok(());
    }
    Err(Error::refused(ErrorCode::INVALID_TOPIC_EXCEPTION, format!("produce to topic {topic:?}")))
}

#[cold]
fn unknown_partition_error(topic: &Arc<str>, count: usize, partition: i32) -> Error {
    let message = format!("topic {topic:?} has partitions 0 to {}, not {partition}", count - 1);
    let hint = "if the partition was just added, retry: klamm is refreshing its metadata";
    Error::new(ErrorKind::Config, message).at(topic, partition).with_hint(hint)
}

impl<D> Producer<D> {
    /// Returns the index of a topic. The first call for a topic requests its metadata.
    pub fn topic(&mut self, name: &str) -> Result<TopicIndex, Error> {
        self.check_open()?;
        // Mostly it is the last record's topic: comparing the names takes a tenth of the time of a hash.
        if self.topics.get(self.latest).is_some_and(|t| *t.name == *name) {
            return Ok(TopicIndex(self.latest));
        }
        if let Some(index) = self.by_name.get(name) {
            self.latest = *index;
            return Ok(TopicIndex(*index));
        }
        check_name(name).inspect_err(|error| self.fail_transaction(error))?;
        let name: Arc<str> = name.into();
        let index = self.vacant.pop().unwrap_or(self.topics.len());
        let seed = self.config.seed.wrapping_add(index as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let topic = Topic::new(name.clone(), seed);
        match self.topics.get_mut(index) {
            Some(vacant) => *vacant = topic,
            None => self.topics.push(topic),
        }
        self.by_name.insert(name, index);
        self.demand_metadata(index);
        Ok(TopicIndex(index))
    }

    fn demand_metadata(&mut self, topic: usize) {
        if let Some(t) = self.topics.get_mut(topic) {
            t.state = TopicState::Requested;
            self.demand.topics.insert(t.name.clone());
            self.demand.creates.insert(t.name.clone());
        }
    }

    /// Forgets topics that were not found, and topics without new records for `metadata.max.idle.ms` (KIP-526). Keeps
    /// topics with waiting records or batches in flight. Also keeps the sequence numbers of known partitions, because
    /// later batches continue them. A topic that never existed has no sequence numbers, so the producer reuses its
    /// index.
    pub(super) fn forget_topics(&mut self, now: Time) {
        for (index, t) in self.topics.iter_mut().enumerate() {
            let is_absent = self.cluster.topics.get(&t.name).is_some_and(|metadata| metadata.error.is_error());
            let is_kept = match t.state {
                TopicState::Forgotten => true,
                // No record waits for it any more.
                TopicState::Requested => false,
                TopicState::Known => !is_absent && now.since(t.last_used) < self.config.metadata_max_idle,
            };
            if is_kept || t.is_busy() {
                continue;
            }
            self.demand.topics.remove(&t.name);
            self.demand.creates.remove(&t.name);
            self.demand.drops_topics = true;
            t.state = TopicState::Forgotten;
            if t.partitions.is_empty() {
                self.by_name.remove(&t.name);
                // The empty name marks the index as vacant.
                t.name = Arc::default();
                self.latest = usize::MAX;
                self.vacant.push(index);
            }
        }
    }

    /// Returns an error if the state of the transaction does not allow records.
    #[inline]
    pub(super) fn check_open(&self) -> Result<(), Error> {
        self.transactions.as_ref().map_or(Ok(()), |t| t.accepts())
    }

    /// Appends a record. An [`Event`] with the completion later reports the result. The call fails at once, without an
    /// event, if the buffer is full or the record can never be sent. Returns whether the caller must wake the I/O
    /// thread.
    #[inline]
    pub fn append(
        &mut self,
        now: Time,
        TopicIndex(topic): TopicIndex,
        record: &NewRecord<'_>,
        completion: Option<D>,
    ) -> Result<bool, Error> {
        self.check_open()?;
        let bound = max_record_size(record.key, record.value, record.headers);
        if bound + HEADER_SIZE > self.config.max_request_size {
            let size = first_record_size(record.key, record.value, record.headers);
            if size + HEADER_SIZE > self.config.max_request_size {
                return Err(self.too_large_error(topic, size));
            }
        }
        if self.memory + bound > self.config.buffer_memory {
            return Err(self.buffer_full_error(bound));
        }
        match self.topics.get(topic) {
            Some(t) if t.is_known() => self
                .append_to(now, self.flush_epoch, topic, record, bound, completion)
                .inspect_err(|error| self.fail_transaction(error)),
            _ => Ok(self.queue_until_metadata(now, topic, record, bound, completion)),
        }
    }

    /// Fails an open transaction, so that the application can only abort it, because a record was rejected. Do not call
    /// this if the buffer is full, because the application can append the record later.
    #[cold]
    pub fn fail_transaction(&mut self, error: &Error) {
        if let Some(transactions) = &mut self.transactions
            && transactions.accepts().is_ok()
        {
            transactions.fail(error);
            self.apply_transaction_effects();
        }
    }

    #[cold]
    fn too_large_error(&mut self, topic: usize, size: usize) -> Error {
        let (name, max) = (self.topics.get(topic).map_or("", |t| &t.name), self.config.max_request_size);
        let batch = size + HEADER_SIZE;
        let tried = format!(
            "produce a record of {size} bytes in a batch of {batch} to topic {name:?}, max.request.size is {max}"
        );
        let error = Error::refused(ErrorCode::MESSAGE_TOO_LARGE, tried)
            .with_hint("send smaller records, or raise max.request.size and the topic's max.message.bytes");
        self.fail_transaction(&error);
        error
    }

    #[cold]
    fn buffer_full_error(&mut self, bound: usize) -> Error {
        let buffer_memory = self.config.buffer_memory;
        if bound > buffer_memory {
            let message = format!("a record of {bound} bytes never fits buffer.memory ({buffer_memory} bytes)");
            let error = Error::new(ErrorKind::Config, message);
            self.fail_transaction(&error);
            return error;
        }
        self.buffer_is_full = true;
        self.measured.note_full();
        let message = format!("buffer.memory ({buffer_memory} bytes) is full of unsent records");
        Error::new(ErrorKind::BufferFull, message).with_hint("wait for deliveries, or raise buffer.memory")
    }

    /// Keeps a record until the topic's metadata arrives. Returns whether it is the first record that waits for this
    /// metadata.
    #[cold]
    fn queue_until_metadata(
        &mut self,
        now: Time,
        topic: usize,
        record: &NewRecord<'_>,
        bytes: usize,
        completion: Option<D>,
    ) -> bool {
        let Some(t) = self.topics.get_mut(topic) else {
            return false;
        };
        t.last_used = now;
        let owned = |b: Option<&[u8]>| b.map(Box::from);
        t.waiting.push_back(Waiting {
            partition: record.partition,
            timestamp: record.timestamp,
            has_explicit_timestamp: record.has_explicit_timestamp,
            key: owned(record.key),
            value: owned(record.value),
            headers: record.headers.iter().map(|(k, v)| (Box::from(*k), owned(*v))).collect(),
            completion,
            since: now,
            bytes,
            flush_epoch: self.flush_epoch,
        });
        self.memory += bytes;
        self.waiting_topics.insert(topic);
        self.pending.add(self.flush_epoch);
        let (is_first, is_forgotten) = (t.waiting.len() == 1, t.state == TopicState::Forgotten);
        if is_forgotten {
            self.demand_metadata(topic);
            // The cluster's metadata may still contain the topic.
            self.update_topic(now, topic);
        }
        is_first
    }

    /// Appends a record of a known topic. `flush_epoch` is the epoch in which the application sent the record. `bound`
    /// is the largest size that the record may have.
    #[inline]
    fn append_to(
        &mut self,
        now: Time,
        flush_epoch: u64,
        topic: usize,
        record: &NewRecord<'_>,
        bound: usize,
        completion: Option<D>,
    ) -> Result<bool, Error> {
        let Some(t) = self.topics.get_mut(topic) else {
            return Ok(false);
        };
        let count = t.count;
        let (partition, is_sticky) = match record.partition {
            Some(p) => match usize::try_from(p).ok().filter(|p| *p < count) {
                Some(p) => (p, false),
                None => {
                    // The partition may have been added since the last refresh.
                    self.demand.refresh = true;
                    return Err(unknown_partition_error(&t.name, count, p));
                }
            },
            None => match self.config.partitioner.choose(record.key, count) {
                Chosen::Partition(p) => (p, false),
                Chosen::Next => {
                    let has_leader = |p: &usize| self.cluster.leader(&t.name, *p as i32).is_some();
                    let with_leader = (0..count).map(|_| t.sticky.next(count)).find(has_leader);
                    (with_leader.unwrap_or_else(|| t.sticky.next(count)), false)
                }
                Chosen::Sticky => (t.sticky.partition(count), true),
            },
        };
        let (size, wake) =
            self.append_all(now, flush_epoch, topic, [PartitionedRecord { record, partition, bound, completion }]);
        if is_sticky {
            self.count_sticky_bytes(topic, size);
        }
        Ok(wake)
    }

    /// Appends records of one topic. Returns the bytes of the records, and whether the caller must wake the I/O thread.
    #[inline]
    pub(super) fn append_all<'a>(
        &mut self,
        now: Time,
        flush_epoch: u64,
        topic: usize,
        records: impl IntoIterator<Item = PartitionedRecord<'a, D>>,
    ) -> (usize, bool) {
        let (mut size, mut memory, mut wake) = (0, 0, false);
        let Some(t) = self.topics.get_mut(topic) else {
            return (size, wake);
        };
        t.last_used = now;
        let (batch_size, linger, spare) = (self.config.batch_size, self.config.linger, &mut self.spare);
        for PartitionedRecord { record, partition, bound, completion } in records {
            let Some(p) = t.partitions.get_mut(partition) else {
                continue;
            };
            if let Some(full) = p.open.take_if(|open| open.size() + bound > batch_size) {
                self.send_timers.remove(&(full.created + linger, topic, partition));
                p.queue.push_back(full);
                wake = true;
            }
            let open = p.open.get_or_insert_with(|| {
                let builder = match spare.pop() {
                    Some(buffer) => BatchBuilder::with_buffer(buffer),
                    None => BatchBuilder::with_capacity(FIRST_CAPACITY.min(batch_size)),
                };
                self.active.insert((topic, partition));
                if !linger.is_zero() {
                    self.send_timers.insert((now + linger, topic, partition));
                }
                self.unsent_expiry = self.unsent_expiry.min(now + self.config.delivery_timeout);
                if let Some(transactions) = &mut self.transactions {
                    transactions.add((topic, partition));
                }
                memory += HEADER_SIZE;
                wake = true;
                let mut batch = Batch::new(now, flush_epoch, builder);
                batch.bytes = HEADER_SIZE;
                batch
            });
            let Some(builder) = open.builder() else {
                continue;
            };
            let appended = builder.append(record.timestamp, record.key, record.value, record.headers);
            open.count += 1;
            open.has_headers |= !record.headers.is_empty();
            open.has_timestamps |= record.has_explicit_timestamp;
            let mut bytes = appended.size;
            if let Some(completion) = completion {
                bytes += DELIVERY_BYTES;
                open.deliveries.push(Delivery { index: appended.index, timestamp: record.timestamp, completion });
            }
            open.bytes += bytes;
            memory += bytes;
            size += appended.size;
            self.pending.add(open.flush_epoch);
        }
        self.memory += memory;
        (size, wake)
    }

    /// Counts the bytes of a record without a key. Switches the sticky partition after about `batch.size` bytes.
    fn count_sticky_bytes(&mut self, topic: usize, size: usize) {
        let batch_size = self.config.batch_size;
        if self.topics.get_mut(topic).is_some_and(|t| t.sticky.count_bytes(size, batch_size)) {
            self.switch_sticky_partition(topic);
        }
    }

    /// Switches to another sticky partition. Prefers partitions with a leader.
    fn switch_sticky_partition(&mut self, topic: usize) {
        let Some(t) = self.topics.get_mut(topic) else {
            return;
        };
        let adaptive = self.config.adaptive;
        let load = |i: usize, p: &Partition<D>| {
            let has_leader = self.cluster.leader(&t.name, i as i32).is_some();
            has_leader.then_some(if adaptive { p.queue.len() + p.in_flight() } else { 0 })
        };
        let loads: Vec<Option<usize>> =
            t.partitions.iter().take(t.count).enumerate().map(|(i, p)| load(i, p)).collect();
        t.sticky.switch(&loads);
    }

    /// Applies new metadata of a topic, and appends the records that waited for it.
    pub(super) fn update_topic(&mut self, now: Time, topic: usize) {
        let Some(t) = self.topics.get_mut(topic) else {
            return;
        };
        let Some(metadata) = self.cluster.topics.get(&t.name) else {
            return;
        };
        if metadata.error == ErrorCode::UNKNOWN_TOPIC_OR_PARTITION && t.is_busy() {
            // The topic was deleted, and records wait for it.
            self.demand.creates.insert(t.name.clone());
        }
        if metadata.error.is_error() || metadata.partitions.is_empty() {
            return;
        }
        // Partitions are never removed. A smaller number means a recreated topic or stale metadata of a broker.
        let is_stale = !metadata.id.is_zero() && metadata.id == t.id && metadata.partitions.len() < t.count;
        t.id = metadata.id;
        if t.state == TopicState::Requested {
            t.state = TopicState::Known;
        }
        let count = if is_stale { t.count } else { metadata.partitions.len() };
        t.count = count;
        t.partitions.resize_with(count.max(t.partitions.len()), Partition::default);
        if self.cluster.leader(&t.name, t.sticky.partition(count) as i32).is_none() {
            self.switch_sticky_partition(topic);
        }
        let Some(t) = self.topics.get_mut(topic) else {
            return;
        };
        let mut last_refusal = None;
        self.waiting_topics.remove(&topic);
        for w in std::mem::take(&mut t.waiting) {
            self.release(w.bytes);
            self.pending.remove(w.flush_epoch, 1);
            let Some(name) = self.topics.get(topic).map(|t| t.name.clone()) else {
                return;
            };
            let headers: Vec<(&[u8], Option<&[u8]>)> = w.headers.iter().map(|(k, v)| (&**k, v.as_deref())).collect();
            let record = NewRecord {
                partition: w.partition,
                timestamp: w.timestamp,
                has_explicit_timestamp: w.has_explicit_timestamp,
                key: w.key.as_deref(),
                value: w.value.as_deref(),
                headers: &headers,
            };
            // The delivery timeout counts from the application's call, not from the arrival of the metadata.
            let missing = record.partition.filter(|p| usize::try_from(*p).is_ok_and(|p| p >= count) || *p < 0);
            if let Some(p) = missing {
                let error = unknown_partition_error(&name, count, p);
                self.fail_record(topic, w.completion, w.timestamp, &error);
                last_refusal = Some(error);
                continue;
            }
            if let Err(e) = self.append_to(w.since.min(now), w.flush_epoch, topic, &record, w.bytes, w.completion) {
                debug_assert!(false, "a checked record was refused: {e}");
            }
        }
        // Only now, so that failing the transaction also fails the records just appended.
        if let Some(error) = last_refusal {
            self.fail_any_transaction(&error);
        }
    }

    /// Fails the transaction, even one that is being committed.
    fn fail_any_transaction(&mut self, error: &Error) {
        if let Some(transactions) = &mut self.transactions {
            transactions.fail(error);
            self.apply_transaction_effects();
        }
    }

    fn fail_record(&mut self, topic: usize, completion: Option<D>, timestamp: i64, error: &Error) {
        let Some(t) = self.topics.get(topic) else {
            return;
        };
        let untracked = u64::from(completion.is_none());
        let deliveries =
            completion.into_iter().map(|completion| Delivery { index: 0, timestamp, completion }).collect();
        let result = Err(error.clone().at(&t.name, None));
        self.events.push_back(Event { topic: t.name.clone(), partition: -1, deliveries, untracked, result });
    }

    /// Fails the records that wait for a topic.
    pub(super) fn fail_waiting(&mut self, topic: usize, error: &Error) {
        let Some(t) = self.topics.get_mut(topic) else {
            return;
        };
        self.waiting_topics.remove(&topic);
        let waiting = std::mem::take(&mut t.waiting);
        if waiting.is_empty() {
            return;
        }
        for w in waiting {
            self.release(w.bytes);
            self.pending.remove(w.flush_epoch, 1);
            self.fail_record(topic, w.completion, w.timestamp, error);
        }
        self.fail_any_transaction(error);
    }
}
