//! Transactions (KIP-98, KIP-360, KIP-890): the producer ID and epoch, the partitions and groups of the open
//! transaction, and its commit or abort.
//!
//! ```text
//! Unready → Initializing → Ready → Open → Committing → Ready        without failures
//!                                   │   ↘      ↓
//!                                   │    Failed → Aborting → Ready  after a failure, only aborting is possible
//! any state → Fatal                                                 fenced or not authorized: nothing is possible
//! ```
//!
//! The producer has at most one request to a coordinator in flight. Under version 1 of the protocol, the producer adds
//! partitions to the transaction before it sends batches to these partitions. Under version 2 of the protocol (the
//! cluster has finalized `transaction.version` 2), the partition leaders add partitions to the transaction, and every
//! transaction ends with a new producer epoch. A transaction without partitions and groups ends without a request,
//! because the coordinator does not know about this transaction. `steps.rs` builds the requests to coordinators and
//! reads the responses. The rest of the producer handles batches and retries.

mod steps;

use crate::api::{ErrorCode, find_coordinator};
use crate::engine::group::GroupMetadata;
use crate::engine::ops::CommittedOffset;
use crate::engine::{Backoff, Error, ErrorKind, Outgoing, Reply, Target, Time, coordinator};
use crate::logging::Component;
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// The producer's indexes of a topic and a partition.
type Slot = (usize, usize);

/// The version of the feature `transaction.version` from which partition leaders add partitions to transactions
/// (KIP-890).
const VERSION_2: i16 = 2;
/// The longest backoff while brokers write the markers of the previous transaction, which usually takes milliseconds.
pub const MARKERS_WAIT: Duration = Duration::from_millis(20);
/// The newest request versions that belong to version 1 of the protocol.
const MAX_PRODUCE_1: i16 = 11;
const MAX_END_1: i16 = 4;
const MAX_COMMIT_1: i16 = 4;
/// The newest version of AddPartitionsToTxn for clients, because newer versions are only for brokers. `MAX_COMMIT` is
/// the newest version of TxnOffsetCommit that identifies topics by name.
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
    /// Aborting the transaction. The value is the error that turned a commit into an abort.
    Aborting(Option<Error>),
    Fatal(Error),
}

/// A request to a coordinator.
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

/// The actions that the producer has to take after a change of the transaction.
#[derive(Debug, Default)]
pub struct Effects {
    /// Use this producer ID and epoch, and restart the sequence numbers at 0.
    pub producer_id: Option<(i64, i16)>,
    /// Fail all unsent records with this error.
    pub fail_unsent: Option<Error>,
}

/// Configuration of transactions.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The transactional ID.
    pub id: Arc<str>,
    /// How long a transaction may stay open before the coordinator aborts it.
    pub timeout: Duration,
    /// How long a coordinator may take to respond.
    pub request_timeout: Duration,
    /// How long the initialization may take.
    pub init_timeout: Duration,
    /// How long ending a transaction or committing offsets may take.
    pub end_timeout: Duration,
}

/// State machine of a transactional producer.
pub struct Transactions {
    settings: Settings,
    state: State,
    coordinator: Option<i32>,
    in_flight: bool,
    retry_at: Time,
    backoff: Backoff,
    /// The partitions that were added to the transaction. `to_add` contains the partitions to add.
    added: BTreeSet<Slot>,
    to_add: BTreeSet<Slot>,
    /// The groups whose offsets were added to the transaction.
    groups: BTreeSet<String>,
    commits: VecDeque<Commit>,
    /// Whether the coordinator may know the transaction. `confirmed` tells whether it has confirmed this.
    begun: bool,
    confirmed: bool,
    version2: bool,
    /// Whether the sequence numbers have a gap, so that the next transaction needs a new epoch.
    has_gap: bool,
    producer: Option<(i64, i16)>,
    /// The call that waits for a change of the state, and its deadline.
    call: Option<(u64, Time)>,
    next_call: u64,
    done: VecDeque<(u64, Result<(), Error>)>,
    /// The error of the last request.
    error: Option<Error>,
    effects: Effects,
}

/// Which batches are in flight.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum InFlight {
    Nothing,
    /// Only batches whose delivery timeout has passed.
    Expired,
    /// Batches that have no result yet.
    Unreported,
}

