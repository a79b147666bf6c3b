//! Finds a group's coordinator, sends it a member's requests, and decides when to retry.
//!
//! All group protocols use this client. Each group protocol handles joining and assignments in its own file.

use crate::api::{self, Info, find_coordinator};
use crate::engine::call::MAX_MALFORMED;
use crate::engine::reminder::Reminder;
use crate::engine::timers::Timers;
use crate::engine::{
    Backoff, Call, Cluster, Deadline, Error, ErrorKind, MetadataDemand, Outgoing, Reply, Target, Time, coordinator,
};
use crate::logging::Component;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// How long leaving a group may take. The cluster replaces a failed coordinator within nine seconds. A member that ends
/// without leaving the group keeps its partitions until its session times out. The session timeout is usually 45
/// seconds, and a new coordinator starts this time again.
pub(super) const LEAVE_WITHIN: Duration = Duration::from_secs(12);
/// How long a member that leaves waits for one response.
const LEAVE_ATTEMPT: Duration = Duration::from_secs(3);

/// The timers of a group member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GroupTimer {
    /// The time of the next request after a failure.
    Retry,
    /// The time of the next heartbeat.
    Heartbeat,
    /// The deadline for leaving the group.
    Leave,
    /// The time of the next request for the names of topics whose IDs are known.
    TopicNames,
}

/// Identifies the request to which a response belongs. The member ignores responses of earlier rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupToken {
    pub(super) round: u64,
    pub(super) step: Step,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Find,
    Join,
    Sync,
    Heartbeat,
    Leave,
}

/// How long a group may lack a coordinator that is ready before the client logs a warning. The first group of a new
/// cluster waits for the partitions of `__consumer_offsets`, and a new coordinator loads the group.
const COORDINATOR_GRACE: Duration = Duration::from_secs(5);

/// The reason why a member has not joined its group yet, although it keeps trying.
struct JoinFailure {
    /// When joining first failed.
    first: Time,
    /// When joining first failed, plus the time that the coordinator waited for other members.
    since: Time,
    last: Error,
    /// The error that `poll()` has not raised yet.
    due: Option<Error>,
}

/// A member's connection to its coordinator.
pub(super) struct CoordinatorClient {
    pub group: String,
    pub request_timeout: Duration,
    first_wait: Duration,
    /// The longest wait before a retry.
    pub longest_wait: Duration,
    node: Option<i32>,
    lookup_in_flight: bool,
    round: u64,
    backoff: Backoff,
    /// How many times in a row the member has called [`CoordinatorClient::retry_immediately_once`].
    repeated_responses: u32,
    /// How long joining may fail before the application gets an error.
    api_timeout: Duration,
    join_failure: Option<JoinFailure>,
    join_failure_log: Reminder,
    /// How many responses in a row were malformed, by API key.
    malformed: BTreeMap<i16, u32>,
    /// When the last request was sent.
    sent_at: Time,
    /// The member sends no request before this time.
    pub retry_at: Time,
    pub timers: Timers<GroupTimer>,
    /// When the current rebalance began.
    pub rebalancing_since: Option<Time>,
    pub cluster: Arc<Cluster>,
    pub demand: MetadataDemand,
    outbox: VecDeque<Outgoing<GroupToken>>,
}

impl CoordinatorClient {
    pub fn new(
        group: String,
        (request_timeout, api_timeout): (Duration, Duration),
        retry_backoff: (Duration, Duration),
        seed: u64,
    ) -> Self {
        Self {
            group,
            request_timeout,
            repeated_responses: 0,
            api_timeout,
            join_failure: None,
            join_failure_log: Reminder::default(),
            first_wait: retry_backoff.0,
            longest_wait: retry_backoff.1,
            backoff: Backoff::new(retry_backoff.0, retry_backoff.1, seed),
            node: None,
            lookup_in_flight: false,
            round: 0,
            malformed: BTreeMap::new(),
            sent_at: Time(0),
            retry_at: Time(0),
            timers: Timers::default(),
            rebalancing_since: None,
            cluster: Arc::default(),
            demand: MetadataDemand::default(),
            outbox: VecDeque::new(),
        }
    }

    /// Returns the coordinator's broker ID, if the coordinator was found.
    pub fn node(&self) -> Option<i32> {
        self.node
    }

    pub fn round(&self) -> u64 {
        self.round
    }

