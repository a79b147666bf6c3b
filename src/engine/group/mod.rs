//! Membership of a group: which partitions a consumer reads, as the members of its group agree with their coordinator.
//!
//! Two protocols lead there. In classic groups (`classic`) the members join, one of them assigns, and all of them get
//! their share (Kafka 0.9, KIP-429, KIP-345); in those of KIP-848 (`next_gen`) the coordinator assigns and each member
//! follows by its heartbeats. In share groups (`share`, KIP-932) nobody owns a partition. Otherwise what comes out are
//! [`Change`]s, one after the other: the reader takes one, does what it has to, and says so; only then may the partitions
//! go to somebody else.

pub mod assignor;
mod classic;
mod coordinator_client;
mod held;
mod next_gen;
mod share;

use super::{ClientResponse, Cluster, Error, ErrorKind, MetadataDemand, Outgoing, Time, TopicPartition};
use crate::api::ErrorCode;
use crate::api::data::consumer_protocol;
use assignor::{Assignment, Assignor, Member, Topics};
use bytes::Bytes;
use classic::Classic;
use coordinator_client::CoordinatorClient;
use next_gen::NextGen;
pub use share::{ShareMember, ShareMemberConfig};
use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Who a consumer is in its group, as commits say it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupMetadata {
    /// The group.
    pub group: String,
    /// Its generation, or the member's epoch; -1 for a consumer that is no member.
    pub generation: i32,
    /// The member's id; empty for a consumer that is no member.
    pub member: String,
    /// The static member's name.
    pub instance: Option<String>,
}

impl GroupMetadata {
    /// Of a client that uses a group's offsets and is no member.
    pub fn outside(group: String) -> Self {
        Self { group, generation: -1, member: String::new(), instance: None }
    }
}

