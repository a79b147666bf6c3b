//! Commits and fetches a group's offsets, for its members and for other clients (generation -1).
//!
//! The operations first find the group's coordinator. If the group has moved to another coordinator, the operations
//! find the coordinator again.

use super::op::{CommittedOffset, Op, OpContext, Output};
use crate::api::{ErrorCode, find_coordinator, offset_commit, offset_fetch};
use crate::engine::group::GroupMetadata;
use crate::engine::{Error, ErrorKind, Reply, Target, Time, TopicPartition, coordinator};
use crate::logging::Component;
use std::collections::BTreeMap;
use std::time::Duration;

/// The newest versions that identify topics by name. Later versions use topic IDs, which the client may not know yet.
const MAX_COMMIT: i16 = 9;
/// The versions in which a commit has a retention time (removed by KIP-211).
const COMMITS_WITH_RETENTION: (i16, i16) = (2, 4);
/// The version in which a commit has a timestamp.
const COMMITS_WITH_TIME: (i16, i16) = (1, 1);
/// The version of both APIs that stores offsets in ZooKeeper, through any broker. Before Kafka 0.8.2, this is the only
/// version.
const IN_ZOOKEEPER: i16 = 0;
const MAX_FETCH: i16 = 9;
/// How long a transaction may keep the offsets of a group unstable before the client reports this. Transactions of the
/// group's previous members usually end sooner.
const UNSTABLE_GRACE: Duration = Duration::from_secs(1);

pub(super) const COORDINATOR: u32 = 0;
pub(super) const OFFSETS: u32 = 1;

/// Returns the coordinator if its address is known. Otherwise requests the missing information.
pub(super) fn reach_coordinator(cx: &mut OpContext<'_>, known: Option<i32>, group: &str) -> Option<i32> {
    let node = known.filter(|n| cx.cluster.brokers.contains_key(n));
    if cx.knows_brokers() && node.is_none() {
        cx.send_call(Target::Any, coordinator::request(find_coordinator::GROUP, group), COORDINATOR);
    }
    node
}

/// Returns whether a request failed because the brokers are older than Kafka 0.8.2 and have no coordinators.
fn has_no_coordinators(part: u32, error: Error) -> Result<bool, Error> {
    let lacks = part == COORDINATOR && error.code() == Some(ErrorCode::UNSUPPORTED_VERSION);
    if lacks { Ok(true) } else { Err(error) }
}

/// Returns the broker for requests about a group's offsets, and the newest version to use.
fn offsets_target(
    cx: &mut OpContext<'_>,
    coordinator: Option<i32>,
    group: &str,
    in_zookeeper: bool,
) -> Option<(Target, i16)> {
    match in_zookeeper {
        true => Some((Target::Any, IN_ZOOKEEPER)),
        false => reach_coordinator(cx, coordinator, group).map(|node| (Target::Node(node), i16::MAX)),
    }
}

/// The operation OffsetCommit, for any number of partitions.
pub struct Commit {
    member: GroupMetadata,
    offsets: Vec<CommittedOffset>,
    retention: Option<Duration>,
    coordinator: Option<i32>,
    in_zookeeper: bool,
    done: bool,
}

impl Commit {
    /// Creates an operation that commits these offsets.
    pub fn new(member: GroupMetadata, offsets: Vec<CommittedOffset>) -> Self {
        let done = offsets.is_empty();
        Self { member, offsets, retention: None, coordinator: None, in_zookeeper: false, done }
    }

    /// Sets how long the broker keeps the offsets, instead of its `offsets.retention.minutes`. The versions with this
    /// field do not support leader epochs and static members.
    pub fn with_retention(self, retention: Option<Duration>) -> Self {
        Self { retention, ..self }
    }

    /// Sets the coordinator, if it is known.
    pub fn with_coordinator(self, coordinator: Option<i32>) -> Self {
        Self { coordinator, ..self }
    }
}

