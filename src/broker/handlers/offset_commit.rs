//! OffsetCommit v0 to v10: commits offsets of members. If the group has no members, any client may commit, with
//! generation -1.
//!
//! A member of a KIP-848 group must use v9 or later (otherwise UNSUPPORTED_VERSION) and its current epoch (otherwise
//! STALE_MEMBER_EPOCH). If a request has a generation but the group is unknown, the error is ILLEGAL_GENERATION, or
//! GROUP_ID_NOT_FOUND from v9 on. Kafka stored the offsets from v0 requests in ZooKeeper. The dev broker stores the
//! offsets from all request versions in the group. Committed offsets do not expire.

use crate::api::ErrorCode;
use crate::api::offset_commit::{Partition, PartitionResponse, Request, Response, TopicResponse};
use crate::broker::authorizer::{Operation, Resource};
use crate::broker::group::offsets::{Committed, MAX_METADATA};
use crate::broker::group::{Group, MemberIdentity};
use crate::broker::journal::Entry;
use crate::broker::request::{Context, HandlerResult};
use crate::broker::state::State;

pub(super) fn handle(state: &mut State, context: &Context, request: Request) -> HandlerResult<Response> {
    let group_error = admit(state, context, &request).err();
    let mut topics = Vec::with_capacity(request.topics.len());
    for topic in request.topics {
        let name = match context.version {
            10.. => state.topics.name_of(topic.topic_id).map(str::to_owned).ok_or(ErrorCode::UNKNOWN_TOPIC_ID),
            _ => Ok(topic.name.clone()),
        };
        let may_read = |name: &String| state.check(context, Operation::Read, Resource::Topic(name));
        let name = name.and_then(|name| may_read(&name).map(|()| name));
        let partitions = topic.partitions.into_iter().map(|p| PartitionResponse {
            partition_index: p.partition_index,
            error_code: match (group_error, &name) {
                (Some(code), _) => code,
                (None, Err(code)) => *code,
                (None, Ok(name)) => commit(state, &request.group_id, name, p),
            },
        });
        let partitions = partitions.collect();
        topics.push(TopicResponse { name: topic.name, topic_id: topic.topic_id, partitions });
    }
    HandlerResult::Reply(Response { topics, ..Response::default() })
}

fn admit(state: &mut State, context: &Context, request: &Request) -> Result<(), ErrorCode> {
    state.check(context, Operation::Read, Resource::Group(&request.group_id))?;
    if !state.is_coordinator(context.node, &request.group_id) {
        return Err(ErrorCode::NOT_COORDINATOR);
    }
    let identity = MemberIdentity {
        member_id: &request.member_id,
        instance_id: request.group_instance_id.as_deref(),
        generation: request.generation_id_or_member_epoch,
    };
    let State { groups, memory, .. } = state;
    if let Some(Group::Consumer(group)) = groups.get(&request.group_id)
        && context.version < 9
        && group.has_native(&request.member_id)
    {
        return Err(ErrorCode::UNSUPPORTED_VERSION);
    }
    match groups.admit_commit(memory, context.clock.now, &request.group_id, identity, false) {
        Err(ErrorCode::GROUP_ID_NOT_FOUND) if context.version < 9 && groups.get(&request.group_id).is_none() => {
            Err(ErrorCode::ILLEGAL_GENERATION)
        }
        admitted => admitted,
    }
}

fn commit(state: &mut State, group: &str, topic: &str, requested: Partition) -> ErrorCode {
    let metadata = requested.committed_metadata.unwrap_or_default();
    if metadata.len() > MAX_METADATA {
        return ErrorCode::OFFSET_METADATA_TOO_LARGE;
    }
    let State { topics, groups, memory, journal, .. } = state;
    if topics.get_mut(topic).and_then(|t| t.partition(requested.partition_index)).is_none() {
        return ErrorCode::UNKNOWN_TOPIC_OR_PARTITION;
    }
    let new =
        Committed { offset: requested.committed_offset, leader_epoch: requested.committed_leader_epoch, metadata };
    let committed = new.clone();
    match groups.offsets.commit(memory, group, topic, requested.partition_index, new) {
        true => {
            journal.append(|| Entry::offset(group, topic, requested.partition_index, -1, &committed));
            ErrorCode::NONE
        }
        // Kafka's code for a coordinator that cannot write its log.
        false => ErrorCode::COORDINATOR_NOT_AVAILABLE,
    }
}
