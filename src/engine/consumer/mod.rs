//! The consumer: fetches from every leader ahead of the reader, within a bound of bytes over all partitions, and gives
//! records out in order.
//!
//! One fetch at a time is out to each broker. While some of a broker's partitions are buffered to their bound, the
//! fetch for the others waits only a moment: the broker answers a connection's requests one after the other, and a long
//! wait would keep the busy partitions from being asked for.

mod fetched;
mod partition;
mod start;

use super::ops::{Commit, Op, OpToken, Ops, Output, UNKNOWN_TOPIC_GRACE};
use super::{Answer, Call, Cluster, Error, ErrorKind, Outgoing, Role, Target, Time, Wish, earliest};
use crate::api::{ErrorCode, Info, fetch};
use crate::record::{Record, TimestampType};
use crate::wire::{Wire, Writer};
use bytes::Bytes;
use fetched::{Asked, Checks, Fetched};
use partition::{Partition, Position};
use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// The first version of Fetch that gives record batches of magic 2 unconverted (Kafka 0.11).
const MIN_FETCH: i16 = 4;
/// How long a fetch waits at the broker while other partitions of that broker are buffered to their bound.
const SHORT_WAIT: Duration = Duration::from_millis(10);

/// Where to start when there is no committed offset, or the offset asked for is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reset {
    /// At the oldest record.
    Earliest,
    /// After the newest record.
    Latest,
    /// Nowhere: it is an error.
    None,
}

/// What a consumer needs to know.
#[derive(Clone, Debug)]
pub struct ConsumerConfig {
    /// The group whose offsets are used.
    pub group: Option<String>,
    /// Where to start without an offset.
    pub reset: Reset,
    /// How often finished offsets are committed, if they are.
    pub auto_commit: Option<Duration>,
    /// Bytes the broker waits for.
    pub min_bytes: i32,
    /// How long it waits for them.
    pub max_wait: Duration,
    /// Bytes of a whole answer, about.
    pub max_bytes: i32,
    /// Bytes of one partition in an answer, about.
    pub max_partition_bytes: i32,
    /// Bytes buffered over all partitions, about: one answer more at most.
    pub prefetch_bytes: usize,
    /// Whether checksums are checked.
    pub check_crcs: bool,
    /// Whether records of transactions that were given up, or are not decided, are kept back.
    pub read_committed: bool,
    /// Where the client stands, for followers that are nearer than leaders.
    pub rack: String,
    /// The first and the longest wait before trying again.
    pub retry_backoff: (Duration, Duration),
    /// How long a broker may take to answer.
    pub request_timeout: Duration,
    /// How long offsets may take to be found.
    pub api_timeout: Duration,
    /// Bytes a batch may decompress to.
    pub decompress_limit: usize,
}

/// A partition to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assigned {
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: i32,
    /// The first offset; `None` for the group's committed one, or else `auto.offset.reset`.
    pub offset: Option<i64>,
    /// The offset to stop before.
    pub end_offset: Option<i64>,
}

/// Records of one batch, in order. The data is shared with everything else of the same batch.
#[derive(Clone, Debug)]
pub struct Slice {
    /// The topic.
    pub topic: Arc<str>,
    /// The partition.
    pub partition: i32,
    /// Who set the timestamps.
    pub timestamp_type: TimestampType,
    /// The bytes the records lie in.
    pub data: Bytes,
    /// The records.
    pub records: Vec<Record>,
}

enum Ticket<T> {
    User(T),
    Start(Vec<(usize, u64)>, Position),
    AutoCommit,
}

/// What an answer is matched with.
pub enum Token {
    /// A fetch.
    Fetch(Vec<Asked>, Checks),
    /// An operation's request.
    Op(OpToken),
}

/// An answer, read.
pub enum Prepared {
    /// A fetch's.
    Fetch(i32, Vec<Asked>, Result<Vec<Fetched>, Error>),
    /// An operation's.
    Op(Answer<OpToken>),
}

struct FetchCall(fetch::Request);

impl Call for FetchCall {
    fn api(&self) -> &'static Info {
        &fetch::API
    }
    fn put(&self, w: &mut Writer) {
        Wire::put(&self.0, w);
    }
    fn min_version(&self) -> i16 {
        MIN_FETCH
    }
}

