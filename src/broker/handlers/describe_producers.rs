//! DescribeProducers v0: returns the producers that a partition leader knows, and the start offsets of their open
//! transactions.

use crate::api::ErrorCode;
use crate::api::describe_producers::{PartitionResponse, ProducerState, Request, Response, TopicResponse};
use crate::broker::authorizer::{Operation, Resource};
use crate::broker::request::{Context, HandlerResult};
use crate::broker::state::State;

pub(super) fn handle(state: &mut State, context: &Context, request: Request) -> HandlerResult<Response> {
    let topics = request.topics.into_iter().map(|topic| TopicResponse {
        partitions: topic.partition_indexes.iter().map(|index| describe(state, context, &topic.name, *index)).collect(),
        name: topic.name,
    });
    HandlerResult::Reply(Response { topics: topics.collect(), ..Response::default() })
}

fn partition_response(partition_index: i32, error_code: ErrorCode) -> PartitionResponse {
    PartitionResponse { partition_index, error_code, ..PartitionResponse::default() }
}

fn describe(state: &State, context: &Context, topic: &str, partition_index: i32) -> PartitionResponse {
    if let Err(code) = state.check(context, Operation::Read, Resource::Topic(topic)) {
        return partition_response(partition_index, code);
    }
    let index = usize::try_from(partition_index).ok();
    let partition = state.topics.get(topic).zip(index).and_then(|(topic, index)| topic.partitions.get(index));
    let Some(partition) = partition else {
        return partition_response(partition_index, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
    };
    if let Err(code) = partition.check_leader(context.node, -1) {
        return partition_response(partition_index, code);
    }
    let active_producers = partition.producers.all().map(|producer| ProducerState {
        producer_id: producer.id,
        producer_epoch: producer.epoch.into(),
        last_sequence: producer.last_sequence,
        last_timestamp: producer.last_timestamp,
        coordinator_epoch: producer.coordinator_epoch,
        current_txn_start_offset: producer.first_offset,
    });
    PartitionResponse {
        active_producers: active_producers.collect(),
        ..partition_response(partition_index, ErrorCode::NONE)
    }
}
