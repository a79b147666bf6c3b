//! The share group protocol (KIP-932), as a member follows it: the coordinator says in answers to heartbeats which
//! partitions the member reads. Others may read the same, so nobody waits for anybody, and what is taken away needs no word.

use super::coordinator_client::{CoordinatorClient, LEAVE_WITHIN};
use super::next_gen::member_id;
use super::{GroupToken, Step};
use crate::api::share_group_heartbeat::{self as api, JOIN, LEAVE};
use crate::api::{ErrorCode, Info};
use crate::engine::{Call, ClientResponse, Cluster, Error, MetadataDemand, Outgoing, Reply, Target, Time};
use crate::wire::{Uuid, Wire, Writer};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// Between heartbeats until the coordinator says.
const FIRST_INTERVAL: Duration = Duration::from_secs(5);

/// What a member of a share group needs to know.
#[derive(Clone, Debug)]
pub struct ShareMemberConfig {
    /// The group.
    pub group: String,
    /// Where the member stands.
    pub rack: String,
    /// How long a broker may take to answer.
    pub request_timeout: Duration,
    /// How long joining may fail before the reader hears of it.
    pub api_timeout: Duration,
    /// The first and the longest wait before trying again.
    pub retry_backoff: (Duration, Duration),
    /// Makes members different.
    pub seed: u64,
}

/// A heartbeat. Version 0 was an early access that no release serves by itself.
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

/// The member.
pub struct ShareMember {
    config: ShareMemberConfig,
    state: State,
    coordinator: CoordinatorClient,
    member: String,
    epoch: i32,
    topics: BTreeSet<Arc<str>>,
    /// The topics the coordinator knows of, and those it is being told.
    told: Option<BTreeSet<Arc<str>>>,
    telling: Option<BTreeSet<Arc<str>>>,
    assigned: BTreeMap<Uuid, Vec<i32>>,
    /// When to ask again for topics of which only the id is known.
    ask_ids_at: Time,
    interval: Duration,
    heartbeat_at: Time,
    beating: bool,
    /// Whether the coordinator may know of the member, who need not have heard yet that it joined.
    may_be_known: bool,
    error: Option<Error>,
    /// What the coordinator has against what is read, which does not end the membership.
    complaint: Option<Error>,
}

impl ShareMember {
    /// One that is no member yet.
    pub fn new(config: ShareMemberConfig) -> Self {
        let (group, seed) = (config.group.clone(), config.seed);
        Self {
            coordinator: CoordinatorClient::new(
                group,
                (config.request_timeout, config.api_timeout),
                config.retry_backoff,
                seed,
            ),
            member: member_id(seed),
            config,
            state: State::Out,
            epoch: JOIN,
            topics: BTreeSet::new(),
            told: None,
            telling: None,
            assigned: BTreeMap::new(),
            ask_ids_at: Time(0),
            interval: FIRST_INTERVAL,
            heartbeat_at: Time(0),
            beating: false,
            may_be_known: false,
            error: None,
            complaint: None,
        }
    }

    /// The group's name.
    pub fn group(&self) -> &str {
        &self.config.group
    }

    /// The member's name, which it has from the start.
    pub fn id(&self) -> &str {
        &self.member
    }

    /// Enters the group, or changes what is read.
    pub fn subscribe(&mut self, now: Time, topics: BTreeSet<Arc<str>>) {
        self.coordinator.demand.topics.extend(topics.iter().cloned());
        self.coordinator.demand.lets_go = true;
        self.topics = topics;
        self.error = None;
        if matches!(self.state, State::Out | State::Leaving { .. }) {
            self.start_over(now);
        }
    }

    /// What is read.
    pub fn subscription(&self) -> &BTreeSet<Arc<str>> {
        &self.topics
    }

    /// Leaves the group.
    pub fn leave(&mut self, now: Time) {
        let tells = self.state != State::Out && self.may_be_known;
        self.next_round();
        self.coordinator.forget_trouble();
        self.coordinator.demand.lets_go = true;
        self.topics.clear();
        self.assigned.clear();
        self.state = if tells { State::Leaving { deadline: now + LEAVE_WITHIN } } else { State::Out };
    }

    /// Whether there is nothing left to say to the coordinator.
    pub fn has_left(&self) -> bool {
        self.state == State::Out
    }

    /// Why the consumer cannot be a member, once.
    pub fn take_error(&mut self) -> Option<Error> {
        self.error.take()
    }

    /// Whether [`ShareMember::take_trouble`] gives something.
    pub fn has_trouble(&self) -> bool {
        self.coordinator.has_trouble()
    }

    /// What the reader should hear of joining that fails and is tried again, once.
    pub fn take_trouble(&mut self) -> Option<Error> {
        self.coordinator.take_trouble()
    }

    /// What the coordinator has against what is read, once; the member stays one.
    pub fn take_complaint(&mut self) -> Option<Error> {
        self.complaint.take()
    }

