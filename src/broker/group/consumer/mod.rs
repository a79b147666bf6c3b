//! A consumer group of KIP-848: the coordinator computes a target assignment for each member, and each member moves to
//! its target at its own pace.
//!
//! ```text
//!   join, leave, other topics --> group epoch + 1 --> target assignment of that epoch
//!
//!   a member:  Stable --the target takes something away--> Unrevoked --it let go--.
//!     ^  ^       |                                                               |
//!     |  '-------+--the target adds only---------> Unreleased <------------------'
//!     '----------------------all of it is free--------'
//! ```
//!
//! A partition gets its next owner only after the current owner has released the partition, has left the group or was
//! fenced. A consumer group can also contain members of the classic protocol: see `mixed`. The group stores the racks
//! of members but does not use them.

mod classic;
mod mixed;

use super::Configs;
use super::assignor::{AssignedPartitions, Assignor, MemberSubscription};
use super::client::{CLIENT_HOST, GroupError, MemberIdentity};
use crate::api::ErrorCode;
use crate::api::consumer_group_describe as describe;
use crate::api::consumer_group_heartbeat::{Assignment, JOIN, LEAVE_STATIC, Request, Response, TopicPartitions};
use crate::broker::Time;
use crate::broker::regex::FullMatchRegex;
use crate::broker::topics::Topics;
use crate::wire::Uuid;
use classic::Classic;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::time::Duration;

/// Approximate memory of a member without its metadata, and of a partition that it owns.
const MEMBER_MEMORY: usize = 384;
const PARTITION_MEMORY: usize = 32;

/// Member types of ConsumerGroupDescribe.
const CLASSIC_MEMBER: i8 = 0;
const NATIVE_MEMBER: i8 = 1;

#[derive(Debug)]
pub(in crate::broker) struct Group {
    pub epoch: i32,
    pub assignment_epoch: i32,
    members: BTreeMap<String, Member>,
    static_members: BTreeMap<String, String>,
    target: BTreeMap<String, AssignedPartitions>,
    /// The topics that the members read, with the IDs and partition counts at the last check.
    topics: BTreeMap<String, (Uuid, i32)>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum MemberState {
    #[default]
    Stable,
    /// The member must release partitions first.
    Unrevoked,
    /// Other members must release partitions first.
    Unreleased,
}

#[derive(Debug, Default)]
struct Member {
    instance: Option<String>,
    rack: Option<String>,
    client_id: String,
    rebalance: Duration,
    topics: BTreeSet<String>,
    pattern: Option<FullMatchRegex>,
    assignor: Option<Assignor>,
    epoch: i32,
    previous_epoch: i32,
    state: MemberState,
    assigned: AssignedPartitions,
    revoking: AssignedPartitions,
    deadline: Time,
    /// When the member must have released the partitions that it loses.
    revocation_deadline: Option<Time>,
    /// The additional state of a member that uses the classic protocol.
    classic: Option<Classic>,
}

/// A heartbeat whose fields were validated.
#[derive(Debug)]
pub(in crate::broker) struct Heartbeat<'a> {
    pub now: Time,
    pub configs: Configs,
    pub client_id: &'a str,
    pub member_id: &'a str,
    pub pattern: Option<FullMatchRegex>,
    pub assignor: Option<Assignor>,
    pub request: &'a Request,
}

impl Heartbeat<'_> {
    pub fn memory_size(&self) -> usize {
        let names = self.request.subscribed_topic_names.iter().flatten().map(|name| name.len() + 64);
        let pattern = self.pattern.as_ref().map_or(0, FullMatchRegex::max_memory);
        MEMBER_MEMORY + self.member_id.len() + self.client_id.len() + names.sum::<usize>() + pattern
    }
}

