//! The consumer: fetches from every leader ahead of the reader, within a bound of bytes over all partitions, and gives
//! records out in order.
//!
//! One fetch at a time is out to each broker. While some of a broker's partitions are buffered to their bound, the
//! fetch for the others waits only a moment: the broker answers a connection's requests one after the other, and a long
//! wait would keep the busy partitions from being asked for.

mod assignment;
mod commit;
mod fetch;
mod fetched;
mod frame;
mod partition;
mod start;
mod truncation;

use super::group::{self, Group, GroupConfig, Subscription};
use super::ops::{Op, OpToken, Ops, Output};
use super::{
    ClientResponse, Cluster, Error, ErrorKind, MetadataDemand, Outgoing, Role, Time, TopicPartition, earliest,
};
use crate::record::{Record, TimestampType};
use assignment::{Changing, Wanted};
use bytes::Bytes;
use commit::Committing;
pub use commit::is_late;
use fetch::Node;
pub(super) use fetch::is_gone;
use fetched::{Asked, Checks, FetchedAll};
use frame::Leftover;
pub(super) use partition::passes;
use partition::{Partition, Position};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// Where to start when there is no committed offset, or the offset asked for is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reset {
    /// At the oldest record.
    Earliest,
    /// After the newest record.
    Latest,
    /// At the first record that is no older (KIP-1106).
    ByDuration(Duration),
    /// Nowhere: it is an error.
    None,
}

/// What a consumer needs to know.
#[derive(Clone, Debug)]
pub struct ConsumerConfig {
    /// The group whose offsets are used, and that topics are read with.
    pub group: Option<GroupConfig>,
    /// Where to start without an offset.
    pub reset: Reset,
    /// The wall clock at [`Time`] 0, milliseconds since 1970.
    pub started_ms: i64,
    /// How often finished offsets are committed, if they are.
    pub auto_commit: Option<Duration>,
    /// How long the broker is to keep committed offsets, if not as long as it does by itself.
    pub offsets_retention: Option<Duration>,
    /// Bytes the broker waits for.
    pub min_bytes: i32,
    /// How long it waits for them.
    pub max_wait: Duration,
    /// Bytes of a whole answer, about.
    pub max_bytes: i32,
    /// Bytes of one partition in an answer, about.
    pub max_partition_bytes: i32,
    /// Bytes fetched ahead over all partitions, whole answers as long as some of them was not given out.
    pub prefetch_bytes: usize,
    /// Whether checksums are checked.
    pub check_crcs: bool,
    /// Whether records of transactions that were given up, or are not decided, are kept back.
    pub read_committed: bool,
    /// Where the client stands, for followers that are nearer than leaders (KIP-392).
    pub rack: String,
    /// How long a follower is read from before the leader is asked again.
    pub replica_max_age: Duration,
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
    /// How often they were delivered to members of the share group, this time included; 0 outside of share groups.
    pub delivery_count: i16,
}

enum Ticket<T> {
    User(T),
    Start(Vec<(usize, u64)>, Position),
    Check(Vec<(usize, u64, i32)>),
    Commit(Committing<T>),
}

/// What an answer is matched with.
pub enum ConsumerToken {
    /// A fetch.
    Fetch(Vec<Asked>, Checks, Leftover),
    /// An operation's request.
    Op(OpToken),
    /// A request of the membership.
    Group(group::GroupToken),
}

/// An answer, read.
pub enum Prepared {
    /// A fetch's.
    Fetch(i32, Result<FetchedAll, Error>),
    /// An operation's.
    Op(ClientResponse<OpToken>),
    /// The membership's.
    Group(ClientResponse<group::GroupToken>),
}

