//! The producer as callers see it.

use super::config::Config;
use super::driver::{NAP, Serve, Shared};
use super::handing::Waiting;
use super::keys::Role as ClientRole;
use super::watch::{Sockets, Watched};
use super::{Error, ErrorKind, Pending, Promise, Tokens};
pub use crate::engine::group::GroupMetadata;
use crate::engine::ops::{CommittedOffset, OpToken, Ops, Output, Partitions};
use crate::engine::producer::{self, Event, Packet};
pub use crate::engine::producer::{BrokerMetrics, Metrics, NewRecord, TopicIndex, TopicMetrics};
use crate::engine::{ClientResponse, Cluster, MetadataDemand, Outgoing, Role, Time, earliest};
use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{
    AtomicBool, AtomicI64, AtomicU64,
    Ordering::{Relaxed, SeqCst},
};
use std::sync::{Arc, MutexGuard};
use std::task::Waker;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Kinds of failures that are kept apart until somebody asks; more are counted with the last.
const MAX_FAILURES: usize = 100;

/// Where a record ended up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordMetadata {
    /// The topic.
    pub topic: Arc<str>,
    /// The partition.
    pub partition: i32,
    /// The offset; -1 if the broker did not say.
    pub offset: i64,
    /// The timestamp in the log, milliseconds since 1970.
    pub timestamp: i64,
}

/// Records that nobody waits for and that were not acknowledged.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Why.
    pub error: Error,
    /// How many records.
    pub count: u64,
}

type Ticket = Promise<RecordMetadata>;
pub(super) type OpTicket = Box<dyn FnOnce(Result<Output, Error>) + Send>;

/// Makes a pending value of an operation's output.
pub(super) fn op_ticket<T: Send + 'static>(convert: fn(Output) -> Option<T>) -> (OpTicket, Pending<T>) {
    let (promise, pending) = Pending::new();
    let ticket = move |result: Result<Output, Error>| match result.map(convert) {
        Ok(Some(value)) => promise.complete(Ok(value)),
        // An operation gives one kind of output; another is dropped and reads as closed.
        Ok(None) => drop(promise),
        Err(e) => promise.complete(Err(e)),
    };
    (Box::new(ticket), pending)
}

/// Outcomes on their way from the machine to whoever waits. What a flush or the end of a transaction promises includes them,
/// so those wait for each that was taken out before.
#[derive(Default)]
pub struct InHand {
    events: AtomicU64,
    /// Whether somebody waits for there to be none.
    is_awaited: AtomicBool,
}

/// The producer's machine and operations.
pub struct Machine {
    producer: producer::Producer<Ticket>,
    ops: Ops<OpTicket>,
    flushes: Vec<(u64, Promise<()>)>,
    /// Who waits for what became of the transaction.
    calls: HashMap<u64, Promise<()>>,
    failures: Vec<Failure>,
    failed: Arc<AtomicBool>,
    room: Vec<Waker>,
    in_hand: Arc<InHand>,
}

pub enum Token {
    Producer(producer::ProducerToken<Ticket>),
    Op(OpToken),
}

pub enum ToSend {
    Producer(Packet<Ticket>),
    Op(Outgoing<OpToken>),
}

pub enum Done {
    Event(Event<Ticket>, Arc<InHand>),
    Op(OpTicket, Result<Output, Error>),
    Called(Promise<()>, Result<(), Error>),
}

impl Role for Machine {
    type Token = Token;
    type Packet = ToSend;
    type Prepared = ClientResponse<Token>;

    fn pack(packet: ToSend) -> Outgoing<Token> {
        match packet {
            ToSend::Op(o) => o.map(Token::Op),
            ToSend::Producer(packet) => producer::Producer::pack(packet).map(Token::Producer),
        }
    }

    fn prepare(answer: ClientResponse<Token>) -> ClientResponse<Token> {
        answer
    }

    fn handle_response(&mut self, now: Time, answer: ClientResponse<Token>) {
        let ClientResponse { token, node, result } = answer;
        match token {
            Token::Producer(token) => self.producer.handle_response(now, ClientResponse { token, node, result }),
            Token::Op(token) => self.ops.handle_response(now, ClientResponse { token, node, result }),
        }
    }

    fn handle_cluster(&mut self, now: Time, cluster: &Arc<Cluster>) {
        self.producer.handle_cluster(now, cluster);
        self.ops.handle_cluster(now, cluster);
    }

    fn handle_unreachable(&mut self, now: Time, error: &Error) {
        self.producer.handle_unreachable(now, error);
        self.ops.handle_unreachable(now, error);
    }

