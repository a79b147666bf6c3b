//! The consumer as callers see it.

use super::config::Config;
use super::driver::{Serve, Shared};
use super::handing::Waiting;
use super::keys::Role as ClientRole;
use super::producer::{OpTicket, op_ticket};
use super::watch::{Sockets, Watched};
use super::{Assigned, Error, Pending, Slice, Tokens};
use crate::api::ErrorCode;
use crate::engine::consumer::{self, ConsumerToken, Prepared, is_late};
pub use crate::engine::group::Change;
use crate::engine::group::{GroupMetadata, Work};
pub use crate::engine::ops::CommittedOffset;
use crate::engine::ops::{Committed, ListOffsets, Op, Output, Partitions};
use crate::engine::{ClientResponse, Cluster, ErrorKind, MetadataDemand, Outgoing, Role, Time, TopicPartition};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, MutexGuard};
use std::task::Waker;
use std::time::{Duration, Instant};

/// The consumer's machine and who waits for records.
pub struct Machine {
    consumer: consumer::Consumer<OpTicket>,
    wakers: Vec<Waker>,
    activity: Arc<Activity>,
    /// The reader's progress when it was last looked at.
    seen: u64,
    /// Whether the last answer with records had few.
    is_trickle: bool,
    /// Requests other than fetches that have no answer yet.
    others: usize,
}

/// An answer of so many bytes is read by whoever waits for it; more is read ahead by the I/O thread, while the program looks
/// at what it has.
const TRICKLE: usize = 16 << 10;
/// For how long the I/O thread leaves reading to a program that may not come back.
const READER_MAY_BE_AWAY: Duration = Duration::from_millis(100);

/// What the reader does, seen without a lock.
#[derive(Debug, Default)]
struct Activity {
    /// Counts records and polls.
    progress: AtomicU64,
    /// Readers that wait for records.
    waiting: AtomicUsize,
    /// Whether there is a change of partitions to take.
    change: AtomicBool,
    /// Whether something was asked for since a reader waited last.
    asked: AtomicBool,
}

impl Machine {
    fn is_ready(&self) -> bool {
        self.consumer.is_ready() || self.consumer.is_finished()
    }

    fn look_at_reader(&mut self, now: Time) {
        let progress = self.activity.progress.load(Relaxed);
        if progress != self.seen || !self.wakers.is_empty() || self.activity.waiting.load(Relaxed) > 0 {
            self.seen = progress;
            self.consumer.note_activity(now);
        }
    }
}

/// What is handed out outside of the lock.
pub enum Done {
    /// An operation's outcome.
    Op(OpTicket, Result<Output, Error>),
    /// An assignment to make for the group.
    Work(Work),
}

impl Role for Machine {
    type Token = ConsumerToken;
    type Packet = Outgoing<ConsumerToken>;
    type Prepared = Prepared;

    fn pack(packet: Outgoing<ConsumerToken>) -> Outgoing<ConsumerToken> {
        packet
    }

    fn prepare(answer: ClientResponse<ConsumerToken>) -> Prepared {
        consumer::Consumer::<OpTicket>::prepare(answer)
    }

    fn handle_response(&mut self, now: Time, answer: Prepared) {
        match &answer {
            Prepared::Fetch(_, Ok(fetched)) => match fetched.bytes() {
                0 => {}
                bytes => self.is_trickle = bytes <= TRICKLE,
            },
            Prepared::Fetch(_, Err(_)) => {}
            Prepared::Op(_) | Prepared::Group(_) => self.others = self.others.saturating_sub(1),
        }
        self.consumer.handle_response(now, answer);
    }

    fn handle_cluster(&mut self, now: Time, cluster: &Arc<Cluster>) {
        self.consumer.handle_cluster(now, cluster);
    }

    fn handle_unreachable(&mut self, now: Time, error: &Error) {
        self.consumer.handle_unreachable(now, error);
    }

    fn poll_send(&mut self, now: Time) -> Option<Outgoing<ConsumerToken>> {
        let outgoing = self.consumer.poll_send(now)?;
        self.others += usize::from(!matches!(outgoing.token, ConsumerToken::Fetch(..)));
        Some(outgoing)
    }

