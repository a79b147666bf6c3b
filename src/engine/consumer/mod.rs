//! The consumer: prefetches records from the brokers, within one memory limit, and delivers the records of each
//! partition in order.
//!
//! ```text
//! assignment   which partitions              positions       their first offsets
//! fetch        requests and sessions         fetch_response  reads responses       frame   counts their memory
//! partition    buffer and position           truncation      validates positions   commit  commits offsets
//! density      sizes of bounded reads        transaction     returns to uncommitted records
//! ```
//!
//! One fetch per broker is in flight at a time. While some partitions of a broker have full buffers, the consumer
//! fetches only the broker's remaining partitions, with a short `max_wait_ms`. A broker handles the requests of a
//! connection one after the other. A long wait at the broker would therefore delay the next fetch of the partitions
//! whose buffers were full.

mod assignment;
mod commit;
mod density;
mod families;
mod fetch;
mod fetch_response;
mod frame;
mod measured;
mod partition;
mod positions;
mod transaction;
mod truncation;

use super::group::{self, Group, GroupConfig, Subscription};
use super::ops::{Op, OpToken, Ops, Output};
use super::outage::{Outage, STANDING_ERROR_PAUSE};
use super::topic_errors::TopicErrors;
use super::{ClientResponse, Cluster, Error, ErrorKind, MetadataDemand, Outgoing, Role, Target, Time, TopicPartition};
use assignment::{Changing, FirstKnown, Wanted};
use commit::PendingCommit;
pub use commit::{CommitResult, is_stale_member};
use density::Densities;
use fetch::BrokerFetchState;
pub(super) use fetch::{IDLE_PAUSE, is_unknown_topic};
use fetch_response::{DecodeOptions, FetchResult, RequestedPartition, decode_fetch_response};
use frame::Leftover;
use measured::Measured;
pub use measured::Polls;
pub use partition::Slice;
pub(super) use partition::is_temporary;
use partition::{Partition, PositionState};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// Where the consumer starts to read if there is no committed offset, or if the requested offset is out of range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reset {
    /// The first record.
    Earliest,
    /// After the last record.
    Latest,
    /// The first record that is not older than this duration (KIP-1106).
    ByDuration(Duration),
    /// No start position: the next poll raises an error.
    None,
}

/// Configuration of a consumer.
#[derive(Clone, Debug)]
pub struct ConsumerConfig {
    /// The consumer group.
    pub group: Option<GroupConfig>,
    /// Where the consumer starts to read without a committed offset.
    pub reset: Reset,
    /// The wall-clock time at [`Time`] 0, in milliseconds since 1970.
    pub started_ms: i64,
    /// The interval of auto-commits, if they are enabled.
    pub auto_commit: Option<Duration>,
    /// How long the broker keeps committed offsets. `None` means the broker's default.
    pub offsets_retention: Option<Duration>,
    /// The broker responds to a fetch as soon as it has this many bytes.
    pub min_bytes: i32,
    /// How long the broker waits for `min_bytes`.
    pub max_wait: Duration,
    /// The approximate size limit of a response, in bytes.
    pub max_bytes: i32,
    /// The approximate size limit of one partition in a response, in bytes.
    pub max_partition_bytes: i32,
    /// The prefetch limit for all partitions together, in bytes. A response counts as a whole until the last of its
    /// records is delivered.
    pub prefetch_bytes: usize,
    /// Whether to verify checksums.
    pub check_crcs: bool,
    /// Whether the consumer delivers only records of committed transactions and records without a transaction.
    pub read_committed: bool,
    /// Rack of this client, for fetching from the nearest replica (KIP-392).
    pub rack: String,
    /// How long to fetch from a follower before asking the leader again.
    pub replica_max_age: Duration,
    /// The first and the longest retry backoff.
    pub retry_backoff: (Duration, Duration),
    /// How long a broker may take to respond.
    pub request_timeout: Duration,
    /// How long the lookup of offsets may take.
    pub api_timeout: Duration,
    /// The largest decompressed size of a batch, in bytes.
    pub decompress_limit: usize,
}

/// A partition to assign.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assigned {
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: i32,
    /// The offset of the first record to read. With `None`, the consumer starts at the group's committed offset, or
    /// else follows `auto.offset.reset`.
    pub offset: Option<i64>,
    /// Reading stops before this offset.
    pub end_offset: Option<i64>,
}