    fn poll_send(&mut self, now: Time) -> Option<ToSend> {
        let packet = self.producer.poll_send(now).map(ToSend::Producer);
        packet.or_else(|| self.ops.poll_send(now).map(ToSend::Op))
    }

    fn poll_demand(&mut self) -> Option<MetadataDemand> {
        MetadataDemand::merge([self.producer.poll_demand(), self.ops.poll_demand()])
    }

    fn wanted_topics(&self) -> BTreeSet<Arc<str>> {
        let mut wanted = self.producer.wanted_topics();
        wanted.append(&mut self.ops.wanted_topics());
        wanted
    }

    fn next_timeout(&self, now: Time) -> Option<Time> {
        earliest(self.producer.next_timeout(now), self.ops.next_timeout(now))
    }

    fn handle_timeout(&mut self, now: Time) {
        self.producer.handle_timeout(now);
        self.ops.handle_timeout(now);
    }
}

impl Serve for Machine {
    type Done = Done;

    fn poll_done(&mut self) -> Option<Done> {
        if let Some(event) = self.producer.poll_event() {
            if let (Err(error), 1..) = (&event.result, event.untracked) {
                self.note_failure(error, event.untracked);
            }
            self.in_hand.events.fetch_add(1, SeqCst);
            return Some(Done::Event(event, self.in_hand.clone()));
        }
        if let Some((ticket, result)) = self.ops.poll_done() {
            return Some(Done::Op(ticket, result));
        }
        if self.in_hand.events.load(SeqCst) > 0 {
            return None;
        }
        while let Some((call, result)) = self.producer.poll_call() {
            if let Some(promise) = self.calls.remove(&call) {
                return Some(Done::Called(promise, result));
            }
        }
        self.in_hand.is_awaited.store(!(self.flushes.is_empty() && self.calls.is_empty()), SeqCst);
        let at = self.flushes.iter().position(|(flush, _)| self.producer.is_flushed(*flush))?;
        Some(Done::Called(self.flushes.swap_remove(at).1, Ok(())))
    }

    fn deliver(done: Done, shared: &Shared<Self>) {
        match done {
            Done::Op(ticket, result) => ticket(result),
            Done::Called(promise, result) => promise.complete(result),
            Done::Event(event, in_hand) => {
                for d in event.deliveries {
                    d.ticket.complete(event.result.clone().map(|(base_offset, append_time)| RecordMetadata {
                        topic: event.topic.clone(),
                        partition: event.partition,
                        offset: if base_offset < 0 { -1 } else { base_offset + i64::from(d.index) },
                        timestamp: if append_time < 0 { d.timestamp } else { append_time },
                    }));
                }
                if in_hand.events.fetch_sub(1, SeqCst) == 1 && in_hand.is_awaited.load(SeqCst) {
                    shared.nudge();
                }
            }
        }
    }

    fn settle(&mut self, shared: &Shared<Self>) {
        if !self.room.is_empty() && (self.has_room() || shared.check().is_err()) {
            self.room.drain(..).for_each(Waker::wake);
        }
    }

    fn may_stand_by(&self, _came: bool) -> Option<Duration> {
        (self.producer.outstanding() <= 1).then_some(NAP)
    }

    fn fail_all(&mut self, error: &Error) {
        self.producer.fail_all(error);
        self.ops.fail_all(error);
        for (flush, promise) in std::mem::take(&mut self.flushes) {
            // What is in flight has no outcome that anybody will hear of.
            promise.complete(if self.producer.is_flushed(flush) { Ok(()) } else { Err(error.clone()) });
        }
        self.producer.abandon_all(error);
    }
}

impl Machine {
    /// Whether calls that wait for room are to go on.
    fn has_room(&self) -> bool {
        self.producer.has_room() && !self.producer.is_paced()
    }