    /// Ignores the responses to all requests that were sent before.
    pub fn invalidate_in_flight(&mut self) {
        self.round += 1;
        self.lookup_in_flight = false;
    }

    /// Notes a response. Returns whether its request is still current.
    pub fn is_current(&mut self, token: GroupToken) -> bool {
        let is_current = token.round == self.round;
        self.lookup_in_flight &= !(is_current && token.step == Step::Find);
        is_current
    }

    /// Returns the coordinator if the member may send a request to it now. Otherwise searches for the coordinator, or
    /// arms a timer.
    pub fn reach(&mut self, now: Time) -> Option<i32> {
        if !self.timers.is_due(GroupTimer::Retry, self.retry_at, now) {
            return None;
        }
        if let Some(node) = self.node.filter(|n| self.cluster.brokers.contains_key(n)) {
            return Some(node);
        }
        if self.cluster.brokers.is_empty() {
            self.demand.refresh = true;
            self.retry_at = now + self.first_wait;
            self.timers.set(GroupTimer::Retry, self.retry_at);
        } else if !self.lookup_in_flight {
            self.lookup_in_flight = true;
            let request = coordinator::request_as_member(&self.group);
            self.send(now, now + self.request_timeout, Target::Any, request, Step::Find);
        }
        None
    }

    /// Handles the response to FindCoordinator.
    pub fn handle_find_coordinator(&mut self, now: Time, reply: Reply) -> Result<(), Error> {
        let node = coordinator::read(reply, format_args!("group {:?}", self.group));
        let node = self.check_malformed(&find_coordinator::API, node)?;
        if self.node != Some(node) {
            self.log_found(node);
        }
        self.node = Some(node);
        if !self.cluster.brokers.contains_key(&node) {
            self.demand.refresh = true;
            self.back_off(now);
        }
        Ok(())
    }

    /// Decodes a response.
    pub fn read<R: api::Message>(&mut self, reply: Reply) -> Result<R, Error> {
        self.check_malformed(R::API, reply.decode())
    }

    /// Sends a request to leave the group. The deadline of the request leaves time for another attempt.
    pub fn send_leave(&mut self, now: Time, deadline: Time, target: Target, call: impl Call + 'static) {
        self.send(now, deadline.min(now + LEAVE_ATTEMPT), target, call, Step::Leave);
    }

    /// Handles the response to a request to leave the group. Returns whether the member has to send the request again.
    pub fn must_leave_again<R: api::Message>(
        &mut self,
        now: Time,
        result: Result<Reply, Error>,
        code: impl FnOnce(R) -> api::ErrorCode,
    ) -> bool {
        let is_retriable = match result.and_then(|reply| self.read::<R>(reply)) {
            Ok(response) => code(response).is_retriable(),
            Err(error) => error.is_retriable(),
        };
        if is_retriable {
            self.mark_unknown(now);
        }
        is_retriable
    }

    /// Makes the error of a malformed response retriable, unless it is the third one in a row. A single damaged byte
    /// should not end the membership.
    fn check_malformed<A>(&mut self, api: &Info, result: Result<A, Error>) -> Result<A, Error> {
        let malformed = self.malformed.entry(api.key).or_default();
        match result {
            Err(error) if error.kind() == ErrorKind::Decode => {
                *malformed += 1;
                Err(if *malformed < MAX_MALFORMED { error.as_kind(ErrorKind::Network) } else { error })
            }
            result => {
                *malformed = 0;
                result
            }
        }
    }

    /// Waits before the next request.
    pub fn back_off(&mut self, now: Time) {
        self.retry_at = now + self.backoff.next_wait();
    }

    /// Retries after an error response that is normal if it occurs once, for example after a change of the group. The
    /// first retry is immediate, and later retries wait. If they did not wait, a broker that always returns this error
    /// would get thousands of requests a second.
    pub fn retry_immediately_once(&mut self, now: Time) {
        self.repeated_responses = self.repeated_responses.saturating_add(1);
        if self.repeated_responses > 1 {
            self.back_off(now);
        }
    }

    /// Forgets the coordinator and searches for it after a wait.
    pub fn mark_unknown(&mut self, now: Time) {
        self.node = None;
        self.demand.refresh = true;
        self.back_off(now);
    }

    /// Notes that the coordinator accepted a request.
    pub fn succeeded(&mut self) {
        self.backoff.reset();
        self.repeated_responses = 0;
    }