/// The purpose of an operation.
enum OpPurpose<T> {
    User(T),
    Start(Vec<(usize, u64)>, PositionState),
    Check(Vec<(usize, u64, i32)>),
    Commit(PendingCommit<T>),
}

/// Identifies the request to which a response belongs.
pub enum ConsumerToken {
    /// A fetch.
    Fetch(Vec<RequestedPartition>, DecodeOptions, Leftover),
    /// An operation's request.
    Op(OpToken),
    /// A request of the membership.
    Group(group::GroupToken),
}

/// A decoded response.
pub enum Prepared {
    /// A fetch response.
    Fetch(i32, Result<FetchResult, Error>),
    /// A response for an operation.
    Op(ClientResponse<OpToken>),
    /// A response for the membership.
    Group(ClientResponse<group::GroupToken>),
}

/// The names of a consumer's timers.
#[derive(Clone, Copy, Debug)]
enum Timer {
    /// The next request about a partition: a fetch, a request for its position, or metadata if the partition is
    /// missing.
    Retry,
    /// The end of a broker's throttle time, or of the pause after a response without records.
    Throttle,
    AutoCommit,
    /// The retry of a commit.
    Commit,
    /// A deadline of an operation.
    Operation,
    /// A deadline of the membership.
    Group,
    /// The time to report an outage.
    Outage,
    /// The time to raise the error of an ended membership again.
    StandingError,
}

impl Timer {
    const ALL: [Self; 8] = [
        Self::Retry,
        Self::Throttle,
        Self::AutoCommit,
        Self::Commit,
        Self::Operation,
        Self::Group,
        Self::Outage,
        Self::StandingError,
    ];
}

/// State machine of a consumer. `T` identifies the caller of an operation.
pub struct Consumer<T> {
    config: ConsumerConfig,
    /// The assigned partitions. Each key is a number that the consumer never uses again.
    partitions: BTreeMap<usize, Partition>,
    slots: BTreeMap<TopicPartition, usize>,
    next_slot: usize,
    wanted: Wanted,
    subscribed_at: Time,
    /// The partitions that existed when the subscription began.
    first_known: FirstKnown,
    /// When the application last got an error about a topic that its group waits for.
    missing_topic_reported_at: Time,
    group: Option<Group>,
    /// Whether the group assigns the partitions.
    is_member: bool,
    /// The group's current subscription.
    subscription: Option<Subscription>,
    changing: Option<Changing>,
    /// Paused partitions that the member gave up in the current rebalance, and stay paused if they come back.
    paused_before_rebalance: BTreeSet<TopicPartition>,
    nodes: BTreeMap<i32, BrokerFetchState>,
    leftover: Leftover,
    densities: Densities,
    /// The partition where the next poll starts, so that partitions take turns.
    turn: usize,
    next_auto_commit_at: Option<Time>,
    /// Whether a commit is in flight. `auto_commit_in_flight` tells whether an auto-commit is not complete.
    committing: bool,
    auto_commit_in_flight: bool,
    /// The next commit, which starts at `queued_commit_at` or later.
    queued_commit: Option<PendingCommit<T>>,
    queued_commit_at: Time,
    /// When the consumer started to close.
    closing_since: Option<Time>,
    /// Whether a producer has a transaction open that includes the offsets of this consumer.
    in_transaction: bool,
    /// Whether the consumer delivers no records until the result of the transaction is known.
    held: bool,
    ops: Ops<OpPurpose<T>>,
    positions: Vec<(T, usize, u64)>,
    done: VecDeque<(T, Result<Output, Error>)>,
    error: Option<Error>,
    /// The error of an automatic commit.
    commit_error: Option<Error>,
    /// The error that ended the membership. Polls raise this error until the application subscribes again.
    ended: Option<Error>,
    /// Until when polls do not raise the errors of an ended membership and of partitions without a position.
    pause_errors_until: Option<Time>,
    outage: Outage,
    measured: Measured,
    cluster: Arc<Cluster>,
    /// Like `cluster`, but a topic with a temporary error has its last metadata without an error.
    bridged: Arc<Cluster>,
    topic_errors: TopicErrors,
    demand: MetadataDemand,
}

