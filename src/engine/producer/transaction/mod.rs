//! Transactions (KIP-98, KIP-360, KIP-890): who the transactional producer is, what the coordinator knows of the open
//! transaction, and how that ends.
//!
//! ```text
//! Unready → Initializing → Ready → Open → Committing → Ready        the way when all goes well
//!                                   │   ↘      ↓
//!                                   │    Failed → Aborting → Ready  after a failure only aborting is left
//! any of them → Fatal                                               fenced, or not allowed: nothing is left
//! ```
//!
//! One request to a coordinator is under way at a time. Under version 1 of the protocol partitions are added before
//! batches go to them; under version 2 (brokers that finalized `transaction.version` 2) their leaders do that, and
//! every end gives a new epoch. What the coordinator never heard of needs no end.

mod steps;

use crate::api::{ErrorCode, find_coordinator};
use crate::engine::group::GroupMetadata;
use crate::engine::ops::CommittedOffset;
use crate::engine::{Backoff, Error, ErrorKind, Outgoing, Reply, Target, Time, coordinator};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// A topic's and a partition's place in the producer.
type Slot = (usize, usize);

/// From this version on of the cluster's feature `transaction.version`, leaders add partitions by themselves (KIP-890).
const VERSION_2: i16 = 2;
/// How long to wait at most while markers of the transaction before are still being written: they take milliseconds.
pub const MARKERS_WAIT: Duration = Duration::from_millis(20);
/// The newest versions of requests that mean version 1 of the protocol.
const MAX_PRODUCE_1: i16 = 11;
const MAX_END_1: i16 = 4;
const MAX_COMMIT_1: i16 = 4;
/// Newer versions of AddPartitionsToTxn are for brokers, newer ones of TxnOffsetCommit name topics by id.
const MAX_ADD_PARTITIONS: i16 = 3;
const MAX_COMMIT: i16 = 5;

#[derive(Clone, Debug)]
enum State {
    Unready,
    Initializing,
    Ready,
    Open,
    Committing,
    Failed(Error),
    /// With what made a commit an abort.
    Aborting(Option<Error>),
    Fatal(Error),
}

/// What was asked of a coordinator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Coordinator,
    Init,
    Partitions(Vec<Slot>),
    Offsets,
    GroupCoordinator,
    CommitOffsets,
    End,
}

struct Commit {
    call: u64,
    deadline: Time,
    group: GroupMetadata,
    offsets: Vec<CommittedOffset>,
    coordinator: Option<i32>,
}

/// What the producer has to do after something happened here.
#[derive(Debug, Default)]
pub struct News {
    /// The id and epoch are new: sequences start at 0.
    pub identity: Option<(i64, i16)>,
    /// Whatever was not sent yet fails with this.
    pub gave_up: Option<Error>,
}

/// What a machine of transactions needs to know.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The transactional id.
    pub id: Arc<str>,
    /// How long the coordinator waits for a transaction's end before it aborts it.
    pub timeout: Duration,
    /// How long a coordinator may take to answer.
    pub request_timeout: Duration,
    /// How long becoming ready may take.
    pub init_timeout: Duration,
    /// How long an end, or a commit of offsets, may take.
    pub end_timeout: Duration,
}

/// The machine.
pub struct Transactions {
    settings: Settings,
    state: State,
    coordinator: Option<i32>,
    in_flight: bool,
    retry_at: Time,
    backoff: Backoff,
    /// Partitions the coordinator knows to be part of the transaction, and those it has to be told of.
    known: BTreeSet<Slot>,
    unknown: BTreeSet<Slot>,
    /// Groups whose offsets the coordinator knows to be part of it.
    groups: BTreeSet<String>,
    commits: VecDeque<Commit>,
    /// Whether the coordinator may know of the transaction, and whether it said that it does.
    begun: bool,
    confirmed: bool,
    version2: bool,
    /// Whether a sequence has a gap, so that the next transaction needs another epoch.
    has_gap: bool,
    producer: Option<(i64, i16)>,
    /// Who waits for the state to change, and until when.
    call: Option<(u64, Time)>,
    next_call: u64,
    done: VecDeque<(u64, Result<(), Error>)>,
    /// Why the last step failed.
    error: Option<Error>,
    news: News,
}

