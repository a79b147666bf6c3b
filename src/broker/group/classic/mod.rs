//! A classic group: the coordinator gathers the members, the group leader assigns partitions, and a generation begins.
//!
//! ```text
//!                 join                       all joined, or time is up         the leader's SyncGroup
//!        Empty --------> PreparingRebalance ---------------------------> CompletingRebalance --------> Stable
//!          ^               |  ^    ^  no member left                       | join, leave, timeout        |
//!          '---------------'  |    '---------------------------------------'                             |
//!                             '--------------------------------------------------------------------------'
//! ```
//!
//! The module implements KIP-62 (rebalance timeouts), KIP-134 (initial rebalance delay), KIP-345 (static members),
//! KIP-394 (member ID required) and KIP-814 (skip assignment). As in Kafka, a member whose connection breaks while it
//! waits for a response stays in the group until its session times out.
//!
//! When the coordinator changes during a rebalance, Kafka's new coordinator continues with the last complete
//! generation, but the dev broker continues the rebalance. As in Kafka, a change of the coordinator removes the members
//! that have not yet received a response to their first JoinGroup.

mod member;

pub(in crate::broker) use member::Joining;

use super::client::{CLIENT_HOST, MemberIdentity};
use super::migration::Migrant;
use super::replies::{GroupReply, PendingReplies};
use crate::api::data::consumer_protocol::{self, Subscription};
use crate::api::{ErrorCode, describe_groups, join_group, sync_group};
use crate::broker::clock::millis;
use crate::broker::{Connection, Time};
use bytes::Bytes;
use member::{Member, WaitsFor, reply_sync_error};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Minimum time that the group waits if no member has rejoined, even if the rebalance timeout is shorter.
const SHORTEST_WAIT: Duration = Duration::from_millis(100);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::broker) enum ClassicGroupState {
    Empty,
    PreparingRebalance,
    CompletingRebalance,
    Stable,
}

impl ClassicGroupState {
    pub fn name(self) -> &'static str {
        match self {
            Self::Empty => "Empty",
            Self::PreparingRebalance => "PreparingRebalance",
            Self::CompletingRebalance => "CompletingRebalance",
            Self::Stable => "Stable",
        }
    }
}

#[derive(Debug)]
pub(in crate::broker) struct Group {
    pub state: ClassicGroupState,
    pub generation: i32,
    pub protocol_type: Option<String>,
    pub protocol: Option<String>,
    leader: Option<String>,
    members: BTreeMap<String, Member>,
    static_members: BTreeMap<String, String>,
    /// Member IDs of clients that must still join with these IDs, and the time at which each ID expires.
    pending_members: BTreeMap<String, Time>,
    /// Members that have not sent SyncGroup in this generation.
    unsynced: BTreeSet<String>,
    /// Topics that the members read. `None` if the members are not consumers, or if their metadata is unknown.
    topics: Option<BTreeSet<String>>,
    timer: Option<(Time, Timer)>,
    initial_delay: Duration,
}

/// The event that the timer triggers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Timer {
    /// The first generation begins. If a member has joined in the meantime and time remains, the group waits longer
    /// instead.
    InitialDelay { remaining: Duration, member_joined: bool },
    /// The group removes the members that have not joined.
    Join,
    /// The group removes the members that have not sent SyncGroup.
    Sync,
}

impl Group {
    pub fn new(initial_delay: Duration) -> Self {
        Self {
            state: ClassicGroupState::Empty,
            generation: 0,
            protocol_type: None,
            protocol: None,
            leader: None,
            members: BTreeMap::new(),
            static_members: BTreeMap::new(),
            pending_members: BTreeMap::new(),
            unsynced: BTreeSet::new(),
            topics: None,
            timer: None,
            initial_delay,
        }
    }

