//! The consumer's calls. In addition to the consumer's state machine, this file tracks how far the application has
//! read. The file also decides whether a thread of the application may poll the sockets itself.

use super::config::{ClientType, Config};
use super::core::{Client, RunsOps, completion};
use super::poll_clock::PollClock;
use super::shared::{ClientRole, Shared, State};
use super::{Assigned, Error, Pending, Slice};
use crate::api::ErrorCode;
use crate::engine::consumer::{self, ConsumerToken, Prepared, is_stale_member};
pub use crate::engine::group::Change;
use crate::engine::group::{GroupMetadata, Work};
use crate::engine::metrics::Family;
pub use crate::engine::ops::CommittedOffset;
use crate::engine::ops::{Committed, Completion, ListOffsets, Op, Output, Partitions};
use crate::engine::{ErrorKind, Outgoing, Time, TopicPartition};
use crate::logging::Component;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, MutexGuard};
use std::task::Waker;
use std::time::Duration;

/// The largest size of fetch responses, in bytes, up to which a caller polls inline. Larger responses come through the
/// I/O thread, while the application handles earlier records.
const SMALL_FETCH: usize = 16 << 10;
/// How long the I/O thread leaves the sockets to an application that may not poll again.
const READER_MAY_BE_AWAY: Duration = Duration::from_millis(100);

/// The consumer's state machine, which identifies each operation by its completion.
pub type Machine = consumer::Consumer<Completion>;

/// Reads records.
pub type Consumer = Client<Machine>;

/// The state that determines whether the application may poll the sockets itself.
#[derive(Default)]
pub struct Locked {
    /// The value of `progress` at the last comparison.
    seen: u64,
    /// Whether the last fetch response with records was small.
    is_small_fetch: bool,
    /// The number of requests in flight that are not fetches.
    others: usize,
}

/// Settings, and the activity of the application. Calls read both without the lock.
#[derive(Default)]
pub struct Unlocked {
    /// A counter that grows when the application gets records or polls.
    progress: AtomicU64,
    /// The number of threads that wait for records.
    waiting: AtomicUsize,
    /// Whether a change of the assignment waits for [`Consumer::take_change`].
    change: AtomicBool,
    /// Whether a call, which may need a response from a broker, was made since the application last waited for records.
    asked: AtomicBool,
    /// The address of the producer whose transactions commit the offsets of this consumer, or 0.
    producer: AtomicUsize,
    polls: PollClock,
    group: Option<String>,
    auto_commit: bool,
    read_committed: bool,
    waits_in_outage: bool,
}

/// A result to dispatch, or work for the dispatching thread.
pub enum Done {
    /// The result of an operation.
    Op(Completion, Result<Output, Error>),
    /// An assignment to compute for the group.
    Work(Work),
}

impl ClientRole for Machine {
    type Locked = Locked;
    type Unlocked = Unlocked;
    type Done = Done;
    const METRICS: &str = "consumer";

    fn families(state: &State<Self>, unlocked: &Unlocked, now: Time) -> Vec<Family> {
        let mut families = state.role.families(now);
        families.push(unlocked.polls.family("consumer-metrics", now));
        families
    }

    fn poll_done(state: &mut State<Self>, _unlocked: &Unlocked) -> Option<Done> {
        if let Some(work) = state.role.poll_work() {
            return Some(Done::Work(work));
        }
        state.role.poll_done().map(|(completion, result)| Done::Op(completion, result))
    }

    fn deliver(done: Done, shared: &Shared<Self>) {
        match done {
            Done::Op(completion, result) => completion(result),
            Done::Work(work) => {
                let assignment = work.run();
                shared.state().role.assigned(shared.now(), assignment);
                shared.nudge();
            }
        }
    }

    fn fail_all(state: &mut State<Self>, error: &Error) {
        state.role.log_unfinished_leave();
        state.role.fail_all(error);
    }

    fn ends_wait(state: &State<Self>) -> bool {
        state.role.is_ready() || state.role.is_finished()
    }

    fn reads_nothing(state: &State<Self>) -> bool {
        state.role.reads_nothing()
    }

