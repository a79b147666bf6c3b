//! Where records gather: the topic they are for, the partition they go to, the batch they are encoded into.

use super::batch::{Batch, Delivery, Partition};
use super::partitioner::{Chosen, Sticky};
use super::{Event, Producer, TopicMetrics};
use crate::api::ErrorCode;
use crate::engine::{Error, ErrorKind, Time};
use crate::record::{BatchBuilder, HEADER_SIZE, first_record_size, max_record_size};
use crate::wire::Uuid;
use std::collections::VecDeque;
use std::sync::Arc;

/// Room a batch starts with; it grows to `batch.size`.
const FIRST_CAPACITY: usize = 16 << 10;

/// What a record costs besides its bytes if somebody waits for its outcome: the delivery, and what it is waited at.
pub(super) const DELIVERY_BYTES: usize = 128;

/// A topic of a producer, until it handles anything else: found once for all records that go there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopicIndex(pub(super) usize);

/// A record to send.
#[derive(Clone, Copy, Debug)]
pub struct NewRecord<'a> {
    /// The partition, or `None` to have one chosen.
    pub partition: Option<i32>,
    /// Milliseconds since 1970.
    pub timestamp: i64,
    /// Whether the caller chose the timestamp, so that it must not be lost.
    pub is_timed: bool,
    /// The key; `None` is null.
    pub key: Option<&'a [u8]>,
    /// The value; `None` is null, a tombstone.
    pub value: Option<&'a [u8]>,
    /// Headers, in order.
    pub headers: &'a [(&'a str, Option<&'a [u8]>)],
}

/// A record whose partition is known.
pub(super) struct Placed<'a, D> {
    pub record: &'a NewRecord<'a>,
    pub partition: usize,
    /// The most that it takes.
    pub bound: usize,
    pub ticket: Option<D>,
}

/// A record whose topic is not known yet.
struct Waiting<D> {
    partition: Option<i32>,
    timestamp: i64,
    is_timed: bool,
    key: Option<Box<[u8]>>,
    value: Option<Box<[u8]>>,
    headers: Vec<(Box<str>, Option<Box<[u8]>>)>,
    ticket: Option<D>,
    since: Time,
    bytes: usize,
    generation: u64,
}

/// One topic's records.
pub struct Topic<D> {
    pub name: Arc<str>,
    pub state: TopicState,
    /// When something was last sent there.
    pub used: Time,
    pub id: Uuid,
    pub partitions: Vec<Partition<D>>,
    /// How many partitions there are to choose from; there may have been more before the topic was made anew.
    pub count: usize,
    pub metrics: TopicMetrics,
    sticky: Sticky,
    waiting: VecDeque<Waiting<D>>,
}

/// What is done about knowing a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TopicState {
    /// Nothing.
    Forgotten,
    /// It is asked for, and records wait.
    Asked,
    /// What is known is kept up to date.
    Known,
}

impl<D> Topic<D> {
    fn new(name: Arc<str>, seed: u64) -> Self {
        Self {
            name,
            state: TopicState::Forgotten,
            used: Time(0),
            id: Uuid::ZERO,
            partitions: Vec::new(),
            count: 0,
            metrics: TopicMetrics::default(),
            sticky: Sticky::new(seed),
            waiting: VecDeque::new(),
        }
    }

    pub fn is_known(&self) -> bool {
        self.state == TopicState::Known
    }

    /// Whether records are on their way.
    fn is_busy(&self) -> bool {
        !self.waiting.is_empty() || self.partitions.iter().any(|p| !p.is_idle() || p.in_flight() > 0)
    }

    /// When the oldest record came that waits for the topic to be known.
    pub fn waiting_since(&self) -> Option<Time> {
        self.waiting.front().map(|w| w.since)
    }
}

/// Kafka's rule for topic names, checked here because a broker would only say that it does not know the topic.
fn check_name(topic: &str) -> Result<(), Error> {
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if (1..=249).contains(&topic.len()) && topic.chars().all(legal) && topic != "." && topic != ".." {
        return Ok(());
    }
    Err(Error::refused(ErrorCode::INVALID_TOPIC_EXCEPTION, format!("produce to topic {topic:?}")))
}

#[cold]
fn no_partition(topic: &Arc<str>, count: usize, asked: i32) -> Error {
    let message = format!("topic {topic:?} has partitions 0 to {}, not {asked}", count - 1);
    let hint = "if it was added just now, try again: the brokers are being asked";
    Error::new(ErrorKind::Config, message).at(topic, asked).with_hint(hint)
}

