//! A member of a consumer group of Kafka 0.7. Groups of Kafka 0.7 have no coordinator: all members read the same
//! ZooKeeper tree and compute the same assignment.
//!
//! ```text
//! Away -> Registering -> Looking -> Stopping -> Releasing -> Claiming -> Steady      any change leads back to Looking
//!   ^                    members,   readers     offsets,     owners,
//!   |                    topics     end         owners       offsets
//!   +-- the session ended: other members may own all partitions
//! ```
//!
//! The member gives its driver one [`Operation`] on the ZooKeeper tree at a time. It writes exactly the same paths and
//! data to ZooKeeper as the Java consumer, so klamm and Java consumers can be in one group. It creates a partition's
//! owner node before it reads the partition. It deletes the owner node after the partition's reader has stopped and the
//! offset is written. Two members therefore never read the same partition at the same time, and offsets never go back.
//! The member differs from the Java consumer in two ways. In a rebalance, it keeps the partitions that are assigned to
//! it again. If a slower member still owns a newly assigned partition, it waits instead of releasing its partitions.
//! The driver knows the brokers, reads the partitions and decides when to commit.

use crate::engine::Time;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::time::Duration;

/// A partition of a topic on one broker. Partitions are sorted by their names in the tree, so `10-0` comes before
/// `2-0`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BrokerPartition {
    /// The topic's name.
    pub topic: String,
    /// The broker's ID.
    pub broker: u32,
    /// The partition's number on that broker.
    pub partition: u32,
}

impl fmt::Display for BrokerPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.broker, self.partition)
    }
}

/// The topics that a member subscribes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subscription {
    /// Topics by name, each with a number of streams.
    Topics(BTreeMap<String, u32>),
    /// The topics whose whole name matches a regular expression, and the number of streams.
    Whitelist(u32, String),
    /// The topics whose name does not match a regular expression, and the number of streams.
    Blacklist(u32, String),
}

impl Subscription {
    /// Encodes the subscription for the registration of a member.
    pub fn encode(&self) -> String {
        match self {
            Self::Topics(topics) => {
                let entries: Vec<_> = topics.iter().map(|(topic, streams)| format!("\"{topic}\": {streams}")).collect();
                format!("{{ {} }}", entries.join(","))
            }
            Self::Whitelist(streams, pattern) => format!("*{streams}*{pattern}"),
            Self::Blacklist(streams, pattern) => format!("!{streams}!{pattern}"),
        }
    }

    /// Decodes the subscription in a member's registration. Returns `None` for data that no Kafka 0.7 consumer writes.
    pub fn decode(data: &str) -> Option<Self> {
        for (marker, make) in [('*', Self::Whitelist as fn(u32, String) -> Self), ('!', Self::Blacklist)] {
            if let Some((streams, pattern)) = data.strip_prefix(marker).and_then(|rest| rest.split_once(marker)) {
                return Some(make(streams.parse().ok()?, pattern.to_owned()));
            }
        }
        let mut rest = data.trim().strip_prefix('{')?.strip_suffix('}')?.trim();
        let mut topics = BTreeMap::new();
        while !rest.is_empty() {
            let (topic, behind) = rest.strip_prefix('"')?.split_once('"')?;
            let behind = behind.trim_start().strip_prefix(':')?;
            let (streams, behind) = behind.split_once(',').unwrap_or((behind, ""));
            topics.insert(topic.to_owned(), streams.trim().parse().ok()?);
            rest = behind.trim_start();
        }
        Some(Self::Topics(topics))
    }

    fn pattern(&self) -> Option<&str> {
        match self {
            Self::Topics(_) => None,
            Self::Whitelist(_, pattern) | Self::Blacklist(_, pattern) => Some(pattern),
        }
    }

    /// Returns how many streams read a topic.
    fn streams(&self, topic: &str, matches: &Matches) -> u32 {
        let is_match = |pattern: &str| matches.get(pattern).is_some_and(|found| found.contains(topic));
        match self {
            Self::Topics(topics) => topics.get(topic).copied().unwrap_or(0),
            Self::Whitelist(streams, pattern) if is_match(pattern) => *streams,
            Self::Blacklist(streams, pattern) if !is_match(pattern) => *streams,
            Self::Whitelist(..) | Self::Blacklist(..) => 0,
        }
    }
}