/// An assignor that somebody else wrote.
pub trait CustomAssignor: Send + Sync {
    /// The name that the members of a group agree on.
    fn name(&self) -> &str;
    /// What a rebalance asks of the members.
    fn protocol(&self) -> assignor::Protocol;
    /// What a member tells the leader besides its subscription.
    fn user_data(&self) -> Option<Bytes>;
    /// What each member gets.
    fn assign(&self, topics: &Topics, members: &[Member<'_>]) -> Result<Assignment, Error>;
}

/// An assignor as the members of a group may have it.
#[derive(Clone)]
pub enum Strategy {
    /// One of [`assignor`].
    Known(&'static dyn Assignor),
    /// Somebody else's.
    Custom(Arc<dyn CustomAssignor>),
}

impl Strategy {
    /// The name that the members of a group agree on.
    pub fn name(&self) -> &str {
        match self {
            Self::Known(a) => a.name(),
            Self::Custom(a) => a.name(),
        }
    }

    fn is_cooperative(&self) -> bool {
        let protocol = match self {
            Self::Known(a) => a.protocol(),
            Self::Custom(a) => a.protocol(),
        };
        protocol == assignor::Protocol::Cooperative
    }

    fn assign(&self, topics: &Topics, members: &[Member<'_>]) -> Result<Assignment, Error> {
        match self {
            Self::Known(a) => Ok(a.assign(topics, members)),
            Self::Custom(a) => a.assign(topics, members).and_then(|made| check(self.name(), topics, members, made)),
        }
    }
}

/// An assignment by code that nobody here knows: each partition is there and has one owner, each owner is a member.
fn check(name: &str, topics: &Topics, members: &[Member<'_>], made: Assignment) -> Result<Assignment, Error> {
    let wrong = |what: String| {
        Err(Error::new(ErrorKind::Config, format!("assignor {name:?} gave {what}"))
            .with_hint("give each partition of the topics to one member at most"))
    };
    let mut given = BTreeSet::new();
    for (member, partitions) in &made {
        if !members.iter().any(|m| m.id == member) {
            return wrong(format!("partitions to {member:?}, which is no member"));
        }
        for partition in partitions {
            let count = topics.0.get(&partition.topic).map_or(0, Vec::len);
            if !usize::try_from(partition.partition).is_ok_and(|p| p < count) {
                return wrong(format!("{partition}, which does not exist"));
            }
            if !given.insert(partition) {
                return wrong(format!("{partition} to two members"));
            }
        }
    }
    Ok(made)
}

/// How groups are entered.
#[derive(Clone)]
pub enum Protocol {
    /// Members assign, with the first of these that all of them have.
    Classic(Vec<Strategy>),
    /// The coordinator assigns, with the assignor of this name or its own choice.
    Consumer(Option<String>),
}

impl fmt::Debug for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Classic(assignors) => f.debug_list().entries(assignors.iter().map(|a| a.name())).finish(),
            Self::Consumer(assignor) => write!(f, "{assignor:?}"),
        }
    }
}

/// What a member needs to know.
#[derive(Clone, Debug)]
pub struct GroupConfig {
    /// The group.
    pub group: String,
    /// The static member's name (KIP-345).
    pub instance: Option<String>,
    /// Where the member stands.
    pub rack: String,
    /// How the group is entered.
    pub protocol: Protocol,
    /// After how long without a heartbeat the coordinator takes a classic member for dead.
    pub session_timeout: Duration,
    /// Between heartbeats of a classic member.
    pub heartbeat_interval: Duration,
    /// How long the reader may take between polls; also how long the others wait for it in a rebalance.
    pub max_poll_interval: Duration,
    /// How long a broker may take to answer.
    pub request_timeout: Duration,
    /// How long joining may fail before the reader hears of it.
    pub api_timeout: Duration,
    /// The first and the longest wait before trying again.
    pub retry_backoff: (Duration, Duration),
    /// Makes members different.
    pub seed: u64,
}

impl GroupConfig {
    fn coordinator_client(&self) -> CoordinatorClient {
        let timeouts = (self.request_timeout, self.api_timeout);
        CoordinatorClient::new(self.group.clone(), timeouts, self.retry_backoff, self.seed)
    }
}

/// What the reader has to know before it goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// These go to somebody else when the reader is done with them; offsets may still be committed.
    Revoked(Vec<TopicPartition>),
    /// These may belong to somebody else already.
    Lost(Vec<TopicPartition>),
    /// These are the reader's from now on.
    Assigned(Vec<TopicPartition>),
}

/// The queue of changes, and what the member owns: what it was given and did not give up.
#[derive(Debug, Default)]
struct Changes {
    owned: BTreeSet<TopicPartition>,
    queue: VecDeque<Change>,
    /// Whether the reader has taken the first.
    taken: bool,
}

impl Changes {
    fn push(&mut self, change: Change) {
        let (Change::Revoked(partitions) | Change::Lost(partitions) | Change::Assigned(partitions)) = &change;
        if !partitions.is_empty() {
            self.queue.push_back(change);
        }
    }

    /// Goes over to what was assigned: gives up first. Says whether anything was. What the reader did not take of an
    /// assignment before does not happen any more.
    fn follow(&mut self, target: &BTreeSet<TopicPartition>) -> bool {
        self.queue.truncate(usize::from(self.taken));
        let revoked: Vec<TopicPartition> = self.owned.difference(target).cloned().collect();
        let is_any = !revoked.is_empty();
        self.push(Change::Revoked(revoked));
        self.push(Change::Assigned(target.difference(&self.owned).cloned().collect()));
        is_any
    }

    fn revoke_all(&mut self) {
        self.push(Change::Revoked(self.owned.iter().cloned().collect()));
    }

    /// The membership ended without asking: what the reader has not heard of yet does not happen.
    fn lose_all(&mut self) {
        self.queue.truncate(usize::from(self.taken));
        let mut partitions = self.owned.clone();
        match self.queue.front() {
            Some(Change::Assigned(more)) => partitions.extend(more.iter().cloned()),
            Some(Change::Revoked(gone) | Change::Lost(gone)) => partitions.retain(|p| !gone.contains(p)),
            None => {}
        }
        self.push(Change::Lost(partitions.into_iter().collect()));
    }

    fn take(&mut self) -> Option<Change> {
        if self.taken {
            return None;
        }
        let change = self.queue.front()?.clone();
        self.taken = true;
        Some(change)
    }

    fn handled(&mut self) {
        if !std::mem::take(&mut self.taken) {
            return;
        }
        match self.queue.pop_front() {
            Some(Change::Assigned(partitions)) => self.owned.extend(partitions),
            Some(Change::Revoked(partitions) | Change::Lost(partitions)) => partitions.iter().for_each(|p| {
                self.owned.remove(p);
            }),
            None => {}
        }
    }

