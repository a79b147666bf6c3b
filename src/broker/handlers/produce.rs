//! Produce v0 to v13: appends a record batch to each partition. Instead of record batches, requests of v0 to v2 contain
//! messages of formats 0 and 1.
//!
//! The handler checks the header and the checksum of a batch. It decodes the records of a compressed batch. It decodes
//! other records only to check timestamps, and to check keys in compacted topics. It stores batches unchanged, so a topic's `compression.type` has no effect. It converts
//! messages of old formats to batches. All replicas have a batch as soon as the leader has it, so the broker responds
//! immediately for acks 1 and -1. For the first batch of a transaction in a partition, the transaction coordinator
//! verifies that the partition is part of the transaction. From v12 on, the first batch adds the partition to the
//! transaction instead.

use super::defaults::RespondWith;
use crate::api::produce::{LeaderIdAndEpoch, NodeEndpoint, PartitionData, PartitionResponse, RecordError, Request};
use crate::api::produce::{Response, TopicResponse};
use crate::api::{ErrorCode, Release};
use crate::broker::authorizer::{Operation, Resource};
use crate::broker::configs::Configs;
use crate::broker::formats;
use crate::broker::idempotence::SequenceCheck;
use crate::broker::ids::ProducerId;
use crate::broker::journal::Entry;
use crate::broker::log::Log;
use crate::broker::quotas::PRODUCER;
use crate::broker::request::{ApiError, Context, HandlerResult, millis};
use crate::broker::state::State;
use crate::broker::topics::{is_internal, valid_name};
use crate::broker::transactions::Protocol;
use crate::compress::{Compression, DEFAULT_LIMIT};
use crate::record::{Batch, HEADER_SIZE, Header};
use crate::wire::{Error, Reason};
use bytes::Bytes;

/// The shortest record: size, attributes, two deltas, two lengths, a header count.
const MIN_RECORD: usize = 7;

/// The client ID with which Kafka allows writes to internal topics.
const ADMIN_CLIENT: &str = "__admin_client";

const ONE_BATCH: &str = "there must be exactly one record batch for a partition";

pub(super) fn handle(state: &mut State, context: &Context, request: Request) -> HandlerResult<Response> {
    let mut response = Response::default();
    let mut failed = false;
    if let Some(id) = &request.transactional_id
        && let Err(code) = state.check(context, Operation::Write, Resource::TransactionalId(id))
    {
        return reject(state, context, request, code);
    }
    // Since 2.8, writing to the topic is enough (KIP-679).
    if state.release.is_some_and(|release| release < Release::V2_8)
        && request.transactional_id.is_none()
        && request.topic_data.iter().flat_map(|topic| &topic.partition_data).any(is_idempotent)
        && let Err(code) = state.check(context, Operation::IdempotentWrite, Resource::Cluster)
    {
        return reject(state, context, request, code);
    }
    for topic in request.topic_data {
        let mut partition_responses = Vec::with_capacity(topic.partition_data.len());
        let by_id = context.version >= 13;
        let name = match by_id {
            true => state.topics.name_of(topic.topic_id).map(str::to_owned),
            false => Some(topic.name.clone()),
        };
        let topic_error = state.check_topic(context, Operation::Write, &topic.name, topic.topic_id).err();
        for data in topic.partition_data {
            let partition_response = match (&name, request.acks) {
                _ if let Some(code) = topic_error => partition_error(data.index, code.into()),
                (None, _) => partition_error(data.index, ErrorCode::UNKNOWN_TOPIC_ID.into()),
                (Some(name), _) if is_internal(name) && context.client_id.as_deref() != Some(ADMIN_CLIENT) => {
                    let why = format!("Cannot append to internal topic {name}");
                    partition_error(data.index, ApiError::new(ErrorCode::INVALID_TOPIC_EXCEPTION, why))
                }
                (Some(name), acks @ -1..) if acks <= 1 || allows_any_acks(state) => {
                    append(state, context, name, data, request.acks, request.transactional_id.as_deref())
                }
                _ => partition_error(data.index, ErrorCode::INVALID_REQUIRED_ACKS.into()),
            };
            failed |= partition_response.error_code.is_error();
            let leader = partition_response.current_leader.leader_id;
            if context.version >= 10 && !response.node_endpoints.iter().any(|n| n.node_id == leader) {
                response.node_endpoints.extend(node_endpoint!(state, leader));
            }
            partition_responses.push(partition_response);
        }
        response.responses.push(TopicResponse { name: topic.name, topic_id: topic.topic_id, partition_responses });
    }
    if request.acks != 0 || !failed {
        response.throttle_time_ms = millis(state.meter(context, PRODUCER, context.body_size));
    }
    match (request.acks, failed) {
        (0, false) => HandlerResult::NoReply,
        // With acks=0 there is no response, so Kafka closes the connection: the client notices and looks up the leader
        // again.
        (0, true) => HandlerResult::Close,
        _ => HandlerResult::Reply(response),
    }
}