    /// Notes that joining has failed since `since`. After `default_api_timeout_ms`, `poll()` raises the error, and
    /// again each time that much time passes. The Java consumer only logs the error.
    pub fn note_join_failure(&mut self, now: Time, since: Time, error: &Error) {
        let join_failure = self.join_failure.get_or_insert_with(|| JoinFailure {
            first: since,
            since,
            last: error.clone(),
            due: None,
        });
        join_failure.last = error.clone();
        if now.since(join_failure.since) < self.api_timeout {
            return;
        }
        join_failure.since = now;
        let time = self.api_timeout.max(Duration::from_secs(now.since(since).as_secs()));
        let what = format_args!("joining group {:?}", self.group);
        join_failure.due = Some(Error::in_vain(what, time, error, STILL_JOINING));
    }

    /// Reports why the member could not join, at once and then less and less often. A coordinator that is not ready is
    /// a problem only if that lasts. Do not call this function with the error that no broker can be reached, because
    /// the network reports that error.
    pub fn report_failure(&mut self, now: Time, error: &Error) {
        if !self.join_failure_log.is_due(now) {
            return;
        }
        match self.is_normal(now, error) {
            true => self.log_not_ready(error),
            false => error.report(Component::Group),
        }
    }

    /// Returns whether an error is normal because the member only began to join a moment ago.
    fn is_normal(&self, now: Time, error: &Error) -> bool {
        let first = self.join_failure.as_ref().map_or(now, |failure| failure.first);
        error.code().is_some_and(is_getting_ready) && now.since(first) < COORDINATOR_GRACE
    }

    /// Returns when the failure of the last request began: when the request was sent if it timed out, or else now.
    pub fn failing_since(&self, now: Time, error: &Error) -> Time {
        if error.kind() == ErrorKind::Timeout { self.sent_at } else { now }
    }

    /// Notes a response that the coordinator held back until other members had joined. The wait for this response does
    /// not count as a failure.
    pub fn exclude_rebalance_wait(&mut self, now: Time) {
        let time = now.since(self.sent_at);
        if let Some(join_failure) = &mut self.join_failure {
            join_failure.since = join_failure.since + time;
        }
    }

    /// Notes that the member has joined, or does not want to join any more.
    pub fn clear_join_failure(&mut self) {
        self.join_failure = None;
        self.join_failure_log.end();
    }

    /// Returns why the last attempt to join failed.
    pub fn last_join_error(&self) -> Option<&Error> {
        self.join_failure.as_ref().map(|t| &t.last)
    }

    /// Returns whether [`CoordinatorClient::take_join_error`] has an error.
    pub fn has_join_error(&self) -> bool {
        self.join_failure.as_ref().is_some_and(|t| t.due.is_some())
    }

    /// Returns the error that `poll()` should raise because joining keeps failing. Each error is returned only once.
    pub fn take_join_error(&mut self) -> Option<Error> {
        self.join_failure.as_mut().and_then(|t| t.due.take())
    }

    pub fn send(&mut self, now: Time, deadline: Time, target: Target, call: impl Call + 'static, step: Step) {
        self.sent_at = now;
        let token = GroupToken { round: self.round, step };
        let deadline = Deadline::ToAnswer(deadline);
        self.outbox.push_back(Outgoing { target, call: Box::new(call), token, deadline, max_version: i16::MAX });
    }

    pub fn poll_send(&mut self) -> Option<Outgoing<GroupToken>> {
        self.outbox.pop_front()
    }

    pub fn poll_demand(&mut self) -> Option<MetadataDemand> {
        self.demand.take()
    }
}

/// Returns whether an error code ends the membership, because the next attempt would fail in the same way.
fn is_fatal(code: api::ErrorCode) -> bool {
    matches!(
        code,
        api::ErrorCode::FENCED_INSTANCE_ID
            | api::ErrorCode::UNRELEASED_INSTANCE_ID
            | api::ErrorCode::INVALID_GROUP_ID
            | api::ErrorCode::INVALID_SESSION_TIMEOUT
            | api::ErrorCode::INVALID_REGULAR_EXPRESSION
            | api::ErrorCode::INCONSISTENT_GROUP_PROTOCOL
            | api::ErrorCode::UNSUPPORTED_ASSIGNOR
            | api::ErrorCode::GROUP_MAX_SIZE_REACHED
    )
}