    /// The partitions to read, as far as the names of their topics are known.
    pub fn assigned(&self) -> impl Iterator<Item = (&Arc<str>, Uuid, i32)> {
        let topics = self.coordinator.cluster.topics.iter();
        let found = topics.filter_map(|(name, topic)| self.assigned.get(&topic.id).map(|all| (name, topic.id, all)));
        found.flat_map(|(name, id, partitions)| partitions.iter().map(move |p| (name, id, *p)))
    }

    fn start_over(&mut self, now: Time) {
        self.next_round();
        self.may_be_known = false;
        self.epoch = JOIN;
        self.assigned.clear();
        self.state = State::Joining;
        self.heartbeat_at = now;
        self.coordinator.retry_at = now;
    }

    /// What was asked before this does not count any more, and everything has to be said again.
    fn next_round(&mut self) {
        self.coordinator.next_round();
        self.beating = false;
        self.told = None;
    }

    /// The next request.
    pub fn poll_send(&mut self, now: Time) -> Option<Outgoing<GroupToken>> {
        self.coordinator.poll_send().or_else(|| {
            self.step(now);
            self.coordinator.poll_send()
        })
    }

    /// What has to be known of the cluster.
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
        self.ask_names(now);
        if self.coordinator.retry_at > now || self.beating {
            return;
        }
        let Some(node) = self.coordinator.reach(now) else { return };
        let mut request = api::Request {
            group_id: self.config.group.clone(),
            member_id: self.member.clone(),
            member_epoch: self.epoch,
            ..Default::default()
        };
        if let State::Leaving { deadline } = self.state {
            request.member_epoch = LEAVE;
            self.beating = true;
            self.coordinator.send_leave(now, deadline, Target::Group(node), Beat(request));
            return;
        }
        let has_news = self.told.as_ref() != Some(&self.topics);
        if self.heartbeat_at > now && !has_news {
            return;
        }
        if self.told.is_none() {
            request.rack_id = Some(self.config.rack.clone()).filter(|r| !r.is_empty());
        }
        if has_news {
            request.subscribed_topic_names = Some(self.topics.iter().map(ToString::to_string).collect());
        }
        self.telling = Some(self.topics.clone());
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

    /// Asks for the names of topics of which only the id is known.
    fn ask_names(&mut self, now: Time) {
        if self.ask_ids_at > now || self.assigned.is_empty() {
            return;
        }
        let known: BTreeSet<Uuid> = self.coordinator.cluster.topics.values().map(|t| t.id).collect();
        let unknown: Vec<Uuid> = self.assigned.keys().filter(|id| !known.contains(id)).copied().collect();
        if !unknown.is_empty() {
            self.ask_ids_at = now + self.config.retry_backoff.1;
            self.coordinator.demand.ids.extend(unknown);
        }
    }

    /// When there is something to do.
    pub fn next_timeout(&self) -> Option<Time> {
        match self.state {
            State::Out => None,
            State::Leaving { deadline } if self.beating || self.coordinator.is_finding() => Some(deadline),
            State::Leaving { deadline } => Some(deadline.min(self.coordinator.retry_at)),
            _ if self.beating || self.coordinator.is_finding() => None,
            _ => Some(self.heartbeat_at.max(self.coordinator.retry_at)),
        }
    }

    /// Takes a new picture of the cluster in.
    pub fn handle_cluster(&mut self, cluster: &Arc<Cluster>) {
        self.coordinator.cluster = cluster.clone();
    }

    /// Takes an answer in.
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
            Some(ErrorCode::UNKNOWN_MEMBER_ID | ErrorCode::FENCED_MEMBER_EPOCH) => {
                self.start_over(now);
                self.coordinator.ask_again(now);
            }
            Some(ErrorCode::COORDINATOR_LOAD_IN_PROGRESS) => self.coordinator.try_later(now),
            Some(ErrorCode::TOPIC_AUTHORIZATION_FAILED) => {
                self.coordinator.try_later(now);
                self.complaint = Some(error);
            }
            _ if error.is_retriable() => {
                self.coordinator.lose(now);
                self.told = None;
            }
            _ => {
                self.next_round();
                self.coordinator.forget_trouble();
                self.assigned.clear();
                self.state = State::Out;
                self.error = Some(error);
                return;
            }
        }
        self.heartbeat_at = self.coordinator.retry_at;
    }

    fn take_beat(&mut self, now: Time, reply: Reply) -> Result<(), Error> {
        let response: api::Response = self.coordinator.read(reply)?;
        if let Err(code) = response.error_code.check() {
            let why = response.error_message.map_or_else(String::new, |m| format!(" ({m})"));
            return Err(Error::refused(code, format!("heartbeat in share group {:?}{why}", self.config.group)));
        }
        self.coordinator.succeeded();
        self.coordinator.forget_trouble();
        self.told = self.telling.take();
        self.interval = Duration::from_millis(u64::try_from(response.heartbeat_interval_ms).unwrap_or(0).max(1));
        self.heartbeat_at = now + self.interval;
        self.state = State::Member;
        self.epoch = response.member_epoch;
        if let Some(assignment) = response.assignment {
            self.assigned = assignment.topic_partitions.into_iter().map(|t| (t.topic_id, t.partitions)).collect();
            self.ask_ids_at = now;
        }
        Ok(())
    }
}
