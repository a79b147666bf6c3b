//! The share consumer as callers see it.

use super::config::Config;
use super::driver::{Serve, Shared};
use super::handing::Waiting;
use super::keys::Role as ClientRole;
use super::{Error, Pending, Promise, Slice, Tokens};
use crate::engine::share::{self, Acknowledgement, Outcomes, Prepared, ShareToken};
use crate::engine::{ClientResponse, Cluster, MetadataDemand, Outgoing, Role, Time};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

/// The machine and who waits for records.
pub struct Machine {
    consumer: share::ShareConsumer<Promise<Outcomes>>,
    wakers: Vec<Waker>,
}

impl Role for Machine {
    type Token = ShareToken;
    type Packet = Outgoing<ShareToken>;
    type Prepared = Prepared;

    fn pack(packet: Outgoing<ShareToken>) -> Outgoing<ShareToken> {
        packet
    }

    fn prepare(answer: ClientResponse<ShareToken>) -> Prepared {
        share::ShareConsumer::<Promise<Outcomes>>::prepare(answer)
    }

    fn handle_response(&mut self, now: Time, answer: Prepared) {
        self.consumer.handle_response(now, answer);
    }

    fn handle_cluster(&mut self, now: Time, cluster: &Arc<Cluster>) {
        self.consumer.handle_cluster(now, cluster);
    }

    fn handle_unreachable(&mut self, now: Time, error: &Error) {
        self.consumer.handle_unreachable(now, error);
    }

    fn poll_send(&mut self, now: Time) -> Option<Outgoing<ShareToken>> {
        self.consumer.poll_send(now)
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
        self.consumer.handle_timeout(now);
    }
}

impl Serve for Machine {
    type Done = (Promise<Outcomes>, Outcomes);

    fn poll_done(&mut self) -> Option<Self::Done> {
        self.consumer.poll_done()
    }

    fn deliver((promise, outcomes): Self::Done, _shared: &Shared<Self>) {
        promise.complete(Ok(outcomes));
    }

    fn settle(&mut self, shared: &Shared<Self>) {
        if !self.wakers.is_empty() && (self.consumer.is_ready() || shared.check().is_err()) {
            self.wakers.drain(..).for_each(Waker::wake);
        }
    }

    fn fail_all(&mut self, error: &Error) {
        self.consumer.fail_all(error);
    }
}

/// Reads records that a share group hands out one by one (KIP-932).
pub struct ShareConsumer {
    shared: Arc<Shared<Machine>>,
    group: String,
}

impl ShareConsumer {
    /// A consumer of nothing; nothing is connected before the first use.
    pub fn new(config: &Config) -> Result<Self, Error> {
        config.expect(ClientRole::ShareConsumer)?;
        let role = config.share_consumer()?;
        let group = role.member.group.clone();
        let machine = Machine { consumer: share::ShareConsumer::new(role), wakers: Vec::new() };
        Ok(Self { shared: Shared::new(machine, config.connecting()?), group })
    }

    fn change<R>(&self, f: impl FnOnce(Time, &mut share::ShareConsumer<Promise<Outcomes>>) -> R) -> Result<R, Error> {
        let result = f(self.shared.now(), &mut self.shared.open()?.consumer);
        self.shared.wake()?;
        Ok(result)
    }

    /// The group.
    pub fn group(&self) -> &str {
        &self.group
    }

    /// The member's name.
    pub fn member_id(&self) -> Result<String, Error> {
        Ok(self.shared.open()?.consumer.member_id().to_owned())
    }

    /// Reads these topics with the other members of the group.
    pub fn subscribe(&self, topics: Vec<String>) -> Result<(), Error> {
        self.change(|now, c| c.subscribe(now, topics.into_iter().map(Into::into).collect()))
    }

    /// Reads nothing any more.
    pub fn unsubscribe(&self) -> Result<(), Error> {
        self.change(|now, c| c.unsubscribe(now))
    }

    /// The topics that are read.
    pub fn subscription(&self) -> Result<Vec<Arc<str>>, Error> {
        Ok(self.shared.open()?.consumer.subscription().cloned().collect())
    }

    /// What is there, up to `max_records`; never blocks. If that is nothing, brokers are asked for more. An error is given
    /// once, after the records before it.
    pub fn try_poll(&self, max_records: usize) -> Result<Vec<Slice>, Error> {
        self.change(|now, c| c.poll_records(now, max_records))?
    }

    /// Waits until [`ShareConsumer::try_poll`] has something.
    pub fn wait_for_records(&self, timeout: Duration) -> bool {
        self.shared.wait_until(timeout, |machine| machine.consumer.is_ready())
    }

    /// Wakes the waker when [`ShareConsumer::wait_for_records`] would return.
    pub fn on_records(&self, waker: Waker) {
        let mut role = self.shared.role();
        if role.consumer.is_ready() || self.shared.check().is_err() {
            drop(role);
            waker.wake();
        } else {
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

    /// Says what became of records of a partition; how many of them were in the reader's hands.
    pub fn acknowledge(
        &self,
        topic: &Arc<str>,
        partition: i32,
        offsets: impl Iterator<Item = i64>,
        what: Acknowledgement,
    ) -> Result<usize, Error> {
        let mut role = self.shared.open()?;
        let known = offsets.filter(|offset| role.consumer.acknowledge(topic, partition, *offset, what)).count();
        drop(role);
        if what == Acknowledgement::Renew {
            self.shared.wake()?;
        }
        Ok(known)
    }

    /// Records in the reader's hands of which it said nothing.
    pub fn unacknowledged(&self) -> Result<usize, Error> {
        Ok(self.shared.open()?.consumer.unacknowledged())
    }

    /// Sends acknowledgements; the outcome is what brokers said to them.
    pub fn commit(&self) -> Result<Pending<Outcomes>, Error> {
        let (promise, pending) = Pending::new();
        self.change(|_, c| c.commit(promise))?;
        Ok(pending)
    }

    /// What became of acknowledgements that no commit waited for.
    pub fn take_outcomes(&self) -> Result<Outcomes, Error> {
        Ok(self.shared.open()?.consumer.take_outcomes())
    }

    /// How long records are the member's, once a broker said so.
    pub fn lock(&self) -> Result<Option<Duration>, Error> {
        Ok(self.shared.open()?.consumer.lock())
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

    /// Begins to leave the group; what is in the reader's hands is given back.
    pub fn leave(&self) -> Result<(), Error> {
        self.change(|now, c| c.leave(now))
    }

    /// Waits until the brokers know that the consumer left.
    pub fn wait_until_left(&self, timeout: Duration) -> bool {
        self.shared.wait_until(timeout, |machine| machine.consumer.has_left())
    }

    /// Sends acknowledgements, leaves the group, and ends the client, all of it within the timeout.
    pub fn close(&self, timeout: Duration) {
        let end = Instant::now() + timeout.min(Duration::from_secs(1 << 30));
        if self.leave().is_ok() {
            self.wait_until_left(end.saturating_duration_since(Instant::now()));
        }
        self.end();
    }

    /// Ends the client without another word.
    pub fn end(&self) {
        self.shared.close();
    }
}

impl Drop for ShareConsumer {
    fn drop(&mut self) {
        self.shared.close();
    }
}