    /// Creates a group from the members of a consumer group. The members then have to join again.
    pub fn from_consumer(
        now: Time,
        generation: i32,
        migrants: Vec<Migrant>,
        initial_delay: Duration,
        replies: &mut PendingReplies,
    ) -> Self {
        let mut group = Self { state: ClassicGroupState::Stable, generation, ..Self::new(initial_delay) };
        group.protocol_type = Some("consumer".to_owned());
        for migrant in migrants {
            group.static_members.extend(migrant.instance.clone().map(|instance| (instance, migrant.id.clone())));
            group.members.insert(migrant.id.clone(), Member::from_migrant(now, migrant));
        }
        group.leader = group.members.keys().next().cloned();
        group.protocol = group.vote();
        group.topics = group.subscribed();
        group.prepare(now, replies);
        group
    }

    /// Returns the members, for a consumer group.
    pub fn migrants(&self) -> Vec<Migrant> {
        self.members.iter().map(|(id, member)| member.migrant(id)).collect()
    }

    /// Returns whether the members are consumers.
    pub fn has_consumers(&self) -> bool {
        self.protocol_type.as_deref() == Some("consumer")
    }

    /// Replies with an error to all waiting requests, so that the waiting members join again.
    pub fn reply_error_to_all(&mut self, replies: &mut PendingReplies) {
        for (id, member) in &mut self.members {
            member.reply_error(id, ErrorCode::REBALANCE_IN_PROGRESS, replies);
        }
    }

    pub fn is_empty(&self) -> bool {
        self.state == ClassicGroupState::Empty
    }

    pub fn is_subscribed(&self, topic: &str) -> bool {
        self.topics.as_ref().map_or(self.has_consumers(), |topics| topics.contains(topic))
    }

    pub fn memory_size(&self) -> usize {
        let members = self.members.iter().map(|(id, member)| member.memory_size(id));
        let pending = self.pending_members.keys().map(|id| id.len() + 64);
        let topics = self.topics.iter().flatten().map(|topic| topic.len() + 64);
        members.chain(pending).chain(topics).sum()
    }

    pub fn next_timeout(&self) -> Option<Time> {
        let sessions = self.members.values().filter_map(|m| m.deadline).chain(self.pending_members.values().copied());
        sessions.chain(self.timer.map(|(at, _)| at)).min()
    }

    /// Ends sessions and waits that have timed out.
    pub fn handle_timeout(&mut self, now: Time, replies: &mut PendingReplies) {
        if let Some((_, timer)) = self.timer.take_if(|(at, _)| *at <= now) {
            match timer {
                Timer::InitialDelay { remaining, member_joined: true } if !remaining.is_zero() => {
                    let delay = self.initial_delay.min(remaining);
                    let remaining = remaining.saturating_sub(self.initial_delay);
                    let timer = Timer::InitialDelay { remaining, member_joined: false };
                    self.timer = Some((now.saturating_add(delay), timer));
                }
                Timer::InitialDelay { .. } | Timer::Join => self.complete_join(now, replies),
                Timer::Sync => {
                    for id in std::mem::take(&mut self.unsynced) {
                        self.remove(&id);
                    }
                    self.prepare(now, replies);
                }
            }
        }
        let due = |deadline: Option<Time>| deadline.is_some_and(|at| at <= now);
        let pending: Vec<_> =
            self.pending_members.iter().filter(|(_, at)| due(Some(**at))).map(|(id, _)| id.clone()).collect();
        for id in pending {
            self.remove(&id);
            if self.state == ClassicGroupState::PreparingRebalance && self.all_joined() {
                self.complete_join(now, replies);
            }
        }
        let ended: Vec<_> = self.members.iter().filter(|(_, m)| due(m.deadline)).map(|(id, _)| id.clone()).collect();
        for id in ended {
            // A waiting member counts as alive, but no member waits forever for its first generation. Changes to
            // earlier members may have given this one more time.
            let Some(member) = self.members.get_mut(&id).filter(|m| due(m.deadline)) else {
                continue;
            };
            if !member.is_new && member.waits != WaitsFor::No {
                member.deadline = None;
                continue;
            }
            self.expel(&id, replies);
            match self.state {
                ClassicGroupState::Stable | ClassicGroupState::CompletingRebalance => self.prepare(now, replies),
                ClassicGroupState::PreparingRebalance if self.all_joined() => self.complete_join(now, replies),
                _ => {}
            }
        }
    }

