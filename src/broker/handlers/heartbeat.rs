//! Heartbeat v0 to v4: keeps a member of the classic protocol in its group. The error code of the response tells the
//! member whether the group rebalances.

use super::defaults::RespondWith;
use crate::api::ErrorCode;
use crate::api::heartbeat::{Request, Response};
use crate::broker::authorizer::{Operation, Resource};
use crate::broker::group::MemberIdentity;
use crate::broker::request::{Context, HandlerResult};
use crate::broker::state::State;

pub(super) fn handle(state: &mut State, context: &Context, request: Request) -> HandlerResult<Response> {
    let group_id = request.group_id.as_str();
    let allowed = state.check_coordinator(context, Operation::Read, Resource::Group(group_id));
    let result = allowed.and_then(|()| {
        let identity = MemberIdentity {
            member_id: &request.member_id,
            instance_id: request.group_instance_id.as_deref(),
            generation: request.generation_id,
        };
        let State { groups, memory, .. } = state;
        let now = context.clock.now;
        let result = groups.with_classic(memory, group_id, |group, _| group.heartbeat(now, identity));
        let result = result
            .or_else(|| groups.with_consumer(memory, now, group_id, |group| group.classic_heartbeat(now, identity)));
        result.unwrap_or(Err(ErrorCode::UNKNOWN_MEMBER_ID))
    });
    HandlerResult::Reply(request.response_with(result.err().unwrap_or(ErrorCode::NONE)))
}
