//! Offsets by time: the start, the end, or the first record at or after a timestamp; each from its partition's leader.

use super::{Cx, Op, Output, by_leader};
use crate::api::list_offsets::{
    EARLIEST, EARLIEST_LOCAL, EARLIEST_PENDING_UPLOAD, LATEST, LATEST_TIERED, MAX_TIMESTAMP, Partition, Request,
    Response, Topic,
};
use crate::engine::{Error, Reply, Target};
use std::collections::BTreeMap;
use std::sync::Arc;

struct Item {
    topic: Arc<str>,
    partition: i32,
    timestamp: i64,
    found: Option<Option<(i64, i64)>>,
}

/// ListOffsets for any number of partitions.
pub struct ListOffsets {
    items: Vec<Item>,
    isolation_level: i8,
    asked: Vec<Vec<usize>>,
}

impl ListOffsets {
    /// Asks for topic, partition and timestamp, or one of the special timestamps of [`crate::api::list_offsets`]. With
    /// `read_committed` the end is the last stable offset.
    pub fn new(wanted: Vec<(Arc<str>, i32, i64)>, read_committed: bool) -> Self {
        let item = |(topic, partition, timestamp)| Item { topic, partition, timestamp, found: None };
        let items = wanted.into_iter().map(item).collect();
        Self { items, isolation_level: read_committed.into(), asked: Vec::new() }
    }
}

/// The first version that gives the offset of a timestamp, or of what the special ones stand for; before it there were
/// only segments, whose times say little of the records.
fn min_version(timestamp: i64) -> i16 {
    match timestamp {
        LATEST | EARLIEST => 0,
        MAX_TIMESTAMP => 7,
        EARLIEST_LOCAL => 8,
        LATEST_TIERED => 9,
        EARLIEST_PENDING_UPLOAD => 11,
        _ => 1,
    }
}

impl Op for ListOffsets {
    fn name(&self) -> &'static str {
        "list offsets"
    }

    fn step(&mut self, cx: &mut Cx<'_>) -> Result<(), Error> {
        let missing = self.items.iter().enumerate().filter(|(_, item)| item.found.is_none());
        let leaders = by_leader(cx, missing.map(|(i, item)| (i, &item.topic, item.partition)))?;
        for (leader, indices) in leaders {
            let mut topics: BTreeMap<&Arc<str>, Vec<Partition>> = BTreeMap::new();
            for item in indices.iter().filter_map(|i| self.items.get(*i)) {
                let epoch = cx.cluster.leader(&item.topic, item.partition).map_or(-1, |(_, epoch)| epoch);
                topics.entry(&item.topic).or_default().push(Partition {
                    partition_index: item.partition,
                    current_leader_epoch: epoch,
                    timestamp: item.timestamp,
                    max_num_offsets: 1,
                });
            }
            let topics = topics.into_iter().map(|(t, partitions)| Topic { name: t.to_string(), partitions }).collect();
            let isolation_level = self.isolation_level;
            let request = Request { replica_id: -1, isolation_level, topics, timeout_ms: 30_000 };
            let min = indices.iter().filter_map(|i| self.items.get(*i)).map(|item| min_version(item.timestamp)).max();
            cx.send_within(Target::Node(leader), request, self.asked.len() as u32, min.unwrap_or(0), i16::MAX);
            self.asked.push(indices);
        }
        Ok(())
    }

    fn take(&mut self, _cx: &mut Cx<'_>, part: u32, _node: i32, reply: Reply) -> Result<(), Error> {
        let response: Response = reply.decode()?;
        let asked = self.asked.get(part as usize).cloned().unwrap_or_default();
        let mut failed = None;
        for topic in response.topics {
            for p in topic.partitions {
                let index = asked.iter().copied().find(|i| {
                    self.items
                        .get(*i)
                        .is_some_and(|item| *item.topic == *topic.name && item.partition == p.partition_index)
                });
                let Some(item) = index.and_then(|i| self.items.get_mut(i)) else {
                    continue;
                };
                if let Err(code) = p.error_code.check() {
                    let what = format!("list offsets of {}-{}", item.topic, item.partition);
                    failed = Some(Error::refused(code, what).at(&item.topic, item.partition));
                } else if let Some(offset) = p.old_style_offsets.first() {
                    item.found = Some(Some((*offset, -1)));
                } else {
                    item.found = Some((p.offset >= 0).then_some((p.offset, p.timestamp)));
                }
            }
        }
        failed.map_or(Ok(()), Err)
    }

    fn output(&mut self) -> Option<Output> {
        self.items.iter().map(|item| item.found).collect::<Option<Vec<_>>>().map(Output::Offsets)
    }
}