impl<T: Send> Consumer<T> {
    /// Creates a consumer without an assignment.
    pub fn new(config: ConsumerConfig) -> Self {
        Self {
            ops: Ops::new(config.retry_backoff),
            partitions: BTreeMap::new(),
            slots: BTreeMap::new(),
            next_slot: 0,
            wanted: Wanted::default(),
            subscribed_at: Time(0),
            first_known: FirstKnown::default(),
            missing_topic_reported_at: Time(0),
            group: config.group.clone().map(Group::new),
            is_member: false,
            subscription: None,
            changing: None,
            paused_before_rebalance: BTreeSet::new(),
            nodes: BTreeMap::new(),
            leftover: Leftover::default(),
            densities: Densities::default(),
            turn: 0,
            next_auto_commit_at: None,
            committing: false,
            auto_commit_in_flight: false,
            queued_commit: None,
            queued_commit_at: Time(0),
            closing_since: None,
            in_transaction: false,
            held: false,
            positions: Vec::new(),
            done: VecDeque::new(),
            error: None,
            commit_error: None,
            ended: None,
            pause_errors_until: None,
            outage: Outage::new(config.api_timeout),
            measured: Measured::default(),
            cluster: Arc::default(),
            bridged: Arc::default(),
            topic_errors: TopicErrors::default(),
            demand: MetadataDemand::default(),
            config,
        }
    }

    /// Returns the assigned partitions.
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

    /// Moves the position of a partition to an offset. The abort of an open transaction undoes the move.
    pub fn seek(&mut self, now: Time, topic: &str, partition: i32, offset: i64) -> Result<(), Error> {
        let in_transaction = self.in_transaction;
        let p = self.at(topic, partition)?;
        p.uncommitted_from = p.uncommitted_from.filter(|_| in_transaction);
        p.start_at(offset);
        self.complete_positions();
        self.check_missing(now);
        Ok(())
    }

    /// Moves the position of a partition back to the first record that the application did not get.
    pub fn rewind(&mut self, topic: &str, partition: i32, offset: i64) {
        if let Ok(p) = self.at(topic, partition) {
            let (committed, processed) = (p.committed, p.processed);
            p.start_at(offset);
            (p.committed, p.processed) = (committed, processed.min(offset));
        }
    }

    /// Moves the positions of partitions to a timestamp, where -1 is the end and -2 the start of the log.
    pub fn seek_to(&mut self, now: Time, partitions: &[(String, i32)], timestamp: i64) -> Result<(), Error> {
        let in_transaction = self.in_transaction;
        for (topic, partition) in partitions {
            let p = self.at(topic, *partition)?;
            p.uncommitted_from = p.uncommitted_from.filter(|_| in_transaction);
            p.restart(PositionState::ByTimestamp(timestamp));
        }
        self.find_positions(now);
        Ok(())
    }

    /// Pauses or resumes the fetching and delivery of partitions.
    pub fn set_paused(&mut self, partitions: &[(String, i32)], paused: bool) -> Result<(), Error> {
        for (topic, partition) in partitions {
            self.at(topic, *partition)?.paused = paused;
        }
        Ok(())
    }

    /// Returns the paused partitions.
    pub fn paused(&self) -> Vec<TopicPartition> {
        self.partitions.values().filter(|p| p.paused).map(Partition::topic_partition).collect()
    }

    /// Returns the lag of each assigned partition, if it is known.
    pub fn lag(&self) -> Vec<(TopicPartition, Option<i64>)> {
        let lag = |p: &Partition| {
            (p.state == PositionState::Known && p.readable_end >= 0).then(|| (p.readable_end - p.position).max(0))
        };
        self.partitions.values().map(|p| (p.topic_partition(), lag(p))).collect()
    }

    /// Starts an operation with a timeout.
    pub fn start(&mut self, now: Time, op: Box<dyn Op>, timeout: Duration, completion: T) {
        self.ops.start(now, op, timeout, OpPurpose::User(completion));
    }

    /// Returns whether every partition has an end offset, and all records below the end offsets were delivered.
    pub fn is_finished(&self) -> bool {
        !self.is_member
            && !self.held
            && !self.partitions.is_empty()
            && self.partitions.values().all(Partition::reached_end)
    }

