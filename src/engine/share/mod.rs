//! The share consumer (KIP-932): acquires records from the partition leaders and acknowledges them.
//!
//! An acquired record is locked for the member until the lock expires. The share consumer therefore fetches records
//! only when the application polls. The consumer has a share session with each leader. The requests of a session are
//! numbered, and each session has at most one request in flight. The consumer sends acknowledgements with the next
//! ShareFetch request, or in a ShareAcknowledge request if no fetch is due. When a connection ends, its share session
//! and the locks of the session also end. After a share session has ended, acknowledgements of its records fail, and
//! the group delivers these records again.
//!
//! `engine/group` implements the membership in the share group. `requests.rs` builds requests, and `acquired.rs` reads
//! responses.

mod acks;
mod acquired;
mod families;
mod leader_session;
mod measured;
mod requests;
mod results;
mod subscription;

use super::call::MAX_MALFORMED;
use super::consumer::{IDLE_PAUSE, Slice, is_temporary, is_unknown_topic};
use super::group::{self, ShareMember, ShareMemberConfig};
use super::outage::{Outage, STANDING_ERROR_PAUSE};
use super::topic_errors::TopicErrors;
use super::{
    ClientResponse, Cluster, Error, ErrorKind, MetadataDemand, Outgoing, Role, Target, Time, TopicIdPartition,
    TopicPartition, earliest, throttle, wait_after,
};
use crate::api::share_acknowledge::{ACCEPT, GAP, RELEASE, RENEW};
use crate::api::{ErrorCode, share_acknowledge};
use crate::logging::Component;
use acquired::{DecodeOptions, LeaderResponse, PartitionResult, TopicNames};
use leader_session::LeaderSession;
use measured::Measured;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// The epoch of a request that opens a session.
const OPEN: i32 = 0;

/// How long the consumer sends no fetch to a leader whose response was too large to be read.
const OVERSIZED_PAUSE: Duration = Duration::from_secs(30);

/// Configuration of a share consumer.
#[derive(Clone, Debug)]
pub struct ShareConfig {
    /// The configuration of the membership.
    pub member: ShareMemberConfig,
    /// The wall-clock time at [`Time`] 0, in milliseconds since 1970.
    pub started_ms: i64,
    /// Whether a fetch acquires at most `max_records`, instead of whole batches (KIP-1206).
    pub record_limit: bool,
    /// The largest number of records per fetch.
    pub max_records: i32,
    /// The broker responds to a fetch as soon as it has this many bytes.
    pub min_bytes: i32,
    /// How long the broker waits for `min_bytes`.
    pub max_wait: Duration,
    /// The approximate size limit of a response, in bytes.
    pub max_bytes: i32,
    /// Whether to verify checksums.
    pub check_crcs: bool,
    /// The largest decompressed size of a batch, in bytes.
    pub decompress_limit: usize,
}

/// The acknowledgement of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acknowledgement {
    /// The application has processed the record.
    Accept,
    /// The group may deliver the record again.
    Release,
    /// The group must not deliver the record again.
    Reject,
    /// The member needs more time for the record (KIP-1222).
    Renew,
}

