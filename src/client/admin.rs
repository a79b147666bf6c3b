//! The admin client's calls: topics, configurations, groups and records.

use super::config::{ClientType, Config};
use super::core::{Client, RunsOps};
use super::shared::{ClientRole, Shared, State};
use super::{
    Cluster, CommittedOffset, ConfigEntry, ConfigResource, Error, GroupDescription, GroupListing, NewTopic, Pending,
    Route,
};
use crate::engine::ops::{
    AlterConfigs, AlterOffsets, ByName, Completion, CreatePartitions, CreateTopics, DeleteRecords, DeleteTopics,
    Describe, DescribeConfigs, GroupLag, ListGroups, OfGroup, Op, Ops, Output, SegmentOffsets,
};
use crate::engine::{Time, TopicPartition};
use crate::wire::Value;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::ops::RangeInclusive;
use std::time::Duration;

/// The admin client's state machine. An operation is known by its completion.
pub type Machine = Ops<Completion>;

/// Manages topics, configurations and groups.
pub type Admin = Client<Machine>;

impl ClientRole for Machine {
    type Locked = ();
    type Unlocked = ();
    type Done = (Completion, Result<Output, Error>);

    fn poll_done(state: &mut State<Self>, _unlocked: &()) -> Option<Self::Done> {
        state.role.poll_done()
    }

    fn deliver((completion, result): Self::Done, _shared: &Shared<Self>) {
        completion(result);
    }

    fn fail_all(state: &mut State<Self>, error: &Error) {
        state.role.fail_all(error);
    }
}

impl RunsOps for Machine {
    fn start_op(&mut self, now: Time, op: Box<dyn Op>, timeout: Duration, completion: Completion) {
        self.start(now, op, timeout, completion);
    }
}

fn done(output: Output) -> Option<()> {
    matches!(output, Output::Done).then_some(())
}

impl Client<Machine> {
    /// Creates an admin client. It connects at its first use.
    pub fn new(config: &Config) -> Result<Self, Error> {
        config.expect(ClientType::Admin)?;
        Ok(Self::start(Ops::new(config.retry_backoff()), (), config.connecting()?, config.api_timeout()))
    }

    /// Sends the request of an API with these fields, and returns the fields of its response.
    pub fn call(
        &self,
        api: &str,
        fields: Value,
        route: Route,
        versions: RangeInclusive<i16>,
        timeout: Option<Duration>,
    ) -> Result<Pending<Value>, Error> {
        self.op(ByName::new(api, fields, route, versions)?, timeout, |output| match output {
            Output::Response(fields) => Some(fields),
            _ => None,
        })
    }

    /// Creates topics, or only checks that they can be created.
    pub fn create_topics(
        &self,
        topics: Vec<NewTopic>,
        validate_only: bool,
        timeout: Option<Duration>,
    ) -> Result<Pending<()>, Error> {
        self.op(CreateTopics::new(topics, validate_only), timeout, done)
    }

    /// Increases the number of partitions of topics to the given totals, or only checks that this is possible.
    pub fn create_partitions(
        &self,
        counts: Vec<(String, i32)>,
        validate_only: bool,
        timeout: Option<Duration>,
    ) -> Result<Pending<()>, Error> {
        self.op(CreatePartitions::new(counts, validate_only), timeout, done)
    }

    /// Returns all configuration entries of a resource.
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

    /// Sets configuration entries of a resource, or resets them with `None`, or only checks that this is possible.
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

    /// Returns, for each partition, the end of its log and the first offsets of the segments that were written before a
    /// timestamp: the newest first, at most `limit` per partition. This is how brokers before 0.10.1 look up timestamps.
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

    /// Deletes the records of partitions below an offset, or all with -1. Returns the new first offsets.
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

    /// Returns brokers, controller and topics. `None` means all topics.
    pub fn describe(
        &self,
        topics: Option<Vec<String>>,
        timeout: Option<Duration>,
    ) -> Result<Pending<Arc<Cluster>>, Error> {
        // Brokers treat a duplicate name as an unknown topic.
        let topics = topics.map(|topics| topics.into_iter().collect::<BTreeSet<_>>().into_iter().collect());
        self.op(Describe::new(topics), timeout, |output| match output {
            Output::Cluster(cluster) => Some(cluster),
            _ => None,
        })
    }

    /// Returns all groups, or only those in one of the given states or of one of the given types.
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

    /// Returns the state and the members of a group.
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

    /// Deletes a group without members, and its offsets.
    pub fn delete_group(&self, group: String, timeout: Option<Duration>) -> Result<Pending<()>, Error> {
        self.op(OfGroup::delete(group), timeout, done)
    }

    /// Returns all committed offsets of a group.
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

    /// Sets the committed offsets of a group without members.
    pub fn alter_group_offsets(
        &self,
        group: String,
        offsets: Vec<CommittedOffset>,
        timeout: Option<Duration>,
    ) -> Result<Pending<()>, Error> {
        self.op(AlterOffsets::new(group, offsets), timeout, done)
    }

    /// Deletes the committed offsets of partitions that no member of the group subscribes to.
    pub fn delete_group_offsets(
        &self,
        group: String,
        partitions: Vec<TopicPartition>,
        timeout: Option<Duration>,
    ) -> Result<Pending<()>, Error> {
        self.op(OfGroup::delete_offsets(group, partitions), timeout, done)
    }

    /// Returns the lag of a group, in records, for each partition with a committed offset; `None` if the partition no longer
    /// exists.
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
}