impl Op for Commit {
    fn name(&self) -> &'static str {
        "commit"
    }

    fn step(&mut self, cx: &mut OpContext<'_>) -> Result<(), Error> {
        if self.done {
            return Ok(());
        }
        let Some((target, max)) = offsets_target(cx, self.coordinator, &self.member.group, self.in_zookeeper) else {
            return Ok(());
        };
        let mut topics: BTreeMap<&str, Vec<offset_commit::Partition>> = BTreeMap::new();
        for o in &self.offsets {
            topics.entry(&o.topic).or_default().push(offset_commit::Partition {
                partition_index: o.partition,
                committed_offset: o.offset,
                committed_leader_epoch: o.leader_epoch,
                committed_metadata: Some(o.metadata.clone()),
                commit_timestamp: o.timestamp,
            });
        }
        let topic = |(name, partitions): (&str, _)| offset_commit::Topic {
            name: name.to_owned(),
            partitions,
            ..Default::default()
        };
        let request = offset_commit::Request {
            group_id: self.member.group.clone(),
            generation_id_or_member_epoch: self.member.generation,
            member_id: self.member.member.clone(),
            group_instance_id: self.member.instance.clone(),
            retention_time_ms: self.retention.map_or(-1, |retention| retention.as_millis() as i64),
            topics: topics.into_iter().map(topic).collect(),
        };
        let is_timed = self.offsets.iter().any(|o| o.timestamp >= 0);
        let (first, last) = match self.retention {
            None if is_timed && self.member.instance.is_none() => COMMITS_WITH_TIME,
            _ if is_timed => {
                let error = Error::new(
                    ErrorKind::Config,
                    "no version of OffsetCommit has both the time of a commit and its retention or a static member",
                );
                return Err(
                    error.with_hint("leave out timestamp_ms, or leave out offsets.retention.ms and group.instance.id")
                );
            }
            None => (0, MAX_COMMIT),
            Some(_) => COMMITS_WITH_RETENTION,
        };
        cx.send_within(target, request, OFFSETS, first, max.min(last));
        Ok(())
    }

    fn take(&mut self, cx: &mut OpContext<'_>, part: u32, _node: i32, reply: Reply) -> Result<(), Error> {
        if part == COORDINATOR {
            self.coordinator = Some(coordinator::read(reply, format_args!("group {:?}", self.member.group))?);
            return self.step(cx);
        }
        let response: offset_commit::Response = reply.decode()?;
        for topic in response.topics {
            for p in topic.partitions {
                if let Err(code) = p.error_code.check() {
                    if coordinator::is_moved(code) {
                        self.coordinator = None;
                    }
                    let what = format!("commit {}-{} for group {:?}", topic.name, p.partition_index, self.member.group);
                    return Err(Error::refused(code, what).at(&topic.name.into(), p.partition_index));
                }
            }
        }
        self.done = true;
        Ok(())
    }

    fn fail(&mut self, cx: &mut OpContext<'_>, part: u32, error: Error) -> Result<(), Error> {
        self.coordinator = None;
        self.in_zookeeper = has_no_coordinators(part, error)?;
        self.step(cx)
    }

    fn output(&mut self) -> Option<Output> {
        self.done.then_some(Output::Done)
    }
}

/// The operation OffsetFetch, for any number of partitions.
pub struct Committed {
    group: String,
    partitions: Vec<TopicPartition>,
    coordinator: Option<i32>,
    in_zookeeper: bool,
    takes_stable: bool,
    output: Option<Output>,
    /// When the coordinator first reported an open transaction, and whether the client has reported it.
    unstable: Option<(Time, bool)>,
}

impl Committed {
    /// Creates an operation that requests the committed offsets of a group.
    pub fn new(group: String, partitions: Vec<TopicPartition>) -> Self {
        let output = partitions.is_empty().then(|| Output::Committed(Vec::new()));
        Self { group, partitions, coordinator: None, in_zookeeper: false, takes_stable: false, output, unstable: None }
    }

    /// Ends with [`Output::StableCommitted`] if open transactions contain offsets of some of the partitions, so that the
    /// caller can read the other partitions.
    pub fn taking_stable(self) -> Self {
        Self { takes_stable: true, ..self }
    }

    /// Reports once that the operation waits for the end of a transaction.
    fn note_unstable(&mut self, now: Time, error: &Error) {
        let (since, is_reported) = self.unstable.get_or_insert((now, false));
        if !*is_reported && now.since(*since) >= UNSTABLE_GRACE {
            *is_reported = true;
            error.report(Component::Consumer);
        }
    }

    /// Sets the coordinator, if it is known.
    pub fn with_coordinator(self, coordinator: Option<i32>) -> Self {
        Self { coordinator, ..self }
    }
}

