//! The producer's calls. The producer's state machine identifies a record by the promise of its delivery. This file
//! stores the promises of flushes and of transaction calls, and the failures of records that were sent without a
//! promise. The file also has the clock for record timestamps.

use super::config::{ClientType, Config};
use super::core::{Client, completion};
use super::driver::MAX_ACTIVE_SLEEP;
use super::shared::{ClientRole, Shared, State};
use super::{Error, Pending, Promise, dispatch};
use crate::engine::Time;
pub use crate::engine::group::GroupMetadata;
use crate::engine::metrics::Family;
use crate::engine::ops::{CommittedOffset, Completion, Output, Partitions};
use crate::engine::producer::{self, Event};
pub use crate::engine::producer::{NewRecord, TopicIndex};
use crate::logging::Location;
use std::collections::HashMap;
use std::sync::atomic::{
    AtomicBool, AtomicI64, AtomicU64,
    Ordering::{Relaxed, SeqCst},
};
use std::sync::{Arc, MutexGuard};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The longest time that a bulk append waits for the network to send buffered records, before it appends more records.
pub const PAUSE: Duration = Duration::from_millis(100);

/// Stands for the timestamp of a record without a timestamp from the caller.
pub const NOW: i64 = i64::MIN;

/// The number of different errors that the producer keeps until the application takes them. Later errors count as the
/// last one.
const MAX_FAILURES: usize = 100;

/// Returns the subject of a sentence about this number of records, such as "3 records were".
pub fn records_were(count: u64) -> String {
    if count == 1 { "1 record was".to_owned() } else { format!("{count} records were") }
}

/// The largest number of topics that an error or a log line about records without a result names.
const MAX_TOPICS: usize = 10;

/// Returns the number of records without a result in each topic, such as "2 in topic a, 1 in topic b".
fn by_topic(machine: &Machine) -> String {
    let counts = machine.outstanding_by_topic();
    let mut parts: Vec<_> =
        counts.iter().take(MAX_TOPICS).map(|(topic, count)| format!("{count} in topic {topic}")).collect();
    let more: u64 = counts.iter().skip(MAX_TOPICS).map(|(_, count)| count).sum();
    if more > 0 {
        parts.push(format!("{more} in other topics"));
    }
    parts.join(", ")
}

/// Where a record was stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordMetadata {
    /// The topic.
    pub topic: Arc<str>,
    /// The partition.
    pub partition: i32,
    /// The offset, or -1 if the broker did not return it.
    pub offset: i64,
    /// The timestamp in the log, in milliseconds since 1970.
    pub timestamp: i64,
}

/// Failed records whose error no caller has received, grouped by error.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Why the delivery failed.
    pub error: Error,
    /// The number of records.
    pub count: u64,
}

/// The producer's state machine, which identifies a record by the promise of its delivery.
pub type Machine = producer::Producer<Promise<RecordMetadata>>;

/// Sends records.
pub type Producer = Client<Machine>;

/// The calls that wait for results other than deliveries, and failures that the application has not received yet.
#[derive(Default)]
pub struct Locked {
    flushes: Vec<(u64, Promise<()>)>,
    /// Calls about transactions.
    calls: HashMap<u64, Promise<()>>,
    failures: Vec<Failure>,
}

/// Settings and counters that calls read without the lock.
pub struct Unlocked {
    has_failures: AtomicBool,
    /// The number of batches whose results have left the state machine but have not reached the callers yet. A flush
    /// and the end of a transaction wait until all these results have reached the callers.
    undelivered: AtomicU64,
    /// Whether a flush or the end of a transaction waits for `undelivered` to become 0.
    is_awaited: AtomicBool,
    wall: WallClock,
    max_block: Duration,
    drop_when_full: bool,
    create_topics: bool,
}

/// A result to pass to the caller that waits for it.
pub enum Done {
    /// The delivery of a batch.
    Batch(Event<Promise<RecordMetadata>>),
    /// The result of an operation.
    Op(Completion, Result<Output, Error>),
    /// The result of a flush or of a call about a transaction.
    Call(Promise<()>, Result<(), Error>),
}

impl ClientRole for Machine {
    type Locked = Locked;
    type Unlocked = Unlocked;
    type Done = Done;
    const METRICS: &str = "producer";

    fn families(state: &State<Self>, _unlocked: &Unlocked, now: Time) -> Vec<Family> {
        state.role.families(now)
    }