/// The machine. `T` is what the caller knows an operation by.
pub struct Consumer<T> {
    config: ConsumerConfig,
    /// What is read, by a number that is given once.
    partitions: BTreeMap<usize, Partition>,
    slots: BTreeMap<TopicPartition, usize>,
    next_slot: usize,
    wanted: Wanted,
    subscribed_at: Time,
    group: Option<Group>,
    /// Whether the group says what is read.
    is_member: bool,
    /// What the group was told to be wanted.
    told: Option<Subscription>,
    changing: Option<Changing>,
    nodes: BTreeMap<i32, Node>,
    leftover: Leftover,
    /// Where the next poll begins, so that partitions take turns.
    turn: usize,
    next_commit: Option<Time>,
    /// Whether a commit is under way, and whether one of an interval is not done yet.
    committing: bool,
    interval_commits: bool,
    /// What goes with the next one, and when that is at the earliest.
    next_commits: Option<Committing<T>>,
    commit_at: Time,
    /// Since when the reader has been about to leave what it reads.
    goes_since: Option<Time>,
    ops: Ops<Ticket<T>>,
    positions: Vec<(T, usize, u64)>,
    done: VecDeque<(T, Result<Output, Error>)>,
    error: Option<Error>,
    /// Why offsets that are committed by themselves were refused.
    commit_error: Option<Error>,
    /// Why the consumer is no member of its group any more; every poll says so until it subscribes anew.
    ended: Option<Error>,
    cluster: Arc<Cluster>,
    demand: MetadataDemand,
}

impl<T: Send> Consumer<T> {
    /// A consumer of nothing.
    pub fn new(config: ConsumerConfig) -> Self {
        Self {
            ops: Ops::new(config.retry_backoff),
            partitions: BTreeMap::new(),
            slots: BTreeMap::new(),
            next_slot: 0,
            wanted: Wanted::default(),
            subscribed_at: Time(0),
            group: config.group.clone().map(Group::new),
            is_member: false,
            told: None,
            changing: None,
            nodes: BTreeMap::new(),
            leftover: Leftover::default(),
            turn: 0,
            next_commit: None,
            committing: false,
            interval_commits: false,
            next_commits: None,
            commit_at: Time(0),
            goes_since: None,
            positions: Vec::new(),
            done: VecDeque::new(),
            error: None,
            commit_error: None,
            ended: None,
            cluster: Arc::default(),
            demand: MetadataDemand::default(),
            config,
        }
    }

    /// What is assigned.
    pub fn assignment(&self) -> Vec<TopicPartition> {
        self.partitions.values().map(Partition::topic_partition).collect()
    }

    fn slot(&self, topic: &str, partition: i32) -> Result<usize, Error> {
        self.slots.get(&TopicPartition::new(topic, partition)).copied().ok_or_else(|| {
            Error::new(ErrorKind::Config, format!("{topic}-{partition} is not assigned to this consumer"))
                .with_hint("assign or subscribe first")
        })
    }

    fn at(&mut self, topic: &str, partition: i32) -> Result<&mut Partition, Error> {
        let slot = self.slot(topic, partition)?;
        self.partitions.get_mut(&slot).ok_or_else(|| Error::new(ErrorKind::Config, "partition is not assigned"))
    }

    /// Reads on at an offset.
    pub fn seek(&mut self, now: Time, topic: &str, partition: i32, offset: i64) -> Result<(), Error> {
        self.at(topic, partition)?.start_at(offset);
        self.answer_positions();
        self.look_for_missing(now);
        Ok(())
    }

