//! ShareGroupDescribe v0 and v1: describes share groups and their members.

use crate::api::ErrorCode;
use crate::api::share_group_describe::{Group, Member, Request, Response};
use crate::broker::authorizer::{Operation, Resource};
use crate::broker::group;
use crate::broker::request::{ApiError, Context, HandlerResult};
use crate::broker::state::State;

pub(super) fn handle(state: &mut State, context: &Context, request: Request) -> HandlerResult<Response> {
    let include_operations = request.include_authorized_operations;
    let describe = |group_id: String| match describe(state, context, &group_id) {
        Ok(found) => {
            let authorized_operations = state.operations_if(include_operations, context, Resource::Group(&group_id));
            Group { group_id, authorized_operations, ..found }
        }
        Err(ApiError { code, message }) => {
            Group { group_id, error_code: code, error_message: message, ..Group::default() }
        }
    };
    HandlerResult::Reply(Response {
        groups: request.group_ids.into_iter().map(describe).collect(),
        ..Response::default()
    })
}

fn describe(state: &State, context: &Context, group_id: &str) -> Result<Group, ApiError> {
    let group = state.group_to_describe(context, group_id, "share", |group| match group {
        group::Group::Share(group) => Some(group),
        _ => None,
    })?;
    let members = group.describe(&state.topics);
    let may_describe = |topic: &String| state.allows(context, Operation::Describe, Resource::Topic(topic));
    if !members.iter().flat_map(topics).all(may_describe) {
        let why = "The group has described topic(s) that the client is not authorized to describe.";
        return Err(ApiError::new(ErrorCode::TOPIC_AUTHORIZATION_FAILED, why));
    }
    Ok(Group {
        group_state: group.state().to_owned(),
        group_epoch: group.epoch,
        assignment_epoch: group.assignment_epoch,
        assignor_name: "simple".to_owned(),
        members,
        ..Group::default()
    })
}

/// Returns the topics that a member reads or owns.
fn topics(member: &Member) -> impl Iterator<Item = &String> {
    member.subscribed_topic_names.iter().chain(member.assignment.topic_partitions.iter().map(|t| &t.topic_name))
}
