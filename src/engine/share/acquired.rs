//! What a broker gave out to a member: checked, decompressed, and without the records that are somebody else's. All of it
//! happens outside of any lock.

use crate::api::share_acknowledge::{GAP, REJECT, RELEASE};
use crate::api::share_fetch::{self, AcquiredRecords};
use crate::api::{ErrorCode, share_acknowledge};
use crate::engine::TopicIdPartition;
use crate::engine::consumer::Slice;
use crate::engine::{Broker, Error, ErrorKind, LeaderChange, Reply};
use crate::record::{Batch, batches};
use crate::wire::{self, Uuid};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// How to read what comes.
#[derive(Clone, Copy, Debug)]
pub struct Checks {
    pub crcs: bool,
    /// Bytes a batch may decompress to.
    pub limit: usize,
}

/// What came for one partition.
#[derive(Debug)]
pub struct Answered {
    pub spot: TopicIdPartition,
    /// What became of fetching.
    pub code: ErrorCode,
    /// What became of the acknowledgements.
    pub acknowledged: ErrorCode,
    pub slices: Vec<Slice>,
    /// Offsets without a record for the reader, and what to say of them.
    pub settled: Vec<(i64, i64, i8)>,
    /// What could not be read.
    pub error: Option<Error>,
}

/// A whole answer.
#[derive(Debug, Default)]
pub struct AnsweredAll {
    /// Whether records were asked for: then a partition without a word is well.
    pub is_fetch: bool,
    /// How long records are the member's.
    pub lock: Duration,
    /// How long the broker wants to be left alone.
    pub throttle: Duration,
    pub partitions: Vec<Answered>,
    pub leader_changes: Vec<LeaderChange>,
}

/// Topics by id, for the names in answers.
pub type Names = HashMap<Uuid, Arc<str>>;

/// Reads the answer to a fetch.
pub fn read_fetch(names: &Names, checks: Checks, reply: Reply) -> Result<AnsweredAll, Error> {
    let response: share_fetch::Response = reply.decode()?;
    refused(response.error_code, response.error_message, "fetch for a share group")?;
    let endpoints: Vec<Broker> =
        response.node_endpoints.into_iter().filter_map(|n| broker(n.node_id, n.host, n.port, n.rack)).collect();
    let mut all = AnsweredAll {
        is_fetch: true,
        lock: ms(response.acquisition_lock_timeout_ms),
        throttle: ms(response.throttle_time_ms),
        ..Default::default()
    };
    for topic in response.responses {
        let Some(name) = names.get(&topic.topic_id) else { continue };
        for p in topic.partitions {
            let spot = TopicIdPartition { topic: name.clone(), id: topic.topic_id, partition: p.partition_index };
            all.leader_changes.extend(moved(
                &spot,
                p.current_leader.leader_id,
                p.current_leader.leader_epoch,
                &endpoints,
            ));
            let mut answered = Answered {
                spot,
                code: p.error_code,
                acknowledged: p.acknowledge_error_code,
                slices: Vec::new(),
                settled: Vec::new(),
                error: None,
            };
            read_records(&mut answered, checks, p.records.unwrap_or_default(), p.acquired_records);
            all.partitions.push(answered);
        }
    }
    Ok(all)
}

/// Reads the answer to acknowledgements.
pub fn read_acknowledge(names: &Names, reply: Reply) -> Result<AnsweredAll, Error> {
    let response: share_acknowledge::Response = reply.decode()?;
    refused(response.error_code, response.error_message, "acknowledge records of a share group")?;
    let endpoints: Vec<Broker> =
        response.node_endpoints.into_iter().filter_map(|n| broker(n.node_id, n.host, n.port, n.rack)).collect();
    let mut all = AnsweredAll { throttle: ms(response.throttle_time_ms), ..Default::default() };
    for topic in response.responses {
        let Some(name) = names.get(&topic.topic_id) else { continue };
        for p in topic.partitions {
            let spot = TopicIdPartition { topic: name.clone(), id: topic.topic_id, partition: p.partition_index };
            all.leader_changes.extend(moved(
                &spot,
                p.current_leader.leader_id,
                p.current_leader.leader_epoch,
                &endpoints,
            ));
            all.partitions.push(Answered {
                spot,
                code: ErrorCode::NONE,
                acknowledged: p.error_code,
                slices: Vec::new(),
                settled: Vec::new(),
                error: None,
            });
        }
    }
    Ok(all)
}

