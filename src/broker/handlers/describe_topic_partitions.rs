//! DescribeTopicPartitions v0: describes topics by name, in pages. All replicas on running nodes are in sync, so the
//! list of eligible leaders that are not in sync is empty.

use crate::api::ErrorCode;
use crate::api::describe_topic_partitions::{Cursor, PartitionResponse, Request, Response, TopicResponse};
use crate::broker::authorizer::{Operation, Resource};
use crate::broker::request::{Context, HandlerResult};
use crate::broker::state::State;
use crate::broker::topics::{is_internal, valid_name};
use std::collections::BTreeSet;

/// Maximum partitions of a page: Kafka's `max.request.partition.size.limit`.
const MAX_PAGE: usize = 2000;

pub(super) fn handle(state: &mut State, context: &Context, request: Request) -> HandlerResult<Response> {
    let may_describe = |name: &str| state.allows(context, Operation::Describe, Resource::Topic(name));
    let all = request.topics.is_empty();
    let mut names: BTreeSet<String> = match all {
        true => state.topics.names().filter(|name| may_describe(name)).map(str::to_owned).collect(),
        false => request.topics.into_iter().map(|t| t.name).collect(),
    };
    let mut cursor_partition = 0;
    if let Some(cursor) = request.cursor {
        names.retain(|name| *name >= cursor.topic_name);
        if names.first() == Some(&cursor.topic_name) {
            cursor_partition = usize::try_from(cursor.partition_index).unwrap_or(0);
        }
    }
    let mut remaining_partitions = usize::try_from(request.response_partition_limit).unwrap_or(0).clamp(1, MAX_PAGE);
    let mut response = Response::default();
    for name in names {
        if !may_describe(&name) {
            response.topics.push(topic_response(name, ErrorCode::TOPIC_AUTHORIZATION_FAILED));
            continue;
        }
        let Some(topic) = state.topics.get(&name) else {
            let is_valid = valid_name(&name).is_ok();
            let unknown = ErrorCode::UNKNOWN_TOPIC_OR_PARTITION;
            response
                .topics
                .push(topic_response(name, if is_valid { unknown } else { ErrorCode::INVALID_TOPIC_EXCEPTION }));
            continue;
        };
        let start_partition = std::mem::take(&mut cursor_partition);
        if remaining_partitions == 0 {
            response.next_cursor = Some(Cursor { topic_name: name, partition_index: 0 });
            break;
        }
        let partitions = topic.partitions.iter().zip(0..).skip(start_partition).take(remaining_partitions).map(
            |(p, partition_index)| PartitionResponse {
                error_code: if p.leader < 0 { ErrorCode::LEADER_NOT_AVAILABLE } else { ErrorCode::NONE },
                partition_index,
                leader_id: p.leader,
                leader_epoch: p.leader_epoch,
                replica_nodes: p.replicas.clone(),
                isr_nodes: state.in_sync(&p.replicas),
                eligible_leader_replicas: Some(Vec::new()),
                last_known_elr: Some(Vec::new()),
                offline_replicas: p.replicas.iter().filter(|id| !state.is_live(**id)).copied().collect(),
            },
        );
        let partitions: Vec<_> = partitions.collect();
        remaining_partitions -= partitions.len();
        let (described, next) =
            (start_partition + partitions.len(), i32::try_from(start_partition + partitions.len()).unwrap_or(i32::MAX));
        let is_whole = described >= topic.partitions.len();
        response.topics.push(TopicResponse {
            topic_id: topic.id,
            is_internal: is_internal(&name),
            partitions,
            topic_authorized_operations: state.operations(context, Resource::Topic(&name)),
            ..topic_response(name.clone(), ErrorCode::NONE)
        });
        if !is_whole {
            response.next_cursor = Some(Cursor { topic_name: name, partition_index: next });
            break;
        }
    }
    HandlerResult::Reply(response)
}

fn topic_response(name: String, error_code: ErrorCode) -> TopicResponse {
    TopicResponse { error_code, name: Some(name), ..TopicResponse::default() }
}
