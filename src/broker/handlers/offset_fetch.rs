//! OffsetFetch v0 to v10: returns the committed offsets of a group, or from v8 on of several groups. A partition
//! without a committed offset gets the offset -1.
//!
//! A null topic list (v2) requests every partition with a committed offset. With `require_stable` (v7), a partition
//! whose offset is part of an open transaction gets the error UNSTABLE_OFFSET_COMMIT. A request that names a member of
//! a KIP-848 group (v9) must contain the member's current epoch. As in Kafka, v0 returns UNKNOWN_TOPIC_OR_PARTITION for
//! a partition without a committed offset.

use super::defaults::RespondWith;
use crate::api::ErrorCode;
use crate::api::offset_fetch::{Group, GroupResponse, GroupTopicResponse, PartitionResponse, Request, Response};
use crate::api::offset_fetch::{Topic, TopicResponse};
use crate::broker;
use crate::broker::authorizer::{Operation, Resource};
use crate::broker::group::offsets::Committed;
use crate::broker::request::{Context, HandlerResult};
use crate::broker::state::State;

pub(super) fn handle(state: &mut State, context: &Context, request: Request) -> HandlerResult<Response> {
    if context.version >= 8 {
        let stable = request.require_stable;
        let groups = request.groups.into_iter().map(|group| fetch_group(state, context, group, stable)).collect();
        return HandlerResult::Reply(Response { groups, ..Response::default() });
    }
    if let Err(code) = state.check(context, Operation::Describe, Resource::Group(&request.group_id)) {
        return HandlerResult::Reply(request.response_with(code));
    }
    if !state.is_coordinator(context.node, &request.group_id) {
        return HandlerResult::Reply(request.response_with(ErrorCode::NOT_COORDINATOR));
    }
    let reader = OffsetReader { state, context, group: &request.group_id, stable: request.require_stable };
    let topics = match request.topics {
        None => reader.all(),
        Some(topics) => topics
            .into_iter()
            .map(|topic| {
                let fetch = |index: &i32| reader.fetch(&topic.name, *index);
                let partitions = topic.partition_indexes.iter().map(fetch).collect();
                TopicResponse { name: topic.name, partitions }
            })
            .collect(),
    };
    HandlerResult::Reply(Response { topics, ..Response::default() })
}

/// The response has the error code in each partition. From v2 on, the response also has a top-level error code, and
/// from v8 on, an error code in each group.
impl RespondWith for Request {
    fn response_with(self, error_code: ErrorCode) -> Response {
        let groups = self.groups.into_iter().map(|Group { group_id, .. }| GroupResponse {
            group_id,
            error_code,
            ..GroupResponse::default()
        });
        let groups = groups.collect();
        let topic_response = |Topic { name, partition_indexes }| TopicResponse {
            name,
            partitions: partition_indexes.into_iter().map(|index| absent(index, error_code)).collect(),
        };
        let topics = self.topics.unwrap_or_default().into_iter().map(topic_response).collect();
        Response { topics, error_code, groups, ..Response::default() }
    }
}

fn fetch_group(state: &State, context: &Context, group: Group, stable: bool) -> GroupResponse {
    let group_id = group.group_id;
    if let Err(error_code) = state.check(context, Operation::Describe, Resource::Group(&group_id)) {
        return GroupResponse { group_id, error_code, ..GroupResponse::default() };
    }
    if !state.is_coordinator(context.node, &group_id) {
        return GroupResponse { group_id, error_code: ErrorCode::NOT_COORDINATOR, ..GroupResponse::default() };
    }
    if let Some(broker::group::Group::Consumer(consumers)) = state.groups.get(&group_id)
        && (group.member_id.is_some() || group.member_epoch >= 0)
        && let Err(error_code) = consumers.admit(group.member_id.as_deref().unwrap_or_default(), group.member_epoch)
    {
        return GroupResponse { group_id, error_code, ..GroupResponse::default() };
    }
    let reader = OffsetReader { state, context, group: &group_id, stable };
    let topics = match group.topics {
        None => reader
            .all()
            .into_iter()
            .map(|TopicResponse { name, partitions }| GroupTopicResponse {
                topic_id: state.topics.get(&name).map_or_else(Default::default, |t| t.id),
                name,
                partitions,
            })
            .collect(),
        Some(topics) => topics
            .into_iter()
            .map(|topic| {
                let name = match context.version {
                    10.. => state.topics.name_of(topic.topic_id),
                    _ => Some(topic.name.as_str()),
                };
                let fetch = |index: &i32| match name {
                    Some(name) => reader.fetch(name, *index),
                    None => absent(*index, ErrorCode::UNKNOWN_TOPIC_ID),
                };
                let partitions = topic.partition_indexes.iter().map(fetch).collect();
                GroupTopicResponse { name: topic.name, topic_id: topic.topic_id, partitions }
            })
            .collect(),
    };
    GroupResponse { group_id, topics, error_code: ErrorCode::NONE }
}

/// The member that fetches offsets, and the requested topics.
struct OffsetReader<'a> {
    state: &'a State,
    context: &'a Context,
    group: &'a str,
    stable: bool,
}

impl OffsetReader<'_> {
    fn fetch(&self, topic: &str, index: i32) -> PartitionResponse {
        if let Err(code) = self.may_describe(topic) {
            return absent(index, code);
        }
        if self.is_unstable(topic, index) {
            return absent(index, ErrorCode::UNSTABLE_OFFSET_COMMIT);
        }
        match self.state.groups.offsets.committed(self.group, topic, index) {
            Some(committed) => present(index, committed),
            None if self.context.version == 0 => absent(index, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
            None => absent(index, ErrorCode::NONE),
        }
    }

    fn all(&self) -> Vec<TopicResponse> {
        let all = self.state.groups.offsets.all(self.group).filter(|(topic, _)| self.may_describe(topic).is_ok());
        let topics = all.map(|(topic, partitions)| TopicResponse {
            name: topic.to_owned(),
            partitions: partitions.map(|(index, _)| self.fetch(topic, index)).collect(),
        });
        topics.collect()
    }

    fn may_describe(&self, topic: &str) -> Result<(), ErrorCode> {
        self.state.check(self.context, Operation::Describe, Resource::Topic(topic))
    }

    fn is_unstable(&self, topic: &str, index: i32) -> bool {
        self.stable && self.state.groups.offsets.is_unstable(self.group, topic, index)
    }
}

fn present(partition_index: i32, committed: &Committed) -> PartitionResponse {
    PartitionResponse {
        partition_index,
        committed_offset: committed.offset,
        committed_leader_epoch: committed.leader_epoch,
        metadata: Some(committed.metadata.clone()),
        error_code: ErrorCode::NONE,
    }
}

fn absent(partition_index: i32, error_code: ErrorCode) -> PartitionResponse {
    PartitionResponse { partition_index, committed_offset: -1, error_code, ..PartitionResponse::default() }
}