    /// Continues the group on a new coordinator.
    pub fn load(&mut self, now: Time, replies: &mut PendingReplies) {
        let ids: Vec<_> = self.members.keys().cloned().collect();
        for id in ids {
            let Some(member) = self.members.get_mut(&id) else { continue };
            member.reply_error(&id, ErrorCode::NOT_COORDINATOR, replies);
            member.touch(now);
            if member.is_new {
                self.remove(&id);
            }
        }
        self.pending_members.clear();
        self.unsynced.clear();
        self.timer = None;
        if matches!(self.state, ClassicGroupState::PreparingRebalance | ClassicGroupState::CompletingRebalance) {
            self.state = ClassicGroupState::PreparingRebalance;
            match self.members.is_empty() {
                true => self.complete_join(now, replies),
                false => self.timer = Some((now.saturating_add(self.rebalance_timeout()), Timer::Join)),
            }
        }
    }

    /// Handles JoinGroup of a client without a member ID.
    pub fn join_new(&mut self, joining: Joining<'_>, replies: &mut PendingReplies) {
        if !self.supports(joining.request) {
            return joining.reply_error(replies, "", ErrorCode::INCONSISTENT_GROUP_PROTOCOL);
        }
        let id = joining.new_id.clone();
        if let Some(instance) = &joining.request.group_instance_id {
            return match self.static_members.get(instance).cloned() {
                Some(old) => self.replace(&old, joining, replies),
                None => self.add(id, joining, replies),
            };
        }
        if joining.requires_known_member_id {
            let until = joining.now.saturating_add(millis(joining.request.session_timeout_ms));
            self.pending_members.insert(id.clone(), until);
            return joining.reply_error(replies, &id, ErrorCode::MEMBER_ID_REQUIRED);
        }
        self.add(id, joining, replies);
    }

    /// Handles JoinGroup of a client with a member ID.
    pub fn join_again(&mut self, joining: Joining<'_>, replies: &mut PendingReplies) {
        let id = joining.request.member_id.clone();
        let instance = joining.request.group_instance_id.as_deref();
        if !self.supports(joining.request) {
            return joining.reply_error(replies, &id, ErrorCode::INCONSISTENT_GROUP_PROTOCOL);
        }
        if self.pending_members.contains_key(&id) {
            return match instance {
                None => self.add(id, joining, replies),
                Some(_) => joining.reply_error(replies, &id, ErrorCode::UNKNOWN_SERVER_ERROR),
            };
        }
        if let Err(code) = self.check_member(&id, instance) {
            return joining.reply_error(replies, &id, code);
        }
        let is_leader = self.leader.as_ref() == Some(&id);
        let protocols = joining.protocols();
        let is_same = self.members.get(&id).is_some_and(|member| member.protocols == protocols);
        match self.state {
            ClassicGroupState::Empty => joining.reply_error(replies, &id, ErrorCode::UNKNOWN_MEMBER_ID),
            // The client may have missed the first reply.
            ClassicGroupState::CompletingRebalance if is_same => {
                replies.complete(joining.connection, GroupReply::Join(self.join_response(&id)));
            }
            // Nothing changed for a follower. A leader joins again because something changed that only it knows.
            ClassicGroupState::Stable if is_same && !is_leader => {
                replies.complete(joining.connection, GroupReply::Join(self.join_response(&id)));
            }
            _ => {
                if let Some(member) = self.members.get_mut(&id) {
                    member.update(&joining, protocols);
                }
                self.prepare_or_complete(joining.now, replies);
            }
        }
    }

