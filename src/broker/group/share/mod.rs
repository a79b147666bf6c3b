//! A share group (KIP-932): its members read the same partitions, and the group delivers each record to one member at a
//! time.
//!
//! In Kafka, the coordinator stores the members, and the partition leaders store the share sessions and the acquired
//! records. In the dev broker, all nodes share one state, so this file stores members, sessions and acquired records.
//! The key of a share session includes the node, because a member has one session with each node.
//!
//! A member gets its partitions in the response to its first heartbeat. In Kafka, the coordinator first writes the
//! assignment to its log, so a member gets its partitions with the second heartbeat and in the next epoch. If a group
//! has more members than partitions, the dev broker may assign a partition to more or fewer members than Kafka does.
//! The dev broker does not implement `group.share.max.size`.

mod partition;

pub(in crate::broker) use partition::{Acknowledged, Progress, Want};

use super::assignor::AssignedPartitions;
use super::client::{CLIENT_HOST, GroupError};
use super::{Configs, ShareStart};
use crate::api::ErrorCode;
use crate::api::share_fetch::AcquiredRecords;
use crate::api::share_group_describe as describe;
use crate::api::share_group_heartbeat::{Assignment, JOIN, LEAVE, Request, Response, TopicPartitions};
use crate::broker::ids::{ShareSessionKey, TopicIdPartition};
use crate::broker::log::Log;
use crate::broker::topics::Topics;
use crate::broker::{Connection, Time};
use crate::wire::Uuid;
use bytes::Bytes;
use partition::SharePartition;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Maximum number of sessions of a group. Kafka's `group.share.max.share.sessions` limits all groups of a node
/// together.
const MAX_SESSIONS: usize = 2000;

/// Approximate memory of a member or session without its metadata, and of a partition of a member or session.
const MEMBER_MEMORY: usize = 256;
const PARTITION_MEMORY: usize = 48;

/// Epochs of the requests that open and close a session.
pub(in crate::broker) const OPEN: i32 = 0;
pub(in crate::broker) const CLOSE: i32 = -1;

#[derive(Debug)]
pub(in crate::broker) struct Group {
    pub epoch: i32,
    pub assignment_epoch: i32,
    members: BTreeMap<String, Member>,
    target: BTreeMap<String, AssignedPartitions>,
    topics: BTreeMap<String, (Uuid, i32)>,
    sessions: BTreeMap<ShareSessionKey, Session>,
    partitions: BTreeMap<TopicIdPartition, SharePartition>,
    /// Partitions in which records have become available again.
    pub freed: BTreeSet<TopicIdPartition>,
}

#[derive(Debug, Default)]
struct Member {
    rack: Option<String>,
    client_id: String,
    topics: BTreeSet<String>,
    epoch: i32,
    previous_epoch: i32,
    /// The assignment that the member knows.
    assigned: AssignedPartitions,
    deadline: Time,
}

/// A heartbeat whose fields were validated.
#[derive(Clone, Copy, Debug)]
pub(in crate::broker) struct Heartbeat<'a> {
    pub now: Time,
    pub configs: Configs,
    pub client_id: &'a str,
    pub request: &'a Request,
}

#[derive(Debug)]
struct Session {
    /// Epoch of the next request.
    epoch: i32,
    connection: Connection,
    partitions: BTreeSet<TopicIdPartition>,
}

