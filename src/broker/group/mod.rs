//! Groups: their members, who gets what, what they committed.
//!
//! ```text
//! offsets   what groups committed              classic   JoinGroup, SyncGroup, Heartbeat, LeaveGroup
//!                                              consumer  ConsumerGroupHeartbeat (KIP-848); its assignor
//!                                              share     ShareGroupHeartbeat, ShareFetch, ShareAcknowledge (KIP-932)
//! ```
//!
//! One state serves all nodes, so a group survives the loss of its coordinator as Kafka's do, which the next coordinator
//! reads from its log. A request that waits for others is answered through [`Answers`]: whoever moves the group leaves
//! the answer there, and the connection is woken. What members are remembered by counts towards the cluster's memory.
//! Groups do not expire; DeleteGroups forgets them.

mod assignor;
pub(super) mod classic;
mod configs;
pub(super) mod consumer;
pub(super) mod offsets;
pub(super) mod share;

pub(super) use assignor::Assignor;
pub(super) use configs::Configs;

use super::state::Memory;
use super::{Connection, Time};
use crate::api::{ErrorCode, join_group, sync_group};
use crate::wire::Uuid;
use offsets::Offsets;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

/// What remembering a group takes besides its members, roughly.
const GROUP: usize = 512;

/// An answer that others bring about.
#[derive(Debug)]
pub(super) enum Answer {
    Join(join_group::Response),
    Sync(sync_group::Response),
}

/// The requests that wait for one.
#[derive(Debug, Default)]
pub(super) struct Answers {
    waiting: BTreeMap<Connection, Option<Answer>>,
    ready: Vec<Connection>,
}

impl Answers {
    /// A connection waits from now on.
    pub fn expect(&mut self, connection: Connection) {
        self.waiting.insert(connection, None);
    }

    /// Answers a connection, unless it is gone.
    fn give(&mut self, connection: Connection, answer: Answer) {
        if let Some(place) = self.waiting.get_mut(&connection) {
            *place = Some(answer);
            self.ready.push(connection);
        }
    }

    /// The answer to a connection, which waits no longer if there is one.
    pub fn take(&mut self, connection: Connection) -> Option<Answer> {
        let answer = self.waiting.get_mut(&connection)?.take()?;
        self.waiting.remove(&connection);
        Some(answer)
    }

    /// A connection waits no longer.
    pub fn forget(&mut self, connection: Connection) {
        self.waiting.remove(&connection);
    }

    /// A connection that has an answer now.
    pub fn next_ready(&mut self) -> Option<Connection> {
        self.ready.pop()
    }
}

/// A group, by the protocol its members speak.
#[derive(Debug)]
pub(super) enum Group {
    Classic(classic::Group),
    Consumer(consumer::Group),
    Share(share::Group),
}

impl Group {
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Classic(group) => group.is_empty(),
            Self::Consumer(group) => group.is_empty(),
            Self::Share(group) => group.is_empty(),
        }
    }

    /// Kafka's name for the protocol.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Classic(_) => "classic",
            Self::Consumer(_) => "consumer",
            Self::Share(_) => "share",
        }
    }

    /// Kafka's name for the state.
    pub fn state(&self) -> &'static str {
        match self {
            Self::Classic(group) => group.phase.name(),
            Self::Consumer(group) => group.state(),
            Self::Share(group) => group.state(),
        }
    }

    /// What the members say they are; empty if there never was one.
    pub fn protocol_type(&self) -> &str {
        match self {
            Self::Classic(group) => group.protocol_type.as_deref().unwrap_or(""),
            Self::Consumer(_) => "consumer",
            Self::Share(_) => "share",
        }
    }

    /// Whether a member reads a topic, as far as the coordinator knows.
    pub fn is_subscribed(&self, topic: &str) -> bool {
        match self {
            Self::Classic(group) => group.is_subscribed(topic),
            Self::Consumer(group) => group.is_subscribed(topic),
            Self::Share(group) => group.is_subscribed(topic),
        }
    }

    fn cost(&self) -> usize {
        match self {
            Self::Classic(group) => group.cost(),
            Self::Consumer(group) => group.cost(),
            Self::Share(group) => group.cost(),
        }
    }

    fn next_timeout(&self) -> Option<Time> {
        match self {
            Self::Classic(group) => group.next_timeout(),
            Self::Consumer(group) => group.next_timeout(),
            Self::Share(group) => group.next_timeout(),
        }
    }
}

/// Who commits or looks: a member, or nobody in particular.
#[derive(Clone, Copy, Debug)]
pub(super) struct Claim<'a> {
    pub member: &'a str,
    pub instance: Option<&'a str>,
    /// The generation or member epoch, -1 for none.
    pub generation: i32,
}

