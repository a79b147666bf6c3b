//! OffsetDelete v0: deletes a group's offsets for topics that no member reads.

use super::defaults::RespondWith;
use crate::api::ErrorCode;
use crate::api::offset_delete::{PartitionResponse, Request, Response, TopicResponse};
use crate::broker::authorizer::{Operation, Resource};
use crate::broker::group::Group;
use crate::broker::journal::Entry;
use crate::broker::request::{Context, HandlerResult};
use crate::broker::state::State;

pub(super) fn handle(state: &mut State, context: &Context, request: Request) -> HandlerResult<Response> {
    if let Err(error_code) = admit(state, context, &request.group_id) {
        return HandlerResult::Reply(request.response_with(error_code));
    }
    let group_id = request.group_id;
    let responses = request.topics.into_iter().map(|topic| {
        let allowed = state.check(context, Operation::Read, Resource::Topic(&topic.name));
        let State { groups, memory, topics, journal, .. } = &mut *state;
        let subscribed = groups.get(&group_id).is_some_and(|group| group.is_subscribed(&topic.name));
        let partitions = topic.partitions.iter().map(|p| {
            let index = p.partition_index;
            let error_code = if let Err(code) = allowed {
                code
            } else if topics.get_mut(&topic.name).and_then(|t| t.partition(index)).is_none() {
                ErrorCode::UNKNOWN_TOPIC_OR_PARTITION
            } else if subscribed {
                ErrorCode::GROUP_SUBSCRIBED_TO_TOPIC
            } else {
                groups.offsets.forget(memory, &group_id, &topic.name, index);
                journal.append(|| Entry::offset_gone(&group_id, &topic.name, index));
                ErrorCode::NONE
            };
            PartitionResponse { partition_index: index, error_code }
        });
        let partitions = partitions.collect();
        TopicResponse { name: topic.name, partitions }
    });
    HandlerResult::Reply(Response { topics: responses.collect(), ..Response::default() })
}

fn admit(state: &State, context: &Context, group_id: &str) -> Result<(), ErrorCode> {
    state.check_coordinator(context, Operation::Delete, Resource::Group(group_id))?;
    match state.groups.get(group_id).ok_or(ErrorCode::GROUP_ID_NOT_FOUND)? {
        Group::Classic(group) if !group.is_empty() && group.protocol_type.as_deref() != Some("consumer") => {
            Err(ErrorCode::NON_EMPTY_GROUP)
        }
        Group::Share(_) => Err(ErrorCode::GROUP_ID_NOT_FOUND),
        _ => Ok(()),
    }
}
