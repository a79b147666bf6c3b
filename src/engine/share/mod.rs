//! The share consumer (KIP-932): acquires records from every leader when the reader asks for some, and tells the leaders
//! what became of them.
//!
//! A record that was acquired is the member's until its lock ends, so nothing is fetched ahead of the reader. With each
//! leader there is a session, whose requests are numbered and go one after the other; acknowledgements travel with the
//! next fetch, or alone where none is about to go. A session ends with its connection, and with it the locks: what is
//! acknowledged afterwards fails, and comes again to somebody.

mod acks;
mod acquired;
mod requests;

use super::call::MAX_MALFORMED;
use super::consumer::{Slice, is_gone, passes};
use super::group::{self, ShareMember, ShareMemberConfig};
use super::{
    ClientResponse, Cluster, Error, ErrorKind, MetadataDemand, Outgoing, Role, Time, TopicIdPartition, TopicPartition,
    earliest, wait_after,
};
use crate::api::share_acknowledge::{ACCEPT, GAP, RELEASE, RENEW};
use crate::api::{ErrorCode, share_acknowledge};
use acks::Acks;
use acquired::{Answered, AnsweredAll, Checks, Names};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// Epoch of the request that opens a session.
const OPEN: i32 = 0;

/// What a share consumer needs to know.
#[derive(Clone, Debug)]
pub struct ShareConfig {
    /// Its membership.
    pub member: ShareMemberConfig,
    /// Whether a fetch never acquires more than `max_records`, where it would take whole batches otherwise (KIP-1206).
    pub record_limit: bool,
    /// Records of one fetch.
    pub max_records: i32,
    /// Bytes the broker waits for.
    pub min_bytes: i32,
    /// How long it waits for them.
    pub max_wait: Duration,
    /// Bytes of a whole answer, about.
    pub max_bytes: i32,
    /// Whether checksums are checked.
    pub check_crcs: bool,
    /// Bytes a batch may decompress to.
    pub decompress_limit: usize,
}

/// What became of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acknowledgement {
    /// It is done with.
    Accept,
    /// It may be delivered again.
    Release,
    /// It is not to be delivered again.
    Reject,
    /// The member needs more time with it (KIP-1222).
    Renew,
}