    fn windows(state: &State<Self>, now: Time) -> Vec<Family> {
        state.role.windows(now)
    }

    fn poll_done(state: &mut State<Self>, unlocked: &Unlocked) -> Option<Done> {
        let State { role, local, .. } = state;
        if let Some(event) = role.poll_event() {
            if let (Err(error), 1..) = (&event.result, event.untracked) {
                unlocked.has_failures.store(true, Relaxed);
                local.note_failure(error, event.untracked);
            }
            unlocked.undelivered.fetch_add(1, SeqCst);
            return Some(Done::Batch(event));
        }
        if let Some((completion, result)) = role.poll_done() {
            return Some(Done::Op(completion, result));
        }
        if unlocked.undelivered.load(SeqCst) > 0 {
            return None;
        }
        while let Some((call, result)) = role.poll_call() {
            if let Some(promise) = local.calls.remove(&call) {
                return Some(Done::Call(promise, result));
            }
        }
        unlocked.is_awaited.store(!(local.flushes.is_empty() && local.calls.is_empty()), SeqCst);
        let at = local.flushes.iter().position(|(flush, _)| role.is_flushed(*flush))?;
        Some(Done::Call(local.flushes.swap_remove(at).1, Ok(())))
    }

    fn deliver(done: Done, shared: &Shared<Self>) {
        match done {
            Done::Op(completion, result) => completion(result),
            Done::Call(promise, result) => promise.complete(result),
            Done::Batch(event) => {
                let mut abandoned = 0;
                dispatch::batch(|| {
                    for d in event.deliveries {
                        let result = event.result.clone().map(|(base_offset, append_time)| RecordMetadata {
                            topic: event.topic.clone(),
                            partition: event.partition,
                            offset: if base_offset < 0 { -1 } else { base_offset + i64::from(d.index) },
                            timestamp: if append_time < 0 { d.timestamp } else { append_time },
                        });
                        abandoned += u64::from(d.completion.complete_and_check(result));
                    }
                });
                if let (Err(error), 1..) = (&event.result, abandoned) {
                    note_failure(shared, error, abandoned);
                }
                let unlocked = &shared.unlocked;
                if unlocked.undelivered.fetch_sub(1, SeqCst) == 1 && unlocked.is_awaited.load(SeqCst) {
                    shared.nudge();
                }
            }
        }
    }

    fn fail_all(state: &mut State<Self>, error: &Error) {
        let lost = state.role.outstanding();
        if lost > 0 {
            let (what, topics) = (records_were(lost), by_topic(&state.role));
            event!(
                Warn,
                Producer,
                Location::default(),
                "{what} not acknowledged before the producer ended, and may be lost: {topics}; flush() waits for all \
                 records"
            );
        }
        if let Some(id) = state.role.unended_transaction() {
            event!(
                Warn,
                Producer,
                Location::default(),
                "the producer ended in a transaction of transactional id {id:?}; the brokers abort the transaction after \
                 transaction.timeout.ms, and until then consumers with read_committed wait"
            );
        }
        state.role.fail_all(error);
        for (flush, promise) in std::mem::take(&mut state.local.flushes) {
            // No caller will learn the result of a batch that is still in flight.
            promise.complete(if state.role.is_flushed(flush) { Ok(()) } else { Err(error.clone()) });
        }
        state.role.abandon_all(error);
    }

    /// Returns whether calls that wait for room in the buffer may continue.
    fn ends_wait(state: &State<Self>) -> bool {
        state.role.has_room() && !state.role.is_paused()
    }

    fn max_io_pause(state: &State<Self>, _unlocked: &Unlocked, _has_visited: bool) -> Option<Duration> {
        (state.role.outstanding() <= 1).then_some(MAX_ACTIVE_SLEEP)
    }

    /// Returns whether exactly one record has no result yet, and nothing delays this record.
    fn is_light(state: &State<Self>) -> bool {
        state.role.is_single()
    }

    fn refusal(state: &State<Self>) -> Option<Error> {
        state.role.last_refusal().cloned()
    }
}

fn note_failure(shared: &Shared<Machine>, error: &Error, count: u64) {
    shared.state().local.note_failure(error, count);
    shared.unlocked.has_failures.store(true, Relaxed);
}