impl Group {
    /// Creates a group, in epoch 1 as in Kafka 4.4.
    pub fn new() -> Self {
        Self {
            epoch: 1,
            assignment_epoch: 1,
            members: BTreeMap::new(),
            target: BTreeMap::new(),
            topics: BTreeMap::new(),
            sessions: BTreeMap::new(),
            partitions: BTreeMap::new(),
            freed: BTreeSet::new(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    pub fn state(&self) -> &'static str {
        if self.is_empty() { "Empty" } else { "Stable" }
    }

    pub fn is_subscribed(&self, topic: &str) -> bool {
        self.members.values().any(|member| member.topics.contains(topic))
    }

    pub fn memory_size(&self) -> usize {
        let members = self.members.iter().map(|(id, m)| {
            let topics: usize = m.topics.iter().map(|name| name.len() + 64).sum();
            MEMBER_MEMORY + 2 * id.len() + m.client_id.len() + m.rack.as_ref().map_or(0, String::len) + topics
        });
        // Counted twice: once as the target, and once as the member knows it.
        let targets = self
            .target
            .values()
            .map(|assignment| assignment.values().map(|p| 128 + 2 * p.len() * PARTITION_MEMORY).sum());
        let sessions = self
            .sessions
            .iter()
            .map(|(key, s)| MEMBER_MEMORY + key.member_id.len() + s.partitions.len() * PARTITION_MEMORY);
        let topics = self.topics.keys().map(|name| name.len() + 96);
        members
            .chain(targets)
            .chain(sessions)
            .chain(topics)
            .chain(self.partitions.values().map(SharePartition::memory_size))
            .sum()
    }

    pub fn next_timeout(&self) -> Option<Time> {
        let members = self.members.values().map(|member| member.deadline);
        members.chain(self.partitions.values().filter_map(|p| p.next_lock)).min()
    }

    /// Ends member sessions and acquisition locks that have timed out.
    pub fn handle_timeout(&mut self, now: Time) {
        let expired: Vec<_> =
            self.members.iter().filter(|(_, m)| m.deadline <= now).map(|(id, _)| id.clone()).collect();
        expired.iter().for_each(|id| self.fence(id));
        for (id, partition) in &mut self.partitions {
            if partition.next_lock.is_some_and(|at| at <= now) && partition.release(|_, until| until <= now) {
                self.freed.insert(*id);
            }
        }
    }

    /// Continues the group on a new coordinator. The timeouts of all sessions start again.
    pub fn load(&mut self, now: Time, session: Duration) {
        self.members.values_mut().for_each(|member| member.deadline = now.saturating_add(session));
    }

    /// Handles the heartbeat of a member that joins, stays or leaves.
    pub fn heartbeat(&mut self, topics: &Topics, heartbeat: Heartbeat<'_>) -> Result<Response, GroupError> {
        let Heartbeat { now, configs, client_id, request } = heartbeat;
        let (id, epoch) = (request.member_id.as_str(), request.member_epoch);
        let existing = self.members.get(id);
        if epoch != JOIN {
            let member = existing.ok_or_else(|| {
                let why = format!("Member {id} is not a member of group {}.", request.group_id);
                (ErrorCode::UNKNOWN_MEMBER_ID, why)
            })?;
            if epoch == LEAVE {
                self.fence(id);
                return Ok(Response { member_id: Some(id.to_owned()), member_epoch: LEAVE, ..Response::default() });
            }
            if epoch != member.epoch && epoch != member.previous_epoch {
                let comparison = if epoch > member.epoch { "greater" } else { "smaller" };
                let why = format!(
                    "The share group member has a {comparison} member epoch ({epoch}) than the one known by the group \
                     coordinator ({}). The member must abandon all its partitions and rejoin.",
                    member.epoch
                );
                return Err((ErrorCode::FENCED_MEMBER_EPOCH, why));
            }
        }
        let member = self.members.entry(id.to_owned()).or_default();
        member.deadline = now.saturating_add(configs.share_session());
        member.client_id = client_id.to_owned();
        if request.rack_id.is_some() {
            member.rack.clone_from(&request.rack_id);
        }
        let names = request.subscribed_topic_names.as_ref().map(|names| names.iter().cloned().collect());
        let subscription_changed = names.is_some_and(|names| {
            let differs = member.topics != names;
            member.topics = names;
            differs
        });
        let subscribed = self.subscribed_topics(topics);
        if subscription_changed || subscribed != self.topics {
            self.topics = subscribed;
            self.epoch = self.epoch.saturating_add(1);
        }
        if self.epoch > self.assignment_epoch {
            self.assign();
        }
        let member = self.members.entry(id.to_owned()).or_default();
        if member.epoch != self.assignment_epoch {
            (member.previous_epoch, member.epoch) = (member.epoch, self.assignment_epoch);
        }
        let target = self.target.get(id).cloned().unwrap_or_default();
        let differs = member.assigned != target;
        member.assigned = target;
        let listed = |(topic_id, partitions): (&Uuid, &BTreeSet<i32>)| TopicPartitions {
            topic_id: *topic_id,
            partitions: partitions.iter().copied().collect(),
        };
        let assignment = || Assignment { topic_partitions: member.assigned.iter().map(listed).collect() };
        Ok(Response {
            member_id: Some(id.to_owned()),
            member_epoch: member.epoch,
            heartbeat_interval_ms: configs.share_heartbeat_ms,
            assignment: (epoch == JOIN || differs).then(assignment),
            ..Response::default()
        })
    }

    /// Returns the members for ShareGroupDescribe.
    pub fn describe(&self, topics: &Topics) -> Vec<describe::Member> {
        let list = |assignment: &AssignedPartitions| {
            let topic_partitions = |(topic_id, partitions): (&Uuid, &BTreeSet<i32>)| {
                let topic_name = topics.name_of(*topic_id)?.to_owned();
                let partitions = partitions.iter().copied().collect();
                Some(describe::TopicPartitions { topic_id: *topic_id, topic_name, partitions })
            };
            describe::Assignment { topic_partitions: assignment.iter().filter_map(topic_partitions).collect() }
        };
        let member = |(id, member): (&String, &Member)| describe::Member {
            member_id: id.clone(),
            rack_id: member.rack.clone(),
            member_epoch: member.epoch,
            client_id: member.client_id.clone(),
            client_host: CLIENT_HOST.to_owned(),
            subscribed_topic_names: member.topics.iter().cloned().collect(),
            assignment: list(&member.assigned),
        };
        self.members.iter().map(member).collect()
    }

    /// Opens a session with a node, and closes the previous session.
    pub fn open_session(&mut self, key: &ShareSessionKey, connection: Connection) -> Result<(), ErrorCode> {
        self.close_session(key);
        if self.sessions.len() >= MAX_SESSIONS {
            return Err(ErrorCode::SHARE_SESSION_LIMIT_REACHED);
        }
        self.sessions.insert(key.clone(), Session { epoch: 1, connection, partitions: BTreeSet::new() });
        Ok(())
    }

    /// Continues a session that is in this epoch. The request that closes a session may have any epoch.
    pub fn continue_session(&mut self, key: &ShareSessionKey, epoch: i32) -> Result<(), ErrorCode> {
        let session = self.sessions.get_mut(key).ok_or(ErrorCode::SHARE_SESSION_NOT_FOUND)?;
        if epoch == CLOSE {
            return Ok(());
        }
        if session.epoch != epoch {
            return Err(ErrorCode::INVALID_SHARE_SESSION_EPOCH);
        }
        session.epoch = epoch.checked_add(1).unwrap_or(1);
        Ok(())
    }

    /// Adds partitions to a session and removes others.
    pub fn update_session(
        &mut self,
        key: &ShareSessionKey,
        add: impl Iterator<Item = TopicIdPartition>,
        forget: impl Iterator<Item = TopicIdPartition>,
    ) {
        if let Some(session) = self.sessions.get_mut(key) {
            session.partitions.extend(add);
            forget.for_each(|id| {
                session.partitions.remove(&id);
            });
        }
    }

    pub fn session_partitions(&self, session: &ShareSessionKey) -> Vec<TopicIdPartition> {
        self.sessions.get(session).map(|session| session.partitions.iter().copied().collect()).unwrap_or_default()
    }

    /// Closes a session. The records that the member acquired in the session become available again.
    pub fn close_session(&mut self, key: &ShareSessionKey) {
        if self.sessions.remove(key).is_none() {
            return;
        }
        for (id, partition) in &mut self.partitions {
            if partition.release(|by, _| by == key) {
                self.freed.insert(*id);
            }
        }
    }

    /// Closes the sessions of a closed connection.
    pub fn disconnect(&mut self, connection: Connection) {
        let keys = self.sessions.iter().filter(|(_, session)| session.connection == connection);
        for key in keys.map(|(key, _)| key.clone()).collect::<Vec<_>>() {
            self.close_session(&key);
        }
    }

    /// Acquires records of a partition for a member.
    pub fn acquire(
        &mut self,
        id: TopicIdPartition,
        log: &mut Log,
        want: &Want<'_>,
    ) -> Result<(Bytes, Vec<AcquiredRecords>), ErrorCode> {
        let partition = match self.partitions.entry(id) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                let start = match want.configs.share_start {
                    ShareStart::Latest => log.end_offset(),
                    ShareStart::Earliest => log.start_offset(),
                    ShareStart::NotOlderThan(age) => {
                        let age = i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
                        let first = log.first_since(want.wall_ms.saturating_sub(age).max(0))?;
                        first.map_or(log.end_offset(), |record| record.offset)
                    }
                };
                entry.insert(SharePartition::new(start, want.leader_epoch))
            }
        };
        partition.acquire(log, want)
    }