/// The machine. `T` is what the caller knows an operation by.
pub struct Consumer<T> {
    config: ConsumerConfig,
    partitions: Vec<Partition>,
    slots: BTreeMap<(Arc<str>, i32), usize>,
    subscribed: BTreeSet<Arc<str>>,
    subscribed_at: Time,
    fetching: HashSet<i32>,
    /// Where the next poll begins, so that partitions take turns.
    turn: usize,
    generation: u64,
    next_commit: Option<Time>,
    committing: bool,
    ops: Ops<Ticket<T>>,
    positions: Vec<(T, usize, u64)>,
    done: VecDeque<(T, Result<Output, Error>)>,
    error: Option<Error>,
    cluster: Arc<Cluster>,
    wish: Wish,
}

impl<T: Send> Consumer<T> {
    /// A consumer of nothing.
    pub fn new(config: ConsumerConfig) -> Self {
        Self {
            ops: Ops::new(config.retry_backoff),
            partitions: Vec::new(),
            slots: BTreeMap::new(),
            subscribed: BTreeSet::new(),
            subscribed_at: Time(0),
            fetching: HashSet::new(),
            turn: 0,
            generation: 0,
            next_commit: None,
            committing: false,
            positions: Vec::new(),
            done: VecDeque::new(),
            error: None,
            cluster: Arc::default(),
            wish: Wish::default(),
            config,
        }
    }

    /// Reads these partitions and no others.
    pub fn assign(&mut self, now: Time, assigned: Vec<Assigned>) {
        self.clear();
        for a in assigned {
            self.add(a);
        }
        self.find_positions(now);
    }

    /// Reads every partition of these topics, also those that are added later.
    pub fn subscribe(&mut self, now: Time, topics: Vec<String>) {
        self.clear();
        self.subscribed = topics.into_iter().map(Arc::from).collect();
        self.subscribed_at = now;
        self.wish.topics.extend(self.subscribed.iter().cloned());
        self.wish.refresh = true;
        self.take_subscribed(now);
    }

    fn clear(&mut self) {
        // Fetches that are out belong to slots of an older generation.
        self.generation = self.partitions.iter().map(|p| p.generation).max().unwrap_or(self.generation) + 1;
        self.partitions.clear();
        self.slots.clear();
        self.subscribed.clear();
        self.error = None;
        let error = Error::new(ErrorKind::Config, "partition is no longer assigned");
        self.done.extend(self.positions.drain(..).map(|(ticket, ..)| (ticket, Err(error.clone()))));
    }

    fn add(&mut self, a: Assigned) {
        let topic: Arc<str> = a.topic.into();
        self.wish.topics.insert(topic.clone());
        let mut p = Partition::new(topic.clone(), a.partition, a.end_offset);
        p.generation = self.generation;
        match a.offset {
            Some(offset) => p.start_at(offset),
            None if self.config.group.is_none() => p.reset(self.reset_position()),
            None => {}
        }
        match self.slots.get(&(topic.clone(), a.partition)).and_then(|slot| self.partitions.get_mut(*slot)) {
            Some(existing) => *existing = p,
            None => {
                self.slots.insert((topic, a.partition), self.partitions.len());
                self.partitions.push(p);
            }
        }
    }

    fn take_subscribed(&mut self, now: Time) {
        for topic in self.subscribed.clone() {
            let Some(known) = self.cluster.topics.get(&topic) else {
                continue;
            };
            let patient = now.since(self.subscribed_at) < UNKNOWN_TOPIC_GRACE && known.error.is_retriable();
            if known.error.is_error() {
                if !patient && self.error.is_none() {
                    self.error = Some(Error::refused(known.error, format!("subscribe to {topic:?}")).at(&topic, None));
                }
                continue;
            }
            for partition in 0..known.partitions.len() as i32 {
                if !self.slots.contains_key(&(topic.clone(), partition)) {
                    self.add(Assigned { topic: topic.to_string(), partition, offset: None, end_offset: None });
                }
            }
        }
        self.find_positions(now);
    }

    /// What is assigned.
    pub fn assignment(&self) -> Vec<(Arc<str>, i32)> {
        self.partitions.iter().map(|p| (p.topic.clone(), p.partition)).collect()
    }

    fn slot(&self, topic: &str, partition: i32) -> Result<usize, Error> {
        self.slots.get(&(Arc::from(topic), partition)).copied().ok_or_else(|| {
            Error::new(ErrorKind::Config, format!("{topic}-{partition} is not assigned to this consumer"))
                .with_hint("assign or subscribe first")
        })
    }

    fn at(&mut self, topic: &str, partition: i32) -> Result<&mut Partition, Error> {
        let slot = self.slot(topic, partition)?;
        self.partitions.get_mut(slot).ok_or_else(|| Error::new(ErrorKind::Config, "partition is not assigned"))
    }