/// Returns whether aborting the transaction recovers from an error of a coordinator. `docs/reference/error-handling.md`
/// compares the choices with those of Java's producer.
fn is_abortable(step: &Step, code: ErrorCode) -> bool {
    match step {
        Step::Init => false,
        Step::Coordinator => code == ErrorCode::TRANSACTION_ABORTABLE,
        Step::End => matches!(code, ErrorCode::UNKNOWN_PRODUCER_ID | ErrorCode::TRANSACTION_ABORTABLE),
        Step::Offsets | Step::GroupCoordinator => matches!(
            code,
            ErrorCode::UNKNOWN_PRODUCER_ID | ErrorCode::TRANSACTION_ABORTABLE | ErrorCode::GROUP_AUTHORIZATION_FAILED
        ),
        Step::CommitOffsets => matches!(
            code,
            ErrorCode::UNKNOWN_PRODUCER_ID
                | ErrorCode::TRANSACTION_ABORTABLE
                | ErrorCode::TOPIC_AUTHORIZATION_FAILED
                | ErrorCode::GROUP_AUTHORIZATION_FAILED
                | ErrorCode::FENCED_INSTANCE_ID
                | ErrorCode::UNKNOWN_MEMBER_ID
                | ErrorCode::ILLEGAL_GENERATION
                | ErrorCode::STALE_MEMBER_EPOCH
                | ErrorCode::FENCED_MEMBER_EPOCH
                | ErrorCode::REBALANCE_IN_PROGRESS
                | ErrorCode::GROUP_ID_NOT_FOUND
                | ErrorCode::OFFSET_METADATA_TOO_LARGE
        ),
        // Unknown errors of partitions do not end the producer.
        Step::Partitions(_) => {
            !is_fencing(code)
                && !matches!(
                    code,
                    ErrorCode::NONE
                        | ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED
                        | ErrorCode::INVALID_TXN_STATE
                        | ErrorCode::INVALID_PRODUCER_ID_MAPPING
                )
        }
    }
}

/// Returns whether a code means that another epoch has replaced the producer's epoch.
fn is_fencing(code: ErrorCode) -> bool {
    matches!(code, ErrorCode::INVALID_PRODUCER_EPOCH | ErrorCode::PRODUCER_FENCED)
}

fn aborted(why: &str) -> Error {
    Error::new(ErrorKind::Aborted, format!("transaction was aborted{why}"))
}

impl Transactions {
    /// Creates the state machine. Transactions are not initialized yet.
    pub fn new(settings: Settings, backoff: Backoff) -> Self {
        Self {
            settings,
            state: State::Unready,
            coordinator: None,
            in_flight: false,
            retry_at: Time(0),
            backoff,
            added: BTreeSet::new(),
            to_add: BTreeSet::new(),
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
            effects: Effects::default(),
        }
    }

    /// Returns the transactional ID.
    pub fn id(&self) -> &Arc<str> {
        &self.settings.id
    }

    /// Returns the newest Produce version of the transaction protocol in use.
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

    /// Starts the initialization. The coordinator fences earlier producers with the same transactional ID, and
    /// completes or aborts their open transaction.
    pub fn init(&mut self, now: Time) -> Result<u64, Error> {
        let call = self.new_call();
        match self.state {
            State::Unready => {
                self.state = State::Initializing;
                self.call = Some((call, now + self.settings.init_timeout));
            }
            // After an abort, a new epoch is already being requested.
            State::Initializing if self.call.is_none() => self.call = Some((call, now + self.settings.init_timeout)),
            State::Ready => self.done.push_back((call, Ok(()))),
            _ => {
                return Err(
                    self.misuse("a transaction is already open", "end it first, or use one producer per transaction")
                );
            }
        }
        Ok(call)
    }

    /// Opens a transaction. `version` is the cluster's feature `transaction.version`.
    pub fn begin(&mut self, version: i16) -> Result<(), Error> {
        if !matches!(self.state, State::Ready) {
            return Err(
                self.misuse("a transaction is already open", "end it first, or use one producer per transaction")
            );
        }
        self.version2 = version >= VERSION_2;
        self.state = State::Open;
        Ok(())
    }

    /// Commits or aborts the transaction. Committing a failed transaction aborts it, and the call ends with an error.
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

    /// Returns the next completed call.
    pub fn poll_done(&mut self) -> Option<(u64, Result<(), Error>)> {
        self.done.pop_front()
    }

    /// Takes the actions that the producer must perform now.
    pub fn take_effects(&mut self) -> Effects {
        std::mem::take(&mut self.effects)
    }