    /// Returns the partitions of the group: the partitions that members read, and the partitions in which the group has
    /// a position.
    pub fn partitions(&self) -> BTreeMap<Uuid, BTreeSet<i32>> {
        let mut partitions: BTreeMap<_, BTreeSet<_>> =
            self.topics.values().map(|(topic, count)| (*topic, (0..*count).collect())).collect();
        for id in self.partitions.keys() {
            partitions.entry(id.topic_id).or_default().insert(id.partition);
        }
        partitions
    }

    /// Returns the group's position in a partition, if any.
    pub fn progress(&self, id: TopicIdPartition) -> Option<Progress> {
        self.partitions.get(&id).map(SharePartition::progress)
    }

    /// Sets the group's position in a partition and forgets the states of its records.
    pub fn begin_at(&mut self, id: TopicIdPartition, offset: i64, leader_epoch: i32) {
        self.partitions.insert(id, SharePartition::new(offset, leader_epoch));
    }

    /// Applies a member's acknowledgements of a partition. Renewed records stay locked until `locked_until`.
    pub fn acknowledge(
        &mut self,
        locked_until: Time,
        session: &ShareSessionKey,
        id: TopicIdPartition,
        acknowledged: &[Acknowledged],
    ) -> Result<(), ErrorCode> {
        let partition = self.partitions.get_mut(&id).ok_or(ErrorCode::INVALID_RECORD_STATE)?;
        partition.acknowledge(locked_until, session, acknowledged)?;
        self.freed.insert(id);
        Ok(())
    }