    /// Reads on at an offset.
    pub fn seek(&mut self, topic: &str, partition: i32, offset: i64) -> Result<(), Error> {
        self.at(topic, partition)?.start_at(offset);
        self.answer_positions();
        Ok(())
    }

    /// Reads on at a time, or at one of the special ones: -1 for the end, -2 for the start.
    pub fn seek_to(&mut self, now: Time, partitions: &[(String, i32)], timestamp: i64) -> Result<(), Error> {
        for (topic, partition) in partitions {
            self.at(topic, *partition)?.restart(Position::At(timestamp));
        }
        self.find_positions(now);
        Ok(())
    }

    /// Stops or goes on giving out and fetching a partition's records.
    pub fn set_paused(&mut self, partitions: &[(String, i32)], paused: bool) -> Result<(), Error> {
        for (topic, partition) in partitions {
            self.at(topic, *partition)?.paused = paused;
        }
        Ok(())
    }

    /// What is paused.
    pub fn paused(&self) -> Vec<(Arc<str>, i32)> {
        self.partitions.iter().filter(|p| p.paused).map(|p| (p.topic.clone(), p.partition)).collect()
    }

    /// For each assigned partition, how many records the reader is behind, if that is known.
    pub fn lag(&self) -> Vec<((Arc<str>, i32), Option<i64>)> {
        let lag = |p: &Partition| {
            (p.state == Position::Known && p.high_watermark >= 0).then(|| (p.high_watermark - p.position).max(0))
        };
        self.partitions.iter().map(|p| ((p.topic.clone(), p.partition), lag(p))).collect()
    }

    /// Starts an operation that ends within `timeout`.
    pub fn start(&mut self, now: Time, op: Box<dyn Op>, timeout: Duration, ticket: T) {
        self.ops.start(now, op, timeout, Ticket::User(ticket));
    }

    /// Commits offsets, or everything given out so far.
    pub fn commit(&mut self, now: Time, offsets: Option<Vec<(Arc<str>, i32, i64)>>, timeout: Duration, ticket: T) {
        let Some(group) = self.config.group.clone() else {
            let error = Error::new(ErrorKind::Config, "a consumer without group.id cannot commit")
                .with_hint("give the consumer a group_id");
            return self.done.push_back((ticket, Err(error)));
        };
        let offsets = offsets.unwrap_or_else(|| self.given_out());
        self.ops.start(now, Box::new(Commit::new(group, offsets)), timeout, Ticket::User(ticket));
    }

    /// The offset behind everything given out, of each partition that has a position.
    pub fn given_out(&self) -> Vec<(Arc<str>, i32, i64)> {
        let known = self.partitions.iter().filter(|p| p.state == Position::Known);
        known.map(|p| (p.topic.clone(), p.partition, p.position)).collect()
    }

    /// Notes that the reader is done with a partition's records before an offset.
    pub fn finished_with(&mut self, topic: &str, partition: i32, next_offset: i64) {
        if let Ok(p) = self.at(topic, partition)
            && next_offset > p.finished
            && next_offset <= p.position
        {
            p.finished = next_offset;
        }
    }

    /// Notes that the reader is done with everything given out.
    pub fn finished_with_all(&mut self) {
        for p in self.partitions.iter_mut().filter(|p| p.state == Position::Known) {
            p.finished = p.position;
        }
    }

    /// What auto commit would commit now.
    pub fn uncommitted(&self) -> Vec<(Arc<str>, i32, i64)> {
        let due = |p: &&Partition| p.state == Position::Known && p.finished > p.committed.max(0);
        self.partitions.iter().filter(due).map(|p| (p.topic.clone(), p.partition, p.finished)).collect()
    }

    fn auto_commit(&mut self, now: Time) {
        let (Some(interval), Some(group)) = (self.config.auto_commit, self.config.group.clone()) else {
            return;
        };
        let due = *self.next_commit.get_or_insert(now + interval);
        if now < due || self.committing {
            return;
        }
        self.next_commit = Some(now + interval);
        let offsets = self.uncommitted();
        if !offsets.is_empty() {
            for (topic, partition, offset) in &offsets {
                if let Ok(p) = self.at(topic, *partition) {
                    p.committed = *offset;
                }
            }
            self.committing = true;
            let timeout = self.config.api_timeout;
            self.ops.start(now, Box::new(Commit::new(group, offsets)), timeout, Ticket::AutoCommit);
        }
    }

    /// Whether every end was reached and everything before it given out.
    pub fn is_finished(&self) -> bool {
        !self.partitions.is_empty() && self.partitions.iter().all(Partition::is_finished)
    }

