//! JoinGroup v0 to v9: joins a classic group, or rejoins it in a rebalance. The broker sends the reply when the next
//! generation begins.
//!
//! A classic member that joins a consumer group (KIP-848) gets its response immediately. In v0 the session timeout is
//! also the rebalance timeout. The dev broker does not implement `group.max.size`.

use super::defaults::RespondWith;
use crate::api::ErrorCode;
use crate::api::join_group::{Request, Response};
use crate::broker::authorizer::{Operation, Resource};
use crate::broker::group::classic::Joining;
use crate::broker::group::{self, Group};
use crate::broker::request::{Context, HandlerResult, Wait};
use crate::broker::state::State;

/// Valid session timeouts in milliseconds: Kafka's `group.min.session.timeout.ms` and `group.max.session.timeout.ms`.
const SESSION_TIMEOUTS: std::ops::RangeInclusive<i32> = 6_000..=1_800_000;

pub(super) fn handle(state: &mut State, context: &Context, mut request: Request) -> HandlerResult<Response> {
    if context.version == 0 {
        request.rebalance_timeout_ms = request.session_timeout_ms;
    }
    if let Err(code) = admit(state, context, &request) {
        return HandlerResult::Reply(with_nullable_protocol(context.version, request.response_with(code)));
    }
    let client_id = context.client_id.as_deref().unwrap_or("");
    let joining = Joining {
        now: context.clock.now,
        connection: context.connection,
        client_id,
        new_id: format!("{}-{}", request.group_instance_id.as_deref().unwrap_or(client_id), state.new_member_id()),
        requires_known_member_id: context.version >= 4,
        supports_skipping_assignment: context.version >= 9,
        request: &request,
    };
    let State { groups, memory, topics, .. } = state;
    let is_new = request.member_id.is_empty();
    if !memory.has_room_for(joining.memory_size()) || is_new && !groups.create_classic(memory, &request.group_id) {
        return HandlerResult::Reply(with_nullable_protocol(
            context.version,
            request.response_with(ErrorCode::COORDINATOR_NOT_AVAILABLE),
        ));
    }
    let joined =
        groups.with_consumer(memory, context.clock.now, &request.group_id, |group| group.join(topics, &joining));
    if let Some(response) = joined {
        return HandlerResult::Reply(with_nullable_protocol(context.version, response));
    }
    groups.replies.register(context.connection);
    groups.with_classic(memory, &request.group_id, |group, replies| match is_new {
        true => group.join_new(joining, replies),
        false => group.join_again(joining, replies),
    });
    match groups.replies.take(context.connection) {
        Some(group::GroupReply::Join(response)) => {
            HandlerResult::Reply(with_nullable_protocol(context.version, response))
        }
        _ => HandlerResult::Wait(Wait::Group, None),
    }
}

/// Removes the protocol name from an error response, in versions in which the name is nullable.
pub(super) fn with_nullable_protocol(version: i16, response: Response) -> Response {
    match version >= 7 && response.error_code.is_error() {
        true => Response { protocol_name: None, ..response },
        false => response,
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
        Some(Group::Consumer(group)) if group.is_empty() && !request.member_id.is_empty() => {
            Err(ErrorCode::UNKNOWN_MEMBER_ID)
        }
        Some(Group::Consumer(group)) if !group.is_empty() && !state.groups.mixes_protocols() => {
            Err(ErrorCode::INCONSISTENT_GROUP_PROTOCOL)
        }
        Some(Group::Share(_)) => Err(ErrorCode::INCONSISTENT_GROUP_PROTOCOL),
        None | Some(_) => Ok(()),
    }
}
