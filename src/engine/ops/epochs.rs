//! Requests the end offsets of leader epochs from the partition leaders (KIP-320).

use super::by_leader::ByLeader;
use super::op::{Op, OpContext, Output};
use crate::api::offset_for_leader_epoch::{Partition, Request, Response, Topic};
use crate::engine::{Error, Reply, Target};
use std::sync::Arc;

/// The operation OffsetForLeaderEpoch, for any number of partitions.
pub struct EpochEnds {
    partitions: ByLeader<i32, (i32, i64)>,
}

impl EpochEnds {
    /// Requests the end offset of one leader epoch for each topic and partition.
    pub fn new(queries: Vec<(Arc<str>, i32, i32)>) -> Self {
        Self { partitions: ByLeader::new(queries) }
    }
}

impl Op for EpochEnds {
    fn name(&self) -> &'static str {
        "find the end of a leader epoch"
    }

    fn only_reads(&self) -> bool {
        true
    }

    fn step(&mut self, cx: &mut OpContext<'_>) -> Result<(), Error> {
        let entry = |cx: &OpContext<'_>, item: &Item| Partition {
            partition: item.partition,
            current_leader_epoch: item.leader_epoch(cx),
            leader_epoch: item.query,
        };
        let (requests, rest) = self.partitions.leader_requests(cx, entry);
        for leader_request in requests {
            let topics =
                leader_request.topics.into_iter().map(|(topic, partitions)| Topic { topic, partitions }).collect();
            cx.send(Target::Node(leader_request.leader), Request { replica_id: -1, topics }, leader_request.part);
        }
        rest
    }

    fn take(&mut self, _cx: &mut OpContext<'_>, part: u32, _node: i32, reply: Reply) -> Result<(), Error> {
        let response: Response = reply.decode()?;
        let mut result = Ok(());
        for topic in response.topics {
            for p in topic.partitions {
                let partition_result = p.error_code.check().map(|()| (p.leader_epoch, p.end_offset));
                let what = |item: &Item| {
                    format!("find the end of leader epoch {} of {}-{}", item.query, item.topic, item.partition)
                };
                result =
                    result.and(self.partitions.take_result(part, (&topic.topic, p.partition), partition_result, what));
            }
        }
        result
    }

    fn output(&mut self) -> Option<Output> {
        self.partitions.all().map(Output::EpochEnds)
    }
}

type Item = super::by_leader::Item<i32, (i32, i64)>;