fn reject(state: &mut State, context: &Context, request: Request, code: ErrorCode) -> HandlerResult<Response> {
    if request.acks == 0 {
        return HandlerResult::Close;
    }
    let throttle_time_ms = millis(state.meter(context, PRODUCER, context.body_size));
    HandlerResult::Reply(Response { throttle_time_ms, ..request.response_with(code) })
}

/// Returns whether the records have a producer ID.
fn is_idempotent(data: &PartitionData) -> bool {
    let header = data.records.as_ref().and_then(|records| Header::parse(records).ok().flatten());
    header.is_some_and(|header| header.producer_id >= 0)
}

/// Returns whether the release allows any number of acknowledgements, as releases before 0.9 do.
fn allows_any_acks(state: &State) -> bool {
    state.release.is_some_and(|release| release < Release::V0_9_0)
}

fn append(
    state: &mut State,
    context: &Context,
    name: &str,
    data: PartitionData,
    acks: i16,
    transactional_id: Option<&str>,
) -> PartitionResponse {
    let State { topics, memory, woken, transactions, down, journal, .. } = state;
    let Some(topic) = topics.get_mut(name) else {
        let code = if valid_name(name).is_ok() {
            ErrorCode::UNKNOWN_TOPIC_OR_PARTITION
        } else {
            ErrorCode::INVALID_TOPIC_EXCEPTION
        };
        return partition_error(data.index, code.into());
    };
    let log_append_time = topic.configs.uses_log_append_time.then_some(context.clock.wall_ms);
    let configs = topic.configs.clone();
    let Some(partition) = topic.partition(data.index) else {
        return partition_error(data.index, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.into());
    };
    if let Err(code) = partition.check_leader(context.node, -1) {
        let current_leader = LeaderIdAndEpoch { leader_id: partition.leader, leader_epoch: partition.leader_epoch };
        return PartitionResponse { current_leader, ..partition_error(data.index, code.into()) };
    }
    let in_sync = partition.replicas.iter().filter(|id| !down.contains(id)).count();
    if acks == -1 && in_sync < configs.min_insync_replicas {
        return partition_error(data.index, ErrorCode::NOT_ENOUGH_REPLICAS.into());
    }
    let batches = match parse_batches(data.records, context, &configs) {
        Ok(batches) => batches,
        Err(error) => return partition_error(data.index, error),
    };
    for batch in &batches {
        match check_records(batch, (name, data.index), context, &configs) {
            Ok(rejected) if rejected.is_empty() => {}
            Ok(rejected) => return records_error(data.index, rejected),
            Err(error) => return partition_error(data.index, error),
        }
    }
    // Only old formats have several batches here, and they have no producer IDs.
    let Some(Batch { header, .. }) = batches.first() else {
        return partition_error(data.index, invalid(ONE_BATCH));
    };
    let batches_memory: usize = batches.iter().map(|batch| Log::batch_memory(batch.data.len())).sum();
    if header.is_transactional() && !partition.producers.is_open(header) {
        let Some(id) = transactional_id else {
            return partition_error(data.index, ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED.into());
        };
        let protocol = match context.version {
            ..11 => Protocol::V1,
            11 => Protocol::V1Abortable,
            _ => Protocol::V2,
        };
        let producer = ProducerId { id: header.producer_id, epoch: header.producer_epoch };
        let verified = transactions.verify_or_add(memory, context.clock, id, producer, (name, data.index), protocol);
        if let Err(code) = verified {
            let message =
                (code == ErrorCode::INVALID_TXN_STATE).then_some("Partition was not added to the transaction");
            return partition_error(data.index, ApiError { code, message: message.map(str::to_owned) });
        }
        // With protocol v2, the partition knows every epoch from a marker or from its first batch.
        if protocol == Protocol::V2 && header.base_sequence != 0 && !partition.producers.knows(producer.id) {
            return partition_error(data.index, ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER.into());
        }
    }
    let (base_offset, log_append_time) = match partition.producers.check(header) {
        Err((code, message)) => return partition_error(data.index, ApiError::new(code, message)),
        Ok(SequenceCheck::Duplicate { base_offset, log_append_time }) => (base_offset, log_append_time),
        Ok(SequenceCheck::New) if memory.try_reserve(batches_memory + partition.producers.added_memory(header)) => {
            let base_offset = partition.log.end_offset();
            let rolling = configs.rolling(context.clock.wall_ms);
            for batch in &batches {
                partition.log.append(&batch.data, &batch.header, partition.leader_epoch, log_append_time, rolling);
            }
            partition.producers.remember(header, base_offset, log_append_time);
            journal.append(|| Entry::batch(name, data.index, context.clock, partition.log.newest(base_offset)));
            woken.extend(partition.waiters.iter());
            (base_offset, log_append_time)
        }
        Ok(SequenceCheck::New) => {
            // Kafka returns this code to versions before 4, which do not know the other.
            let code = match context.version {
                ..4 => ErrorCode::NOT_LEADER_OR_FOLLOWER,
                _ => ErrorCode::KAFKA_STORAGE_ERROR,
            };
            let (limit, _) = memory.limit_and_free();
            let message = format!("the dev broker's memory limit of {limit} bytes is reached");
            return partition_error(data.index, ApiError::new(code, message));
        }
    };
    PartitionResponse {
        index: data.index,
        base_offset,
        log_append_time_ms: log_append_time.unwrap_or(-1),
        log_start_offset: partition.log.start_offset(),
        ..PartitionResponse::default()
    }
}