    fn poll_demand(&mut self) -> Option<MetadataDemand> {
        self.consumer.poll_demand()
    }

    fn wanted_topics(&self) -> BTreeSet<Arc<str>> {
        self.consumer.wanted_topics()
    }

    fn next_timeout(&self, now: Time) -> Option<Time> {
        self.consumer.next_timeout(now)
    }

    fn handle_timeout(&mut self, now: Time) {
        self.look_at_reader(now);
        self.consumer.handle_timeout(now);
    }
}

impl Serve for Machine {
    type Done = Done;

    fn poll_done(&mut self) -> Option<Done> {
        if let Some(work) = self.consumer.poll_work() {
            return Some(Done::Work(work));
        }
        self.consumer.poll_done().map(|(ticket, result)| Done::Op(ticket, result))
    }

    fn deliver(done: Done, shared: &Shared<Self>) {
        match done {
            Done::Op(ticket, result) => ticket(result),
            Done::Work(work) => {
                let made = work.run();
                shared.role().consumer.assigned(shared.now(), made);
                // A thread that cannot be started is told to whoever waits.
                shared.nudge();
            }
        }
    }

    fn settle(&mut self, shared: &Shared<Self>) {
        self.activity.change.store(self.consumer.has_change(), Relaxed);
        if !self.wakers.is_empty() && (self.is_ready() || shared.check().is_err()) {
            self.wakers.drain(..).for_each(Waker::wake);
        }
    }

    fn may_stand_by(&self, came: bool) -> Option<Duration> {
        // A group does not wait for a reader that is away, nor does whoever asked for something.
        let is_only_fetching = self.others == 0 && !self.activity.asked.load(Relaxed);
        (came && self.is_trickle && is_only_fetching).then_some(READER_MAY_BE_AWAY)
    }

    fn fail_all(&mut self, error: &Error) {
        self.consumer.fail_all(error);
    }
}

/// Reads records.
pub struct Consumer {
    shared: Arc<Shared<Machine>>,
    activity: Arc<Activity>,
    group: Option<String>,
    auto_commit: bool,
    read_committed: bool,
    api_timeout: Duration,
    create_topics: bool,
}

type Partition = (String, i32);

fn named(partitions: Vec<Partition>) -> Vec<TopicPartition> {
    partitions.into_iter().map(TopicPartition::from).collect()
}

impl Consumer {
    /// A consumer of nothing; nothing is connected before the first use.
    pub fn new(config: &Config) -> Result<Self, Error> {
        config.expect(ClientRole::Consumer)?;
        let (role, connecting) = (config.consumer()?, config.connecting()?);
        let (group, auto_commit) = (role.group.as_ref().map(|g| g.group.clone()), role.auto_commit.is_some());
        let (read_committed, create_topics) = (role.read_committed, connecting.network.allow_auto_topic_creation);
        let activity = Arc::new(Activity::default());
        let consumer = consumer::Consumer::new(role);
        let shared = Shared::new(
            Machine { consumer, wakers: Vec::new(), activity: activity.clone(), seen: 0, is_trickle: false, others: 0 },
            connecting,
        );
        Ok(Self {
            shared,
            activity,
            group,
            auto_commit,
            read_committed,
            api_timeout: config.api_timeout()?,
            create_topics,
        })
    }

    fn change<R>(
        &self,
        f: impl FnOnce(Time, &mut consumer::Consumer<OpTicket>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let result = f(self.shared.now(), &mut self.shared.open()?.consumer)?;
        self.activity.asked.store(true, Relaxed);
        self.shared.wake()?;
        Ok(result)
    }

    fn op<T: Send + 'static>(
        &self,
        op: impl Op + 'static,
        timeout: Option<Duration>,
        convert: fn(Output) -> Option<T>,
    ) -> Result<Pending<T>, Error> {
        let (ticket, pending) = op_ticket(convert);
        let timeout = timeout.unwrap_or(self.api_timeout);
        self.change(|now, c| {
            c.start(now, Box::new(op), timeout, ticket);
            Ok(())
        })?;
        Ok(pending)
    }

