//! AlterPartitionReassignments v0 and v1: partitions get other replicas, at once; so there is never a move to call off.

use super::{Answer, Context, Refusal};
use crate::api::ErrorCode;
use crate::api::alter_partition_reassignments::{Partition, PartitionResponse, Request, Response, TopicResponse};
use crate::broker::authorizer::{Operation, Resource};
use crate::broker::state::State;
use std::collections::BTreeSet;

pub(super) fn handle(state: &mut State, context: &Context, request: Request) -> Answer<Response> {
    if let Err(code) = state.check(context, Operation::Alter, Resource::Cluster) {
        return Answer::Reply(refuse(request, code));
    }
    let may_grow = request.allow_replication_factor_change;
    let responses = request.topics.into_iter().map(|topic| {
        let partitions = topic.partitions.into_iter().map(|wanted| {
            let moved = assign(state, &topic.name, &wanted, may_grow);
            let Refusal { code, message } = moved.err().unwrap_or(ErrorCode::NONE.into());
            PartitionResponse { partition_index: wanted.partition_index, error_code: code, error_message: message }
        });
        TopicResponse { partitions: partitions.collect(), name: topic.name }
    });
    let responses = responses.collect();
    Answer::Reply(Response {
        allow_replication_factor_change: may_grow,
        error_message: None,
        responses,
        ..Response::default()
    })
}

pub(super) fn refuse(_: Request, error_code: ErrorCode) -> Response {
    Response { error_code, error_message: None, ..Response::default() }
}

fn assign(state: &mut State, topic: &str, wanted: &Partition, may_grow: bool) -> Result<(), Refusal> {
    let index = wanted.partition_index;
    let partition = state.topics.get_mut(topic).and_then(|t| t.partition(index));
    let has = partition.map(|p| p.replicas.len()).ok_or_else(|| {
        Refusal::new(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
    })?;
    let Some(replicas) = &wanted.replicas else {
        return Err(ErrorCode::NO_REASSIGNMENT_IN_PROGRESS.into());
    };
    let invalid = |why: &str| Err(Refusal::new(ErrorCode::INVALID_REPLICA_ASSIGNMENT, why));
    if replicas.is_empty() {
        return invalid("The manual partition assignment includes an empty replica list.");
    }
    if replicas.iter().collect::<BTreeSet<_>>().len() != replicas.len() {
        return invalid("The manual partition assignment includes a broker more than once.");
    }
    if !replicas.iter().all(|id| state.node(*id).is_some()) {
        return invalid("The manual partition assignment includes a broker that is not registered.");
    }
    if !may_grow && replicas.len() != has {
        let why = "The replication factor is changed from what it was, which was not allowed.";
        return Err(Refusal::new(ErrorCode::INVALID_REPLICATION_FACTOR, why));
    }
    state.assign(topic, index, replicas.clone());
    Ok(())
}
