//! AlterShareGroupOffsets v0: sets the start offsets of a share group without members, and creates the group if
//! necessary. As in Kafka, an offset need not exist in the log.

use super::defaults::RespondWith;
use crate::api::ErrorCode;
use crate::api::alter_share_group_offsets::{PartitionResponse, Request, Response, Topic, TopicResponse};
use crate::broker::authorizer::{Operation, Resource};
use crate::broker::group;
use crate::broker::ids::TopicIdPartition;
use crate::broker::request::{Context, HandlerResult};
use crate::broker::state::State;

pub(super) fn handle(state: &mut State, context: &Context, request: Request) -> HandlerResult<Response> {
    if let Err((code, why)) = admit(state, context, &request.group_id) {
        let error_message = why.map(str::to_owned);
        return HandlerResult::Reply(Response { error_message, ..request.response_with(code) });
    }
    let responses = request.topics.into_iter().map(|topic| alter(state, context, &request.group_id, topic));
    HandlerResult::Reply(Response { responses: responses.collect(), ..Response::default() })
}

fn admit(state: &mut State, context: &Context, group_id: &str) -> Result<(), (ErrorCode, Option<&'static str>)> {
    state.check(context, Operation::Read, Resource::Group(group_id)).map_err(|code| (code, None))?;
    if group_id.is_empty() {
        return Err((ErrorCode::INVALID_GROUP_ID, Some("The group id is invalid.")));
    }
    if !state.is_coordinator(context.node, group_id) {
        return Err((ErrorCode::NOT_COORDINATOR, None));
    }
    if !state.groups.create_share(&mut state.memory, group_id) {
        return Err((ErrorCode::COORDINATOR_NOT_AVAILABLE, None));
    }
    match state.groups.get(group_id) {
        Some(group::Group::Share(group)) if group.is_empty() => Ok(()),
        Some(group::Group::Share(_)) => Err((ErrorCode::NON_EMPTY_GROUP, Some("The group is not empty."))),
        _ => Err((ErrorCode::GROUP_ID_NOT_FOUND, Some("The group is not a share group."))),
    }
}

fn alter(state: &mut State, context: &Context, group_id: &str, topic: Topic) -> TopicResponse {
    let allowed = state.check(context, Operation::Read, Resource::Topic(&topic.topic_name));
    let State { topics, groups, memory, .. } = state;
    let mut existing_topic = topics.get_mut(&topic.topic_name).filter(|_| allowed.is_ok());
    let topic_id = existing_topic.as_ref().map(|t| t.id).unwrap_or_default();
    let partitions = topic.partitions.into_iter().map(|requested_partition| {
        let index = requested_partition.partition_index;
        let partition = existing_topic.as_mut().and_then(|t| t.partition(index));
        let (error_code, why) = match (allowed, partition) {
            (Err(code), _) => (code, None),
            (Ok(()), None) => {
                let why = "This server does not host this topic-partition.";
                (ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, Some(why))
            }
            (Ok(()), Some(partition)) => {
                let (id, epoch) = (TopicIdPartition { topic_id, partition: index }, partition.leader_epoch);
                groups
                    .with_share(memory, group_id, |group| group.begin_at(id, requested_partition.start_offset, epoch));
                (ErrorCode::NONE, None)
            }
        };
        PartitionResponse { partition_index: index, error_code, error_message: why.map(str::to_owned) }
    });
    TopicResponse { topic_id, partitions: partitions.collect(), topic_name: topic.topic_name }
}