    /// Reads these partitions and no others. What the reader is done with of those before is committed, with auto commit.
    pub fn assign(&self, assigned: Vec<Assigned>) -> Result<(), Error> {
        self.change(|now, c| {
            c.assign(now, assigned);
            Ok(())
        })
    }

    /// Reads these topics: with the other members of the group if there is one, or else every partition, also those that
    /// are added later.
    pub fn subscribe(&self, topics: Vec<String>) -> Result<(), Error> {
        self.change(|now, c| {
            c.subscribe(now, topics);
            Ok(())
        })
    }

    /// Reads the topics whose whole name matches a regular expression, also those that are made later.
    pub fn subscribe_pattern(&self, pattern: &str) -> Result<(), Error> {
        self.change(|now, c| c.subscribe_pattern(now, pattern))
    }

    /// Reads nothing any more; a member leaves its group.
    pub fn unsubscribe(&self) -> Result<(), Error> {
        self.change(|now, c| {
            c.unsubscribe(now);
            Ok(())
        })
    }

    /// Whether [`Consumer::take_change`] has something; costs next to nothing.
    #[inline]
    pub fn has_change(&self) -> bool {
        self.activity.change.load(Relaxed)
    }

    /// Notes that the reader gets on; costs next to nothing. One that does not for `max.poll.interval.ms` loses its place.
    #[inline]
    pub fn note_progress(&self) {
        // Only this thread writes.
        self.activity.progress.store(self.activity.progress.load(Relaxed).wrapping_add(1), Relaxed);
    }

    /// What the group changed, to be followed by [`Consumer::handled`]. What is given up is committed meanwhile, with
    /// auto commit.
    pub fn take_change(&self) -> Result<Option<Change>, Error> {
        self.activity.change.store(false, Relaxed);
        self.change(|now, c| Ok(c.take_change(now)))
    }

    /// Notes that the reader did what the group wanted.
    pub fn handled(&self) -> Result<(), Error> {
        self.change(|now, c| {
            c.handled(now);
            Ok(())
        })?;
        self.activity.change.store(self.shared.role().consumer.has_change(), Relaxed);
        Ok(())
    }

    /// Goes back to the first record that the reader did not get.
    pub fn rewind(&self, topic: &str, partition: i32, offset: i64) {
        self.shared.role().consumer.rewind(topic, partition, offset);
    }

    /// Whether the group says what is read.
    pub fn is_member(&self) -> bool {
        self.shared.role().consumer.is_member()
    }

    /// Whether there is nothing to wait for: no partition, and no topic that may have some.
    pub fn reads_nothing(&self) -> bool {
        self.shared.role().consumer.reads_nothing()
    }

    /// Who the consumer is in its group, if it has one.
    pub fn group_metadata(&self) -> Result<Option<GroupMetadata>, Error> {
        Ok(self.shared.open()?.consumer.group_metadata())
    }

    /// What is assigned.
    pub fn assignment(&self) -> Result<Vec<TopicPartition>, Error> {
        Ok(self.shared.open()?.consumer.assignment())
    }

    /// What is buffered, up to `max_records` and about `max_bytes`; never blocks. An error is given once, after the
    /// records before it.
    pub fn try_poll(&self, max_records: usize, max_bytes: usize) -> Result<Vec<Slice>, Error> {
        let mut role = self.shared.open()?;
        let slices = role.consumer.poll_records(max_records, max_bytes)?;
        self.fetch_on(role);
        Ok(slices)
    }

    /// The same for a reader that has records already, which an error would throw away: it stays for the next poll.
    pub fn try_more(&self, max_records: usize, max_bytes: usize) -> Vec<Slice> {
        let mut role = self.shared.role();
        let slices = role.consumer.take_records(max_records, max_bytes);
        self.fetch_on(role);
        slices
    }

    /// Has the I/O thread fetch more if what was taken out made room for it. Mostly it has asked already.
    fn fetch_on(&self, role: MutexGuard<'_, Machine>) {
        let can_fetch = role.consumer.can_fetch(self.shared.now());
        drop(role);
        if can_fetch {
            // Without that thread nothing would have been there.
            self.shared.nudge();
        }
    }

