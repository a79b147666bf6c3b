//! Single operations with one result: offsets, commits, topics, groups, configurations.
//!
//! An operation may need several requests to several brokers. Each operation is an [`Op`]: `step` sends the missing
//! requests, `take` reads one response, and `output` returns the result when no request is missing. This file handles
//! retries, backoff, deadlines and metadata for all operations.

mod by_leader;
mod by_name;
mod confirm;
mod epochs;
mod fields;
mod group;
mod item;
mod offsets;
mod op;
mod topics;

pub use by_name::ByName;
pub use confirm::{Condition, Confirm, Knowing};
pub use epochs::EpochEnds;
pub use group::{Commit, Committed};
pub use item::{Item, ItemResult, Route};
pub use offsets::{ListOffsets, SegmentOffsets};
pub use op::{CommittedOffset, Op, OpContext, Output};
pub use topics::{Describe, Partitions};

use super::call::MAX_MALFORMED;
use super::{
    Backoff, ClientResponse, Cluster, Deadline, Error, ErrorKind, MetadataDemand, Outgoing, Role, Target, Time,
};
use crate::api::ErrorCode;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// How long a topic may be unknown to brokers before this is an error. All brokers know a new topic in much less than a
/// second.
pub const UNKNOWN_TOPIC_GRACE: Duration = Duration::from_secs(5);

/// How many times in a row brokers must report an unknown topic before this is an error. If a connection is slow, there
/// may be only one response within [`UNKNOWN_TOPIC_GRACE`], and that broker may have just restarted.
const MIN_UNKNOWN_TOPIC_RESPONSES: u32 = 3;

/// How often and since when brokers have reported a topic as unknown, without another response in between.
#[derive(Clone, Copy, Debug, Default)]
pub struct UnknownTopic {
    responses: u32,
    since: Option<Time>,
}

impl UnknownTopic {
    /// Notes whether a response reported the topic as unknown.
    pub fn note(&mut self, now: Time, is_unknown: bool) {
        *self = match is_unknown {
            true => Self { responses: self.responses + 1, since: self.since.or(Some(now)) },
            false => Self::default(),
        };
    }

    /// Returns when enough time has passed for an error. The time counts from the first of the responses: before it, no
    /// broker may have been reachable, and the one that responds may have just restarted.
    pub fn error_at(&self) -> Option<Time> {
        Some(self.since.filter(|_| self.responses >= MIN_UNKNOWN_TOPIC_RESPONSES)? + UNKNOWN_TOPIC_GRACE)
    }
}

pub(super) const WAIT_LONGER: &str = "increase the timeout, or check that the brokers run and can be reached";

/// Called once with the result of an operation.
pub type Completion = Box<dyn FnOnce(Result<Output, Error>) + Send>;

struct Running<T> {
    op: Box<dyn Op>,
    topics: BTreeSet<Arc<str>>,
    completion: T,
    started: Time,
    /// When the caller requested the operation, for messages.
    requested_at: Time,
    deadline: Time,
    backoff: Backoff,
    /// The time of the next step, or `None` while requests are in flight.
    next_step: Option<Time>,
    in_flight: Vec<InFlightRequest>,
    /// How many responses were malformed.
    malformed: u32,
    /// How many attempts in a row failed because a topic does not exist.
    unknown_topic: UnknownTopic,
    /// Whether the last attempt failed.
    failed: bool,
    error: Option<Error>,
}

impl<T> Running<T> {
    fn next_timeout(&self) -> Time {
        self.next_step.map_or(self.deadline, |at| at.min(self.deadline))
    }
}

/// A request in flight.
struct InFlightRequest {
    part: u32,
    target: Target,
    api: &'static str,
    sent_at: Time,
}

/// If a broker has not responded for this long, an error names this as its cause, even if other requests failed with an
/// error.
const SILENT_AFTER: Duration = Duration::from_secs(1);

/// Identifies an operation and one of its requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpToken {
    op: u64,
    part: u32,
}

