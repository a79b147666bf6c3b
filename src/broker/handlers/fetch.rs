//! Fetch v0 to v18: returns whole batches from the leader, and waits for at least `min_bytes`, up to `max_wait_ms`.
//!
//! As in Kafka, the broker responds immediately if a partition has an error. With `read_committed`, a client gets
//! records up to the last stable offset, and a list of the aborted transactions among these records. Responses of v0 to
//! v3 contain records in old formats. Up to v2, the broker returns only the first part of a message that is larger than
//! the limit, as Kafka did before KIP-74. From v11 on, a client may read from any replica. If the client has a rack,
//! the leader refers the client to a replica in the same rack (KIP-392). Fetch sessions (v7) are in
//! [`fetch_sessions`](crate::broker::fetch_sessions).

use super::defaults::RespondWith;
use crate::api::ErrorCode;
use crate::api::fetch::{AbortedTransaction, LeaderIdAndEpoch, NodeEndpoint, Partition, PartitionResponse, Request};
use crate::api::fetch::{Response, Topic, TopicResponse};
use crate::broker::authorizer::Operation;
use crate::broker::log::Slice;
use crate::broker::quotas::CONSUMER;
use crate::broker::request::{Context, HandlerResult, Wait, encode, millis};
use crate::broker::state::State;
use crate::broker::topics;
use crate::broker::{Connection, formats};
use bytes::Bytes;
use std::time::Duration;

/// Maximum bytes of a response: Kafka's `fetch.max.bytes` of the broker.
const MAX_BYTES: usize = 55 << 20;

const READ_COMMITTED: i8 = 1;

/// First version in which the response contains the whole first batch even if it exceeds the limit (KIP-74).
const FIRST_WITH_WHOLE_BATCHES: i16 = 3;

/// First version that followers accept.
const FIRST_OF_FOLLOWERS: i16 = 11;

/// First version that names topics by ID.
const FIRST_WITH_IDS: i16 = 13;

/// Error codes of the whole response. All other error codes belong to partitions.
const SESSION_ERRORS: [ErrorCode; 3] = [
    ErrorCode::FETCH_SESSION_ID_NOT_FOUND,
    ErrorCode::INVALID_FETCH_SESSION_EPOCH,
    ErrorCode::FETCH_SESSION_TOPIC_ID_ERROR,
];

pub(super) fn handle(state: &mut State, context: &Context, mut request: Request) -> HandlerResult<Response> {
    if let Err(error_code) = begin_session(state, context, &mut request) {
        return HandlerResult::Reply(throttle(state, context, Response { error_code, ..Response::default() }));
    }
    if let Some(response) = poll(state, context, &request, request.max_wait_ms <= 0) {
        return HandlerResult::Reply(response);
    }
    watch(state, context, &request);
    let wait = Duration::from_millis(u64::try_from(request.max_wait_ms).unwrap_or(0));
    HandlerResult::Wait(Wait::Fetch(request), Some(context.clock.now.saturating_add(wait)))
}

/// Extends the request to all partitions of its session.
fn begin_session(state: &mut State, context: &Context, request: &mut Request) -> Result<(), ErrorCode> {
    let State { fetch_sessions, memory, .. } = state;
    fetch_sessions.begin(memory, context.clock.now, context.node, context.version >= FIRST_WITH_IDS, request)
}

/// Turns a full response into the response of the session.
fn finish_session(state: &mut State, context: &Context, request: &Request, mut response: Response) -> Response {
    let State { fetch_sessions, memory, .. } = state;
    let (now, by_id) = (context.clock.now, context.version >= FIRST_WITH_IDS);
    fetch_sessions.finish(memory, now, context.node, by_id, request, &mut response);
    response
}

/// Rejects all partitions of the session. The session continues.
pub(super) fn response_with(
    state: &mut State,
    context: &Context,
    mut request: Request,
    error_code: ErrorCode,
) -> Response {
    if SESSION_ERRORS.contains(&error_code) {
        return request.response_with(error_code);
    }
    if let Err(error_code) = begin_session(state, context, &mut request) {
        return Response { error_code, ..Response::default() };
    }
    let response = request.clone().response_with(error_code);
    finish_session(state, context, &request, response)
}