/// The topics that match a pattern.
type Matches = BTreeMap<String, BTreeSet<String>>;

/// An operation on the ZooKeeper tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// List the children of a node, and watch for changes. If the node does not exist, watch for its creation.
    Children(String),
    /// Read a node's data.
    Read(String),
    /// Create an ephemeral node and its missing parents. If this session has already created the node, the operation
    /// succeeds.
    Create(String, String),
    /// Delete a node, if it has this data and this session has created it.
    Delete(String, String),
    /// Write a persistent node, and create it if it does not exist.
    Write(String, String),
    /// Return the names that a regular expression matches as a whole, or an error if this client does not support the
    /// expression. This operation does not access the tree.
    Match(String, Vec<String>),
}

/// The result of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OperationResult {
    /// The operation succeeded.
    Done,
    /// The names, without paths.
    Names(Vec<String>),
    /// The data of a node.
    Data(String),
    /// The node does not exist.
    Missing,
    /// Another session has created the node.
    Exists,
    /// The connection was lost, so the operation may or may not be done. The member repeats the operation later.
    Failed,
    /// The expression has syntax that this client does not support. The value is the reason.
    Unreadable(String),
}

/// An input to the state machine of the member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// A connection was established, with a new session or with the previous session.
    Connected {
        /// Whether the session is new. In that case, no node of an older session is left.
        is_new: bool,
    },
    /// The connection was lost. The session may survive.
    Suspended,
    /// The session ended, and ZooKeeper has deleted all its ephemeral nodes.
    Expired,
    /// The children of this path have changed.
    Changed(String),
    /// The result of the operation with this number.
    Answered(u64, OperationResult),
    /// The readers of the partitions to stop have stopped at these offsets.
    Stopped(Vec<(BrokerPartition, i64)>),
    /// Offsets to commit.
    Commit(Vec<(BrokerPartition, i64)>),
}

/// An instruction to the readers of partitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Stop reading these partitions, then send [`Input::Stopped`].
    Stop(Vec<BrokerPartition>),
    /// Start reading these partitions. The values are the partition, its stream, and its last committed offset.
    Start(Vec<(BrokerPartition, u32, Option<i64>)>),
    /// All partitions are lost, and so are all commits without an [`Event::Committed`]. Other members read the records
    /// since the last commit again.
    Lost,
    /// ZooKeeper has stored this offset of the partition.
    Committed(BrokerPartition, i64),
}

/// The reason why a member gets no partitions, until the group changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// The subscription of a member is not readable, so this member cannot compute the assignment. The member keeps the
    /// partitions that it owns.
    Unreadable {
        /// The ID of the member.
        member: String,
        /// The registration of the member.
        data: String,
        /// The reason why the subscription is not readable.
        why: String,
    },
    /// Another session has registered the ID of this member. That session may be an earlier session of the same member
    /// that has not ended yet.
    DuplicateId {
        /// When the registration was rejected first.
        since: Time,
    },
}

/// Settings of a member.
#[derive(Clone, Debug)]
pub struct Config {
    /// The group's name.
    pub group: String,
    /// The member's ID, `group_…`.
    pub member: String,
    /// The topics that the member subscribes to.
    pub subscription: Subscription,
    /// How long to wait before the next attempt to create a node that another session has created.
    pub backoff: Duration,
    /// The time without a connection after which the session counts as ended.
    pub session_timeout: Duration,
}

#[derive(Debug, Default)]
struct View {
    members: BTreeMap<String, Subscription>,
    topics: BTreeSet<String>,
    matches: Matches,
    problem: Option<Problem>,
    /// The registration of each member.
    data: BTreeMap<String, String>,
    partitions: BTreeMap<String, Vec<BrokerPartition>>,
}

#[derive(Debug)]
enum Phase {
    /// There is no session, or the session may have ended.
    Away,
    Registering,
    /// Reads the members, the topics and the partitions, one after the other.
    Looking(Look, View),
    /// Waits until the readers of the partitions to release have stopped.
    Stopping,
    Releasing,
    Claiming,
    Steady,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    Members,
    Topics,
    Partitions,
}