/// Runs operations. `T` identifies an operation for the caller.
pub struct Ops<T> {
    running: BTreeMap<u64, Running<T>>,
    next: u64,
    cluster: Arc<Cluster>,
    demand: MetadataDemand,
    outbox: VecDeque<Outgoing<OpToken>>,
    done: VecDeque<(T, Result<Output, Error>)>,
    backoff: (Duration, Duration),
    unreachable: Option<Error>,
}

impl<T> Ops<T> {
    /// Creates a runner without operations. `backoff` is the shortest and the longest wait before a retry.
    pub fn new(backoff: (Duration, Duration)) -> Self {
        Self {
            running: BTreeMap::new(),
            next: 0,
            cluster: Arc::default(),
            demand: MetadataDemand::default(),
            outbox: VecDeque::new(),
            done: VecDeque::new(),
            backoff,
            unreachable: None,
        }
    }

    /// Starts an operation that ends within `timeout`. Returns its number, for [`Ops::why`].
    pub fn start(&mut self, now: Time, op: Box<dyn Op>, timeout: Duration, completion: T) -> u64 {
        let id = self.next;
        self.next += 1;
        let backoff = Backoff::new(self.backoff.0, self.backoff.1, now.0 ^ id.rotate_left(32));
        let deadline = now + timeout;
        let running = Running {
            op,
            topics: BTreeSet::new(),
            completion,
            started: now,
            requested_at: now,
            deadline,
            backoff,
            next_step: Some(now),
            in_flight: Vec::new(),
            malformed: 0,
            unknown_topic: UnknownTopic::default(),
            failed: false,
            error: None,
        };
        self.running.insert(id, running);
        if self.cluster.brokers.is_empty() {
            self.demand.refresh = true;
        }
        self.step(now, id);
        id
    }

    /// Notes that an operation continues one that the caller requested earlier. If the operation times out, its error
    /// then names the whole time, and the error of the previous attempt.
    pub fn continues(&mut self, op: u64, requested_at: Time, last_error: Option<Error>) {
        if let Some(running) = self.running.get_mut(&op) {
            running.requested_at = requested_at;
            running.error = running.error.take().or(last_error);
        }
    }

    /// Returns why an operation has no result yet, if the operation is still running.
    pub fn why(&self, now: Time, op: u64) -> Option<Error> {
        self.running.get(&op).map(|running| self.explain(now, running))
    }

    /// Returns why the first matching operation has no result yet. `is_it` compares completions.
    pub fn why_of(&self, now: Time, is_it: impl Fn(&T) -> bool) -> Option<Error> {
        self.running.values().find(|r| is_it(&r.completion)).map(|running| self.explain(now, running))
    }

    fn explain(&self, now: Time, running: &Running<T>) -> Error {
        self.explain_requests(now, running.in_flight.iter(), &running.topics, running.error.as_ref())
    }

