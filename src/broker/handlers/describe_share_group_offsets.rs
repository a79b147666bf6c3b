//! DescribeShareGroupOffsets v0 and v1: returns the start offsets of share groups. A partition that no member has
//! fetched has the offset -1.
//!
//! As in Kafka, an unknown group is not an error. The response for an unknown group has no partitions. The lag does not
//! include acknowledged records above the start offset.

use crate::api::ErrorCode;
use crate::api::describe_share_group_offsets::{Group, GroupResponse, PartitionResponse, Request, Response};
use crate::api::describe_share_group_offsets::{Topic, TopicResponse};
use crate::broker::authorizer::{Operation, Resource};
use crate::broker::group;
use crate::broker::group::share::Progress;
use crate::broker::ids::TopicIdPartition;
use crate::broker::request::{Context, HandlerResult};
use crate::broker::state::State;
use crate::wire::Uuid;

pub(super) fn handle(state: &mut State, context: &Context, request: Request) -> HandlerResult<Response> {
    let groups = request.groups.into_iter().map(|group| describe(state, context, group)).collect();
    HandlerResult::Reply(Response { groups, ..Response::default() })
}

fn group_response(group_id: String, error_code: ErrorCode) -> GroupResponse {
    GroupResponse { group_id, topics: Vec::new(), error_code, error_message: None }
}

fn describe(state: &State, context: &Context, Group { group_id, topics }: Group) -> GroupResponse {
    if let Err(code) = state.check(context, Operation::Describe, Resource::Group(&group_id)) {
        return group_response(group_id, code);
    }
    if !state.is_coordinator(context.node, &group_id) {
        return group_response(group_id, ErrorCode::NOT_COORDINATOR);
    }
    let group = match state.groups.get(&group_id) {
        Some(group::Group::Share(group)) => Some(group),
        _ => None,
    };
    let all = || {
        let partitions = group.into_iter().flat_map(group::share::Group::partitions);
        let topics = partitions.filter_map(|(id, partitions)| {
            let topic_name = state.topics.name_of(id)?.to_owned();
            let allowed = state.allows(context, Operation::Describe, Resource::Topic(&topic_name));
            allowed.then_some(Topic { topic_name, partitions: partitions.into_iter().collect() })
        });
        topics.collect::<Vec<_>>()
    };
    let describe_topic = |topic: Topic| {
        let allowed = state.check(context, Operation::Describe, Resource::Topic(&topic.topic_name));
        let existing_topic = state.topics.get(&topic.topic_name);
        let topic_id = existing_topic.filter(|_| allowed.is_ok()).map_or(Uuid::ZERO, |t| t.id);
        let partitions = topic.partitions.into_iter().map(|partition_index| {
            let empty = PartitionResponse { partition_index, start_offset: -1, ..PartitionResponse::default() };
            if let Err(error_code) = allowed {
                return PartitionResponse { error_code, ..empty };
            }
            let index = usize::try_from(partition_index).ok();
            let partition = existing_topic.zip(index).and_then(|(t, index)| t.partitions.get(index));
            let progress =
                group.and_then(|group| group.progress(TopicIdPartition { topic_id, partition: partition_index }));
            match progress.zip(partition) {
                Some((Progress { start, done }, partition)) => PartitionResponse {
                    start_offset: start,
                    lag: partition.log.end_offset().saturating_sub(start).saturating_sub(done),
                    ..empty
                },
                None => empty,
            }
        });
        TopicResponse { topic_id, partitions: partitions.collect(), topic_name: topic.topic_name }
    };
    let topics = topics.unwrap_or_else(all).into_iter().map(describe_topic).collect();
    GroupResponse { topics, ..group_response(group_id, ErrorCode::NONE) }
}
