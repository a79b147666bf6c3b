//! JoinGroup v0 to v9: enters a classic group or stays in it; answered when the next generation begins.
//!
//! In v0 the rebalance may take as long as a session. Left out: `group.max.size`, and members of the classic protocol
//! in a group of KIP-848 (INCONSISTENT_GROUP_PROTOCOL, as in Kafka with its online migration switched off).

use super::{Answer, Context, Waiting};
use crate::api::ErrorCode;
use crate::api::join_group::{Request, Response};
use crate::broker::authorizer::{Operation, Resource};
use crate::broker::group::classic::Joining;
use crate::broker::group::{self, Group};
use crate::broker::state::State;

/// Milliseconds a session may last: Kafka's `group.min.session.timeout.ms` and `group.max.session.timeout.ms`.
const SESSION_TIMEOUTS: std::ops::RangeInclusive<i32> = 6_000..=1_800_000;

pub(super) fn handle(state: &mut State, context: &Context, mut request: Request) -> Answer<Response> {
    if context.version == 0 {
        request.rebalance_timeout_ms = request.session_timeout_ms;
    }
    if let Err(code) = admit(state, context, &request) {
        return Answer::Reply(in_form(context.version, refuse(request, code)));
    }
    let client_id = context.client_id.as_deref().unwrap_or("");
    let joining = Joining {
        now: context.clock.now,
        connection: context.connection,
        client_id,
        new_id: format!("{}-{}", request.group_instance_id.as_deref().unwrap_or(client_id), state.new_member_id()),
        id_first: context.version >= 4,
        may_skip: context.version >= 9,
        request: &request,
    };
    let State { groups, memory, .. } = state;
    let is_new = request.member_id.is_empty();
    if !memory.has(joining.cost()) || is_new && !groups.create_classic(memory, &request.group_id) {
        return Answer::Reply(in_form(context.version, refuse(request, ErrorCode::COORDINATOR_NOT_AVAILABLE)));
    }
    groups.answers.expect(context.connection);
    groups.with_classic(memory, &request.group_id, |group, answers| match is_new {
        true => group.join_new(joining, answers),
        false => group.join_again(joining, answers),
    });
    match groups.answers.take(context.connection) {
        Some(group::Answer::Join(answer)) => Answer::Reply(in_form(context.version, answer)),
        _ => Answer::Park(Waiting::Group, None),
    }
}

pub(super) fn refuse(request: Request, error_code: ErrorCode) -> Response {
    Response { error_code, member_id: request.member_id, ..Response::default() }
}

/// A refusal names no protocol, which only newer versions can say.
pub(super) fn in_form(version: i16, answer: Response) -> Response {
    match version >= 7 && answer.error_code.is_error() {
        true => Response { protocol_name: None, ..answer },
        false => answer,
    }
}

fn admit(state: &mut State, context: &Context, request: &Request) -> Result<(), ErrorCode> {
    state.check(context, Operation::Read, Resource::Group(&request.group_id))?;
    if request.group_id.is_empty() {
        return Err(ErrorCode::INVALID_GROUP_ID);
    }
    if !SESSION_TIMEOUTS.contains(&request.session_timeout_ms) {
        return Err(ErrorCode::INVALID_SESSION_TIMEOUT);
    }
    if !state.is_coordinator(context.node, &request.group_id) {
        return Err(ErrorCode::NOT_COORDINATOR);
    }
    match state.groups.get(&request.group_id) {
        None if !request.member_id.is_empty() => Err(ErrorCode::UNKNOWN_MEMBER_ID),
        Some(Group::Consumer(group)) if !group.is_empty() => Err(ErrorCode::INCONSISTENT_GROUP_PROTOCOL),
        Some(Group::Consumer(_)) if !request.member_id.is_empty() => Err(ErrorCode::UNKNOWN_MEMBER_ID),
        Some(Group::Share(_)) => Err(ErrorCode::INCONSISTENT_GROUP_PROTOCOL),
        None | Some(_) => Ok(()),
    }
}