    fn note_failure(&mut self, error: &Error, count: u64) {
        self.failed.store(true, Relaxed);
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

/// The time of day for records, from the clock that every call reads anyway; the other one is read once a second, so that
/// a clock that is set is followed.
#[derive(Default)]
struct WallClock {
    /// Milliseconds from the start of the client's clock to 1970, negated.
    start: AtomicI64,
    /// When the time of day was read last, microseconds of the client's clock; 0 is never.
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

/// How long a call that brings many records waits at most for the network to catch up, before it goes on filling the buffer.
pub const PAUSE: Duration = Duration::from_millis(100);

/// A record's timestamp if the caller gave none.
pub const NOW: i64 = i64::MIN;

/// Sends records; shared by any number of threads.
pub struct Producer {
    shared: Arc<Shared<Machine>>,
    failed: Arc<AtomicBool>,
    wall: WallClock,
    max_block: Duration,
    drop_when_full: bool,
    api_timeout: Duration,
    create_topics: bool,
}

impl Producer {
    /// A producer; nothing is connected before the first use.
    pub fn new(config: &Config) -> Result<Self, Error> {
        config.expect(ClientRole::Producer)?;
        let failed = Arc::new(AtomicBool::new(false));
        let role = config.producer()?;
        let connecting = config.connecting()?;
        let machine = Machine {
            ops: Ops::new(role.retry_backoff),
            flushes: Vec::new(),
            calls: HashMap::new(),
            failures: Vec::new(),
            failed: failed.clone(),
            room: Vec::new(),
            in_hand: Arc::default(),
            producer: producer::Producer::new(role.clone()),
        };
        let create_topics = connecting.network.allow_auto_topic_creation;
        let shared = Shared::new(machine, connecting);
        Ok(Self {
            shared,
            failed,
            wall: WallClock::default(),
            max_block: role.max_block,
            drop_when_full: config.drop_when_full(),
            api_timeout: config.api_timeout()?,
            create_topics,
        })
    }

    /// Sends a record and gives its outcome. Never blocks: a full buffer is an error of kind `BufferFull`.
    pub fn send(&self, topic: &str, record: NewRecord<'_>) -> Result<Pending<RecordMetadata>, Error> {
        let (promise, pending) = Pending::new();
        let mut appender = self.batch()?;
        let topic = appender.topic(topic)?;
        appender.append(topic, record, Some(promise))?;
        Ok(pending)
    }

    /// Sends a record whose failure is reported by [`Producer::take_failures`]. Never blocks.
    pub fn send_nowait(&self, topic: &str, record: NewRecord<'_>) -> Result<(), Error> {
        let mut appender = self.batch()?;
        let topic = appender.topic(topic)?;
        appender.send_nowait(topic, record)
    }

    /// Sends many records under one lock.
    pub fn batch(&self) -> Result<Appender<'_>, Error> {
        let role = self.shared.open()?;
        let now = self.shared.now();
        let waking = Waking { shared: &self.shared, is_needed: false, is_lone: false };
        Ok(Appender { role, waking, now, wall: self.wall.at(now), drop_when_full: self.drop_when_full })
    }

    /// Waits for a record's outcome as [`Pending::wait`] does, a thread switch less.
    pub fn wait(&self, delivery: &Pending<RecordMetadata>, timeout: Duration) -> bool {
        let end = Instant::now() + timeout.min(Duration::from_secs(1 << 30));
        if !timeout.is_zero() {
            self.shared.wait_in_place(end, || delivery.is_done());
        }
        delivery.wait(end.saturating_duration_since(Instant::now()))
    }

    /// Whether callers want a full buffer to be an error at once.
    pub fn drop_when_full(&self) -> bool {
        self.drop_when_full
    }

    /// How long a call may wait for room in the buffer.
    pub fn max_block(&self) -> Duration {
        self.max_block
    }

    /// Whether a call that brings many records paused ([`Appender::is_ahead`]) and is to wait still.
    pub fn is_paced(&self) -> bool {
        self.shared.role().producer.is_paced()
    }

    /// Waits for the network to catch up with such a call, at most [`PAUSE`].
    pub fn pause(&self) {
        if !self.shared.wait_until(PAUSE, |m| !m.producer.is_paced()) {
            self.run_ahead();
        }
    }

    /// Ends the pauses of such calls.
    pub fn run_ahead(&self) {
        let mut role = self.shared.role();
        role.producer.run_ahead();
        if role.has_room() {
            role.room.drain(..).for_each(Waker::wake);
        }
    }

    /// Waits until a full buffer has room again; says whether it has.
    pub fn wait_for_room(&self, timeout: Duration) -> bool {
        self.shared.wait_until(timeout, |m| m.producer.has_room())
    }

    /// Whether the buffer has room.
    pub fn has_room(&self) -> bool {
        self.shared.role().producer.has_room()
    }

    /// Wakes the waker when [`Producer::wait_for_room`] and [`Producer::pause`] would return.
    pub fn on_room(&self, waker: Waker) {
        let mut role = self.shared.role();
        if role.has_room() || self.shared.check().is_err() {
            drop(role);
            waker.wake();
        } else {
            role.room.push(waker);
        }
    }

    /// Nobody waits for room with this waker any more.
    pub fn forget(&self, waker: &Waker) {
        // In the child of a fork the lock may be held for ever, and a client that is closed has none left.
        if self.shared.check().is_ok() {
            self.shared.role().room.retain(|w| !w.will_wake(waker));
        }
    }

    /// Done when everything sent before has its outcome.
    pub fn flush(&self) -> Result<Pending<()>, Error> {
        let mut role = self.shared.open()?;
        let flush = role.producer.flush();
        if role.producer.is_flushed(flush) && role.in_hand.events.load(SeqCst) == 0 {
            return Ok(Pending::ready(Ok(())));
        }
        let (promise, pending) = Pending::new();
        role.flushes.push((flush, promise));
        role.in_hand.is_awaited.store(true, SeqCst);
        drop(role);
        self.shared.wake()?;
        Ok(pending)
    }

    /// Gets ready for transactions: settles what an earlier producer of the same transactional id left open, and fences
    /// it.
    pub fn init_transactions(&self) -> Result<Pending<()>, Error> {
        self.call(producer::Producer::init_transactions)
    }

    /// Opens a transaction; everything sent until its end is part of it.
    pub fn begin_transaction(&self) -> Result<(), Error> {
        self.shared.open()?.producer.begin_transaction()
    }

    /// Commits or aborts the transaction, once everything sent in it has its outcome. A commit of a transaction in which
    /// something failed aborts it, with an error of kind `Aborted`.
    pub fn end_transaction(&self, commit: bool) -> Result<Pending<()>, Error> {
        self.call(|p, now| p.end_transaction(now, commit))
    }

    /// Aborts the transaction, if one is open.
    pub fn abort_transaction(&self) -> Option<Pending<()>> {
        if self.shared.check().is_err() || !self.shared.role().producer.is_in_transaction() {
            return None;
        }
        self.end_transaction(false).ok()
    }

    /// Has the transaction, if one is open, end in an abort: a record of it could not be sent.
    pub fn fail_transaction(&self, error: &Error) {
        if self.shared.check().is_ok() {
            self.shared.role().producer.fail_transaction(error);
            // Whoever cannot be woken hears of it at the end.
            let _ = self.shared.wake();
        }
    }

    /// Commits a consumer's offsets as part of the transaction.
    pub fn commit_offsets(&self, group: GroupMetadata, offsets: Vec<CommittedOffset>) -> Result<Pending<()>, Error> {
        self.call(|p, now| p.commit_offsets(now, group, offsets))
    }

    fn call(
        &self,
        f: impl FnOnce(&mut producer::Producer<Ticket>, Time) -> Result<u64, Error>,
    ) -> Result<Pending<()>, Error> {
        let mut role = self.shared.open()?;
        let call = f(&mut role.producer, self.shared.now())?;
        let (promise, pending) = Pending::new();
        role.calls.insert(call, promise);
        role.in_hand.is_awaited.store(true, SeqCst);
        drop(role);
        self.shared.wake()?;
        Ok(pending)
    }

    /// What was counted so far, also after the end of the client; an error only in the child of a fork.
    pub fn metrics(&self) -> Result<Metrics, Error> {
        self.shared.check_birth()?;
        Ok(self.shared.role().producer.metrics())
    }

    /// Records without an outcome.
    pub fn outstanding(&self) -> u64 {
        self.shared.role().producer.outstanding()
    }

    /// Whether [`Producer::take_failures`] gives something; costs next to nothing.
    pub fn has_failures(&self) -> bool {
        self.failed.load(Relaxed)
    }

    /// What failed of the records that nobody waits for, since the last call.
    pub fn take_failures(&self) -> Vec<Failure> {
        self.failed.store(false, Relaxed);
        std::mem::take(&mut self.shared.role().failures)
    }

    /// The partitions of a topic, and the number to ask [`Producer::why`] with while there is no answer.
    pub fn partitions_for(&self, topic: &str) -> Result<(u64, Pending<Vec<i32>>), Error> {
        let (ticket, pending) = op_ticket(|output| match output {
            Output::Partitions(p) => Some(p),
            _ => None,
        });
        let op = Box::new(Partitions::new(topic.to_owned(), self.create_topics));
        let asked = self.shared.open()?.ops.start(self.shared.now(), op, self.api_timeout, ticket);
        self.shared.wake()?;
        Ok((asked, pending))
    }

    /// Why what was asked under a number has no answer yet, as far as that is known.
    pub fn why(&self, asked: u64) -> Option<Error> {
        self.shared.role().ops.why(self.shared.now(), asked)
    }

    /// Where tokens to log in with are left, if the client needs some.
    pub fn tokens(&self) -> Option<&Tokens> {
        self.shared.tokens()
    }

    /// Why no broker was reachable when one was last tried, if that was so.
    pub fn last_network_error(&self) -> Option<Error> {
        self.shared.unreachable()
    }

    /// Why records that are to be sent again were not taken, if there are any.
    pub fn last_refusal(&self) -> Option<Error> {
        self.shared.role().producer.last_refusal().cloned()
    }

    /// Lets whoever is about to wait for this client do so; an error for a callback that would do it for ever.
    pub fn may_wait(&self) -> Result<Waiting, Error> {
        self.shared.may_wait()
    }

    /// An error if the client is closed or was made before a fork.
    pub fn check(&self) -> Result<(), Error> {
        self.shared.check()
    }

    /// Waits for what is outstanding, at most for the timeout, and ends the client. What has no outcome by then fails.
    pub fn close(&self, timeout: Duration) -> Result<(), Error> {
        let mut left = 0;
        if let Some(abort) = self.abort_transaction() {
            abort.wait(timeout);
        }
        if self.shared.check().is_ok()
            && let Ok(flush) = self.flush()
            && !flush.wait(timeout)
        {
            left = self.outstanding();
        }
        self.shared.close();
        if left == 0 {
            return Ok(());
        }
        let message = format!("{left} records had no outcome when the producer was closed after {timeout:?}");
        Err(Error::new(ErrorKind::Timeout, message).with_hint("close later, or wait for deliveries first"))
    }
}

impl Watched for Producer {
    fn check(&self) -> Result<(), Error> {
        self.shared.check()
    }

    /// Whether there is one record without an outcome, and nothing keeps it back.
    fn is_lone(&self) -> bool {
        self.shared.role().producer.is_lone()
    }

    fn watch(&self) -> std::io::Result<Sockets> {
        self.shared.watch()
    }

    fn work(&self) -> bool {
        self.shared.work_for_watcher()
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        self.shared.close();
    }
}

/// Appends records to a producer while it holds the producer's lock; the I/O thread is woken at the end.
pub struct Appender<'a> {
    // Fields are dropped in order: the lock is free when the I/O thread wakes.
    role: MutexGuard<'a, Machine>,
    waking: Waking<'a>,
    now: Time,
    wall: i64,
    drop_when_full: bool,
}

/// Wakes the I/O thread when it is dropped, if there is something for it to do.
struct Waking<'a> {
    shared: &'a Arc<Shared<Machine>>,
    is_needed: bool,
    /// Whether somebody is about to wait for this record alone.
    is_lone: bool,
}

