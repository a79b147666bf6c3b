//! A member's way to its coordinator: which broker that is, when it may be asked again, and which answers still count.

use super::{GroupToken, Step};
use crate::api::{self, Info, find_coordinator};
use crate::engine::connection::MAX_MALFORMED;
use crate::engine::{
    Backoff, Call, Cluster, Deadline, Error, ErrorKind, MetadataDemand, Outgoing, Reply, Target, Time, coordinator,
};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// How long leaving may take. A coordinator that dies is replaced in nine seconds, and whoever went without its hearing of it
/// holds partitions until its session ends: 45 s, counted anew by each coordinator.
pub(super) const LEAVE_WITHIN: Duration = Duration::from_secs(12);
/// How long it waits for one answer.
const LEAVE_ATTEMPT: Duration = Duration::from_secs(3);

/// Why a member is not in its group yet, while it goes on trying.
struct Trouble {
    /// When it failed first, put off by what was spent waiting for other members.
    since: Time,
    last: Error,
    /// What whoever polls has not heard yet.
    due: Option<Error>,
}

/// What every protocol needs to speak to a coordinator.
pub(super) struct CoordinatorClient {
    group: String,
    request_timeout: Duration,
    first_wait: Duration,
    node: Option<i32>,
    finding: bool,
    round: u64,
    backoff: Backoff,
    /// How often in a row an answer was that joining begins anew.
    repeats: u32,
    /// How long joining may fail before whoever polls hears of it.
    patience: Duration,
    trouble: Option<Trouble>,
    /// How many answers in a row were malformed, by the key of their API.
    malformed: BTreeMap<i16, u32>,
    /// When something was asked last.
    asked_at: Time,
    /// Nothing is asked before.
    pub retry_at: Time,
    pub cluster: Arc<Cluster>,
    pub demand: MetadataDemand,
    outbox: VecDeque<Outgoing<GroupToken>>,
}

impl CoordinatorClient {
    pub fn new(
        group: String,
        (request_timeout, patience): (Duration, Duration),
        retry_backoff: (Duration, Duration),
        seed: u64,
    ) -> Self {
        Self {
            group,
            request_timeout,
            repeats: 0,
            patience,
            trouble: None,
            first_wait: retry_backoff.0,
            backoff: Backoff::new(retry_backoff.0, retry_backoff.1, seed),
            node: None,
            finding: false,
            round: 0,
            malformed: BTreeMap::new(),
            asked_at: Time(0),
            retry_at: Time(0),
            cluster: Arc::default(),
            demand: MetadataDemand::default(),
            outbox: VecDeque::new(),
        }
    }

    /// Which broker the coordinator is, if that was heard.
    pub fn node(&self) -> Option<i32> {
        self.node
    }

    pub fn is_finding(&self) -> bool {
        self.finding
    }

    pub fn round(&self) -> u64 {
        self.round
    }

    /// What was asked before this does not count any more.
    pub fn next_round(&mut self) {
        self.round += 1;
        self.finding = false;
    }

    /// Notes an answer; says whether it still counts.
    pub fn is_current(&mut self, token: GroupToken) -> bool {
        let counts = token.round == self.round;
        self.finding &= !(counts && token.step == Step::Find);
        counts
    }

    /// The coordinator, or a search for it.
    pub fn reach(&mut self, now: Time) -> Option<i32> {
        if let Some(node) = self.node.filter(|n| self.cluster.brokers.contains_key(n)) {
            return Some(node);
        }
        if self.cluster.brokers.is_empty() {
            self.demand.refresh = true;
            self.retry_at = now + self.first_wait;
        } else if !self.finding {
            self.finding = true;
            let request = coordinator::ask_as_member(&self.group);
            self.send(now, now + self.request_timeout, Target::Any, request, Step::Find);
        }
        None
    }

    /// Takes in which broker it is.
    pub fn found(&mut self, now: Time, reply: Reply) -> Result<(), Error> {
        let found = coordinator::read(reply, format_args!("group {:?}", self.group));
        let node = self.doubt(&find_coordinator::API, found)?;
        self.node = Some(node);
        if !self.cluster.brokers.contains_key(&node) {
            self.demand.refresh = true;
            self.try_later(now);
        }
        Ok(())
    }

    /// The typed answer.
    pub fn read<R: api::Message>(&mut self, reply: Reply) -> Result<R, Error> {
        self.doubt(R::API, reply.decode())
    }

    /// Says that the member leaves; if that is not heard, there is time for another attempt.
    pub fn send_leave(&mut self, now: Time, deadline: Time, target: Target, call: impl Call + 'static) {
        self.send(now, deadline.min(now + LEAVE_ATTEMPT), target, call, Step::Leave);
    }

    /// Takes in what became of that; says whether it has to be said again.
    pub fn leaves_again<R: api::Message>(
        &mut self,
        now: Time,
        result: Result<Reply, Error>,
        code: impl FnOnce(&R) -> api::ErrorCode,
    ) -> bool {
        let is_retriable = match result.and_then(|reply| self.read::<R>(reply)) {
            Ok(response) => code(&response).is_retriable(),
            Err(error) => error.is_retriable(),
        };
        if is_retriable {
            self.lose(now);
        }
        is_retriable
    }