impl Acknowledgement {
    /// All of them with their names.
    pub const ALL: [(&'static str, Self); 4] =
        [("accept", Self::Accept), ("release", Self::Release), ("reject", Self::Reject), ("renew", Self::Renew)];

    fn number(self) -> i8 {
        match self {
            Self::Accept => ACCEPT,
            Self::Release => RELEASE,
            Self::Reject => share_acknowledge::REJECT,
            Self::Renew => RENEW,
        }
    }
}

/// What brokers said to acknowledgements, by partition.
pub type Outcomes = Vec<(TopicPartition, Option<Error>)>;

/// What an answer is matched with.
pub enum ShareToken {
    /// A fetch.
    Fetch(i32, Names, Checks),
    /// An acknowledgement.
    Acknowledge(i32, Names),
    /// A request of the membership.
    Member(group::GroupToken),
}

/// An answer, read.
pub enum Prepared {
    /// A fetch's or an acknowledgement's.
    Leader(i32, Result<AnsweredAll, Error>),
    /// The membership's.
    Member(ClientResponse<group::GroupToken>),
}

/// A leader, and the session with it.
#[derive(Default)]
struct Node {
    /// Of the next request.
    epoch: i32,
    /// The partitions the session holds, and those it will if the request under way succeeds.
    told: BTreeSet<TopicIdPartition>,
    telling: BTreeSet<TopicIdPartition>,
    acks: Acks,
    sending: Acks,
    /// Counts requests with acknowledgements.
    round: u64,
    busy: bool,
    /// Whether the session was asked to end.
    closing: bool,
    /// Whether acknowledgements should not wait for a fetch.
    flush: bool,
    retry_at: Time,
    failures: u32,
    /// Since when it has refused whole requests with what may pass, and how many of its answers in a row were malformed.
    unknown_since: Option<Time>,
    malformed: u32,
    /// How often in a row it did not know its session.
    forgotten: u32,
}

/// Records that were acquired and not given out yet.
struct Buffered {
    spot: TopicIdPartition,
    node: i32,
    /// When they are somebody else's.
    until: Time,
    slices: VecDeque<Slice>,
}

/// A record in the reader's hands.
#[derive(Clone, Copy, Debug)]
struct InHand {
    node: i32,
    id: crate::wire::Uuid,
    /// Whether the reader said that it needs more time.
    renewed: bool,
}

/// Somebody who waits for acknowledgements to be answered: by which nodes, in which rounds.
struct Commit<T> {
    ticket: T,
    rounds: BTreeSet<(i32, u64)>,
    outcomes: BTreeMap<TopicPartition, Option<Error>>,
}

/// The machine. `T` is what the caller knows a commit by.
pub struct ShareConsumer<T> {
    config: ShareConfig,
    member: ShareMember,
    nodes: BTreeMap<i32, Node>,
    buffer: VecDeque<Buffered>,
    /// Since when partitions have been refused with what may pass.
    unknown_since: BTreeMap<TopicPartition, Option<Time>>,
    hand: BTreeMap<TopicPartition, BTreeMap<i64, InHand>>,
    /// Whether the reader waits for records.
    wanted: bool,
    leaving: bool,
    lock: Option<Duration>,
    commits: Vec<Commit<T>>,
    done: VecDeque<(T, Outcomes)>,
    /// Outcomes that no commit waited for.
    outcomes: VecDeque<(TopicPartition, Option<Error>)>,
    error: Option<Error>,
    /// Why the consumer is no member of its group any more; every poll says so until it subscribes anew.
    ended: Option<Error>,
    cluster: Arc<Cluster>,
    refresh_at: Time,
    demand: MetadataDemand,
}

/// Adds an outcome to those of a commit: of a partition, the first error counts.
fn note(outcomes: &mut BTreeMap<TopicPartition, Option<Error>>, place: TopicPartition, error: Option<Error>) {
    let outcome = outcomes.entry(place).or_default();
    *outcome = outcome.take().or(error);
}

/// Outcomes kept for a reader that does not ask for them.
const OUTCOMES: usize = 1 << 12;

impl<T: Send> ShareConsumer<T> {
    /// A consumer of nothing.
    pub fn new(config: ShareConfig) -> Self {
        Self {
            member: ShareMember::new(config.member.clone()),
            config,
            nodes: BTreeMap::new(),
            buffer: VecDeque::new(),
            unknown_since: BTreeMap::new(),
            hand: BTreeMap::new(),
            wanted: false,
            leaving: false,
            lock: None,
            commits: Vec::new(),
            done: VecDeque::new(),
            outcomes: VecDeque::new(),
            error: None,
            ended: None,
            cluster: Arc::default(),
            refresh_at: Time(0),
            demand: MetadataDemand::default(),
        }
    }

    /// Reads these topics with the other members of the group.
    pub fn subscribe(&mut self, now: Time, topics: BTreeSet<Arc<str>>) {
        (self.error, self.ended) = (None, None);
        self.unknown_since.clear();
        self.release_buffered(|topic| topics.contains(topic));
        self.member.subscribe(now, topics);
    }

    /// Reads nothing any more.
    pub fn unsubscribe(&mut self, now: Time) {
        self.ended = None;
        self.release_buffered(|_| false);
        self.member.leave(now);
    }

    /// What is read.
    pub fn subscription(&self) -> impl Iterator<Item = &Arc<str>> {
        self.member.subscription().iter()
    }

    /// The member's name.
    pub fn member_id(&self) -> &str {
        self.member.id()
    }

    /// How long records are the member's, once a broker said so.
    pub fn lock(&self) -> Option<Duration> {
        self.lock
    }

    /// Gives back what the reader never saw of topics that are not read any more.
    fn release_buffered(&mut self, is_kept: impl Fn(&Arc<str>) -> bool) {
        let (kept, dropped): (VecDeque<_>, VecDeque<_>) =
            std::mem::take(&mut self.buffer).into_iter().partition(|b| is_kept(&b.spot.topic));
        self.buffer = kept;
        for b in dropped {
            let node = self.nodes.entry(b.node).or_default();
            node.flush = true;
            b.slices.iter().flat_map(|s| &s.records).for_each(|r| node.acks.put(&b.spot, r.offset, RELEASE));
        }
    }

    /// Whether [`ShareConsumer::poll_records`] gives something.
    pub fn is_ready(&self) -> bool {
        self.error.is_some() || self.ended.is_some() || self.member.has_trouble() || !self.buffer.is_empty()
    }

    /// Records in the reader's hands of which it said nothing.
    pub fn unacknowledged(&self) -> usize {
        self.hand.values().flat_map(BTreeMap::values).filter(|r| !r.renewed).count()
    }

    /// Gives out what is there, up to `max_records`; asks for more if that is nothing.
    pub fn poll_records(&mut self, now: Time, max_records: usize) -> Result<Vec<Slice>, Error> {
        // Locks that ended: others have the records.
        self.buffer.retain(|b| b.until > now);
        let (mut out, mut count) = (Vec::new(), 0);
        while count < max_records
            && let Some(buffered) = self.buffer.front_mut()
        {
            let Some(mut slice) = buffered.slices.pop_front() else {
                self.buffer.pop_front();
                continue;
            };
            if slice.records.len() > max_records - count {
                let rest = slice.records.split_off(max_records - count);
                buffered.slices.push_front(Slice { records: rest, ..slice.clone() });
            }
            count += slice.records.len();
            let in_hand = InHand { node: buffered.node, id: buffered.spot.id, renewed: false };
            let hand = self.hand.entry(TopicPartition::new(slice.topic.clone(), slice.partition)).or_default();
            hand.extend(slice.records.iter().map(|r| (r.offset, in_hand)));
            out.push(slice);
        }
        self.wanted = out.is_empty();
        if out.is_empty() {
            let error = self.error.take().or_else(|| self.member.take_trouble());
            return error.or_else(|| self.ended.clone()).map_or(Ok(out), Err);
        }
        self.flush();
        Ok(out)
    }

    fn flush(&mut self) {
        self.nodes.values_mut().for_each(|node| node.flush |= !node.acks.is_empty());
    }

    /// Says what became of a record; false if it is not in the reader's hands.
    pub fn acknowledge(&mut self, topic: &Arc<str>, partition: i32, offset: i64, what: Acknowledgement) -> bool {
        let key = TopicPartition::new(topic.clone(), partition);
        let Some(hand) = self.hand.get_mut(&key) else { return false };
        let Some(record) = hand.get_mut(&offset) else { return false };
        let node = self.nodes.entry(record.node).or_default();
        let spot = TopicIdPartition { topic: key.topic.clone(), id: record.id, partition };
        node.acks.put(&spot, offset, what.number());
        if what == Acknowledgement::Renew {
            record.renewed = true;
            node.flush = true;
            return true;
        }
        hand.remove(&offset);
        if hand.is_empty() {
            self.hand.remove(&key);
        }
        true
    }

    /// Has acknowledgements sent; the ticket comes back when all of them are answered, with what is known of those before that
    /// nobody heard of yet: a renewal is sent at once, and whether its answer is here before the commit is chance.
    pub fn commit(&mut self, ticket: T) {
        let mut outcomes = BTreeMap::new();
        for (place, error) in self.outcomes.drain(..) {
            note(&mut outcomes, place, error);
        }
        let mut rounds = BTreeSet::new();
        for (id, node) in &mut self.nodes {
            if !node.sending.is_empty() {
                rounds.insert((*id, node.round));
            }
            if !node.acks.is_empty() {
                node.flush = true;
                rounds.insert((*id, node.round + 1));
            }
        }
        if rounds.is_empty() {
            self.done.push_back((ticket, outcomes.into_iter().collect()));
        } else {
            self.commits.push(Commit { ticket, rounds, outcomes });
        }
    }

    /// The next commit that ended.
    pub fn poll_done(&mut self) -> Option<(T, Outcomes)> {
        self.done.pop_front()
    }

    /// What became of acknowledgements that no commit waited for.
    pub fn take_outcomes(&mut self) -> Outcomes {
        self.outcomes.drain(..).collect()
    }

    /// Closes every session, which gives back what is in the reader's hands, and leaves the group.
    pub fn leave(&mut self, now: Time) {
        self.leaving = true;
        self.wanted = false;
        self.buffer.clear();
        self.hand.clear();
        self.member.leave(now);
    }

    /// Whether there is nothing left to say to anybody.
    pub fn has_left(&self) -> bool {
        self.leaving && self.member.has_left() && self.nodes.is_empty()
    }

    /// Ends every commit with an error.
    pub fn fail_all(&mut self, error: &Error) {
        let nodes: Vec<i32> = self.nodes.keys().copied().collect();
        for id in nodes {
            self.fail_sending(id, error);
            self.fail_waiting(id, error);
        }
        self.error.get_or_insert_with(|| error.clone());
    }

    fn handle_leader(&mut self, now: Time, id: i32, result: Result<AnsweredAll, Error>) {
        let Some(node) = self.nodes.get_mut(&id) else { return };
        node.busy = false;
        match result {
            Ok(all) => {
                (node.failures, node.forgotten, node.malformed) = (0, 0, 0);
                node.unknown_since = None;
                // The epoch after the greatest is 1: 0 opens a session.
                node.epoch = if node.epoch == i32::MAX { 1 } else { node.epoch + 1 };
                node.told = std::mem::take(&mut node.telling);
                node.retry_at = now + all.throttle;
                self.take_answer(now, id, all);
            }
            Err(error) => {
                node.end_session();
                // The session's records are given back with it.
                self.buffer.retain(|b| b.node != id);
                let is_session = matches!(
                    error.code(),
                    Some(ErrorCode::SHARE_SESSION_NOT_FOUND | ErrorCode::INVALID_SHARE_SESSION_EPOCH)
                );
                node.forgotten = if is_session { node.forgotten.saturating_add(1) } else { 0 };
                if node.forgotten > 1 {
                    // Once is usual; a broker that says nothing else would be asked thousands of times a second.
                    node.retry_at = now + wait_after(node.forgotten - 1, self.config.member.retry_backoff, now.0);
                }
                if !is_session {
                    node.failures = node.failures.saturating_add(1);
                    node.retry_at = now + wait_after(node.failures, self.config.member.retry_backoff, now.0);
                    self.demand.refresh = true;
                    node.malformed = if error.kind() == ErrorKind::Decode { node.malformed + 1 } else { 0 };
                    let is_retriable = error.is_retriable() || (1..MAX_MALFORMED).contains(&node.malformed);
                    let passes = passes(&mut node.unknown_since, now, error.code(), is_retriable);
                    if !passes && !self.leaving {
                        self.error.get_or_insert_with(|| error.clone());
                    }
                }
                self.fail_sending(id, &error);
            }
        }
        self.nodes.retain(|_, node| !node.closing || node.busy);
    }

    fn take_answer(&mut self, now: Time, id: i32, all: AnsweredAll) {
        if !all.lock.is_zero() {
            self.lock = Some(all.lock);
        }
        if !all.leader_changes.is_empty() {
            self.demand.leader_changes.extend(all.leader_changes);
        }
        let Some(node) = self.nodes.get_mut(&id) else { return };
        if all.is_fetch && !self.unknown_since.is_empty() {
            let mut well: BTreeSet<_> = node.told.iter().map(|spot| spot.topic_partition()).collect();
            for p in all.partitions.iter().filter(|p| p.code.is_error()) {
                well.remove(&p.spot.topic_partition());
            }
            self.unknown_since.retain(|place, _| !well.contains(place));
        }
        let sent = std::mem::take(&mut node.sending);
        let round = node.round;
        let mut unanswered: BTreeSet<TopicIdPartition> = sent.spots().cloned().collect();
        let mut outcomes = Vec::new();
        for answered in all.partitions {
            if unanswered.remove(&answered.spot) {
                let tried = || format!("acknowledge records of {}-{}", answered.spot.topic, answered.spot.partition);
                let error = answered.acknowledged.check().err().map(|code| Error::refused(code, tried()));
                outcomes.push((answered.spot.clone(), error));
            }
            self.take_records(now, id, answered);
        }
        let silent = |spot: TopicIdPartition| {
            let message =
                format!("broker {id} did not say what became of records of {}-{}", spot.topic, spot.partition);
            (spot, Some(Error::new(ErrorKind::Decode, message)))
        };
        outcomes.extend(unanswered.into_iter().map(silent));
        self.answered(id, round, outcomes);
    }

    fn take_records(&mut self, now: Time, id: i32, answered: Answered) {
        let Answered { spot, code, slices, settled, error, .. } = answered;
        let Some(node) = self.nodes.get_mut(&id) else { return };
        for (first, last, kind) in settled {
            node.acks.put_range(&spot, first, last, kind);
            // Nobody reads these; what others could read should not wait.
            node.flush |= kind != GAP;
        }
        let is_read = self.member.subscription().contains(&spot.topic);
        if self.leaving || !is_read {
            slices.iter().flat_map(|s| &s.records).for_each(|r| node.acks.put(&spot, r.offset, RELEASE));
            node.flush = true;
        } else if !slices.is_empty() {
            let until = self.lock.map_or(Time::NEVER, |lock| now + lock);
            self.buffer.push_back(Buffered { spot: spot.clone(), node: id, until, slices: slices.into() });
        }
        if let Some(error) = error {
            self.error.get_or_insert(error);
        }
        if !code.is_error() {
            return;
        }
        node.retry_at = node.retry_at.max(now + self.config.member.retry_backoff.0);
        self.demand.refresh = true;
        let since = self.unknown_since.entry(spot.topic_partition()).or_default();
        if !passes(since, now, Some(code), code.is_retriable()) && !is_gone(code) {
            let what = format!("fetch {}-{} for share group {:?}", spot.topic, spot.partition, self.member.group());
            self.error.get_or_insert_with(|| Error::refused(code, what).at(&spot.topic, spot.partition));
        }
    }

    /// Hands out what became of a round's acknowledgements.
    fn answered(&mut self, id: i32, round: u64, outcomes: Vec<(TopicIdPartition, Option<Error>)>) {
        let mut is_heard = false;
        for commit in &mut self.commits {
            if !commit.rounds.remove(&(id, round)) {
                continue;
            }
            is_heard = true;
            for (spot, error) in &outcomes {
                note(&mut commit.outcomes, spot.topic_partition(), error.clone());
            }
        }
        if !is_heard {
            let room = OUTCOMES.saturating_sub(self.outcomes.len());
            self.outcomes
                .extend(outcomes.into_iter().take(room).map(|(s, e)| (TopicPartition::new(s.topic, s.partition), e)));
        }
        let (ended, open): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.commits).into_iter().partition(|c| c.rounds.is_empty());
        self.commits = open;
        self.done.extend(ended.into_iter().map(|c| (c.ticket, c.outcomes.into_iter().collect())));
    }

    /// Fails the acknowledgements that are under way.
    fn fail_sending(&mut self, id: i32, error: &Error) {
        let Some(node) = self.nodes.get_mut(&id) else { return };
        let round = node.round;
        let sent = std::mem::take(&mut node.sending);
        if !sent.is_empty() {
            self.answered(id, round, sent.spots().map(|s| (s.clone(), Some(error.clone()))).collect());
        }
    }

    /// Fails the acknowledgements that were not sent.
    fn fail_waiting(&mut self, id: i32, error: &Error) {
        let Some(node) = self.nodes.get_mut(&id) else { return };
        node.sending = std::mem::take(&mut node.acks);
        if !node.sending.is_empty() {
            node.round += 1;
            self.fail_sending(id, error);
        }
    }
}

impl Node {
    fn end_session(&mut self) {
        self.epoch = OPEN;
        self.told.clear();
        self.telling.clear();
    }
}

impl<T: Send> Role for ShareConsumer<T> {
    type Token = ShareToken;
    type Packet = Outgoing<ShareToken>;
    type Prepared = Prepared;