    fn is_settled(&self) -> bool {
        self.queue.is_empty()
    }

    /// What nobody else may have: what is owned, and what the reader is about to get.
    fn claimed(&self) -> BTreeSet<TopicPartition> {
        let mut claimed = self.owned.clone();
        for change in &self.queue {
            if let Change::Assigned(partitions) = change {
                claimed.extend(partitions.iter().cloned());
            }
        }
        claimed
    }
}

/// What an answer is matched with: which request of which round. Answers of older rounds come too late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupToken {
    round: u64,
    step: Step,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Find,
    Join,
    Sync,
    Heartbeat,
    Leave,
}

/// An assignment to be made. It may take long, or call into other code, and so is made outside of every lock.
pub struct Work {
    round: u64,
    assignor: Strategy,
    topics: Topics,
    members: Vec<Joined>,
}

/// A member of the group, as its leader knows it.
struct Joined {
    id: String,
    instance: Option<String>,
    subscription: consumer_protocol::Subscription,
}

impl Joined {
    fn as_member(&self) -> Member<'_> {
        Member { id: &self.id, instance_id: self.instance.as_deref(), subscription: &self.subscription }
    }
}

/// An assignment that was made.
pub struct Assignments {
    round: u64,
    result: Result<Assignment, Error>,
}

impl Work {
    /// Makes the assignment.
    pub fn run(self) -> Assignments {
        let members: Vec<Member<'_>> = self.members.iter().map(Joined::as_member).collect();
        Assignments { round: self.round, result: self.assignor.assign(&self.topics, &members) }
    }
}

impl fmt::Debug for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} for {} members", self.assignor.name(), self.members.len())
    }
}

/// What a group reads: topics by name, or whatever matches a pattern.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subscription {
    /// The names; of a pattern those that match now.
    pub topics: BTreeSet<Arc<str>>,
    /// A pattern that the coordinator matches (KIP-848).
    pub pattern: Option<String>,
}

enum Machine {
    Classic(Box<Classic>),
    NextGen(Box<NextGen>),
}

/// A member of a group.
pub struct Group {
    config: Arc<GroupConfig>,
    machine: Machine,
    /// When the reader last showed that it is there.
    active: Time,
    expired: bool,
}

macro_rules! each {
    ($self:expr, $m:ident => $e:expr) => {
        match &mut $self.machine {
            Machine::Classic($m) => $e,
            Machine::NextGen($m) => $e,
        }
    };
}

impl Group {
    /// A consumer that is no member yet.
    pub fn new(config: GroupConfig) -> Self {
        let config = Arc::new(config);
        let machine = match &config.protocol {
            Protocol::Classic(_) => Machine::Classic(Box::new(Classic::new(config.clone()))),
            Protocol::Consumer(_) => Machine::NextGen(Box::new(NextGen::new(config.clone()))),
        };
        Self { machine, active: Time(0), expired: false, config }
    }

    /// Enters the group, or changes what is read.
    pub fn subscribe(&mut self, now: Time, subscription: Subscription) {
        self.active = now;
        self.expired = false;
        each!(self, m => m.subscribe(now, subscription));
    }

    /// Whether the coordinator matches patterns.
    pub fn matches_patterns(&self) -> bool {
        matches!(self.machine, Machine::NextGen(_))
    }

    /// Notes that the reader is there: it polls, or waits for records.
    pub fn note_activity(&mut self, now: Time) {
        self.active = now;
        // While it still leaves, it comes back a little later.
        if self.expired && self.has_left() {
            self.expired = false;
            each!(self, m => m.rejoin(now));
        }
    }

    /// Leaves, with nothing to give up any more; a static member keeps its place unless the group is new style.
    pub fn leave(&mut self, now: Time, reason: &str) {
        each!(self, m => m.leave(now, reason));
    }

    /// Drops what the reader was given and not told to give up.
    pub fn forget(&mut self) {
        each!(self, m => *m.changes_mut() = Changes::default());
    }

    /// Whether there is nothing left to say to the coordinator.
    pub fn has_left(&self) -> bool {
        match &self.machine {
            Machine::Classic(m) => m.has_left(),
            Machine::NextGen(m) => m.has_left(),
        }
    }

