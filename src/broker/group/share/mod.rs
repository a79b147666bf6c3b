//! A share group (KIP-932): members that read the same partitions, and get each record one at a time.
//!
//! The coordinator's part is who is a member and reads what; the leaders' part is sessions, of which a member has one
//! with each node it reads from, and the records in somebody's hands. One state serves all nodes, so both are here, and
//! a session knows its node. A member gets its partitions with its first heartbeat; Kafka has to note them first, which
//! takes a heartbeat and an epoch more. Where there are more members than partitions, Kafka spreads them a little
//! wider. Left out: `group.share.max.size`.

mod partition;

pub(in crate::broker) use partition::{Acknowledged, Progress, Want};

use super::Configs;
use super::assignor::Shares;
use super::classic::CLIENT_HOST;
use super::consumer::Refused;
use crate::api::ErrorCode;
use crate::api::share_fetch::AcquiredRecords;
use crate::api::share_group_describe as describe;
use crate::api::share_group_heartbeat::{Assignment, JOIN, LEAVE, Request, Response, TopicPartitions};
use crate::broker::log::Log;
use crate::broker::topics::Topics;
use crate::broker::{Connection, Time};
use crate::wire::Uuid;
use bytes::Bytes;
use partition::Partition;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Sessions a group may have: Kafka's `group.share.max.share.sessions` is for all groups of a node.
const MAX_SESSIONS: usize = 2000;

/// What remembering a member or a session takes besides what it says of itself, and a partition of one, roughly.
const MEMBER: usize = 256;
const PARTITION: usize = 48;

/// Epochs of a session's requests: the one that opens it, and the one that closes it.
pub(in crate::broker) const OPEN: i32 = 0;
pub(in crate::broker) const CLOSE: i32 = -1;

/// Who holds records: a member at a node.
pub(in crate::broker) type Owner = (i32, String);

/// A partition by its topic's id.
pub(in crate::broker) type Place = (Uuid, i32);

/// See the top of this file.
#[derive(Debug)]
pub(in crate::broker) struct Group {
    pub epoch: i32,
    pub assignment_epoch: i32,
    members: BTreeMap<String, Member>,
    target: BTreeMap<String, Shares>,
    topics: BTreeMap<String, (Uuid, i32)>,
    sessions: BTreeMap<Owner, Session>,
    partitions: BTreeMap<Place, Partition>,
    /// Partitions of which something is to be had again.
    pub freed: BTreeSet<Place>,
}

#[derive(Debug, Default)]
struct Member {
    rack: Option<String>,
    client_id: String,
    topics: BTreeSet<String>,
    epoch: i32,
    previous_epoch: i32,
    /// What it was told to read.
    assigned: Shares,
    deadline: Time,
}

/// A heartbeat whose form was checked.
#[derive(Clone, Copy, Debug)]
pub(in crate::broker) struct Beat<'a> {
    pub now: Time,
    pub configs: Configs,
    pub client_id: &'a str,
    pub request: &'a Request,
}

#[derive(Debug)]
struct Session {
    /// The epoch its next request has.
    epoch: i32,
    connection: Connection,
    places: BTreeSet<Place>,
}

impl Group {
    /// A new group is in epoch 1, as Kafka's of 4.4.
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