    /// Notes that the application makes progress or waits for records, for `max.poll.interval.ms`. An application that
    /// waits for records also ends the pauses of idle brokers.
    fn before_timeout(state: &mut State<Self>, unlocked: &Unlocked, now: Time) {
        let progress = unlocked.progress.load(Relaxed);
        let waits = !state.wakers.is_empty() || unlocked.waiting.load(Relaxed) > 0;
        if waits {
            state.role.end_idle_pause();
        }
        if waits || progress != state.local.seen {
            state.local.seen = progress;
            state.role.note_activity(now);
        }
    }

    fn before_response(state: &mut State<Self>, response: &Prepared) {
        match response {
            Prepared::Fetch(_, Ok(fetched)) => match fetched.bytes() {
                0 => {}
                bytes => state.local.is_small_fetch = bytes <= SMALL_FETCH,
            },
            Prepared::Fetch(_, Err(_)) => {}
            Prepared::Op(_) | Prepared::Group(_) => state.local.others = state.local.others.saturating_sub(1),
        }
    }

    fn on_request(state: &mut State<Self>, outgoing: &Outgoing<ConsumerToken>) {
        state.local.others += usize::from(!matches!(outgoing.token, ConsumerToken::Fetch(..)));
    }

    fn on_call(unlocked: &Unlocked) {
        unlocked.asked.store(true, Relaxed);
    }

    fn publish(state: &State<Self>, unlocked: &Unlocked) {
        unlocked.change.store(state.role.has_change(), Relaxed);
    }

    /// Lets the I/O thread pause if only fetches are in flight. Otherwise the group or a call could wait for an
    /// application that does not poll.
    fn max_io_pause(state: &State<Self>, unlocked: &Unlocked, has_visited: bool) -> Option<Duration> {
        let is_only_fetching = state.local.others == 0 && !unlocked.asked.load(Relaxed);
        (has_visited && state.local.is_small_fetch && is_only_fetching).then_some(READER_MAY_BE_AWAY)
    }

    fn is_light(state: &State<Self>) -> bool {
        state.local.is_small_fetch
    }
}

impl RunsOps for Machine {
    fn start_op(&mut self, now: Time, op: Box<dyn Op>, timeout: Duration, completion: Completion) {
        self.start(now, op, timeout, completion);
    }
}

type Partition = (String, i32);

fn named(partitions: Vec<Partition>) -> Vec<TopicPartition> {
    partitions.into_iter().map(TopicPartition::from).collect()
}

impl Client<Machine> {
    /// Creates a consumer without partitions, which connects when it is first used.
    pub fn new(config: &Config) -> Result<Self, Error> {
        config.expect(ClientType::Consumer)?;
        let (role, connecting) = (config.consumer()?, config.connecting()?);
        let unlocked = Unlocked {
            group: role.group.as_ref().map(|g| g.group.clone()),
            auto_commit: role.auto_commit.is_some(),
            read_committed: role.read_committed,
            waits_in_outage: config.waits_in_outage(),
            ..Unlocked::default()
        };
        Ok(Self::start(Machine::new(role), unlocked, connecting, config.api_timeout()))
    }

    /// Assigns these partitions in place of the earlier partitions. With auto-commit, the consumer commits the offsets
    /// of handled records of the earlier partitions.
    pub fn assign(&self, assigned: Vec<Assigned>) -> Result<(), Error> {
        self.update(|now, s| s.role.assign(now, assigned))
    }

    /// Subscribes to topics. With a group, the members divide the partitions. Without a group, the consumer reads every
    /// partition, including partitions that are added later.
    pub fn subscribe(&self, topics: Vec<String>) -> Result<(), Error> {
        self.update(|now, s| s.role.subscribe(now, topics))
    }

    /// Subscribes to the topics whose whole name matches a regular expression, including topics that are created later.
    pub fn subscribe_pattern(&self, pattern: &str) -> Result<(), Error> {
        self.change(|now, s| s.role.subscribe_pattern(now, pattern))
    }

    /// Unsubscribes from all topics and partitions. A group member leaves its group.
    pub fn unsubscribe(&self) -> Result<(), Error> {
        self.update(|now, s| s.role.unsubscribe(now))
    }