impl Acknowledgement {
    /// All acknowledgements, with their names.
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

/// The results of acknowledgements, by partition.
pub type AckResults = Vec<(TopicPartition, Option<Error>)>;

/// Identifies the request to which a response belongs.
pub enum ShareToken {
    /// A fetch.
    Fetch(i32, TopicNames, DecodeOptions),
    /// An acknowledgement.
    Acknowledge(i32, TopicNames),
    /// A request of the membership.
    Member(group::GroupToken),
}

/// A decoded response.
pub enum Prepared {
    /// The response to a fetch or to acknowledgements.
    Leader(i32, Result<LeaderResponse, Error>),
    /// A response for the membership.
    Member(ClientResponse<group::GroupToken>),
}

/// Acquired records that are not delivered yet.
struct Buffered {
    topic_partition: TopicIdPartition,
    node: i32,
    /// When the lock of these records expires.
    until: Time,
    slices: VecDeque<Slice>,
}

/// A delivered record that the application has not acknowledged.
#[derive(Clone, Copy, Debug)]
struct Delivered {
    node: i32,
    id: crate::wire::Uuid,
    /// Whether the application has renewed the lock of the record.
    renewed: bool,
}

/// A commit that waits for the results of acknowledgements. The requests are identified by broker and number.
struct PendingCommit<T> {
    completion: T,
    rounds: BTreeSet<(i32, u64)>,
    results: BTreeMap<TopicPartition, Option<Error>>,
}

/// State machine of a share consumer. `T` identifies the caller of a commit.
pub struct ShareConsumer<T> {
    config: ShareConfig,
    member: ShareMember,
    nodes: BTreeMap<i32, LeaderSession>,
    buffer: VecDeque<Buffered>,
    /// When partitions began to fail with temporary errors.
    unknown_since: BTreeMap<TopicPartition, Option<Time>>,
    delivered: BTreeMap<TopicPartition, BTreeMap<i64, Delivered>>,
    /// Whether the last poll found no buffered records, so that the consumer must fetch.
    poll_needs_records: bool,
    leaving: bool,
    lock: Option<Duration>,
    commits: Vec<PendingCommit<T>>,
    done: VecDeque<(T, AckResults)>,
    /// Results for which no commit waited.
    results: VecDeque<(TopicPartition, Option<Error>)>,
    error: Option<Error>,
    /// The error that ended the membership. Polls raise this error until the application subscribes again, at most once
    /// per [`STANDING_ERROR_PAUSE`].
    ended: Option<Error>,
    /// Until when polls do not raise that error again.
    pause_errors_until: Option<Time>,
    outage: Outage,
    measured: Measured,
    cluster: Arc<Cluster>,
    /// Like `cluster`, but a topic with a temporary error has its last metadata without an error.
    bridged: Arc<Cluster>,
    topic_errors: TopicErrors,
    /// When the application last got an error about a topic that does not exist.
    missing_topic_reported_at: Time,
    refresh_at: Time,
    demand: MetadataDemand,
}

/// Adds a result to the results of a commit, which keep the first error of each partition.
fn add_result(results: &mut BTreeMap<TopicPartition, Option<Error>>, partition: TopicPartition, error: Option<Error>) {
    let result = results.entry(partition).or_default();
    *result = result.take().or(error);
}

impl<T: Send> ShareConsumer<T> {
    /// Creates a consumer without a subscription.
    pub fn new(config: ShareConfig) -> Self {
        Self {
            member: ShareMember::new(config.member.clone()),
            outage: Outage::new(config.member.api_timeout),
            measured: Measured::default(),
            bridged: Arc::default(),
            topic_errors: TopicErrors::default(),
            missing_topic_reported_at: Time(0),
            config,
            nodes: BTreeMap::new(),
            buffer: VecDeque::new(),
            unknown_since: BTreeMap::new(),
            delivered: BTreeMap::new(),
            poll_needs_records: false,
            leaving: false,
            lock: None,
            commits: Vec::new(),
            done: VecDeque::new(),
            results: VecDeque::new(),
            error: None,
            ended: None,
            pause_errors_until: None,
            cluster: Arc::default(),
            refresh_at: Time(0),
            demand: MetadataDemand::default(),
        }
    }

    /// Returns the member ID.
    pub fn member_id(&self) -> &str {
        self.member.id()
    }

    /// Returns how long the lock of acquired records lasts, if a broker has reported it.
    pub fn lock(&self) -> Option<Duration> {
        self.lock
    }

    /// Returns whether [`ShareConsumer::poll_records`] would return records or an error.
    pub fn is_ready(&self) -> bool {
        let has_ended = self.ended.is_some() && self.pause_errors_until.is_none();
        let has_error = self.error.is_some() || has_ended || self.outage.is_due();
        has_error || self.member.has_join_error() || !self.buffer.is_empty()
    }

    /// Returns the number of delivered records without an acknowledgement.
    pub fn unacknowledged(&self) -> usize {
        self.delivered.values().flat_map(BTreeMap::values).filter(|r| !r.renewed).count()
    }