impl Locked {
    fn note_failure(&mut self, error: &Error, count: u64) {
        let same = |f: &&mut Failure| f.error.to_string() == error.to_string();
        if let Some(known) = self.failures.iter_mut().find(same) {
            known.count += count;
        } else if self.failures.len() < MAX_FAILURES {
            self.failures.push(Failure { error: error.clone(), count });
        } else if let Some(last) = self.failures.last_mut() {
            last.count += count;
        }
    }
}

/// The wall clock for the timestamps of records. The time is computed from the client's clock, which every call reads
/// anyway. Once a second, the wall clock reads the system's clock, to follow adjustments.
#[derive(Default)]
struct WallClock {
    /// The start of the client's clock, in milliseconds since 1970.
    start: AtomicI64,
    /// When the system's clock was last read, in microseconds of the client's clock, or 0 if it was never read.
    read: AtomicU64,
}

impl WallClock {
    fn at(&self, now: Time) -> i64 {
        let read = self.read.load(Relaxed);
        let since_start = i64::try_from(now.0 / 1000).unwrap_or(i64::MAX);
        if read == 0 || now.0.saturating_sub(read) > 1_000_000 {
            let today = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
            self.start.store(i64::try_from(today).unwrap_or(i64::MAX).saturating_sub(since_start), Relaxed);
            self.read.store(now.0.max(1), Relaxed);
        }
        self.start.load(Relaxed).saturating_add(since_start)
    }
}

impl Client<Machine> {
    /// Creates a producer, which connects when it is first used.
    pub fn new(config: &Config) -> Result<Self, Error> {
        config.expect(ClientType::Producer)?;
        let role = config.producer()?;
        let connecting = config.connecting()?;
        let unlocked = Unlocked {
            has_failures: AtomicBool::new(false),
            undelivered: AtomicU64::new(0),
            is_awaited: AtomicBool::new(false),
            wall: WallClock::default(),
            max_block: role.max_block,
            drop_when_full: config.drop_when_full(),
            create_topics: connecting.network.allow_auto_topic_creation,
        };
        Ok(Self::start(Machine::new(role), unlocked, connecting, config.api_timeout()))
    }

    /// Sends a record and returns its pending delivery. Never blocks. If the buffer is full, returns an error of kind
    /// `BufferFull`.
    pub fn send(&self, topic: &str, record: NewRecord<'_>) -> Result<Pending<RecordMetadata>, Error> {
        let (promise, pending) = Pending::new();
        let mut appender = self.batch()?;
        let topic = appender.topic(topic)?;
        appender.append(topic, record, Some(promise))?;
        Ok(pending)
    }

    /// Notes that no caller will take the result of a record. [`Producer::take_failures`] returns its failure.
    pub fn abandon(&self, delivery: &Pending<RecordMetadata>) {
        // In the child of a fork, the locks may stay locked for ever.
        if self.check_birth().is_err() {
            return;
        }
        let Some(error) = delivery.abandon() else { return };
        if self.awaits_failures() {
            note_failure(self.shared(), &error, 1);
        }
    }

    /// Returns whether the program may still need the error of a record that has failed. The end of a transaction has
    /// reported the failures of its records.
    pub fn awaits_failures(&self) -> bool {
        self.state().role.awaits_failures()
    }

    /// Sends a record without a promise. [`Producer::take_failures`] returns its failure. Never blocks.
    pub fn send_nowait(&self, topic: &str, record: NewRecord<'_>) -> Result<(), Error> {
        let mut appender = self.batch()?;
        let topic = appender.topic(topic)?;
        appender.send_nowait(topic, record)
    }

