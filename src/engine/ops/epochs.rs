//! Where leader epochs end in the logs of partitions, each from its leader (KIP-320).

use super::{Cx, Op, Output, by_leader};
use crate::api::offset_for_leader_epoch::{Partition, Request, Response, Topic};
use crate::engine::{Error, Reply, Target};
use std::collections::BTreeMap;
use std::sync::Arc;

struct Item {
    topic: Arc<str>,
    partition: i32,
    epoch: i32,
    found: Option<(i32, i64)>,
}

/// OffsetForLeaderEpoch for any number of partitions.
pub struct EpochEnds {
    items: Vec<Item>,
    asked: Vec<Vec<usize>>,
}

impl EpochEnds {
    /// Asks for topic, partition and epoch.
    pub fn new(wanted: Vec<(Arc<str>, i32, i32)>) -> Self {
        let item = |(topic, partition, epoch)| Item { topic, partition, epoch, found: None };
        Self { items: wanted.into_iter().map(item).collect(), asked: Vec::new() }
    }
}

impl Op for EpochEnds {
    fn name(&self) -> &'static str {
        "find the end of a leader epoch"
    }

    fn step(&mut self, cx: &mut Cx<'_>) -> Result<(), Error> {
        let missing = self.items.iter().enumerate().filter(|(_, item)| item.found.is_none());
        let leaders = by_leader(cx, missing.map(|(i, item)| (i, &item.topic, item.partition)))?;
        for (leader, indices) in leaders {
            let mut topics: BTreeMap<&Arc<str>, Vec<Partition>> = BTreeMap::new();
            for item in indices.iter().filter_map(|i| self.items.get(*i)) {
                topics.entry(&item.topic).or_default().push(Partition {
                    partition: item.partition,
                    current_leader_epoch: cx.cluster.leader(&item.topic, item.partition).map_or(-1, |(_, epoch)| epoch),
                    leader_epoch: item.epoch,
                });
            }
            let topics = topics.into_iter().map(|(t, partitions)| Topic { topic: t.to_string(), partitions }).collect();
            cx.send(Target::Node(leader), Request { replica_id: -1, topics }, self.asked.len() as u32);
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
                let is_it = |item: &Item| *item.topic == *topic.topic && item.partition == p.partition;
                let index = asked.iter().copied().find(|i| self.items.get(*i).is_some_and(is_it));
                let Some(item) = index.and_then(|i| self.items.get_mut(i)) else { continue };
                match p.error_code.check() {
                    Ok(()) => item.found = Some((p.leader_epoch, p.end_offset)),
                    Err(code) => {
                        let what =
                            format!("find the end of leader epoch {} of {}-{}", item.epoch, item.topic, item.partition);
                        failed = Some(Error::refused(code, what).at(&item.topic, item.partition));
                    }
                }
            }
        }
        failed.map_or(Ok(()), Err)
    }

    fn output(&mut self) -> Option<Output> {
        self.items.iter().map(|item| item.found).collect::<Option<Vec<_>>>().map(Output::EpochEnds)
    }
}
