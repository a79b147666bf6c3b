//! Requests offsets from the partition leaders: the start or end of a log, or the first record at or after a timestamp.

use super::by_leader::ByLeader;
use super::op::{Op, OpContext, Output};
use crate::api::list_offsets::{
    EARLIEST, EARLIEST_LOCAL, EARLIEST_PENDING_UPLOAD, LATEST, LATEST_TIERED, MAX_TIMESTAMP, Partition, Request,
    Response, Topic,
};
use crate::engine::{Error, ErrorKind, Reply, Target, Time};
use std::sync::Arc;

/// The operation ListOffsets, for any number of partitions.
pub struct ListOffsets {
    partitions: ByLeader<i64, Option<(i64, i64)>>,
    isolation_level: i8,
    leaderless: Leaderless,
}

/// What the operation does if a partition has no leader.
#[derive(Clone, Copy)]
enum Leaderless {
    /// Wait until the partition has a leader.
    Waits,
    /// Fail without a retry, so that the caller can request the other partitions without this one.
    Ends,
    /// Return no offset, if the partition has no leader according to metadata from this time or later.
    HasNone(Time),
}

impl ListOffsets {
    /// Requests an offset for each topic, partition and timestamp. [`crate::api::list_offsets`] defines special
    /// timestamps. With `read_committed`, the end of a partition is the last stable offset.
    pub fn new(queries: Vec<(Arc<str>, i32, i64)>, read_committed: bool) -> Self {
        Self {
            partitions: ByLeader::new(queries),
            isolation_level: read_committed.into(),
            leaderless: Leaderless::Waits,
        }
    }

    /// Like [`ListOffsets::new`], but fails without a retry if a partition of a known topic has no leader.
    pub fn of_several(queries: Vec<(Arc<str>, i32, i64)>, read_committed: bool) -> Self {
        let leaderless = if queries.len() > 1 { Leaderless::Ends } else { Leaderless::Waits };
        Self { leaderless, ..Self::new(queries, read_committed) }
    }

    /// Like [`ListOffsets::new`], but returns no offset for a partition that has no leader now.
    pub fn of_led(now: Time, queries: Vec<(Arc<str>, i32, i64)>, read_committed: bool) -> Self {
        Self { leaderless: Leaderless::HasNone(now), ..Self::new(queries, read_committed) }
    }
}

/// Returns the first version that supports this timestamp. Version 0 looks up timestamps only in the times of segments.
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

    fn only_reads(&self) -> bool {
        true
    }

    fn step(&mut self, cx: &mut OpContext<'_>) -> Result<(), Error> {
        let entry = |cx: &OpContext<'_>, item: &Item| Partition {
            partition_index: item.partition,
            current_leader_epoch: item.leader_epoch(cx),
            timestamp: item.query,
            max_num_offsets: 1,
        };
        let isolation_level = self.isolation_level;
        if let Leaderless::HasNone(since) = self.leaderless {
            self.partitions.set_leaderless(cx, since, &None);
        }
        let (requests, rest) = self.partitions.leader_requests(cx, entry);
        if let (Leaderless::Ends, Err(error)) = (self.leaderless, &rest)
            && let (Some(topic), Some(partition)) = (error.topic(), error.partition())
        {
            return Err(Error::new(ErrorKind::Config, error.message()).at(&Arc::from(topic), partition));
        }
        for leader_request in requests {
            let timestamps = leader_request.topics.iter().flat_map(|(_, partitions)| partitions).map(|p| p.timestamp);
            let min = timestamps.map(min_version).max().unwrap_or(0);
            let topics =
                leader_request.topics.into_iter().map(|(name, partitions)| Topic { name, partitions }).collect();
            let request = Request { replica_id: -1, isolation_level, topics, timeout_ms: 30_000 };
            cx.send_within(Target::Node(leader_request.leader), request, leader_request.part, min, i16::MAX);
        }
        rest
    }

    fn take(&mut self, _cx: &mut OpContext<'_>, part: u32, _node: i32, reply: Reply) -> Result<(), Error> {
        let response: Response = reply.decode()?;
        let mut result = Ok(());
        for topic in response.topics {
            for p in topic.partitions {
                let partition_result = p.error_code.check().map(|()| match p.old_style_offsets.first() {
                    Some(offset) => Some((*offset, -1)),
                    None => (p.offset >= 0).then_some((p.offset, p.timestamp)),
                });
                let what = |item: &Item| format!("list offsets of {}-{}", item.topic, item.partition);
                result = result.and(self.partitions.take_result(
                    part,
                    (&topic.name, p.partition_index),
                    partition_result,
                    what,
                ));
            }
        }
        result
    }

    fn output(&mut self) -> Option<Output> {
        self.partitions.all().map(Output::Offsets)
    }
}

/// The operation ListOffsets v0: returns the start offsets of segments that have records from before a time, and the
/// end of the log. Brokers from Kafka 4.0 on do not support v0.
pub struct SegmentOffsets {
    partitions: ByLeader<i64, Vec<i64>>,
    limit: i32,
}

impl SegmentOffsets {
    /// Requests at most `limit` offsets for each topic, partition and time.
    pub fn new(queries: Vec<(Arc<str>, i32, i64)>, limit: i32) -> Self {
        Self { partitions: ByLeader::new(queries), limit }
    }
}

impl Op for SegmentOffsets {
    fn name(&self) -> &'static str {
        "list segments' offsets"
    }

    fn only_reads(&self) -> bool {
        true
    }

    fn step(&mut self, cx: &mut OpContext<'_>) -> Result<(), Error> {
        let max_num_offsets = self.limit;
        let (requests, rest) = self.partitions.leader_requests(cx, |_, item| Partition {
            partition_index: item.partition,
            timestamp: item.query,
            max_num_offsets,
            ..Default::default()
        });
        for leader_request in requests {
            let topics =
                leader_request.topics.into_iter().map(|(name, partitions)| Topic { name, partitions }).collect();
            let request = Request { replica_id: -1, topics, ..Default::default() };
            cx.send_at_most(Target::Node(leader_request.leader), request, leader_request.part, BY_SEGMENT);
        }
        rest
    }

    fn take(&mut self, _cx: &mut OpContext<'_>, part: u32, _node: i32, reply: Reply) -> Result<(), Error> {
        let response: Response = reply.decode()?;
        let mut result = Ok(());
        for topic in response.topics {
            for p in topic.partitions {
                let partition_result = p.error_code.check().map(|()| p.old_style_offsets);
                let of = (topic.name.as_str(), p.partition_index);
                let applied = self.partitions.take_result(part, of, partition_result, |item| {
                    format!("list segments' offsets of {}-{}", item.topic, item.partition)
                });
                result = result.and(applied);
            }
        }
        result
    }

    fn output(&mut self) -> Option<Output> {
        self.partitions.all().map(Output::Segments)
    }
}

/// The version that uses the times of segments instead of the timestamps of records.
const BY_SEGMENT: i16 = 0;

type Item = super::by_leader::Item<i64, Option<(i64, i64)>>;
