//! Deletes records: each partition's leader moves the start of its log (KIP-107).

use super::by_leader::ByLeader;
use super::{Op, OpContext, Output};
use crate::api::delete_records::{Partition, Request, Response, Topic};
use crate::engine::{Error, Reply, Target};
use std::sync::Arc;

/// DeleteRecords for any number of partitions.
pub struct DeleteRecords {
    partitions: ByLeader<i64, i64>,
}

impl DeleteRecords {
    /// Deletes the records before an offset of each partition; -1 stands for the end of the log.
    pub fn new(wanted: Vec<(Arc<str>, i32, i64)>) -> Self {
        Self { partitions: ByLeader::new(wanted) }
    }
}

impl Op for DeleteRecords {
    fn name(&self) -> &'static str {
        "delete records"
    }

    fn step(&mut self, cx: &mut OpContext<'_>) -> Result<(), Error> {
        let entry = |_: &OpContext<'_>, item: &Item| Partition { partition_index: item.partition, offset: item.wanted };
        let (questions, rest) = self.partitions.questions(cx, entry);
        for question in questions {
            let topics = question.topics.into_iter().map(|(name, partitions)| Topic { name, partitions }).collect();
            cx.send(Target::Node(question.leader), Request { topics, timeout_ms: 30_000 }, question.part);
        }
        rest
    }

    fn take(&mut self, _cx: &mut OpContext<'_>, part: u32, _node: i32, reply: Reply) -> Result<(), Error> {
        let response: Response = reply.decode()?;
        let mut result = Ok(());
        for topic in response.topics {
            for p in topic.partitions {
                let found = p.error_code.check().map(|()| p.low_watermark);
                let what = |item: &Item| format!("delete records of {}-{}", item.topic, item.partition);
                result = result.and(self.partitions.take_result(part, (&topic.name, p.partition_index), found, what));
            }
        }
        result
    }

    fn output(&mut self) -> Option<Output> {
        self.partitions.all().map(Output::Starts)
    }
}

type Item = super::by_leader::Item<i64, i64>;
