//! TxnOffsetCommit v0 to v6: stores offsets of a group. The offsets take effect when the producer commits the
//! transaction.
//!
//! If a request has a generation but the group is unknown, the error is ILLEGAL_GENERATION. From v5 on, TxnOffsetCommit
//! also adds the group to the transaction. Up to v4, the producer adds the group with AddOffsetsToTxn.

use super::defaults::RespondWith;
use crate::api::ErrorCode;
use crate::api::txn_offset_commit::{Partition, PartitionResponse, Request, Response, Topic, TopicResponse};
use crate::broker::authorizer::{Operation, Resource};
use crate::broker::group::MemberIdentity;
use crate::broker::group::offsets::{Committed, MAX_METADATA};
use crate::broker::ids::ProducerId;
use crate::broker::journal::Entry;
use crate::broker::request::{Context, HandlerResult};
use crate::broker::state::State;
use crate::broker::transactions::{OFFSETS_TOPIC, Protocol, offsets_partition};

pub(super) fn handle(state: &mut State, context: &Context, request: Request) -> HandlerResult<Response> {
    let group = request.group_id.as_str();
    let producer = ProducerId { id: request.producer_id, epoch: request.producer_epoch };
    let may_write = state.check(context, Operation::Write, Resource::TransactionalId(&request.transactional_id));
    if let Err(code) = may_write.and_then(|()| state.check(context, Operation::Read, Resource::Group(group))) {
        return HandlerResult::Reply(request.response_with(code));
    }
    let names: Vec<_> = request.topics.iter().map(|topic| name(state, context, topic)).collect();
    let exists = |name: &Result<String, ErrorCode>| name.as_ref().is_ok_and(|name| state.topics.get(name).is_some());
    let group_error = match names.iter().any(exists) {
        true => admit(state, context, &request, producer).err(),
        // As in Kafka, the group is not checked if there is nothing to commit.
        false => None,
    };
    let mut topics = Vec::with_capacity(request.topics.len());
    for (topic, name) in request.topics.into_iter().zip(names) {
        let partitions = topic.partitions.into_iter().map(|p| PartitionResponse {
            partition_index: p.partition_index,
            error_code: match &name {
                Err(code) => *code,
                Ok(name) => commit(state, group, name, producer.id, p, group_error),
            },
        });
        let partitions = partitions.collect();
        topics.push(TopicResponse { name: topic.name, topic_id: topic.topic_id, partitions });
    }
    HandlerResult::Reply(Response { topics, ..Response::default() })
}

fn name(state: &State, context: &Context, topic: &Topic) -> Result<String, ErrorCode> {
    state.check_topic(context, Operation::Read, &topic.name, topic.topic_id)?;
    match context.version {
        6.. => state.topics.name_of(topic.topic_id).map(str::to_owned).ok_or(ErrorCode::UNKNOWN_TOPIC_ID),
        _ => Ok(topic.name.clone()),
    }
}

/// Checks that this producer may commit for this group in its transaction.
fn admit(state: &mut State, context: &Context, request: &Request, producer: ProducerId) -> Result<(), ErrorCode> {
    let group = request.group_id.as_str();
    if group.is_empty() {
        return Err(ErrorCode::INVALID_GROUP_ID);
    }
    if !state.is_coordinator(context.node, group) {
        return Err(ErrorCode::NOT_COORDINATOR);
    }
    let protocol = match context.version {
        ..4 => Protocol::V1,
        4 => Protocol::V1Abortable,
        _ => Protocol::V2,
    };
    let State { transactions, memory, groups, .. } = state;
    let partition = (OFFSETS_TOPIC, offsets_partition(group));
    transactions.verify_or_add(memory, context.clock, &request.transactional_id, producer, partition, protocol)?;
    let identity = MemberIdentity {
        member_id: &request.member_id,
        instance_id: request.group_instance_id.as_deref(),
        generation: request.generation_id_or_member_epoch,
    };
    match groups.admit_commit(memory, context.clock.now, group, identity, true) {
        Err(ErrorCode::GROUP_ID_NOT_FOUND) => Err(ErrorCode::ILLEGAL_GENERATION),
        Err(ErrorCode::STALE_MEMBER_EPOCH) if context.version < 6 => Err(ErrorCode::ILLEGAL_GENERATION),
        admitted => admitted,
    }
}

fn commit(
    state: &mut State,
    group: &str,
    topic: &str,
    producer_id: i64,
    requested: Partition,
    group_error: Option<ErrorCode>,
) -> ErrorCode {
    let State { topics, groups, memory, journal, .. } = state;
    let index = requested.partition_index;
    if topics.get_mut(topic).and_then(|t| t.partition(index)).is_none() {
        return ErrorCode::UNKNOWN_TOPIC_OR_PARTITION;
    }
    if let Some(code) = group_error {
        return code;
    }
    let metadata = requested.committed_metadata.unwrap_or_default();
    if metadata.len() > MAX_METADATA {
        return ErrorCode::OFFSET_METADATA_TOO_LARGE;
    }
    let new =
        Committed { offset: requested.committed_offset, leader_epoch: requested.committed_leader_epoch, metadata };
    let committed = new.clone();
    match groups.offsets.commit_pending(memory, group, (topic, index), producer_id, new) {
        true => {
            journal.append(|| Entry::offset(group, topic, index, producer_id, &committed));
            ErrorCode::NONE
        }
        false => ErrorCode::COORDINATOR_NOT_AVAILABLE,
    }
}