/// Returns whether the member sends its request again after an error. After a response (`is_response`), the member
/// does so for all codes that are not fatal, even for codes that it does not know. A defect of one broker must not end
/// all memberships.
pub(super) fn may_retry(error: &Error, is_response: bool) -> bool {
    error.is_retriable() || is_response && error.code().is_some_and(|code| !is_fatal(code))
}

/// Returns whether the group has no coordinator that is ready.
fn is_getting_ready(code: api::ErrorCode) -> bool {
    coordinator::is_moved(code) || code == api::ErrorCode::COORDINATOR_LOAD_IN_PROGRESS
}

/// Returns whether a broker rejected the request with an authorization error. An administrator can change the ACL, or
/// the broker's authorizer may have a temporary failure.
pub(super) fn is_unauthorized(code: api::ErrorCode) -> bool {
    matches!(
        code,
        api::ErrorCode::GROUP_AUTHORIZATION_FAILED
            | api::ErrorCode::TOPIC_AUTHORIZATION_FAILED
            | api::ErrorCode::CLUSTER_AUTHORIZATION_FAILED
    )
}

/// The hint in errors of a member that keeps trying to join.
pub(super) const STILL_JOINING: &str = "the consumer keeps retrying; check the group's coordinator";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::heartbeat;

    fn coordinator_client() -> CoordinatorClient {
        let backoff = (Duration::from_millis(100), Duration::from_secs(1));
        CoordinatorClient::new("g".to_owned(), (Duration::ZERO, Duration::from_secs(60)), backoff, 1)
    }

    #[test]
    fn joining_that_keeps_failing_is_an_error_and_waiting_for_other_members_is_not() {
        let mut coordinator = coordinator_client();
        let error = Error::refused(crate::api::ErrorCode::COORDINATOR_NOT_AVAILABLE, "find");
        let mut error_at = |second, waited| {
            let now = Time(0) + Duration::from_secs(second);
            coordinator.sent_at = now;
            coordinator.exclude_rebalance_wait(now + Duration::from_secs(waited));
            coordinator.note_join_failure(now, now, &error);
            coordinator.take_join_error().map(|e| (e.kind(), e.cause().and_then(Error::code)))
        };
        let expected = Some((ErrorKind::Timeout, error.code()));
        let errors =
            [(1, 0), (60, 0), (61, 0), (120, 0), (121, 0), (421, 300), (480, 0), (481, 0)].map(|(s, w)| error_at(s, w));
        assert_eq!(errors, [None, None, expected, None, expected, None, None, expected]);
        coordinator.clear_join_failure();
        assert!(coordinator.last_join_error().is_none() && !coordinator.has_join_error());
    }

    #[test]
    fn a_coordinator_that_is_not_ready_is_a_problem_only_if_that_lasts() {
        let mut coordinator = coordinator_client();
        let at = |seconds| Time(0) + Duration::from_secs(seconds);
        let refused = |code| Error::refused(code, "find");
        let missing = refused(crate::api::ErrorCode::COORDINATOR_NOT_AVAILABLE);
        coordinator.note_join_failure(at(10), at(10), &missing);
        assert_eq!([10, 14, 15].map(|s| coordinator.is_normal(at(s), &missing)), [true, true, false]);
        assert!(!coordinator.is_normal(at(10), &refused(crate::api::ErrorCode::GROUP_AUTHORIZATION_FAILED)));
        assert!(missing.hint().is_some());
    }

    #[test]
    fn three_malformed_responses_in_a_row_are_an_error_even_if_other_apis_respond_well() {
        let reply = |size| Reply { version: 0, body: vec![0; size].into() };
        let (broken, whole) = (|| reply(1), || reply(2));
        let mut coordinator = coordinator_client();
        let kind = |coordinator: &mut CoordinatorClient, reply| {
            coordinator.read::<heartbeat::Response>(reply).err().map(|e| e.kind())
        };
        for _ in 0..MAX_MALFORMED {
            assert_eq!(kind(&mut coordinator, broken()), Some(ErrorKind::Network));
            assert_eq!(kind(&mut coordinator, whole()), None);
        }
        for expected in [ErrorKind::Network, ErrorKind::Network, ErrorKind::Decode] {
            // The member looks up the coordinator after each malformed response.
            let response = api::encode(0, &find_coordinator::Response::default()).unwrap();
            coordinator.handle_find_coordinator(Time(0), Reply { version: 0, body: response.into() }).unwrap();
            assert_eq!(kind(&mut coordinator, broken()), Some(expected));
        }
    }
}
