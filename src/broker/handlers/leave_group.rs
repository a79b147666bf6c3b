//! LeaveGroup v0 to v5: removes members of the classic protocol from a group. From v3 on, a request may name several
//! members, and may name static members by their instance IDs.

use super::defaults::RespondWith;
use crate::api::ErrorCode;
use crate::api::leave_group::{Member, MemberResponse, Request, Response};
use crate::broker::authorizer::{Operation, Resource};
use crate::broker::group::consumer;
use crate::broker::request::{Context, HandlerResult};
use crate::broker::state::State;

pub(super) fn handle(state: &mut State, context: &Context, mut request: Request) -> HandlerResult<Response> {
    if context.version < 3 {
        let member_id = std::mem::take(&mut request.member_id);
        request.members = vec![Member { member_id, ..Member::default() }];
    }
    if let Err(code) = state.check_coordinator(context, Operation::Read, Resource::Group(&request.group_id)) {
        return HandlerResult::Reply(request.response_with(code));
    }
    let State { groups, memory, .. } = state;
    let results = groups.with_classic(memory, &request.group_id, |group, replies| {
        let leave = |m: &Member| group.leave(&m.member_id, m.group_instance_id.as_deref(), replies);
        let results: Vec<_> = request.members.iter().map(leave).collect();
        if results.iter().any(Result::is_ok) {
            group.continue_after_leave(context.clock.now, replies);
        }
        results
    });
    let results = results.or_else(|| {
        let leave =
            |group: &mut consumer::Group, m: &Member| group.classic_leave(&m.member_id, m.group_instance_id.as_deref());
        groups.with_consumer(memory, context.clock.now, &request.group_id, |group| {
            request.members.iter().map(|member| leave(group, member)).collect()
        })
    });
    let results = results.unwrap_or_else(|| vec![Err(ErrorCode::UNKNOWN_MEMBER_ID); request.members.len()]);
    let members = request.members.into_iter().zip(results).map(|(member, result)| MemberResponse {
        member_id: member.member_id,
        group_instance_id: member.group_instance_id,
        error_code: result.err().unwrap_or(ErrorCode::NONE),
    });
    let members: Vec<_> = members.collect();
    let error_code = match (context.version, members.first()) {
        (..3, Some(member)) => member.error_code,
        _ => ErrorCode::NONE,
    };
    HandlerResult::Reply(Response { error_code, members, ..Response::default() })
}
