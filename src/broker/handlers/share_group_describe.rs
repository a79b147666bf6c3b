//! ShareGroupDescribe v0 and v1: share groups and their members.

use super::{Answer, Context, group_operations};
use crate::api::ErrorCode;
use crate::api::share_group_describe::{Group, Request, Response};
use crate::broker::group;
use crate::broker::state::State;

pub(super) fn handle(state: &mut State, context: &Context, request: Request) -> Answer<Response> {
    let operations = group_operations(request.include_authorized_operations);
    let describe = |group_id: String| match group(state, context, group_id) {
        found if found.error_code.is_error() => found,
        found => Group { authorized_operations: operations, ..found },
    };
    Answer::Reply(Response { groups: request.group_ids.into_iter().map(describe).collect(), ..Response::default() })
}

pub(super) fn refuse(request: Request, error_code: ErrorCode) -> Response {
    let refuse = |group_id| Group { group_id, error_code, ..Group::default() };
    Response { groups: request.group_ids.into_iter().map(refuse).collect(), ..Response::default() }
}

fn group(state: &State, context: &Context, group_id: String) -> Group {
    let failed = |group_id, error_code, why| Group { group_id, error_code, error_message: why, ..Group::default() };
    if group_id.is_empty() {
        return failed(group_id, ErrorCode::INVALID_GROUP_ID, None);
    }
    if !state.is_coordinator(context.node, &group_id) {
        return failed(group_id, ErrorCode::NOT_COORDINATOR, None);
    }
    match state.groups.get(&group_id) {
        Some(group::Group::Share(group)) => Group {
            group_id,
            group_state: group.state().to_owned(),
            group_epoch: group.epoch,
            assignment_epoch: group.assignment_epoch,
            assignor_name: "simple".to_owned(),
            members: group.describe(&state.topics),
            ..Group::default()
        },
        Some(_) => {
            let why = format!("Group {group_id} is not a share group.");
            failed(group_id, ErrorCode::GROUP_ID_NOT_FOUND, Some(why))
        }
        None => {
            let why = format!("Group {group_id} not found.");
            failed(group_id, ErrorCode::GROUP_ID_NOT_FOUND, Some(why))
        }
    }
}
