//! ConsumerGroupHeartbeat v0 and v1: a member joins, stays in or leaves a KIP-848 group.
//!
//! The dev broker is faster than Kafka in two ways. It finds the topics that match a regular expression immediately,
//! whereas Kafka finds them a little later. It also computes each assignment immediately, whereas Kafka waits at least
//! a second between assignments of a group (`group.consumer.assignment.interval.ms`). The dev broker does not implement
//! `group.consumer.max.size`.

use crate::api::ErrorCode;
use crate::api::consumer_group_heartbeat::{JOIN, LEAVE, LEAVE_STATIC, Request, Response};
use crate::broker::authorizer::{Operation, Resource};
use crate::broker::group::consumer::Heartbeat;
use crate::broker::group::{Assignor, Group};
use crate::broker::regex::FullMatchRegex;
use crate::broker::request::{ApiError, Context, HandlerResult};
use crate::broker::state::State;

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
    check(context.version, request)?;
    let group_id = request.group_id.as_str();
    if !state.is_coordinator(context.node, group_id) {
        return Err(ErrorCode::NOT_COORDINATOR.into());
    }
    let new_id = match request.member_id.is_empty() {
        true => Some(state.new_member_id()),
        false => None,
    };
    let pattern = request.subscribed_topic_regex.as_deref().filter(|text| !text.is_empty());
    let heartbeat = Heartbeat {
        now: context.clock.now,
        configs: state.groups.configs(group_id),
        client_id: context.client_id.as_deref().unwrap_or(""),
        member_id: new_id.as_deref().unwrap_or(&request.member_id),
        pattern: pattern.map(parse).transpose()?,
        assignor: request.server_assignor.as_deref().and_then(Assignor::by_name),
        request,
    };
    let State { groups, memory, topics, .. } = state;
    let (now, joins) = (context.clock.now, request.member_epoch == JOIN);
    if !memory.has_room_for(heartbeat.memory_size()) || joins && !groups.create_consumer(memory, group_id) {
        return Err(ErrorCode::COORDINATOR_NOT_AVAILABLE.into());
    }
    if joins {
        let upgraded = groups.upgrade(memory, now, group_id, topics);
        upgraded.map_err(|why| ApiError::new(ErrorCode::GROUP_ID_NOT_FOUND, why))?;
    }
    let done = groups.with_consumer(memory, now, group_id, |group| match request.member_epoch {
        LEAVE | LEAVE_STATIC => group.leave(request),
        _ => group.heartbeat(topics, heartbeat),
    });
    let done = done.ok_or_else(|| {
        let why = match groups.get(group_id) {
            Some(Group::Classic(_) | Group::Share(_)) => format!("Group {group_id} is not a consumer group."),
            _ => format!("Consumer group {group_id} not found."),
        };
        ApiError::new(ErrorCode::GROUP_ID_NOT_FOUND, why)
    })?;
    done.map_err(|(code, why)| ApiError::new(code, why))
}

fn parse(pattern: &str) -> Result<FullMatchRegex, ApiError> {
    FullMatchRegex::parse(pattern).map_err(|why| {
        let why = format!("SubscribedTopicRegex `{pattern}` is not a valid regular expression: {why}.");
        ApiError::new(ErrorCode::INVALID_REGULAR_EXPRESSION, why)
    })
}

/// Checks that the fields of a request are consistent with each other.
fn check(version: i16, request: &Request) -> Result<(), ApiError> {
    let invalid = |why: &str| Err(ApiError::new(ErrorCode::INVALID_REQUEST, why));
    let is_empty = |text: &Option<String>| text.as_ref().is_some_and(String::is_empty);
    if request.group_id.trim().is_empty() {
        return invalid("GroupId can't be empty.");
    }
    if is_empty(&request.instance_id) {
        return invalid("InstanceId can't be empty.");
    }
    if is_empty(&request.rack_id) {
        return invalid("RackId can't be empty.");
    }
    if request.member_id.is_empty() && (version >= 1 || request.member_epoch != JOIN) {
        return invalid("MemberId can't be empty.");
    }
    match request.member_epoch {
        JOIN => {
            if request.rebalance_timeout_ms == -1 {
                return invalid("RebalanceTimeoutMs must be provided in first request.");
            }
            if request.topic_partitions.as_ref().is_none_or(|owned| !owned.is_empty()) {
                return invalid("TopicPartitions must be empty when (re-)joining.");
            }
            if request.subscribed_topic_names.is_none() && request.subscribed_topic_regex.is_none() {
                return invalid(
                    "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
                );
            }
        }
        LEAVE => {}
        LEAVE_STATIC if request.instance_id.is_none() => return invalid("InstanceId can't be null."),
        ..LEAVE_STATIC => return invalid("MemberEpoch is invalid."),
        _ => {}
    }
    match request.server_assignor.as_deref() {
        Some(name) if Assignor::by_name(name).is_none() => {
            let why = format!("ServerAssignor {name} is not supported. Supported assignors: uniform, range.");
            Err(ApiError::new(ErrorCode::UNSUPPORTED_ASSIGNOR, why))
        }
        _ => Ok(()),
    }
}
