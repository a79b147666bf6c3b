//! Reads the responses of share group requests: checks and decompresses batches, and keeps only acquired records.
//!
//! The code in this file runs without a lock. `mod.rs` buffers the records and handles the results of acknowledgements.

use crate::api::share_acknowledge::{GAP, REJECT, RELEASE};
use crate::api::share_fetch::{self, AcquiredRecords};
use crate::api::{ErrorCode, share_acknowledge};
use crate::engine::TopicIdPartition;
use crate::engine::consumer::Slice;
use crate::engine::{Broker, Error, ErrorKind, LeaderChange, Reply};
use crate::record::{Batch, batches};
use crate::wire::{self, Reason, Uuid};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// How to read a response.
#[derive(Clone, Copy, Debug)]
pub struct DecodeOptions {
    pub check_crcs: bool,
    /// The largest decompressed size of a batch, in bytes.
    pub max_decompressed_bytes: usize,
}

/// The result of one partition in a response.
#[derive(Debug)]
pub struct PartitionResult {
    pub topic_partition: TopicIdPartition,
    /// The result of the fetch.
    pub code: ErrorCode,
    /// The result of the acknowledgements.
    pub acknowledged: ErrorCode,
    pub slices: Vec<Slice>,
    /// Ranges of acquired offsets without a deliverable record, with the acknowledgement type that the consumer sends
    /// for them.
    pub undeliverable: Vec<(i64, i64, i8)>,
    /// The error if records could not be read.
    pub error: Option<Error>,
}

impl PartitionResult {
    /// Returns a result without records.
    pub fn new(topic_partition: TopicIdPartition, code: ErrorCode, acknowledged: ErrorCode) -> Self {
        Self { topic_partition, code, acknowledged, slices: Vec::new(), undeliverable: Vec::new(), error: None }
    }
}

/// A whole response.
#[derive(Debug, Default)]
pub struct LeaderResponse {
    /// Whether this is a fetch response, where a missing partition means success.
    pub is_fetch: bool,
    /// How long the member holds the lock of acquired records.
    pub lock: Duration,
    /// The throttle time.
    pub throttle: Duration,
    pub partitions: Vec<PartitionResult>,
    pub leader_changes: Vec<LeaderChange>,
}

impl LeaderResponse {
    /// Returns whether this is the response to a fetch that acquired no records, without an error.
    pub fn has_no_records(&self) -> bool {
        let is_empty = |p: &PartitionResult| {
            p.slices.is_empty() && p.undeliverable.is_empty() && p.error.is_none() && !p.code.is_error()
        };
        self.is_fetch && self.partitions.iter().all(is_empty)
    }
}

/// Topic names by ID.
pub type TopicNames = HashMap<Uuid, Arc<str>>;

/// Reads a ShareFetch response.
pub fn decode_fetch_response(
    names: &TopicNames,
    options: DecodeOptions,
    reply: Reply,
) -> Result<LeaderResponse, Error> {
    let response: share_fetch::Response = reply.decode()?;
    check_code(response.error_code, response.error_message, "fetch for a share group")?;
    let endpoints: Vec<Broker> =
        response.node_endpoints.into_iter().filter_map(|n| broker(n.node_id, n.host, n.port, n.rack)).collect();
    let mut all = LeaderResponse {
        is_fetch: true,
        lock: ms(response.acquisition_lock_timeout_ms),
        throttle: ms(response.throttle_time_ms),
        ..Default::default()
    };
    for topic in response.responses {
        let Some(name) = names.get(&topic.topic_id) else { continue };
        for p in topic.partitions {
            let topic_partition =
                TopicIdPartition { topic: name.clone(), id: topic.topic_id, partition: p.partition_index };
            all.leader_changes.extend(leader_change(
                &topic_partition,
                p.current_leader.leader_id,
                p.current_leader.leader_epoch,
                &endpoints,
            ));
            let mut result = PartitionResult::new(topic_partition, p.error_code, p.acknowledge_error_code);
            decode_records(&mut result, options, p.records.unwrap_or_default(), p.acquired_records);
            all.partitions.push(result);
        }
    }
    Ok(all)
}

/// Reads a ShareAcknowledge response.
pub fn decode_acknowledge_response(names: &TopicNames, reply: Reply) -> Result<LeaderResponse, Error> {
    let response: share_acknowledge::Response = reply.decode()?;
    check_code(response.error_code, response.error_message, "acknowledge records of a share group")?;
    let endpoints: Vec<Broker> =
        response.node_endpoints.into_iter().filter_map(|n| broker(n.node_id, n.host, n.port, n.rack)).collect();
    let mut all = LeaderResponse { throttle: ms(response.throttle_time_ms), ..Default::default() };
    for topic in response.responses {
        let Some(name) = names.get(&topic.topic_id) else { continue };
        for p in topic.partitions {
            let topic_partition =
                TopicIdPartition { topic: name.clone(), id: topic.topic_id, partition: p.partition_index };
            all.leader_changes.extend(leader_change(
                &topic_partition,
                p.current_leader.leader_id,
                p.current_leader.leader_epoch,
                &endpoints,
            ));
            all.partitions.push(PartitionResult::new(topic_partition, ErrorCode::NONE, p.error_code));
        }
    }
    Ok(all)
}

