//! The log cleaner: retention by age and size, and compaction.
//!
//! Retention deletes whole segments. As in Kafka, only the age limit can delete the last segment of a log. With the
//! default segment size of 1 GiB, `retention.bytes` therefore has no effect on a small log.
//!
//! Compaction runs only when a test calls `DevBroker.compact`. The cleaner compacts all segments, including the last
//! segment, up to the start of the first open transaction. Compaction removes the records of aborted transactions and
//! keeps transaction markers, which Kafka removes after `delete.retention.ms`. Compacted batches keep their offsets,
//! producer IDs and sequence numbers. The last batch of a log stays even if it has no records left, so that readers
//! reach the end of the log.

use super::configs::Configs;
use super::log::Log;
use crate::api::ErrorCode;
use crate::compress::DEFAULT_LIMIT;
use crate::record::{Batch, BatchBuilder, Header, Producer, TimestampType};
use bytes::Bytes;
use std::collections::HashMap;

/// Returns the offset below which retention deletes records, or `None` if no records are due.
pub(super) fn due_up_to(log: &Log, configs: &Configs, now_ms: i64) -> Option<i64> {
    let mut start = None;
    let last = log.segments().last()?.0.base_offset;
    for (segment, bytes_after) in log.segments() {
        let is_old = configs.retention_ms >= 0 && now_ms.saturating_sub(segment.newest_ms) > configs.retention_ms;
        let limit = u64::try_from(configs.retention_bytes).ok();
        let is_much = segment.base_offset != last && limit.is_some_and(|limit| bytes_after >= limit);
        if !is_old && !is_much {
            break;
        }
        start = Some(log.segment_end(segment.base_offset));
    }
    start
}

/// Returns the batches that compaction keeps. Batches from `stable` on stay unchanged.
pub(super) fn compacted(
    log: &Log,
    batches: Vec<Batch>,
    stable: i64,
    configs: &Configs,
    now_ms: i64,
) -> Result<Vec<Batch>, ErrorCode> {
    // As in Kafka, a lag of 0 makes every record eligible, even one with a timestamp in the future.
    let lag_ms = configs.min_compaction_lag_ms;
    let is_young = |header: &Header| lag_ms > 0 && now_ms.saturating_sub(header.max_timestamp) < lag_ms;
    let end = batches.iter().find(|b| is_young(&b.header)).map_or(stable, |b| stable.min(b.header.base_offset));
    let mut newest: HashMap<Bytes, i64> = HashMap::new();
    for batch in batches.iter().filter(|b| b.header.base_offset < end && is_data(log, &b.header)) {
        let mut records = batch.records(DEFAULT_LIMIT).map_err(|_| ErrorCode::CORRUPT_MESSAGE)?;
        while let Some(view) = records.next_view() {
            let view = view.map_err(|_| ErrorCode::CORRUPT_MESSAGE)?;
            if let Some(key) = view.key() {
                newest.insert(Bytes::copy_from_slice(key), view.offset());
            }
        }
    }
    let last = batches.last().map(|b| b.header.base_offset);
    let mut kept = Vec::with_capacity(batches.len());
    for batch in batches {
        if batch.header.base_offset >= end || batch.header.is_control() {
            kept.push(batch);
            continue;
        }
        let is_last = last == Some(batch.header.base_offset);
        kept.extend(rewritten(log, &batch, &newest, configs, now_ms, is_last)?);
    }
    Ok(kept)
}

/// Returns whether a batch contains data: the batch is neither a marker nor part of an aborted transaction.
fn is_data(log: &Log, header: &Header) -> bool {
    let aborted = header.is_transactional() && log.is_aborted(header.producer_id, header.base_offset);
    !header.is_control() && !aborted
}

/// Returns the rest of a batch after compaction. The first compaction of a batch sets the time at which the batch's
/// tombstones are removed (KIP-534).
fn rewritten(
    log: &Log,
    batch: &Batch,
    newest: &HashMap<Bytes, i64>,
    configs: &Configs,
    now_ms: i64,
    is_last: bool,
) -> Result<Option<Batch>, ErrorCode> {
    let old = &batch.header;
    let horizon = old.delete_horizon_ms();
    let next_horizon = now_ms.saturating_add(configs.delete_retention_ms);
    let corrupt = |_| ErrorCode::CORRUPT_MESSAGE;
    let (mut builder, mut tombstones) = (BatchBuilder::with_capacity(0), false);
    for round in 0..2 {
        builder = match (round, horizon) {
            (0, None) => BatchBuilder::with_capacity(batch.data.len()),
            _ => BatchBuilder::with_capacity(batch.data.len()).with_base_timestamp(horizon.unwrap_or(next_horizon)),
        };
        let mut records = batch.records(DEFAULT_LIMIT).map_err(corrupt)?;
        while let Some(view) = records.next_view().filter(|_| is_data(log, old)) {
            let view = view.map_err(corrupt)?;
            let is_newest = view.key().is_some_and(|key| newest.get(key) == Some(&view.offset()));
            let is_gone = view.value().is_none() && horizon.is_some_and(|at| at <= now_ms);
            if !is_newest || is_gone {
                continue;
            }
            tombstones |= view.value().is_none();
            let delta = i32::try_from(view.offset() - old.base_offset).map_err(|_| ErrorCode::CORRUPT_MESSAGE)?;
            let headers: Vec<_> = view.headers().collect();
            builder.append_at(delta, view.timestamp(), view.key(), view.value(), &headers);
        }
        if !tombstones || horizon.is_some() {
            break;
        }
    }
    if builder.count() == 0 && !is_last {
        return Ok(None);
    }
    let has_base = tombstones || horizon.is_some();
    if builder.count() == old.count && !has_base {
        return Ok(Some(batch.clone()));
    }
    let producer = Producer {
        id: old.producer_id,
        epoch: old.producer_epoch,
        base_sequence: old.base_sequence,
        transactional: old.is_transactional(),
    };
    let sealed = builder.seal(old.compression().unwrap_or_default(), producer);
    let mut data = sealed.map_err(|_| ErrorCode::CORRUPT_MESSAGE)?.data.to_vec();
    let mut header = Header::parse(&data).ok().flatten().ok_or(ErrorCode::CORRUPT_MESSAGE)?;
    header.base_offset = old.base_offset;
    header.partition_leader_epoch = old.partition_leader_epoch;
    header.last_offset_delta = old.last_offset_delta;
    if old.timestamp_type() == TimestampType::LogAppendTime {
        header.set_append_time(old.max_timestamp);
    }
    if has_base {
        header.set_delete_horizon();
    }
    header.stamp(&mut data);
    let header = Header::parse(&data).ok().flatten().ok_or(ErrorCode::CORRUPT_MESSAGE)?;
    Ok(Some(Batch { header, data: data.into() }))
}
