//! The share consumer's calls (KIP-932).

use super::config::{ClientType, Config};
use super::core::Client;
use super::poll_clock::PollClock;
use super::shared::{ClientRole, Shared, State};
use super::{Error, Pending, Promise, Slice};
use crate::engine::Time;
use crate::engine::metrics::Family;
use crate::engine::share::{self, AckResults, Acknowledgement};
use crate::logging::Component;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// The share consumer's state machine, which identifies a commit by the promise of its result.
pub type Machine = share::ShareConsumer<Promise<AckResults>>;

/// Reads records that a share group delivers one by one.
pub type ShareConsumer = Client<Machine>;

/// Settings that calls read without the lock.
pub struct Unlocked {
    group: String,
    polls: PollClock,
    /// The number of threads that wait for records.
    waiting: AtomicUsize,
    waits_in_outage: bool,
}

impl ClientRole for Machine {
    type Locked = ();
    type Unlocked = Unlocked;
    type Done = (Promise<AckResults>, AckResults);
    const METRICS: &str = "consumer-share";

    fn families(state: &State<Self>, unlocked: &Unlocked, now: Time) -> Vec<Family> {
        let mut families = state.role.families(now);
        families.push(unlocked.polls.family("consumer-share-metrics", now));
        families
    }

    fn poll_done(state: &mut State<Self>, _unlocked: &Unlocked) -> Option<Self::Done> {
        state.role.poll_done()
    }

    fn deliver((promise, results): Self::Done, _shared: &Shared<Self>) {
        promise.complete(Ok(results));
    }

    fn fail_all(state: &mut State<Self>, error: &Error) {
        state.role.log_unfinished_leave();
        state.role.fail_all(error);
    }

    fn before_timeout(state: &mut State<Self>, unlocked: &Unlocked, _now: Time) {
        if !state.wakers.is_empty() || unlocked.waiting.load(Relaxed) > 0 {
            state.role.end_idle_pause();
        }
    }

    fn ends_wait(state: &State<Self>) -> bool {
        state.role.is_ready()
    }

    fn reads_nothing(state: &State<Self>) -> bool {
        state.role.subscription().next().is_none()
    }
}

impl Client<Machine> {
    /// Creates a share consumer without topics, which connects when it is first used.
    pub fn new(config: &Config) -> Result<Self, Error> {
        config.expect(ClientType::ShareConsumer)?;
        let role = config.share_consumer()?;
        let unlocked = Unlocked {
            group: role.member.group.clone(),
            polls: PollClock::default(),
            waiting: AtomicUsize::new(0),
            waits_in_outage: config.waits_in_outage(),
        };
        Ok(Self::start(Machine::new(role), unlocked, config.connecting()?, config.api_timeout()))
    }

    /// Returns the name of the group.
    pub fn group(&self) -> &str {
        &self.unlocked().group
    }

    /// Returns the member ID.
    pub fn member_id(&self) -> Result<String, Error> {
        Ok(self.open()?.role.member_id().to_owned())
    }

    /// Subscribes to these topics, together with the other members of the group.
    pub fn subscribe(&self, topics: Vec<String>) -> Result<(), Error> {
        self.update(|now, s| s.role.subscribe(now, topics.into_iter().map(Into::into).collect()))
    }

    /// Unsubscribes from all topics.
    pub fn unsubscribe(&self) -> Result<(), Error> {
        self.update(|now, s| s.role.unsubscribe(now))
    }

    /// Returns the topics of the subscription.
    pub fn subscription(&self) -> Result<Vec<Arc<str>>, Error> {
        Ok(self.open()?.role.subscription().cloned().collect())
    }

    /// Returns whether the consumer can get no records, because it has no subscribed topics.
    pub fn reads_nothing(&self) -> bool {
        Machine::reads_nothing(&self.state())
    }

    /// Returns at most `max_records` buffered records. If there are none, starts a fetch. Never blocks. Returns each
    /// error once, after the records that arrived before the error.
    pub fn try_poll(&self, max_records: usize) -> Result<Vec<Slice>, Error> {
        self.note_poll(true);
        let mut result = self.update(|now, s| s.role.poll_records(now, max_records))?;
        while let Err(error) = &result
            && self.unlocked().waits_in_outage
            && error.is_outage()
        {
            self.report(Component::Share, error);
            result = self.update(|now, s| s.role.poll_records(now, max_records))?;
        }
        if result.as_ref().map_or(true, |slices| !slices.is_empty()) {
            self.note_poll(false);
        }
        result
    }

    /// Notes that a poll begins, unless one has already begun, or that a poll ends. [`ShareConsumer::try_poll`] notes
    /// both if it returns records.
    pub fn note_poll(&self, begins: bool) {
        self.unlocked().polls.note(self.now(), begins);
    }

    /// Waits until [`ShareConsumer::try_poll`] would return records or an error.
    pub fn wait_for_records(&self, timeout: Duration) -> bool {
        self.unlocked().waiting.fetch_add(1, Relaxed);
        // A response may have begun a pause of its broker since the application polled.
        self.nudge();
        let is_ready = self.wait_until(timeout, Machine::ends_wait);
        self.unlocked().waiting.fetch_sub(1, Relaxed);
        is_ready
    }

    /// Acknowledges records of a partition. Returns how many of them the application had.
    pub fn acknowledge(
        &self,
        topic: &Arc<str>,
        partition: i32,
        offsets: impl Iterator<Item = i64>,
        what: Acknowledgement,
    ) -> Result<usize, Error> {
        let mut state = self.open()?;
        let known = offsets.filter(|offset| state.role.acknowledge(topic, partition, *offset, what)).count();
        drop(state);
        if what == Acknowledgement::Renew {
            self.wake()?;
        }
        Ok(known)
    }

    /// Returns the number of delivered records without an acknowledgement.
    pub fn unacknowledged(&self) -> Result<usize, Error> {
        Ok(self.open()?.role.unacknowledged())
    }

    /// Sends the acknowledgements, and returns the brokers' pending results.
    pub fn commit(&self) -> Result<Pending<AckResults>, Error> {
        let (promise, pending) = Pending::new();
        self.update(|_, s| s.role.commit(promise))?;
        Ok(pending)
    }

    /// Returns the results of acknowledgements for which no commit waited.
    pub fn take_results(&self) -> Result<AckResults, Error> {
        Ok(self.open()?.role.take_results())
    }

    /// Returns how long the member holds the locks of its records, if a broker has reported it.
    pub fn lock(&self) -> Result<Option<Duration>, Error> {
        Ok(self.open()?.role.lock())
    }

    /// Begins to leave the group, and releases the records that the application has not acknowledged.
    pub fn leave(&self) -> Result<(), Error> {
        self.update(|now, s| s.role.leave(now))
    }

    /// Waits until the brokers have confirmed that the consumer left the group.
    pub fn wait_until_left(&self, timeout: Duration) -> bool {
        self.wait_until(timeout, |state| state.role.has_left())
    }
}