impl<D> Producer<D> {
    /// Where records of a topic are appended; from the first time on the topic is asked for.
    pub fn topic(&mut self, name: &str) -> Result<TopicIndex, Error> {
        self.check_open()?;
        // Mostly it is the topic of the record before, which a comparison finds in a tenth of a hash's time.
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
        self.want(index);
        Ok(TopicIndex(index))
    }

    fn want(&mut self, topic: usize) {
        if let Some(t) = self.topics.get_mut(topic) {
            t.state = TopicState::Asked;
            self.demand.topics.insert(t.name.clone());
        }
    }

    /// Lets go of topics that are not there or were not found in time, and of those to which nothing was sent for
    /// `metadata.max.idle.ms`, unless records are on their way (KIP-526). The sequence numbers of a topic's partitions stay:
    /// what is sent there later has to follow what was sent before. A topic that was never there has none.
    pub(super) fn let_go(&mut self, now: Time) {
        for (index, t) in self.topics.iter_mut().enumerate() {
            let is_absent = self.cluster.topics.get(&t.name).is_some_and(|known| known.error.is_error());
            let stays = match t.state {
                TopicState::Forgotten => true,
                // Nobody waits for it.
                TopicState::Asked => false,
                TopicState::Known => !is_absent && now.since(t.used) < self.config.metadata_max_idle,
            };
            if stays || t.is_busy() {
                continue;
            }
            self.demand.topics.remove(&t.name);
            self.demand.lets_go = true;
            t.state = TopicState::Forgotten;
            if t.partitions.is_empty() {
                self.by_name.remove(&t.name);
                // No topic has this name.
                t.name = Arc::default();
                self.latest = usize::MAX;
                self.vacant.push(index);
            }
        }
    }

    /// An error if the state of transactions does not allow records.
    #[inline]
    pub(super) fn check_open(&self) -> Result<(), Error> {
        self.transactions.as_ref().map_or(Ok(()), |t| t.accepts())
    }

    /// Takes a record; its outcome comes as an [`Event`] with the ticket. Fails at once, giving the ticket's record no
    /// outcome, if the buffer is full or the record can never be sent. Says whether the network has something to do.
    #[inline]
    pub fn append(
        &mut self,
        now: Time,
        TopicIndex(topic): TopicIndex,
        record: &NewRecord<'_>,
        ticket: Option<D>,
    ) -> Result<bool, Error> {
        self.check_open()?;
        let bound = max_record_size(record.key, record.value, record.headers);
        if bound + HEADER_SIZE > self.config.max_request_size {
            let size = first_record_size(record.key, record.value, record.headers);
            if size + HEADER_SIZE > self.config.max_request_size {
                return Err(self.too_large(topic, size));
            }
        }
        if self.memory + bound > self.config.buffer_memory {
            return Err(self.no_room(bound));
        }
        match self.topics.get(topic) {
            Some(t) if t.is_known() => self
                .append_to(now, self.generation, topic, record, bound, ticket)
                .inspect_err(|error| self.fail_transaction(error)),
            _ => Ok(self.hold(now, topic, record, bound, ticket)),
        }
    }

    /// Has an open transaction end in an abort: a record that the program meant to be part of it was not taken. (A full
    /// buffer is no such end, as the record may be taken later.)
    #[cold]
    pub fn fail_transaction(&mut self, error: &Error) {
        if let Some(transactions) = &mut self.transactions
            && transactions.accepts().is_ok()
        {
            transactions.fail(error);
            self.take_news();
        }
    }