    /// Delivers at most `max_records` buffered records. If there are none, starts a fetch.
    pub fn poll_records(&mut self, now: Time, max_records: usize) -> Result<Vec<Slice>, Error> {
        // Drop records whose lock expired: other members may have them.
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
            let delivered = Delivered { node: buffered.node, id: buffered.topic_partition.id, renewed: false };
            let delivered_records =
                self.delivered.entry(TopicPartition::new(slice.topic.clone(), slice.partition)).or_default();
            delivered_records.extend(slice.records.iter().map(|r| (r.offset, delivered)));
            out.push(slice);
        }
        self.note_delivered(now, &out);
        self.end_idle_pause();
        self.poll_needs_records = out.is_empty();
        if out.is_empty() {
            let error = self.error.take().or_else(|| self.member.take_join_error()).or_else(|| self.outage.take());
            return error.or_else(|| self.standing_error(now)).map_or(Ok(out), Err);
        }
        self.flush();
        Ok(out)
    }

    /// Returns the error that ended the membership, unless a poll has just raised it.
    fn standing_error(&mut self, now: Time) -> Option<Error> {
        if self.pause_errors_until.is_some_and(|until| now < until) {
            return None;
        }
        let error = self.ended.clone()?;
        self.pause_errors_until = Some(now + STANDING_ERROR_PAUSE);
        Some(error)
    }

    fn flush(&mut self) {
        self.nodes.values_mut().for_each(|node| node.flush |= !node.acks.is_empty());
    }

    /// Acknowledges a record. Returns false if the record was not delivered, or is already acknowledged.
    pub fn acknowledge(&mut self, topic: &Arc<str>, partition: i32, offset: i64, what: Acknowledgement) -> bool {
        let key = TopicPartition::new(topic.clone(), partition);
        let Some(delivered_records) = self.delivered.get_mut(&key) else { return false };
        let Some(record) = delivered_records.get_mut(&offset) else { return false };
        let node = self.nodes.entry(record.node).or_default();
        let topic_partition = TopicIdPartition { topic: key.topic.clone(), id: record.id, partition };
        node.acks.put(&topic_partition, offset, what.number());
        if what == Acknowledgement::Renew {
            record.renewed = true;
            node.flush = true;
            return true;
        }
        delivered_records.remove(&offset);
        if delivered_records.is_empty() {
            self.delivered.remove(&key);
        }
        true
    }

    /// Sends all acknowledgements. The commit completes when all acknowledgements have results. The commit also reports
    /// earlier results that no commit has reported. For example, the consumer sends a renewal at once, so the result
    /// may arrive before the commit.
    pub fn commit(&mut self, completion: T) {
        let mut results = BTreeMap::new();
        for (partition, error) in self.results.drain(..) {
            add_result(&mut results, partition, error);
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
            self.done.push_back((completion, results.into_iter().collect()));
        } else {
            self.commits.push(PendingCommit { completion, rounds, results });
        }
    }

    /// Returns the next completed commit.
    pub fn poll_done(&mut self) -> Option<(T, AckResults)> {
        self.done.pop_front()
    }

    /// Returns the results for which no commit waited.
    pub fn take_results(&mut self) -> AckResults {
        self.results.drain(..).collect()
    }

    /// Closes every session and leaves the group. When a session closes, the broker releases its unacknowledged
    /// records.
    pub fn leave(&mut self, now: Time) {
        self.leaving = true;
        self.poll_needs_records = false;
        self.buffer.clear();
        self.delivered.clear();
        // A leader without a session has nothing to close, and may not be asked for a while.
        self.nodes.retain(|_, node| node.busy || node.epoch != OPEN || !node.acks.is_empty());
        self.member.leave(now);
    }

    /// Returns whether all sessions are closed and the consumer has left the group.
    pub fn has_left(&self) -> bool {
        self.leaving && self.member.has_left() && self.nodes.is_empty()
    }

    /// Logs that the coordinator has not confirmed that the consumer left its group, if the consumer is leaving.
    pub fn log_unfinished_leave(&self) {
        self.member.log_unfinished_leave();
    }

    /// Fails every commit.
    pub fn fail_all(&mut self, error: &Error) {
        let nodes: Vec<i32> = self.nodes.keys().copied().collect();
        for id in nodes {
            self.fail_sending(id, error);
            self.fail_waiting(id, error);
        }
        self.error.get_or_insert_with(|| error.clone());
    }

