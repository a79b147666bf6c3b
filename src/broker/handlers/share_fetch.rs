//! ShareFetch v0 to v2: acquires records for a member of a share group, and acknowledges records that the member
//! acquired earlier (KIP-932).
//!
//! The first request of a session has epoch 0 and names the partitions of the session. Later requests of a session name
//! only changes. As in Kafka, the session ends with its connection. The handler ignores `batch_size` and returns
//! batches as they are in the log. A request of v0 limits the bytes of a response, but not the number of records.
//!
//! A group that no member has joined has no state. As in Kafka, a request that opens a session for a group without
//! state waits and finds no records. Unlike Kafka, the dev broker does not keep that session.
//!
//! The dev broker handles requests that release records differently from Kafka. In the dev broker, the request that
//! releases records can acquire these records again. Kafka first writes the release to its log, so the request cannot
//! acquire the released records again.

use super::share_acknowledge::acknowledge;
use crate::api::ErrorCode;
use crate::api::share_fetch::{LeaderIdAndEpoch, NodeEndpoint, PartitionResponse, Request, Response, TopicResponse};
use crate::broker::authorizer::{Operation, Resource};
use crate::broker::group::share::{Acknowledged, CLOSE, OPEN, Want};
use crate::broker::ids::{Connection, ShareSessionKey, TopicIdPartition};
use crate::broker::request::{Context, HandlerResult, ShareFetchWait, Wait};
use crate::broker::state::State;
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

const MAX_BYTES: usize = 55 << 20;

pub(super) fn handle(state: &mut State, context: &Context, request: Request) -> HandlerResult<Response> {
    let renews = request.is_renew_ack;
    let (wait, max_wait) = match begin(state, context, request) {
        Ok(begun) => begun,
        Err(error_code) => return HandlerResult::Reply(Response { error_code, ..Response::default() }),
    };
    state.wake_freed(&wait.group_id);
    if let Some(response) = poll(state, context, &wait, max_wait.is_zero() || renews) {
        return HandlerResult::Reply(response);
    }
    each_waiter(state, &wait.partitions, |waiters| {
        waiters.insert(context.connection);
    });
    HandlerResult::Wait(Wait::ShareFetch(wait), Some(context.clock.now.saturating_add(max_wait)))
}

/// Opens or continues the session and applies the acknowledgements. Returns the partitions to fetch, and how long the
/// request may wait.
fn begin(state: &mut State, context: &Context, request: Request) -> Result<(ShareFetchWait, Duration), ErrorCode> {
    let (group_id, member) = (request.group_id.unwrap_or_default(), request.member_id.unwrap_or_default());
    if group_id.is_empty() || member.is_empty() {
        return Err(ErrorCode::INVALID_REQUEST);
    }
    state.check(context, Operation::Read, Resource::Group(&group_id))?;
    let session = ShareSessionKey { node: context.node, member_id: member };
    let epoch = request.share_session_epoch;
    let acknowledges = request.topics.iter().flat_map(|t| &t.partitions).any(|p| !p.acknowledgement_batches.is_empty());
    let named = || {
        request.topics.iter().flat_map(|t| {
            t.partitions.iter().map(|p| TopicIdPartition { topic_id: t.topic_id, partition: p.partition_index })
        })
    };
    // A request that only renews locks fetches nothing.
    let wants = [request.max_wait_ms, request.min_bytes, request.max_bytes, request.max_records].iter().any(|n| *n > 0);
    if epoch == OPEN && acknowledges || request.is_renew_ack && wants {
        return Err(ErrorCode::INVALID_REQUEST);
    }
    let State { groups, memory, .. } = state;
    if !memory.has_room_for(named().count() * 64) {
        return Err(ErrorCode::KAFKA_STORAGE_ERROR);
    }
    let forgotten = request
        .forgotten_topics_data
        .iter()
        .flat_map(|t| t.partitions.iter().map(|p| TopicIdPartition { topic_id: t.topic_id, partition: *p }));
    let entered = groups.with_share(memory, &group_id, |group| {
        match epoch {
            OPEN => group.open_session(&session, context.connection),
            _ => group.continue_session(&session, epoch),
        }?;
        if epoch != CLOSE {
            group.update_session(&session, named(), forgotten);
        }
        Ok(())
    });
    match entered {
        Some(result) => result?,
        None if epoch == OPEN => {}
        None => return Err(ErrorCode::SHARE_SESSION_NOT_FOUND),
    }
    let group_exists = entered.is_some();
    if group_exists && epoch == OPEN {
        groups.share_session(context.connection, &group_id);
    }
    let mut acknowledged = BTreeMap::new();
    for topic in request.topics {
        for partition in topic.partitions.into_iter().filter(|p| !p.acknowledgement_batches.is_empty()) {
            let batches = partition.acknowledgement_batches.into_iter();
            let all: Vec<_> = batches
                .map(|b| Acknowledged { first: b.first_offset, last: b.last_offset, types: b.acknowledge_types })
                .collect();
            let id = TopicIdPartition { topic_id: topic.topic_id, partition: partition.partition_index };
            let done = acknowledge(state, context, &group_id, &session, id, &all, request.is_renew_ack);
            acknowledged.insert(id, done.err().unwrap_or(ErrorCode::NONE));
        }
    }
    let State { groups, memory, .. } = state;
    let partitions = groups.with_share(memory, &group_id, |group| match epoch {
        CLOSE => {
            group.close_session(&session);
            Vec::new()
        }
        _ => group.session_partitions(&session),
    });
    let size = |n: i32| usize::try_from(n).unwrap_or(0);
    let wait = ShareFetchWait {
        group_id,
        session,
        partitions: partitions.unwrap_or_default(),
        acknowledged,
        max_bytes: size(request.max_bytes).min(MAX_BYTES),
        max_records: if context.version == 0 { usize::MAX } else { size(request.max_records) },
        min_bytes: size(request.min_bytes),
        acquire_mode: request.share_acquire_mode,
        is_full: epoch == OPEN,
    };
    let max_wait = match group_exists && wait.partitions.is_empty() {
        true => Duration::ZERO,
        false => Duration::from_millis(u64::try_from(request.max_wait_ms).unwrap_or(0)),
    };
    Ok((wait, max_wait))
}

