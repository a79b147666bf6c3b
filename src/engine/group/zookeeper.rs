//! Membership of a group of Kafka 0.7, which has no coordinator: members see the same tree and compute the same shares.
//!
//! ```text
//! Away -> Registering -> Looking -> Stopping -> Releasing -> Claiming -> Steady      a change seen leads back to Looking
//!   ^                    who reads  readers     offsets,     owners,
//!   |                    what       end         owners       offsets
//!   +-- the session ended: everything that was owned is somebody else's
//! ```
//!
//! A member asks for one [`Operation`] on the tree at a time; paths and data are to the byte those of the Java consumer, so
//! that both may be in one group. The rule: an owner's node is made before its partition is read, and deleted after its
//! reader has stopped and its offset is written; so nobody reads what another one owns, and offsets never go back. Unlike
//! the Java consumer a member keeps what stays its own in a rebalance, and waits for the nodes of those that are slower
//! instead of giving up what it has. Left out: who leads to a broker, what is read, when to commit.

use super::super::Time;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::time::Duration;

/// A partition of a broker. Its name in the tree orders the partitions of a topic: `10-0` is before `2-0`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Share {
    /// The topic.
    pub topic: String,
    /// The broker.
    pub broker: u32,
    /// The partition.
    pub partition: u32,
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.broker, self.partition)
    }
}

/// What a member reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subscription {
    /// Topics, each with a number of streams.
    Topics(BTreeMap<String, u32>),
    /// The topics whose whole name matches a regular expression, in so many streams.
    Whitelist(u32, String),
    /// Those that do not.
    Blacklist(u32, String),
}

impl Subscription {
    /// As a member registers it.
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

    /// From what a member registered; `None` if it is nothing that a consumer of 0.7 writes.
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

    /// How many streams read a topic.
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

/// Something to do with the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// List what is below a node, and watch that; or the node, if it is not there.
    Children(String),
    /// Read a node's data.
    Read(String),
    /// Make a node that goes with the session, and what is missing above it. One that this session has made is fine.
    Create(String, String),
    /// Delete a node, if it has this data and is of this session.
    Delete(String, String),
    /// Write a node that stays, and make it if need be.
    Write(String, String),
    /// Not with the tree: say which of these names a regular expression matches as a whole.
    Match(String, Vec<String>),
}

/// What became of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It is done.
    Done,
    /// Names, without their paths.
    Names(Vec<String>),
    /// A node's data.
    Data(String),
    /// There is no such node.
    Missing,
    /// There is such a node, and it is somebody else's.
    Exists,
    /// The connection was lost on the way: it may be done or not. It is asked again, once there is a connection.
    Failed,
}

/// What a member hears.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// There is a connection, with a new session or the one from before.
    Connected {
        /// Whether nothing of an older session is left in the tree.
        is_new: bool,
    },
    /// The connection is lost; the session may go on.
    Suspended,
    /// The session ended, and with it all nodes that were made in it.
    Expired,
    /// Something below this path is not as it was listed.
    Changed(String),
    /// The answer to the operation of this number.
    Answered(u64, Answer),
    /// The readers of what was to stop have stopped; where they would go on.
    Stopped(Vec<(Share, i64)>),
    /// Where readers would go on.
    Commit(Vec<(Share, i64)>),
}

/// What a member says to those who read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Stop to read these, and say [`Input::Stopped`].
    Stop(Vec<Share>),
    /// Begin to read these: the stream, and where the last owner would have gone on.
    Start(Vec<(Share, u32, Option<i64>)>),
    /// Nothing is owned any more; what was read since the last commit is read again by somebody.
    Lost,
}

/// How a member is made.
#[derive(Clone, Debug)]
pub struct Config {
    /// The group.
    pub group: String,
    /// The member, `group_…`.
    pub member: String,
    /// What it reads.
    pub subscription: Subscription,
    /// How long to wait for a node that is in the way.
    pub backoff: Duration,
    /// After so long without a connection the session is taken for ended.
    pub session_timeout: Duration,
}

#[derive(Debug, Default)]
struct View {
    members: BTreeMap<String, Subscription>,
    topics: BTreeSet<String>,
    matches: Matches,
    partitions: BTreeMap<String, Vec<Share>>,
}