    /// Handles SyncGroup. The leader's request carries all assignments.
    pub fn sync(
        &mut self,
        now: Time,
        connection: Connection,
        request: sync_group::Request,
        replies: &mut PendingReplies,
    ) {
        let checked = self.check(&request.member_id, request.group_instance_id.as_deref(), request.generation_id);
        let differs = |received: &Option<String>, current: &Option<String>| {
            received.is_some() && current.is_some() && received != current
        };
        if let Err(code) = checked {
            return reply_sync_error(replies, connection, code);
        }
        if differs(&request.protocol_type, &self.protocol_type) || differs(&request.protocol_name, &self.protocol) {
            return reply_sync_error(replies, connection, ErrorCode::INCONSISTENT_GROUP_PROTOCOL);
        }
        let Some(member) = self.members.get_mut(&request.member_id) else {
            return;
        };
        match self.state {
            ClassicGroupState::Empty => reply_sync_error(replies, connection, ErrorCode::UNKNOWN_MEMBER_ID),
            ClassicGroupState::PreparingRebalance => {
                reply_sync_error(replies, connection, ErrorCode::REBALANCE_IN_PROGRESS)
            }
            ClassicGroupState::Stable => {
                let assignment = member.assignment.clone();
                self.mark_synced(&request.member_id);
                let response = self.sync_response(assignment);
                replies.complete(connection, GroupReply::Sync(response));
            }
            ClassicGroupState::CompletingRebalance => {
                member.waits = WaitsFor::Sync(connection);
                self.mark_synced(&request.member_id);
                if self.leader.as_ref() == Some(&request.member_id) {
                    self.assign(now, request.assignments, replies);
                }
            }
        }
    }

    pub fn heartbeat(&mut self, now: Time, identity: MemberIdentity<'_>) -> Result<(), ErrorCode> {
        self.check(identity.member_id, identity.instance_id, identity.generation)?;
        if let Some(member) = self.members.get_mut(identity.member_id) {
            member.touch(now);
        }
        match self.state {
            ClassicGroupState::PreparingRebalance => Err(ErrorCode::REBALANCE_IN_PROGRESS),
            _ => Ok(()),
        }
    }

    /// Handles one member of a LeaveGroup. The caller then calls [`Self::continue_after_leave`] once.
    pub fn leave(&mut self, id: &str, instance: Option<&str>, replies: &mut PendingReplies) -> Result<(), ErrorCode> {
        if self.pending_members.remove(id).is_some() {
            return Ok(());
        }
        // An operator removes static members by their instance IDs.
        let id = match (id, instance) {
            ("", Some(instance)) => self.static_members.get(instance).cloned().ok_or(ErrorCode::UNKNOWN_MEMBER_ID)?,
            _ => self.check_member(id, instance).map(|()| id.to_owned())?,
        };
        self.expel(&id, replies);
        Ok(())
    }

    /// Continues the group after members left.
    pub fn continue_after_leave(&mut self, now: Time, replies: &mut PendingReplies) {
        match self.state {
            ClassicGroupState::Stable | ClassicGroupState::CompletingRebalance => self.prepare(now, replies),
            ClassicGroupState::PreparingRebalance => self.maybe_complete(now, replies),
            ClassicGroupState::Empty => {}
        }
    }

    /// Checks whether a client may commit offsets for the group.
    pub fn admit_commit(
        &mut self,
        now: Time,
        identity: MemberIdentity<'_>,
        transactional: bool,
    ) -> Result<(), ErrorCode> {
        if identity.generation < 0 && self.is_empty() {
            return Ok(());
        }
        if identity.generation >= 0 || !identity.member_id.is_empty() || identity.instance_id.is_some() {
            self.check(identity.member_id, identity.instance_id, identity.generation)?;
        } else if !transactional && !self.is_empty() {
            return Err(ErrorCode::UNKNOWN_MEMBER_ID);
        }
        if transactional {
            return Ok(());
        }
        match (self.state, self.members.get_mut(identity.member_id)) {
            // The generation has begun, but no member has an assignment yet.
            (ClassicGroupState::CompletingRebalance, _) => Err(ErrorCode::REBALANCE_IN_PROGRESS),
            (_, Some(member)) => {
                member.touch(now);
                Ok(())
            }
            (_, None) => Ok(()),
        }
    }