fn partition_error(index: i32, error: ApiError) -> PartitionResponse {
    PartitionResponse {
        index,
        error_code: error.code,
        base_offset: -1,
        error_message: error.message,
        ..PartitionResponse::default()
    }
}

/// Lists the rejected records, so that the client can distinguish them from valid records in the same batch (KIP-467).
/// If a timestamp is rejected, the batch has the error code of the timestamp.
fn records_error(index: i32, rejected: Vec<(i32, ApiError)>) -> PartitionResponse {
    let error = if rejected.iter().any(|(_, error)| error.code == ErrorCode::INVALID_TIMESTAMP) {
        ApiError::new(ErrorCode::INVALID_TIMESTAMP, "One or more records have been rejected due to invalid timestamp")
    } else {
        let count = rejected.len();
        invalid(&format!("One or more records have been rejected due to {count} record errors in total"))
    };
    let record_error =
        |(batch_index, error): (i32, ApiError)| RecordError { batch_index, batch_index_error_message: error.message };
    PartitionResponse {
        record_errors: rejected.into_iter().map(record_error).collect(),
        ..partition_error(index, error)
    }
}

fn invalid(why: &str) -> ApiError {
    ApiError::new(ErrorCode::INVALID_RECORD, why)
}

fn corrupt(why: impl ToString) -> ApiError {
    ApiError::new(ErrorCode::CORRUPT_MESSAGE, why.to_string())
}

/// Parses and checks the batch of a partition, or converts old messages to batches.
fn parse_batches(records: Option<Bytes>, context: &Context, configs: &Configs) -> Result<Vec<Batch>, ApiError> {
    let data = records.unwrap_or_default();
    let batches = match data.get(16).copied() {
        Some(2) => vec![parse_single_batch(data, configs)?],
        Some(0 | 1) if context.version < 3 => convert_messages(data, configs)?,
        Some(_) => return Err(invalid("only record batches with magic 2 are allowed")),
        None => return Err(invalid(ONE_BATCH)),
    };
    for batch in &batches {
        check_header(&batch.header, batch.data.len(), context)?;
    }
    Ok(batches)
}

/// Parses the batch. Fails if the data has more than one batch, or if the batch is damaged or too large.
fn parse_single_batch(data: Bytes, configs: &Configs) -> Result<Batch, ApiError> {
    let header = match Header::parse(&data) {
        Ok(Some(header)) => header,
        Ok(None) => return Err(corrupt("the record batch is incomplete")),
        Err(e) => return Err(corrupt(e)),
    };
    if header.size() != data.len() {
        return Err(invalid(ONE_BATCH));
    }
    let batch = Batch { header, data };
    check_size(&batch, configs)?;
    batch.check_crc().map_err(corrupt)?;
    Ok(batch)
}