/// A member of a consumer group of Kafka 0.7.
#[derive(Debug)]
pub struct ZooKeeperMember {
    config: Config,
    phase: Phase,
    connected: bool,
    suspended_at: Option<Time>,
    /// The remaining operations of this phase.
    todo: VecDeque<Operation>,
    commits: BTreeMap<BrokerPartition, i64>,
    /// The commit in flight.
    writing: Option<(BrokerPartition, i64)>,
    in_flight: Option<(u64, Operation)>,
    next_number: u64,
    /// Whether the tree has changed since the member last read it.
    dirty: bool,
    /// The partitions that the member has claimed and not released, with their streams.
    owned: BTreeMap<BrokerPartition, u32>,
    /// The partitions that the member gave up without a connection. The owner nodes of these partitions may still
    /// exist.
    leftovers: BTreeMap<BrokerPartition, u32>,
    wanted: BTreeMap<BrokerPartition, u32>,
    /// The partitions that the member has claimed in this round, with their streams and committed offsets.
    claimed: Vec<(BrokerPartition, u32, Option<i64>)>,
    retry_at: Option<Time>,
    rounds: u64,
    problem: Option<Problem>,
    events: VecDeque<Event>,
}

impl ZooKeeperMember {
    /// Creates a member without a session.
    pub fn new(config: Config) -> Self {
        Self {
            config,
            phase: Phase::Away,
            connected: false,
            suspended_at: None,
            todo: VecDeque::new(),
            commits: BTreeMap::new(),
            writing: None,
            in_flight: None,
            next_number: 0,
            dirty: false,
            owned: BTreeMap::new(),
            leftovers: BTreeMap::new(),
            wanted: BTreeMap::new(),
            claimed: Vec::new(),
            retry_at: None,
            rounds: 0,
            problem: None,
            events: VecDeque::new(),
        }
    }

    /// Handles an input.
    pub fn handle(&mut self, now: Time, input: Input) {
        match input {
            Input::Connected { is_new } => self.connect(is_new),
            Input::Suspended => {
                self.connected = false;
                self.suspended_at.get_or_insert(now);
            }
            Input::Expired => {
                self.give_up();
                self.leftovers.clear();
                self.connected = false;
            }
            Input::Changed(_) => self.dirty = true,
            Input::Answered(number, result) => {
                if let Some((_, operation)) = self.in_flight.take_if(|(known, _)| *known == number) {
                    self.handle_result(now, operation, result);
                }
            }
            Input::Stopped(offsets) => {
                if matches!(self.phase, Phase::Stopping) {
                    self.note(offsets);
                    self.release();
                }
            }
            Input::Commit(offsets) => self.note(offsets),
        }
        self.advance();
    }

    /// Returns the next operation on the tree, and its number.
    pub fn poll_operation(&mut self) -> Option<(u64, Operation)> {
        if !self.connected || self.in_flight.is_some() {
            return None;
        }
        let operation = match self.commits.pop_first() {
            Some((partition, offset)) => {
                let path = self.offset_path(&partition);
                self.writing = Some((partition, offset));
                Operation::Write(path, offset.to_string())
            }
            None => self.todo.pop_front()?,
        };
        self.next_number += 1;
        let next = (self.next_number, operation);
        self.in_flight = Some(next.clone());
        Some(next)
    }

    /// Returns the next instruction to the readers.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Returns when [`Self::handle_timeout`] has to be called.
    pub fn next_timeout(&self) -> Option<Time> {
        self.session_ends().into_iter().chain(self.retry_at).min()
    }

    /// Handles the deadlines that have passed.
    pub fn handle_timeout(&mut self, now: Time) {
        if self.session_ends().is_some_and(|at| at <= now) {
            self.give_up();
        }
        if self.retry_at.take_if(|at| *at <= now).is_some() {
            match self.phase {
                Phase::Registering => self.register(),
                _ => self.claim(),
            }
        }
        self.advance();
    }

    /// Returns the reason why the member gets no partitions.
    pub fn problem(&self) -> Option<&Problem> {
        self.problem.as_ref()
    }

    /// Returns the partitions that the member owns, with their streams.
    pub fn owned(&self) -> &BTreeMap<BrokerPartition, u32> {
        &self.owned
    }

    /// Returns whether the member owns all partitions of its assignment and has no operations left.
    pub fn is_settled(&self) -> bool {
        matches!(self.phase, Phase::Steady) && !self.dirty && self.connected && self.owned == self.wanted
    }