    /// Returns the members for DescribeGroups. As in Kafka, the result has metadata and assignments only if the group
    /// is stable.
    pub fn describe(&self) -> Vec<describe_groups::Member> {
        let is_stable = self.state == ClassicGroupState::Stable;
        let describe = |(id, member): (&String, &Member)| describe_groups::Member {
            member_id: id.clone(),
            group_instance_id: member.instance.clone(),
            client_id: member.client_id.clone(),
            client_host: CLIENT_HOST.to_owned(),
            member_metadata: if is_stable { member.metadata(self.protocol.as_deref()) } else { Bytes::new() },
            member_assignment: if is_stable { member.assignment.clone() } else { Bytes::new() },
        };
        self.members.iter().map(describe).collect()
    }

    fn check_member(&self, id: &str, instance: Option<&str>) -> Result<(), ErrorCode> {
        if let Some(instance) = instance {
            let holder = self.static_members.get(instance).ok_or(ErrorCode::UNKNOWN_MEMBER_ID)?;
            if holder != id {
                return Err(ErrorCode::FENCED_INSTANCE_ID);
            }
        }
        self.members.contains_key(id).then_some(()).ok_or(ErrorCode::UNKNOWN_MEMBER_ID)
    }

    fn check(&self, id: &str, instance: Option<&str>, generation: i32) -> Result<(), ErrorCode> {
        self.check_member(id, instance)?;
        (generation == self.generation).then_some(()).ok_or(ErrorCode::ILLEGAL_GENERATION)
    }

    /// Returns whether the members would still have a common protocol if this client joined.
    fn supports(&self, request: &join_group::Request) -> bool {
        if self.is_empty() {
            return !request.protocol_type.is_empty() && !request.protocols.is_empty();
        }
        let common = self.common_protocols();
        let is_common =
            |p: &join_group::Protocol| common.as_ref().is_none_or(|common| common.contains(p.name.as_str()));
        self.protocol_type.as_ref() == Some(&request.protocol_type) && request.protocols.iter().any(is_common)
    }

    /// Returns the protocols that all members support, or `None` if the group has no members.
    fn common_protocols(&self) -> Option<BTreeSet<&str>> {
        let mut members = self.members.values().map(Member::names);
        let mut common = members.next()?;
        for names in members {
            common.retain(|name| names.contains(name));
        }
        Some(common)
    }

    fn add(&mut self, id: String, joining: Joining<'_>, replies: &mut PendingReplies) {
        let request = joining.request;
        if let Some((_, Timer::InitialDelay { member_joined, .. })) = &mut self.timer {
            *member_joined = true;
        }
        if self.members.is_empty() {
            self.protocol_type = Some(request.protocol_type.clone());
        }
        if let Some(instance) = &request.group_instance_id {
            self.static_members.insert(instance.clone(), id.clone());
        }
        let member = joining.member();
        self.leader.get_or_insert_with(|| id.clone());
        self.pending_members.remove(&id);
        self.members.insert(id, member);
        self.prepare_or_complete(joining.now, replies);
    }

    /// Replaces a static member that joins again under a new ID.
    fn replace(&mut self, old: &str, joining: Joining<'_>, replies: &mut PendingReplies) {
        let Some(mut member) = self.members.remove(old) else {
            return;
        };
        member.reply_error(old, ErrorCode::FENCED_INSTANCE_ID, replies);
        member.is_new = false;
        let id = joining.new_id.clone();
        let old_leader = self.leader.clone();
        if self.leader.as_deref() == Some(old) {
            self.leader = Some(id.clone());
        }
        self.unsynced.remove(old);
        self.static_members.extend(member.instance.iter().map(|instance| (instance.clone(), id.clone())));
        member.touch(joining.now);
        member.update(&joining, joining.protocols());
        self.members.insert(id.clone(), member);
        match self.state {
            ClassicGroupState::Stable if self.vote() == self.protocol => {
                let mut response = self.join_response(&id);
                if joining.supports_skipping_assignment {
                    response.skip_assignment = self.leader.as_ref() == Some(&id);
                } else {
                    // Before the broker could tell a leader to skip the assignment, it returned the old leader's ID, so
                    // that the new one did not assign.
                    response.leader = old_leader.unwrap_or_default();
                    response.members = Vec::new();
                }
                if let Some(member) = self.members.get_mut(&id) {
                    member.waits = WaitsFor::No;
                }
                replies.complete(joining.connection, GroupReply::Join(response));
            }
            ClassicGroupState::Stable | ClassicGroupState::CompletingRebalance => self.prepare(joining.now, replies),
            ClassicGroupState::PreparingRebalance => self.maybe_complete(joining.now, replies),
            ClassicGroupState::Empty => {}
        }
    }