    fn pack(packet: Outgoing<ShareToken>) -> Outgoing<ShareToken> {
        packet
    }

    fn prepare(answer: ClientResponse<ShareToken>) -> Prepared {
        let ClientResponse { token, node, result } = answer;
        match token {
            ShareToken::Member(token) => Prepared::Member(ClientResponse { token, node, result }),
            ShareToken::Fetch(id, names, checks) => {
                Prepared::Leader(id, result.and_then(|reply| acquired::read_fetch(&names, checks, reply)))
            }
            ShareToken::Acknowledge(id, names) => {
                Prepared::Leader(id, result.and_then(|reply| acquired::read_acknowledge(&names, reply)))
            }
        }
    }

    fn handle_response(&mut self, now: Time, answer: Prepared) {
        match answer {
            Prepared::Leader(id, result) => self.handle_leader(now, id, result),
            Prepared::Member(answer) => {
                self.member.handle_response(now, answer);
                if let Some(error) = self.member.take_error() {
                    self.ended = Some(error);
                }
                self.error = self.member.take_complaint().or_else(|| self.error.take());
            }
        }
    }

    fn handle_cluster(&mut self, _: Time, cluster: &Arc<Cluster>) {
        self.cluster = cluster.clone();
        self.member.handle_cluster(cluster);
    }