#[derive(Debug)]
enum Phase {
    /// There is no session, or none that is certain.
    Away,
    Registering,
    /// The members, the topics, and the partitions, one after the other.
    Looking(Look, View),
    /// The readers of what goes are asked to stop.
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

/// See the top of this file.
#[derive(Debug)]
pub struct ZooKeeperMember {
    config: Config,
    phase: Phase,
    connected: bool,
    suspended_at: Option<Time>,
    /// What is to be done before the phase is over, the next one first.
    todo: VecDeque<Operation>,
    commits: BTreeMap<Share, i64>,
    /// The commit that is under way.
    writing: Option<(Share, i64)>,
    in_flight: Option<(u64, Operation)>,
    next_number: u64,
    /// What was seen is not so any more.
    dirty: bool,
    /// By stream: claimed, and not released.
    owned: BTreeMap<Share, u32>,
    /// Given up for want of a connection; their nodes may be there.
    leftovers: BTreeMap<Share, u32>,
    wanted: BTreeMap<Share, u32>,
    /// Claimed in this round, with where to go on.
    claimed: Vec<(Share, u32, Option<i64>)>,
    retry_at: Option<Time>,
    rounds: u64,
    events: VecDeque<Event>,
}

impl ZooKeeperMember {
    /// A member without a session.
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
            events: VecDeque::new(),
        }
    }

    /// Something happened.
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
            Input::Answered(number, answer) => {
                if let Some((_, operation)) = self.in_flight.take_if(|(known, _)| *known == number) {
                    self.answered(now, operation, answer);
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
        self.go_on();
    }

    /// The next thing to do with the tree, and its number.
    pub fn poll_operation(&mut self) -> Option<(u64, Operation)> {
        if !self.connected || self.in_flight.is_some() {
            return None;
        }
        let operation = match self.commits.pop_first() {
            Some((share, offset)) => {
                let path = self.offset_path(&share);
                self.writing = Some((share, offset));
                Operation::Write(path, offset.to_string())
            }
            None => self.todo.pop_front()?,
        };
        self.next_number += 1;
        let next = (self.next_number, operation);
        self.in_flight = Some(next.clone());
        Some(next)
    }

    /// The next thing to say to those who read.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// When [`Self::handle_timeout`] has something to do.
    pub fn next_timeout(&self) -> Option<Time> {
        self.session_ends().into_iter().chain(self.retry_at).min()
    }

    /// Does what is due.
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
        self.go_on();
    }

    /// Whether an offset is still to be written.
    pub fn is_committing(&self) -> bool {
        !self.commits.is_empty() || self.writing.is_some()
    }

    /// What it owns, by stream.
    pub fn owned(&self) -> &BTreeMap<Share, u32> {
        &self.owned
    }

    /// Whether it has all that it should, as far as it has seen.
    pub fn is_settled(&self) -> bool {
        matches!(self.phase, Phase::Steady) && !self.dirty && self.connected && self.owned == self.wanted
    }

    /// How often it computed what to own.
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

    /// Nothing is owned any more.
    fn give_up(&mut self) {
        if !self.owned.is_empty() {
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
    }

    fn register(&mut self) {
        self.phase = Phase::Registering;
        let leftovers = std::mem::take(&mut self.leftovers);
        self.todo = leftovers.iter().map(|(share, stream)| self.release_of(share, *stream)).collect();
        let Config { group, member, subscription, .. } = &self.config;
        self.todo.push_back(Operation::Create(format!("/consumers/{group}/ids/{member}"), subscription.encode()));
    }

    fn look(&mut self) {
        self.dirty = false;
        self.retry_at = None;
        self.todo = [Operation::Children(format!("/consumers/{}/ids", self.config.group))].into();
        self.phase = Phase::Looking(Look::Members, View::default());
    }

    /// Remembers offsets of what is owned.
    fn note(&mut self, offsets: Vec<(Share, i64)>) {
        self.commits.extend(offsets.into_iter().filter(|(share, _)| self.owned.contains_key(share)));
    }

    fn answered(&mut self, now: Time, operation: Operation, answer: Answer) {
        if answer == Answer::Failed {
            // Each may be done twice.
            match self.writing.take() {
                Some((share, offset)) => drop(self.commits.entry(share).or_insert(offset)),
                None => self.todo.push_front(operation),
            }
            self.connected = false;
            self.suspended_at.get_or_insert(now);
            return;
        }
        self.writing = None;
        match (&mut self.phase, operation, answer) {
            (Phase::Registering, Operation::Create(..), Answer::Done) => self.look(),
            // Of a session that has not ended yet, or of somebody with the same name.
            (Phase::Registering, Operation::Create(..), _) => self.retry_at = Some(now + self.config.backoff),
            (Phase::Looking(look, view), operation, answer) => view.add(*look, operation, answer, &mut self.todo),
            (Phase::Claiming, Operation::Create(path, _), Answer::Done) => {
                let share = self.wanted.iter().find(|(share, _)| owner_path(&self.config.group, share) == path);
                if let Some((share, stream)) = share.map(|(share, stream)| (share.clone(), *stream)) {
                    self.todo.push_front(Operation::Read(self.offset_path(&share)));
                    self.owned.insert(share.clone(), stream);
                    self.claimed.push((share, stream, None));
                }
            }
            (Phase::Claiming, Operation::Create(..), _) => self.retry_at = Some(now + self.config.backoff),
            (Phase::Claiming, Operation::Read(_), Answer::Data(text)) => {
                if let Some((_, _, offset)) = self.claimed.last_mut() {
                    *offset = text.trim().parse().ok();
                }
            }
            _ => {}
        }
    }

    /// Goes to the next phase once nothing is left to do in this one.
    fn go_on(&mut self) {
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
                        self.wanted = view.share_of(&self.config);
                        self.rounds += 1;
                        self.begin();
                    }
                },
                // Offsets first: whoever claims next reads them.
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

    /// Gives up what goes, and claims what comes.
    fn begin(&mut self) {
        let goes = self.owned.iter().filter(|(share, stream)| self.wanted.get(*share) != Some(*stream));
        let goes: Vec<_> = goes.map(|(share, _)| share.clone()).collect();
        if goes.is_empty() {
            return self.claim();
        }
        self.phase = Phase::Stopping;
        self.events.push_back(Event::Stop(goes));
    }

    fn release(&mut self) {
        self.phase = Phase::Releasing;
        let goes: Vec<_> = self.owned.extract_if(.., |share, stream| self.wanted.get(share) != Some(stream)).collect();
        self.todo = goes.iter().map(|(share, stream)| self.release_of(share, *stream)).collect();
    }

    fn release_of(&self, share: &Share, stream: u32) -> Operation {
        Operation::Delete(owner_path(&self.config.group, share), format!("{}-{stream}", self.config.member))
    }

    fn claim(&mut self) {
        self.phase = Phase::Claiming;
        let comes = self.wanted.iter().filter(|(share, _)| !self.owned.contains_key(*share));
        let create = |(share, stream): (&Share, &u32)| {
            Operation::Create(owner_path(&self.config.group, share), format!("{}-{stream}", self.config.member))
        };
        self.todo = comes.map(create).collect();
    }

    fn offset_path(&self, share: &Share) -> String {
        format!("/consumers/{}/offsets/{}/{share}", self.config.group, share.topic)
    }
}

