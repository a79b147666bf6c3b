//! ShareGroupHeartbeat v0 and v1: a member joins, stays in or leaves a share group (KIP-932). v0 is the early access
//! version of Kafka 4.0, which Kafka 4.4 no longer serves.

use crate::api::ErrorCode;
use crate::api::share_group_heartbeat::{JOIN, LEAVE, Request, Response};
use crate::broker::authorizer::{Operation, Resource};
use crate::broker::group::share::Heartbeat;
use crate::broker::request::{ApiError, Context, HandlerResult};
use crate::broker::state::State;
use crate::broker::topics::SHARES;

pub(super) fn handle(state: &mut State, context: &Context, request: Request) -> HandlerResult<Response> {
    HandlerResult::Reply(heartbeat(state, context, &request).unwrap_or_else(|ApiError { code, message }| Response {
        error_code: code,
        error_message: message,
        ..Response::default()
    }))
}

fn heartbeat(state: &mut State, context: &Context, request: &Request) -> Result<Response, ApiError> {
    state.check(context, Operation::Read, Resource::Group(&request.group_id))?;
    for name in request.subscribed_topic_names.iter().flatten() {
        state.check(context, Operation::Describe, Resource::Topic(name))?;
    }
    let invalid = |why: &str| Err(ApiError::new(ErrorCode::INVALID_REQUEST, why));
    let group_id = request.group_id.as_str();
    if group_id.trim().is_empty() {
        return invalid("GroupId can't be empty.");
    }
    if request.rack_id.as_ref().is_some_and(String::is_empty) {
        return invalid("RackId can't be empty.");
    }
    if request.member_id.is_empty() {
        return invalid("MemberId can't be empty.");
    }
    match request.member_epoch {
        JOIN if request.subscribed_topic_names.as_ref().is_none_or(Vec::is_empty) => {
            return invalid("SubscribedTopicNames must be set in first request.");
        }
        JOIN.. | LEAVE => {}
        _ => return invalid("MemberEpoch is invalid."),
    }
    if !state.is_coordinator(context.node, group_id) {
        return Err(ErrorCode::NOT_COORDINATOR.into());
    }
    let names = request.subscribed_topic_names.iter().flatten().map(|name| name.len() + 64);
    let client_id = context.client_id.as_deref().unwrap_or("");
    let memory_size = 512 + request.member_id.len() + client_id.len() + names.sum::<usize>();
    state.create_internal(SHARES);
    let State { groups, memory, topics, .. } = state;
    let joins = request.member_epoch == JOIN;
    if !memory.has_room_for(memory_size) || joins && !groups.create_share(memory, group_id) {
        return Err(ErrorCode::COORDINATOR_NOT_AVAILABLE.into());
    }
    let heartbeat = Heartbeat { now: context.clock.now, configs: groups.configs(group_id), client_id, request };
    let done = groups.with_share(memory, group_id, |group| group.heartbeat(topics, heartbeat));
    let done = done.ok_or_else(|| {
        let why = match groups.get(group_id) {
            Some(_) => format!("Group {group_id} is not a share group."),
            None => format!("Share group {group_id} not found."),
        };
        ApiError::new(ErrorCode::GROUP_ID_NOT_FOUND, why)
    })?;
    done.map_err(|(code, why)| ApiError::new(code, why))
}
