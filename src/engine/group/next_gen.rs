//! The consumer group protocol (KIP-848), as a member follows it: the coordinator assigns, and answers each heartbeat
//! with what the member should have, if that changed. The member gives up what it should not have, then takes what
//! is new, then says what it owns; the coordinator gives a partition to nobody else before.
//!
//! ```text
//! Out → Joining (epoch 0) → Member (epoch > 0)
//!          ↑ fenced, unknown, or the reader was away     ↓ Leaving (epoch -1 or -2) → Out
//! ```

use super::coordinator_client::{CoordinatorClient, LEAVE_WITHIN};
use super::{Changes, GroupConfig, GroupToken, Protocol, Step, Subscription};
use crate::api::consumer_group_heartbeat::{self as api, JOIN, LEAVE, LEAVE_STATIC};
use crate::api::{ErrorCode, Info};
use crate::engine::{
    Call, ClientResponse, Cluster, Error, MetadataDemand, Outgoing, Reply, Target, Time, TopicPartition, earliest,
};
use crate::random::Random;
use crate::wire::{Uuid, Wire, Writer};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// Between heartbeats until the coordinator says.
const FIRST_INTERVAL: Duration = Duration::from_secs(5);
/// Why a group that is there may be "not found".
const OTHER_PROTOCOL: &str = "the group has members with group.protocol=classic, and its brokers do not let both kinds be in \
    one group: stop those first, or set group.consumer.migration.policy=bidirectional on the brokers (Kafka 4.0 and newer)";

/// A heartbeat. Version 0, of which only previews were served, has the coordinator name members.
struct Beat(api::Request);

impl Call for Beat {
    fn api(&self) -> &'static Info {
        &api::API
    }
    fn put(&self, w: &mut Writer) {
        Wire::put(&self.0, w);
    }
    fn min_version(&self) -> i16 {
        1
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Out,
    Joining,
    Member,
    Leaving { deadline: Time },
}

/// What the coordinator knows of the member; what is the same is not said again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Said {
    subscription: Option<Subscription>,
    owned: Option<BTreeSet<TopicPartition>>,
}

/// The member.
pub(super) struct NextGen {
    config: Arc<GroupConfig>,
    state: State,
    subscription: Subscription,
    pub(super) coordinator: CoordinatorClient,
    member: String,
    epoch: i32,
    said: Said,
    saying: Said,
    /// What the coordinator wants the member to own, by topic id.
    target: Option<BTreeMap<Uuid, Vec<i32>>>,
    /// When to ask again for topics of which only the id is known.
    ask_ids_at: Time,
    changes: Changes,
    interval: Duration,
    heartbeat_at: Time,
    beating: bool,
    /// Whether the coordinator may know of the member, who need not have heard yet that it joined.
    may_be_known: bool,
    /// Whether the coordinator took it in once.
    pub(super) was_member: bool,
    /// Since when another member has this one's instance id.
    unreleased_since: Option<Time>,
    error: Option<Error>,
    /// What the coordinator has against what is read, which does not end the membership.
    complaint: Option<Error>,
}

impl NextGen {
    pub fn new(config: Arc<GroupConfig>) -> Self {
        Self {
            coordinator: config.coordinator_client(),
            member: member_id(config.seed),
            config,
            state: State::Out,
            subscription: Subscription::default(),
            epoch: JOIN,
            said: Said::default(),
            saying: Said::default(),
            target: None,
            ask_ids_at: Time(0),
            changes: Changes::default(),
            interval: FIRST_INTERVAL,
            heartbeat_at: Time(0),
            beating: false,
            may_be_known: false,
            was_member: false,
            unreleased_since: None,
            error: None,
            complaint: None,
        }
    }

    pub fn subscribe(&mut self, now: Time, subscription: Subscription) {
        self.subscription = subscription;
        match self.state {
            State::Out | State::Leaving { .. } => self.start_over(now),
            _ => {}
        }
    }

    /// Joins anew after having been out.
    pub fn rejoin(&mut self, now: Time) {
        if self.state == State::Out && self.error.is_none() {
            self.start_over(now);
        }
    }

