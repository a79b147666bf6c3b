//! DeleteGroups v0 to v3: deletes groups without members, and their committed offsets.

use crate::api::ErrorCode;
use crate::api::delete_groups::{GroupResult, Request, Response};
use crate::broker::authorizer::{Operation, Resource};
use crate::broker::journal::Entry;
use crate::broker::request::{Context, HandlerResult};
use crate::broker::state::State;

pub(super) fn handle(state: &mut State, context: &Context, request: Request) -> HandlerResult<Response> {
    let delete = |group_id: String| {
        let error_code = match state.check(context, Operation::Delete, Resource::Group(&group_id)) {
            Err(code) => code,
            Ok(()) if state.is_coordinator(context.node, &group_id) => {
                state.groups.delete(&mut state.memory, &group_id)
            }
            Ok(()) => ErrorCode::NOT_COORDINATOR,
        };
        if !error_code.is_error() {
            state.journal.append(|| Entry::group_gone(&group_id));
        }
        GroupResult { group_id, error_code, error_message: None }
    };
    HandlerResult::Reply(Response {
        results: request.groups_names.into_iter().map(delete).collect(),
        ..Response::default()
    })
}
