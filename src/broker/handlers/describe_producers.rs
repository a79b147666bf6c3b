//! DescribeProducers v0: the producers a partition's leader remembers, and where their open transactions start.

use super::{Answer, Context};
use crate::api::ErrorCode;
use crate::api::describe_producers::{PartitionResponse, ProducerState, Request, Response, TopicResponse};
use crate::broker::state::State;

pub(super) fn handle(state: &mut State, context: &Context, request: Request) -> Answer<Response> {
    let topics = request.topics.into_iter().map(|topic| TopicResponse {
        partitions: topic.partition_indexes.iter().map(|index| describe(state, context, &topic.name, *index)).collect(),
        name: topic.name,
    });
    Answer::Reply(Response { topics: topics.collect(), ..Response::default() })
}

fn describe(state: &State, context: &Context, topic: &str, partition_index: i32) -> PartitionResponse {
    let index = usize::try_from(partition_index).ok();
    let partition = state.topics.get(topic).zip(index).and_then(|(topic, index)| topic.partitions.get(index));
    let refuse = |error_code| PartitionResponse { partition_index, error_code, ..PartitionResponse::default() };
    let Some(partition) = partition else {
        return refuse(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
    };
    if let Err(code) = partition.check_leader(context.node, -1) {
        return refuse(code);
    }
    let active_producers = partition.producers.all().map(|known| ProducerState {
        producer_id: known.id,
        producer_epoch: known.epoch.into(),
        last_sequence: known.last_sequence,
        last_timestamp: known.last_timestamp,
        coordinator_epoch: known.coordinator_epoch,
        current_txn_start_offset: known.first_offset,
    });
    PartitionResponse { active_producers: active_producers.collect(), ..refuse(ErrorCode::NONE) }
}