impl Appender<'_> {
    /// A topic to send records to.
    pub fn topic(&mut self, name: &str) -> Result<TopicIndex, Error> {
        self.role.producer.topic(name).inspect_err(|_| self.waking.is_needed = true)
    }

    /// Sends a record whose failure is reported by [`Producer::take_failures`]. Never blocks.
    #[inline]
    pub fn send_nowait(&mut self, topic: TopicIndex, record: NewRecord<'_>) -> Result<(), Error> {
        self.append(topic, record, None)
    }

    /// Whether so much waits for the network that a call which brings many records pauses. Callers that do not wait for a full
    /// buffer do not pause either.
    pub fn is_ahead(&mut self) -> bool {
        !self.drop_when_full && self.role.producer.is_ahead()
    }

    /// Sends many records as [`Appender::send_nowait`] sends each; says how many were taken, and why the next one was not.
    pub fn send_many(&mut self, topic: TopicIndex, records: &mut [NewRecord<'_>]) -> (usize, Result<(), Error>) {
        for record in records.iter_mut() {
            self.set_time(record);
        }
        let (taken, result) = self.role.producer.append_many(self.now, topic, records);
        self.waking.is_lone = false;
        self.waking.is_needed |= *result.as_ref().unwrap_or(&true);
        (taken, result.map(drop))
    }

    #[inline]
    fn set_time(&self, record: &mut NewRecord<'_>) {
        record.is_timed = record.timestamp != NOW;
        if !record.is_timed {
            record.timestamp = self.wall;
        }
    }

    #[inline]
    fn append(&mut self, topic: TopicIndex, mut record: NewRecord<'_>, ticket: Option<Ticket>) -> Result<(), Error> {
        self.set_time(&mut record);
        let is_awaited = ticket.is_some();
        match self.role.producer.append(self.now, topic, &record, ticket) {
            Ok(wake) => {
                self.waking.is_lone = is_awaited && self.role.producer.is_lone();
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
            // The error of a thread that cannot be started comes with the next call that waits.
            let _ = if self.is_lone { self.shared.push() } else { self.shared.wake() };
        }
    }
}
