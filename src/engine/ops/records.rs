//! Records that go before their time: each partition's leader moves the start of its log (KIP-107).

use super::{Cx, Op, Output, by_leader};
use crate::api::delete_records::{Partition, Request, Response, Topic};
use crate::engine::{Error, Reply, Target};
use std::collections::BTreeMap;
use std::sync::Arc;

struct Item {
    topic: Arc<str>,
    partition: i32,
    offset: i64,
    start: Option<i64>,
}

/// DeleteRecords for any number of partitions.
pub struct DeleteRecords {
    items: Vec<Item>,
    asked: Vec<Vec<usize>>,
}

impl DeleteRecords {
    /// Deletes what is before an offset of a partition; -1 is the end of its log.
    pub fn new(wanted: Vec<(Arc<str>, i32, i64)>) -> Self {
        let item = |(topic, partition, offset)| Item { topic, partition, offset, start: None };
        Self { items: wanted.into_iter().map(item).collect(), asked: Vec::new() }
    }
}

impl Op for DeleteRecords {
    fn name(&self) -> &'static str {
        "delete records"
    }

    fn step(&mut self, cx: &mut Cx<'_>) -> Result<(), Error> {
        let missing = self.items.iter().enumerate().filter(|(_, item)| item.start.is_none());
        let leaders = by_leader(cx, missing.map(|(i, item)| (i, &item.topic, item.partition)))?;
        for (leader, indices) in leaders {
            let mut topics: BTreeMap<&Arc<str>, Vec<Partition>> = BTreeMap::new();
            for item in indices.iter().filter_map(|i| self.items.get(*i)) {
                let partition = Partition { partition_index: item.partition, offset: item.offset };
                topics.entry(&item.topic).or_default().push(partition);
            }
            let topics = topics.into_iter().map(|(t, partitions)| Topic { name: t.to_string(), partitions }).collect();
            cx.send(Target::Node(leader), Request { topics, timeout_ms: 30_000 }, self.asked.len() as u32);
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
                let is_it = |item: &Item| *item.topic == *topic.name && item.partition == p.partition_index;
                let index = asked.iter().copied().find(|i| self.items.get(*i).is_some_and(is_it));
                let Some(item) = index.and_then(|i| self.items.get_mut(i)) else { continue };
                match p.error_code.check() {
                    Ok(()) => item.start = Some(p.low_watermark),
                    Err(code) => {
                        let what = format!("delete records of {}-{}", item.topic, item.partition);
                        failed = Some(Error::refused(code, what).at(&item.topic, item.partition));
                    }
                }
            }
        }
        failed.map_or(Ok(()), Err)
    }

    fn output(&mut self) -> Option<Output> {
        self.items.iter().map(|item| item.start).collect::<Option<Vec<_>>>().map(Output::Starts)
    }
}