    /// A malformed answer is as good as a lost one: a membership does not end because of a byte, while another may be whole.
    fn doubt<A>(&mut self, api: &Info, answer: Result<A, Error>) -> Result<A, Error> {
        let malformed = self.malformed.entry(api.key).or_default();
        match answer {
            Err(error) if error.kind() == ErrorKind::Decode => {
                *malformed += 1;
                Err(if *malformed < MAX_MALFORMED { Error::new(ErrorKind::Network, error.message()) } else { error })
            }
            answer => {
                *malformed = 0;
                answer
            }
        }
    }

    pub fn try_later(&mut self, now: Time) {
        self.retry_at = now + self.backoff.next_wait();
    }

    /// Asks again after an answer that is usual once, as after a change of the group: at once then, later if it is the same
    /// again. A broker that never says anything else would be asked thousands of times a second.
    pub fn ask_again(&mut self, now: Time) {
        self.repeats = self.repeats.saturating_add(1);
        if self.repeats > 1 {
            self.try_later(now);
        }
    }

    /// Looks for the coordinator anew, a little later.
    pub fn lose(&mut self, now: Time) {
        self.node = None;
        self.demand.refresh = true;
        self.try_later(now);
    }

    /// Notes that the coordinator took what it was asked.
    pub fn succeeded(&mut self) {
        self.backoff.reset();
        self.repeats = 0;
    }

    /// Notes why the member could not join just now. Java's consumer tells of that in its log alone; here whoever polls hears of
    /// it after as long as other calls try, and again after as long, as it is with what keeps a partition from being read.
    /// `since` is when that began which failed now.
    pub fn failed_to_join(&mut self, now: Time, since: Time, error: &Error) {
        let trouble = self.trouble.get_or_insert_with(|| Trouble { since, last: error.clone(), due: None });
        trouble.last = error.clone();
        if now.since(trouble.since) < self.patience {
            return;
        }
        trouble.since = now;
        let time = self.patience.max(Duration::from_secs(now.since(since).as_secs()));
        let what = format_args!("joining group {:?}", self.group);
        let hint = "the consumer goes on trying; check the group's coordinator";
        trouble.due = Some(Error::in_vain(what, time, error, hint));
    }

    /// Since when the last question has failed: since it was asked, if nobody answered, or since now.
    pub fn failing_since(&self, now: Time, error: &Error) -> Time {
        if error.kind() == ErrorKind::Timeout { self.asked_at } else { now }
    }

    /// Notes that an answer came, for which was waited as long as other members took: that is no trouble, however long it is.
    pub fn waited(&mut self, now: Time) {
        let time = now.since(self.asked_at);
        if let Some(trouble) = &mut self.trouble {
            trouble.since = trouble.since + time;
        }
    }

    /// Notes that the member is in, or does not want to be.
    pub fn forget_trouble(&mut self) {
        self.trouble = None;
    }

    /// Why the member could not join when it tried last.
    pub fn trouble(&self) -> Option<&Error> {
        self.trouble.as_ref().map(|t| &t.last)
    }

    /// Whether [`CoordinatorClient::take_trouble`] gives something.
    pub fn has_trouble(&self) -> bool {
        self.trouble.as_ref().is_some_and(|t| t.due.is_some())
    }

    /// What whoever polls should hear of that, once.
    pub fn take_trouble(&mut self) -> Option<Error> {
        self.trouble.as_mut().and_then(|t| t.due.take())
    }

    pub fn send(&mut self, now: Time, deadline: Time, target: Target, call: impl Call + 'static, step: Step) {
        self.asked_at = now;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::heartbeat;

    fn coordinator_client() -> CoordinatorClient {
        let backoff = (Duration::from_millis(100), Duration::from_secs(1));
        CoordinatorClient::new("g".to_owned(), (Duration::ZERO, Duration::from_secs(60)), backoff, 1)
    }

    #[test]
    fn whoever_polls_hears_of_joining_that_fails_for_long_and_not_of_waiting_for_others() {
        let mut coordinator = coordinator_client();
        let error = Error::refused(crate::api::ErrorCode::COORDINATOR_NOT_AVAILABLE, "find");
        let mut heard_at = |second, waited| {
            let now = Time(0) + Duration::from_secs(second);
            coordinator.asked_at = now;
            coordinator.waited(now + Duration::from_secs(waited));
            coordinator.failed_to_join(now, now, &error);
            coordinator.take_trouble().map(|e| (e.kind(), e.cause().and_then(Error::code)))
        };
        let heard = Some((ErrorKind::Timeout, error.code()));
        let told =
            [(1, 0), (60, 0), (61, 0), (120, 0), (121, 0), (421, 300), (480, 0), (481, 0)].map(|(s, w)| heard_at(s, w));
        assert_eq!(told, [None, None, heard, None, heard, None, None, heard]);
        coordinator.forget_trouble();
        assert!(coordinator.trouble().is_none() && !coordinator.has_trouble());
    }

    #[test]
    fn three_malformed_answers_in_a_row_are_an_error_whatever_else_was_whole() {
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
            // Which broker it is, is asked after each of them.
            let found = api::encode(0, &find_coordinator::Response::default()).unwrap();
            coordinator.found(Time(0), Reply { version: 0, body: found.into() }).unwrap();
            assert_eq!(kind(&mut coordinator, broken()), Some(expected));
        }
    }
}
