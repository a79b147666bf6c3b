//! ListOffsets v0 to v11: returns the start or end offset of a log, or the offset of the first record at or after a
//! timestamp.
//!
//! v0 returns a list of offsets, newest first. The list of v0 has the start offset of each segment whose records are
//! not newer than the timestamp. If the timestamp is not in the past, the list starts with the log end offset. The dev
//! broker has no remote storage, so a request for the earliest local offset returns the log start offset. Requests for
//! offsets in remote storage find no offset. From v2 on, the end of the log is the last stable offset for requests with
//! `read_committed`.

use crate::api::ErrorCode;
use crate::api::list_offsets::{EARLIEST, EARLIEST_LOCAL, EARLIEST_PENDING_UPLOAD, LATEST, LATEST_TIERED};
use crate::api::list_offsets::{MAX_TIMESTAMP, Partition, PartitionResponse, Request, Response, TopicResponse};
use crate::broker::authorizer::{Operation, Resource};
use crate::broker::log::{Found, Log};
use crate::broker::request::{Context, HandlerResult};
use crate::broker::state::State;
use crate::broker::topics::Topic;
use crate::wire::Uuid;

const READ_COMMITTED: i8 = 1;

pub(super) fn handle(state: &mut State, context: &Context, request: Request) -> HandlerResult<Response> {
    let mut topics = Vec::with_capacity(request.topics.len());
    for topic in request.topics {
        let allowed = state.check(context, Operation::Describe, Resource::Topic(&topic.name));
        let mut topic_state = allowed.and_then(|()| state.topics.find(&topic.name, Uuid::ZERO, false));
        let partitions = topic.partitions.iter().map(|requested| {
            let partition_response = match &mut topic_state {
                Ok(topic) => find_offset(topic, context, requested, request.isolation_level == READ_COMMITTED),
                Err(code) => Err(*code),
            };
            let failed = |error_code| PartitionResponse { error_code, ..PartitionResponse::default() };
            PartitionResponse {
                partition_index: requested.partition_index,
                ..partition_response.unwrap_or_else(failed)
            }
        });
        let partitions = partitions.collect();
        topics.push(TopicResponse { name: topic.name, partitions });
    }
    HandlerResult::Reply(Response { topics, ..Response::default() })
}

fn find_offset(
    topic: &mut Topic,
    context: &Context,
    requested: &Partition,
    committed_only: bool,
) -> Result<PartitionResponse, ErrorCode> {
    let partition = topic.partition(requested.partition_index).ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?;
    partition.check_leader(context.node, requested.current_leader_epoch)?;
    if context.version == 0 {
        let old_style_offsets = segment_offsets(&partition.log, requested, context.clock.wall_ms);
        return Ok(PartitionResponse { old_style_offsets, ..PartitionResponse::default() });
    }
    let leader_epoch = partition.leader_epoch;
    let stable = partition.last_stable_offset();
    let log = &mut partition.log;
    let (start, end) = (log.start_offset(), if committed_only { stable } else { log.end_offset() });
    let before_end = |found: &Found| found.offset < end;
    let offset = match requested.timestamp {
        LATEST => Some(Found { offset: end, timestamp: -1, leader_epoch }),
        EARLIEST => Some(earliest(log, start, leader_epoch)),
        EARLIEST_LOCAL if context.version >= 8 => Some(earliest(log, start, leader_epoch)),
        MAX_TIMESTAMP if context.version >= 7 => log.latest_record()?.filter(before_end),
        LATEST_TIERED if context.version >= 9 => None,
        EARLIEST_PENDING_UPLOAD if context.version >= 11 => None,
        time @ 0.. => log.first_since(time)?.filter(before_end),
        _ => return Err(ErrorCode::UNSUPPORTED_VERSION),
    };
    let Some(Found { offset, timestamp, leader_epoch }) = offset else { return Ok(PartitionResponse::default()) };
    Ok(PartitionResponse { offset, timestamp, leader_epoch, ..PartitionResponse::default() })
}

fn earliest(log: &mut Log, offset: i64, leader_epoch: i32) -> Found {
    Found { offset, timestamp: -1, leader_epoch: log.epoch_at(offset).unwrap_or(leader_epoch) }
}

/// For version 0, returns the start offsets of the segments whose records are not newer than the timestamp. If the
/// timestamp is not in the past, the result also has the log end offset. The newest offset comes first.
fn segment_offsets(log: &Log, requested: &Partition, now_ms: i64) -> Vec<i64> {
    let (start, end) = (log.start_offset(), log.end_offset());
    let is_at_or_before = |time: i64| match requested.timestamp {
        LATEST => true,
        EARLIEST => false,
        timestamp => time <= timestamp,
    };
    let segments = log.segments().map(|(segment, _)| (segment.base_offset.max(start), segment.newest_ms));
    let mut offsets: Vec<_> =
        segments.filter(|(_, newest)| is_at_or_before(*newest)).map(|(offset, _)| offset).collect();
    if requested.timestamp == EARLIEST || start == end {
        offsets = vec![start];
    } else if is_at_or_before(now_ms) {
        offsets.push(end);
    }
    offsets.reverse();
    offsets.truncate(usize::try_from(requested.max_num_offsets).unwrap_or(0));
    offsets
}
