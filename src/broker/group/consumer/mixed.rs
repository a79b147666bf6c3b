//! Members of the classic protocol in a consumer group (KIP-848, online migration).
//!
//! A classic member joins with JoinGroup, and gets its partitions in the response to SyncGroup. These partitions are
//! the part of the member's target assignment that other members have already released. The response to Heartbeat can
//! ask the member to join again. A member must join again if there is a new group epoch, if it has to release
//! partitions, or if partitions of its target assignment are now free. The generation of a classic member is its member
//! epoch. No member is the group leader: the coordinator reads the subscriptions of the members and assigns the
//! partitions.

use super::classic::{Classic, PROTOCOL_TYPE};
use super::{AssignedPartitions, Group, Member, MemberState, TopicPartitions, pairs};
use crate::api::data::consumer_protocol::{self, Assignment, Subscription};
use crate::api::{ErrorCode, join_group, sync_group};
use crate::broker::Time;
use crate::broker::clock::millis;
use crate::broker::group::classic::Joining;
use crate::broker::group::client::MemberIdentity;
use crate::broker::group::migration::Migrant;
use crate::broker::topics::Topics;
use std::collections::{BTreeMap, BTreeSet};

impl Group {
    /// Converts a classic group. All members keep their assigned partitions. The error says why the conversion is
    /// impossible.
    pub fn from_classic(
        now: Time,
        generation: i32,
        migrants: Vec<Migrant>,
        topics: &Topics,
    ) -> Result<Self, &'static str> {
        let mut group = Self { epoch: generation, assignment_epoch: generation, ..Self::new() };
        for migrant in migrants {
            let malformed = "a member has a malformed subscription or assignment";
            let (_, metadata) = migrant.protocols.first().cloned().unwrap_or_default();
            let subscription = consumer_protocol::decode::<Subscription>(metadata).map_err(|_| malformed)?;
            let assigned = match migrant.assignment.is_empty() {
                true => AssignedPartitions::new(),
                false => {
                    let assignment =
                        consumer_protocol::decode::<Assignment>(migrant.assignment).map_err(|_| malformed)?;
                    if assignment.user_data.is_some_and(|data| !data.is_empty()) {
                        return Err("an unsupported custom assignor is in use");
                    }
                    by_id(assignment.assigned_partitions, topics)
                }
            };
            group.static_members.extend(migrant.instance.clone().map(|instance| (instance, migrant.id.clone())));
            group.target.insert(migrant.id.clone(), assigned.clone());
            let classic = Classic { session: migrant.session, protocols: migrant.protocols, rebalance_deadline: None };
            let member = Member {
                instance: migrant.instance,
                rack: subscription.rack_id,
                client_id: migrant.client_id,
                rebalance: migrant.rebalance,
                topics: subscription.topics.into_iter().collect(),
                epoch: generation,
                previous_epoch: generation,
                deadline: now.saturating_add(migrant.session),
                assigned,
                classic: Some(classic),
                ..Member::default()
            };
            group.members.insert(migrant.id, member);
        }
        group.topics = group.subscribed_topics(topics);
        Ok(group)
    }

    /// Returns whether all members use the classic protocol.
    pub fn is_classic(&self) -> bool {
        !self.members.is_empty() && self.members.values().all(|member| member.classic.is_some())
    }

    /// Returns the members of the classic protocol with their target assignments.
    pub fn migrants(&self) -> Vec<Migrant> {
        let names: BTreeMap<_, _> = self.topics.iter().map(|(name, (id, _))| (*id, name.clone())).collect();
        let empty = AssignedPartitions::new();
        let migrants = self.members.iter().filter_map(|(id, member)| {
            let classic = member.classic.as_ref()?;
            Some(Migrant {
                id: id.clone(),
                instance: member.instance.clone(),
                client_id: member.client_id.clone(),
                session: classic.session,
                rebalance: member.rebalance,
                protocols: classic.protocols.clone(),
                assignment: classic
                    .assignment(self.target.get(id).unwrap_or(&empty), |topic| names.get(topic).cloned()),
            })
        });
        migrants.collect()
    }

    /// Handles JoinGroup. Members of consumer groups do not wait for each other.
    pub fn join(&mut self, topics: &Topics, joining: &Joining<'_>) -> join_group::Response {
        let request = joining.request;
        let is_new = request.member_id.is_empty();
        let id = if is_new { joining.new_id.as_str() } else { request.member_id.as_str() };
        let error_response =
            |error_code| join_group::Response { member_id: id.to_owned(), error_code, ..Default::default() };
        let subscription = request.protocols.first().map(|first| consumer_protocol::decode(first.metadata.clone()));
        let Some(Ok(Subscription { topics: names, owned_partitions, rack_id, .. })) = subscription else {
            return error_response(ErrorCode::INCONSISTENT_GROUP_PROTOCOL);
        };
        if !self.supports(id, request) {
            return error_response(ErrorCode::INCONSISTENT_GROUP_PROTOCOL);
        }
        match &request.group_instance_id {
            None if is_new && joining.requires_known_member_id => return error_response(ErrorCode::MEMBER_ID_REQUIRED),
            None => {}
            Some(instance) => match self.static_members.get(instance).cloned() {
                Some(old) if is_new => self.take_over(&old, id),
                Some(holder) if holder != id => return error_response(ErrorCode::FENCED_INSTANCE_ID),
                None if !is_new => return error_response(ErrorCode::UNKNOWN_MEMBER_ID),
                _ => drop(self.static_members.insert(instance.clone(), id.to_owned())),
            },
        }
        let member = self.members.entry(id.to_owned()).or_default();
        let names: BTreeSet<_> = names.into_iter().collect();
        let subscription_changed = member.topics != names || member.pattern.is_some();
        let session = millis(request.session_timeout_ms);
        member.topics = names;
        (member.pattern, member.assignor) = (None, None);
        member.instance.clone_from(&request.group_instance_id);
        member.rack = rack_id.or_else(|| member.rack.take());
        joining.client_id.clone_into(&mut member.client_id);
        member.rebalance = millis(request.rebalance_timeout_ms);
        member.deadline = joining.now.saturating_add(session);
        let rebalance_deadline = Some(joining.now.saturating_add(member.rebalance));
        member.classic = Some(Classic { session, protocols: joining.protocols(), rebalance_deadline });
        self.update_target(topics, subscription_changed);
        let owned = by_id(owned_partitions, topics);
        self.reconcile(
            joining.now,
            id,
            Some(&owned.iter().map(super::topic_partitions).collect::<Vec<TopicPartitions>>()),
        );
        join_group::Response {
            generation_id: self.members.get(id).map_or(-1, |member| member.epoch),
            protocol_type: Some(PROTOCOL_TYPE.to_owned()),
            protocol_name: request.protocols.first().map(|first| first.name.clone()),
            member_id: id.to_owned(),
            ..Default::default()
        }
    }

    /// Handles SyncGroup: returns the partitions of a member.
    pub fn sync(
        &mut self,
        now: Time,
        topics: &Topics,
        request: &sync_group::Request,
    ) -> Result<sync_group::Response, ErrorCode> {
        let identity = MemberIdentity {
            member_id: &request.member_id,
            instance_id: request.group_instance_id.as_deref(),
            generation: request.generation_id,
        };
        let group_epoch = self.epoch;
        let member = self.classic_member(identity)?;
        let must_rejoin = group_epoch > member.epoch && member.state != MemberState::Unrevoked;
        let (assigned, rejoin_by) = (member.assigned.clone(), now.saturating_add(member.rebalance));
        let Some(classic) = &mut member.classic else {
            return Err(ErrorCode::UNKNOWN_MEMBER_ID);
        };
        let name = classic.first_protocol().map_or_else(String::new, |(name, _)| name.clone());
        let differs =
            |received: &Option<String>, expected: &str| received.as_ref().is_some_and(|received| received != expected);
        if differs(&request.protocol_type, PROTOCOL_TYPE) || differs(&request.protocol_name, &name) {
            return Err(ErrorCode::INCONSISTENT_GROUP_PROTOCOL);
        }
        if must_rejoin {
            classic.rebalance_deadline.get_or_insert(rejoin_by);
            return Err(ErrorCode::REBALANCE_IN_PROGRESS);
        }
        classic.rebalance_deadline = None;
        let response = sync_group::Response {
            protocol_type: Some(PROTOCOL_TYPE.to_owned()),
            protocol_name: Some(name),
            assignment: classic.assignment(&assigned, |topic| topics.name_of(*topic).map(str::to_owned)),
            ..Default::default()
        };
        member.deadline = now.saturating_add(classic.session);
        Ok(response)
    }

    /// Handles Heartbeat. REBALANCE_IN_PROGRESS makes the member join again.
    pub fn classic_heartbeat(&mut self, now: Time, identity: MemberIdentity<'_>) -> Result<(), ErrorCode> {
        let group_epoch = self.epoch;
        let waits = self.waits_for_others(identity.member_id);
        let member = self.classic_member(identity)?;
        let rejoins = member.epoch < group_epoch
            || member.state == MemberState::Unrevoked
            || member.state == MemberState::Unreleased && !waits;
        let rejoin_by = now.saturating_add(member.rebalance);
        if let Some(classic) = &mut member.classic {
            member.deadline = now.saturating_add(classic.session);
            if rejoins {
                classic.rebalance_deadline.get_or_insert(rejoin_by);
            }
        }
        if rejoins { Err(ErrorCode::REBALANCE_IN_PROGRESS) } else { Ok(()) }
    }

    /// Handles one member of a LeaveGroup. An operator removes static members of both protocols by their instance IDs.
    pub fn classic_leave(&mut self, id: &str, instance: Option<&str>) -> Result<(), ErrorCode> {
        let id = match instance {
            Some(instance) if id.is_empty() => {
                self.static_members.get(instance).cloned().ok_or(ErrorCode::UNKNOWN_MEMBER_ID)?
            }
            _ => {
                self.check_instance(id, instance).map_err(|(code, _)| code)?;
                let is_classic = self.members.get(id).is_some_and(|member| member.classic.is_some());
                is_classic.then(|| id.to_owned()).ok_or(ErrorCode::UNKNOWN_MEMBER_ID)?
            }
        };
        self.fence(&id);
        Ok(())
    }

    /// Returns a member of the classic protocol, if the client is that member in this epoch.
    fn classic_member(&mut self, identity: MemberIdentity<'_>) -> Result<&mut Member, ErrorCode> {
        self.check_instance(identity.member_id, identity.instance_id).map_err(|(code, _)| code)?;
        let member = self.members.get_mut(identity.member_id).filter(|member| member.classic.is_some());
        let member = member.ok_or(ErrorCode::UNKNOWN_MEMBER_ID)?;
        (member.epoch == identity.generation).then_some(member).ok_or(ErrorCode::ILLEGAL_GENERATION)
    }

    /// Returns whether other members hold partitions of this member's target.
    fn waits_for_others(&self, id: &str) -> bool {
        let held = self.held_by_others(id);
        self.target.get(id).is_some_and(|target| pairs(target).any(|partition| held.contains(&partition)))
    }

    /// Returns whether the members of the classic protocol would still have a common assignor if this client joined.
    fn supports(&self, id: &str, request: &join_group::Request) -> bool {
        let others = self.members.iter().filter(|(other, _)| *other != id).filter_map(|(_, m)| m.classic.as_ref());
        let others: Vec<_> = others.collect();
        request.protocol_type == PROTOCOL_TYPE
            && request.protocols.iter().any(|protocol| {
                others.iter().all(|other| other.protocols.iter().any(|(name, _)| *name == protocol.name))
            })
    }
}

/// Returns partitions by topic ID. The result leaves out topics that do not exist.
fn by_id(partitions: Vec<consumer_protocol::TopicPartitions>, topics: &Topics) -> AssignedPartitions {
    let mut assigned = AssignedPartitions::new();
    for consumer_protocol::TopicPartitions { topic, partitions } in partitions {
        if let Some(topic) = topics.get(&topic)
            && !partitions.is_empty()
        {
            assigned.entry(topic.id).or_default().extend(partitions);
        }
    }
    assigned
}
