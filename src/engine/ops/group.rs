//! A group's committed offsets, without membership: generation -1 and no member id, as seed clients and tools do.
//! The coordinator is looked up first, and again when it says that it is not.

use super::{Cx, Op, Output};
use crate::api::{find_coordinator, offset_commit, offset_fetch};
use crate::engine::{Error, Reply, Target, coordinator};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Versions above these name topics by id, which a client may not know yet.
const MAX_COMMIT: i16 = 9;
const MAX_FETCH: i16 = 9;

const COORDINATOR: u32 = 0;
const OFFSETS: u32 = 1;

/// The coordinator if it is known and in the cluster; asks for what is missing if not.
fn reach_coordinator(cx: &mut Cx<'_>, known: Option<i32>, group: &str) -> Option<i32> {
    let node = known.filter(|n| cx.cluster.brokers.contains_key(n));
    if cx.cluster.brokers.is_empty() {
        cx.refresh();
    } else if node.is_none() {
        cx.send(Target::Any, coordinator::ask(find_coordinator::GROUP, group), COORDINATOR);
    }
    node
}

/// OffsetCommit for any number of partitions.
pub struct Commit {
    group: String,
    offsets: Vec<(Arc<str>, i32, i64)>,
    coordinator: Option<i32>,
    done: bool,
}

impl Commit {
    /// Commits the next offset to read of each partition.
    pub fn new(group: String, offsets: Vec<(Arc<str>, i32, i64)>) -> Self {
        let done = offsets.is_empty();
        Self { group, offsets, coordinator: None, done }
    }
}

impl Op for Commit {
    fn name(&self) -> &'static str {
        "commit"
    }

    fn step(&mut self, cx: &mut Cx<'_>) -> Result<(), Error> {
        if self.done {
            return Ok(());
        }
        let Some(node) = reach_coordinator(cx, self.coordinator, &self.group) else {
            return Ok(());
        };
        let mut topics: BTreeMap<&str, Vec<offset_commit::Partition>> = BTreeMap::new();
        for (topic, partition, offset) in &self.offsets {
            topics.entry(topic).or_default().push(offset_commit::Partition {
                partition_index: *partition,
                committed_offset: *offset,
                ..Default::default()
            });
        }
        let topic = |(name, partitions): (&str, _)| offset_commit::Topic {
            name: name.to_owned(),
            partitions,
            ..Default::default()
        };
        let request = offset_commit::Request {
            group_id: self.group.clone(),
            topics: topics.into_iter().map(topic).collect(),
            ..Default::default()
        };
        cx.send_at_most(Target::Node(node), request, OFFSETS, MAX_COMMIT);
        Ok(())
    }

    fn take(&mut self, cx: &mut Cx<'_>, part: u32, _node: i32, reply: Reply) -> Result<(), Error> {
        if part == COORDINATOR {
            self.coordinator = Some(coordinator::read(reply, format_args!("group {:?}", self.group))?);
            return self.step(cx);
        }
        let response: offset_commit::Response = reply.decode()?;
        for topic in response.topics {
            for p in topic.partitions {
                if let Err(code) = p.error_code.check() {
                    if coordinator::is_moved(code) {
                        self.coordinator = None;
                    }
                    let what = format!("commit {}-{} for group {:?}", topic.name, p.partition_index, self.group);
                    return Err(Error::refused(code, what).at(&topic.name.into(), p.partition_index));
                }
            }
        }
        self.done = true;
        Ok(())
    }

    fn output(&mut self) -> Option<Output> {
        self.done.then_some(Output::Done)
    }
}

/// OffsetFetch for any number of partitions.
pub struct Committed {
    group: String,
    wanted: Vec<(Arc<str>, i32)>,
    coordinator: Option<i32>,
    found: Option<Vec<Option<i64>>>,
}

impl Committed {
    /// Asks for the offsets a group committed.
    pub fn new(group: String, wanted: Vec<(Arc<str>, i32)>) -> Self {
        let found = wanted.is_empty().then(Vec::new);
        Self { group, wanted, coordinator: None, found }
    }
}

impl Op for Committed {
    fn name(&self) -> &'static str {
        "fetch committed offsets"
    }

    fn step(&mut self, cx: &mut Cx<'_>) -> Result<(), Error> {
        if self.found.is_some() {
            return Ok(());
        }
        let Some(node) = reach_coordinator(cx, self.coordinator, &self.group) else {
            return Ok(());
        };
        let mut topics: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
        for (topic, partition) in &self.wanted {
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
        cx.send_at_most(Target::Node(node), request, OFFSETS, MAX_FETCH);
        Ok(())
    }

    fn take(&mut self, cx: &mut Cx<'_>, part: u32, _node: i32, reply: Reply) -> Result<(), Error> {
        if part == COORDINATOR {
            self.coordinator = Some(coordinator::read(reply, format_args!("group {:?}", self.group))?);
            return self.step(cx);
        }
        let response: offset_fetch::Response = reply.decode()?;
        let refused = |code| Error::refused(code, format!("fetch committed offsets of group {:?}", self.group));
        let mut code = response.error_code;
        let mut topics: Vec<(String, Vec<offset_fetch::PartitionResponse>)> =
            response.topics.into_iter().map(|t| (t.name, t.partitions)).collect();
        for group in response.groups {
            code = group.error_code;
            topics.extend(group.topics.into_iter().map(|t| (t.name, t.partitions)));
        }
        let failed = topics.iter().flat_map(|(_, ps)| ps).map(|p| p.error_code).find(|c| c.is_error());
        if let Err(code) = code.check().and_then(|()| failed.map_or(Ok(()), Err)) {
            if coordinator::is_moved(code) {
                self.coordinator = None;
            }
            return Err(refused(code));
        }
        let offset_of = |(topic, partition): &(Arc<str>, i32)| {
            let of_topic = topics.iter().filter(|(name, _)| **name == **topic).flat_map(|(_, ps)| ps);
            let offset = of_topic.filter(|p| p.partition_index == *partition).map(|p| p.committed_offset).next();
            offset.filter(|o| *o >= 0)
        };
        self.found = Some(self.wanted.iter().map(offset_of).collect());
        Ok(())
    }

    fn output(&mut self) -> Option<Output> {
        self.found.take().map(Output::Committed)
    }
}