fn convert_messages(data: Bytes, configs: &Configs) -> Result<Vec<Batch>, ApiError> {
    for message in crate::record::batches(data.clone()) {
        let message = message.map_err(corrupt)?;
        check_size(&message, configs)?;
        if message.header.magic > 1 {
            return Err(invalid("messages and record batches cannot be mixed"));
        }
        if matches!(message.header.compression(), None | Some(Compression::Zstd)) {
            let why = "message formats 0 and 1 do not support this compression";
            return Err(ApiError::new(ErrorCode::UNSUPPORTED_COMPRESSION_TYPE, why));
        }
    }
    formats::up(data).map_err(corrupt)
}

fn check_size(batch: &Batch, configs: &Configs) -> Result<(), ApiError> {
    let (size, limit) = (batch.data.len(), configs.max_message_bytes);
    if size > limit {
        let why = format!("the record batch has {size} bytes, but max.message.bytes of the topic is {limit}");
        return Err(ApiError::new(ErrorCode::MESSAGE_TOO_LARGE, why));
    }
    Ok(())
}

/// Returns the records that the topic rejects, with the reasons. For example, a compacted topic requires keys.
fn check_records(
    batch: &Batch,
    (topic, index): (&str, i32),
    context: &Context,
    configs: &Configs,
) -> Result<Vec<(i32, ApiError)>, ApiError> {
    let now = context.clock.wall_ms;
    let valid_timestamps =
        now.saturating_sub(configs.timestamp_before_max_ms)..=now.saturating_add(configs.timestamp_after_max_ms);
    // The header has only the latest timestamp.
    let is_in_time = configs.uses_log_append_time
        || (*valid_timestamps.start() <= 0 && *valid_timestamps.end() >= batch.header.max_timestamp);
    if is_in_time && !configs.compact && batch.header.compression() == Some(Compression::None) {
        return Ok(Vec::new());
    }
    let mut records = batch.records(DEFAULT_LIMIT).map_err(unreadable)?;
    let mut rejected = Vec::new();
    let mut index_in_batch = 0;
    while let Some(view) = records.next_view() {
        let view = view.map_err(unreadable)?;
        let timestamp = view.timestamp();
        if configs.compact && view.key().is_none() {
            let why = format!("Compacted topic cannot accept message without key in topic partition {topic}-{index}.");
            rejected.push((index_in_batch, invalid(&why)));
        } else if !is_in_time && timestamp >= 0 && !valid_timestamps.contains(&timestamp) {
            let why = format!("timestamp {timestamp} is outside the range that the topic allows");
            rejected.push((index_in_batch, ApiError::new(ErrorCode::INVALID_TIMESTAMP, why)));
        }
        index_in_batch += 1;
    }
    if rejected.is_empty() && !is_in_time && !valid_timestamps.contains(&batch.header.max_timestamp) {
        let why = format!("no record has the batch's timestamp {}", batch.header.max_timestamp);
        return Err(ApiError::new(ErrorCode::INVALID_TIMESTAMP, why));
    }
    Ok(rejected)
}

/// Returns the error for damaged records. Kafka has no code of its own for bytes that its decompressor rejects.
fn unreadable(error: Error) -> ApiError {
    let code = match error.reason() {
        Reason::Compression(_) => ErrorCode::UNKNOWN_SERVER_ERROR,
        _ => ErrorCode::INVALID_RECORD,
    };
    ApiError::new(code, error.to_string())
}

fn check_header(header: &Header, size: usize, context: &Context) -> Result<(), ApiError> {
    let invalid = |why| Err(invalid(why));
    if header.is_control() {
        return invalid("clients may not write control batches");
    }
    if header.count < 1 || header.last_offset_delta != header.count - 1 {
        return invalid("the number of records does not match the offsets of the batch");
    }
    if header.producer_id >= 0 && (header.producer_epoch < 0 || header.base_sequence < 0) {
        return invalid("a batch with a producer ID needs an epoch and a sequence");
    }
    match header.compression() {
        None => return invalid("unknown compression type"),
        Some(Compression::None) if header.count as usize > size.saturating_sub(HEADER_SIZE) / MIN_RECORD => {
            return invalid("the batch is too small for its number of records");
        }
        Some(Compression::Zstd) if context.version < 7 => {
            let why = "zstd needs Produce v7 or later";
            return Err(ApiError::new(ErrorCode::UNSUPPORTED_COMPRESSION_TYPE, why));
        }
        Some(_) => {}
    }
    Ok(())
}
