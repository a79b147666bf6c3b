//! SyncGroup v0 to v5: hands a generation's assignments in and out; followers wait for the leader.
//!
//! From v5 on the protocol's type and name are required, INCONSISTENT_GROUP_PROTOCOL.

use super::{Answer, Context, Waiting};
use crate::api::ErrorCode;
use crate::api::sync_group::{Request, Response};
use crate::broker::authorizer::{Operation, Resource};
use crate::broker::group;
use crate::broker::state::State;

pub(super) fn handle(state: &mut State, context: &Context, request: Request) -> Answer<Response> {
    if context.version >= 5 && (request.protocol_type.is_none() || request.protocol_name.is_none()) {
        return Answer::Reply(refuse(request, ErrorCode::INCONSISTENT_GROUP_PROTOCOL));
    }
    if let Err(code) = state.check(context, Operation::Read, Resource::Group(&request.group_id)) {
        return Answer::Reply(refuse(request, code));
    }
    if request.group_id.is_empty() {
        return Answer::Reply(refuse(request, ErrorCode::INVALID_GROUP_ID));
    }
    if !state.is_coordinator(context.node, &request.group_id) {
        return Answer::Reply(refuse(request, ErrorCode::NOT_COORDINATOR));
    }
    let State { groups, memory, .. } = state;
    if !memory.has(request.assignments.iter().map(|a| a.assignment.len()).sum()) {
        return Answer::Reply(refuse(request, ErrorCode::COORDINATOR_NOT_AVAILABLE));
    }
    groups.answers.expect(context.connection);
    let group_id = request.group_id.clone();
    let found = groups.with_classic(memory, &group_id, |group, answers| {
        group.sync(context.clock.now, context.connection, request, answers);
    });
    match (found, groups.answers.take(context.connection)) {
        (None, _) => {
            groups.answers.forget(context.connection);
            Answer::Reply(Response { error_code: ErrorCode::UNKNOWN_MEMBER_ID, ..Response::default() })
        }
        (_, Some(group::Answer::Sync(answer))) => Answer::Reply(answer),
        _ => Answer::Park(Waiting::Group, None),
    }
}

pub(super) fn refuse(_: Request, error_code: ErrorCode) -> Response {
    Response { error_code, ..Response::default() }
}
