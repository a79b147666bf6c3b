//! ShareFetch v0 to v2: acquires records for a member of a share group, and takes in what became of earlier ones
//! (KIP-932).
//!
//! A session's first request has epoch 0 and names its partitions; those after it name what changed. The session ends
//! with its connection, as in Kafka. Records of open and aborted transactions are handed out
//! (`share.isolation.level=read_uncommitted`). What is released with a request can be acquired with it, for which Kafka
//! has to write it down first; a group that nobody joined is GROUP_ID_NOT_FOUND, where Kafka finds nothing to read. How
//! records are cut into batches (`batch_size`) is left to the log. v0 limits bytes alone.

use super::share_acknowledge::acknowledge;
use super::{Answer, Context, Waiting};
use crate::api::ErrorCode;
use crate::api::share_fetch::{LeaderIdAndEpoch, NodeEndpoint, PartitionResponse, Request, Response, TopicResponse};
use crate::broker::Connection;
use crate::broker::authorizer::{Operation, Resource};
use crate::broker::group::share::{Acknowledged, CLOSE, OPEN, Owner, Place, Want};
use crate::broker::state::State;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::time::Duration;

/// What one answer holds at most, whatever was asked.
const MAX_BYTES: usize = 55 << 20;

/// A request that waits for records.
#[derive(Debug)]
pub(super) struct Waits {
    group_id: String,
    owner: Owner,
    places: Vec<Place>,
    acknowledged: BTreeMap<Place, ErrorCode>,
    max_bytes: usize,
    max_records: usize,
    min_bytes: usize,
    mode: i8,
    /// The first answer of a session names all its partitions.
    is_full: bool,
}

pub(super) fn handle(state: &mut State, context: &Context, request: Request) -> Answer<Response> {
    let renews = request.is_renew_ack;
    let (waits, wait) = match begin(state, context, request) {
        Ok(begun) => begun,
        Err(error_code) => return Answer::Reply(Response { error_code, ..Response::default() }),
    };
    state.wake_freed(&waits.group_id);
    if let Some(response) = poll(state, context, &waits, wait.is_zero() || renews) {
        return Answer::Reply(response);
    }
    each_waiter(state, &waits.places, |waiters| {
        waiters.insert(context.connection);
    });
    Answer::Park(Waiting::ShareFetch(waits), Some(context.clock.now.saturating_add(wait)))
}

pub(super) fn refuse(_: Request, error_code: ErrorCode) -> Response {
    Response { error_code, ..Response::default() }
}

/// Opens the session or goes on with it, and takes in the acknowledgements; what is to be fetched then, and how long it
/// may take.
fn begin(state: &mut State, context: &Context, request: Request) -> Result<(Waits, Duration), ErrorCode> {
    let (group_id, member) = (request.group_id.unwrap_or_default(), request.member_id.unwrap_or_default());
    if group_id.is_empty() || member.is_empty() {
        return Err(ErrorCode::INVALID_REQUEST);
    }
    state.check(context, Operation::Read, Resource::Group(&group_id))?;
    let (owner, epoch) = ((context.node, member), request.share_session_epoch);
    let acknowledges = request.topics.iter().flat_map(|t| &t.partitions).any(|p| !p.acknowledgement_batches.is_empty());
    let named = || request.topics.iter().flat_map(|t| t.partitions.iter().map(|p| (t.topic_id, p.partition_index)));
    // Who only renews locks wants no records.
    let wants = [request.max_wait_ms, request.min_bytes, request.max_bytes, request.max_records].iter().any(|n| *n > 0);
    if epoch == OPEN && acknowledges || request.is_renew_ack && wants {
        return Err(ErrorCode::INVALID_REQUEST);
    }
    let State { groups, memory, .. } = state;
    if !memory.has(named().count() * 64) {
        return Err(ErrorCode::KAFKA_STORAGE_ERROR);
    }
    let forgotten = request.forgotten_topics_data.iter().flat_map(|t| t.partitions.iter().map(|p| (t.topic_id, *p)));
    let entered = groups.with_share(memory, &group_id, |group| {
        match epoch {
            OPEN => group.open(&owner, context.connection),
            _ => group.go_on(&owner, epoch),
        }?;
        if epoch != CLOSE {
            group.watch(&owner, named(), forgotten);
        }
        Ok(())
    });
    entered.unwrap_or(Err(ErrorCode::GROUP_ID_NOT_FOUND))?;
    if epoch == OPEN {
        groups.share_session(context.connection, &group_id);
    }
    let mut acknowledged = BTreeMap::new();
    for topic in request.topics {
        for partition in topic.partitions.into_iter().filter(|p| !p.acknowledgement_batches.is_empty()) {
            let batches = partition.acknowledgement_batches.into_iter();
            let all: Vec<_> = batches
                .map(|b| Acknowledged { first: b.first_offset, last: b.last_offset, types: b.acknowledge_types })
                .collect();
            let place = (topic.topic_id, partition.partition_index);
            let done = acknowledge(state, context, &group_id, &owner, place, &all, request.is_renew_ack);
            acknowledged.insert(place, done.err().unwrap_or(ErrorCode::NONE));
        }
    }
    let State { groups, memory, .. } = state;
    let places = groups.with_share(memory, &group_id, |group| match epoch {
        CLOSE => {
            group.close(&owner);
            Vec::new()
        }
        _ => group.places(&owner),
    });
    let size = |n: i32| usize::try_from(n).unwrap_or(0);
    let waits = Waits {
        group_id,
        owner,
        places: places.unwrap_or_default(),
        acknowledged,
        max_bytes: size(request.max_bytes).min(MAX_BYTES),
        max_records: if context.version == 0 { usize::MAX } else { size(request.max_records) },
        min_bytes: size(request.min_bytes),
        mode: request.share_acquire_mode,
        is_full: epoch == OPEN,
    };
    let wait = match waits.places.is_empty() {
        true => Duration::ZERO,
        false => Duration::from_millis(u64::try_from(request.max_wait_ms).unwrap_or(0)),
    };
    Ok((waits, wait))
}