    /// Kafka's name for the state.
    pub fn state(&self) -> &'static str {
        if self.is_empty() { "Empty" } else { "Stable" }
    }

    pub fn is_subscribed(&self, topic: &str) -> bool {
        self.members.values().any(|member| member.topics.contains(topic))
    }

    pub fn cost(&self) -> usize {
        let members = self.members.iter().map(|(id, m)| {
            let topics: usize = m.topics.iter().map(|name| name.len() + 64).sum();
            MEMBER + 2 * id.len() + m.client_id.len() + m.rack.as_ref().map_or(0, String::len) + topics
        });
        // Once as it is meant, and once as the member was told.
        let targets = self.target.values().map(|shares| shares.values().map(|p| 128 + 2 * p.len() * PARTITION).sum());
        let sessions = self.sessions.iter().map(|((_, id), s)| MEMBER + id.len() + s.places.len() * PARTITION);
        let topics = self.topics.keys().map(|name| name.len() + 96);
        members.chain(targets).chain(sessions).chain(topics).chain(self.partitions.values().map(Partition::cost)).sum()
    }

    pub fn next_timeout(&self) -> Option<Time> {
        let members = self.members.values().map(|member| member.deadline);
        members.chain(self.partitions.values().filter_map(|p| p.next_lock)).min()
    }

    /// Ends sessions of members, and locks.
    pub fn handle_timeout(&mut self, now: Time) {
        let gone: Vec<_> = self.members.iter().filter(|(_, m)| m.deadline <= now).map(|(id, _)| id.clone()).collect();
        gone.iter().for_each(|id| self.fence(id));
        for (place, partition) in &mut self.partitions {
            if partition.next_lock.is_some_and(|at| at <= now) && partition.release(|_, until| until <= now) {
                self.freed.insert(*place);
            }
        }
    }

    /// A coordinator takes the group over: everybody's session starts anew.
    pub fn load(&mut self, now: Time, session: Duration) {
        self.members.values_mut().for_each(|member| member.deadline = now.saturating_add(session));
    }

    /// A member joins, goes on or leaves.
    pub fn beat(&mut self, topics: &Topics, beat: Beat<'_>) -> Result<Response, Refused> {
        let Beat { now, configs, client_id, request } = beat;
        let (id, epoch) = (request.member_id.as_str(), request.member_epoch);
        let known = self.members.get(id);
        if epoch != JOIN {
            let member = known.ok_or_else(|| {
                let why = format!("Member {id} is not a member of group {}.", request.group_id);
                (ErrorCode::UNKNOWN_MEMBER_ID, why)
            })?;
            if epoch == LEAVE {
                self.fence(id);
                return Ok(Response { member_id: Some(id.to_owned()), member_epoch: LEAVE, ..Response::default() });
            }
            if epoch != member.epoch && epoch != member.previous_epoch {
                let than = if epoch > member.epoch { "greater" } else { "smaller" };
                let why = format!(
                    "The share group member has a {than} member epoch ({epoch}) than the one known by the group \
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
        let rereads = names.is_some_and(|names| {
            let differs = member.topics != names;
            member.topics = names;
            differs
        });
        let seen = self.look(topics);
        if rereads || seen != self.topics {
            self.topics = seen;
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

    /// The members for tools.
    pub fn describe(&self, topics: &Topics) -> Vec<describe::Member> {
        let list = |shares: &Shares| {
            let named = |(topic_id, partitions): (&Uuid, &BTreeSet<i32>)| {
                let topic_name = topics.name_of(*topic_id)?.to_owned();
                let partitions = partitions.iter().copied().collect();
                Some(describe::TopicPartitions { topic_id: *topic_id, topic_name, partitions })
            };
            describe::Assignment { topic_partitions: shares.iter().filter_map(named).collect() }
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

    /// Opens a session with a node in place of any before.
    pub fn open(&mut self, owner: &Owner, connection: Connection) -> Result<(), ErrorCode> {
        self.close(owner);
        if self.sessions.len() >= MAX_SESSIONS {
            return Err(ErrorCode::SHARE_SESSION_LIMIT_REACHED);
        }
        self.sessions.insert(owner.clone(), Session { epoch: 1, connection, places: BTreeSet::new() });
        Ok(())
    }

    /// Goes on with a session, which is in this epoch; the last one is of any.
    pub fn go_on(&mut self, owner: &Owner, epoch: i32) -> Result<(), ErrorCode> {
        let session = self.sessions.get_mut(owner).ok_or(ErrorCode::SHARE_SESSION_NOT_FOUND)?;
        if epoch == CLOSE {
            return Ok(());
        }
        if session.epoch != epoch {
            return Err(ErrorCode::INVALID_SHARE_SESSION_EPOCH);
        }
        session.epoch = epoch.checked_add(1).unwrap_or(1);
        Ok(())
    }

    /// Adds partitions to a session and takes others out.
    pub fn watch(&mut self, owner: &Owner, add: impl Iterator<Item = Place>, drop: impl Iterator<Item = Place>) {
        if let Some(session) = self.sessions.get_mut(owner) {
            session.places.extend(add);
            drop.for_each(|place| {
                session.places.remove(&place);
            });
        }
    }

    /// The partitions of a session.
    pub fn places(&self, owner: &Owner) -> Vec<Place> {
        self.sessions.get(owner).map(|session| session.places.iter().copied().collect()).unwrap_or_default()
    }

    /// Ends a session; what its member holds from that node is to be had again.
    pub fn close(&mut self, owner: &Owner) {
        if self.sessions.remove(owner).is_none() {
            return;
        }
        for (place, partition) in &mut self.partitions {
            if partition.release(|by, _| by == owner) {
                self.freed.insert(*place);
            }
        }
    }

    /// Ends the sessions of a connection that is gone.
    pub fn hang_up(&mut self, connection: Connection) {
        let owners = self.sessions.iter().filter(|(_, session)| session.connection == connection);
        for owner in owners.map(|(owner, _)| owner.clone()).collect::<Vec<_>>() {
            self.close(&owner);
        }
    }

    /// Hands out records of a partition.
    pub fn acquire(
        &mut self,
        place: Place,
        log: &mut Log,
        want: &Want<'_>,
    ) -> Result<(Bytes, Vec<AcquiredRecords>), ErrorCode> {
        let start = if want.configs.share_from_start { log.start_offset() } else { log.end_offset() };
        let new = || Partition::new(start, want.leader_epoch);
        let partition = self.partitions.entry(place).or_insert_with(new);
        partition.acquire(log, want)
    }

    /// The partitions the group has to do with: those that members read, and those that it has begun.
    pub fn known(&self) -> BTreeMap<Uuid, BTreeSet<i32>> {
        let mut known: BTreeMap<_, BTreeSet<_>> =
            self.topics.values().map(|(topic, count)| (*topic, (0..*count).collect())).collect();
        for (topic, index) in self.partitions.keys() {
            known.entry(*topic).or_default().insert(*index);
        }
        known
    }

    /// Where the group is in a partition, if it has begun it.
    pub fn progress(&self, place: Place) -> Option<Progress> {
        self.partitions.get(&place).map(Partition::progress)
    }

    /// Has the group begin somewhere in a partition; what became of records there is forgotten.
    pub fn begin_at(&mut self, place: Place, offset: i64, leader_epoch: i32) {
        self.partitions.insert(place, Partition::new(offset, leader_epoch));
    }

    /// Takes in what a member did with records of a partition. Those it renews are its own until then.
    pub fn acknowledge(
        &mut self,
        locked_until: Time,
        owner: &Owner,
        place: Place,
        all: &[Acknowledged],
    ) -> Result<(), ErrorCode> {
        let partition = self.partitions.get_mut(&place).ok_or(ErrorCode::INVALID_RECORD_STATE)?;
        partition.acknowledge(locked_until, owner, all)?;
        self.freed.insert(place);
        Ok(())
    }

    /// Forgets where it was in a topic that no member reads; false if it was nowhere.
    pub fn forget_offsets(&mut self, topic: Uuid) -> bool {
        let is_known = self.known().contains_key(&topic);
        self.forget_topic(topic);
        self.topics.retain(|_, (id, _)| *id != topic);
        is_known
    }

    /// Forgets a topic that is gone.
    pub fn forget_topic(&mut self, topic: Uuid) {
        self.partitions.retain(|(id, _), _| *id != topic);
        for session in self.sessions.values_mut() {
            session.places.retain(|(id, _)| *id != topic);
        }
    }

    fn fence(&mut self, id: &str) {
        self.members.remove(id);
        self.target.remove(id);
        self.epoch = self.epoch.saturating_add(1);
    }

    fn look(&self, topics: &Topics) -> BTreeMap<String, (Uuid, i32)> {
        let names: BTreeSet<_> = self.members.values().flat_map(|member| &member.topics).collect();
        let found = names.into_iter().filter_map(|name| {
            let topic = topics.get(name)?;
            Some((name.clone(), (topic.id, i32::try_from(topic.partitions.len()).ok()?)))
        });
        found.collect()
    }

    /// Every partition to somebody; where there are more members than partitions, to several.
    fn assign(&mut self) {
        self.assignment_epoch = self.epoch;
        self.target = self.members.keys().map(|id| (id.clone(), Shares::new())).collect();
        let mut turn = 0;
        for (name, (topic, count)) in &self.topics {
            let readers = self.members.iter().filter(|(_, member)| member.topics.contains(name));
            let readers: Vec<_> = readers.map(|(id, _)| id).collect();
            let rounds = usize::try_from(*count).unwrap_or(0).max(if *count > 0 { readers.len() } else { 0 });
            let pairs = readers.iter().cycle().skip(turn % readers.len().max(1)).zip((0..*count).cycle());
            for (id, partition) in pairs.take(rounds) {
                if let Some(shares) = self.target.get_mut(*id) {
                    shares.entry(*topic).or_default().insert(partition);
                }
            }
            turn += rounds;
        }
    }
}
