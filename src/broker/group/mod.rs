//! Consumer groups: their members, assignments and committed offsets.
//!
//! ```text
//! classic    JoinGroup, SyncGroup, Heartbeat, LeaveGroup
//! consumer   ConsumerGroupHeartbeat (KIP-848), with its assignor
//! share      ShareGroupHeartbeat, ShareFetch, ShareAcknowledge (KIP-932)
//! migration  a group changes from one of the first two protocols to the other
//! offsets    committed offsets         replies   replies to requests that wait for other members
//! ```
//!
//! All nodes share one state, so a group survives the loss of its coordinator. In Kafka, the next coordinator reads the
//! group from the log. Members count towards the cluster's memory limit. Groups do not expire. DeleteGroups removes
//! groups.

mod assignor;
pub(super) mod classic;
mod client;
mod configs;
pub(super) mod consumer;
mod migration;
pub(super) mod offsets;
mod replies;
pub(super) mod share;

pub(super) use assignor::Assignor;
pub(super) use client::MemberIdentity;
pub(super) use configs::{Configs, Listed, Settings, ShareStart};
pub(super) use migration::{POLICY, Policy};
pub(super) use replies::{GroupReply, PendingReplies};

use super::ids::TopicIdPartition;
use super::memory::Memory;
use super::topics::Topics;
use super::{Connection, Time};
use crate::api::ErrorCode;
use crate::wire::Uuid;
use offsets::Offsets;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