/// Which batches are under way.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum InFlight {
    Nothing,
    /// None but those whose time is over.
    Expired,
    Awaited,
}

/// What an abort mends, of what coordinators answer.
fn is_abortable(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::UNKNOWN_PRODUCER_ID
            | ErrorCode::TRANSACTION_ABORTABLE
            | ErrorCode::TOPIC_AUTHORIZATION_FAILED
            | ErrorCode::OPERATION_NOT_ATTEMPTED
            | ErrorCode::GROUP_AUTHORIZATION_FAILED
            | ErrorCode::FENCED_INSTANCE_ID
            | ErrorCode::UNKNOWN_MEMBER_ID
            | ErrorCode::ILLEGAL_GENERATION
            | ErrorCode::STALE_MEMBER_EPOCH
            | ErrorCode::OFFSET_METADATA_TOO_LARGE
    )
}

fn aborted(why: &str) -> Error {
    Error::new(ErrorKind::Aborted, format!("transaction was aborted{why}"))
}

impl Transactions {
    /// A machine that has asked for nothing.
    pub fn new(settings: Settings, backoff: Backoff) -> Self {
        Self {
            settings,
            state: State::Unready,
            coordinator: None,
            in_flight: false,
            retry_at: Time(0),
            backoff,
            known: BTreeSet::new(),
            unknown: BTreeSet::new(),
            groups: BTreeSet::new(),
            commits: VecDeque::new(),
            begun: false,
            confirmed: false,
            version2: false,
            has_gap: false,
            producer: None,
            call: None,
            next_call: 0,
            done: VecDeque::new(),
            error: None,
            news: News::default(),
        }
    }

    /// The transactional id.
    pub fn id(&self) -> &Arc<str> {
        &self.settings.id
    }

    /// The newest version of Produce that means what is meant.
    pub fn max_produce(&self) -> i16 {
        if self.version2 { i16::MAX } else { MAX_PRODUCE_1 }
    }

    fn new_call(&mut self) -> u64 {
        self.next_call += 1;
        self.next_call
    }

    fn misuse(&self, wanted: &str, hint: &str) -> Error {
        match &self.state {
            State::Fatal(e) | State::Failed(e) => e.clone(),
            _ => Error::new(ErrorKind::Config, wanted).with_hint(hint),
        }
    }

    /// Becomes ready: waits for, or aborts, what an earlier producer of the same id left open, and fences it.
    pub fn init(&mut self, now: Time) -> Result<u64, Error> {
        let call = self.new_call();
        match self.state {
            State::Unready => {
                self.state = State::Initializing;
                self.call = Some((call, now + self.settings.init_timeout));
            }
            // A new epoch is on its way after an abort.
            State::Initializing if self.call.is_none() => self.call = Some((call, now + self.settings.init_timeout)),
            State::Ready => self.done.push_back((call, Ok(()))),
            _ => return Err(self.misuse("a transaction is open already", "end it first, or use a producer for each")),
        }
        Ok(call)
    }

    /// Opens a transaction; under `version`, the cluster's feature `transaction.version`.
    pub fn begin(&mut self, version: i16) -> Result<(), Error> {
        if !matches!(self.state, State::Ready) {
            return Err(self.misuse("a transaction is open already", "end it first, or use a producer for each"));
        }
        self.version2 = version >= VERSION_2;
        self.state = State::Open;
        Ok(())
    }

    /// Commits or aborts. A commit of a transaction that failed aborts it, and says so.
    pub fn end(&mut self, now: Time, commit: bool) -> Result<u64, Error> {
        let why = match &self.state {
            State::Open => None,
            State::Failed(e) => commit.then(|| e.clone()),
            _ => return Err(self.misuse("no transaction is open", "use `with producer.transaction()`")),
        };
        let call = self.new_call();
        self.call = Some((call, now + self.settings.end_timeout));
        if commit && why.is_none() {
            self.state = State::Committing;
        } else {
            self.abort(why);
        }
        Ok(call)
    }