    /// Whether [`Consumer::poll_records`] gives something.
    pub fn is_ready(&self) -> bool {
        self.error.is_some() || self.partitions.iter().any(Partition::is_ready)
    }

    /// Gives out what is buffered: up to `max_records` and about `max_bytes`, partitions taking turns.
    pub fn poll_records(&mut self, max_records: usize, max_bytes: usize) -> Result<Vec<Slice>, Error> {
        let mut out = Vec::new();
        let (mut records, mut bytes) = (0, 0);
        let n = self.partitions.len();
        for i in 0..n {
            let slot = (self.turn + i) % n;
            let Some(p) = self.partitions.get_mut(slot).filter(|p| !p.paused) else {
                continue;
            };
            if records >= max_records || bytes >= max_bytes {
                self.turn = slot;
                break;
            }
            let (r, b) = p.take(max_records - records, max_bytes - bytes, &mut out);
            records += r;
            bytes += b;
        }
        if out.is_empty() {
            let error = self.error.take().or_else(|| self.partitions.iter_mut().find_map(Partition::take_error));
            return error.map_or(Ok(out), Err);
        }
        Ok(out)
    }

    /// The next operation that ended.
    pub fn poll_done(&mut self) -> Option<(T, Result<Output, Error>)> {
        self.done.pop_front()
    }

    /// Ends every operation with an error.
    pub fn fail_all(&mut self, error: &Error) {
        self.ops.fail_all(error);
        let now = self.cluster.heard;
        self.take_done(now);
        self.done.extend(self.positions.drain(..).map(|(ticket, ..)| (ticket, Err(error.clone()))));
        self.error.get_or_insert_with(|| error.clone());
    }

    fn handle_fetched(&mut self, now: Time, fetched: Fetched) {
        let Fetched { asked, code, high_watermark, chunks, error } = fetched;
        let reset = self.reset_position();
        let (first, max) = self.config.retry_backoff;
        let Some(p) = self.partitions.get_mut(asked.slot) else {
            return;
        };
        p.fetching = false;
        if p.generation != asked.generation {
            return;
        }
        match code {
            ErrorCode::NONE => {
                p.failures = 0;
                p.unknown_since = None;
                if high_watermark >= 0 {
                    p.high_watermark = high_watermark;
                }
                p.buffer(chunks, error);
            }
            ErrorCode::OFFSET_OUT_OF_RANGE if reset != Position::Lost => p.restart(reset),
            code => {
                p.failures += 1;
                p.retry_at = now + first.saturating_mul(1 << (p.failures - 1).min(16)).min(max);
                let since = *p.unknown_since.get_or_insert(now);
                let unknown = matches!(code, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION | ErrorCode::UNKNOWN_TOPIC_ID);
                if !code.is_retriable() || (unknown && now.since(since) >= UNKNOWN_TOPIC_GRACE) {
                    let what = format!("fetch {}-{} at offset {}", p.topic, p.partition, asked.offset);
                    p.set_error(Error::refused(code, what).at(&p.topic, p.partition));
                }
                self.wish.refresh = true;
            }
        }
    }

    fn next_fetch(&mut self, now: Time) -> Option<Outgoing<Token>> {
        let buffered: usize = self.partitions.iter().map(|p| p.buffered).sum();
        let room = self.config.prefetch_bytes.saturating_sub(buffered);
        if room == 0 {
            return None;
        }
        let max_buffered = (self.config.max_partition_bytes as usize).min(self.config.prefetch_bytes);
        let leader = |c: &Cluster, p: &Partition| c.leader(&p.topic, p.partition).map(|(node, _)| node);
        let wanting = self.partitions.iter().filter(|p| p.wants_more(now, max_buffered));
        let node = wanting.filter_map(|p| leader(&self.cluster, p)).find(|node| !self.fetching.contains(node))?;
        let mut asked = Vec::new();
        let mut topics: Vec<fetch::Topic> = Vec::new();
        let (mut held_back, mut ids) = (false, true);
        for (slot, p) in self.partitions.iter_mut().enumerate() {
            if leader(&self.cluster, p) != Some(node) {
                continue;
            }
            if !p.wants_more(now, max_buffered) {
                held_back |= p.is_fetchable();
                continue;
            }
            let id = self.cluster.topics.get(&p.topic).map(|t| t.id).unwrap_or_default();
            ids &= !id.is_zero();
            let ask = fetch::Partition {
                partition: p.partition,
                fetch_offset: p.fetch_offset,
                partition_max_bytes: self.config.max_partition_bytes,
                ..Default::default()
            };
            match topics.iter_mut().find(|t| *t.topic == *p.topic) {
                Some(t) => t.partitions.push(ask),
                None => topics.push(fetch::Topic { topic: p.topic.to_string(), topic_id: id, partitions: vec![ask] }),
            }
            p.fetching = true;
            let (topic, partition, generation, offset) = (p.topic.clone(), p.partition, p.generation, p.fetch_offset);
            asked.push(Asked { slot, generation, offset, topic, id, partition });
        }
        self.fetching.insert(node);
        let wait = if held_back { self.config.max_wait.min(SHORT_WAIT) } else { self.config.max_wait };
        let request = fetch::Request {
            max_wait_ms: wait.as_millis() as i32,
            min_bytes: self.config.min_bytes,
            max_bytes: self.config.max_bytes.min(i32::try_from(room).unwrap_or(i32::MAX)),
            isolation_level: self.config.read_committed.into(),
            topics,
            rack_id: self.config.rack.clone(),
            ..Default::default()
        };
        let checks = Checks {
            crcs: self.config.check_crcs,
            read_committed: self.config.read_committed,
            limit: self.config.decompress_limit,
        };
        Some(Outgoing {
            target: Target::Fetch(node),
            call: Box::new(FetchCall(request)),
            token: Token::Fetch(asked, checks),
            deadline: now + self.config.request_timeout + wait,
            // From version 13 on topics go by id alone.
            max_version: if ids { i16::MAX } else { 12 },
        })
    }
}