    /// Returns an error if the state of the transaction does not allow records.
    pub fn accepts(&self) -> Result<(), Error> {
        match &self.state {
            State::Open => Ok(()),
            State::Failed(e) if e.kind() != ErrorKind::Aborted => {
                let hint = e.hint().unwrap_or("leave the block of the transaction, and start the next transaction");
                Err(Error::because(ErrorKind::Aborted, "transaction has failed, and can only be aborted", e)
                    .with_hint(hint))
            }
            _ => Err(self
                .misuse("no transaction is open", "a producer with transactional.id sends in `with p.transaction()`")),
        }
    }

    /// Notes that records were appended for a partition.
    pub fn add(&mut self, slot: Slot) {
        if !self.version2 && !self.added.contains(&slot) {
            self.to_add.insert(slot);
        }
    }

    /// Returns whether a transaction is open, even if it has failed.
    pub fn is_open(&self) -> bool {
        matches!(self.state, State::Open | State::Failed(_))
    }

    /// Returns whether a transaction has begun whose end the coordinator has not confirmed.
    pub fn is_unended(&self) -> bool {
        matches!(self.state, State::Open | State::Failed(_) | State::Committing | State::Aborting(_))
    }

    /// Returns whether the open transaction has failed, an error aborts it, or the producer has failed.
    pub fn has_failed(&self) -> bool {
        matches!(self.state, State::Failed(_) | State::Aborting(Some(_)) | State::Fatal(_))
    }

    /// Returns whether the producer may send and retry batches.
    pub fn may_send_batches(&self) -> bool {
        matches!(self.state, State::Open | State::Committing)
    }

    /// Notes that a batch with a sequence number was dropped.
    pub fn note_gap(&mut self) {
        self.has_gap = true;
    }

    /// Returns whether batches may be sent to a partition.
    pub fn may_send(&self, slot: Slot) -> bool {
        self.may_send_batches() && (self.version2 || self.added.contains(&slot))
    }

    /// Notes that a batch is sent.
    pub fn mark_sent(&mut self) {
        self.begun = true;
    }

    /// Notes that a batch failed for good.
    pub fn batch_failed(&mut self, error: &Error) {
        self.has_gap = true;
        match error.code() {
            Some(
                ErrorCode::CLUSTER_AUTHORIZATION_FAILED
                | ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED
                | ErrorCode::PRODUCER_FENCED
                | ErrorCode::UNSUPPORTED_VERSION
                | ErrorCode::INVALID_PRODUCER_ID_MAPPING,
            ) => self.fail_fatally(error),
            _ => self.fail(error),
        }
    }

