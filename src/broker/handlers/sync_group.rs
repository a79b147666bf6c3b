//! SyncGroup v0 to v5: distributes the assignments of a generation. The requests of other members wait for the request
//! of the group leader.
//!
//! From v5 on, the request must contain the group's protocol type and name (otherwise INCONSISTENT_GROUP_PROTOCOL).

use super::defaults::RespondWith;
use crate::api::ErrorCode;
use crate::api::sync_group::{Request, Response};
use crate::broker::authorizer::{Operation, Resource};
use crate::broker::group;
use crate::broker::request::{Context, HandlerResult, Wait};
use crate::broker::state::State;

pub(super) fn handle(state: &mut State, context: &Context, request: Request) -> HandlerResult<Response> {
    if context.version >= 5 && (request.protocol_type.is_none() || request.protocol_name.is_none()) {
        return HandlerResult::Reply(request.response_with(ErrorCode::INCONSISTENT_GROUP_PROTOCOL));
    }
    if let Err(code) = state.check_coordinator(context, Operation::Read, Resource::Group(&request.group_id)) {
        return HandlerResult::Reply(request.response_with(code));
    }
    let State { groups, memory, topics, .. } = state;
    if !memory.has_room_for(request.assignments.iter().map(|a| a.assignment.len()).sum()) {
        return HandlerResult::Reply(request.response_with(ErrorCode::COORDINATOR_NOT_AVAILABLE));
    }
    let (now, group_id) = (context.clock.now, request.group_id.clone());
    if let Some(answer) = groups.with_consumer(memory, now, &group_id, |group| group.sync(now, topics, &request)) {
        return HandlerResult::Reply(answer.unwrap_or_else(|code| request.response_with(code)));
    }
    groups.replies.register(context.connection);
    let found = groups.with_classic(memory, &group_id, |group, replies| {
        group.sync(now, context.connection, request, replies);
    });
    match (found, groups.replies.take(context.connection)) {
        (None, _) => {
            groups.replies.forget(context.connection);
            HandlerResult::Reply(Response { error_code: ErrorCode::UNKNOWN_MEMBER_ID, ..Response::default() })
        }
        (_, Some(group::GroupReply::Sync(answer))) => HandlerResult::Reply(answer),
        _ => HandlerResult::Wait(Wait::Group, None),
    }
}