    /// Returns whether the assignment changed, for [`Consumer::take_change`]. Costs one atomic load.
    #[inline]
    pub fn has_change(&self) -> bool {
        self.unlocked().change.load(Relaxed)
    }

    /// Notes that the application makes progress. If the application makes no progress for `max.poll.interval.ms`, the
    /// consumer leaves its group. Costs one atomic load and store.
    #[inline]
    pub fn note_progress(&self) {
        // Only the thread that polls writes it.
        self.unlocked().progress.store(self.unlocked().progress.load(Relaxed).wrapping_add(1), Relaxed);
    }

    /// Returns the next change of the assignment. The caller handles the change and then calls [`Consumer::handled`].
    /// With auto-commit, the consumer commits the offsets of revoked partitions before the change ends.
    pub fn take_change(&self) -> Result<Option<Change>, Error> {
        self.unlocked().change.store(false, Relaxed);
        self.update(|now, s| s.role.take_change(now))
    }

    /// Notes that the application has handled the change of the assignment.
    pub fn handled(&self) -> Result<(), Error> {
        self.update(|now, s| s.role.handled(now))?;
        self.unlocked().change.store(self.state().role.has_change(), Relaxed);
        Ok(())
    }

    /// Moves the position of a partition back to the first record that the application did not get.
    pub fn rewind(&self, topic: &str, partition: i32, offset: i64) {
        self.state().role.rewind(topic, partition, offset);
    }

    /// Fails if the consumer has lost its membership in its group, or has not joined its group yet.
    pub fn check_membership(&self) -> Result<(), Error> {
        self.open()?.role.check_membership()
    }

    /// Sets the producer whose transactions commit the offsets of this consumer, by its address, or 0 for no producer.
    pub fn set_producer(&self, producer: usize) {
        self.unlocked().producer.store(producer, Relaxed);
    }

    /// Returns whether the transactions of a producer commit the offsets of this consumer.
    pub fn is_of_producer(&self, producer: usize) -> bool {
        self.unlocked().producer.load(Relaxed) == producer
    }

    /// Notes that a transaction of the consumer's producer begins.
    pub fn begin_transaction(&self) {
        self.state().role.begin_transaction();
    }

    /// Stops the delivery of records until the result of the transaction is known.
    pub fn hold(&self) {
        self.state().role.hold();
    }

    /// Notes that the transaction with these offsets was committed.
    pub fn transaction_committed(&self, offsets: &[CommittedOffset]) -> Result<(), Error> {
        self.update(|_, s| s.role.transaction_committed(offsets))
    }

    /// Returns to the records of an aborted transaction. Returns the partitions whose position moved. The caller drops
    /// the delivered records of these partitions.
    pub fn transaction_aborted(&self) -> Result<Vec<TopicPartition>, Error> {
        self.update(|_, s| s.role.transaction_aborted())
    }

    /// Looks up the committed offsets, because the result of the transaction is unknown. Returns the partitions whose
    /// position may move.
    pub fn transaction_unknown(&self) -> Result<Vec<TopicPartition>, Error> {
        self.update(|now, s| s.role.transaction_unknown(now))
    }

    /// Returns whether the group assigns the partitions.
    pub fn is_member(&self) -> bool {
        self.state().role.is_member()
    }

    /// Returns whether the consumer can get no records, because it has no partitions and no subscribed topics.
    pub fn reads_nothing(&self) -> bool {
        self.state().role.reads_nothing()
    }

    /// Returns the consumer's identity in its group, if it has a group.
    pub fn group_metadata(&self) -> Result<Option<GroupMetadata>, Error> {
        Ok(self.open()?.role.group_metadata())
    }

    /// Returns the assigned partitions.
    pub fn assignment(&self) -> Result<Vec<TopicPartition>, Error> {
        Ok(self.open()?.role.assignment())
    }