    /// Who the consumer is.
    pub fn metadata(&self) -> GroupMetadata {
        let (generation, member) = match &self.machine {
            Machine::Classic(m) => m.identity(),
            Machine::NextGen(m) => m.identity(),
        };
        let (group, instance) = (self.config.group.clone(), self.config.instance.clone());
        GroupMetadata { group, generation, member: member.to_owned(), instance }
    }

    /// The group's coordinator, as far as the membership knows it.
    pub fn coordinator(&self) -> Option<i32> {
        match &self.machine {
            Machine::Classic(m) => m.coordinator(),
            Machine::NextGen(m) => m.coordinator(),
        }
    }

    fn changes(&self) -> &Changes {
        match &self.machine {
            Machine::Classic(m) => m.changes(),
            Machine::NextGen(m) => m.changes(),
        }
    }

    /// Whether the reader has something to take.
    pub fn has_change(&self) -> bool {
        let changes = self.changes();
        !changes.taken && !changes.queue.is_empty()
    }

    /// What the reader has to do next, once.
    pub fn take_change(&mut self) -> Option<Change> {
        each!(self, m => m.changes_mut().take())
    }

    /// Notes that the reader has done what it took.
    pub fn handled(&mut self) {
        each!(self, m => m.changes_mut().handled());
    }

    /// Why the consumer cannot be a member, once.
    pub fn take_error(&mut self) -> Option<Error> {
        each!(self, m => m.take_error())
    }

    fn coordinator_client(&self) -> &CoordinatorClient {
        match &self.machine {
            Machine::Classic(m) => &m.coordinator,
            Machine::NextGen(m) => &m.coordinator,
        }
    }

    /// Whether [`Group::take_trouble`] gives something.
    pub fn has_trouble(&self) -> bool {
        self.coordinator_client().has_trouble()
    }

    /// What the reader should hear of joining that fails and is tried again, once.
    pub fn take_trouble(&mut self) -> Option<Error> {
        each!(self, m => m.coordinator.take_trouble())
    }

    /// Why the consumer, which is no member now, may not commit.
    pub fn refuse_commit(&self) -> Error {
        let group = &self.config.group;
        let was_member = match &self.machine {
            Machine::Classic(m) => m.was_member,
            Machine::NextGen(m) => m.was_member,
        };
        let code = ErrorCode::UNKNOWN_MEMBER_ID;
        let Some(why) = self.coordinator_client().trouble() else {
            return match was_member {
                true => Error::refused(code, format!("commit for group {group:?}, of which the consumer is no member")),
                false => {
                    Error::refused(code, format!("commit for group {group:?}, which the consumer has not joined yet"))
                        .with_hint("poll first: a member commits once it was given partitions")
                }
            };
        };
        let what = format!("commit for group {group:?}, which the consumer could not join ({})", why.message());
        let hint = why.hint().unwrap_or("the consumer goes on trying; check the group's coordinator");
        Error::refused(code, what).with_hint(hint).caused_by(why)
    }

    /// Takes in that no broker can be reached.
    pub fn handle_unreachable(&mut self, now: Time, error: &Error) {
        each!(self, m => m.handle_unreachable(now, error));
    }

    /// What the coordinator has against what is read, once; the member stays one.
    pub fn take_complaint(&mut self) -> Option<Error> {
        match &mut self.machine {
            Machine::Classic(_) => None,
            Machine::NextGen(m) => m.take_complaint(),
        }
    }

    /// An assignment to make, for [`Group::assigned`].
    pub fn poll_work(&mut self) -> Option<Work> {
        match &mut self.machine {
            Machine::Classic(m) => m.poll_work(),
            Machine::NextGen(_) => None,
        }
    }

    /// Takes an assignment in.
    pub fn assigned(&mut self, now: Time, made: Assignments) {
        if let Machine::Classic(m) = &mut self.machine {
            m.assigned(now, made);
        }
    }

    /// Takes an answer in.
    pub fn handle_response(&mut self, now: Time, answer: ClientResponse<GroupToken>) {
        each!(self, m => m.handle_response(now, answer));
    }