    /// Removes the positions in a topic that no member reads. Returns false if the group does not know the topic.
    pub fn forget_offsets(&mut self, topic: Uuid) -> bool {
        let is_known = self.partitions().contains_key(&topic);
        self.forget_topic(topic);
        self.topics.retain(|_, (id, _)| *id != topic);
        is_known
    }

    pub fn forget_topic(&mut self, topic: Uuid) {
        self.partitions.retain(|partition, _| partition.topic_id != topic);
        for session in self.sessions.values_mut() {
            session.partitions.retain(|partition| partition.topic_id != topic);
        }
    }

    fn fence(&mut self, id: &str) {
        self.members.remove(id);
        self.target.remove(id);
        self.epoch = self.epoch.saturating_add(1);
    }

    fn subscribed_topics(&self, topics: &Topics) -> BTreeMap<String, (Uuid, i32)> {
        let names: BTreeSet<_> = self.members.values().flat_map(|member| &member.topics).collect();
        let existing = names.into_iter().filter_map(|name| {
            let topic = topics.get(name)?;
            Some((name.clone(), (topic.id, i32::try_from(topic.partitions.len()).ok()?)))
        });
        existing.collect()
    }

    /// Assigns every partition to a member. With more members than partitions, several members get the same partition.
    fn assign(&mut self) {
        self.assignment_epoch = self.epoch;
        self.target = self.members.keys().map(|id| (id.clone(), AssignedPartitions::new())).collect();
        let mut turn = 0;
        for (name, (topic, count)) in &self.topics {
            let readers = self.members.iter().filter(|(_, member)| member.topics.contains(name));
            let readers: Vec<_> = readers.map(|(id, _)| id).collect();
            let rounds = usize::try_from(*count).unwrap_or(0).max(if *count > 0 { readers.len() } else { 0 });
            let pairs = readers.iter().cycle().skip(turn % readers.len().max(1)).zip((0..*count).cycle());
            for (id, partition) in pairs.take(rounds) {
                if let Some(assignment) = self.target.get_mut(*id) {
                    assignment.entry(*topic).or_default().insert(partition);
                }
            }
            turn += rounds;
        }
    }
}