    fn start_over(&mut self, now: Time) {
        self.next_round();
        self.may_be_known = false;
        self.epoch = JOIN;
        self.target = None;
        self.state = State::Joining;
        self.heartbeat_at = now;
        self.coordinator.retry_at = now;
    }

    /// The reader takes too long; its partitions should go to others.
    pub fn expire(&mut self, now: Time) {
        if !self.has_left() {
            self.changes.lose_all();
            self.leave(now, "");
        }
    }

    pub fn leave(&mut self, now: Time, _reason: &str) {
        let tells = self.state != State::Out && self.may_be_known;
        self.next_round();
        self.coordinator.forget_trouble();
        self.target = None;
        self.state = if tells { State::Leaving { deadline: now + LEAVE_WITHIN } } else { State::Out };
    }

    pub fn has_left(&self) -> bool {
        self.state == State::Out
    }

    pub fn identity(&self) -> (i32, &str) {
        if matches!(self.state, State::Member) { (self.epoch, &self.member) } else { (-1, &self.member) }
    }

    pub fn coordinator(&self) -> Option<i32> {
        self.coordinator.node()
    }

    pub fn changes(&self) -> &Changes {
        &self.changes
    }

    pub fn changes_mut(&mut self) -> &mut Changes {
        &mut self.changes
    }

    pub fn take_error(&mut self) -> Option<Error> {
        self.error.take()
    }

    pub fn take_complaint(&mut self) -> Option<Error> {
        self.complaint.take()
    }

    /// What was asked before this does not count any more, and everything has to be said again.
    fn next_round(&mut self) {
        self.coordinator.next_round();
        self.beating = false;
        self.said = Said::default();
    }

    fn fail(&mut self, error: Error) {
        self.changes.lose_all();
        self.next_round();
        self.coordinator.forget_trouble();
        self.target = None;
        self.state = State::Out;
        self.error = Some(error);
    }

    pub fn poll_send(&mut self, now: Time) -> Option<Outgoing<GroupToken>> {
        self.coordinator.poll_send().or_else(|| {
            self.step(now);
            self.coordinator.poll_send()
        })
    }

    pub fn poll_demand(&mut self) -> Option<MetadataDemand> {
        self.coordinator.poll_demand()
    }

    fn step(&mut self, now: Time) {
        if let State::Leaving { deadline } = self.state
            && deadline <= now
        {
            self.state = State::Out;
        }
        if self.state == State::Out {
            return;
        }
        self.reconcile(now);
        if self.coordinator.retry_at > now || self.beating {
            return;
        }
        let Some(node) = self.coordinator.reach(now) else { return };
        match self.state {
            State::Leaving { deadline } => {
                let epoch = if self.config.instance.is_some() { LEAVE_STATIC } else { LEAVE };
                let request = self.request(epoch);
                self.beating = true;
                self.coordinator.send_leave(now, deadline, Target::Group(node), Beat(request));
            }
            // What was lost is told to the reader before the member is anew.
            State::Joining if !self.changes.is_settled() => {}
            _ if self.heartbeat_at <= now || self.has_news() => {
                let mut request = self.request(self.epoch);
                self.say(&mut request);
                self.beating = true;
                self.may_be_known = true;
                self.heartbeat_at = now + self.interval;
                self.coordinator.send(
                    now,
                    now + self.config.request_timeout,
                    Target::Group(node),
                    Beat(request),
                    Step::Heartbeat,
                );
            }
            _ => {}
        }
    }

    /// Whether the coordinator should hear something before the next heartbeat is due.
    fn has_news(&self) -> bool {
        let subscription = self.said.subscription.as_ref().is_some_and(|s| *s != self.subscription);
        let owned = self.said.owned.as_ref().is_some_and(|o| *o != self.changes.claimed());
        subscription || (owned && self.changes.is_settled())
    }

    fn request(&self, epoch: i32) -> api::Request {
        api::Request {
            group_id: self.config.group.clone(),
            member_id: self.member.clone(),
            member_epoch: epoch,
            instance_id: self.config.instance.clone(),
            ..Default::default()
        }
    }