    /// Fails the transaction, so that it can only be aborted. The failure causes no gap in the sequence numbers,
    /// because the record had no sequence number.
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
        let reason = why.as_ref().map_or_else(String::new, |e| format!(": {}", e.message_with_broker()));
        self.give_up(&aborted(&reason));
        self.state = State::Aborting(why);
    }

    /// Fails the offset commits and the unsent records.
    fn give_up(&mut self, error: &Error) {
        self.to_add.clear();
        self.done.extend(self.commits.drain(..).map(|c| (c.call, Err(error.clone()))));
        self.effects.fail_unsent = Some(error.clone());
    }

    /// Fails the producer for good: pending and later calls end with the error.
    pub fn fail_fatally(&mut self, error: &Error) {
        let error = error.clone();
        if error.kind() != ErrorKind::Closed {
            error.log_fatal(Component::Producer);
        }
        self.give_up(&error);
        if let Some((call, _)) = self.call.take() {
            self.done.push_back((call, Err(error.clone())));
        }
        self.state = State::Fatal(error);
    }

    /// Returns the next request. `is_flushed` means that no record is outstanding, and `name` returns the name of a
    /// topic.
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
        let is_idle = self.to_add.is_empty() && self.commits.is_empty();
        let ends = match self.state {
            State::Committing => is_flushed && in_flight == InFlight::Nothing && is_idle,
            // Under version 2 the leader rejects a batch that arrives after the end, because its epoch is over. Under
            // version 1 the leader would accept it as part of the next transaction. Java's producer waits in neither
            // case.
            State::Aborting(_) if self.version2 => in_flight != InFlight::Unreported,
            State::Aborting(_) => in_flight == InFlight::Nothing,
            _ => false,
        };
        if ends && !self.begun {
            self.finish();
        }
        let needs_request = match self.state {
            State::Initializing => true,
            State::Open | State::Committing => !is_idle || ends,
            State::Aborting(_) => ends,
            _ => false,
        };
        if !needs_request {
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
        if !self.to_add.is_empty() {
            return Some(self.add_partitions(now, target, name));
        }
        self.send_offsets(now, target)
    }

    /// Handles the response to a request.
    pub fn handle_response(&mut self, now: Time, step: Step, result: Result<Reply, Error>) {
        self.in_flight = false;
        if matches!(self.state, State::Fatal(_)) {
            return;
        }
        let is_search = matches!(step, Step::Coordinator | Step::GroupCoordinator);
        let result = result.and_then(|reply| self.read(&step, reply));
        let Err(error) = result else {
            self.backoff.reset();
            // That a coordinator is known says nothing about whether it can be reached.
            if !is_search {
                self.error = None;
            }
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
        } else if error.is_retriable() || error.kind() == ErrorKind::Decode || self.is_redundant_abort(code) {
            // The result is unknown if the response cannot be decoded. Repeating is safe for every request.
            self.retry_at = now + self.backoff.next_wait();
        } else if self.has_lost_transaction(&step, code) {
            self.fail(&self.explained(error, false));
        } else if is_abortable(&step, code) && (step != Step::End || matches!(self.state, State::Committing)) {
            self.fail(&error);
        } else {
            self.fail_fatally(&self.explained(error, true));
        }
    }

    /// Returns whether the coordinator may have aborted the transaction because of its timeout, and an abort shows
    /// whether the producer can continue. Under version 2, the abort of a transaction that has timed out returns a new
    /// epoch. If another producer has fenced this producer, the abort fails.
    fn has_lost_transaction(&self, step: &Step, code: ErrorCode) -> bool {
        let has_ended = matches!(step, Step::CommitOffsets) && is_fencing(code);
        let was_aborted = *step == Step::End && code == ErrorCode::INVALID_TXN_STATE;
        self.version2 && (has_ended || (was_aborted && matches!(self.state, State::Committing)))
    }

    /// Adds the timeout of the transaction to an error that the timeout may have caused. Under version 2, the producer
    /// can start the next transaction, unless the error ends the producer.
    pub fn explained(&self, error: Error, ends_producer: bool) -> Error {
        let may_be_timeout = |code| is_fencing(code) || code == ErrorCode::INVALID_TXN_STATE;
        if !self.begun || !error.code().is_some_and(may_be_timeout) {
            return error;
        }
        let reason = format!("{}, or another producer uses the same transactional.id", self.too_long());
        if self.version2 && !ends_producer {
            let hint = "start the next transaction; if it fails with PRODUCER_FENCED, give each instance its own transactional.id";
            return Error::because(ErrorKind::Aborted, reason, &error).with_hint(hint);
        }
        let hint = "create a new producer with the same transactional.id, and increase transaction.timeout.ms or send \
                    fewer records in a transaction; give each instance its own transactional.id";
        error.clone().with_message(format!("{reason}: {}", error.message())).with_hint(hint)
    }

    fn too_long(&self) -> String {
        format!(
            "transaction was open for longer than transaction.timeout.ms ({} ms)",
            self.settings.timeout.as_millis()
        )
    }

    /// Returns whether the coordinator requires an abort that is already in progress, or that has nothing to abort.
    fn is_redundant_abort(&self, code: ErrorCode) -> bool {
        code == ErrorCode::TRANSACTION_ABORTABLE && matches!(self.state, State::Initializing | State::Aborting(_))
    }

    fn set_producer_id(&mut self, id: i64, epoch: i16) {
        self.producer = Some((id, epoch));
        self.effects.producer_id = Some((id, epoch));
    }

    /// Finishes the transaction. After a gap in the sequence numbers, requests a new epoch.
    fn finish(&mut self) {
        let result = match std::mem::replace(&mut self.state, State::Ready) {
            State::Aborting(Some(why)) if why.kind() == ErrorKind::Aborted && why.cause().is_some() => {
                // The coordinator accepts the abort of a producer that was not fenced, so only the timeout is left.
                let reason = format!("{}, so its coordinator aborted it", self.too_long());
                let hint =
                    "retry the transaction; send fewer records in a transaction, or increase transaction.timeout.ms";
                Err(Error::because(ErrorKind::Aborted, reason, why.cause().unwrap_or(&why)).with_hint(hint))
            }
            State::Aborting(Some(why)) => {
                let error = aborted(&format!(": {}", why.message_with_broker())).caused_by(&why);
                Err(error.with_hint(
                    why.hint().unwrap_or("retry the transaction; read_committed consumers do not see its records"),
                ))
            }
            _ => Ok(()),
        };
        self.added.clear();
        self.to_add.clear();
        self.groups.clear();
        (self.begun, self.confirmed) = (false, false);
        if std::mem::take(&mut self.has_gap) {
            // The caller gets its result now; the next transaction waits for the new epoch.
            self.state = State::Initializing;
        }
        self.complete_call(result);
    }

    fn complete_call(&mut self, result: Result<(), Error>) {
        if let Some((call, _)) = self.call.take() {
            self.done.push_back((call, result));
        }
    }

    /// Fails a pending initialization, because no broker accepts the client's credentials.
    pub fn handle_refusal(&mut self, error: &Error) {
        if matches!(self.state, State::Initializing) && self.call.is_some() {
            self.state = State::Unready;
            self.complete_call(Err(error.clone()));
        }
    }

    /// Returns the next deadline after `now`.
    pub fn next_timeout(&self, now: Time) -> Option<Time> {
        let retry = (!self.in_flight).then_some(self.retry_at);
        let deadlines = self.commits.iter().map(|c| c.deadline).chain(self.call.map(|(_, deadline)| deadline));
        deadlines.chain(retry).filter(|t| *t > now).min()
    }

    /// Fails calls and offset commits whose deadline has passed.
    pub fn handle_timeout(&mut self, now: Time, unreachable: Option<&Error>) {
        let why = self.error.as_ref().or(unreachable).cloned();
        let timed_out = |message: &str| match &why {
            Some(why) => Error::because(ErrorKind::Timeout, message, why),
            None => Error::new(ErrorKind::Timeout, message),
        };
        if self.commits.front().is_some_and(|c| c.deadline <= now) {
            let error = timed_out("timed out while committing offsets in the transaction");
            self.fail(&error.with_hint("abort the transaction, and check the brokers"));
        }
        let Some((call, _)) = self.call.filter(|(_, deadline)| *deadline <= now) else {
            return;
        };
        match self.state {
            State::Initializing => {
                self.call = None;
                self.state = State::Unready;
                let ms = self.settings.init_timeout.as_millis();
                let error =
                    timed_out(&format!("transactional producer was not initialized within max.block.ms ({ms} ms)"));
                let hint = "check the brokers; a transaction left open by another producer may have to time out first";
                self.done.push_back((call, Err(error.with_hint(hint))));
            }
            _ => {
                let error = timed_out("timed out while ending the transaction");
                let hint = "it is unknown whether the transaction was committed: create a new producer with the same \
                            transactional.id, which completes or aborts it, and read the topics with read_committed";
                self.fail_fatally(&error.with_hint(hint));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{self, init_producer_id};

    /// Creates a transaction, under a version of the protocol, that has sent a batch, has failed and is being aborted.
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
        let coordinator_found = api::encode(0, &find_coordinator::Response::default()).unwrap();
        let producer_id = api::encode(0, &init_producer_id::Response { producer_id: 5, ..Default::default() }).unwrap();
        for body in [coordinator_found, producer_id] {
            let outgoing = transactions.poll_send(Time(0), true, InFlight::Nothing, |_| None).unwrap();
            transactions.handle_response(Time(0), outgoing.token, Ok(Reply { version: 0, body: body.into() }));
        }
        transactions.begin(version).unwrap();
        transactions.mark_sent();
        transactions.batch_failed(&Error::new(ErrorKind::Timeout, "too late"));
        transactions.end(Time(0), false).unwrap();
        transactions
    }

    #[test]
    fn an_abort_waits_for_expired_batches_only_where_the_leader_would_accept_them_later() {
        let ends = |version, in_flight| {
            let outgoing = aborting(version).poll_send(Time(0), true, in_flight, |_| None);
            outgoing.is_some_and(|outgoing| outgoing.token == Step::End)
        };
        let all = [InFlight::Nothing, InFlight::Expired, InFlight::Unreported];
        assert_eq!(all.map(|in_flight| ends(1, in_flight)), [true, false, false]);
        assert_eq!(all.map(|in_flight| ends(2, in_flight)), [true, true, false]);
    }
}