fn check_code(code: ErrorCode, message: Option<String>, tried: &str) -> Result<(), Error> {
    let why = message.filter(|w| !w.is_empty()).map_or_else(String::new, |w| format!(" ({w})"));
    code.check().map_err(|code| Error::refused(code, format!("{tried}{why}")))
}

fn ms(n: i32) -> Duration {
    Duration::from_millis(u64::try_from(n).unwrap_or(0))
}

fn broker(id: i32, host: String, port: i32, rack: Option<String>) -> Option<Broker> {
    Some(Broker { id, host, port: u16::try_from(port).ok()?, rack })
}

fn leader_change(
    topic_partition: &TopicIdPartition,
    leader: i32,
    leader_epoch: i32,
    endpoints: &[Broker],
) -> Option<LeaderChange> {
    // Without an endpoint, the response names no leader: the fields are zero.
    let broker = endpoints.iter().find(|b| b.id == leader)?.clone();
    Some(LeaderChange {
        topic: topic_partition.topic.clone(),
        partition: topic_partition.partition,
        leader,
        leader_epoch,
        broker: Some(broker),
    })
}

/// The acquired offsets whose records have not been read yet, in order.
struct Remaining(VecDeque<AcquiredRecords>);

impl Remaining {
    fn new(mut acquired: Vec<AcquiredRecords>) -> Self {
        acquired.retain(|a| 0 <= a.first_offset && a.first_offset <= a.last_offset && a.last_offset < i64::MAX);
        acquired.sort_by_key(|a| a.first_offset);
        Self(acquired.into())
    }

    /// Acknowledges the remaining offsets below `before`, with the type `kind`.
    fn acknowledge_below(&mut self, before: i64, kind: i8, undeliverable: &mut Vec<(i64, i64, i8)>) {
        while let Some(a) = self.0.front_mut().filter(|a| a.first_offset < before) {
            let last = a.last_offset.min(before - 1);
            undeliverable.push((a.first_offset, last, kind));
            a.first_offset = last + 1;
            if a.first_offset > a.last_offset {
                self.0.pop_front();
            }
        }
    }

    /// Removes an offset. Returns its delivery count if the member acquired it.
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

fn decode_records(
    result: &mut PartitionResult,
    options: DecodeOptions,
    data: bytes::Bytes,
    acquired: Vec<AcquiredRecords>,
) {
    let mut remaining = Remaining::new(acquired);
    for batch in batches(data).in_runs() {
        let batch = match batch {
            Ok(batch) => batch,
            Err(e) => {
                // The extent of the damage is unknown, so the records are released for another attempt.
                result.error = Some(damaged(&result.topic_partition, "released", &e));
                break;
            }
        };
        let kind = match decode_batch(result, options, &batch, &mut remaining) {
            Ok(()) => GAP,
            Err(e) if matches!(e.reason(), Reason::OutOfMemory(_)) => {
                result.error = Some(out_of_memory(&result.topic_partition, &e));
                RELEASE
            }
            Err(e) => {
                result.error = Some(damaged(&result.topic_partition, "rejected", &e));
                REJECT
            }
        };
        remaining.acknowledge_below(batch.header.next_offset(), kind, &mut result.undeliverable);
    }
    remaining.acknowledge_below(i64::MAX, RELEASE, &mut result.undeliverable);
}

fn decode_batch(
    result: &mut PartitionResult,
    options: DecodeOptions,
    batch: &Batch,
    remaining: &mut Remaining,
) -> Result<(), wire::Error> {
    if options.check_crcs {
        batch.check_crc()?;
    }
    if batch.header.is_control() {
        return Ok(());
    }
    let set = batch.records(options.max_decompressed_bytes)?;
    let data = set.data().clone();
    let mut last_count: Option<i16> = None;
    for record in if options.check_crcs { set } else { set.skip_crcs() } {
        let record = record?;
        remaining.acknowledge_below(record.offset, GAP, &mut result.undeliverable);
        let Some(count) = remaining.take(record.offset) else { continue };
        match result.slices.last_mut().filter(|_| last_count == Some(count)) {
            Some(slice) => slice.records.push(record),
            None => result.slices.push(Slice {
                topic: result.topic_partition.topic.clone(),
                partition: result.topic_partition.partition,
                timestamp_type: batch.header.timestamp_type(),
                data: data.clone(),
                records: vec![record],
                delivery_count: count,
            }),
        }
        last_count = Some(count);
    }
    Ok(())
}

fn out_of_memory(topic_partition: &TopicIdPartition, e: &wire::Error) -> Error {
    let message = format!("records of {}-{} were released: {e}", topic_partition.topic, topic_partition.partition);
    Error::new(ErrorKind::OutOfMemory, message)
        .at(&topic_partition.topic, topic_partition.partition)
        .with_hint("free memory and poll again")
}

fn damaged(topic_partition: &TopicIdPartition, what: &str, e: &wire::Error) -> Error {
    let message =
        format!("records of {}-{} are damaged and were {what}: {e}", topic_partition.topic, topic_partition.partition);
    Error::new(ErrorKind::Decode, message)
        .at(&topic_partition.topic, topic_partition.partition)
        .with_hint("check the broker's disk")
}