impl RespondWith for Request {
    fn response_with(self, error_code: ErrorCode) -> Response {
        if SESSION_ERRORS.contains(&error_code) {
            return Response { error_code, ..Response::default() };
        }
        let responses = self.topics.into_iter().map(|topic| TopicResponse {
            topic: topic.topic,
            topic_id: topic.topic_id,
            partitions: topic.partitions.iter().map(|p| partition_response(p, error_code)).collect(),
        });
        Response { responses: responses.collect(), ..Response::default() }
    }
}

/// Returns the response, if there is enough data or the wait has ended.
pub(super) fn poll(state: &mut State, context: &Context, request: &Request, expired: bool) -> Option<Response> {
    let mut response = Response::default();
    let max_bytes = state.max_response_bytes(context, CONSUMER, request.max_bytes);
    let mut remaining_bytes = usize::try_from(max_bytes).unwrap_or(0).min(MAX_BYTES);
    let (mut available, mut ready) = (0, expired || request.topics.is_empty());
    let near = near(state, context, request);
    for requested in &request.topics {
        let mut partitions = Vec::with_capacity(requested.partitions.len());
        for p in &requested.partitions {
            let (partition_response, read_size) = match topic(state, context, requested) {
                Ok(topic) => read(topic, context, request, p, &near, remaining_bytes, available == 0),
                Err(code) => (partition_response(p, code), 0),
            };
            available += read_size;
            remaining_bytes = remaining_bytes.saturating_sub(read_size);
            ready |= partition_response.error_code.is_error() || partition_response.preferred_read_replica >= 0;
            let leader = partition_response.current_leader.leader_id;
            if context.version >= 16 && !response.node_endpoints.iter().any(|n| n.node_id == leader) {
                response.node_endpoints.extend(node_endpoint!(state, leader));
            }
            partitions.push(partition_response);
        }
        let (topic, topic_id) = (requested.topic.clone(), requested.topic_id);
        response.responses.push(TopicResponse { topic, topic_id, partitions });
    }
    let enough = usize::try_from(request.min_bytes).unwrap_or(0);
    (ready || available >= enough).then(|| {
        let response = finish_session(state, context, request, response);
        throttle(state, context, response)
    })
}

/// Counts a response towards the client's quota. A client that exceeds its quota gets an empty response and the
/// throttle time.
fn throttle(state: &mut State, context: &Context, mut response: Response) -> Response {
    if state.quotas.is_empty() {
        return response;
    }
    let size = encode(context, &response).map_or(0, |parts| parts.iter().map(Bytes::len).sum());
    let throttle_time = state.meter(context, CONSUMER, size);
    // v0 has no throttle time, so its clients get their records.
    if !throttle_time.is_zero() && context.version > 0 {
        response.throttle_time_ms = millis(throttle_time);
        if state.unmeter(context, CONSUMER, size) {
            response.responses.clear();
        }
    }
    response
}

/// Returns the running nodes in the client's rack.
fn near(state: &State, context: &Context, request: &Request) -> Vec<i32> {
    let is_near = |node: &i32| state.rack(*node).is_some_and(|rack| rack == request.rack_id);
    match context.version < FIRST_OF_FOLLOWERS || request.rack_id.is_empty() {
        true => Vec::new(),
        false => state.live().map(|n| n.id).filter(is_near).collect(),
    }
}

/// Wakes the connection when one of the partitions changes.
fn watch(state: &mut State, context: &Context, request: &Request) {
    each_partition(state, context.version, request, |p| {
        p.waiters.insert(context.connection);
    });
}

/// Undoes [`watch`].
pub(super) fn unwatch(state: &mut State, connection: Connection, request: &Request) {
    // A request has names or IDs and leaves the other empty, so the version is not needed.
    let version = if request.topics.iter().any(|t| !t.topic_id.is_zero()) { FIRST_WITH_IDS } else { 0 };
    each_partition(state, version, request, |p| {
        p.waiters.remove(&connection);
    });
}