    /// Commits a consumer's offsets as part of the transaction.
    pub fn commit_offsets(
        &mut self,
        now: Time,
        group: GroupMetadata,
        offsets: Vec<CommittedOffset>,
    ) -> Result<u64, Error> {
        self.accepts()?;
        let call = self.new_call();
        if offsets.is_empty() {
            self.done.push_back((call, Ok(())));
        } else {
            let deadline = now + self.settings.end_timeout;
            self.commits.push_back(Commit { call, deadline, group, offsets, coordinator: None });
        }
        Ok(call)
    }

    /// The next call that ended.
    pub fn poll_done(&mut self) -> Option<(u64, Result<(), Error>)> {
        self.done.pop_front()
    }

    /// What the producer has to do now.
    pub fn take_news(&mut self) -> News {
        std::mem::take(&mut self.news)
    }

    /// An error unless records may be appended.
    pub fn accepts(&self) -> Result<(), Error> {
        match &self.state {
            State::Open => Ok(()),
            _ => Err(self
                .misuse("no transaction is open", "a producer with transactional.id sends in `with p.transaction()`")),
        }
    }

    /// Notes that there are records for a partition.
    pub fn want(&mut self, slot: Slot) {
        if !self.version2 && !self.known.contains(&slot) {
            self.unknown.insert(slot);
        }
    }

    /// Whether a transaction has begun and not ended.
    pub fn is_open(&self) -> bool {
        matches!(self.state, State::Open | State::Failed(_))
    }

    /// Whether what failed may be tried again.
    pub fn is_wanted(&self) -> bool {
        matches!(self.state, State::Open | State::Committing)
    }

    /// Notes that a batch with a sequence number was dropped.
    pub fn note_gap(&mut self) {
        self.has_gap = true;
    }

    /// Whether batches may go to a partition.
    pub fn may_send(&self, slot: Slot) -> bool {
        self.is_wanted() && (self.version2 || self.known.contains(&slot))
    }

    /// Notes that a batch goes out.
    pub fn sent(&mut self) {
        self.begun = true;
    }

    /// Takes in that a batch failed for good.
    pub fn batch_failed(&mut self, error: &Error) {
        self.has_gap = true;
        match error.code() {
            Some(
                ErrorCode::CLUSTER_AUTHORIZATION_FAILED
                | ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED
                | ErrorCode::PRODUCER_FENCED
                | ErrorCode::UNSUPPORTED_VERSION
                | ErrorCode::INVALID_PRODUCER_ID_MAPPING,
            ) => self.die(error),
            _ => self.fail(error),
        }
    }

    /// Nothing but aborting is left: something of the transaction failed. A record that had no sequence number leaves no gap.
    pub fn fail(&mut self, error: &Error) {
        match self.state {
            State::Open => {
                self.state = State::Failed(error.clone());
                self.give_up(error);
            }
            State::Committing => self.abort(Some(error.clone())),
            _ => {}
        }
    }

    fn abort(&mut self, why: Option<Error>) {
        let said = why.as_ref().map_or_else(String::new, |e| format!(": {}", e.message()));
        self.give_up(&aborted(&said));
        self.state = State::Aborting(why);
    }

    fn give_up(&mut self, error: &Error) {
        self.unknown.clear();
        self.done.extend(self.commits.drain(..).map(|c| (c.call, Err(error.clone()))));
        self.news.gave_up = Some(error.clone());
    }

    /// Nothing is left: every call ends with the error, and so does each that comes.
    pub fn die(&mut self, error: &Error) {
        let error = error.clone();
        self.give_up(&error);
        if let Some((call, _)) = self.call.take() {
            self.done.push_back((call, Err(error.clone())));
        }
        self.state = State::Fatal(error);
    }