    /// Puts in what the coordinator does not know yet.
    fn say(&mut self, request: &mut api::Request) {
        self.saying = self.said.clone();
        if self.said.subscription.as_ref() != Some(&self.subscription) {
            let topics = self.subscription.topics.iter().map(ToString::to_string).collect();
            request.subscribed_topic_names = Some(topics);
            let before = self.said.subscription.as_ref().and_then(|s| s.pattern.as_ref());
            // An empty pattern takes back the one before.
            request.subscribed_topic_regex = self.subscription.pattern.clone().or(before.map(|_| String::new()));
            self.saying.subscription = Some(self.subscription.clone());
        }
        if self.said.owned.is_none() {
            let ms = i32::try_from(self.config.max_poll_interval.as_millis()).unwrap_or(i32::MAX);
            request.rebalance_timeout_ms = ms;
            request.rack_id = Some(self.config.rack.clone()).filter(|r| !r.is_empty());
            if let Protocol::Consumer(assignor) = &self.config.protocol {
                request.server_assignor.clone_from(assignor);
            }
        }
        let claimed = self.changes.claimed();
        let is_first = self.said.owned.is_none();
        if is_first || (self.changes.is_settled() && self.said.owned.as_ref() != Some(&claimed)) {
            let mut topics: BTreeMap<Uuid, Vec<i32>> = BTreeMap::new();
            for TopicPartition { topic, partition } in &claimed {
                if let Some(known) = self.coordinator.cluster.topics.get(topic) {
                    topics.entry(known.id).or_default().push(*partition);
                }
            }
            let owned = |(topic_id, partitions)| api::TopicPartitions { topic_id, partitions };
            request.topic_partitions = Some(topics.into_iter().map(owned).collect());
            self.saying.owned = Some(claimed);
        }
    }

    /// Goes over to what the coordinator wants, once the names of all topics are known.
    fn reconcile(&mut self, now: Time) {
        let (Some(target), true) = (&self.target, !self.changes.taken && self.state == State::Member) else {
            return;
        };
        let names: BTreeMap<Uuid, &Arc<str>> =
            self.coordinator.cluster.topics.iter().map(|(name, t)| (t.id, name)).collect();
        let mut wanted = BTreeSet::new();
        let mut unknown = Vec::new();
        for (id, partitions) in target {
            match names.get(id) {
                Some(name) => wanted.extend(partitions.iter().map(|p| TopicPartition::new((*name).clone(), *p))),
                None => unknown.push(*id),
            }
        }
        if unknown.is_empty() {
            self.target = None;
        } else if self.ask_ids_at <= now {
            // A topic that is gone stays unknown until the coordinator takes it back.
            self.ask_ids_at = now + self.config.retry_backoff.1;
            self.coordinator.demand.ids.extend(unknown);
        }
        self.changes.follow(&wanted);
    }

    pub fn next_timeout(&self) -> Option<Time> {
        match self.state {
            State::Out => None,
            State::Leaving { deadline } if self.beating || self.coordinator.is_finding() => Some(deadline),
            State::Leaving { deadline } => Some(deadline.min(self.coordinator.retry_at)),
            _ if self.beating || self.coordinator.is_finding() => None,
            State::Joining if !self.changes.is_settled() => None,
            _ => earliest(Some(self.heartbeat_at.max(self.coordinator.retry_at)), None),
        }
    }

    pub fn handle_cluster(&mut self, cluster: &Arc<Cluster>) {
        self.coordinator.cluster = cluster.clone();
    }

    pub fn handle_response(&mut self, now: Time, answer: ClientResponse<GroupToken>) {
        let step = answer.token.step;
        if !self.coordinator.is_current(answer.token) {
            return;
        }
        self.beating &= step == Step::Find;
        if step == Step::Leave {
            if !self.coordinator.leaves_again(now, answer.result, |r: &api::Response| r.error_code) {
                self.next_round();
                self.state = State::Out;
            }
            return;
        }
        let result = answer.result.and_then(|reply| match step {
            Step::Find => self.coordinator.found(now, reply),
            _ => self.take_beat(now, reply),
        });
        if let Err(error) = result {
            self.note_failure(now, self.coordinator.failing_since(now, &error), &error);
            self.refused(now, error);
        }
    }

