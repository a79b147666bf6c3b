//! DeleteShareGroupOffsets v0: deletes the offsets of topics in a share group that has no members.

use super::defaults::RespondWith;
use crate::api::ErrorCode;
use crate::api::delete_share_group_offsets::{Request, Response, TopicResponse};
use crate::broker::authorizer::{Operation, Resource};
use crate::broker::group;
use crate::broker::request::{ApiError, Context, HandlerResult};
use crate::broker::state::State;
use crate::wire::Uuid;

pub(super) fn handle(state: &mut State, context: &Context, request: Request) -> HandlerResult<Response> {
    if let Err(ApiError { code, message }) = admit(state, context, &request.group_id) {
        return HandlerResult::Reply(Response { error_message: message, ..request.response_with(code) });
    }
    let responses = request.topics.into_iter().map(|topic| {
        let forgotten = forget(state, context, &request.group_id, &topic.topic_name);
        let (topic_id, error) = match forgotten {
            Ok(id) => (id, ErrorCode::NONE.into()),
            Err(error) => (Uuid::ZERO, error),
        };
        let ApiError { code, message } = error;
        TopicResponse { topic_name: topic.topic_name, topic_id, error_code: code, error_message: message }
    });
    HandlerResult::Reply(Response { responses: responses.collect(), ..Response::default() })
}

fn admit(state: &State, context: &Context, group_id: &str) -> Result<(), ApiError> {
    state.check(context, Operation::Delete, Resource::Group(group_id))?;
    if group_id.is_empty() {
        return Err(ApiError::new(ErrorCode::INVALID_GROUP_ID, "The group id is invalid."));
    }
    if !state.is_coordinator(context.node, group_id) {
        return Err(ErrorCode::NOT_COORDINATOR.into());
    }
    let not_found = |why| Err(ApiError::new(ErrorCode::GROUP_ID_NOT_FOUND, why));
    match state.groups.get(group_id) {
        Some(group::Group::Share(group)) if group.is_empty() => Ok(()),
        Some(group::Group::Share(_)) => Err(ApiError::new(ErrorCode::NON_EMPTY_GROUP, "The group is not empty.")),
        Some(_) => not_found(format!("Group {group_id} is not a share group.")),
        None => not_found(format!("Group {group_id} not found.")),
    }
}

fn forget(state: &mut State, context: &Context, group_id: &str, topic: &str) -> Result<Uuid, ApiError> {
    state.check(context, Operation::Read, Resource::Topic(topic))?;
    let unknown = |why: &str| ApiError::new(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, why);
    let State { topics, groups, memory, .. } = state;
    let existing_topic = topics.get(topic).ok_or_else(|| unknown("This server does not host this topic-partition."))?;
    let id = existing_topic.id;
    match groups.with_share(memory, group_id, |group| group.forget_offsets(id)) {
        Some(true) => Ok(id),
        _ => Err(unknown("There is no offset information to delete.")),
    }
}