    /// Returns whether [`Consumer::poll_records`] would return records or an error, or whether the application must
    /// take a change of the assignment first.
    pub fn is_ready(&self) -> bool {
        let raises_standing = self.pause_errors_until.is_none();
        self.error.is_some()
            || self.commit_error.is_some()
            || (self.ended.is_some() && raises_standing)
            || self.outage.is_due()
            || self.group.as_ref().is_some_and(Group::has_join_error)
            || self.has_change()
            || (!self.held && self.partitions.values().any(|p| p.is_ready() && (raises_standing || !p.is_lost())))
    }

    /// Delivers buffered records like [`Consumer::take_records`]. Without buffered records, returns the next error,
    /// each error once. Only the errors of an ended membership and of partitions without a position are returned again,
    /// at most once per second.
    pub fn poll_records(&mut self, now: Time, max_records: usize, max_bytes: usize) -> Result<Vec<Slice>, Error> {
        // This error comes before the records, because there might always be more of them.
        if !self.has_change()
            && let Some(error) = self.commit_error.take()
        {
            return Err(error);
        }
        let out = self.take_records(max_records, max_bytes);
        if out.is_empty() && !self.has_change() {
            let error = self.error.take().or_else(|| self.partitions.values_mut().find_map(Partition::take_error));
            let error = error.or_else(|| self.group.as_mut().and_then(Group::take_join_error));
            let error = error.or_else(|| self.outage.take());
            let error = error.or_else(|| self.standing_error(now));
            return error.map_or(Ok(out), Err);
        }
        Ok(out)
    }

    /// Returns the error of an ended membership, or of a partition without a position, unless a poll has just raised
    /// this error.
    fn standing_error(&mut self, now: Time) -> Option<Error> {
        if self.pause_errors_until.is_some_and(|until| now < until) {
            return None;
        }
        let error = self.partitions.values().find_map(Partition::lost_error).or(self.ended.as_ref())?.clone();
        self.pause_errors_until = Some(now + STANDING_ERROR_PAUSE);
        Some(error)
    }