fn each_partition(state: &mut State, version: i16, request: &Request, mut each: impl FnMut(&mut topics::Partition)) {
    for requested in &request.topics {
        if let Ok(topic) = state.topics.find(&requested.topic, requested.topic_id, version >= FIRST_WITH_IDS) {
            for p in &requested.partitions {
                topic.partition(p.partition).map(&mut each);
            }
        }
    }
}

fn topic<'a>(
    state: &'a mut State,
    context: &Context,
    requested: &'a Topic,
) -> Result<&'a mut topics::Topic, ErrorCode> {
    state.check_topic(context, Operation::Read, &requested.topic, requested.topic_id)?;
    state.topics.find(&requested.topic, requested.topic_id, context.version >= FIRST_WITH_IDS)
}

/// Reads one partition. Returns the partition's response, and the number of bytes that are available within the limits.
fn read(
    topic: &mut topics::Topic,
    context: &Context,
    request: &Request,
    requested: &Partition,
    near: &[i32],
    remaining_bytes: usize,
    is_first: bool,
) -> (PartitionResponse, usize) {
    let Some(partition) = topic.partition(requested.partition) else {
        return (partition_response(requested, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION), 0);
    };
    let epoch = requested.current_leader_epoch;
    let checked = match context.version >= FIRST_OF_FOLLOWERS {
        true => partition.check_replica(context.node, epoch),
        false => partition.check_leader(context.node, epoch),
    };
    if let Err(code) = checked {
        let current_leader = LeaderIdAndEpoch { leader_id: partition.leader, leader_epoch: partition.leader_epoch };
        return (PartitionResponse { current_leader, ..partition_response(requested, code) }, 0);
    }
    let limit = usize::try_from(requested.partition_max_bytes).unwrap_or(0).min(remaining_bytes);
    let stable = partition.last_stable_offset();
    if let Some(node) = nearer(partition, context.node, near, requested.fetch_offset) {
        let response = PartitionResponse {
            high_watermark: partition.log.end_offset(),
            last_stable_offset: stable,
            log_start_offset: partition.log.start_offset(),
            preferred_read_replica: node,
            ..partition_response(requested, ErrorCode::NONE)
        };
        return (response, 0);
    }
    let committed_only = request.isolation_level == READ_COMMITTED;
    let until = if committed_only { stable } else { i64::MAX };
    let (log, offset) = (&mut partition.log, requested.fetch_offset);
    let read = match formats::of_fetch(context.version) {
        None => log.read(offset, until, limit, is_first),
        Some(magic) if context.version >= FIRST_WITH_WHOLE_BATCHES => {
            formats::read_down(log, magic, offset, until, limit, is_first)
        }
        Some(magic) => formats::read_down(log, magic, offset, until, limit, limit > 0).map(|mut slice| {
            slice.data.truncate(limit);
            Slice { available: slice.data.len(), ..slice }
        }),
    };
    let Slice { data, available } = match read {
        Ok(slice) => slice,
        Err(code) => return (partition_response(requested, code), 0),
    };
    let aborted = |(producer_id, first_offset)| AbortedTransaction { producer_id, first_offset };
    let aborted = || partition.log.aborted_in(requested.fetch_offset, &data).map(aborted).collect();
    let response = PartitionResponse {
        partition_index: requested.partition,
        high_watermark: partition.log.end_offset(),
        last_stable_offset: stable,
        log_start_offset: partition.log.start_offset(),
        aborted_transactions: committed_only.then(aborted),
        records: Some(data),
        ..PartitionResponse::default()
    };
    (response, available)
}

/// Returns the replica in the client's rack to which the leader refers the client. Among several replicas, the function
/// makes the same choice as Kafka.
fn nearer(partition: &topics::Partition, node: i32, near: &[i32], offset: i64) -> Option<i32> {
    let has_offset = (partition.log.start_offset()..=partition.log.end_offset()).contains(&offset);
    let refers = partition.leader == node && has_offset && !near.contains(&node);
    partition.replicas.iter().filter(|id| refers && near.contains(id)).max().copied()
}

fn partition_response(requested: &Partition, error_code: ErrorCode) -> PartitionResponse {
    PartitionResponse {
        partition_index: requested.partition,
        error_code,
        high_watermark: -1,
        aborted_transactions: None,
        records: Some(Bytes::new()),
        ..PartitionResponse::default()
    }
}