impl<T: Send> Role for Consumer<T> {
    type Token = Token;
    type Packet = Outgoing<Token>;
    type Prepared = Prepared;

    fn pack(packet: Outgoing<Token>) -> Outgoing<Token> {
        packet
    }

    fn prepare(answer: Answer<Token>) -> Prepared {
        let Answer { token, node, result } = answer;
        match token {
            Token::Op(token) => Prepared::Op(Answer { token, node, result }),
            Token::Fetch(asked, checks) => {
                let fetched = result.and_then(|reply| fetched::read(asked.clone(), checks, reply));
                Prepared::Fetch(node, asked, fetched)
            }
        }
    }

    fn handle_answer(&mut self, now: Time, answer: Prepared) {
        match answer {
            Prepared::Op(answer) => {
                self.ops.handle_answer(now, answer);
                self.take_done(now);
            }
            Prepared::Fetch(node, _, Ok(all)) => {
                self.fetching.remove(&node);
                for fetched in all {
                    self.handle_fetched(now, fetched);
                }
                self.find_positions(now);
            }
            Prepared::Fetch(node, asked, Err(error)) => {
                self.fetching.remove(&node);
                let (first, max) = self.config.retry_backoff;
                for asked in asked {
                    let Some(p) = self.partitions.get_mut(asked.slot) else {
                        continue;
                    };
                    p.fetching = false;
                    p.failures += 1;
                    p.retry_at = now + first.saturating_mul(1 << (p.failures - 1).min(16)).min(max);
                    if !error.is_retriable() && p.generation == asked.generation {
                        p.set_error(error.clone().at(&asked.topic, asked.partition));
                    }
                }
                self.wish.refresh = true;
            }
        }
    }

    fn handle_cluster(&mut self, now: Time, cluster: &Arc<Cluster>) {
        self.cluster = cluster.clone();
        self.ops.handle_cluster(now, cluster);
        self.take_done(now);
        self.take_subscribed(now);
    }

    fn handle_unreachable(&mut self, now: Time, error: &Error) {
        self.ops.handle_unreachable(now, error);
    }

    fn poll_send(&mut self, now: Time) -> Option<Outgoing<Token>> {
        self.auto_commit(now);
        if let Some(Outgoing { target, call, token, deadline, max_version }) = self.ops.poll_send(now) {
            return Some(Outgoing { target, call, token: Token::Op(token), deadline, max_version });
        }
        self.next_fetch(now)
    }

    fn poll_wish(&mut self) -> Option<Wish> {
        if let Some(wish) = self.ops.poll_wish() {
            self.wish.topics.extend(wish.topics);
            self.wish.refresh |= wish.refresh;
        }
        (self.wish != Wish::default()).then(|| std::mem::take(&mut self.wish))
    }

    fn next_timeout(&self, now: Time) -> Option<Time> {
        let retry = self.partitions.iter().filter(|p| p.is_fetchable() && !p.fetching).map(|p| p.retry_at);
        let retry = retry.filter(|t| *t > now).min();
        earliest(earliest(self.ops.next_timeout(now), retry), self.next_commit.filter(|t| *t > now))
    }

    fn handle_timeout(&mut self, now: Time) {
        self.ops.handle_timeout(now);
        self.take_done(now);
    }
}