    /// Delivers at most `max_records` buffered records, with about `max_bytes` bytes in total. Partitions take turns.
    pub fn take_records(&mut self, max_records: usize, max_bytes: usize) -> Vec<Slice> {
        let mut out = Vec::new();
        if self.has_change() || self.held {
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

    /// Returns the next deadline of a timer that is later than `now`.
    fn deadline(&self, timer: Timer, now: Time) -> Option<Time> {
        let is_later = |at: &Time| *at > now;
        match timer {
            Timer::Retry => {
                let retries = self.partitions.values().filter(|p| {
                    let is_missing = p.unknown_since.is_some() && p.may_be_missing();
                    is_missing || (p.is_fetchable() && !p.fetching) || p.wants_position()
                });
                retries.map(|p| p.retry_at).filter(is_later).min()
            }
            Timer::Throttle => self.nodes.values().map(|n| n.pauses_until()).filter(is_later).min(),
            Timer::AutoCommit => self.next_auto_commit_at.filter(is_later),
            Timer::Commit => self.next_queued_commit_at(),
            Timer::Operation => self.ops.next_timeout(now),
            Timer::Group => self.group.as_ref()?.next_timeout(now),
            Timer::Outage => self.outage.next_timeout(),
            Timer::StandingError => self.pause_errors_until,
        }
    }

    /// Returns the next completed operation.
    pub fn poll_done(&mut self) -> Option<(T, Result<Output, Error>)> {
        self.done.pop_front()
    }

    /// Fails every operation.
    pub fn fail_all(&mut self, error: &Error) {
        self.fail_commits(error);
        self.ops.fail_all(error);
        let now = self.cluster.updated_at;
        self.handle_done(now);
        self.done.extend(self.positions.drain(..).map(|(completion, ..)| (completion, Err(error.clone()))));
        self.error.get_or_insert_with(|| error.clone());
    }
}

impl<T: Send> Role for Consumer<T> {
    type Token = ConsumerToken;
    type Request = Outgoing<ConsumerToken>;
    type Prepared = Prepared;

    fn build_request(request: Outgoing<ConsumerToken>) -> Outgoing<ConsumerToken> {
        request
    }

    fn prepare(answer: ClientResponse<ConsumerToken>) -> Prepared {
        let ClientResponse { token, node, result } = answer;
        match token {
            ConsumerToken::Op(token) => Prepared::Op(ClientResponse { token, node, result }),
            ConsumerToken::Group(token) => Prepared::Group(ClientResponse { token, node, result }),
            ConsumerToken::Fetch(requested, options, leftover) => Prepared::Fetch(
                node,
                result.and_then(|reply| decode_fetch_response(requested, options, leftover, reply)),
            ),
        }
    }

    fn handle_response(&mut self, now: Time, answer: Prepared) {
        let (error, sent_at) = match &answer {
            Prepared::Fetch(node, result) => {
                (result.as_ref().err(), self.nodes.get(node).map_or(now, |broker| broker.sent_at))
            }
            Prepared::Op(response) => (response.result.as_ref().err(), now),
            Prepared::Group(response) => (response.result.as_ref().err(), now),
        };
        match error {
            Some(error) => self.outage.failed(now, sent_at, error),
            None => self.outage.ended(),
        }
        match answer {
            Prepared::Op(answer) => {
                self.ops.handle_response(now, answer);
                self.handle_done(now);
            }
            Prepared::Fetch(node, result) => self.handle_fetch(now, node, result),
            Prepared::Group(answer) => {
                if let Some(group) = &mut self.group {
                    group.handle_response(now, answer);
                    self.take_group_error();
                }
                self.watch_rebalance(now);
            }
        }
    }

    fn handle_cluster(&mut self, now: Time, cluster: &Arc<Cluster>) {
        if cluster.updated_at > self.cluster.updated_at {
            self.outage.ended();
        }
        self.cluster = cluster.clone();
        self.bridged = self.topic_errors.bridge(now, &self.bridged, cluster);
        self.ops.handle_cluster(now, cluster);
        self.handle_done(now);
        if let Some(group) = &mut self.group {
            group.handle_cluster(&self.bridged);
        }
        self.note_first_known();
        self.update_topics(now);
        self.check_topics(now);
        self.check_positions(now);
        self.check_missing(now);
    }

    fn handle_disconnect(&mut self, now: Time, target: Target) {
        if let Target::Fetch(node) = target
            && let Some(broker) = self.nodes.get_mut(&node)
        {
            broker.throttled_until = now;
        }
    }

    fn handle_unreachable(&mut self, now: Time, error: &Error) {
        self.ops.handle_unreachable(now, error);
        self.outage.unreachable(now, error);
        if let Some(group) = &mut self.group {
            group.handle_unreachable(now, error);
        }
        if error.is_refusal() {
            self.handle_done(now);
            if self.partitions.is_empty() {
                // Without partitions, no fetch reports the error.
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

    fn needed_topics(&self) -> BTreeSet<Arc<str>> {
        let mut topics = self.ops.needed_topics();
        topics.extend(self.partitions.values().map(|p| p.topic.clone()));
        if let Wanted::Topics(subscribed) = &self.wanted {
            topics.extend(subscribed.iter().cloned());
        }
        self.group.iter().for_each(|group| topics.extend(group.needed_topics()));
        topics
    }

    fn next_timeout(&self, now: Time) -> Option<Time> {
        Timer::ALL.into_iter().filter_map(|timer| self.deadline(timer, now)).min()
    }

    fn handle_timeout(&mut self, now: Time) {
        self.pause_errors_until.take_if(|until| *until <= now);
        self.ops.handle_timeout(now);
        self.start_commit(now);
        if self.partitions.values().any(|p| p.wants_position() && p.retry_at <= now) {
            self.find_positions(now);
        }
        if self.partitions.values().any(|p| p.unknown_since.is_some() && p.may_be_missing() && p.retry_at <= now) {
            self.check_missing(now);
        }
        if let Some(group) = &mut self.group {
            group.handle_timeout(now);
        }
        self.watch_rebalance(now);
        // A member that cannot join reports that itself.
        let is_joining = self.group.as_ref().is_some_and(Group::fails_to_join);
        self.outage.handle_timeout(now, !is_joining && !self.reads_nothing(), "reading from the brokers");
        self.handle_done(now);
    }
}
