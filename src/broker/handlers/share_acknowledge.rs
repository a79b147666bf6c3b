//! ShareAcknowledge v0 to v2: what became of records that a member of a share group acquired (KIP-932).
//!
//! It goes on with the session that ShareFetch opened, and may be the last request of it: then what the member still
//! holds is to be had again.

use super::{Answer, Context};
use crate::api::ErrorCode;
use crate::api::share_acknowledge::{
    LeaderIdAndEpoch, NodeEndpoint, PartitionResponse, Request, Response, TopicResponse,
};
use crate::broker::authorizer::{Operation, Resource};
use crate::broker::group::share::{Acknowledged, CLOSE, OPEN, Owner, Place};
use crate::broker::state::State;
use crate::wire::Uuid;

pub(super) fn handle(state: &mut State, context: &Context, request: Request) -> Answer<Response> {
    let group_id = request.group_id.as_deref().unwrap_or_default();
    let owner = (context.node, request.member_id.clone().unwrap_or_default());
    let epoch = request.share_session_epoch;
    let allowed = state.check(context, Operation::Read, Resource::Group(group_id));
    let gone_on = if allowed.is_err() {
        allowed
    } else if group_id.is_empty() || owner.1.is_empty() {
        Err(ErrorCode::INVALID_REQUEST)
    } else if epoch == OPEN {
        Err(ErrorCode::INVALID_SHARE_SESSION_EPOCH)
    } else {
        let State { groups, memory, .. } = state;
        let gone_on = groups.with_share(memory, group_id, |group| group.go_on(&owner, epoch));
        gone_on.unwrap_or(Err(ErrorCode::SHARE_SESSION_NOT_FOUND))
    };
    if let Err(error_code) = gone_on {
        return Answer::Reply(refuse(request, error_code));
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
            let place = (topic.topic_id, partition.partition_index);
            let renews = request.is_renew_ack;
            let error_code = acknowledge(state, context, group_id, &owner, place, &all, renews).err();
            let current_leader = match error_code {
                Some(ErrorCode::NOT_LEADER_OR_FOLLOWER) => leader(state, place, &mut response.node_endpoints),
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
        groups.with_share(memory, group_id, |group| group.close(&owner));
    }
    state.wake_freed(group_id);
    Answer::Reply(response)
}

pub(super) fn refuse(_: Request, error_code: ErrorCode) -> Response {
    Response { error_code, ..Response::default() }
}

/// Takes in what became of records of one partition.
pub(super) fn acknowledge(
    state: &mut State,
    context: &Context,
    group_id: &str,
    owner: &Owner,
    place: Place,
    all: &[Acknowledged],
    renews: bool,
) -> Result<(), ErrorCode> {
    if !Acknowledged::are_valid(all, renews) {
        return Err(ErrorCode::INVALID_REQUEST);
    }
    state.check_topic(context, Operation::Read, "", place.0)?;
    let State { groups, memory, topics, .. } = state;
    let topic = topics.find("", place.0, true).map_err(|_| ErrorCode::UNKNOWN_TOPIC_ID)?;
    let partition = topic.partition(place.1).ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?;
    partition.check_leader(context.node, -1)?;
    let locked_until = context.clock.now.saturating_add(groups.configs(group_id).share_lock());
    let done = groups.with_share(memory, group_id, |group| group.acknowledge(locked_until, owner, place, all));
    done.unwrap_or(Err(ErrorCode::GROUP_ID_NOT_FOUND))
}

fn leader(state: &State, (topic, index): (Uuid, i32), endpoints: &mut Vec<NodeEndpoint>) -> LeaderIdAndEpoch {
    let Some((leader_id, leader_epoch)) = state.leader(topic, index) else {
        return LeaderIdAndEpoch::default();
    };
    if !endpoints.iter().any(|node| node.node_id == leader_id) {
        endpoints.extend(state.node(leader_id).map(|n| NodeEndpoint {
            node_id: n.id,
            host: n.host.clone(),
            port: n.port.into(),
            rack: state.rack(n.id),
        }));
    }
    LeaderIdAndEpoch { leader_id, leader_epoch }
}