    /// Returns buffered records, up to `max_records` and about `max_bytes`. Never blocks. Returns each error once,
    /// after the records that arrived before the error.
    pub fn try_poll(&self, max_records: usize, max_bytes: usize) -> Result<Vec<Slice>, Error> {
        self.note_poll(true);
        loop {
            let mut state = self.open()?;
            state.role.end_idle_pause();
            match state.role.poll_records(self.now(), max_records, max_bytes) {
                Ok(slices) => {
                    self.fetch_more(state, &slices);
                    return Ok(slices);
                }
                Err(error) if self.unlocked().waits_in_outage && error.is_outage() => {
                    drop(state);
                    self.report(Component::Consumer, &error);
                }
                Err(error) => {
                    self.note_poll(false);
                    // The error may be raised again at a later time, which the I/O thread has to learn.
                    self.nudge();
                    return Err(error);
                }
            }
        }
    }

    /// Returns buffered records like [`Consumer::try_poll`], but leaves an error for the next poll. The caller already
    /// has records, and an error would make it lose them.
    pub fn try_more(&self, max_records: usize, max_bytes: usize) -> Vec<Slice> {
        let mut state = self.state();
        let slices = state.role.take_records(max_records, max_bytes);
        self.fetch_more(state, &slices);
        slices
    }

    /// Notes that a poll begins, unless one has already begun, or that a poll ends. [`Consumer::try_poll`] notes both
    /// if it returns records.
    pub fn note_poll(&self, begins: bool) {
        self.unlocked().polls.note(self.now(), begins);
    }

    /// Makes the I/O thread fetch more if the buffer has room again. Usually the I/O thread has already sent the fetch.
    fn fetch_more(&self, mut state: MutexGuard<'_, State<Machine>>, delivered: &[Slice]) {
        let now = self.now();
        if !delivered.is_empty() {
            state.role.note_delivered(now, delivered);
            self.unlocked().polls.note(now, false);
        }
        let can_fetch = state.role.can_fetch(now);
        drop(state);
        if can_fetch {
            // There is an I/O thread: it fetched what was buffered.
            self.nudge();
        }
    }

    /// Waits until [`Consumer::try_poll`] would return records or an error, or until the consumer has reached every end
    /// offset.
    pub fn wait_for_records(&self, timeout: Duration) -> bool {
        self.unlocked().waiting.fetch_add(1, Relaxed);
        let is_small_fetch = self.begin_wait();
        let is_ready = if is_small_fetch && !timeout.is_zero() {
            self.unlocked().asked.store(false, Relaxed);
            self.wait_inline_until(timeout, Machine::ends_wait)
        } else {
            self.wait_until(timeout, Machine::ends_wait)
        };
        self.unlocked().waiting.fetch_sub(1, Relaxed);
        self.note_progress();
        is_ready
    }

    /// Calls the waker when [`Consumer::wait_for_records`] would return. A waker without a timeout is also called if the
    /// consumer has nothing to read.
    pub fn on_records(&self, waker: Waker, has_timeout: bool) {
        self.unlocked().asked.store(false, Relaxed);
        self.on_ready(waker, has_timeout);
        self.begin_wait();
    }

    /// Ends the pauses of idle brokers. A response may have begun a pause since the application polled. Returns whether
    /// the last fetch response with records was small.
    fn begin_wait(&self) -> bool {
        let mut state = self.state();
        state.role.end_idle_pause();
        let is_small_fetch = state.local.is_small_fetch;
        self.fetch_more(state, &[]);
        is_small_fetch
    }

    /// Returns whether all records up to the end offsets were delivered.
    pub fn is_finished(&self) -> bool {
        self.state().role.is_finished()
    }

    /// Notes that the application has handled a partition's records below an offset. Auto-commit commits at most this
    /// offset.
    pub fn note_handled(&self, topic: &str, partition: i32, next_offset: i64) {
        self.state().role.mark_processed(topic, partition, next_offset);
    }

    /// Moves the position of a partition to an offset.
    pub fn seek(&self, topic: &str, partition: i32, offset: i64) -> Result<(), Error> {
        if offset < 0 {
            return Err(Error::new(ErrorKind::Config, format!("cannot seek to offset {offset}"))
                .with_hint("use an offset from 0 on, or seek_to_beginning and seek_to_end"));
        }
        self.change(|now, s| s.role.seek(now, topic, partition, offset))
    }