    fn explain_requests<'a>(
        &self,
        now: Time,
        in_flight: impl Iterator<Item = &'a InFlightRequest>,
        topics: &BTreeSet<Arc<str>>,
        last_error: Option<&Error>,
    ) -> Error {
        let silent = in_flight.min_by_key(|request| request.sent_at);
        let silent = silent.filter(|request| last_error.is_none() || now.since(request.sent_at) >= SILENT_AFTER);
        if let Some(request) = silent {
            return self.no_response_error(request);
        }
        let why = last_error.or(self.unreachable.as_ref()).cloned();
        why.unwrap_or_else(|| {
            let unknown = topics.iter().find(|topic| !self.cluster.topics.contains_key(*topic));
            let of_what = unknown.map_or_else(|| "the cluster".to_owned(), |topic| format!("topic {topic:?}"));
            Error::new(ErrorKind::Timeout, format!("no broker has returned metadata of {of_what} yet"))
                .with_hint(WAIT_LONGER)
        })
    }

    fn no_response_error(&self, request: &InFlightRequest) -> Error {
        let node = match request.target {
            Target::Node(node) | Target::Fetch(node) | Target::Group(node) => Some(node),
            Target::Controller => Some(self.cluster.controller),
            Target::Telemetry | Target::Any => None,
        };
        let error = match (node.filter(|node| self.cluster.brokers.contains_key(node)), &self.unreachable) {
            (Some(node), _) => {
                let message = format!("broker {node} has not responded to {} yet", request.api);
                Error::new(ErrorKind::Timeout, message).from_broker(self.cluster.address(node)).of_node(node)
            }
            (None, Some(error)) => return error.clone(),
            (None, None) => Error::new(ErrorKind::Timeout, format!("no broker has responded to {} yet", request.api)),
        };
        error.with_hint(WAIT_LONGER)
    }

    /// Returns whether no operation is running.
    pub fn is_idle(&self) -> bool {
        self.running.is_empty()
    }

    /// Ends every operation with an error.
    pub fn fail_all(&mut self, error: &Error) {
        let ids: Vec<u64> = self.running.keys().copied().collect();
        ids.into_iter().for_each(|id| self.finish(id, Err(error.clone())));
    }

    /// Returns the completion of the next operation that ended, with its result.
    pub fn poll_done(&mut self) -> Option<(T, Result<Output, Error>)> {
        self.done.pop_front()
    }

    fn with<R>(&mut self, now: Time, id: u64, f: impl FnOnce(&mut dyn Op, &mut OpContext<'_>) -> R) -> Option<R> {
        let running = self.running.get_mut(&id)?;
        let (demand, wanted) = (&mut self.demand, &mut running.topics);
        let mut cx = OpContext { now, cluster: &self.cluster, demand, wanted, sent: Vec::new() };
        let result = f(&mut *running.op, &mut cx);
        for (target, call, part, max_version) in cx.sent {
            running.in_flight.push(InFlightRequest { part, target, api: call.api().name, sent_at: now });
            let token = OpToken { op: id, part };
            let deadline = Deadline::ToSend(running.deadline);
            self.outbox.push_back(Outgoing { target, call, token, deadline, max_version });
        }
        Some(result)
    }

    fn step(&mut self, now: Time, id: u64) {
        if let Some(running) = self.running.get_mut(&id) {
            (running.next_step, running.failed) = (None, false);
        }
        let result = self.with(now, id, |op, cx| op.step(cx));
        self.apply_result(now, id, result);
    }

    fn apply_result(&mut self, now: Time, id: u64, result: Option<Result<(), Error>>) {
        let (Some(result), Some(running)) = (result, self.running.get_mut(&id)) else {
            return;
        };
        let is_idle = running.op.has_idle_items();
        running.failed = result.is_err() || (is_idle && running.failed);
        if let Err(error) = result {
            let unknown = error.code() == Some(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
            running.unknown_topic.note(now, unknown);
            let can_retry = !unknown || running.unknown_topic.error_at().is_none_or(|at| now < at);
            let is_unexpected = error.code().is_some_and(|code| !code.is_retriable() && !code.is_permanent());
            let may_pass = is_unexpected && running.op.only_reads() && now.since(running.started) < UNKNOWN_TOPIC_GRACE;
            let retries = (error.is_retriable() && can_retry) || may_pass || running.op.handles_errors();
            if !retries {
                return self.finish(id, Err(error));
            }
            self.demand.refresh = true;
            running.error = Some(error);
        }
        if let Some(output) = running.op.output() {
            return self.finish(id, Ok(output));
        }
        let planned = running.next_step.filter(|_| is_idle);
        running.next_step = (is_idle || running.in_flight.is_empty())
            .then(|| planned.unwrap_or_else(|| now + running.backoff.next_wait()));
    }

    /// Makes the error of a malformed response retriable, until there are several such responses. Adds the broker to
    /// the error.
    fn check_malformed(&mut self, id: u64, node: i32, error: Error) -> Error {
        let is_placed = error.broker().is_some() || !self.cluster.brokers.contains_key(&node);
        let error = if is_placed { error } else { error.from_broker(self.cluster.address(node)).of_node(node) };
        let Some(running) = self.running.get_mut(&id).filter(|_| error.kind() == ErrorKind::Decode) else {
            return error;
        };
        running.malformed += 1;
        if running.malformed == MAX_MALFORMED {
            return error;
        }
        running.op.lost();
        Error::new(ErrorKind::Network, error.message_with_broker())
    }

    fn expire(&mut self, now: Time, id: u64) {
        let Some(mut running) = self.running.remove(&id) else { return };
        let time = running.deadline.since(running.requested_at);
        let (in_flight, topics) = (&running.in_flight, &running.topics);
        let explain = |part: Option<u32>, error: Option<&Error>| {
            let of_item = in_flight.iter().filter(|request| Some(request.part) == part);
            self.explain_requests(now, of_item, topics, error)
        };
        let output = running.op.expire(time, &explain);
        let in_vain = || Error::in_vain(running.op.name(), time, &self.explain(now, &running), "check the brokers");
        let result = output.ok_or_else(in_vain);
        self.running.insert(id, running);
        self.finish(id, result);
    }

    fn finish(&mut self, id: u64, result: Result<Output, Error>) {
        if let Some(running) = self.running.remove(&id) {
            self.demand.drops_topics |= !running.topics.is_empty();
            self.done.push_back((running.completion, result));
        }
    }
}

impl<T: Send> Role for Ops<T> {
    type Token = OpToken;
    type Request = Outgoing<OpToken>;
    type Prepared = ClientResponse<OpToken>;

    fn build_request(request: Outgoing<OpToken>) -> Outgoing<OpToken> {
        request
    }

    fn prepare(response: ClientResponse<OpToken>) -> ClientResponse<OpToken> {
        response
    }

    fn handle_response(&mut self, now: Time, response: ClientResponse<OpToken>) {
        let OpToken { op: id, part } = response.token;
        let Some(running) = self.running.get_mut(&id) else {
            return;
        };
        if let Some(at) = running.in_flight.iter().position(|request| request.part == part) {
            running.in_flight.swap_remove(at);
        }
        let result = match response.result {
            Ok(reply) => {
                let taken = self.with(now, id, |op, cx| op.take(cx, part, response.node, reply));
                taken.map(|taken| taken.map_err(|error| self.check_malformed(id, response.node, error)))
            }
            Err(error) => self.with(now, id, |op, cx| op.fail(cx, part, error)),
        };
        self.apply_result(now, id, result);
    }

    fn handle_cluster(&mut self, now: Time, cluster: &Arc<Cluster>) {
        self.cluster = cluster.clone();
        self.unreachable = None;
        // Operations that failed wait for their backoff. The others may have waited for metadata.
        let waiting = |r: &Running<T>| (r.in_flight.is_empty() || r.op.has_idle_items()) && !r.failed;
        let waiting: Vec<u64> = self.running.iter().filter(|(_, r)| waiting(r)).map(|(id, _)| *id).collect();
        for id in waiting {
            self.step(now, id);
        }
    }

    fn handle_unreachable(&mut self, _now: Time, error: &Error) {
        if error.is_refusal() {
            // A retry would fail in the same way.
            return self.fail_all(error);
        }
        self.unreachable = Some(error.clone());
    }

    fn poll_send(&mut self, _now: Time) -> Option<Outgoing<OpToken>> {
        self.outbox.pop_front()
    }

    fn poll_demand(&mut self) -> Option<MetadataDemand> {
        self.demand.take()
    }

    fn needed_topics(&self) -> BTreeSet<Arc<str>> {
        self.running.values().flat_map(|r| &r.topics).cloned().collect()
    }

    fn next_timeout(&self, _now: Time) -> Option<Time> {
        self.running.values().map(Running::next_timeout).min()
    }

    fn handle_timeout(&mut self, now: Time) {
        let is_due = |r: &Running<T>| r.next_timeout() <= now;
        let ids: Vec<u64> = self.running.iter().filter(|(_, r)| is_due(r)).map(|(id, _)| *id).collect();
        for id in ids {
            let Some(running) = self.running.get(&id) else {
                continue;
            };
            if running.deadline > now {
                self.step(now, id);
                continue;
            }
            self.expire(now, id);
        }
    }
}