/// Approximate memory of a group without its members.
const GROUP_MEMORY: usize = 512;

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

    pub fn kind(&self) -> &'static str {
        match self {
            Self::Classic(_) => "classic",
            Self::Consumer(_) => "consumer",
            Self::Share(_) => "share",
        }
    }

    pub fn state(&self) -> &'static str {
        match self {
            Self::Classic(group) => group.state.name(),
            Self::Consumer(group) => group.state(),
            Self::Share(group) => group.state(),
        }
    }

    /// Returns the protocol type of the members, or an empty string if the group never had one.
    pub fn protocol_type(&self) -> &str {
        match self {
            Self::Classic(group) => group.protocol_type.as_deref().unwrap_or(""),
            Self::Consumer(_) => "consumer",
            Self::Share(_) => "share",
        }
    }

    /// Returns whether a member reads a topic. Consumers whose subscriptions are unknown count as reading every topic.
    pub fn is_subscribed(&self, topic: &str) -> bool {
        match self {
            Self::Classic(group) => group.is_subscribed(topic),
            Self::Consumer(group) => group.is_subscribed(topic),
            Self::Share(group) => group.is_subscribed(topic),
        }
    }

    fn memory_size(&self) -> usize {
        match self {
            Self::Classic(group) => group.memory_size(),
            Self::Consumer(group) => group.memory_size(),
            Self::Share(group) => group.memory_size(),
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

/// A group, the memory that is reserved for it, and its next timeout.
#[derive(Debug)]
struct Entry {
    group: Group,
    reserved: usize,
    timeout: Option<Time>,
}

#[derive(Debug, Default)]
pub(super) struct Groups {
    pub offsets: Offsets,
    pub replies: PendingReplies,
    initial_delay: Duration,
    entries: BTreeMap<String, Entry>,
    deadlines: BTreeSet<(Time, String)>,
    /// The configurations that groups set.
    settings: BTreeMap<String, Settings>,
    defaults: Settings,
    migration: Policy,
    /// Share groups in which each connection has a session.
    sessions: HashMap<Connection, BTreeSet<String>>,
}

impl Groups {
    pub fn new(initial_delay: Duration, defaults: Settings, migration: Policy) -> Self {
        Self { initial_delay, defaults, migration, ..Self::default() }
    }

    /// Replaces the values that node configurations set for all groups.
    pub fn set_defaults(&mut self, defaults: Settings) {
        self.defaults = defaults;
    }

    /// Returns whether a group may have members of both protocols.
    pub fn mixes_protocols(&self) -> bool {
        self.migration.mixes()
    }

    pub fn get(&self, id: &str) -> Option<&Group> {
        self.entries.get(id).map(|entry| &entry.group)
    }

    pub fn all(&self) -> impl Iterator<Item = (&str, &Group)> {
        self.entries.iter().map(|(id, entry)| (id.as_str(), &entry.group))
    }

    /// Returns the configuration of a group. The group need not exist.
    pub fn configs(&self, id: &str) -> Configs {
        self.settings.get(id).unwrap_or(&Settings::default()).effective(&self.defaults)
    }

    /// Returns the configurations that a group sets. The group need not exist.
    pub fn settings(&self, id: &str) -> Settings {
        self.settings.get(id).cloned().unwrap_or_default()
    }

    /// Returns the groups that set a configuration.
    pub fn configured(&self) -> impl Iterator<Item = &str> {
        self.settings.iter().filter(|(_, settings)| settings.iter().next().is_some()).map(|(id, _)| id.as_str())
    }

    /// Configures a group. Returns false if the memory limit is reached.
    pub fn configure(&mut self, memory: &mut Memory, id: &str, settings: Settings) -> bool {
        if !self.settings.contains_key(id) && !memory.try_reserve(GROUP_MEMORY + id.len()) {
            return false;
        }
        self.settings.insert(id.to_owned(), settings);
        true
    }

    /// Changes a classic group. Returns `None` if the group does not exist.
    pub fn with_classic<T>(
        &mut self,
        memory: &mut Memory,
        id: &str,
        change: impl FnOnce(&mut classic::Group, &mut PendingReplies) -> T,
    ) -> Option<T> {
        let Group::Classic(group) = &mut self.entries.get_mut(id)?.group else {
            return None;
        };
        let result = change(group, &mut self.replies);
        self.refresh(memory, id);
        Some(result)
    }

    /// Changes a KIP-848 group. Returns `None` if the group does not exist. If only members of the classic protocol are
    /// left and the migration policy allows a downgrade, the group becomes a classic group.
    pub fn with_consumer<T>(
        &mut self,
        memory: &mut Memory,
        now: Time,
        id: &str,
        change: impl FnOnce(&mut consumer::Group) -> T,
    ) -> Option<T> {
        let entry = self.entries.get_mut(id)?;
        let Group::Consumer(group) = &mut entry.group else {
            return None;
        };
        let result = change(group);
        if self.migration.downgrades && group.is_classic() {
            // The member that left has raised the epoch of the group, but no other member has heard of that epoch.
            let (generation, migrants) = (group.assignment_epoch, group.migrants());
            let group = classic::Group::from_consumer(now, generation, migrants, self.initial_delay, &mut self.replies);
            entry.group = Group::Classic(group);
        }
        self.refresh(memory, id);
        Some(result)
    }

    /// Converts a classic group with members into a KIP-848 group. Does nothing if the group is not a classic group of
    /// consumers with members, or if the migration policy forbids the conversion. The error is a message.
    pub fn upgrade(&mut self, memory: &mut Memory, now: Time, id: &str, topics: &Topics) -> Result<(), String> {
        if let Some(entry) = self.entries.get_mut(id)
            && let Group::Classic(group) = &mut entry.group
            && self.migration.upgrades
            && group.has_consumers()
            && !group.is_empty()
        {
            let upgraded = consumer::Group::from_classic(now, group.generation, group.migrants(), topics)
                .map_err(|why| format!("Cannot upgrade classic group {id} to consumer group because {why}."))?;
            // The members have to join again.
            group.reply_error_to_all(&mut self.replies);
            entry.group = Group::Consumer(upgraded);
            self.refresh(memory, id);
        }
        Ok(())
    }

    /// Changes a share group. Returns `None` if the group does not exist.
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
        self.refresh(memory, id);
        Some(result)
    }

    /// Creates a classic group, if the ID is free or belongs to an empty KIP-848 group. Returns false if the memory
    /// limit is reached.
    pub fn create_classic(&mut self, memory: &mut Memory, id: &str) -> bool {
        let is_there = |group: &Group| !matches!(group, Group::Consumer(_)) || !group.is_empty();
        self.get(id).is_some_and(is_there)
            || self.create(memory, id, Group::Classic(classic::Group::new(self.initial_delay)))
    }

    /// Creates a KIP-848 group, if the ID is free or belongs to an empty classic group. Returns false if the memory
    /// limit is reached.
    pub fn create_consumer(&mut self, memory: &mut Memory, id: &str) -> bool {
        let is_there = |group: &Group| !matches!(group, Group::Classic(_)) || !group.is_empty();
        self.get(id).is_some_and(is_there) || self.create(memory, id, Group::Consumer(consumer::Group::new()))
    }

    /// Creates a share group, if the ID is free. Returns false if the memory limit is reached.
    pub fn create_share(&mut self, memory: &mut Memory, id: &str) -> bool {
        self.entries.contains_key(id) || self.create(memory, id, Group::Share(share::Group::new()))
    }

    /// Records that a connection has a session in a share group.
    pub fn share_session(&mut self, connection: Connection, id: &str) {
        self.sessions.entry(connection).or_default().insert(id.to_owned());
    }

    /// Ends the share sessions of a closed connection. Returns the groups of these sessions.
    pub fn disconnect(&mut self, memory: &mut Memory, connection: Connection) -> BTreeSet<String> {
        let ids = self.sessions.remove(&connection).unwrap_or_default();
        for id in &ids {
            self.with_share(memory, id, |group| group.disconnect(connection));
        }
        ids
    }

    /// Removes and returns the partitions of a share group in which records have become available again.
    pub fn take_freed(&mut self, id: &str) -> BTreeSet<TopicIdPartition> {
        match self.entries.get_mut(id).map(|entry| &mut entry.group) {
            Some(Group::Share(group)) => std::mem::take(&mut group.freed),
            _ => BTreeSet::new(),
        }
    }

    /// Removes a deleted topic from all groups.
    pub fn forget_topic(&mut self, memory: &mut Memory, name: &str, topic: Uuid) {
        self.offsets.forget_topic(memory, name);
        let shares = self.entries.iter().filter(|(_, entry)| matches!(entry.group, Group::Share(_)));
        for id in shares.map(|(id, _)| id.clone()).collect::<Vec<_>>() {
            self.with_share(memory, &id, |group| group.forget_topic(topic));
        }
    }

    /// Replaces a group without members by a new group.
    fn create(&mut self, memory: &mut Memory, id: &str, group: Group) -> bool {
        self.remove(memory, id);
        let reserved = GROUP_MEMORY + id.len();
        let has_memory = memory.try_reserve(reserved);
        if has_memory {
            self.entries.insert(id.to_owned(), Entry { group, reserved, timeout: None });
        }
        has_memory
    }

    /// Deletes a group without members, and its committed offsets.
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
            memory.release(entry.reserved);
            if let Some(at) = entry.timeout {
                self.deadlines.remove(&(at, id.to_owned()));
            }
        }
    }

    /// Checks whether a client may commit offsets for a group. Creates the group if it does not exist.
    pub fn admit_commit(
        &mut self,
        memory: &mut Memory,
        now: Time,
        id: &str,
        identity: MemberIdentity<'_>,
        transactional: bool,
    ) -> Result<(), ErrorCode> {
        if identity.generation < 0 && !self.entries.contains_key(id) && !self.create_classic(memory, id) {
            return Err(ErrorCode::COORDINATOR_NOT_AVAILABLE);
        }
        let entry = self.entries.get_mut(id).ok_or(ErrorCode::GROUP_ID_NOT_FOUND)?;
        match &mut entry.group {
            Group::Classic(group) => group.admit_commit(now, identity, transactional)?,
            Group::Consumer(group) => group.admit_commit(identity)?,
            Group::Share(_) => return Err(ErrorCode::GROUP_ID_NOT_FOUND),
        }
        self.refresh(memory, id);
        Ok(())
    }

    /// Moves a group to a new coordinator, and rejects waiting requests. The new coordinator continues with the state
    /// that Kafka would find in the log.
    pub fn move_away(&mut self, memory: &mut Memory, now: Time, id: &str) {
        self.with_classic(memory, id, |group, replies| group.load(now, replies));
        let configs = self.configs(id);
        self.with_consumer(memory, now, id, |group| group.load(now, configs.consumer_session()));
        self.with_share(memory, id, |group| group.load(now, configs.share_session()));
    }

    /// Returns when the caller must call [`Self::handle_timeout`] next.
    pub fn next_timeout(&self) -> Option<Time> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    /// Handles the timeouts that are due. Returns the groups whose timeouts were due.
    pub fn handle_timeout(&mut self, memory: &mut Memory, now: Time) -> Vec<String> {
        let due: Vec<_> = self.deadlines.iter().take_while(|(at, _)| *at <= now).map(|(_, id)| id.clone()).collect();
        for id in &due {
            self.with_classic(memory, id, |group, replies| group.handle_timeout(now, replies));
            self.with_consumer(memory, now, id, |group| group.handle_timeout(now));
            self.with_share(memory, id, |group| group.handle_timeout(now));
        }
        due
    }

    /// Updates the memory and the timeout of a group.
    fn refresh(&mut self, memory: &mut Memory, id: &str) {
        let Some(entry) = self.entries.get_mut(id) else {
            return;
        };
        let memory_size = GROUP_MEMORY + id.len() + entry.group.memory_size();
        memory.release(entry.reserved);
        memory.reserve(memory_size);
        entry.reserved = memory_size;
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