    fn handle_unreachable(&mut self, now: Time, error: &Error) {
        self.member.handle_unreachable(now, error);
    }

    fn poll_send(&mut self, now: Time) -> Option<Outgoing<ShareToken>> {
        if let Some(outgoing) = self.member.poll_send(now) {
            return Some(outgoing.map(ShareToken::Member));
        }
        self.next_request(now)
    }

    fn poll_demand(&mut self) -> Option<MetadataDemand> {
        MetadataDemand::merge([self.demand.take(), self.member.poll_demand()])
    }

    fn wanted_topics(&self) -> BTreeSet<Arc<str>> {
        self.member.subscription().clone()
    }

    fn next_timeout(&self, now: Time) -> Option<Time> {
        let retries = self.nodes.values().filter(|n| !n.busy).map(|n| n.retry_at);
        let retry = retries.chain([self.refresh_at]).filter(|t| *t > now).min();
        earliest(self.member.next_timeout().map(|t| t.max(now + Duration::from_micros(1))), retry)
    }

    fn handle_timeout(&mut self, _: Time) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    fn consumer() -> ShareConsumer<u32> {
        ShareConsumer::new(ShareConfig {
            member: ShareMemberConfig {
                group: "g".to_owned(),
                rack: String::new(),
                request_timeout: Duration::from_secs(30),
                api_timeout: Duration::from_secs(60),
                retry_backoff: (Duration::from_millis(100), Duration::from_secs(1)),
                seed: 1,
            },
            record_limit: false,
            max_records: 500,
            min_bytes: 1,
            max_wait: Duration::from_millis(500),
            max_bytes: 1 << 20,
            check_crcs: true,
            decompress_limit: 1 << 20,
        })
    }

