//! Heartbeat v0 to v4: keeps a member of the classic protocol in its group. The response reports a rebalance.

use super::defaults::Refuse;
use crate::api::ErrorCode;
use crate::api::heartbeat::{Request, Response};
use crate::broker::authorizer::{Operation, Resource};
use crate::broker::group::Committer;
use crate::broker::request::{Context, HandlerResult};
use crate::broker::state::State;

pub(super) fn handle(state: &mut State, context: &Context, request: Request) -> HandlerResult<Response> {
    let group_id = request.group_id.as_str();
    let allowed = state.check(context, Operation::Read, Resource::Group(group_id));
    let alive = if allowed.is_err() {
        allowed
    } else if group_id.is_empty() {
        Err(ErrorCode::INVALID_GROUP_ID)
    } else if !state.is_coordinator(context.node, group_id) {
        Err(ErrorCode::NOT_COORDINATOR)
    } else {
        let committer = Committer {
            member: &request.member_id,
            instance: request.group_instance_id.as_deref(),
            generation: request.generation_id,
        };
        let State { groups, memory, .. } = state;
        let now = context.clock.now;
        let alive = groups.with_classic(memory, group_id, |group, _| group.heartbeat(now, committer));
        let alive = alive
            .or_else(|| groups.with_consumer(memory, now, group_id, |group| group.classic_heartbeat(now, committer)));
        alive.unwrap_or(Err(ErrorCode::UNKNOWN_MEMBER_ID))
    };
    HandlerResult::Reply(request.refuse(alive.err().unwrap_or(ErrorCode::NONE)))
}