    /// Locks the producer for a call that sends many records.
    pub fn batch(&self) -> Result<Appender<'_>, Error> {
        self.note_send();
        let state = self.open()?;
        let now = self.now();
        let waking = Waking { producer: self, is_needed: false, is_single: false };
        let unlocked = self.unlocked();
        Ok(Appender { state, waking, now, wall: unlocked.wall.at(now), drop_when_full: unlocked.drop_when_full })
    }

    /// Returns whether a call fails at once if the buffer is full.
    pub fn drop_when_full(&self) -> bool {
        self.unlocked().drop_when_full
    }

    /// Returns how long a call may wait for room in the buffer.
    pub fn max_block(&self) -> Duration {
        self.unlocked().max_block
    }

    /// Returns whether a bulk append has paused ([`Appender::is_ahead`]) and still has to wait.
    pub fn is_paced(&self) -> bool {
        self.state().role.is_paused()
    }

    /// Waits until the network has sent enough records for paused bulk appends, at most for [`PAUSE`].
    pub fn pause(&self) {
        if !self.wait_until(PAUSE, |state| !state.role.is_paused()) {
            self.run_ahead();
        }
    }

    /// Ends the pauses of bulk appends.
    pub fn run_ahead(&self) {
        let mut state = self.state();
        state.role.run_ahead();
        if Machine::ends_wait(&state) {
            state.wakers.drain(..).for_each(std::task::Waker::wake);
        }
    }

    /// Waits until a full buffer has room again. Returns whether the buffer has room.
    pub fn wait_for_room(&self, timeout: Duration) -> bool {
        self.wait_until(timeout, |state| state.role.has_room())
    }

    /// Returns whether the buffer has room.
    pub fn has_room(&self) -> bool {
        self.state().role.has_room()
    }

    /// Completes when every earlier record has its result.
    pub fn flush(&self) -> Result<Pending<()>, Error> {
        let mut state = self.open()?;
        let flush = state.role.flush();
        let unlocked = self.unlocked();
        if state.role.is_flushed(flush) && unlocked.undelivered.load(SeqCst) == 0 {
            return Ok(Pending::ready(Ok(())));
        }
        let (promise, pending) = Pending::new();
        state.local.flushes.push((flush, promise));
        unlocked.is_awaited.store(true, SeqCst);
        drop(state);
        self.wake()?;
        Ok(pending)
    }

    /// Prepares transactions: fences earlier producers with the same transactional ID, and ends their open transaction.
    pub fn init_transactions(&self) -> Result<Pending<()>, Error> {
        self.call(Machine::init_transactions)
    }

    /// Begins a transaction. The transaction includes every record that is sent before it ends.
    pub fn begin_transaction(&self) -> Result<(), Error> {
        self.open()?.role.begin_transaction()
    }

    /// Commits or aborts the transaction after all its records have results. If a part of the transaction failed, a
    /// commit aborts the transaction and fails with an error of kind `Aborted`.
    pub fn end_transaction(&self, commit: bool) -> Result<Pending<()>, Error> {
        self.call(|p, now| p.end_transaction(now, commit))
    }

    /// Returns whether the producer sends records only in transactions.
    pub fn is_transactional(&self) -> bool {
        self.state().role.is_transactional()
    }

    /// Returns whether a transaction is open, even if it has failed.
    pub fn is_in_transaction(&self) -> bool {
        self.state().role.is_in_transaction()
    }

    /// Aborts the open transaction, if there is one.
    pub fn abort_transaction(&self) -> Option<Pending<()>> {
        if self.check().is_err() || !self.is_in_transaction() {
            return None;
        }
        self.end_transaction(false).ok()
    }

    /// Fails the open transaction, so that it can only be aborted, because one of its records could not be sent.
    pub fn fail_transaction(&self, error: &Error) {
        if self.check().is_ok() {
            self.state().role.fail_transaction(error);
            // If the I/O thread cannot be started, the end of the transaction reports it.
            let _ = self.wake();
        }
    }

    /// Commits the offsets of a consumer as part of the transaction.
    pub fn commit_offsets(&self, group: GroupMetadata, offsets: Vec<CommittedOffset>) -> Result<Pending<()>, Error> {
        self.call(|p, now| p.commit_offsets(now, group, offsets))
    }

    fn call(&self, f: impl FnOnce(&mut Machine, Time) -> Result<u64, Error>) -> Result<Pending<()>, Error> {
        self.change(|now, state| {
            let call = f(&mut state.role, now)?;
            let (promise, pending) = Pending::new();
            state.local.calls.insert(call, promise);
            self.unlocked().is_awaited.store(true, SeqCst);
            Ok(pending)
        })
    }

    /// Returns the number of records without a result.
    pub fn outstanding(&self) -> u64 {
        self.state().role.outstanding()
    }

    /// Returns the number of records without a result in each topic, for an error message.
    pub fn outstanding_by_topic(&self) -> String {
        by_topic(&self.state().role)
    }

    /// Returns whether there are failures for [`Producer::take_failures`]. Costs one atomic load.
    pub fn has_failures(&self) -> bool {
        self.unlocked().has_failures.load(Relaxed)
    }

    /// Returns the failures since the last call of records whose caller does not take the result: records without a
    /// promise, and abandoned deliveries.
    pub fn take_failures(&self) -> Vec<Failure> {
        self.unlocked().has_failures.store(false, Relaxed);
        std::mem::take(&mut self.state().local.failures)
    }

    /// Requests the partitions of a topic. While there is no response, [`Producer::why`] accepts the returned number.
    pub fn partitions_for(&self, topic: &str) -> Result<(u64, Pending<Vec<i32>>), Error> {
        let (completion, pending) = completion(|output| match output {
            Output::Partitions(p) => Some(p),
            _ => None,
        });
        let op = Box::new(Partitions::new(topic.to_owned(), self.unlocked().create_topics));
        let op = self.update(|now, state| state.role.start(now, op, self.api_timeout(), completion))?;
        Ok((op, pending))
    }

    /// Returns why an operation has no result yet, if the client knows the reason.
    pub fn why(&self, op: u64) -> Option<Error> {
        self.state().role.why(self.now(), op)
    }

    /// Returns why a broker rejected records that the producer will send again, if there are such records.
    pub fn last_refusal(&self) -> Option<Error> {
        Machine::refusal(&self.state())
    }
}