    /// Waits until [`Consumer::try_poll`] has something, or everything up to the ends was given out.
    pub fn wait_for_records(&self, timeout: Duration) -> bool {
        self.activity.waiting.fetch_add(1, Relaxed);
        let is_trickle = self.shared.role().is_trickle;
        let is_ready = if is_trickle && !timeout.is_zero() {
            self.activity.asked.store(false, Relaxed);
            self.shared.wait_in_place_until(timeout, Machine::is_ready)
        } else {
            self.shared.wait_until(timeout, Machine::is_ready)
        };
        self.activity.waiting.fetch_sub(1, Relaxed);
        self.note_progress();
        is_ready
    }

    /// Wakes the waker when [`Consumer::wait_for_records`] would return.
    pub fn on_records(&self, waker: Waker) {
        let mut role = self.shared.role();
        if role.is_ready() || self.shared.check().is_err() {
            drop(role);
            waker.wake();
        } else {
            self.activity.asked.store(false, Relaxed);
            role.wakers.push(waker);
        }
    }

    /// Nobody waits with this waker any more.
    pub fn forget(&self, waker: &Waker) {
        // In the child of a fork the lock may be held for ever, and a client that is closed has none left.
        if self.shared.check().is_ok() {
            self.shared.role().wakers.retain(|w| !w.will_wake(waker));
        }
    }

    /// Whether everything up to the end offsets was given out.
    pub fn is_finished(&self) -> bool {
        self.shared.role().consumer.is_finished()
    }

    /// Notes that the reader is done with a partition's records before an offset; auto commit commits no more.
    pub fn finished_with(&self, topic: &str, partition: i32, next_offset: i64) {
        self.shared.role().consumer.finished_with(topic, partition, next_offset);
    }

    /// Notes that the reader is done with everything given out.
    pub fn finished_with_all(&self) {
        self.shared.role().consumer.finished_with_all();
    }

    /// Reads on at an offset.
    pub fn seek(&self, topic: &str, partition: i32, offset: i64) -> Result<(), Error> {
        if offset < 0 {
            return Err(Error::new(ErrorKind::Config, format!("cannot seek to offset {offset}"))
                .with_hint("offsets count from 0; seek_to_beginning and seek_to_end name the ends"));
        }
        self.change(|now, c| c.seek(now, topic, partition, offset))
    }

    /// Reads on at a time, or at one of the special ones: -1 for the end, -2 for the start.
    pub fn seek_to(&self, partitions: &[Partition], timestamp: i64) -> Result<(), Error> {
        self.change(|now, c| c.seek_to(now, partitions, timestamp))
    }

    /// The next offset to give out of a partition, once it is known.
    pub fn position(&self, topic: &str, partition: i32) -> Result<Pending<i64>, Error> {
        let (ticket, pending) = op_ticket(|output| match output {
            Output::Offsets(offsets) => offsets.first().copied().flatten().map(|(offset, _)| offset),
            _ => None,
        });
        self.change(|now, c| c.position(now, topic, partition, ticket))?;
        Ok(pending)
    }

    /// Why a partition has no position yet, as far as that is known.
    pub fn why_no_position(&self, topic: &str, partition: i32) -> Option<Error> {
        self.shared.role().consumer.why_no_position(self.shared.now(), topic, partition)
    }

    /// Stops giving out and fetching records of partitions; what is buffered stays.
    pub fn pause(&self, partitions: &[Partition]) -> Result<(), Error> {
        self.change(|_, c| c.set_paused(partitions, true))
    }

    /// Goes on with partitions.
    pub fn resume(&self, partitions: &[Partition]) -> Result<(), Error> {
        self.change(|_, c| c.set_paused(partitions, false))
    }

    /// What is paused.
    pub fn paused(&self) -> Result<Vec<TopicPartition>, Error> {
        Ok(self.shared.open()?.consumer.paused())
    }

    /// Commits offsets.
    pub fn commit(&self, offsets: Vec<CommittedOffset>) -> Result<Pending<()>, Error> {
        let (ticket, pending) = op_ticket(|output| matches!(output, Output::Done).then_some(()));
        self.change(|now, c| {
            c.commit(now, offsets, self.api_timeout, ticket);
            Ok(())
        })?;
        Ok(pending)
    }