    fn handle_leader(&mut self, now: Time, id: i32, result: Result<LeaderResponse, Error>) {
        let Some(node) = self.nodes.get_mut(&id) else { return };
        node.busy = false;
        match result {
            Ok(all) => {
                (node.failures, node.session_errors, node.malformed) = (0, 0, 0);
                node.unknown_since = None;
                // The epoch wraps around to 1, because 0 opens a session.
                node.epoch = if node.epoch == i32::MAX { 1 } else { node.epoch + 1 };
                node.partitions = std::mem::take(&mut node.next_partitions);
                let request_timeout = self.config.member.request_timeout;
                node.retry_at = now + throttle(Component::Share, &self.cluster, id, all.throttle, request_timeout);
                if all.has_no_records() {
                    node.idle_until = node.sent_at + IDLE_PAUSE;
                }
                self.measured.note_fetch(now, &all);
                self.handle_leader_response(now, id, all);
            }
            Err(error) => {
                node.end_session();
                // The broker releases the session's records.
                self.buffer.retain(|b| b.node != id);
                let is_session_error = matches!(
                    error.code(),
                    Some(ErrorCode::SHARE_SESSION_NOT_FOUND | ErrorCode::INVALID_SHARE_SESSION_EPOCH)
                );
                node.session_errors = if is_session_error { node.session_errors.saturating_add(1) } else { 0 };
                if node.session_errors > 1 {
                    // One such error is normal. Without backoff, a broker that always answers so would get thousands of
                    // requests per second.
                    node.retry_at = now + wait_after(node.session_errors - 1, self.config.member.retry_backoff, now.0);
                }
                if !is_session_error {
                    node.failures = node.failures.saturating_add(1);
                    node.retry_at = now + wait_after(node.failures, self.config.member.retry_backoff, now.0);
                    self.demand.refresh = true;
                    // A damaged line may change the length of a response, so one that is too large proves nothing.
                    let is_oversized = error.code() == Some(ErrorCode::RECORD_LIST_TOO_LARGE);
                    let is_doubtful = is_oversized || error.kind() == ErrorKind::Decode;
                    node.malformed = if is_doubtful { node.malformed.saturating_add(1) } else { 0 };
                    let is_retriable = error.is_retriable() || (1..MAX_MALFORMED).contains(&node.malformed);
                    let may_pass = is_temporary(&mut node.unknown_since, now, error.code(), is_retriable);
                    if is_oversized && node.malformed >= MAX_MALFORMED {
                        // Each attempt makes the broker send all of it again.
                        node.retry_at = now + OVERSIZED_PAUSE;
                    }
                    if !may_pass && !self.leaving {
                        self.error.get_or_insert_with(|| {
                            let topics: Vec<&str> = self.member.subscription().iter().map(|topic| &**topic).collect();
                            let what = format!("fetch {} for share group {:?}", topics.join(", "), self.member.group());
                            error.clone().with_message(format!("{what}: {}", error.message()))
                        });
                    }
                }
                self.fail_sending(id, &error);
            }
        }
        self.nodes.retain(|_, node| !node.closing || node.busy);
    }

    fn handle_leader_response(&mut self, now: Time, id: i32, response: LeaderResponse) {
        if !response.lock.is_zero() {
            self.lock = Some(response.lock);
        }
        if !response.leader_changes.is_empty() {
            self.demand.leader_changes.extend(response.leader_changes);
        }
        let Some(node) = self.nodes.get_mut(&id) else { return };
        if response.is_fetch && !self.unknown_since.is_empty() {
            let mut healthy: BTreeSet<_> =
                node.partitions.iter().map(|topic_partition| topic_partition.topic_partition()).collect();
            for p in response.partitions.iter().filter(|p| p.code.is_error()) {
                healthy.remove(&p.topic_partition.topic_partition());
            }
            self.unknown_since.retain(|partition, _| !healthy.contains(partition));
        }
        let sent = std::mem::take(&mut node.sending);
        let round = node.round;
        let mut without_result: BTreeSet<TopicIdPartition> = sent.partitions().cloned().collect();
        let mut results = Vec::new();
        for partition in response.partitions {
            if without_result.remove(&partition.topic_partition) {
                let tried = || {
                    format!(
                        "acknowledge records of {}-{}",
                        partition.topic_partition.topic, partition.topic_partition.partition
                    )
                };
                let error = partition.acknowledged.check().err().map(|code| Error::refused(code, tried()));
                self.measured.note_acks(now, sent.count(&partition.topic_partition), error.is_some());
                results.push((partition.topic_partition.clone(), error));
            }
            self.take_records(now, id, partition);
        }
        let missing_result = |topic_partition: TopicIdPartition| {
            let message = format!(
                "broker {id} sent no result for acknowledgements of {}-{}",
                topic_partition.topic, topic_partition.partition
            );
            (topic_partition, Some(Error::new(ErrorKind::Decode, message)))
        };
        results.extend(without_result.into_iter().map(missing_result));
        self.report_results(id, round, results);
    }

