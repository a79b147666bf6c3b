//! DeleteRecords v0 to v2: moves the start of a log forward immediately, at most to the end of the log. The offset -1
//! stands for the end of the log.
//!
//! As in Kafka, an offset below the start of the log has no effect. The broker rejects topics whose `cleanup.policy` is
//! only `compact`.

use crate::api::ErrorCode;
use crate::api::delete_records::{Partition, PartitionResponse, Request, Response, TopicResponse};
use crate::broker::authorizer::{Operation, Resource};
use crate::broker::request::{Context, HandlerResult};
use crate::broker::state::State;

const HIGH_WATERMARK: i64 = -1;

pub(super) fn handle(state: &mut State, context: &Context, request: Request) -> HandlerResult<Response> {
    let topics = request.topics.into_iter().map(|topic| {
        let partitions = topic.partitions.iter().map(|requested_partition| {
            let (low_watermark, error_code) = match delete(state, context, &topic.name, requested_partition) {
                Ok(start) => (start, ErrorCode::NONE),
                Err(code) => (-1, code),
            };
            PartitionResponse { partition_index: requested_partition.partition_index, low_watermark, error_code }
        });
        let partitions = partitions.collect();
        TopicResponse { name: topic.name, partitions }
    });
    let topics = topics.collect();
    HandlerResult::Reply(Response { topics, ..Response::default() })
}

fn delete(
    state: &mut State,
    context: &Context,
    topic: &str,
    requested_partition: &Partition,
) -> Result<i64, ErrorCode> {
    state.check(context, Operation::Delete, Resource::Topic(topic))?;
    let existing_topic = state.topics.get_mut(topic).ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?;
    let only_compacted = existing_topic.configs.compact && !existing_topic.configs.delete;
    let partition =
        existing_topic.partition(requested_partition.partition_index).ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?;
    partition.check_leader(context.node, -1)?;
    if only_compacted {
        return Err(ErrorCode::POLICY_VIOLATION);
    }
    let end = partition.log.end_offset();
    let offset = if requested_partition.offset == HIGH_WATERMARK { end } else { requested_partition.offset };
    if !(0..=end).contains(&offset) {
        return Err(ErrorCode::OFFSET_OUT_OF_RANGE);
    }
    state.delete_before(topic, requested_partition.partition_index, offset).ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)
}