    /// The next request. `is_flushed` says that no record is without an outcome, `name` what a topic is called.
    pub fn poll_send(
        &mut self,
        now: Time,
        is_flushed: bool,
        in_flight: InFlight,
        name: impl Fn(usize) -> Option<Arc<str>>,
    ) -> Option<Outgoing<Step>> {
        if self.in_flight || self.retry_at > now {
            return None;
        }
        let is_idle = self.unknown.is_empty() && self.commits.is_empty();
        let ends = match self.state {
            State::Committing => is_flushed && in_flight == InFlight::Nothing && is_idle,
            // A batch that comes behind the end is of an epoch that is over, and refused; under version 1 it would be taken, and
            // be part of the next transaction. Java's producer does not wait in either.
            State::Aborting(_) if self.version2 => in_flight != InFlight::Awaited,
            State::Aborting(_) => in_flight == InFlight::Nothing,
            _ => false,
        };
        if ends && !self.begun {
            self.ended();
        }
        let wanted = match self.state {
            State::Initializing => true,
            State::Open | State::Committing => !is_idle || ends,
            State::Aborting(_) => ends,
            _ => false,
        };
        if !wanted {
            return None;
        }
        self.in_flight = true;
        let Some(coordinator) = self.coordinator else {
            return Some(self.find(now, find_coordinator::TRANSACTION, &self.settings.id, Step::Coordinator));
        };
        let target = Target::Node(coordinator);
        if matches!(self.state, State::Initializing) {
            return Some(self.init_producer(now, target));
        }
        if ends {
            return Some(self.end_txn(now, target));
        }
        if !self.unknown.is_empty() {
            return Some(self.add_partitions(now, target, name));
        }
        self.send_offsets(now, target)
    }

    /// Takes an answer in.
    pub fn handle_response(&mut self, now: Time, step: Step, result: Result<Reply, Error>) {
        self.in_flight = false;
        if matches!(self.state, State::Fatal(_)) {
            return;
        }
        let result = result.and_then(|reply| self.read(&step, reply));
        let Err(error) = result else {
            self.backoff.reset();
            self.error = None;
            return;
        };
        let code = error.code().unwrap_or(ErrorCode::NONE);
        self.error = Some(error.clone());
        let of_group = matches!(step, Step::GroupCoordinator | Step::CommitOffsets);
        let is_lost = coordinator::is_moved(code) || code == ErrorCode::REQUEST_TIMED_OUT;
        if is_lost || matches!(error.kind(), ErrorKind::Network | ErrorKind::Timeout) {
            match self.commits.front_mut() {
                Some(commit) if of_group => commit.coordinator = None,
                _ => self.coordinator = None,
            }
        }
        if code == ErrorCode::CONCURRENT_TRANSACTIONS {
            self.retry_at = now + self.backoff.next_wait().min(MARKERS_WAIT);
        } else if error.is_retriable() || error.kind() == ErrorKind::Decode || self.is_moot(code) {
            // An answer that cannot be read says nothing; asking again is safe for every step.
            self.retry_at = now + self.backoff.next_wait();
        } else if is_abortable(code) && (step != Step::End || matches!(self.state, State::Committing)) {
            self.fail(&error);
        } else {
            self.die(&error);
        }
    }

    /// Whether an abort is asked for where there is nothing to abort, or where that is under way.
    fn is_moot(&self, code: ErrorCode) -> bool {
        code == ErrorCode::TRANSACTION_ABORTABLE && matches!(self.state, State::Initializing | State::Aborting(_))
    }

    fn is_now(&mut self, id: i64, epoch: i16) {
        self.producer = Some((id, epoch));
        self.news.identity = Some((id, epoch));
    }

    /// The transaction is over. After a gap in a sequence another epoch is needed first.
    fn ended(&mut self) {
        let result = match std::mem::replace(&mut self.state, State::Ready) {
            State::Aborting(Some(why)) => {
                let error = aborted(&format!(": {}", why.message())).caused_by(&why);
                Err(error
                    .with_hint(why.hint().unwrap_or("nothing of it is read by read_committed consumers; try it again")))
            }
            _ => Ok(()),
        };
        self.known.clear();
        self.unknown.clear();
        self.groups.clear();
        (self.begun, self.confirmed) = (false, false);
        if std::mem::take(&mut self.has_gap) {
            // The caller learns of the end now; whoever begins next waits for the epoch.
            self.state = State::Initializing;
        }
        self.tell(result);
    }

