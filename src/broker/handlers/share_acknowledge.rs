//! ShareAcknowledge v0 to v2: acknowledges records that a member of a share group acquired (KIP-932).
//!
//! A ShareAcknowledge request belongs to the session that ShareFetch opened. If the request closes the session, the
//! records that the member has not acknowledged become available again.

use super::defaults::RespondWith;
use crate::api::ErrorCode;
use crate::api::share_acknowledge::{
    LeaderIdAndEpoch, NodeEndpoint, PartitionResponse, Request, Response, TopicResponse,
};
use crate::broker::authorizer::{Operation, Resource};
use crate::broker::group::share::{Acknowledged, CLOSE, OPEN};
use crate::broker::ids::{ShareSessionKey, TopicIdPartition};
use crate::broker::request::{Context, HandlerResult};
use crate::broker::state::State;

pub(super) fn handle(state: &mut State, context: &Context, request: Request) -> HandlerResult<Response> {
    let group_id = request.group_id.as_deref().unwrap_or_default();
    let member_id = request.member_id.clone().unwrap_or_default();
    let session = ShareSessionKey { node: context.node, member_id };
    let epoch = request.share_session_epoch;
    let allowed = state.check(context, Operation::Read, Resource::Group(group_id));
    let continued = if allowed.is_err() {
        allowed
    } else if group_id.is_empty() || session.member_id.is_empty() {
        Err(ErrorCode::INVALID_REQUEST)
    } else if epoch == OPEN {
        Err(ErrorCode::INVALID_SHARE_SESSION_EPOCH)
    } else {
        let State { groups, memory, .. } = state;
        let continued = groups.with_share(memory, group_id, |group| group.continue_session(&session, epoch));
        continued.unwrap_or(Err(ErrorCode::SHARE_SESSION_NOT_FOUND))
    };
    if let Err(error_code) = continued {
        return HandlerResult::Reply(request.response_with(error_code));
    }
    let acquisition_lock_timeout_ms = state.groups.configs(group_id).share_lock_ms;
    let mut response = Response { acquisition_lock_timeout_ms, ..Response::default() };
    for topic in request.topics {
        let mut partitions = Vec::new();
        for partition in topic.partitions {
            let batches = partition.acknowledgement_batches.into_iter();
            let all: Vec<_> = batches
                .map(|b| Acknowledged { first: b.first_offset, last: b.last_offset, types: b.acknowledge_types })
                .collect();
            let id = TopicIdPartition { topic_id: topic.topic_id, partition: partition.partition_index };
            let renews = request.is_renew_ack;
            let error_code = acknowledge(state, context, group_id, &session, id, &all, renews).err();
            let current_leader = match error_code {
                Some(ErrorCode::NOT_LEADER_OR_FOLLOWER) => leader(state, id, &mut response.node_endpoints),
                _ => LeaderIdAndEpoch::default(),
            };
            partitions.push(PartitionResponse {
                partition_index: partition.partition_index,
                error_code: error_code.unwrap_or(ErrorCode::NONE),
                error_message: None,
                current_leader,
            });
        }
        response.responses.push(TopicResponse { topic_id: topic.topic_id, partitions });
    }
    if epoch == CLOSE {
        let State { groups, memory, .. } = state;
        groups.with_share(memory, group_id, |group| group.close_session(&session));
    }
    state.wake_freed(group_id);
    HandlerResult::Reply(response)
}

/// Applies the acknowledgements of one partition.
pub(super) fn acknowledge(
    state: &mut State,
    context: &Context,
    group_id: &str,
    session: &ShareSessionKey,
    id: TopicIdPartition,
    all: &[Acknowledged],
    renews: bool,
) -> Result<(), ErrorCode> {
    if !Acknowledged::are_valid(all, renews && state.groups.configs(group_id).share_renews) {
        return Err(ErrorCode::INVALID_REQUEST);
    }
    state.check_topic(context, Operation::Read, "", id.topic_id)?;
    let State { groups, memory, topics, .. } = state;
    let topic = topics.find("", id.topic_id, true).map_err(|_| ErrorCode::UNKNOWN_TOPIC_ID)?;
    let partition = topic.partition(id.partition).ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?;
    partition.check_leader(context.node, -1)?;
    let locked_until = context.clock.now.saturating_add(groups.configs(group_id).share_lock());
    let done = groups.with_share(memory, group_id, |group| group.acknowledge(locked_until, session, id, all));
    done.unwrap_or(Err(ErrorCode::GROUP_ID_NOT_FOUND))
}

fn leader(state: &State, id: TopicIdPartition, endpoints: &mut Vec<NodeEndpoint>) -> LeaderIdAndEpoch {
    let Some((leader_id, leader_epoch)) = state.leader(id.topic_id, id.partition) else {
        return LeaderIdAndEpoch::default();
    };
    if !endpoints.iter().any(|node| node.node_id == leader_id) {
        endpoints.extend(node_endpoint!(state, leader_id));
    }
    LeaderIdAndEpoch { leader_id, leader_epoch }
}