fn owner_path(group: &str, share: &Share) -> String {
    format!("/consumers/{group}/owners/{}/{share}", share.topic)
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
    /// What a part of the look needs to know.
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

    fn add(&mut self, look: Look, operation: Operation, answer: Answer, todo: &mut VecDeque<Operation>) {
        match (look, operation, answer) {
            (Look::Members, Operation::Children(path), Answer::Names(names)) => {
                todo.extend(names.into_iter().map(|name| Operation::Read(format!("{path}/{name}"))));
            }
            (Look::Members, Operation::Read(path), Answer::Data(data)) => {
                // One that nobody can read has no streams, for nobody.
                if let (Some((_, name)), Some(subscription)) = (path.rsplit_once('/'), Subscription::decode(&data)) {
                    self.members.insert(name.to_owned(), subscription);
                }
            }
            (Look::Topics, Operation::Children(_), Answer::Names(names)) => {
                self.topics = names.iter().cloned().collect();
                let patterns: BTreeSet<_> = self.members.values().filter_map(Subscription::pattern).collect();
                todo.extend(patterns.iter().map(|pattern| Operation::Match((*pattern).to_owned(), names.clone())));
            }
            (Look::Topics, Operation::Match(pattern, _), Answer::Names(names)) => {
                self.matches.insert(pattern, names.into_iter().collect());
            }
            (Look::Partitions, Operation::Children(path), Answer::Names(names)) => {
                todo.extend(names.into_iter().map(|name| Operation::Read(format!("{path}/{name}"))));
            }
            (Look::Partitions, Operation::Read(path), Answer::Data(data)) => {
                let mut parts = path.rsplit('/');
                let (broker, topic) = (parts.next().and_then(|name| name.parse().ok()), parts.next());
                let (Some(broker), Some(topic)) = (broker, topic) else { return };
                let count = data.trim().parse().ok().filter(|n| *n <= MAX_PARTITIONS).unwrap_or(0);
                let shares = (0..count).map(|partition| Share { topic: topic.to_owned(), broker, partition });
                self.partitions.entry(topic.to_owned()).or_default().extend(shares);
            }
            _ => {}
        }
    }

    /// What the member owns: for each topic, ranges of the partitions in the order of their names, for its streams in the
    /// order of theirs; the first ones have one more where it does not come out even.
    fn share_of(&self, config: &Config) -> BTreeMap<Share, u32> {
        let mut found = BTreeMap::new();
        for (topic, shares) in &self.partitions {
            let mut shares: Vec<_> = shares.iter().map(|share| (share.to_string(), share)).collect();
            shares.sort();
            let mut streams: Vec<_> = self
                .members
                .iter()
                .flat_map(|(name, member)| {
                    let count = member.streams(topic, &self.matches).min(MAX_STREAMS);
                    (0..count).map(move |stream| (format!("{name}-{stream}"), name, stream))
                })
                .collect();
            // As Java compares strings.
            streams.sort_by(|(a, ..), (b, ..)| a.encode_utf16().cmp(b.encode_utf16()));
            let mut rest = shares.into_iter();
            let (each, more) = (rest.len() / streams.len().max(1), rest.len() % streams.len().max(1));
            for (at, (_, name, stream)) in streams.into_iter().enumerate() {
                let own = rest.by_ref().take(each + usize::from(at < more));
                if *name == config.member {
                    found.extend(own.map(|(_, share)| (share.clone(), stream)));
                } else {
                    own.for_each(drop);
                }
            }
        }
        found
    }
}

const TOPICS: &str = "/brokers/topics";
/// Partitions of a topic on one broker, and streams of one member, at most: nodes with more are none of Kafka's.
const MAX_PARTITIONS: u32 = 100_000;
const MAX_STREAMS: u32 = 10_000;