    /// Why what was to be committed is not yet, as far as that is known.
    pub fn why_not_committed(&self) -> Option<Error> {
        self.shared.role().consumer.why_not_committed(self.shared.now())
    }

    /// The offset behind everything given out, of each partition that has a position.
    pub fn given_out(&self) -> Result<Vec<CommittedOffset>, Error> {
        Ok(self.shared.open()?.consumer.given_out())
    }

    /// Offsets behind records that were given out, with the epochs of their leaders as far as they are known still.
    pub fn with_epochs(&self, offsets: Vec<(Arc<str>, i32, i64)>) -> Result<Vec<CommittedOffset>, Error> {
        Ok(self.shared.open()?.consumer.with_epochs(offsets))
    }

    /// The group, if the consumer has one.
    pub fn group(&self) -> Option<&str> {
        self.group.as_deref()
    }

    /// Whether offsets are committed by themselves.
    pub fn auto_commits(&self) -> bool {
        self.auto_commit
    }

    /// The offsets the group committed.
    pub fn committed(
        &self,
        partitions: Vec<Partition>,
        timeout: Option<Duration>,
    ) -> Result<Pending<Vec<Option<CommittedOffset>>>, Error> {
        let Some(group) = self.group.clone() else {
            return Err(Error::new(ErrorKind::Config, "a consumer without group.id has no committed offsets")
                .with_hint("give the consumer a group_id"));
        };
        self.op(Committed::new(group, named(partitions)), timeout, |output| match output {
            Output::Committed(offsets) => Some(offsets),
            _ => None,
        })
    }

    /// The first offset at or after a time for each partition, with its timestamp; -1 asks for the end, -2 for the
    /// start. A partition that nobody leads is waited for, or has none if it is `of_led` ones.
    pub fn list_offsets(
        &self,
        wanted: Vec<(String, i32, i64)>,
        timeout: Option<Duration>,
        of_led: bool,
    ) -> Result<Pending<Vec<Option<(i64, i64)>>>, Error> {
        let wanted = wanted.into_iter().map(|(t, p, timestamp)| (t.into(), p, timestamp)).collect();
        let op = match of_led {
            true => ListOffsets::of_led(self.shared.now(), wanted, self.read_committed),
            false => ListOffsets::new(wanted, self.read_committed),
        };
        self.op(op, timeout, |output| match output {
            Output::Offsets(offsets) => Some(offsets),
            _ => None,
        })
    }

    /// For each assigned partition, how many records the reader is behind, if that is known.
    pub fn lag(&self) -> Result<Vec<(TopicPartition, Option<i64>)>, Error> {
        Ok(self.shared.open()?.consumer.lag())
    }

    /// The partitions of a topic.
    pub fn partitions_for(&self, topic: &str, timeout: Option<Duration>) -> Result<Pending<Vec<i32>>, Error> {
        self.op(Partitions::new(topic.to_owned(), self.create_topics), timeout, |output| match output {
            Output::Partitions(p) => Some(p),
            _ => None,
        })
    }

    /// Where tokens to log in with are left, if the client needs some.
    pub fn tokens(&self) -> Option<&Tokens> {
        self.shared.tokens()
    }

    /// Why no broker was reachable when one was last tried, if that was so.
    pub fn last_network_error(&self) -> Option<Error> {
        self.shared.unreachable()
    }

    /// Lets whoever is about to wait for this client do so; an error for a callback that would do it for ever.
    pub fn may_wait(&self) -> Result<Waiting, Error> {
        self.shared.may_wait()
    }

    /// An error if the client is closed or was made before a fork.
    pub fn check(&self) -> Result<(), Error> {
        self.shared.check()
    }

    /// Commits what the reader is done with, before it leaves, if auto commit is on and there is something to commit.
    pub fn commit_finished(&self) -> Result<Option<LastCommit>, Error> {
        self.shared.check()?;
        let now = self.shared.now();
        let (offsets, is_member) = {
            let mut role = self.shared.role();
            role.consumer.is_about_to_go(now);
            if !self.auto_commit {
                return Ok(None);
            }
            (role.consumer.uncommitted(), role.consumer.group_metadata().is_some_and(|m| m.generation >= 0))
        };
        if offsets.is_empty() {
            return Ok(None);
        }
        Ok(Some(LastCommit { commit: self.commit(offsets)?, is_member }))
    }