    /// Returns how often the member has computed its assignment.
    pub fn rounds(&self) -> u64 {
        self.rounds
    }

    fn session_ends(&self) -> Option<Time> {
        let since = self.suspended_at.filter(|_| !matches!(self.phase, Phase::Away))?;
        Some(since + self.config.session_timeout)
    }

    fn connect(&mut self, is_new: bool) {
        self.connected = true;
        self.suspended_at = None;
        if is_new {
            self.give_up();
            self.leftovers.clear();
        }
        if matches!(self.phase, Phase::Away) {
            self.register();
        }
    }

    /// Gives up all partitions at once, without releasing them.
    fn give_up(&mut self) {
        if !self.owned.is_empty() || !self.commits.is_empty() || self.writing.is_some() {
            self.events.push_back(Event::Lost);
        }
        self.leftovers.append(&mut self.owned);
        self.phase = Phase::Away;
        self.in_flight = None;
        self.todo.clear();
        self.commits.clear();
        self.writing = None;
        self.claimed.clear();
        self.retry_at = None;
        self.problem = None;
    }

    fn register(&mut self) {
        self.phase = Phase::Registering;
        let leftovers = std::mem::take(&mut self.leftovers);
        self.todo = leftovers.iter().map(|(partition, stream)| self.delete_owner(partition, *stream)).collect();
        let Config { group, member, subscription, .. } = &self.config;
        self.todo.push_back(Operation::Create(format!("/consumers/{group}/ids/{member}"), subscription.encode()));
    }

    fn look(&mut self) {
        self.dirty = false;
        self.retry_at = None;
        self.todo = [Operation::Children(format!("/consumers/{}/ids", self.config.group))].into();
        self.phase = Phase::Looking(Look::Members, View::default());
    }

    /// Queues commits of partitions that the member owns.
    fn note(&mut self, offsets: Vec<(BrokerPartition, i64)>) {
        self.commits.extend(offsets.into_iter().filter(|(partition, _)| self.owned.contains_key(partition)));
    }

    fn handle_result(&mut self, now: Time, operation: Operation, result: OperationResult) {
        if result == OperationResult::Failed {
            // Every operation may be repeated.
            match self.writing.take() {
                Some((partition, offset)) => drop(self.commits.entry(partition).or_insert(offset)),
                None => self.todo.push_front(operation),
            }
            self.connected = false;
            self.suspended_at.get_or_insert(now);
            return;
        }
        if let Some((partition, offset)) = self.writing.take() {
            self.events.push_back(Event::Committed(partition, offset));
        }
        match (&mut self.phase, operation, result) {
            (Phase::Registering, Operation::Create(..), OperationResult::Done) => {
                self.problem = None;
                self.look();
            }
            // The node belongs to an earlier session that has not ended, or to another member with the same ID.
            (Phase::Registering, Operation::Create(..), _) => {
                self.retry_at = Some(now + self.config.backoff);
                self.problem.get_or_insert(Problem::DuplicateId { since: now });
            }
            (Phase::Looking(look, view), operation, result) => view.add(*look, operation, result, &mut self.todo),
            (Phase::Claiming, Operation::Create(path, _), OperationResult::Done) => {
                let partition =
                    self.wanted.iter().find(|(partition, _)| owner_path(&self.config.group, partition) == path);
                if let Some((partition, stream)) = partition.map(|(partition, stream)| (partition.clone(), *stream)) {
                    self.todo.push_front(Operation::Read(self.offset_path(&partition)));
                    self.owned.insert(partition.clone(), stream);
                    self.claimed.push((partition, stream, None));
                }
            }
            (Phase::Claiming, Operation::Create(..), _) => self.retry_at = Some(now + self.config.backoff),
            (Phase::Claiming, Operation::Read(_), OperationResult::Data(text)) => {
                if let Some((_, _, offset)) = self.claimed.last_mut() {
                    *offset = text.trim().parse().ok();
                }
            }
            _ => {}
        }
    }