    /// Removes a member, and rejects the request for whose reply the member waits.
    fn expel(&mut self, id: &str, replies: &mut PendingReplies) {
        if let Some(WaitsFor::Join(connection)) = self.members.get(id).map(|member| member.waits) {
            let error_code = ErrorCode::UNKNOWN_MEMBER_ID;
            replies.complete(connection, GroupReply::Join(join_group::Response { error_code, ..Default::default() }));
        }
        self.remove(id);
    }

    fn remove(&mut self, id: &str) {
        if let Some(instance) = self.members.remove(id).and_then(|member| member.instance) {
            self.static_members.remove(&instance);
        }
        if self.leader.as_deref() == Some(id) {
            self.leader = self.members.keys().next().cloned();
        }
        self.pending_members.remove(id);
        self.unsynced.remove(id);
    }

    fn all_joined(&self) -> bool {
        self.pending_members.is_empty() && self.members.values().all(Member::has_joined)
    }

    fn rebalance_timeout(&self) -> Duration {
        self.members.values().map(|member| member.rebalance).max().unwrap_or_default()
    }

    fn prepare_or_complete(&mut self, now: Time, replies: &mut PendingReplies) {
        match self.state {
            ClassicGroupState::PreparingRebalance => self.maybe_complete(now, replies),
            _ => self.prepare(now, replies),
        }
    }

    /// Starts a rebalance.
    fn prepare(&mut self, now: Time, replies: &mut PendingReplies) {
        if self.state == ClassicGroupState::CompletingRebalance {
            for member in self.members.values_mut() {
                member.assignment = Bytes::new();
                if let WaitsFor::Sync(connection) = member.waits {
                    member.waits = WaitsFor::No;
                    member.touch(now);
                    reply_sync_error(replies, connection, ErrorCode::REBALANCE_IN_PROGRESS);
                }
            }
        }
        self.unsynced.clear();
        let was_empty =
            std::mem::replace(&mut self.state, ClassicGroupState::PreparingRebalance) == ClassicGroupState::Empty;
        if was_empty && !self.initial_delay.is_zero() {
            let remaining = self.rebalance_timeout().saturating_sub(self.initial_delay);
            let timer = Timer::InitialDelay { remaining, member_joined: false };
            self.timer = Some((now.saturating_add(self.initial_delay), timer));
        } else if self.all_joined() {
            self.complete_join(now, replies);
        } else {
            self.timer = Some((now.saturating_add(self.rebalance_timeout()), Timer::Join));
        }
    }

    fn maybe_complete(&mut self, now: Time, replies: &mut PendingReplies) {
        let is_delayed = matches!(self.timer, Some((_, Timer::InitialDelay { .. })));
        if !is_delayed && self.all_joined() {
            self.complete_join(now, replies);
        }
    }

