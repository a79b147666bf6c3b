//! Reads produce responses: the result of each batch, the errors of single records (KIP-467), new leaders (KIP-951) and
//! the throttle time. `completion.rs` decides what happens to the batches.

use super::{InFlightBatch, Producer};
use crate::api::{ErrorCode, produce};
use crate::engine::{Broker, Error, ErrorKind, LeaderChange, Time, throttle};
use crate::logging::Component;
use crate::wire::Uuid;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

/// The errors of the records that caused a broker to reject a batch (KIP-467), by index in the batch.
pub(super) type RecordErrors = BTreeMap<i32, Error>;

/// The partitions of a response, by topic name, topic ID and partition number.
pub(super) type ByPartition<'a> = HashMap<(&'a str, Uuid, i32), &'a produce::PartitionResponse>;

/// Indexes the partitions of a response.
pub(super) fn by_partition(response: &produce::Response) -> ByPartition<'_> {
    let mut responses = ByPartition::new();
    for t in &response.responses {
        let (name, id) = if t.topic_id.is_zero() { (&*t.name, Uuid::ZERO) } else { ("", t.topic_id) };
        for p in &t.partition_responses {
            responses.entry((name, id, p.index)).or_insert(p);
        }
    }
    responses
}

impl<D> Producer<D> {
    /// Applies the contents of a response other than results: new leaders (KIP-951), and the throttle time.
    pub(super) fn note_response(&mut self, now: Time, node: i32, response: &produce::Response) {
        if response.throttle_time_ms > 0 {
            let requested = Duration::from_millis(response.throttle_time_ms.unsigned_abs().into());
            let wait = throttle(Component::Producer, &self.cluster, node, requested, self.config.request_timeout);
            // Responses to other requests in flight must not shorten the throttle time.
            let current = self.throttled.entry(node).or_insert((now, requested));
            *current = (*current).max((now + wait, requested));
            self.brokers.entry(node).or_default().throttled += requested;
            self.measured.note_throttle(now, requested);
        }
        let mut leader_changes = Vec::new();
        for t in &response.responses {
            for p in t.partition_responses.iter().filter(|p| p.current_leader.leader_id >= 0) {
                let by_name = self.by_name.get(&*t.name).and_then(|topic| self.topics.get(*topic));
                let by_id = || self.topics.iter().find(|topic| !t.topic_id.is_zero() && topic.id == t.topic_id);
                let Some(topic) = by_name.or_else(by_id) else {
                    continue;
                };
                let endpoint = response.node_endpoints.iter().find(|e| e.node_id == p.current_leader.leader_id);
                let broker = endpoint.and_then(|e| {
                    let (id, host, rack) = (e.node_id, e.host.clone(), e.rack.clone());
                    Some(Broker { id, host, port: u16::try_from(e.port).ok()?, rack })
                });
                leader_changes.push(LeaderChange {
                    topic: topic.name.clone(),
                    partition: p.index,
                    leader: p.current_leader.leader_id,
                    leader_epoch: p.current_leader.leader_epoch,
                    broker,
                });
            }
        }
        if !leader_changes.is_empty() {
            self.cluster = Arc::new(self.cluster.with_leader_changes(&leader_changes));
            self.demand.leader_changes.extend(leader_changes);
        }
    }

    /// Returns the base offset and the log-append time of a batch, or its error and the errors of its records.
    pub(super) fn result_of(
        &self,
        sent: &InFlightBatch<D>,
        response: &ByPartition<'_>,
    ) -> Result<(i64, i64), (Error, RecordErrors)> {
        let (name, id) = self.topics.get(sent.topic).map_or(("", Uuid::ZERO), |t| (&*t.name, t.id));
        let partition = sent.partition as i32;
        let by_id = || response.get(&("", id, partition));
        let Some(p) = response.get(&(name, Uuid::ZERO, partition)).or_else(by_id) else {
            let message = format!("the produce response has no result for {name}-{}", sent.partition);
            return Err((Error::new(ErrorKind::Decode, message), RecordErrors::new()));
        };
        match p.error_code {
            ErrorCode::NONE => Ok((p.base_offset, p.log_append_time_ms)),
            // The broker has the batch, but no longer knows its offset.
            ErrorCode::DUPLICATE_SEQUENCE_NUMBER => Ok((-1, -1)),
            code => {
                let refused = |code, why: Option<&String>| {
                    let why = why.map_or_else(String::new, |why| format!(" ({why})"));
                    Error::refused(code, format!("produce to {name}-{}{why}", sent.partition))
                };
                // The code belongs to the batch. If it blames more than one record, it need not apply to each.
                let record_code = if p.record_errors.len() > 1 { ErrorCode::INVALID_RECORD } else { code };
                let batch_message = p.error_message.as_ref();
                let rejected = p.record_errors.iter().filter(|e| (0..sent.batch.count).contains(&e.batch_index));
                let record_errors = rejected.map(|e| {
                    let why = e.batch_index_error_message.as_ref().or(batch_message);
                    (e.batch_index, refused(record_code, why))
                });
                let record_message = p.record_errors.iter().find_map(|e| e.batch_index_error_message.as_ref());
                Err((refused(code, batch_message.or(record_message)), record_errors.collect()))
            }
        }
    }
}