impl Op for Committed {
    fn name(&self) -> &'static str {
        "fetch committed offsets"
    }

    fn step(&mut self, cx: &mut OpContext<'_>) -> Result<(), Error> {
        if self.output.is_some() {
            return Ok(());
        }
        let Some((target, max)) = offsets_target(cx, self.coordinator, &self.group, self.in_zookeeper) else {
            return Ok(());
        };
        let mut topics: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
        for TopicPartition { topic, partition } in &self.partitions {
            topics.entry(topic).or_default().push(*partition);
        }
        let single = |(name, partitions): (&&str, &Vec<i32>)| offset_fetch::Topic {
            name: (*name).to_owned(),
            partition_indexes: partitions.clone(),
        };
        let grouped = |(name, partitions): (&&str, &Vec<i32>)| offset_fetch::GroupTopic {
            name: (*name).to_owned(),
            partition_indexes: partitions.clone(),
            ..Default::default()
        };
        let request = offset_fetch::Request {
            group_id: self.group.clone(),
            topics: Some(topics.iter().map(single).collect()),
            groups: vec![offset_fetch::Group {
                group_id: self.group.clone(),
                topics: Some(topics.iter().map(grouped).collect()),
                ..Default::default()
            }],
            require_stable: true,
        };
        cx.send_at_most(target, request, OFFSETS, max.min(MAX_FETCH));
        Ok(())
    }

    fn take(&mut self, cx: &mut OpContext<'_>, part: u32, _node: i32, reply: Reply) -> Result<(), Error> {
        if part == COORDINATOR {
            self.coordinator = Some(coordinator::read(reply, format_args!("group {:?}", self.group))?);
            return self.step(cx);
        }
        let in_zookeeper = reply.version == IN_ZOOKEEPER;
        let response: offset_fetch::Response = reply.decode()?;
        let mut code = response.error_code;
        let mut topics: Vec<(String, Vec<offset_fetch::PartitionResponse>)> =
            response.topics.into_iter().map(|t| (t.name, t.partitions)).collect();
        for group in response.groups {
            code = group.error_code;
            topics.extend(group.topics.into_iter().map(|t| (t.name, t.partitions)));
        }
        // ZooKeeper does not distinguish an unknown topic from a partition without a commit.
        let is_missing = |c: &ErrorCode| in_zookeeper && *c == ErrorCode::UNKNOWN_TOPIC_OR_PARTITION;
        if let Err(code) = code.check() {
            if coordinator::is_moved(code) {
                self.coordinator = None;
            }
            return Err(Error::refused(code, format!("fetch committed offsets of group {:?}", self.group)));
        }
        let refused = |(topic, p): (&String, &offset_fetch::PartitionResponse)| {
            let what = format!("fetch the committed offset of {topic}-{} in group {:?}", p.partition_index, self.group);
            Error::refused(p.error_code, what).at(&topic.as_str().into(), p.partition_index)
        };
        let is_unstable = |p: &offset_fetch::PartitionResponse| p.error_code == ErrorCode::UNSTABLE_OFFSET_COMMIT;
        let partitions = || topics.iter().flat_map(|(topic, ps)| ps.iter().map(move |p| (topic, p)));
        let has_failed = |p: &offset_fetch::PartitionResponse| p.error_code.is_error() && !is_missing(&p.error_code);
        if let Some(failed) = partitions().find(|(_, p)| has_failed(p) && !is_unstable(p)) {
            let error = refused(failed);
            if coordinator::is_moved(failed.1.error_code) {
                self.coordinator = None;
            }
            return Err(error);
        }
        let response_of = |TopicPartition { topic, partition }: &TopicPartition| {
            let mut of_topic = topics.iter().filter(|(name, _)| **name == **topic).flat_map(|(_, ps)| ps);
            of_topic.find(|p| p.partition_index == *partition)
        };
        let offset_of = |of: &TopicPartition| {
            let response = response_of(of).filter(|p| p.committed_offset >= 0)?;
            Some(CommittedOffset {
                leader_epoch: response.committed_leader_epoch,
                metadata: response.metadata.clone().unwrap_or_default(),
                ..CommittedOffset::new(of.topic.clone(), of.partition, response.committed_offset)
            })
        };
        let Some(unstable) = partitions().find(|(_, p)| is_unstable(p)) else {
            self.output = Some(Output::Committed(self.partitions.iter().map(offset_of).collect()));
            return Ok(());
        };
        let stable: Vec<_> = (self.partitions.iter().enumerate())
            .filter(|(_, of)| !response_of(of).is_some_and(is_unstable))
            .map(|(at, of)| (at, offset_of(of)))
            .collect();
        if self.takes_stable && !stable.is_empty() {
            self.output = Some(Output::StableCommitted(stable));
            return Ok(());
        }
        let error = refused(unstable);
        self.note_unstable(cx.now, &error);
        Err(error)
    }

    fn fail(&mut self, cx: &mut OpContext<'_>, part: u32, error: Error) -> Result<(), Error> {
        self.coordinator = None;
        self.in_zookeeper = has_no_coordinators(part, error)?;
        self.step(cx)
    }

    fn output(&mut self) -> Option<Output> {
        self.output.take()
    }
}