fn refused(code: ErrorCode, why: Option<String>, tried: &str) -> Result<(), Error> {
    let why = why.filter(|w| !w.is_empty()).map_or_else(String::new, |w| format!(" ({w})"));
    code.check().map_err(|code| Error::refused(code, format!("{tried}{why}")))
}

fn ms(n: i32) -> Duration {
    Duration::from_millis(u64::try_from(n).unwrap_or(0))
}

fn broker(id: i32, host: String, port: i32, rack: Option<String>) -> Option<Broker> {
    Some(Broker { id, host, port: u16::try_from(port).ok()?, rack })
}

fn moved(spot: &TopicIdPartition, leader: i32, leader_epoch: i32, endpoints: &[Broker]) -> Option<LeaderChange> {
    // Nobody said anything: the fields are zero, and no epoch counts from there.
    let broker = endpoints.iter().find(|b| b.id == leader)?.clone();
    Some(LeaderChange {
        topic: spot.topic.clone(),
        partition: spot.partition,
        leader,
        leader_epoch,
        broker: Some(broker),
    })
}

/// The acquired offsets that nothing was said of yet, in order.
struct Left(VecDeque<AcquiredRecords>);

impl Left {
    fn new(mut acquired: Vec<AcquiredRecords>) -> Self {
        acquired.retain(|a| 0 <= a.first_offset && a.first_offset <= a.last_offset && a.last_offset < i64::MAX);
        acquired.sort_by_key(|a| a.first_offset);
        Self(acquired.into())
    }

    /// Settles what lies before an offset.
    fn settle(&mut self, before: i64, kind: i8, settled: &mut Vec<(i64, i64, i8)>) {
        while let Some(a) = self.0.front_mut().filter(|a| a.first_offset < before) {
            let last = a.last_offset.min(before - 1);
            settled.push((a.first_offset, last, kind));
            a.first_offset = last + 1;
            if a.first_offset > a.last_offset {
                self.0.pop_front();
            }
        }
    }

    /// Whether a record is the member's, and how often it was delivered then.
    fn take(&mut self, offset: i64) -> Option<i16> {
        let a = self.0.front_mut().filter(|a| a.first_offset == offset)?;
        let count = a.delivery_count;
        a.first_offset += 1;
        if a.first_offset > a.last_offset {
            self.0.pop_front();
        }
        Some(count)
    }
}

fn read_records(answered: &mut Answered, checks: Checks, data: bytes::Bytes, acquired: Vec<AcquiredRecords>) {
    let mut left = Left::new(acquired);
    for batch in batches(data).in_runs() {
        let batch = match batch {
            Ok(batch) => batch,
            Err(e) => {
                // How far the damage goes is not known: the broker may try again.
                answered.error = Some(damaged(&answered.spot, "they are released", &e));
                break;
            }
        };
        let read = read_batch(answered, checks, &batch, &mut left);
        let kind = match read {
            Ok(()) => GAP,
            Err(e) => {
                answered.error = Some(damaged(&answered.spot, "they are rejected", &e));
                REJECT
            }
        };
        left.settle(batch.header.next_offset(), kind, &mut answered.settled);
    }
    left.settle(i64::MAX, RELEASE, &mut answered.settled);
}

fn read_batch(answered: &mut Answered, checks: Checks, batch: &Batch, left: &mut Left) -> Result<(), wire::Error> {
    if checks.crcs {
        batch.check_crc()?;
    }
    if batch.header.is_control() {
        return Ok(());
    }
    let set = batch.records(checks.limit)?;
    let data = set.data().clone();
    let mut counted: Option<i16> = None;
    for record in if checks.crcs { set } else { set.skip_crcs() } {
        let record = record?;
        left.settle(record.offset, GAP, &mut answered.settled);
        let Some(count) = left.take(record.offset) else { continue };
        match answered.slices.last_mut().filter(|_| counted == Some(count)) {
            Some(slice) => slice.records.push(record),
            None => answered.slices.push(Slice {
                topic: answered.spot.topic.clone(),
                partition: answered.spot.partition,
                timestamp_type: batch.header.timestamp_type(),
                data: data.clone(),
                records: vec![record],
                delivery_count: count,
            }),
        }
        counted = Some(count);
    }
    Ok(())
}

fn damaged(spot: &TopicIdPartition, what: &str, e: &wire::Error) -> Error {
    let message = format!("records of {}-{} are damaged, {what}: {e}", spot.topic, spot.partition);
    Error::new(ErrorKind::Decode, message).at(&spot.topic, spot.partition).with_hint("check the broker's disk")
}