    fn take_records(&mut self, now: Time, id: i32, partition: PartitionResult) {
        let PartitionResult { topic_partition, code, slices, undeliverable, error, .. } = partition;
        let Some(node) = self.nodes.get_mut(&id) else { return };
        for (first, last, kind) in undeliverable {
            node.acks.put_range(&topic_partition, first, last, kind);
            // These records are not delivered here. Other members may process them, so they must not wait.
            node.flush |= kind != GAP;
        }
        let is_subscribed = self.member.subscription().contains(&topic_partition.topic);
        if self.leaving || !is_subscribed {
            slices.iter().flat_map(|s| &s.records).for_each(|r| node.acks.put(&topic_partition, r.offset, RELEASE));
            node.flush = true;
        } else if !slices.is_empty() {
            let until = self.lock.map_or(Time::NEVER, |lock| now + lock);
            self.buffer.push_back(Buffered {
                topic_partition: topic_partition.clone(),
                node: id,
                until,
                slices: slices.into(),
            });
        }
        if let Some(error) = error {
            self.error.get_or_insert(error);
        }
        if !code.is_error() {
            return;
        }
        node.retry_at = node.retry_at.max(now + self.config.member.retry_backoff.0);
        self.demand.refresh = true;
        let since = self.unknown_since.entry(topic_partition.topic_partition()).or_default();
        if !is_temporary(since, now, Some(code), code.is_retriable()) && !is_unknown_topic(code) {
            let what = format!(
                "fetch {}-{} for share group {:?}",
                topic_partition.topic,
                topic_partition.partition,
                self.member.group()
            );
            self.error.get_or_insert_with(|| {
                Error::refused(code, what).at(&topic_partition.topic, topic_partition.partition)
            });
        }
    }
}

impl<T: Send> Role for ShareConsumer<T> {
    type Token = ShareToken;
    type Request = Outgoing<ShareToken>;
    type Prepared = Prepared;

    fn build_request(request: Outgoing<ShareToken>) -> Outgoing<ShareToken> {
        request
    }

    fn prepare(answer: ClientResponse<ShareToken>) -> Prepared {
        let ClientResponse { token, node, result } = answer;
        match token {
            ShareToken::Member(token) => Prepared::Member(ClientResponse { token, node, result }),
            ShareToken::Fetch(id, names, options) => {
                Prepared::Leader(id, result.and_then(|reply| acquired::decode_fetch_response(&names, options, reply)))
            }
            ShareToken::Acknowledge(id, names) => {
                Prepared::Leader(id, result.and_then(|reply| acquired::decode_acknowledge_response(&names, reply)))
            }
        }
    }

    fn handle_response(&mut self, now: Time, answer: Prepared) {
        let error = match &answer {
            Prepared::Leader(_, result) => result.as_ref().err(),
            Prepared::Member(response) => response.result.as_ref().err(),
        };
        match error {
            Some(error) => self.outage.failed(now, now, error),
            None => self.outage.ended(),
        }
        match answer {
            Prepared::Leader(id, result) => self.handle_leader(now, id, result),
            Prepared::Member(answer) => {
                self.member.handle_response(now, answer);
                self.measured.note_rebalancing(now, self.member.is_joining());
                if let Some(error) = self.member.take_error() {
                    self.ended = Some(error);
                }
                self.error = self.member.take_nonfatal_error().or_else(|| self.error.take());
            }
        }
    }