    /// Begins to leave the group, if the consumer is a member.
    pub fn leave(&self) -> Result<(), Error> {
        self.change(|now, c| {
            c.leave(now);
            Ok(())
        })
    }

    /// Waits until the coordinator knows that the consumer left; it is not waited for longer than some seconds.
    pub fn wait_until_left(&self, timeout: Duration) -> bool {
        self.shared.wait_until(timeout, |machine| machine.consumer.has_left())
    }

    /// Commits what the reader is done with, if auto commit is on, leaves the group, and ends the client, all of it
    /// within the timeout.
    pub fn close(&self, timeout: Duration) -> Result<(), Error> {
        let end = Instant::now() + timeout.min(Duration::from_secs(1 << 30));
        let mut result = Ok(());
        if let Ok(Some(commit)) = self.commit_finished() {
            commit.wait(timeout);
            result = commit.result();
        }
        // Without a word of it the coordinator finds out when the session ends.
        if self.leave().is_ok() {
            self.wait_until_left(end.saturating_duration_since(Instant::now()));
        }
        self.end();
        result
    }

    /// Ends the client without another word.
    pub fn end(&self) {
        self.shared.close();
    }
}

/// The commit with which a reader ends.
pub struct LastCommit {
    commit: Pending<()>,
    is_member: bool,
}

impl LastCommit {
    /// Waits for its outcome, which [`LastCommit::result`] gives; whether it is there.
    pub fn wait(&self, timeout: Duration) -> bool {
        self.commit.wait(timeout)
    }

    /// What became of it; an error if that is not known. A group that went on without the member meanwhile reads on from the
    /// commit before, as after every change: nobody has to do anything about that. One whose members still share has the member
    /// yet, and would have taken the commit later.
    pub fn result(&self) -> Result<(), Error> {
        let unknown = || {
            Err(Error::new(ErrorKind::Timeout, "the last commit was not confirmed in time")
                .with_hint("the consumer is closed; what was read since the commit before may be read again"))
        };
        match self.commit.get().unwrap_or_else(unknown) {
            Err(error) if error.code() == Some(ErrorCode::REBALANCE_IN_PROGRESS) => Err(error.with_hint(
                "the group's leader gives out no shares; what was read since the commit before may be read again",
            )),
            Err(error) if self.is_member && is_late(&error) => Ok(()),
            result => result,
        }
    }
}

impl Watched for Consumer {
    fn check(&self) -> Result<(), Error> {
        self.shared.check()
    }

    /// Whether the last answer with records had few.
    fn is_lone(&self) -> bool {
        self.shared.role().is_trickle
    }

    fn watch(&self) -> std::io::Result<Sockets> {
        self.shared.watch()
    }

    fn work(&self) -> bool {
        self.shared.work_for_watcher()
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        self.shared.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Value;

    /// The test is of who would read, not of how long that takes.
    #[test]
    fn reading_is_left_to_a_program_that_comes_back_and_waits_for_nothing_but_a_few_records() {
        let servers = ("bootstrap.servers".to_owned(), Value::String("127.0.0.1:1".to_owned()));
        let config = Config::parse(ClientRole::Consumer, [servers]).unwrap();
        let consumer = Consumer::new(&config).unwrap();
        let may_stand_by = |came| consumer.shared.role().may_stand_by(came).is_some();
        assert!(!may_stand_by(true));
        consumer.shared.role().is_trickle = true;
        assert!(may_stand_by(true));
        assert!(!may_stand_by(false));
        consumer.shared.role().others = 1;
        assert!(!may_stand_by(true));
        consumer.shared.role().others = 0;
        consumer.pause(&[]).unwrap();
        assert!(!may_stand_by(true));
        consumer.wait_for_records(Duration::from_millis(1));
        assert!(may_stand_by(true));
    }
}