    /// Enters the next phase if the current phase has no operations left.
    fn advance(&mut self) {
        while self.todo.is_empty() && self.in_flight.is_none() && self.connected {
            match &mut self.phase {
                Phase::Away | Phase::Stopping => return,
                Phase::Registering => {
                    if self.retry_at.is_none() {
                        self.register();
                    }
                    return;
                }
                Phase::Looking(..) if self.dirty => self.look(),
                Phase::Looking(look, view) => match look.next() {
                    Some(next) => {
                        *look = next;
                        view.ask(next, &self.config.subscription, &mut self.todo);
                    }
                    None => {
                        self.problem = view.problem.take();
                        // Other members see other assignments, or none. To release partitions would leave them unread.
                        self.wanted = match self.problem {
                            Some(_) => self.owned.clone(),
                            None => view.own_partitions(&self.config),
                        };
                        self.rounds += 1;
                        self.begin();
                    }
                },
                // The offsets come first, because the next owner reads them.
                Phase::Releasing if !self.commits.is_empty() => return,
                Phase::Releasing if self.dirty => self.look(),
                Phase::Releasing => self.claim(),
                Phase::Claiming | Phase::Steady => {
                    if !self.claimed.is_empty() {
                        self.events.push_back(Event::Start(std::mem::take(&mut self.claimed)));
                    }
                    if self.dirty {
                        self.look();
                        continue;
                    }
                    self.phase = Phase::Steady;
                    return;
                }
            }
        }
    }

    /// Releases the partitions that are no longer assigned, and claims the newly assigned partitions.
    fn begin(&mut self) {
        let goes = self.owned.iter().filter(|(partition, stream)| self.wanted.get(*partition) != Some(*stream));
        let goes: Vec<_> = goes.map(|(partition, _)| partition.clone()).collect();
        if goes.is_empty() {
            return self.claim();
        }
        self.phase = Phase::Stopping;
        self.events.push_back(Event::Stop(goes));
    }

    fn release(&mut self) {
        self.phase = Phase::Releasing;
        let goes: Vec<_> =
            self.owned.extract_if(.., |partition, stream| self.wanted.get(partition) != Some(stream)).collect();
        self.todo = goes.iter().map(|(partition, stream)| self.delete_owner(partition, *stream)).collect();
    }

    fn delete_owner(&self, partition: &BrokerPartition, stream: u32) -> Operation {
        Operation::Delete(owner_path(&self.config.group, partition), format!("{}-{stream}", self.config.member))
    }

    fn claim(&mut self) {
        self.phase = Phase::Claiming;
        let comes = self.wanted.iter().filter(|(partition, _)| !self.owned.contains_key(*partition));
        let create = |(partition, stream): (&BrokerPartition, &u32)| {
            Operation::Create(owner_path(&self.config.group, partition), format!("{}-{stream}", self.config.member))
        };
        self.todo = comes.map(create).collect();
    }

    fn offset_path(&self, partition: &BrokerPartition) -> String {
        format!("/consumers/{}/offsets/{}/{partition}", self.config.group, partition.topic)
    }
}

fn owner_path(group: &str, partition: &BrokerPartition) -> String {
    format!("/consumers/{group}/owners/{}/{partition}", partition.topic)
}

impl Look {
    fn next(self) -> Option<Self> {
        match self {
            Self::Members => Some(Self::Topics),
            Self::Topics => Some(Self::Partitions),
            Self::Partitions => None,
        }
    }
}

impl View {
    /// Queues the operations for one step of the phase `Looking`.
    fn ask(&self, look: Look, own: &Subscription, todo: &mut VecDeque<Operation>) {
        match look {
            Look::Members => {}
            Look::Topics => {
                if self.members.values().chain([own]).any(|member| member.pattern().is_some()) {
                    todo.push_back(Operation::Children(TOPICS.to_owned()));
                }
            }
            Look::Partitions => {
                let named = match own {
                    Subscription::Topics(topics) => topics.keys().cloned().collect(),
                    _ => self.topics.clone(),
                };
                let read = named.into_iter().filter(|topic| own.streams(topic, &self.matches) > 0);
                todo.extend(read.map(|topic| Operation::Children(format!("{TOPICS}/{topic}"))));
            }
        }
    }