/// Returns the response, if there are records or the wait has ended.
pub(super) fn poll(state: &mut State, context: &Context, wait: &ShareFetchWait, expired: bool) -> Option<Response> {
    let (mut room, mut records) = (wait.max_bytes, wait.max_records);
    let (mut found, mut ready) =
        (BTreeMap::<TopicIdPartition, PartitionResponse>::new(), expired || wait.min_bytes == 0);
    for id in &wait.partitions {
        let answer = acquire(state, context, wait, *id, room, records, room == wait.max_bytes);
        room = room.saturating_sub(answer.records.as_ref().map_or(0, |data| data.len()));
        let acquired = answer.acquired_records.iter().map(|a| usize::try_from(a.last_offset - a.first_offset + 1));
        records = records.saturating_sub(acquired.filter_map(Result::ok).sum());
        ready |= answer.error_code.is_error() || !answer.acquired_records.is_empty();
        if wait.is_full || answer.error_code.is_error() || !answer.acquired_records.is_empty() {
            found.insert(*id, answer);
        }
    }
    if !ready {
        return None;
    }
    let acquisition_lock_timeout_ms = state.groups.configs(&wait.group_id).share_lock_ms;
    let mut response = Response { acquisition_lock_timeout_ms, ..Response::default() };
    for (id, code) in &wait.acknowledged {
        let answer = found.entry(*id).or_insert_with(|| empty(id.partition, ErrorCode::NONE));
        answer.acknowledge_error_code = *code;
    }
    for (TopicIdPartition { topic_id, partition }, mut answer) in found {
        let moved = [answer.error_code, answer.acknowledge_error_code].contains(&ErrorCode::NOT_LEADER_OR_FOLLOWER);
        if let Some((leader_id, leader_epoch)) = state.leader(topic_id, partition).filter(|_| moved) {
            answer.current_leader = LeaderIdAndEpoch { leader_id, leader_epoch };
            if !response.node_endpoints.iter().any(|node| node.node_id == leader_id) {
                response.node_endpoints.extend(node_endpoint!(state, leader_id));
            }
        }
        match response.responses.last_mut().filter(|topic| topic.topic_id == topic_id) {
            Some(topic) => topic.partitions.push(answer),
            None => response.responses.push(TopicResponse { topic_id, partitions: vec![answer] }),
        }
    }
    Some(response)
}

pub(super) fn unwatch(state: &mut State, connection: Connection, wait: &ShareFetchWait) {
    each_waiter(state, &wait.partitions, |waiters| {
        waiters.remove(&connection);
    });
}

fn each_waiter(state: &mut State, partitions: &[TopicIdPartition], mut each: impl FnMut(&mut BTreeSet<Connection>)) {
    for id in partitions {
        if let Some(partition) = state.topics.partition_by_id(*id) {
            each(&mut partition.waiters);
        }
    }
}

fn acquire(
    state: &mut State,
    context: &Context,
    wait: &ShareFetchWait,
    id: TopicIdPartition,
    max_bytes: usize,
    max_records: usize,
    is_first: bool,
) -> PartitionResponse {
    if let Err(code) = state.check_topic(context, Operation::Read, "", id.topic_id) {
        return empty(id.partition, code);
    }
    let State { groups, memory, topics, .. } = state;
    let Ok(topic) = topics.find("", id.topic_id, true) else {
        return empty(id.partition, ErrorCode::UNKNOWN_TOPIC_ID);
    };
    let Some(partition) = topic.partition(id.partition) else {
        return empty(id.partition, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
    };
    if let Err(code) = partition.check_leader(context.node, -1) {
        return empty(id.partition, code);
    }
    let configs = groups.configs(&wait.group_id);
    let want = Want {
        now: context.clock.now,
        wall_ms: context.clock.wall_ms,
        configs,
        until: if configs.share_is_committed { partition.last_stable_offset() } else { i64::MAX },
        by: &wait.session,
        leader_epoch: partition.leader_epoch,
        max_bytes,
        max_records,
        mode: wait.acquire_mode,
        is_first,
    };
    let log = &mut partition.log;
    match groups.with_share(memory, &wait.group_id, |group| group.acquire(id, log, &want)) {
        Some(Ok((records, acquired_records))) => {
            PartitionResponse { records: Some(records), acquired_records, ..empty(id.partition, ErrorCode::NONE) }
        }
        Some(Err(code)) => empty(id.partition, code),
        // The group was deleted while the request waited.
        None => empty(id.partition, ErrorCode::UNKNOWN_SERVER_ERROR),
    }
}

fn empty(partition_index: i32, error_code: ErrorCode) -> PartitionResponse {
    PartitionResponse { partition_index, error_code, records: Some(Bytes::new()), ..PartitionResponse::default() }
}