    /// Starts a generation with the members that joined. Static members that did not join stay, because they may be
    /// restarting.
    fn complete_join(&mut self, now: Time, replies: &mut PendingReplies) {
        self.timer = None;
        let absent = self.members.iter().filter(|(_, m)| !m.has_joined() && m.instance.is_none());
        for id in absent.map(|(id, _)| id.clone()).collect::<Vec<_>>() {
            self.remove(&id);
        }
        let joined = |id: &String| self.members.get(id).is_some_and(Member::has_joined);
        if !self.leader.as_ref().is_some_and(joined) {
            let next = self.members.iter().find(|(_, m)| m.has_joined()).map(|(id, _)| id.clone());
            if next.is_none() && !self.members.is_empty() {
                let wait = self.rebalance_timeout().max(SHORTEST_WAIT);
                self.timer = Some((now.saturating_add(wait), Timer::Join));
                return;
            }
            self.leader = next;
        }
        self.generation = self.generation.checked_add(1).unwrap_or(1);
        self.protocol = self.vote();
        self.topics = self.subscribed();
        if self.members.is_empty() {
            self.state = ClassicGroupState::Empty;
            return;
        }
        self.state = ClassicGroupState::CompletingRebalance;
        self.timer = Some((now.saturating_add(self.rebalance_timeout()), Timer::Sync));
        self.unsynced = self.members.keys().cloned().collect();
        let ids: Vec<_> = self.members.keys().cloned().collect();
        for id in ids {
            let response = self.join_response(&id);
            let Some(member) = self.members.get_mut(&id) else { continue };
            if let WaitsFor::Join(connection) = std::mem::replace(&mut member.waits, WaitsFor::No) {
                replies.complete(connection, GroupReply::Join(response));
            }
            member.is_new = false;
            member.touch(now);
        }
    }

    fn join_response(&self, id: &str) -> join_group::Response {
        let leads = self.leader.as_deref() == Some(id);
        let member = |(id, member): (&String, &Member)| join_group::Member {
            member_id: id.clone(),
            group_instance_id: member.instance.clone(),
            metadata: member.metadata(self.protocol.as_deref()),
        };
        join_group::Response {
            generation_id: self.generation,
            protocol_type: self.protocol_type.clone(),
            protocol_name: self.protocol.clone(),
            leader: self.leader.clone().unwrap_or_default(),
            member_id: id.to_owned(),
            members: if leads { self.members.iter().map(member).collect() } else { Vec::new() },
            ..Default::default()
        }
    }

    /// Returns the common protocol that most members prefer.
    fn vote(&self) -> Option<String> {
        let common = self.common_protocols()?;
        let mut votes = BTreeMap::<&str, usize>::new();
        for member in self.members.values() {
            let first = member.protocols.iter().map(|(name, _)| name.as_str()).find(|name| common.contains(name));
            *votes.entry(first?).or_default() += 1;
        }
        let most = votes.values().max()?;
        votes.iter().find(|(_, count)| *count == most).map(|(name, _)| (*name).to_owned())
    }

    fn subscribed(&self) -> Option<BTreeSet<String>> {
        if !self.has_consumers() {
            return None;
        }
        let mut topics = BTreeSet::new();
        for member in self.members.values() {
            let subscription = consumer_protocol::decode::<Subscription>(member.metadata(self.protocol.as_deref()));
            topics.extend(subscription.ok()?.topics);
        }
        Some(topics)
    }

    fn mark_synced(&mut self, id: &str) {
        self.unsynced.remove(id);
        if self.unsynced.is_empty() {
            self.timer = None;
        }
    }

    fn assign(&mut self, now: Time, assignments: Vec<sync_group::Assignment>, replies: &mut PendingReplies) {
        let mut assignments: BTreeMap<_, _> = assignments.into_iter().map(|a| (a.member_id, a.assignment)).collect();
        self.state = ClassicGroupState::Stable;
        let template = self.sync_response(Bytes::new());
        for (id, member) in &mut self.members {
            member.assignment = assignments.remove(id).map_or_else(Bytes::new, |a| Bytes::copy_from_slice(&a));
            if let WaitsFor::Sync(connection) = member.waits {
                member.waits = WaitsFor::No;
                member.touch(now);
                let assignment = member.assignment.clone();
                replies.complete(connection, GroupReply::Sync(sync_group::Response { assignment, ..template.clone() }));
            }
        }
    }

    fn sync_response(&self, assignment: Bytes) -> sync_group::Response {
        sync_group::Response {
            protocol_type: self.protocol_type.clone(),
            protocol_name: self.protocol.clone(),
            assignment,
            ..Default::default()
        }
    }
}