    /// Moves the positions of partitions to a timestamp, or to the end (-1) or the beginning (-2).
    pub fn seek_to(&self, partitions: &[Partition], timestamp: i64) -> Result<(), Error> {
        self.change(|now, s| s.role.seek_to(now, partitions, timestamp))
    }

    /// Returns the position of a partition, which is the offset of the next record to deliver.
    pub fn position(&self, topic: &str, partition: i32) -> Result<Pending<i64>, Error> {
        let (completion, pending) = completion(|output| match output {
            Output::Offsets(offsets) => offsets.first().copied().flatten().map(|(offset, _)| offset),
            _ => None,
        });
        self.change(|now, s| s.role.position(now, topic, partition, completion))?;
        Ok(pending)
    }

    /// Returns why a partition has no position yet, if the client knows the reason.
    pub fn why_no_position(&self, topic: &str, partition: i32) -> Option<Error> {
        self.state().role.why_no_position(self.now(), topic, partition)
    }

    /// Pauses the delivery and the fetching of partitions. The buffered records stay in memory.
    pub fn pause(&self, partitions: &[Partition]) -> Result<(), Error> {
        self.change(|_, s| s.role.set_paused(partitions, true))
    }

    /// Resumes paused partitions.
    pub fn resume(&self, partitions: &[Partition]) -> Result<(), Error> {
        self.change(|_, s| s.role.set_paused(partitions, false))
    }

    /// Returns the paused partitions.
    pub fn paused(&self) -> Result<Vec<TopicPartition>, Error> {
        Ok(self.open()?.role.paused())
    }

    /// Commits offsets.
    pub fn commit(&self, offsets: Vec<CommittedOffset>) -> Result<Pending<()>, Error> {
        let (completion, pending) = completion(|output| matches!(output, Output::Done).then_some(()));
        self.update(|now, s| s.role.commit(now, offsets, self.api_timeout(), completion))?;
        Ok(pending)
    }

    /// Returns why a commit has no result yet, if the client knows the reason.
    pub fn why_not_committed(&self) -> Option<Error> {
        self.state().role.why_not_committed(self.now())
    }

    /// Returns the position of each partition, which is the offset after the last delivered record.
    pub fn positions(&self) -> Result<Vec<CommittedOffset>, Error> {
        Ok(self.open()?.role.delivered_offsets())
    }

    /// Adds leader epochs to offsets of delivered records, if the consumer still knows these epochs.
    pub fn with_epochs(&self, offsets: Vec<(Arc<str>, i32, i64)>) -> Result<Vec<CommittedOffset>, Error> {
        Ok(self.open()?.role.with_epochs(offsets))
    }

    /// Returns the name of the group, if the consumer has one.
    pub fn group(&self) -> Option<&str> {
        self.unlocked().group.as_deref()
    }

    /// Returns whether the consumer commits automatically.
    pub fn auto_commits(&self) -> bool {
        self.unlocked().auto_commit
    }

    /// Returns the committed offsets of the group.
    pub fn committed(
        &self,
        partitions: Vec<Partition>,
        timeout: Option<Duration>,
    ) -> Result<Pending<Vec<Option<CommittedOffset>>>, Error> {
        let Some(group) = self.unlocked().group.clone() else {
            return Err(Error::new(ErrorKind::Config, "a consumer without group.id has no committed offsets")
                .with_hint("set group_id"));
        };
        self.op(Committed::new(group, named(partitions)), timeout, |output| match output {
            Output::Committed(offsets) => Some(offsets),
            _ => None,
        })
    }

    /// Returns for each partition the offset and the timestamp of the first record at or after a timestamp. The
    /// timestamp -1 means the end, and -2 the beginning. The call waits until every partition has a leader. With
    /// `skip_leaderless`, partitions without a leader have no offset instead.
    pub fn list_offsets(
        &self,
        wanted: Vec<(String, i32, i64)>,
        timeout: Option<Duration>,
        skip_leaderless: bool,
    ) -> Result<Pending<Vec<Option<(i64, i64)>>>, Error> {
        let wanted = wanted.into_iter().map(|(t, p, timestamp)| (t.into(), p, timestamp)).collect();
        let op = match skip_leaderless {
            true => ListOffsets::of_led(self.now(), wanted, self.unlocked().read_committed),
            false => ListOffsets::new(wanted, self.unlocked().read_committed),
        };
        self.op(op, timeout, |output| match output {
            Output::Offsets(offsets) => Some(offsets),
            _ => None,
        })
    }

