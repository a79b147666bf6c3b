//! ConsumerGroupDescribe v0 and v1: describes KIP-848 groups and their members.

use crate::api::ErrorCode;
use crate::api::consumer_group_describe::{Group, Member, Request, Response};
use crate::broker::authorizer::{Operation, Resource};
use crate::broker::group;
use crate::broker::request::{Context, HandlerResult};
use crate::broker::state::State;

pub(super) fn handle(state: &mut State, context: &Context, request: Request) -> HandlerResult<Response> {
    let may_describe = |topic: &String| state.allows(context, Operation::Describe, Resource::Topic(topic));
    let wanted = request.include_authorized_operations;
    let describe = |group_id: String| match group(state, context, group_id) {
        found if found.error_code.is_error() => found,
        found if !found.members.iter().flat_map(topics).all(may_describe) => {
            let why = "The group has described topic(s) that the client is not authorized to describe.";
            failed(found.group_id, ErrorCode::TOPIC_AUTHORIZATION_FAILED, Some(why.to_owned()))
        }
        found => {
            let authorized_operations = state.operations_if(wanted, context, Resource::Group(&found.group_id));
            Group { authorized_operations, ..found }
        }
    };
    HandlerResult::Reply(Response {
        groups: request.group_ids.into_iter().map(describe).collect(),
        ..Response::default()
    })
}

/// Returns the topics that a member reads or owns.
fn topics(member: &Member) -> impl Iterator<Item = &String> {
    member.subscribed_topic_names.iter().chain(member.assignment.topic_partitions.iter().map(|t| &t.topic_name))
}

fn failed(group_id: String, error_code: ErrorCode, error_message: Option<String>) -> Group {
    Group { group_id, error_code, error_message, ..Group::default() }
}

fn group(state: &State, context: &Context, group_id: String) -> Group {
    if let Err(error_code) = state.check(context, Operation::Describe, Resource::Group(&group_id)) {
        return failed(group_id, error_code, None);
    }
    if group_id.is_empty() {
        return failed(group_id, ErrorCode::INVALID_GROUP_ID, None);
    }
    if !state.is_coordinator(context.node, &group_id) {
        return failed(group_id, ErrorCode::NOT_COORDINATOR, None);
    }
    match state.groups.get(&group_id) {
        Some(group::Group::Consumer(group)) => Group {
            group_id,
            group_state: group.state().to_owned(),
            group_epoch: group.epoch,
            assignment_epoch: group.assignment_epoch,
            assignor_name: group.assignor().name().to_owned(),
            members: group.describe(&state.topics),
            ..Group::default()
        },
        Some(_) => {
            let why = format!("Group {group_id} is not a consumer group.");
            failed(group_id, ErrorCode::GROUP_ID_NOT_FOUND, Some(why))
        }
        None => {
            let why = format!("Group {group_id} not found.");
            failed(group_id, ErrorCode::GROUP_ID_NOT_FOUND, Some(why))
        }
    }
}
