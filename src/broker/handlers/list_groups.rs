//! ListGroups v0 to v5: lists the groups that a node coordinates. The filters for states (v4) and types (v5) ignore
//! case.

use crate::api::list_groups::{Group, Request, Response};
use crate::broker::authorizer::{Operation, Resource};
use crate::broker::request::{Context, HandlerResult};
use crate::broker::state::State;

pub(super) fn handle(state: &mut State, context: &Context, request: Request) -> HandlerResult<Response> {
    let matches = |filter: &[String], name: &str| {
        filter.is_empty() || filter.iter().any(|filter_name| filter_name.trim().eq_ignore_ascii_case(name))
    };
    let may_describe_all = state.allows(context, Operation::Describe, Resource::Cluster);
    let groups = state.groups.all().filter(|(id, group)| {
        (may_describe_all || state.allows(context, Operation::Describe, Resource::Group(id)))
            && state.is_coordinator(context.node, id)
            && matches(&request.states_filter, group.state())
            && matches(&request.types_filter, group.kind())
    });
    let list = |(id, group): (&str, &crate::broker::group::Group)| Group {
        group_id: id.to_owned(),
        protocol_type: group.protocol_type().to_owned(),
        group_state: group.state().to_owned(),
        group_type: group.kind().to_owned(),
    };
    HandlerResult::Reply(Response { groups: groups.map(list).collect(), ..Response::default() })
}