/// The answer, if there is something to say or no time left to wait.
pub(super) fn poll(state: &mut State, context: &Context, waits: &Waits, expired: bool) -> Option<Response> {
    let (mut room, mut records) = (waits.max_bytes, waits.max_records);
    let (mut found, mut ready) = (BTreeMap::<Place, PartitionResponse>::new(), expired || waits.min_bytes == 0);
    for place in &waits.places {
        let answer = acquire(state, context, waits, *place, room, records, room == waits.max_bytes);
        room = room.saturating_sub(answer.records.as_ref().map_or(0, |data| data.len()));
        let taken = answer.acquired_records.iter().map(|a| usize::try_from(a.last_offset - a.first_offset + 1));
        records = records.saturating_sub(taken.filter_map(Result::ok).sum());
        ready |= answer.error_code.is_error() || !answer.acquired_records.is_empty();
        if waits.is_full || answer.error_code.is_error() || !answer.acquired_records.is_empty() {
            found.insert(*place, answer);
        }
    }
    if !ready {
        return None;
    }
    let acquisition_lock_timeout_ms = state.groups.configs(&waits.group_id).share_lock_ms;
    let mut response = Response { acquisition_lock_timeout_ms, ..Response::default() };
    for (place, code) in &waits.acknowledged {
        let answer = found.entry(*place).or_insert_with(|| nothing(place.1, ErrorCode::NONE));
        answer.acknowledge_error_code = *code;
    }
    for ((topic_id, index), mut answer) in found {
        let moved = [answer.error_code, answer.acknowledge_error_code].contains(&ErrorCode::NOT_LEADER_OR_FOLLOWER);
        if let Some((leader_id, leader_epoch)) = state.leader(topic_id, index).filter(|_| moved) {
            answer.current_leader = LeaderIdAndEpoch { leader_id, leader_epoch };
            if !response.node_endpoints.iter().any(|node| node.node_id == leader_id) {
                response.node_endpoints.extend(state.node(leader_id).map(|n| NodeEndpoint {
                    node_id: n.id,
                    host: n.host.clone(),
                    port: n.port.into(),
                    rack: state.rack(n.id),
                }));
            }
        }
        match response.responses.last_mut().filter(|topic| topic.topic_id == topic_id) {
            Some(topic) => topic.partitions.push(answer),
            None => response.responses.push(TopicResponse { topic_id, partitions: vec![answer] }),
        }
    }
    Some(response)
}

/// Stops waiting.
pub(super) fn unwatch(state: &mut State, connection: Connection, waits: &Waits) {
    each_waiter(state, &waits.places, |waiters| {
        waiters.remove(&connection);
    });
}

fn each_waiter(state: &mut State, places: &[Place], mut each: impl FnMut(&mut std::collections::BTreeSet<Connection>)) {
    for (topic, index) in places {
        if let Some(partition) = state.topics.find("", *topic, true).ok().and_then(|t| t.partition(*index)) {
            each(&mut partition.waiters);
        }
    }
}

fn acquire(
    state: &mut State,
    context: &Context,
    waits: &Waits,
    place: Place,
    max_bytes: usize,
    max_records: usize,
    is_first: bool,
) -> PartitionResponse {
    if let Err(code) = state.check_topic(context, Operation::Read, "", place.0) {
        return nothing(place.1, code);
    }
    let State { groups, memory, topics, .. } = state;
    let Ok(topic) = topics.find("", place.0, true) else {
        return nothing(place.1, ErrorCode::UNKNOWN_TOPIC_ID);
    };
    let Some(partition) = topic.partition(place.1) else {
        return nothing(place.1, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
    };
    if let Err(code) = partition.check_leader(context.node, -1) {
        return nothing(place.1, code);
    }
    let want = Want {
        now: context.clock.now,
        configs: groups.configs(&waits.group_id),
        by: &waits.owner,
        leader_epoch: partition.leader_epoch,
        max_bytes,
        max_records,
        mode: waits.mode,
        is_first,
    };
    let log = &mut partition.log;
    match groups.with_share(memory, &waits.group_id, |group| group.acquire(place, log, &want)) {
        Some(Ok((records, acquired_records))) => {
            PartitionResponse { records: Some(records), acquired_records, ..nothing(place.1, ErrorCode::NONE) }
        }
        Some(Err(code)) => nothing(place.1, code),
        None => nothing(place.1, ErrorCode::GROUP_ID_NOT_FOUND),
    }
}

fn nothing(partition_index: i32, error_code: ErrorCode) -> PartitionResponse {
    PartitionResponse { partition_index, error_code, records: Some(Bytes::new()), ..PartitionResponse::default() }
}