    #[test]
    fn what_may_pass_is_told_when_it_has_lasted() {
        let mut consumer = consumer();
        let spot = TopicIdPartition { topic: Arc::from("t"), id: crate::wire::Uuid([1; 16]), partition: 0 };
        let mut is_told = |seconds, code: Option<ErrorCode>| {
            let node = consumer.nodes.entry(1).or_default();
            node.told = [spot.clone()].into();
            let answered = |code| Answered {
                spot: spot.clone(),
                code,
                acknowledged: ErrorCode::NONE,
                slices: Vec::new(),
                settled: Vec::new(),
                error: None,
            };
            let partitions = code.map(answered).into_iter().collect();
            let all = AnsweredAll { is_fetch: true, partitions, ..AnsweredAll::default() };
            consumer.take_answer(Time(0) + Duration::from_secs(seconds), 1, all);
            consumer.error.take().is_some()
        };
        let unknown = Some(ErrorCode::UNKNOWN_SERVER_ERROR);
        assert_eq!([1, 5, 6].map(|at| is_told(at, unknown)), [false, false, true]);
        // A session leaves out partitions of which there is no news.
        assert!(!is_told(7, None) && !is_told(8, unknown) && is_told(13, unknown));
        assert!(!is_told(30, Some(ErrorCode::UNKNOWN_TOPIC_ID)), "the group takes it back");
        assert!(is_told(31, Some(ErrorCode::TOPIC_AUTHORIZATION_FAILED)));
    }

    #[test]
    fn a_commit_tells_what_was_heard_before_it_and_told_to_nobody() {
        let mut consumer = consumer();
        let refused = |code| Some(Error::refused(code, "acknowledge"));
        let (first, second) = (TopicPartition::new("t", 0), TopicPartition::new("t", 1));
        let errors = [None, refused(ErrorCode::INVALID_RECORD_STATE), refused(ErrorCode::NOT_LEADER_OR_FOLLOWER)];
        consumer.outcomes.extend(errors.map(|error| (first.clone(), error)));
        consumer.outcomes.push_back((second.clone(), None));
        consumer.commit(7);
        let (ticket, outcomes) = consumer.poll_done().expect("nothing is to be answered");
        let codes: Vec<_> = outcomes.into_iter().map(|(place, e)| (place, e.and_then(|e| e.code()))).collect();
        assert_eq!((ticket, codes), (7, vec![(first, Some(ErrorCode::INVALID_RECORD_STATE)), (second, None)]));
        assert!(consumer.take_outcomes().is_empty());
    }
}