    /// Returns the lag of each assigned partition, in records, if it is known.
    pub fn lag(&self) -> Result<Vec<(TopicPartition, Option<i64>)>, Error> {
        Ok(self.open()?.role.lag())
    }

    /// Returns the partitions of a topic. Does not create the topic.
    pub fn partitions_for(&self, topic: &str, timeout: Option<Duration>) -> Result<Pending<Vec<i32>>, Error> {
        self.op(Partitions::new(topic.to_owned(), false), timeout, |output| match output {
            Output::Partitions(p) => Some(p),
            _ => None,
        })
    }

    /// Prepares to leave the group. With `commit`, commits the offsets of handled records, if auto-commit is enabled
    /// and there are such records.
    pub fn commit_finished(&self, commit: bool) -> Result<Option<LastCommit>, Error> {
        self.check()?;
        let now = self.now();
        let (offsets, is_member) = {
            let mut state = self.state();
            state.role.prepare_close(now);
            if !commit || !self.auto_commits() {
                return Ok(None);
            }
            (state.role.uncommitted(), state.role.group_metadata().is_some_and(|m| m.generation >= 0))
        };
        if offsets.is_empty() {
            return Ok(None);
        }
        Ok(Some(LastCommit { commit: self.commit(offsets)?, is_member }))
    }

    /// Begins to leave the group, if the consumer is a member.
    pub fn leave(&self) -> Result<(), Error> {
        self.update(|now, s| s.role.leave(now))
    }

    /// Waits until the coordinator has confirmed that the consumer left the group. The state machine gives up after
    /// some seconds.
    pub fn wait_until_left(&self, timeout: Duration) -> bool {
        self.wait_until(timeout, |state| state.role.has_left())
    }
}

/// The last commit of a consumer.
pub struct LastCommit {
    commit: Pending<()>,
    is_member: bool,
}

impl LastCommit {
    /// Waits for the result of the commit. Returns whether the result is available.
    pub fn wait(&self, timeout: Duration) -> bool {
        self.commit.wait(timeout)
    }

    /// Returns the result of the commit, or an error if it is unknown.
    ///
    /// If the group has removed the member in the meantime, there is no error: the group continues from the previous
    /// commit, as after every rebalance. If the group is in a rebalance, there is an error: the group still has the
    /// member and would accept the commit later.
    pub fn result(&self) -> Result<(), Error> {
        let unknown = || {
            Err(Error::new(ErrorKind::Timeout, "the last commit was not confirmed in time")
                .with_hint("the consumer is closed; records read since the previous commit may be read again"))
        };
        match self.commit.get().unwrap_or_else(unknown) {
            Err(error) if error.code() == Some(ErrorCode::REBALANCE_IN_PROGRESS) => Err(error.with_hint(
                "the group is still rebalancing, as its leader sends no assignment; records read since the previous commit may be read again",
            )),
            Err(error) if self.is_member && is_stale_member(&error) => Ok(()),
            result => result,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Value;

    #[test]
    fn the_io_thread_pauses_for_an_application_that_polls_for_few_records_and_nothing_else() {
        let servers = ("bootstrap.servers".to_owned(), Value::String("127.0.0.1:1".to_owned()));
        let config = Config::parse(ClientType::Consumer, [servers]).unwrap();
        let consumer = Consumer::new(&config).unwrap();
        let may_pause = |visited| Machine::max_io_pause(&consumer.state(), consumer.unlocked(), visited).is_some();
        assert!(!may_pause(true));
        consumer.state().local.is_small_fetch = true;
        assert!(may_pause(true));
        assert!(!may_pause(false));
        consumer.state().local.others = 1;
        assert!(!may_pause(true));
        consumer.state().local.others = 0;
        consumer.pause(&[]).unwrap();
        assert!(!may_pause(true));
        consumer.wait_for_records(Duration::from_millis(1));
        assert!(may_pause(true));
    }
}