    fn tell(&mut self, result: Result<(), Error>) {
        if let Some((call, _)) = self.call.take() {
            self.done.push_back((call, result));
        }
    }

    /// No broker lets the client in: who waits for the producer to get ready need not.
    pub fn be_refused(&mut self, error: &Error) {
        if matches!(self.state, State::Initializing) && self.call.is_some() {
            self.state = State::Unready;
            self.tell(Err(error.clone()));
        }
    }

    /// When, after now, there is something to do.
    pub fn next_timeout(&self, now: Time) -> Option<Time> {
        let retry = (!self.in_flight).then_some(self.retry_at);
        let deadlines = self.commits.iter().map(|c| c.deadline).chain(self.call.map(|(_, deadline)| deadline));
        deadlines.chain(retry).filter(|t| *t > now).min()
    }

    /// Ends what takes too long.
    pub fn handle_timeout(&mut self, now: Time, unreachable: Option<&Error>) {
        let because = self.error.as_ref().or(unreachable).map_or_else(String::new, |e| format!(": {}", e.message()));
        if self.commits.front().is_some_and(|c| c.deadline <= now) {
            let message = format!("offsets could not be committed in the transaction in time{because}");
            self.fail(&Error::new(ErrorKind::Timeout, message).with_hint("abort, and check the brokers"));
        }
        let Some((call, _)) = self.call.filter(|(_, deadline)| *deadline <= now) else {
            return;
        };
        match self.state {
            State::Initializing => {
                self.call = None;
                self.state = State::Unready;
                let ms = self.settings.init_timeout.as_millis();
                let message =
                    format!("transactional producer did not get ready within max.block.ms ({ms} ms){because}");
                let hint =
                    "check the brokers; a transaction that another producer left open may have to time out first";
                self.done.push_back((call, Err(Error::new(ErrorKind::Timeout, message).with_hint(hint))));
            }
            _ => {
                let message = format!("the end of the transaction was not acknowledged in time{because}");
                let hint = "whether it was committed is not known: make a new producer with the same transactional.id, \
                            which settles it, and read what is there";
                self.die(&Error::new(ErrorKind::Timeout, message).with_hint(hint));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{self, init_producer_id};

    /// A transaction of a version of the protocol that has sent a batch, which failed, and is aborted.
    fn aborting(version: i16) -> Transactions {
        let second = Duration::from_secs(1);
        let settings = Settings {
            id: "tx".into(),
            timeout: second,
            request_timeout: second,
            init_timeout: second,
            end_timeout: second,
        };
        let mut transactions = Transactions::new(settings, Backoff::new(second, second, 1));
        transactions.init(Time(0)).unwrap();
        let found = api::encode(0, &find_coordinator::Response::default()).unwrap();
        let given = api::encode(0, &init_producer_id::Response { producer_id: 5, ..Default::default() }).unwrap();
        for body in [found, given] {
            let asked = transactions.poll_send(Time(0), true, InFlight::Nothing, |_| None).unwrap();
            transactions.handle_response(Time(0), asked.token, Ok(Reply { version: 0, body: body.into() }));
        }
        transactions.begin(version).unwrap();
        transactions.sent();
        transactions.batch_failed(&Error::new(ErrorKind::Timeout, "too late"));
        transactions.end(Time(0), false).unwrap();
        transactions
    }

    #[test]
    fn an_abort_waits_for_batches_whose_time_is_over_only_where_one_that_comes_later_would_be_taken() {
        let ends = |version, in_flight| {
            let asked = aborting(version).poll_send(Time(0), true, in_flight, |_| None);
            asked.is_some_and(|asked| asked.token == Step::End)
        };
        let all = [InFlight::Nothing, InFlight::Expired, InFlight::Awaited];
        assert_eq!(all.map(|in_flight| ends(1, in_flight)), [true, false, false]);
        assert_eq!(all.map(|in_flight| ends(2, in_flight)), [true, true, false]);
    }
}