    /// Takes in that no broker can be reached.
    pub fn handle_unreachable(&mut self, now: Time, error: &Error) {
        self.note_failure(now, now, error);
    }

    /// Notes why the member does not get in, if it wants to.
    fn note_failure(&mut self, now: Time, since: Time, error: &Error) {
        if self.state == State::Joining {
            self.coordinator.failed_to_join(now, since, error);
        }
    }

    fn refused(&mut self, now: Time, error: Error) {
        match error.code() {
            Some(ErrorCode::UNKNOWN_MEMBER_ID | ErrorCode::FENCED_MEMBER_EPOCH) => self.lose_membership(now),
            // While this member was away, the group went over to the classic protocol, or nothing is left of it.
            Some(ErrorCode::GROUP_ID_NOT_FOUND) if self.epoch != JOIN => self.lose_membership(now),
            Some(ErrorCode::COORDINATOR_LOAD_IN_PROGRESS) => self.try_later(now),
            // The member goes on as soon as it may read the topic, as Java's does (KAFKA-18813).
            Some(ErrorCode::TOPIC_AUTHORIZATION_FAILED) => {
                self.try_later(now);
                self.complaint = Some(error);
            }
            // A static member that died is there until its session ends.
            Some(ErrorCode::UNRELEASED_INSTANCE_ID)
                if now.since(*self.unreleased_since.get_or_insert(now)) < self.config.session_timeout =>
            {
                self.try_later(now);
            }
            _ if error.is_retriable() => {
                self.coordinator.lose(now);
                self.said = Said::default();
                self.heartbeat_at = self.coordinator.retry_at;
            }
            _ => self.fail(error),
        }
    }

    /// The group went on without this member, which joins anew.
    fn lose_membership(&mut self, now: Time) {
        self.changes.lose_all();
        self.start_over(now);
        self.coordinator.ask_again(now);
        self.heartbeat_at = self.coordinator.retry_at;
    }

    fn try_later(&mut self, now: Time) {
        self.coordinator.try_later(now);
        self.heartbeat_at = self.coordinator.retry_at;
    }

    fn take_beat(&mut self, now: Time, reply: Reply) -> Result<(), Error> {
        let response: api::Response = self.coordinator.read(reply)?;
        if let Err(code) = response.error_code.check() {
            let why = response.error_message.map_or_else(String::new, |m| format!(" ({m})"));
            let error = Error::refused(code, format!("heartbeat in group {:?}{why}", self.config.group));
            return Err(match code {
                // The first heartbeat makes a group that is not there.
                ErrorCode::GROUP_ID_NOT_FOUND => error.with_hint(OTHER_PROTOCOL),
                _ => error,
            });
        }
        self.coordinator.succeeded();
        self.coordinator.forget_trouble();
        self.was_member = true;
        self.unreleased_since = None;
        self.said = std::mem::take(&mut self.saying);
        self.interval = Duration::from_millis(u64::try_from(response.heartbeat_interval_ms).unwrap_or(0).max(1));
        self.heartbeat_at = now + self.interval;
        self.state = State::Member;
        self.epoch = response.member_epoch;
        if let Some(id) = response.member_id.filter(|id| !id.is_empty()) {
            self.member = id;
        }
        if let Some(assignment) = response.assignment {
            let target = assignment.topic_partitions.into_iter().map(|t| (t.topic_id, t.partitions));
            self.target = Some(target.collect());
            self.ask_ids_at = now;
            self.reconcile(now);
        }
        Ok(())
    }
}

/// A member chooses its own id (KIP-1082): 128 bits out of the seed.
pub(super) fn member_id(seed: u64) -> String {
    Uuid(Random::new(seed).next_bytes()).to_string()
}