    fn add(&mut self, look: Look, operation: Operation, result: OperationResult, todo: &mut VecDeque<Operation>) {
        match (look, operation, result) {
            (Look::Members, Operation::Children(path), OperationResult::Names(names)) => {
                todo.extend(names.into_iter().map(|name| Operation::Read(format!("{path}/{name}"))));
            }
            (Look::Members, Operation::Read(path), OperationResult::Data(data)) => {
                let Some((_, name)) = path.rsplit_once('/') else { return };
                match Subscription::decode(&data) {
                    Some(subscription) => drop(self.members.insert(name.to_owned(), subscription)),
                    None => self.report(name, &data, "it is not a subscription of Kafka 0.7"),
                }
                self.data.insert(name.to_owned(), data);
            }
            (Look::Topics, Operation::Children(_), OperationResult::Names(names)) => {
                self.topics = names.iter().cloned().collect();
                let patterns: BTreeSet<_> = self.members.values().filter_map(Subscription::pattern).collect();
                todo.extend(patterns.iter().map(|pattern| Operation::Match((*pattern).to_owned(), names.clone())));
            }
            (Look::Topics, Operation::Match(pattern, _), OperationResult::Names(names)) => {
                self.matches.insert(pattern, names.into_iter().collect());
            }
            (Look::Topics, Operation::Match(pattern, _), OperationResult::Unreadable(why)) => {
                let member = self.members.iter().find(|(_, member)| member.pattern() == Some(&pattern));
                if let Some(name) = member.map(|(name, _)| name.clone()) {
                    let data = self.data.get(&name).cloned().unwrap_or_default();
                    self.report(&name, &data, &why);
                }
            }
            (Look::Partitions, Operation::Children(path), OperationResult::Names(names)) => {
                todo.extend(names.into_iter().map(|name| Operation::Read(format!("{path}/{name}"))));
            }
            (Look::Partitions, Operation::Read(path), OperationResult::Data(data)) => {
                let mut parts = path.rsplit('/');
                let (broker, topic) = (parts.next().and_then(|name| name.parse().ok()), parts.next());
                let (Some(broker), Some(topic)) = (broker, topic) else { return };
                let count = data.trim().parse().ok().filter(|n| *n <= MAX_PARTITIONS).unwrap_or(0);
                let partitions =
                    (0..count).map(|partition| BrokerPartition { topic: topic.to_owned(), broker, partition });
                self.partitions.entry(topic.to_owned()).or_default().extend(partitions);
            }
            _ => {}
        }
    }

    fn report(&mut self, member: &str, data: &str, why: &str) {
        let (member, data, why) = (member.to_owned(), data.to_owned(), why.to_owned());
        self.problem.get_or_insert(Problem::Unreadable { member, data, why });
    }

    /// Computes the member's assignment. For each topic, the partitions and the streams are sorted by name, and each
    /// stream gets a range of partitions. If the partitions do not divide evenly, the first streams get one partition
    /// more.
    fn own_partitions(&self, config: &Config) -> BTreeMap<BrokerPartition, u32> {
        let mut found = BTreeMap::new();
        for (topic, partitions) in &self.partitions {
            let mut partitions: Vec<_> =
                partitions.iter().map(|partition| (partition.to_string(), partition)).collect();
            partitions.sort();
            let mut streams: Vec<_> = self
                .members
                .iter()
                .flat_map(|(name, member)| {
                    let count = member.streams(topic, &self.matches).min(MAX_STREAMS);
                    (0..count).map(move |stream| (format!("{name}-{stream}"), name, stream))
                })
                .collect();
            // Java compares strings by UTF-16 code units.
            streams.sort_by(|(a, ..), (b, ..)| a.encode_utf16().cmp(b.encode_utf16()));
            let mut rest = partitions.into_iter();
            let (each, more) = (rest.len() / streams.len().max(1), rest.len() % streams.len().max(1));
            for (at, (_, name, stream)) in streams.into_iter().enumerate() {
                let own = rest.by_ref().take(each + usize::from(at < more));
                if *name == config.member {
                    found.extend(own.map(|(_, partition)| (partition.clone(), stream)));
                } else {
                    own.for_each(drop);
                }
            }
        }
        found
    }
}

const TOPICS: &str = "/brokers/topics";
/// The largest number of partitions of a topic on one broker, and of streams of one member. Kafka never wrote a node
/// with a larger number.
const MAX_PARTITIONS: u32 = 100_000;
const MAX_STREAMS: u32 = 10_000;
