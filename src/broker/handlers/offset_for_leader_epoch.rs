//! OffsetForLeaderEpoch v0 to v4: returns the end offset of a leader epoch. The log stores a leader epoch only if the
//! epoch has records. For an epoch without records, the response has the previous epoch and its end offset.

use crate::api::ErrorCode;
use crate::api::offset_for_leader_epoch::{EpochEndOffset, Partition, Request, Response, TopicResponse};
use crate::broker::authorizer::{Operation, Resource};
use crate::broker::request::{Context, HandlerResult};
use crate::broker::state::State;
use crate::broker::topics::Topic;
use crate::wire::Uuid;

pub(super) fn handle(state: &mut State, context: &Context, request: Request) -> HandlerResult<Response> {
    let mut topics = Vec::with_capacity(request.topics.len());
    for topic in request.topics {
        let allowed = state.check(context, Operation::Describe, Resource::Topic(&topic.topic));
        let mut found = allowed.and_then(|()| state.topics.find(&topic.topic, Uuid::ZERO, false));
        let partitions = topic.partitions.iter().map(|requested| {
            let answer = match &mut found {
                Ok(topic) => look(topic, context, requested),
                Err(code) => Err(*code),
            };
            let failed = |error_code| EpochEndOffset { error_code, ..EpochEndOffset::default() };
            EpochEndOffset { partition: requested.partition, ..answer.unwrap_or_else(failed) }
        });
        let partitions = partitions.collect();
        topics.push(TopicResponse { topic: topic.topic, partitions });
    }
    HandlerResult::Reply(Response { topics, ..Response::default() })
}

fn look(topic: &mut Topic, context: &Context, requested: &Partition) -> Result<EpochEndOffset, ErrorCode> {
    let partition = topic.partition(requested.partition).ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?;
    partition.check_leader(context.node, requested.current_leader_epoch)?;
    let found = partition.log.end_of_epoch(requested.leader_epoch, partition.leader_epoch);
    let (leader_epoch, end_offset) = found.unwrap_or((-1, -1));
    Ok(EpochEndOffset { leader_epoch, end_offset, ..EpochEndOffset::default() })
}