/// A group and what is filed elsewhere of it.
#[derive(Debug)]
struct Entry {
    group: Group,
    taken: usize,
    timeout: Option<Time>,
}

/// All groups.
#[derive(Debug, Default)]
pub(super) struct Groups {
    pub offsets: Offsets,
    pub answers: Answers,
    initial_delay: Duration,
    entries: BTreeMap<String, Entry>,
    deadlines: BTreeSet<(Time, String)>,
    configs: BTreeMap<String, Configs>,
    /// Share groups that connections have sessions of.
    sessions: HashMap<Connection, BTreeSet<String>>,
}

impl Groups {
    pub fn new(initial_delay: Duration) -> Self {
        Self { initial_delay, ..Self::default() }
    }

    pub fn get(&self, id: &str) -> Option<&Group> {
        self.entries.get(id).map(|entry| &entry.group)
    }

    pub fn all(&self) -> impl Iterator<Item = (&str, &Group)> {
        self.entries.iter().map(|(id, entry)| (id.as_str(), &entry.group))
    }

    /// What is configured of a group, which need not be there.
    pub fn configs(&self, id: &str) -> Configs {
        self.configs.get(id).copied().unwrap_or_default()
    }

    /// Configures a group; false if there is no memory.
    pub fn configure(&mut self, memory: &mut Memory, id: &str, configs: Configs) -> bool {
        if !self.configs.contains_key(id) && !memory.take(GROUP + id.len()) {
            return false;
        }
        self.configs.insert(id.to_owned(), configs);
        true
    }

    /// Changes a group of the classic protocol; `None` if there is no such group.
    pub fn with_classic<T>(
        &mut self,
        memory: &mut Memory,
        id: &str,
        change: impl FnOnce(&mut classic::Group, &mut Answers) -> T,
    ) -> Option<T> {
        let Group::Classic(group) = &mut self.entries.get_mut(id)?.group else {
            return None;
        };
        let result = change(group, &mut self.answers);
        self.file(memory, id);
        Some(result)
    }

    /// Changes a group of KIP-848; `None` if there is no such group.
    pub fn with_consumer<T>(
        &mut self,
        memory: &mut Memory,
        id: &str,
        change: impl FnOnce(&mut consumer::Group) -> T,
    ) -> Option<T> {
        let Group::Consumer(group) = &mut self.entries.get_mut(id)?.group else {
            return None;
        };
        let result = change(group);
        self.file(memory, id);
        Some(result)
    }

    /// Changes a share group; `None` if there is no such group.
    pub fn with_share<T>(
        &mut self,
        memory: &mut Memory,
        id: &str,
        change: impl FnOnce(&mut share::Group) -> T,
    ) -> Option<T> {
        let Group::Share(group) = &mut self.entries.get_mut(id)?.group else {
            return None;
        };
        let result = change(group);
        self.file(memory, id);
        Some(result)
    }

    /// Makes a group of the classic protocol unless there is one, or one that stays; false if there is no memory.
    pub fn create_classic(&mut self, memory: &mut Memory, id: &str) -> bool {
        let is_there = |group: &Group| !matches!(group, Group::Consumer(_)) || !group.is_empty();
        self.get(id).is_some_and(is_there)
            || self.create(memory, id, Group::Classic(classic::Group::new(self.initial_delay)))
    }

    /// Makes a group of KIP-848 unless there is one, or one that stays; false if there is no memory.
    pub fn create_consumer(&mut self, memory: &mut Memory, id: &str) -> bool {
        let is_there = |group: &Group| !matches!(group, Group::Classic(_)) || !group.is_empty();
        self.get(id).is_some_and(is_there) || self.create(memory, id, Group::Consumer(consumer::Group::new()))
    }

    /// Makes a share group unless there is any group of this name; false if there is no memory.
    pub fn create_share(&mut self, memory: &mut Memory, id: &str) -> bool {
        self.entries.contains_key(id) || self.create(memory, id, Group::Share(share::Group::new()))
    }

    /// Notes that a connection has a session of a share group.
    pub fn share_session(&mut self, connection: Connection, id: &str) {
        self.sessions.entry(connection).or_default().insert(id.to_owned());
    }

    /// Ends the sessions of a connection that is gone; the share groups that had them.
    pub fn hang_up(&mut self, memory: &mut Memory, connection: Connection) -> BTreeSet<String> {
        let ids = self.sessions.remove(&connection).unwrap_or_default();
        for id in &ids {
            self.with_share(memory, id, |group| group.hang_up(connection));
        }
        ids
    }

