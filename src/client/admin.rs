//! The administrative client as callers see it.

use super::config::Config;
use super::driver::{Serve, Shared};
use super::handing::Waiting;
use super::keys::Role as ClientRole;
use super::producer::{OpTicket, op_ticket};
use super::{
    Cluster, CommittedOffset, ConfigEntry, ConfigResource, Error, GroupDescription, GroupListing, NewTopic, Pending,
    Tokens,
};
use crate::engine::TopicPartition;
use crate::engine::ops::{
    AlterConfigs, AlterOffsets, CreatePartitions, CreateTopics, DeleteRecords, DeleteTopics, Describe, DescribeConfigs,
    GroupLag, ListGroups, OfGroup, Op, Ops, Output, SegmentOffsets,
};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

impl Serve for Ops<OpTicket> {
    type Done = (OpTicket, Result<Output, Error>);

    fn poll_done(&mut self) -> Option<Self::Done> {
        Self::poll_done(self)
    }

    fn deliver((ticket, result): Self::Done, _shared: &Shared<Self>) {
        ticket(result);
    }

    fn fail_all(&mut self, error: &Error) {
        Self::fail_all(self, error);
    }
}

/// Looks after topics and groups.
pub struct Admin {
    shared: Arc<Shared<Ops<OpTicket>>>,
    api_timeout: Duration,
}

fn done(output: Output) -> Option<()> {
    matches!(output, Output::Done).then_some(())
}

impl Admin {
    /// A client; nothing is connected before the first use.
    pub fn new(config: &Config) -> Result<Self, Error> {
        config.expect(ClientRole::Admin)?;
        let shared = Shared::new(Ops::new(config.retry_backoff()), config.connecting()?);
        Ok(Self { shared, api_timeout: config.api_timeout()? })
    }