    fn handle_cluster(&mut self, now: Time, cluster: &Arc<Cluster>) {
        if cluster.updated_at > self.cluster.updated_at {
            self.outage.ended();
        }
        self.cluster = cluster.clone();
        self.bridged = self.topic_errors.bridge(now, &self.bridged, cluster);
        self.member.handle_cluster(&self.bridged);
        self.report_missing(now);
    }

    fn handle_disconnect(&mut self, now: Time, target: Target) {
        if let Target::Fetch(id) = target
            && let Some(node) = self.nodes.get_mut(&id).filter(|node| !node.busy)
        {
            node.retry_at = now;
        }
    }

    fn handle_unreachable(&mut self, now: Time, error: &Error) {
        self.outage.unreachable(now, error);
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

    fn needed_topics(&self) -> BTreeSet<Arc<str>> {
        self.member.subscription().clone()
    }

    fn next_timeout(&self, now: Time) -> Option<Time> {
        let retries = self.nodes.values().filter(|n| !n.busy).flat_map(|n| [n.retry_at, n.idle_until]);
        let retry = retries.chain([self.refresh_at]).filter(|t| *t > now).min();
        let member = self.member.next_timeout().map(|t| t.max(now + Duration::from_micros(1)));
        earliest(earliest(member, retry), earliest(self.outage.next_timeout(), self.pause_errors_until))
    }

    fn handle_timeout(&mut self, now: Time) {
        self.pause_errors_until.take_if(|until| *until <= now);
        // A member that cannot join reports that itself.
        let is_wanted = !self.member.subscription().is_empty() && !self.member.fails_to_join();
        self.outage.handle_timeout(now, is_wanted, "reading from the brokers");
    }
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
            started_ms: 0,
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
    fn temporary_errors_are_reported_when_they_last() {
        let mut consumer = consumer();
        let topic_partition = TopicIdPartition { topic: Arc::from("t"), id: crate::wire::Uuid([1; 16]), partition: 0 };
        let mut is_reported = |seconds, code: Option<ErrorCode>| {
            let node = consumer.nodes.entry(1).or_default();
            node.partitions = [topic_partition.clone()].into();
            let answered = |code| PartitionResult::new(topic_partition.clone(), code, ErrorCode::NONE);
            let partitions = code.map(answered).into_iter().collect();
            let all = LeaderResponse { is_fetch: true, partitions, ..LeaderResponse::default() };
            consumer.handle_leader_response(Time(0) + Duration::from_secs(seconds), 1, all);
            consumer.error.take().is_some()
        };
        let unknown = Some(ErrorCode::UNKNOWN_SERVER_ERROR);
        assert_eq!([1, 5, 6].map(|at| is_reported(at, unknown)), [false, false, true]);
        // A session leaves out partitions without news.
        assert!(!is_reported(7, None) && !is_reported(8, unknown) && is_reported(13, unknown));
        assert!(!is_reported(30, Some(ErrorCode::UNKNOWN_TOPIC_ID)), "the group revokes it");
        assert!(is_reported(31, Some(ErrorCode::TOPIC_AUTHORIZATION_FAILED)));
    }

    #[test]
    fn a_commit_reports_earlier_results_that_were_not_reported() {
        let mut consumer = consumer();
        let refused = |code| Some(Error::refused(code, "acknowledge"));
        let (first, second) = (TopicPartition::new("t", 0), TopicPartition::new("t", 1));
        let errors = [None, refused(ErrorCode::INVALID_RECORD_STATE), refused(ErrorCode::NOT_LEADER_OR_FOLLOWER)];
        consumer.results.extend(errors.map(|error| (first.clone(), error)));
        consumer.results.push_back((second.clone(), None));
        consumer.commit(7);
        let (completion, results) = consumer.poll_done().expect("no acknowledgement is in flight");
        let codes: Vec<_> = results.into_iter().map(|(partition, e)| (partition, e.and_then(|e| e.code()))).collect();
        assert_eq!((completion, codes), (7, vec![(first, Some(ErrorCode::INVALID_RECORD_STATE)), (second, None)]));
        assert!(consumer.take_results().is_empty());
    }
}