    #[cold]
    fn too_large(&mut self, topic: usize, size: usize) -> Error {
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
    fn no_room(&mut self, bound: usize) -> Error {
        let buffer_memory = self.config.buffer_memory;
        if bound > buffer_memory {
            let message = format!("a record of {bound} bytes never fits buffer.memory ({buffer_memory})");
            let error = Error::new(ErrorKind::Config, message);
            self.fail_transaction(&error);
            return error;
        }
        self.pressure = true;
        let message = format!("buffer.memory ({buffer_memory} bytes) is used up by records that wait");
        Error::new(ErrorKind::BufferFull, message).with_hint("wait for deliveries, or raise buffer.memory")
    }

    /// Keeps a record until its topic is known; says whether it is the first one.
    #[cold]
    fn hold(&mut self, now: Time, topic: usize, record: &NewRecord<'_>, bytes: usize, ticket: Option<D>) -> bool {
        let Some(t) = self.topics.get_mut(topic) else {
            return false;
        };
        t.used = now;
        let owned = |b: Option<&[u8]>| b.map(Box::from);
        t.waiting.push_back(Waiting {
            partition: record.partition,
            timestamp: record.timestamp,
            is_timed: record.is_timed,
            key: owned(record.key),
            value: owned(record.value),
            headers: record.headers.iter().map(|(k, v)| (Box::from(*k), owned(*v))).collect(),
            ticket,
            since: now,
            bytes,
            generation: self.generation,
        });
        self.memory += bytes;
        self.outstanding.add(self.generation);
        let (is_first, is_forgotten) = (t.waiting.len() == 1, t.state == TopicState::Forgotten);
        if is_forgotten {
            self.want(topic);
            // Others may have kept it known.
            self.settle_topic(now, topic);
        }
        is_first
    }

    /// `generation` is that of the call which brought the record: a flush after it waits for it, wherever it is by then.
    /// `bound` is the most that the record takes.
    #[inline]
    fn append_to(
        &mut self,
        now: Time,
        generation: u64,
        topic: usize,
        record: &NewRecord<'_>,
        bound: usize,
        ticket: Option<D>,
    ) -> Result<bool, Error> {
        let Some(t) = self.topics.get_mut(topic) else {
            return Ok(false);
        };
        let count = t.count;
        let (partition, sticks) = match record.partition {
            Some(p) => match usize::try_from(p).ok().filter(|p| *p < count) {
                Some(p) => (p, false),
                None => {
                    // It may have been added since.
                    self.demand.refresh = true;
                    return Err(no_partition(&t.name, count, p));
                }
            },
            None => match self.config.partitioner.choose(record.key, count) {
                Chosen::Partition(p) => (p, false),
                Chosen::Next => {
                    let has_leader = |p: &usize| self.cluster.leader(&t.name, *p as i32).is_some();
                    let led = (0..count).map(|_| t.sticky.next(count)).find(has_leader);
                    (led.unwrap_or_else(|| t.sticky.next(count)), false)
                }
                Chosen::Sticky => (t.sticky.partition(count), true),
            },
        };
        let (size, wake) = self.append_all(now, generation, topic, [Placed { record, partition, bound, ticket }]);
        if sticks {
            self.note_sent(topic, size);
        }
        Ok(wake)
    }

    /// Appends records of a topic; says how many bytes they took, and whether the network has something to do.
    #[inline]
    pub(super) fn append_all<'a>(
        &mut self,
        now: Time,
        generation: u64,
        topic: usize,
        records: impl IntoIterator<Item = Placed<'a, D>>,
    ) -> (usize, bool) {
        let (mut size, mut memory, mut wake) = (0, 0, false);
        let Some(t) = self.topics.get_mut(topic) else {
            return (size, wake);
        };
        t.used = now;
        let (batch_size, spare) = (self.config.batch_size, &mut self.spare);
        for Placed { record, partition, bound, ticket } in records {
            let Some(p) = t.partitions.get_mut(partition) else {
                continue;
            };
            if p.open.as_ref().is_some_and(|open| open.size() + bound > batch_size) {
                p.close_open();
                wake = true;
            }
            let open = p.open.get_or_insert_with(|| {
                let builder = match spare.pop() {
                    Some(buffer) => BatchBuilder::with_buffer(buffer),
                    None => BatchBuilder::with_capacity(FIRST_CAPACITY.min(batch_size)),
                };
                self.active.insert((topic, partition));
                if let Some(transactions) = &mut self.transactions {
                    transactions.want((topic, partition));
                }
                memory += HEADER_SIZE;
                wake = true;
                let mut batch = Batch::new(now, generation, builder);
                batch.bytes = HEADER_SIZE;
                batch
            });
            let Some(builder) = open.builder() else {
                continue;
            };
            let appended = builder.append(record.timestamp, record.key, record.value, record.headers);
            open.count += 1;
            open.has_headers |= !record.headers.is_empty();
            open.has_timestamps |= record.is_timed;
            let mut bytes = appended.size;
            if let Some(ticket) = ticket {
                bytes += DELIVERY_BYTES;
                open.deliveries.push(Delivery { index: appended.index, timestamp: record.timestamp, ticket });
            }
            open.bytes += bytes;
            memory += bytes;
            size += appended.size;
            self.outstanding.add(open.generation);
        }
        self.memory += memory;
        (size, wake)
    }