    /// Goes back to the first record that the reader did not get.
    pub fn rewind(&mut self, topic: &str, partition: i32, offset: i64) {
        if let Ok(p) = self.at(topic, partition) {
            let (committed, finished) = (p.committed, p.finished);
            p.start_at(offset);
            (p.committed, p.finished) = (committed, finished.min(offset));
        }
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
    pub fn paused(&self) -> Vec<TopicPartition> {
        self.partitions.values().filter(|p| p.paused).map(Partition::topic_partition).collect()
    }

    /// For each assigned partition, how many records the reader is behind, if that is known.
    pub fn lag(&self) -> Vec<(TopicPartition, Option<i64>)> {
        let lag =
            |p: &Partition| (p.state == Position::Known && p.readable >= 0).then(|| (p.readable - p.position).max(0));
        self.partitions.values().map(|p| (p.topic_partition(), lag(p))).collect()
    }

    /// Starts an operation that ends within `timeout`.
    pub fn start(&mut self, now: Time, op: Box<dyn Op>, timeout: Duration, ticket: T) {
        self.ops.start(now, op, timeout, Ticket::User(ticket));
    }

    /// Whether every end was reached and everything before it given out.
    pub fn is_finished(&self) -> bool {
        !self.is_member && !self.partitions.is_empty() && self.partitions.values().all(Partition::is_finished)
    }

    /// Whether [`Consumer::poll_records`] gives something, or a change is to be taken before.
    pub fn is_ready(&self) -> bool {
        self.error.is_some()
            || self.commit_error.is_some()
            || self.ended.is_some()
            || self.group.as_ref().is_some_and(Group::has_trouble)
            || self.has_change()
            || self.partitions.values().any(Partition::is_ready)
    }

    /// Gives out what is buffered, as [`Consumer::take_records`], or why there is nothing, once.
    pub fn poll_records(&mut self, max_records: usize, max_bytes: usize) -> Result<Vec<Slice>, Error> {
        // Not behind the records, as other errors are: of those there may be always more.
        if !self.has_change()
            && let Some(error) = self.commit_error.take()
        {
            return Err(error);
        }
        let out = self.take_records(max_records, max_bytes);
        if out.is_empty() && !self.has_change() {
            let error = self.error.take().or_else(|| self.partitions.values_mut().find_map(Partition::take_error));
            let error = error.or_else(|| self.group.as_mut().and_then(Group::take_trouble));
            let error = error.or_else(|| self.ended.clone());
            return error.map_or(Ok(out), Err);
        }
        Ok(out)
    }

    /// Gives out what is buffered: up to `max_records` and about `max_bytes`, partitions taking turns.
    pub fn take_records(&mut self, max_records: usize, max_bytes: usize) -> Vec<Slice> {
        let mut out = Vec::new();
        if self.has_change() {
            return out;
        }
        let (mut records, mut bytes) = (0, 0);
        let (before, from): (Vec<usize>, Vec<usize>) = self.partitions.keys().partition(|slot| **slot < self.turn);
        for slot in from.into_iter().chain(before) {
            let Some(p) = self.partitions.get_mut(&slot).filter(|p| !p.paused) else {
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
        out
    }

    /// The next operation that ended.
    pub fn poll_done(&mut self) -> Option<(T, Result<Output, Error>)> {
        self.done.pop_front()
    }

    /// Ends every operation with an error.
    pub fn fail_all(&mut self, error: &Error) {
        self.fail_commits(error);
        self.ops.fail_all(error);
        let now = self.cluster.updated_at;
        self.take_done(now);
        self.done.extend(self.positions.drain(..).map(|(ticket, ..)| (ticket, Err(error.clone()))));
        self.error.get_or_insert_with(|| error.clone());
    }
}

impl<T: Send> Role for Consumer<T> {
    type Token = ConsumerToken;
    type Packet = Outgoing<ConsumerToken>;
    type Prepared = Prepared;

    fn pack(packet: Outgoing<ConsumerToken>) -> Outgoing<ConsumerToken> {
        packet
    }

    fn prepare(answer: ClientResponse<ConsumerToken>) -> Prepared {
        let ClientResponse { token, node, result } = answer;
        match token {
            ConsumerToken::Op(token) => Prepared::Op(ClientResponse { token, node, result }),
            ConsumerToken::Group(token) => Prepared::Group(ClientResponse { token, node, result }),
            ConsumerToken::Fetch(asked, checks, leftover) => {
                Prepared::Fetch(node, result.and_then(|reply| fetched::read(asked, checks, leftover, reply)))
            }
        }
    }

    fn handle_response(&mut self, now: Time, answer: Prepared) {
        match answer {
            Prepared::Op(answer) => {
                self.ops.handle_response(now, answer);
                self.take_done(now);
            }
            Prepared::Fetch(node, result) => self.handle_fetch(now, node, result),
            Prepared::Group(answer) => {
                if let Some(group) = &mut self.group {
                    group.handle_response(now, answer);
                    self.take_group_error();
                }
            }
        }
    }

    fn handle_cluster(&mut self, now: Time, cluster: &Arc<Cluster>) {
        self.cluster = cluster.clone();
        self.ops.handle_cluster(now, cluster);
        self.take_done(now);
        if let Some(group) = &mut self.group {
            group.handle_cluster(cluster);
        }
        self.take_topics(now);
        self.check_topics(now);
        self.check_positions(now);
        self.look_for_missing(now);
    }

    fn handle_unreachable(&mut self, now: Time, error: &Error) {
        self.ops.handle_unreachable(now, error);
        if let Some(group) = &mut self.group {
            group.handle_unreachable(now, error);
        }
        if error.kind() == ErrorKind::Authentication {
            self.take_done(now);
            if self.partitions.is_empty() {
                // Nothing is assigned yet whose reader would hear of it.
                self.error = Some(error.clone());
            }
        }
    }

    fn poll_send(&mut self, now: Time) -> Option<Outgoing<ConsumerToken>> {
        self.auto_commit(now);
        if let Some(outgoing) = self.ops.poll_send(now) {
            return Some(outgoing.map(ConsumerToken::Op));
        }
        if let Some(outgoing) = self.group.as_mut().and_then(|g| g.poll_send(now)) {
            return Some(outgoing.map(ConsumerToken::Group));
        }
        self.next_fetch(now)
    }

    fn poll_demand(&mut self) -> Option<MetadataDemand> {
        let groups = self.group.as_mut().and_then(Group::poll_demand);
        MetadataDemand::merge([self.demand.take(), self.ops.poll_demand(), groups])
    }

    fn wanted_topics(&self) -> BTreeSet<Arc<str>> {
        let mut wanted = self.ops.wanted_topics();
        wanted.extend(self.partitions.values().map(|p| p.topic.clone()));
        if let Wanted::Topics(topics) = &self.wanted {
            wanted.extend(topics.iter().cloned());
        }
        self.group.iter().for_each(|group| wanted.extend(group.wanted_topics()));
        wanted
    }

    fn next_timeout(&self, now: Time) -> Option<Time> {
        let retries = |p: &&Partition| {
            let is_missing = p.unknown_since.is_some() && p.is_looked_for();
            is_missing || (p.is_fetchable() && !p.fetching) || p.wants_position()
        };
        let retry = self.partitions.values().filter(retries).map(|p| p.retry_at);
        let retry = retry.filter(|t| *t > now).min();
        let quiet = self.nodes.values().map(|n| n.quiet_until).filter(|t| *t > now).min();
        let retry = earliest(retry, quiet);
        let group = self.group.as_ref().and_then(|g| g.next_timeout(now));
        let commit = earliest(self.next_commit.filter(|t| *t > now), self.next_commit_at());
        earliest(earliest(self.ops.next_timeout(now), retry), earliest(group, commit))
    }

    fn handle_timeout(&mut self, now: Time) {
        self.ops.handle_timeout(now);
        self.start_commit(now);
        if self.partitions.values().any(|p| p.wants_position() && p.retry_at <= now) {
            self.find_positions(now);
        }
        if self.partitions.values().any(|p| p.unknown_since.is_some() && p.is_looked_for() && p.retry_at <= now) {
            self.look_for_missing(now);
        }
        if let Some(group) = &mut self.group {
            group.handle_timeout(now);
        }
        self.take_done(now);
    }
}