    fn op<T: Send + 'static>(
        &self,
        op: impl Op + 'static,
        timeout: Option<Duration>,
        convert: fn(Output) -> Option<T>,
    ) -> Result<Pending<T>, Error> {
        let (ticket, pending) = op_ticket(convert);
        let timeout = timeout.unwrap_or(self.api_timeout);
        self.shared.open()?.start(self.shared.now(), Box::new(op), timeout, ticket);
        self.shared.wake()?;
        Ok(pending)
    }

    /// Creates topics, or only checks that they could be.
    pub fn create_topics(
        &self,
        topics: Vec<NewTopic>,
        validate_only: bool,
        timeout: Option<Duration>,
    ) -> Result<Pending<()>, Error> {
        self.op(CreateTopics::new(topics, validate_only), timeout, done)
    }

    /// Gives topics so many partitions, old and new, or only checks that it could be done.
    pub fn create_partitions(
        &self,
        counts: Vec<(String, i32)>,
        validate_only: bool,
        timeout: Option<Duration>,
    ) -> Result<Pending<()>, Error> {
        self.op(CreatePartitions::new(counts, validate_only), timeout, done)
    }

    /// All settings of a resource.
    pub fn describe_configs(
        &self,
        resource: ConfigResource,
        timeout: Option<Duration>,
    ) -> Result<Pending<Vec<ConfigEntry>>, Error> {
        self.op(DescribeConfigs::new(resource), timeout, |output| match output {
            Output::Configs(configs) => Some(configs),
            _ => None,
        })
    }

    /// Gives settings of a resource values, or with `None` their defaults; or only checks that it could be done.
    pub fn alter_configs(
        &self,
        resource: ConfigResource,
        changes: Vec<(String, Option<String>)>,
        validate_only: bool,
        timeout: Option<Duration>,
    ) -> Result<Pending<()>, Error> {
        self.op(AlterConfigs::new(resource, changes, validate_only), timeout, done)
    }

    /// Deletes topics.
    pub fn delete_topics(&self, topics: Vec<String>, timeout: Option<Duration>) -> Result<Pending<()>, Error> {
        self.op(DeleteTopics::new(topics), timeout, done)
    }

    /// Where the segments of partitions begin that have something from before a time, and where their logs end, the newest
    /// first and at most `limit` of each: what brokers before 0.10.1 know of times.
    pub fn offsets_before(
        &self,
        wanted: Vec<(Arc<str>, i32, i64)>,
        limit: i32,
        timeout: Option<Duration>,
    ) -> Result<Pending<Vec<Vec<i64>>>, Error> {
        self.op(SegmentOffsets::new(wanted, limit), timeout, |output| match output {
            Output::Segments(offsets) => Some(offsets),
            _ => None,
        })
    }

    /// Deletes the records of partitions before an offset, -1 for all, and gives where they start then.
    pub fn delete_records(
        &self,
        wanted: Vec<(Arc<str>, i32, i64)>,
        timeout: Option<Duration>,
    ) -> Result<Pending<Vec<i64>>, Error> {
        self.op(DeleteRecords::new(wanted), timeout, |output| match output {
            Output::Starts(starts) => Some(starts),
            _ => None,
        })
    }

    /// Brokers, controller and topics; `None` for all topics.
    pub fn describe(
        &self,
        topics: Option<Vec<String>>,
        timeout: Option<Duration>,
    ) -> Result<Pending<Arc<Cluster>>, Error> {
        // Brokers take a name that is there twice for one that is not there.
        let topics = topics.map(|topics| topics.into_iter().collect::<BTreeSet<_>>().into_iter().collect());
        self.op(Describe::new(topics), timeout, |output| match output {
            Output::Cluster(cluster) => Some(cluster),
            _ => None,
        })
    }

    /// All groups, or those in one of some states or of one of some types.
    pub fn list_groups(
        &self,
        states: Vec<String>,
        types: Vec<String>,
        timeout: Option<Duration>,
    ) -> Result<Pending<Vec<GroupListing>>, Error> {
        self.op(ListGroups::new(states, types), timeout, |output| match output {
            Output::Groups(groups) => Some(groups),
            _ => None,
        })
    }

    /// State and members of a group.
    pub fn describe_group(
        &self,
        group: String,
        timeout: Option<Duration>,
    ) -> Result<Pending<Box<GroupDescription>>, Error> {
        self.op(OfGroup::describe(group), timeout, |output| match output {
            Output::Group(group) => Some(group),
            _ => None,
        })
    }

    /// Forgets a group without members, and its offsets.
    pub fn delete_group(&self, group: String, timeout: Option<Duration>) -> Result<Pending<()>, Error> {
        self.op(OfGroup::delete(group), timeout, done)
    }

    /// All that a group committed.
    pub fn group_offsets(
        &self,
        group: String,
        timeout: Option<Duration>,
    ) -> Result<Pending<Vec<CommittedOffset>>, Error> {
        self.op(OfGroup::offsets(group), timeout, |output| match output {
            Output::Committed(found) => Some(found.into_iter().flatten().collect()),
            _ => None,
        })
    }

    /// Sets the next offset to read of each partition, of a group without members.
    pub fn alter_group_offsets(
        &self,
        group: String,
        offsets: Vec<CommittedOffset>,
        timeout: Option<Duration>,
    ) -> Result<Pending<()>, Error> {
        self.op(AlterOffsets::new(group, offsets), timeout, done)
    }

    /// Forgets what a group committed of partitions that no member subscribes to.
    pub fn delete_group_offsets(
        &self,
        group: String,
        partitions: Vec<TopicPartition>,
        timeout: Option<Duration>,
    ) -> Result<Pending<()>, Error> {
        self.op(OfGroup::delete_offsets(group, partitions), timeout, done)
    }

    /// How many records a group has yet to read of each partition that it committed something of; `None` for a partition
    /// that is gone.
    pub fn group_lag(
        &self,
        group: String,
        timeout: Option<Duration>,
    ) -> Result<Pending<Vec<(TopicPartition, Option<i64>)>>, Error> {
        self.op(GroupLag::new(group), timeout, |output| match output {
            Output::Lags(lags) => Some(lags),
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

    /// Ends the client.
    pub fn close(&self) {
        self.shared.close();
    }
}

impl Drop for Admin {
    fn drop(&mut self) {
        self.shared.close();
    }
}