/// Appends records to a producer while it holds the producer's lock. Dropping the appender wakes the I/O thread.
pub struct Appender<'a> {
    // Fields are dropped in order: the lock is free when the I/O thread wakes up.
    state: MutexGuard<'a, State<Machine>>,
    waking: Waking<'a>,
    now: Time,
    wall: i64,
    drop_when_full: bool,
}

/// Wakes the I/O thread when this guard is dropped, if the I/O thread has work to do.
struct Waking<'a> {
    producer: &'a Producer,
    is_needed: bool,
    /// Whether the caller is about to wait for the only record that has no result.
    is_single: bool,
}

impl Appender<'_> {
    /// Returns the index of a topic.
    pub fn topic(&mut self, name: &str) -> Result<TopicIndex, Error> {
        self.state.role.topic(name).inspect_err(|_| self.waking.is_needed = true)
    }

    /// Sends a record without a promise. [`Producer::take_failures`] returns its failure. Never blocks.
    #[inline]
    pub fn send_nowait(&mut self, topic: TopicIndex, record: NewRecord<'_>) -> Result<(), Error> {
        self.append(topic, record, None)
    }

    /// Returns whether a bulk append has to pause because too many bytes wait for the network. Producers that fail on a
    /// full buffer do not pause.
    pub fn is_ahead(&mut self) -> bool {
        !self.drop_when_full && self.state.role.is_ahead()
    }

    /// Sends records like [`Appender::send_nowait`]. Returns the number of appended records, and the error that stopped
    /// the call.
    pub fn send_many(&mut self, topic: TopicIndex, records: &mut [NewRecord<'_>]) -> (usize, Result<(), Error>) {
        for record in records.iter_mut() {
            self.set_time(record);
        }
        let (appended, result) = self.state.role.append_many(self.now, topic, records);
        self.waking.is_single = false;
        self.waking.is_needed |= *result.as_ref().unwrap_or(&true);
        (appended, result.map(drop))
    }

    #[inline]
    fn set_time(&self, record: &mut NewRecord<'_>) {
        record.has_explicit_timestamp = record.timestamp != NOW;
        if !record.has_explicit_timestamp {
            record.timestamp = self.wall;
        }
    }

    #[inline]
    fn append(
        &mut self,
        topic: TopicIndex,
        mut record: NewRecord<'_>,
        promise: Option<Promise<RecordMetadata>>,
    ) -> Result<(), Error> {
        self.set_time(&mut record);
        let is_awaited = promise.is_some();
        match self.state.role.append(self.now, topic, &record, promise) {
            Ok(wake) => {
                self.waking.is_single = is_awaited && self.state.role.is_single();
                self.waking.is_needed |= wake;
                Ok(())
            }
            Err(e) => {
                self.waking.is_needed = true;
                Err(e)
            }
        }
    }
}

impl Drop for Waking<'_> {
    fn drop(&mut self) {
        if self.is_needed {
            // If the I/O thread cannot be started, the next call that waits reports it.
            let _ = if self.is_single { self.producer.push() } else { self.producer.wake() };
        }
    }
}
