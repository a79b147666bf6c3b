//! AlterPartitionReassignments v0 and v1: changes the replicas of partitions immediately. A client can therefore never
//! cancel a reassignment.

use super::defaults::RespondWith;
use crate::api::ErrorCode;
use crate::api::alter_partition_reassignments::{Partition, PartitionResponse, Request, Response, TopicResponse};
use crate::broker::authorizer::{Operation, Resource};
use crate::broker::request::{ApiError, Context, HandlerResult};
use crate::broker::state::State;
use std::collections::BTreeSet;

pub(super) fn handle(state: &mut State, context: &Context, request: Request) -> HandlerResult<Response> {
    if let Err(code) = state.check(context, Operation::Alter, Resource::Cluster) {
        return HandlerResult::Reply(request.response_with(code));
    }
    let may_grow = request.allow_replication_factor_change;
    let responses = request.topics.into_iter().map(|topic| {
        let partitions = topic.partitions.into_iter().map(|requested_partition| {
            let reassigned = reassign(state, &topic.name, &requested_partition, may_grow);
            let ApiError { code, message } = reassigned.err().unwrap_or(ErrorCode::NONE.into());
            PartitionResponse {
                partition_index: requested_partition.partition_index,
                error_code: code,
                error_message: message,
            }
        });
        TopicResponse { partitions: partitions.collect(), name: topic.name }
    });
    let responses = responses.collect();
    HandlerResult::Reply(Response {
        allow_replication_factor_change: may_grow,
        error_message: None,
        responses,
        ..Response::default()
    })
}

fn reassign(state: &mut State, topic: &str, requested_partition: &Partition, may_grow: bool) -> Result<(), ApiError> {
    let index = requested_partition.partition_index;
    let partition = state.topics.get_mut(topic).and_then(|t| t.partition(index));
    let replication_factor = partition.map(|p| p.replicas.len()).ok_or_else(|| {
        ApiError::new(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
    })?;
    let Some(replicas) = &requested_partition.replicas else {
        return Err(ErrorCode::NO_REASSIGNMENT_IN_PROGRESS.into());
    };
    let invalid = |why: &str| Err(ApiError::new(ErrorCode::INVALID_REPLICA_ASSIGNMENT, why));
    if replicas.is_empty() {
        return invalid("The manual partition assignment includes an empty replica list.");
    }
    if replicas.iter().collect::<BTreeSet<_>>().len() != replicas.len() {
        return invalid("The manual partition assignment includes a broker more than once.");
    }
    if !replicas.iter().all(|id| state.node(*id).is_some()) {
        return invalid("The manual partition assignment includes a broker that is not registered.");
    }
    if !may_grow && replicas.len() != replication_factor {
        let why = "The replication factor is changed from what it was, which was not allowed.";
        return Err(ApiError::new(ErrorCode::INVALID_REPLICATION_FACTOR, why));
    }
    state.reassign(topic, index, replicas.clone());
    Ok(())
}