    /// Takes a new picture of the cluster in.
    pub fn handle_cluster(&mut self, cluster: &Arc<Cluster>) {
        each!(self, m => m.handle_cluster(cluster));
    }

    /// The next request.
    pub fn poll_send(&mut self, now: Time) -> Option<Outgoing<GroupToken>> {
        each!(self, m => m.poll_send(now))
    }

    /// What has to be known of the cluster.
    pub fn poll_demand(&mut self) -> Option<MetadataDemand> {
        each!(self, m => m.poll_demand())
    }

    /// The topics that have to be known: those of the member's partitions, and those that its group reads if it leads that.
    pub fn wanted_topics(&self) -> BTreeSet<Arc<str>> {
        let claimed = self.changes().claimed().into_iter().map(|p| p.topic);
        match &self.machine {
            Machine::Classic(m) => claimed.chain(m.watched().cloned()).collect(),
            Machine::NextGen(_) => claimed.collect(),
        }
    }

    /// When there is something to do.
    pub fn next_timeout(&self, now: Time) -> Option<Time> {
        let next = match &self.machine {
            Machine::Classic(m) => m.next_timeout(),
            Machine::NextGen(m) => m.next_timeout(),
        };
        let expiry = (!self.expired && !self.has_left()).then(|| self.active + self.config.max_poll_interval);
        super::earliest(next, expiry).map(|t| t.max(now + Duration::from_micros(1)))
    }

    /// Does what is due: a reader that does not poll loses its place.
    pub fn handle_timeout(&mut self, now: Time) {
        if !self.expired && now.since(self.active) >= self.config.max_poll_interval {
            self.expired = true;
            each!(self, m => m.expire(now));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{self, find_coordinator};
    use crate::engine::{Broker, Reply};

    fn member() -> Group {
        let seconds = Duration::from_secs;
        let mut group = Group::new(GroupConfig {
            group: "g".to_owned(),
            instance: None,
            rack: String::new(),
            protocol: Protocol::Classic(vec![Strategy::Known(&assignor::Range)]),
            session_timeout: seconds(45),
            heartbeat_interval: seconds(3),
            max_poll_interval: seconds(300),
            request_timeout: seconds(30),
            api_timeout: seconds(60),
            retry_backoff: (Duration::from_millis(100), seconds(1)),
            seed: 1,
        });
        let broker = Broker { id: 0, host: "h".to_owned(), port: 1, rack: None };
        group.handle_cluster(&Arc::new(Cluster { brokers: [(0, broker)].into(), ..Cluster::default() }));
        group.subscribe(Time(0), Subscription { topics: ["t".into()].into(), pattern: None });
        group
    }

    /// JoinGroup, after the coordinator was found.
    fn join(group: &mut Group, now: Time) -> Outgoing<GroupToken> {
        let mut outgoing = group.poll_send(now).unwrap();
        if outgoing.token.step == Step::Find {
            let found = api::encode(0, &find_coordinator::Response::default()).unwrap();
            let result = Ok(Reply { version: 0, body: found.into() });
            group.handle_response(now, ClientResponse { token: outgoing.token, node: 0, result });
            outgoing = group.poll_send(now).unwrap();
        }
        assert_eq!(outgoing.token.step, Step::Join);
        outgoing
    }

    /// Java's consumer gives JoinGroup `max.poll.interval.ms` and five seconds, too.
    #[test]
    fn whoever_polls_hears_of_a_coordinator_that_never_answers_a_member_that_joins() {
        let mut group = member();
        let mut now = Time(0);
        for _ in 0..2 {
            let asked = join(&mut group, now);
            assert_eq!(asked.deadline.time().since(now), Duration::from_secs(305));
            now = asked.deadline.time();
            group.note_activity(now);
            let error = Error::new(ErrorKind::Timeout, "no answer to JoinGroup in time").from_broker("h:1");
            group.handle_response(now, ClientResponse { token: asked.token, node: 0, result: Err(error) });
            let heard = group.take_trouble().unwrap();
            assert_eq!(
                (heard.kind(), heard.message()),
                (
                    ErrorKind::Timeout,
                    "joining group \"g\" did not succeed in 305 s: no answer to JoinGroup in time (broker h:1)"
                )
            );
            now = now + Duration::from_secs(2);
        }
    }
}