    /// Partitions of a share group of which something is to be had again.
    pub fn take_freed(&mut self, id: &str) -> BTreeSet<share::Place> {
        match self.entries.get_mut(id).map(|entry| &mut entry.group) {
            Some(Group::Share(group)) => std::mem::take(&mut group.freed),
            _ => BTreeSet::new(),
        }
    }

    /// Forgets what groups know of a topic that is gone.
    pub fn forget_topic(&mut self, memory: &mut Memory, name: &str, topic: Uuid) {
        self.offsets.forget_topic(memory, name);
        let shares = self.entries.iter().filter(|(_, entry)| matches!(entry.group, Group::Share(_)));
        for id in shares.map(|(id, _)| id.clone()).collect::<Vec<_>>() {
            self.with_share(memory, &id, |group| group.forget_topic(topic));
        }
    }

    /// Puts a new group in the place of one without members.
    fn create(&mut self, memory: &mut Memory, id: &str, group: Group) -> bool {
        self.remove(memory, id);
        let taken = GROUP + id.len();
        let room = memory.take(taken);
        if room {
            self.entries.insert(id.to_owned(), Entry { group, taken, timeout: None });
        }
        room
    }

    /// Forgets a group without members, and what it committed.
    pub fn delete(&mut self, memory: &mut Memory, id: &str) -> ErrorCode {
        match self.entries.get(id) {
            None => return ErrorCode::GROUP_ID_NOT_FOUND,
            Some(entry) if !entry.group.is_empty() => return ErrorCode::NON_EMPTY_GROUP,
            Some(_) => {}
        }
        self.remove(memory, id);
        self.offsets.forget_group(memory, id);
        ErrorCode::NONE
    }

    fn remove(&mut self, memory: &mut Memory, id: &str) {
        if let Some(entry) = self.entries.remove(id) {
            memory.give(entry.taken);
            if let Some(at) = entry.timeout {
                self.deadlines.remove(&(at, id.to_owned()));
            }
        }
    }

    /// Whether somebody may commit offsets for a group, which is made if nobody knew it.
    pub fn admit_commit(
        &mut self,
        memory: &mut Memory,
        now: Time,
        id: &str,
        claim: Claim<'_>,
        transactional: bool,
    ) -> Result<(), ErrorCode> {
        if claim.generation < 0 && !self.entries.contains_key(id) && !self.create_classic(memory, id) {
            return Err(ErrorCode::COORDINATOR_NOT_AVAILABLE);
        }
        let entry = self.entries.get_mut(id).ok_or(ErrorCode::GROUP_ID_NOT_FOUND)?;
        match &mut entry.group {
            Group::Classic(group) => group.admit_commit(now, claim, transactional)?,
            Group::Consumer(group) => group.admit_commit(claim)?,
            Group::Share(_) => return Err(ErrorCode::GROUP_ID_NOT_FOUND),
        }
        self.file(memory, id);
        Ok(())
    }

    /// A group has another coordinator now, which knows what was in the log: requests that wait are refused.
    pub fn move_away(&mut self, memory: &mut Memory, now: Time, id: &str) {
        self.with_classic(memory, id, |group, answers| group.load(now, answers));
        let configs = self.configs(id);
        self.with_consumer(memory, id, |group| group.load(now, configs.consumer_session()));
        self.with_share(memory, id, |group| group.load(now, configs.share_session()));
    }

    /// When [`Self::handle_timeout`] has something to do.
    pub fn next_timeout(&self) -> Option<Time> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    /// Does what is due; the groups it was due for.
    pub fn handle_timeout(&mut self, memory: &mut Memory, now: Time) -> Vec<String> {
        let due: Vec<_> = self.deadlines.iter().take_while(|(at, _)| *at <= now).map(|(_, id)| id.clone()).collect();
        for id in &due {
            self.with_classic(memory, id, |group, answers| group.handle_timeout(now, answers));
            self.with_consumer(memory, id, |group| group.handle_timeout(now));
            self.with_share(memory, id, |group| group.handle_timeout(now));
        }
        due
    }

    /// Brings what is filed of a group up to date.
    fn file(&mut self, memory: &mut Memory, id: &str) {
        let Some(entry) = self.entries.get_mut(id) else {
            return;
        };
        let cost = GROUP + id.len() + entry.group.cost();
        memory.give(entry.taken);
        memory.charge(cost);
        entry.taken = cost;
        let timeout = entry.group.next_timeout();
        if timeout != entry.timeout {
            if let Some(at) = entry.timeout {
                self.deadlines.remove(&(at, id.to_owned()));
            }
            self.deadlines.extend(timeout.map(|at| (at, id.to_owned())));
            entry.timeout = timeout;
        }
    }
}
