//! DescribeGroups v0 to v6: describes classic groups and their members.
//!
//! A group that does not exist, or that is not a classic group, has the state `Dead`. From v6 on, a `Dead` group also
//! has the error GROUP_ID_NOT_FOUND.

use crate::api::ErrorCode;
use crate::api::describe_groups::{Group, Request, Response};
use crate::broker::authorizer::{Operation, Resource};
use crate::broker::group;
use crate::broker::group::classic::ClassicGroupState;
use crate::broker::request::{Context, HandlerResult};
use crate::broker::state::State;

pub(super) fn handle(state: &mut State, context: &Context, request: Request) -> HandlerResult<Response> {
    let include_operations = request.include_authorized_operations;
    let describe = |group_id: String| match group(state, context, group_id) {
        described if described.error_code.is_error() => described,
        described => {
            let authorized_operations =
                state.operations_if(include_operations, context, Resource::Group(&described.group_id));
            Group { authorized_operations, ..described }
        }
    };
    HandlerResult::Reply(Response { groups: request.groups.into_iter().map(describe).collect(), ..Response::default() })
}

fn group(state: &State, context: &Context, group_id: String) -> Group {
    if let Err(error_code) = state.check(context, Operation::Describe, Resource::Group(&group_id)) {
        return Group { group_id, error_code, ..Group::default() };
    }
    if !state.is_coordinator(context.node, &group_id) {
        return Group { group_id, error_code: ErrorCode::NOT_COORDINATOR, ..Group::default() };
    }
    let why = match state.groups.get(&group_id) {
        Some(group::Group::Classic(group)) => {
            return Group {
                group_id,
                group_state: group.state.name().to_owned(),
                protocol_type: group.protocol_type.clone().unwrap_or_default(),
                protocol_data: match group.state {
                    ClassicGroupState::Stable => group.protocol.clone().unwrap_or_default(),
                    _ => String::new(),
                },
                members: group.describe(),
                ..Group::default()
            };
        }
        Some(_) => format!("Group {group_id} is not a classic group."),
        None => format!("Group {group_id} not found."),
    };
    let (error_code, error_message) = match context.version {
        6.. => (ErrorCode::GROUP_ID_NOT_FOUND, Some(why)),
        _ => (ErrorCode::NONE, None),
    };
    Group { group_id, group_state: "Dead".to_owned(), error_code, error_message, ..Group::default() }
}
