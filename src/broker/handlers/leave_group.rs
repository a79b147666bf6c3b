//! LeaveGroup v0 to v5: takes members out of a classic group; several from v3 on, static ones by instance id too.

use super::{Answer, Context};
use crate::api::ErrorCode;
use crate::api::leave_group::{Member, MemberResponse, Request, Response};
use crate::broker::authorizer::{Operation, Resource};
use crate::broker::state::State;

pub(super) fn handle(state: &mut State, context: &Context, mut request: Request) -> Answer<Response> {
    if context.version < 3 {
        let member_id = std::mem::take(&mut request.member_id);
        request.members = vec![Member { member_id, ..Member::default() }];
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
    let left = groups.with_classic(memory, &request.group_id, |group, answers| {
        let leave = |m: &Member| group.leave(&m.member_id, m.group_instance_id.as_deref(), answers);
        let left: Vec<_> = request.members.iter().map(leave).collect();
        if left.iter().any(Result::is_ok) {
            group.left(context.clock.now, answers);
        }
        left
    });
    let left = left.unwrap_or_else(|| vec![Err(ErrorCode::UNKNOWN_MEMBER_ID); request.members.len()]);
    let members = request.members.into_iter().zip(left).map(|(member, left)| MemberResponse {
        member_id: member.member_id,
        group_instance_id: member.group_instance_id,
        error_code: left.err().unwrap_or(ErrorCode::NONE),
    });
    let members: Vec<_> = members.collect();
    let error_code = match (context.version, members.first()) {
        (..3, Some(member)) => member.error_code,
        _ => ErrorCode::NONE,
    };
    Answer::Reply(Response { error_code, members, ..Response::default() })
}

pub(super) fn refuse(_: Request, error_code: ErrorCode) -> Response {
    Response { error_code, ..Response::default() }
}