    /// Has the partition change that records without a key stick to, once it had enough of them.
    fn note_sent(&mut self, topic: usize, size: usize) {
        let batch_size = self.config.batch_size;
        if self.topics.get_mut(topic).is_some_and(|t| t.sticky.sent(size, batch_size)) {
            self.turn(topic);
        }
    }

    /// Has records without a key stick to another partition, one with a leader if there is any.
    fn turn(&mut self, topic: usize) {
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
        t.sticky.turn(&loads);
    }

    /// Takes over what the cluster says of a topic, and sends what waited for it.
    pub(super) fn settle_topic(&mut self, now: Time, topic: usize) {
        let Some(t) = self.topics.get_mut(topic) else {
            return;
        };
        let Some(known) = self.cluster.topics.get(&t.name) else {
            return;
        };
        if known.error.is_error() || known.partitions.is_empty() {
            return;
        }
        // Partitions are added, never removed: fewer are those of a topic made anew, or of a broker that is behind.
        let is_behind = !known.id.is_zero() && known.id == t.id && known.partitions.len() < t.count;
        t.id = known.id;
        if t.state == TopicState::Asked {
            t.state = TopicState::Known;
        }
        let count = if is_behind { t.count } else { known.partitions.len() };
        t.count = count;
        t.partitions.resize_with(count.max(t.partitions.len()), Partition::default);
        if self.cluster.leader(&t.name, t.sticky.partition(count) as i32).is_none() {
            self.turn(topic);
        }
        let Some(t) = self.topics.get_mut(topic) else {
            return;
        };
        let mut refused = None;
        for w in std::mem::take(&mut t.waiting) {
            self.release(w.bytes);
            self.outstanding.remove(w.generation, 1);
            let Some(name) = self.topics.get(topic).map(|t| t.name.clone()) else {
                return;
            };
            let headers: Vec<(&str, Option<&[u8]>)> = w.headers.iter().map(|(k, v)| (&**k, v.as_deref())).collect();
            let record = NewRecord {
                partition: w.partition,
                timestamp: w.timestamp,
                is_timed: w.is_timed,
                key: w.key.as_deref(),
                value: w.value.as_deref(),
                headers: &headers,
            };
            // The delivery's time counts from the call, not from the topic's arrival.
            let bad = record.partition.filter(|p| usize::try_from(*p).is_ok_and(|p| p >= count) || *p < 0);
            if let Some(p) = bad {
                let error = no_partition(&name, count, p);
                self.refuse(topic, w.ticket, w.timestamp, &error);
                refused = Some(error);
                continue;
            }
            if let Err(e) = self.append_to(w.since.min(now), w.generation, topic, &record, w.bytes, w.ticket) {
                debug_assert!(false, "a checked record was refused: {e}");
            }
        }
        // Only now, so that the others are there to be given up with the transaction.
        if let Some(error) = refused {
            self.note_refused(&error);
        }
    }

    /// Has the transaction, even one that is about to be committed, end in an abort.
    fn note_refused(&mut self, error: &Error) {
        if let Some(transactions) = &mut self.transactions {
            transactions.fail(error);
            self.take_news();
        }
    }

    fn refuse(&mut self, topic: usize, ticket: Option<D>, timestamp: i64, error: &Error) {
        let Some(t) = self.topics.get(topic) else {
            return;
        };
        let untracked = u64::from(ticket.is_none());
        let deliveries = ticket.into_iter().map(|ticket| Delivery { index: 0, timestamp, ticket }).collect();
        let result = Err(error.clone().at(&t.name, None));
        self.events.push_back(Event { topic: t.name.clone(), partition: -1, deliveries, untracked, result });
    }

    /// Fails the records that wait for a topic.
    pub(super) fn fail_waiting(&mut self, topic: usize, error: &Error) {
        let Some(t) = self.topics.get_mut(topic) else {
            return;
        };
        let waiting = std::mem::take(&mut t.waiting);
        if waiting.is_empty() {
            return;
        }
        for w in waiting {
            self.release(w.bytes);
            self.outstanding.remove(w.generation, 1);
            self.refuse(topic, w.ticket, w.timestamp, error);
        }
        self.note_refused(error);
    }
}