impl Group {
    /// Creates a group, in epoch 1 as in Kafka 4.4.
    pub fn new() -> Self {
        Self {
            epoch: 1,
            assignment_epoch: 1,
            members: BTreeMap::new(),
            static_members: BTreeMap::new(),
            target: BTreeMap::new(),
            topics: BTreeMap::new(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Returns whether a member uses the protocol of KIP-848.
    pub fn has_native(&self, member: &str) -> bool {
        self.members.get(member).is_some_and(|member| member.classic.is_none())
    }

    pub fn state(&self) -> &'static str {
        if self.members.is_empty() {
            "Empty"
        } else if self.epoch > self.assignment_epoch {
            "Assigning"
        } else if self.members.values().all(|member| member.is_settled(self.assignment_epoch)) {
            "Stable"
        } else {
            "Reconciling"
        }
    }

    pub fn is_subscribed(&self, topic: &str) -> bool {
        self.members.values().any(|member| member.reads(topic))
    }

    pub fn memory_size(&self) -> usize {
        let assignment_memory = |assignment: &AssignedPartitions| {
            assignment.values().map(|p| 64 + p.len() * PARTITION_MEMORY).sum::<usize>()
        };
        let members = self.members.iter().map(|(id, m)| {
            let topics: usize = m.topics.iter().map(|name| name.len() + 64).sum();
            let instance = m.instance.as_ref().map_or(0, |instance| 2 * instance.len() + 64);
            let pattern = m.pattern.as_ref().map_or(0, FullMatchRegex::max_memory);
            let rack = m.rack.as_ref().map_or(0, String::len);
            let classic = m.classic.as_ref().map_or(0, Classic::memory_size);
            let names = 3 * id.len() + m.client_id.len() + instance + pattern + rack + topics + classic;
            MEMBER_MEMORY + names + assignment_memory(&m.assigned) + assignment_memory(&m.revoking)
        });
        let topics = self.topics.keys().map(|name| name.len() + 96);
        members.chain(topics).chain(self.target.values().map(assignment_memory)).sum()
    }

    pub fn next_timeout(&self) -> Option<Time> {
        self.members.values().map(Member::next_timeout).min()
    }

    /// Fences members whose session has ended, and members that did not release partitions or join again in time.
    pub fn handle_timeout(&mut self, now: Time) {
        let late = self.members.iter().filter(|(_, member)| member.next_timeout() <= now);
        let late: Vec<_> = late.map(|(id, _)| id.clone()).collect();
        for id in late {
            self.fence(&id);
        }
    }

    /// Continues the group on a new coordinator. The timeouts of all sessions start again.
    pub fn load(&mut self, now: Time, session: Duration) {
        for member in self.members.values_mut() {
            member.deadline = now.saturating_add(member.classic.as_ref().map_or(session, |classic| classic.session));
            let deadline = now.saturating_add(member.rebalance);
            member.revocation_deadline = member.revocation_deadline.map(|_| deadline);
            if let Some(classic) = &mut member.classic {
                classic.rebalance_deadline = classic.rebalance_deadline.map(|_| deadline);
            }
        }
    }

    /// Handles the heartbeat of a member that joins or stays.
    pub fn heartbeat(&mut self, topics: &Topics, heartbeat: Heartbeat<'_>) -> Result<Response, GroupError> {
        let request = heartbeat.request;
        let id = heartbeat.member_id;
        self.check_member(&heartbeat)?;
        let member = self.members.entry(id.to_owned()).or_default();
        let previous_assignment = member.assigned.clone();
        let subscription_changed = member.update(&heartbeat);
        if let Some(instance) = &member.instance {
            self.static_members.insert(instance.clone(), id.to_owned());
        }
        self.update_target(topics, subscription_changed);
        self.reconcile(heartbeat.now, id, request.topic_partitions.as_deref());
        let member = self.members.entry(id.to_owned()).or_default();
        let subscribes = request.subscribed_topic_names.is_some() || request.subscribed_topic_regex.is_some();
        let is_full = request.rebalance_timeout_ms != -1 && subscribes && request.topic_partitions.is_some();
        let assignment = || Assignment { topic_partitions: member.assigned.iter().map(topic_partitions).collect() };
        Ok(Response {
            member_id: Some(id.to_owned()),
            member_epoch: member.epoch,
            heartbeat_interval_ms: heartbeat.configs.consumer_heartbeat_ms,
            assignment: (request.member_epoch == JOIN || is_full || member.assigned != previous_assignment)
                .then(assignment),
            ..Response::default()
        })
    }

    /// Handles the heartbeat of a member that leaves. A static member may announce that it will return.
    pub fn leave(&mut self, request: &Request) -> Result<Response, GroupError> {
        let id = request.member_id.as_str();
        self.check_instance(id, request.instance_id.as_deref())?;
        let member = self.members.get_mut(id).ok_or_else(|| unknown(id, &request.group_id))?;
        if request.member_epoch == LEAVE_STATIC {
            member.epoch = LEAVE_STATIC;
            member.revoking.clear();
            member.revocation_deadline = None;
        } else {
            self.fence(id);
        }
        Ok(Response { member_id: Some(id.to_owned()), member_epoch: request.member_epoch, ..Response::default() })
    }

    /// Checks whether a client may commit offsets for the group.
    pub fn admit_commit(&self, identity: MemberIdentity<'_>) -> Result<(), ErrorCode> {
        if identity.generation < 0 && self.is_empty() {
            return Ok(());
        }
        self.admit(identity.member_id, identity.generation)
    }

    /// Returns whether a member is in this epoch.
    pub fn admit(&self, member: &str, epoch: i32) -> Result<(), ErrorCode> {
        let member = self.members.get(member).ok_or(ErrorCode::UNKNOWN_MEMBER_ID)?;
        let is_classic = member.classic.is_some();
        let code = if is_classic { ErrorCode::ILLEGAL_GENERATION } else { ErrorCode::STALE_MEMBER_EPOCH };
        (member.epoch == epoch).then_some(()).ok_or(code)
    }

    /// Returns the assignor that most members request.
    pub fn assignor(&self) -> Assignor {
        let mut votes = BTreeMap::<Assignor, usize>::new();
        for assignor in self.members.values().filter_map(|member| member.assignor) {
            *votes.entry(assignor).or_default() += 1;
        }
        votes.into_iter().rev().max_by_key(|(_, count)| *count).map_or(Assignor::Uniform, |(assignor, _)| assignor)
    }

    /// Returns the members for ConsumerGroupDescribe.
    pub fn describe(&self, topics: &Topics) -> Vec<describe::Member> {
        let list = |assignment: &AssignedPartitions| describe::Assignment {
            topic_partitions: assignment
                .iter()
                .filter_map(|(topic_id, partitions)| {
                    let topic_name = topics.name_of(*topic_id)?.to_owned();
                    let partitions = partitions.iter().copied().collect();
                    Some(describe::TopicPartitions { topic_id: *topic_id, topic_name, partitions })
                })
                .collect(),
        };
        let member = |(id, member): (&String, &Member)| describe::Member {
            member_id: id.clone(),
            instance_id: member.instance.clone(),
            rack_id: member.rack.clone(),
            member_epoch: member.epoch,
            client_id: member.client_id.clone(),
            client_host: CLIENT_HOST.to_owned(),
            subscribed_topic_names: member.topics.iter().cloned().collect(),
            subscribed_topic_regex: Some(member.pattern.as_ref().map_or_else(String::new, |p| p.text().to_owned())),
            assignment: list(&member.assigned),
            target_assignment: self.target.get(id).map(list).unwrap_or_default(),
            member_type: if member.classic.is_some() { CLASSIC_MEMBER } else { NATIVE_MEMBER },
        };
        self.members.iter().map(member).collect()
    }

    /// Checks whether a member may join or stay. A static member that returns replaces its earlier incarnation.
    fn check_member(&mut self, heartbeat: &Heartbeat<'_>) -> Result<(), GroupError> {
        let (id, epoch) = (heartbeat.member_id, heartbeat.request.member_epoch);
        let instance = heartbeat.request.instance_id.as_deref();
        if epoch != JOIN {
            self.check_instance(id, instance)?;
        } else if let Some(old) = instance.and_then(|instance| self.static_members.get(instance)).cloned() {
            return self.replace(&old, id);
        }
        match self.members.get(id) {
            Some(member) => member.check_epoch(epoch, heartbeat.request.topic_partitions.as_deref()),
            None if epoch == JOIN => Ok(()),
            None => Err(unknown(id, &heartbeat.request.group_id)),
        }
    }

    /// Replaces a static member. Only a member of the classic protocol may be replaced before it has left.
    fn replace(&mut self, old: &str, id: &str) -> Result<(), GroupError> {
        if let Some(member) = self.members.get(old)
            && member.classic.is_none()
            && member.epoch != LEAVE_STATIC
        {
            let why = format!(
                "Static member {id} with instance id {} cannot join the group because the instance id is owned by \
                 {old} member.",
                member.instance.as_deref().unwrap_or_default()
            );
            return Err((ErrorCode::UNRELEASED_INSTANCE_ID, why));
        }
        self.take_over(old, id);
        Ok(())
    }

    /// Gives a static member that returned under another ID the state of its earlier incarnation.
    fn take_over(&mut self, old: &str, id: &str) {
        let Some(mut member) = self.members.remove(old) else { return };
        self.static_members.extend(member.instance.clone().map(|instance| (instance, id.to_owned())));
        (member.epoch, member.previous_epoch) = (0, 0);
        self.members.insert(id.to_owned(), member);
        if let Some(assignment) = self.target.remove(old) {
            self.target.insert(id.to_owned(), assignment);
        }
    }

    fn check_instance(&self, id: &str, instance: Option<&str>) -> Result<(), GroupError> {
        let Some(instance) = instance else { return Ok(()) };
        match self.static_members.get(instance) {
            None => Err((ErrorCode::UNKNOWN_MEMBER_ID, format!("Instance id {instance} is unknown."))),
            Some(holder) if holder != id => {
                let why = format!("Static member {id} with instance id {instance} was fenced by member {holder}.");
                Err((ErrorCode::FENCED_INSTANCE_ID, why))
            }
            Some(_) => Ok(()),
        }
    }

    /// Removes a member. The other members get new assignments with their next heartbeats.
    fn fence(&mut self, id: &str) {
        if let Some(instance) = self.members.remove(id).and_then(|member| member.instance) {
            self.static_members.remove(&instance);
        }
        self.target.remove(id);
        self.epoch = self.epoch.saturating_add(1);
    }

    /// Returns the topics that the members read and that exist.
    fn subscribed_topics(&self, topics: &Topics) -> BTreeMap<String, (Uuid, i32)> {
        let names = self.members.values().flat_map(|member| member.topics.iter().map(String::as_str));
        let mut names: BTreeSet<_> = names.collect();
        for pattern in self.members.values().filter_map(|member| member.pattern.as_ref()) {
            names.extend(topics.names().filter(|name| pattern.matches(name)));
        }
        let existing = names.into_iter().filter_map(|name| {
            let topic = topics.get(name)?;
            Some((name.to_owned(), (topic.id, i32::try_from(topic.partitions.len()).ok()?)))
        });
        existing.collect()
    }

    /// Begins an epoch if members read other topics than before, or if topics changed.
    fn update_target(&mut self, topics: &Topics, subscription_changed: bool) {
        let subscribed = self.subscribed_topics(topics);
        if subscription_changed || subscribed != self.topics {
            self.topics = subscribed;
            self.epoch = self.epoch.saturating_add(1);
        }
        if self.epoch > self.assignment_epoch {
            self.assign();
        }
    }

    /// Computes the target assignment of this epoch.
    fn assign(&mut self) {
        let mut members = BTreeMap::new();
        for (id, member) in &self.members {
            let topics = self.topics.iter().filter(|(name, _)| member.reads(name)).map(|(_, (topic, _))| *topic);
            let previous = self.target.remove(id).unwrap_or_default();
            members.insert(
                id.clone(),
                MemberSubscription { instance: member.instance.clone(), topics: topics.collect(), previous },
            );
        }
        self.target = self.assignor().assign(members, &self.topics.values().copied().collect());
        self.assignment_epoch = self.epoch;
    }

    /// Returns the partitions that other members own or still have to release.
    fn held_by_others(&self, id: &str) -> HashSet<(Uuid, i32)> {
        let others = self.members.iter().filter(|(other, _)| *other != id).map(|(_, member)| member);
        others.flat_map(|m| pairs(&m.assigned).chain(pairs(&m.revoking))).collect()
    }

    /// Moves a member towards its target assignment as far as other members allow. `owned` is the assignment that the
    /// member reports, if any.
    fn reconcile(&mut self, now: Time, id: &str, owned: Option<&[TopicPartitions]>) {
        let (epoch, empty) = (self.assignment_epoch, AssignedPartitions::new());
        let target = self.target.get(id).unwrap_or(&empty);
        let held = match self.members.get(id) {
            Some(member) if member.is_settled(epoch) => return,
            _ => self.held_by_others(id),
        };
        let Some(member) = self.members.get_mut(id) else {
            return;
        };
        let owns = |assignment: &AssignedPartitions| match owned {
            None => true,
            Some(owned) => owned.iter().any(|topic| {
                let assigned = assignment.get(&topic.topic_id);
                assigned.is_some_and(|assigned| topic.partitions.iter().any(|p| assigned.contains(p)))
            }),
        };
        let mut reached = member.epoch;
        if member.state == MemberState::Unrevoked {
            if owns(&member.revoking) {
                return;
            }
            reached = reached.saturating_add(1);
        }
        let kept = overlap(&member.assigned, target);
        let revoking = without(&member.assigned, &kept);
        if !revoking.is_empty() && owns(&revoking) {
            (member.assigned, member.revoking) = (kept, revoking);
            member.move_to(reached, MemberState::Unrevoked);
            member.revocation_deadline = Some(now.saturating_add(member.rebalance));
            return;
        }
        let mut added = without(target, &kept);
        let count = |assignment: &AssignedPartitions| assignment.values().map(BTreeSet::len).sum::<usize>();
        let missing = count(&added);
        for (topic, partitions) in &mut added {
            partitions.retain(|partition| !held.contains(&(*topic, *partition)));
        }
        let state = if count(&added) < missing { MemberState::Unreleased } else { MemberState::Stable };
        member.assigned = kept;
        for (topic, partitions) in added.into_iter().filter(|(_, partitions)| !partitions.is_empty()) {
            member.assigned.entry(topic).or_default().extend(partitions);
        }
        member.revoking = AssignedPartitions::new();
        member.revocation_deadline = None;
        member.move_to(epoch, state);
    }
}

impl Member {
    fn reads(&self, topic: &str) -> bool {
        self.topics.contains(topic) || self.pattern.as_ref().is_some_and(|pattern| pattern.matches(topic))
    }

    fn next_timeout(&self) -> Time {
        let rebalance_deadline = self.classic.as_ref().and_then(|classic| classic.rebalance_deadline);
        [self.revocation_deadline, rebalance_deadline].into_iter().flatten().fold(self.deadline, Time::min)
    }

    fn is_settled(&self, epoch: i32) -> bool {
        self.state == MemberState::Stable && self.epoch == epoch
    }

    /// Applies the metadata of a heartbeat. Returns whether the member reads other topics than before.
    fn update(&mut self, heartbeat: &Heartbeat<'_>) -> bool {
        let request = heartbeat.request;
        self.deadline = heartbeat.now.saturating_add(heartbeat.configs.consumer_session());
        self.classic = None;
        self.client_id = heartbeat.client_id.to_owned();
        self.assignor = heartbeat.assignor.or(self.assignor);
        for (current, received) in [(&mut self.instance, &request.instance_id), (&mut self.rack, &request.rack_id)] {
            if received.is_some() {
                current.clone_from(received);
            }
        }
        if let Ok(ms) = u64::try_from(request.rebalance_timeout_ms) {
            self.rebalance = Duration::from_millis(ms);
        }
        let mut subscription_changed = false;
        if let Some(names) = &request.subscribed_topic_names {
            let names = names.iter().cloned().collect();
            subscription_changed = self.topics != names;
            self.topics = names;
        }
        if request.subscribed_topic_regex.is_some() {
            subscription_changed |= self.pattern != heartbeat.pattern;
            self.pattern.clone_from(&heartbeat.pattern);
        }
        subscription_changed
    }

    fn check_epoch(&self, received_epoch: i32, owned: Option<&[TopicPartitions]>) -> Result<(), GroupError> {
        let has = |topic: &TopicPartitions| {
            let assigned = self.assigned.get(&topic.topic_id);
            topic.partitions.iter().all(|p| assigned.is_some_and(|assigned| assigned.contains(p)))
        };
        // The response that raised the member's epoch may have been lost.
        let repeats = received_epoch == self.previous_epoch && owned.is_some_and(|owned| owned.iter().all(has));
        if received_epoch == self.epoch || received_epoch == JOIN || received_epoch < self.epoch && repeats {
            return Ok(());
        }
        let comparison = if received_epoch > self.epoch { "greater" } else { "smaller" };
        let why = format!(
            "The consumer group member has a {comparison} member epoch ({received_epoch}) than the one known by the group coordinator \
             ({}). The member must abandon all its partitions and rejoin.",
            self.epoch
        );
        Err((ErrorCode::FENCED_MEMBER_EPOCH, why))
    }

    fn move_to(&mut self, epoch: i32, state: MemberState) {
        if epoch != self.epoch {
            self.previous_epoch = self.epoch;
        }
        (self.epoch, self.state) = (epoch, state);
    }
}

fn unknown(id: &str, group: &str) -> GroupError {
    (ErrorCode::UNKNOWN_MEMBER_ID, format!("Member {id} is not a member of group {group}."))
}

fn topic_partitions((topic_id, partitions): (&Uuid, &BTreeSet<i32>)) -> TopicPartitions {
    TopicPartitions { topic_id: *topic_id, partitions: partitions.iter().copied().collect() }
}

fn pairs(assignment: &AssignedPartitions) -> impl Iterator<Item = (Uuid, i32)> {
    assignment.iter().flat_map(|(topic, partitions)| partitions.iter().map(|p| (*topic, *p)))
}

fn overlap(a: &AssignedPartitions, b: &AssignedPartitions) -> AssignedPartitions {
    filtered(a, |topic, partition| b.get(topic).is_some_and(|partitions| partitions.contains(partition)))
}

fn without(a: &AssignedPartitions, b: &AssignedPartitions) -> AssignedPartitions {
    filtered(a, |topic, partition| b.get(topic).is_none_or(|partitions| !partitions.contains(partition)))
}

/// Returns the partitions that pass the filter. The result has no topics without partitions.
fn filtered(assignment: &AssignedPartitions, pass: impl Fn(&Uuid, &i32) -> bool) -> AssignedPartitions {
    let topics = assignment.iter().map(|(topic, partitions)| {
        let partitions: BTreeSet<_> = partitions.iter().copied().filter(|p| pass(topic, p)).collect();
        (*topic, partitions)
    });
    topics.filter(|(_, partitions)| !partitions.is_empty()).collect()
}
