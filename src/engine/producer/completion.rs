//! Completes batches: handles produce responses and timeouts, and decides which batches succeed, retry or fail.
//!
//! A retried batch returns to its partition's queue (`batch.rs`). If a batch has a sequence number and fails for good,
//! it leaves a gap in the sequence. After a gap, the producer needs a new epoch (`producer_id.rs`), or must abort the
//! transaction (`transaction`).

use super::batch::{Batch, Partition};
use super::transaction::{MARKERS_WAIT, Step};
use super::{Flight, Producer, Sent};
use crate::api::{ErrorCode, init_producer_id, produce};
use crate::engine::ops::{UNKNOWN_TOPIC_DENIALS, UNKNOWN_TOPIC_GRACE};
use crate::engine::{Broker, Error, ErrorKind, LARGE_REQUEST, LeaderChange, Reply, Time, log_throttle, wait_after};
use crate::logging::Component;
use crate::wire::Uuid;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

/// The records that a broker blames for the refusal of a batch (KIP-467), by index, with the error of each.
type BadRecords = BTreeMap<i32, Error>;

/// The partitions of a response, by topic name or topic ID, and partition.
type ByPartition<'a> = HashMap<(&'a str, Uuid, i32), &'a produce::PartitionResponse>;

fn by_partition(response: &produce::Response) -> ByPartition<'_> {
    let mut found = ByPartition::new();
    for t in &response.responses {
        let (name, id) = if t.topic_id.is_zero() { (&*t.name, Uuid::ZERO) } else { ("", t.topic_id) };
        for p in &t.partition_responses {
            found.entry((name, id, p.index)).or_insert(p);
        }
    }
    found
}

/// How often in a row a broker may close the connection at a large batch before the batch fails.
const MAX_CLOSINGS: u32 = 3;

/// The hint for a missing permission for idempotence.
const IDEMPOTENT_WRITE: &str = "ask an administrator for an ACL that allows IDEMPOTENT_WRITE on the cluster, or WRITE on any topic from \
                                Kafka 2.8 on; or set enable.idempotence=false";

impl<D> Producer<D> {
    /// Fails a batch for good. If it had a sequence number, that leaves a gap and the producer needs a new epoch.
    fn fail(&mut self, now: Time, topic: usize, partition: usize, batch: Batch<D>, error: Error) {
        self.note_failure(now, topic, partition, &batch, &error);
        self.complete(topic, partition, batch, Err(error));
        self.apply_transaction_effects();
    }

    fn note_failure(&mut self, now: Time, topic: usize, partition: usize, batch: &Batch<D>, error: &Error) {
        // A timeout is logged where it is made, and a close is no failure.
        if !matches!(error.kind(), ErrorKind::Timeout | ErrorKind::Closed) {
            self.log_failure(now, topic, Some(partition), error);
        }
        if batch.producer.is_some() {
            self.producer_id.drain();
        }
        if let Some(transactions) = &mut self.transactions {
            transactions.batch_failed(error);
        }
    }

    /// Fails the records that the broker blamed (KIP-467), and retries the rest of the batch without them. The whole batch
    /// fails if an earlier attempt may have written it.
    fn fail_records(
        &mut self,
        now: Time,
        topic: usize,
        partition: usize,
        batch: Batch<D>,
        error: Error,
        bad: BadRecords,
    ) {
        let is_bad = |index: i32| bad.contains_key(&index);
        let mut refused = if (0..batch.count).all(is_bad) {
            batch
        } else if batch.may_be_written {
            return self.fail(now, topic, partition, batch, error);
        } else {
            match batch.divide(|index| !is_bad(index)) {
                Ok((rest, refused)) => {
                    if let Some(p) = self.partition(topic, partition) {
                        let created = rest.created;
                        p.put_back(rest);
                        self.note_unsent(topic, partition, created);
                    }
                    refused
                }
                Err(batch) => return self.fail(now, topic, partition, *batch, error),
            }
        };
        self.note_failure(now, topic, partition, &refused, &error);
        self.note_result(topic, &refused, false);
        let mut deliveries = std::mem::take(&mut refused.deliveries);
        for (index, error) in (0..).zip(bad.into_values()) {
            let later = deliveries.split_off(deliveries.partition_point(|d| d.index <= index));
            let deliveries = std::mem::replace(&mut deliveries, later);
            self.report(topic, partition, 1, deliveries, Err(error));
        }
        self.forget(refused);
        self.apply_transaction_effects();
    }

    pub(super) fn handle_produced(&mut self, now: Time, node: i32, sent: Sent<D>, result: Result<Reply, Error>) {
        let Sent { flights, at, bytes } = sent;
        let acks = self.config.acks;
        if let Some(n) = self.in_flight.get_mut(&node) {
            *n = n.saturating_sub(1);
        }
        let response = match result {
            Ok(_) if acks == 0 => Ok(None),
            Ok(reply) => reply.decode::<produce::Response>().map(Some),
            Err(e) => Err(e),
        };
        self.brokers.entry(node).or_default().note_answer(bytes, now.since(at), response.is_ok());
        self.measure_request(now, at, &flights);
        if let Ok(Some(response)) = &response {
            self.note_response(now, node, response);
        }
        let response = response.as_ref().map(|response| response.as_ref().map(by_partition));
        let demands = flights.iter().map(|flight| flight.batch.demands()).max().unwrap_or_default();
        for mut flight in flights {
            if let Some(p) = self.partition(flight.topic, flight.partition) {
                p.answered(flight.number);
            }
            flight.batch.producer = Some(flight.producer).filter(|p| p.id >= 0);
            let until = flight.batch.created + self.config.delivery_timeout;
            let reports = self.unreported.remove(&(until, flight.topic, flight.partition, flight.number));
            let result = match &response {
                Ok(None) => Ok((-1, -1)),
                Ok(Some(response)) => self.result_of(&flight, response),
                Err(e) => Err(((*e).clone(), BadRecords::new())),
            };
            let Some(reports) = reports else {
                self.complete_expired(flight, result.is_ok());
                continue;
            };
            flight.batch.deliveries = reports.deliveries;
            match result {
                Ok(found) => {
                    if let Some(p) = self.partition(flight.topic, flight.partition) {
                        p.succeeded(flight.number);
                    }
                    self.complete(flight.topic, flight.partition, flight.batch, Ok(found));
                }
                Err((error, bad)) => {
                    let is_innocent = flight.batch.demands() < demands;
                    self.retry(now, node, flight, is_innocent, error, bad);
                }
            }
        }
        let in_flight = self.in_flight.values().sum();
        if self.producer_id.finish_draining(in_flight) {
            self.restart_sequences();
        }
    }

    /// Handles the response for a batch that failed earlier because its delivery timeout was over.
    fn complete_expired(&mut self, flight: Flight<D>, is_written: bool) {
        if is_written {
            if let Some(p) = self.partition(flight.topic, flight.partition) {
                p.succeeded(flight.number);
            }
        } else if flight.batch.producer.is_some() {
            self.producer_id.drain();
        }
        self.give_back(flight.batch);
    }

    /// Applies what a response says besides results: new leaders (KIP-951), and the throttle time.
    fn note_response(&mut self, now: Time, node: i32, response: &produce::Response) {
        if response.throttle_time_ms > 0 {
            let wait = Duration::from_millis(response.throttle_time_ms.unsigned_abs().into());
            // Responses to other requests in flight must not shorten it.
            let until = self.throttled.entry(node).or_insert(now);
            *until = (*until).max(now + wait);
            self.brokers.entry(node).or_default().throttled += wait;
            self.measured.note_throttle(now, wait);
            log_throttle(Component::Producer, &self.cluster, node, wait);
        }
        let mut moved = Vec::new();
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
                moved.push(LeaderChange {
                    topic: topic.name.clone(),
                    partition: p.index,
                    leader: p.current_leader.leader_id,
                    leader_epoch: p.current_leader.leader_epoch,
                    broker,
                });
            }
        }
        if !moved.is_empty() {
            self.cluster = Arc::new(self.cluster.with_leader_changes(&moved));
            self.demand.leader_changes.extend(moved);
        }
    }

    /// Returns the base offset and the log-append time of a batch, or its error and the records to blame.
    fn result_of(&self, flight: &Flight<D>, response: &ByPartition<'_>) -> Result<(i64, i64), (Error, BadRecords)> {
        let (name, id) = self.topics.get(flight.topic).map_or(("", Uuid::ZERO), |t| (&*t.name, t.id));
        let partition = flight.partition as i32;
        let by_id = || response.get(&("", id, partition));
        let Some(p) = response.get(&(name, Uuid::ZERO, partition)).or_else(by_id) else {
            let message = format!("the produce response has no result for {name}-{}", flight.partition);
            return Err((Error::new(ErrorKind::Decode, message), BadRecords::new()));
        };
        match p.error_code {
            ErrorCode::NONE => Ok((p.base_offset, p.log_append_time_ms)),
            // The broker has the batch, but no longer knows its offset.
            ErrorCode::DUPLICATE_SEQUENCE_NUMBER => Ok((-1, -1)),
            code => {
                let refused = |code, why: Option<&String>| {
                    let why = why.map_or_else(String::new, |why| format!(" ({why})"));
                    Error::refused(code, format!("produce to {name}-{}{why}", flight.partition))
                };
                // The code belongs to the batch. If it blames more than one record, it need not apply to each.
                let of_record = if p.record_errors.len() > 1 { ErrorCode::INVALID_RECORD } else { code };
                let whole = p.error_message.as_ref();
                let bad = p.record_errors.iter().filter(|e| (0..flight.batch.count).contains(&e.batch_index));
                let bad = bad.map(|e| {
                    let why = e.batch_index_error_message.as_ref().or(whole);
                    (e.batch_index, refused(of_record, why))
                });
                let any = p.record_errors.iter().find_map(|e| e.batch_index_error_message.as_ref());
                Err((refused(code, whole.or(any)), bad.collect()))
            }
        }
    }

    /// Retries a batch after an error, or fails it. `is_innocent` means that other batches of the request needed a
    /// feature that this one does not need.
    fn retry(&mut self, now: Time, node: i32, flight: Flight<D>, is_innocent: bool, error: Error, bad: BadRecords) {
        let Flight { topic, partition, mut batch, .. } = flight;
        let code = error.code().unwrap_or(ErrorCode::NONE);
        // Batches of an aborted transaction must not reach the next one.
        let is_wanted = self.transactions.as_ref().is_none_or(|t| t.is_wanted());
        let too_large = matches!(code, ErrorCode::MESSAGE_TOO_LARGE | ErrorCode::RECORD_LIST_TOO_LARGE);
        if too_large && batch.count > 1 && is_wanted {
            // If the whole batch may be in the log, the broker would not recognize its halves as duplicates.
            return match batch.may_be_written && batch.producer.is_some() {
                true => self.fail(now, topic, partition, batch, error),
                false => self.split(now, topic, partition, batch, &error),
            };
        }
        // After a batch that failed or may still fail, this error is expected. For the first batch of a partition it
        // means that the broker lost acknowledged batches.
        let out_of_order = code == ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER;
        let follows = out_of_order && self.partition(topic, partition).is_some_and(|p| p.follows_another(&batch));
        let lost = (out_of_order && !follows)
            || matches!(code, ErrorCode::UNKNOWN_PRODUCER_ID | ErrorCode::INVALID_PRODUCER_EPOCH);
        // A log in an older message format cannot store producer IDs and sequence numbers.
        let is_old_log = code == ErrorCode::UNSUPPORTED_FOR_MESSAGE_FORMAT
            && batch.producer.is_some()
            && self.producer_id.is_optional(self.config.idempotence_required);
        if is_old_log {
            self.producer_id.renounce();
            batch.producer = None;
        }
        // A transaction that lost batches can only be aborted.
        let restarts = lost && self.producer_id.is_idempotent() && self.transactions.is_none();
        // The result is unknown if the response cannot be decoded. A retry is safe: the broker recognizes duplicates.
        let undecoded = error.kind() == ErrorKind::Decode && batch.producer.is_some();
        // Other batches of the request needed the missing feature, and fail. The retry goes without them.
        let is_innocent = code == ErrorCode::UNSUPPORTED_VERSION && is_innocent;
        let again = error.is_retriable()
            || restarts
            || follows
            || undecoded
            || is_innocent
            || is_old_log
            || code == ErrorCode::CONCURRENT_TRANSACTIONS;
        let again = again && is_wanted;
        let leader = self.topics.get(topic).and_then(|t| self.cluster.leader(&t.name, partition as i32));
        let has_moved = code.is_stale_metadata() && leader.is_some_and(|(leader, _)| leader != node);
        if (code.is_stale_metadata() && !has_moved) || error.kind() == ErrorKind::Network {
            self.demand.refresh = true;
        }
        if restarts {
            // A partition with batches of the old epoch enters the new epoch later anyway.
            if self.partition(topic, partition).is_none_or(|p| !p.is_behind_epoch) {
                self.producer_id.drain();
            }
        }
        if !again && is_wanted && !bad.is_empty() {
            return self.fail_records(now, topic, partition, batch, error, bad);
        }
        batch.attempts += 1;
        batch.may_be_written |= matches!(
            error.code(),
            None | Some(ErrorCode::REQUEST_TIMED_OUT | ErrorCode::NOT_ENOUGH_REPLICAS_AFTER_APPEND)
        );
        let is_oversized = error.kind() == ErrorKind::Oversized && batch.bytes >= LARGE_REQUEST;
        batch.closings = if is_oversized { batch.closings + 1 } else { 0 };
        // The records after it must not wait for a batch that no broker will take.
        let again = again && batch.closings < MAX_CLOSINGS;
        if !again || batch.attempts > self.config.retries || now >= batch.created + self.config.delivery_timeout {
            return self.fail(now, topic, partition, batch, error);
        }
        // The seed depends on the time, so that batches which fail together are retried together.
        let wait = wait_after(batch.attempts, self.config.retry_backoff, self.config.seed ^ now.0);
        let wait = match code {
            ErrorCode::CONCURRENT_TRANSACTIONS => wait.min(MARKERS_WAIT),
            // The refusal named the new leader.
            _ if has_moved => Duration::ZERO,
            _ => wait,
        };
        self.note_retry(now, topic, batch.count);
        batch.error = Some(error);
        if let Some(p) = self.partition(topic, partition) {
            // A batch that follows another waits only for that one.
            if !follows {
                p.retry_at = now + wait;
            }
            let (created, retry_at) = (batch.created, p.retry_at);
            p.requeue(batch);
            // The broker does not have this batch, or it would know the producer. So it has none of the later ones either.
            if restarts && p.in_flight() == 0 {
                p.forget_sequences();
            }
            self.wake_ups.insert((retry_at, topic, partition));
            self.note_unsent(topic, partition, created);
        }
    }

    /// Notes that a partition has a batch to retry, and when that batch was created.
    fn note_unsent(&mut self, topic: usize, partition: usize, created: Time) {
        self.active.insert((topic, partition));
        self.unsent_expiry = self.unsent_expiry.min(created + self.config.delivery_timeout);
    }

    /// Splits a batch that is too large for the broker; its records may not be.
    fn split(&mut self, now: Time, topic: usize, partition: usize, batch: Batch<D>, error: &Error) {
        match batch.split() {
            Ok((first, second)) => {
                self.measured.note_split();
                let Some(p) = self.partition(topic, partition) else {
                    return;
                };
                let created = first.created;
                p.requeue(second);
                p.requeue(first);
                self.note_unsent(topic, partition, created);
            }
            Err(batch) => self.fail(now, topic, partition, *batch, error.clone()),
        }
    }

    pub(super) fn restart_sequences(&mut self) {
        self.topics.iter_mut().flat_map(|t| &mut t.partitions).for_each(Partition::enter_epoch);
    }

    pub(super) fn handle_transaction(&mut self, now: Time, step: Step, result: Result<Reply, Error>) {
        let Some(transactions) = &mut self.transactions else {
            return;
        };
        if result.as_ref().is_err_and(|e| e.kind() == ErrorKind::Network) {
            self.demand.refresh = true;
        }
        transactions.handle_response(now, step, result);
        self.apply_transaction_effects();
    }

    pub(super) fn handle_producer_id(&mut self, now: Time, result: Result<Reply, Error>) {
        let tried = "get a producer ID";
        let result = result
            .and_then(Reply::decode::<init_producer_id::Response>)
            .and_then(|r| r.error_code.check().map(|()| r).map_err(|code| Error::refused(code, tried)));
        match result {
            Ok(r) => self.producer_id.set(r.producer_id, r.producer_epoch),
            // Brokers before 2.8 demand an ACL of its own for idempotence, which is klamm's default and not theirs.
            Err(e)
                if matches!(
                    e.code(),
                    Some(ErrorCode::UNSUPPORTED_VERSION | ErrorCode::CLUSTER_AUTHORIZATION_FAILED)
                ) && !self.config.idempotence_required =>
            {
                self.producer_id.renounce();
            }
            Err(e) => {
                self.producer_id.refused(now);
                let e = match e.code() {
                    Some(ErrorCode::CLUSTER_AUTHORIZATION_FAILED) => e.with_hint(IDEMPOTENT_WRITE),
                    _ => e,
                };
                if !e.is_retriable() && e.kind() != ErrorKind::Decode {
                    self.fail_all(&e);
                }
            }
        }
    }

    /// Fails batches whose delivery timeout is over.
    pub(super) fn expire(&mut self, now: Time) {
        let limit = self.config.delivery_timeout;
        while let Some(first) = self.unreported.first_entry().filter(|e| e.key().0 <= now) {
            // The response still shows whether the broker wrote it. Until then the batch keeps its sequence number and
            // memory.
            let ((_, topic, partition, _), reports) = first.remove_entry();
            let error = self.timed_out(now, topic, Some(partition), limit, reports.error);
            if let Some(t) = self.topics.get_mut(topic) {
                t.metrics.errors += u64::from(reports.count.unsigned_abs());
            }
            self.note_failed_records(topic, reports.count);
            if let Some(transactions) = &mut self.transactions {
                transactions.batch_failed(&error);
            }
            self.report(topic, partition, reports.count, reports.deliveries, Err(error));
            self.pending.remove(reports.flush_epoch, u64::from(reports.count.unsigned_abs()));
            self.apply_transaction_effects();
        }
        if now >= self.unsent_expiry {
            self.expire_unsent(now);
        }
        if self.producer_id.finish_draining(self.in_flight.values().sum()) {
            self.restart_sequences();
        }
    }

    /// Fails unsent batches whose delivery timeout is over, and computes the next such time.
    fn expire_unsent(&mut self, now: Time) {
        let limit = self.config.delivery_timeout;
        self.unsent_expiry = Time::NEVER;
        let mut from = (0, 0);
        while let Some(&(topic, partition)) = self.active.range(from..).next() {
            from = (topic, partition + 1);
            let Some(p) = self.partition(topic, partition) else {
                continue;
            };
            if p.open.as_ref().is_some_and(|b| b.created + limit <= now) {
                p.close_open();
            }
            while let Some(p) = self.partition(topic, partition) {
                let Some(batch) = p.queue.pop_front_if(|b| b.created + limit <= now) else {
                    break;
                };
                let error = self.timed_out(now, topic, Some(partition), limit, batch.error.clone());
                self.fail(now, topic, partition, batch, error);
            }
            let Some(p) = self.partition(topic, partition) else {
                continue;
            };
            let left = [p.queue.front(), p.open.as_ref()].into_iter().flatten().map(|batch| batch.created).min();
            match left {
                Some(created) => self.unsent_expiry = self.unsent_expiry.min(created + limit),
                None => drop(self.active.remove(&(topic, partition))),
            }
        }
    }

    /// Fails everything unsent, because no broker accepts the client's credentials.
    pub(super) fn handle_refusal(&mut self, now: Time, error: &Error) {
        if let Some(transactions) = &mut self.transactions {
            transactions.handle_refusal(error);
            self.apply_transaction_effects();
        }
        while let Some(topic) = self.waiting_topics.pop_first() {
            self.fail_waiting(topic, error);
        }
        while let Some((topic, partition)) = self.active.pop_first() {
            if let Some(p) = self.partition(topic, partition) {
                p.close_open();
            }
            while let Some(batch) = self.partition(topic, partition).and_then(|p| p.queue.pop_front()) {
                self.fail(now, topic, partition, batch, error.clone());
            }
        }
        if self.producer_id.finish_draining(self.in_flight.values().sum()) {
            self.restart_sequences();
        }
    }

    /// Fails records that waited too long for the metadata of their topic, or whose topic has an error.
    pub(super) fn expire_waiting(&mut self, now: Time) {
        let limit = self.config.max_block.min(self.config.delivery_timeout);
        let mut has_failed = false;
        let mut from = 0;
        while let Some(&topic) = self.waiting_topics.range(from..).next() {
            from = topic + 1;
            let Some(t) = self.topics.get(topic) else {
                continue;
            };
            let Some(since) = t.waiting_since() else {
                continue;
            };
            let code = self.cluster.topics.get(&t.name).map_or(ErrorCode::NONE, |known| known.error);
            let unknown = code == ErrorCode::UNKNOWN_TOPIC_OR_PARTITION
                && t.denials >= UNKNOWN_TOPIC_DENIALS
                && now >= since + UNKNOWN_TOPIC_GRACE.min(limit);
            if unknown || (code.is_error() && !code.is_retriable()) {
                let error = Error::refused(code, format!("produce to topic {:?}", t.name));
                self.fail_waiting(topic, &error);
                has_failed = true;
            } else if now >= since + limit {
                let why = Some(code).filter(|c| c.is_error()).map(|c| Error::refused(c, format!("topic {:?}", t.name)));
                let error = self.timed_out(now, topic, None, limit, why);
                self.fail_waiting(topic, &error);
                has_failed = true;
            }
        }
        if has_failed {
            self.forget_topics(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Event, NewRecord, Packet, Partitioner, ProducerConfig, ProducerToken};
    use super::*;
    use crate::api;
    use crate::engine::cluster::{self, Cluster};
    use crate::engine::{ClientResponse, Role};

    const SECOND: u64 = 1_000_000;

    /// An idempotent producer that knows its topic, which a broker of node 1 leads.
    fn producer() -> Producer<u32> {
        let mut producer = Producer::new(ProducerConfig {
            acks: -1,
            linger: Duration::ZERO,
            batch_size: 1_000,
            buffer_memory: 3_000,
            max_request_size: 1_000,
            compression: crate::compress::Compression::None.into(),
            delivery_timeout: Duration::from_secs(4),
            request_timeout: Duration::from_secs(10),
            max_block: Duration::from_secs(30),
            retry_backoff: (Duration::from_millis(50), Duration::from_millis(50)),
            retries: u32::MAX,
            idempotent: true,
            idempotence_required: false,
            transactions: None,
            partitioner: Partitioner::Murmur2,
            adaptive: false,
            max_in_flight: 5,
            metadata_max_idle: Duration::from_secs(300),
            seed: 7,
        });
        producer.topic("t").unwrap();
        let one = cluster::Partition { leader: 1, leader_epoch: 0, replicas: vec![1], isr: vec![1], older: 0 };
        let (id, error) = (Uuid::ZERO, ErrorCode::NONE);
        let topic = cluster::Topic { id, error, internal: false, partitions: vec![one] };
        let broker = Broker { id: 1, host: "h".to_owned(), port: 1, rack: None };
        let (topics, brokers) = ([(Arc::from("t"), topic)].into(), [(1, broker)].into());
        producer.handle_cluster(Time(0), &Arc::new(Cluster { topics, brokers, ..Cluster::default() }));
        producer
    }

    fn send(producer: &mut Producer<u32>, now: Time, completion: u32) {
        let topic = producer.topic("t").unwrap();
        let value = Some(&b"v"[..]);
        let (partition, timestamp) = (Some(0), 0);
        let record = NewRecord { partition, timestamp, is_timed: false, key: None, value, headers: &[] };
        producer.append(now, topic, &record, Some(completion)).unwrap();
    }

    /// Returns the token and the deadline of the next produce request; answers InitProducerId.
    fn next(producer: &mut Producer<u32>, now: Time) -> Option<(ProducerToken<u32>, Time)> {
        producer.handle_timeout(now);
        loop {
            let packet = producer.poll_send(now)?;
            let is_batches = matches!(packet, Packet::Produce(_));
            let outgoing = Producer::pack(packet);
            if is_batches {
                return Some((outgoing.token, outgoing.deadline.time()));
            }
            let given = init_producer_id::Response { producer_id: 5, ..Default::default() };
            answer(producer, now, outgoing.token, Ok(given));
        }
    }

    fn answer<R: api::Message>(
        producer: &mut Producer<u32>,
        now: Time,
        token: ProducerToken<u32>,
        result: Result<R, Error>,
    ) {
        let reply = |response| Reply { version: 4, body: api::encode(4, &response).unwrap().into() };
        producer.handle_response(now, ClientResponse { token, node: 1, result: result.map(reply) });
    }

    fn produced(error_code: ErrorCode) -> Result<produce::Response, Error> {
        let partition = produce::PartitionResponse { error_code, base_offset: 3, ..Default::default() };
        let topic =
            produce::TopicResponse { name: "t".to_owned(), partition_responses: vec![partition], ..Default::default() };
        Ok(produce::Response { responses: vec![topic], ..Default::default() })
    }

    fn lost() -> Result<produce::Response, Error> {
        Err(Error::new(ErrorKind::Network, "lost"))
    }

    /// Returns the result of each record that completed: its offset, or the kind of its error.
    fn results(producer: &mut Producer<u32>) -> Vec<(u32, Result<i64, ErrorKind>)> {
        let of = |e: Event<u32>| {
            let result = e.result.map(|(offset, _)| offset).map_err(|error| error.kind());
            e.deliveries.into_iter().map(move |d| (d.completion, result.map(|offset| offset + i64::from(d.index))))
        };
        std::iter::from_fn(|| producer.poll_event()).flat_map(of).collect()
    }

    fn sequence(token: &ProducerToken<u32>) -> (i16, i32) {
        let ProducerToken::Produce(sent) = token else { panic!("no batches") };
        let [Flight { producer, .. }] = &sent.flights[..] else { panic!("several batches") };
        (producer.epoch, producer.base_sequence)
    }

    #[test]
    fn the_vacant_index_of_a_forgotten_topic_is_not_a_topic_with_an_empty_name() {
        let mut producer = producer();
        let topic = producer.topic("absent").unwrap();
        assert_eq!(producer.topic("absent").unwrap(), topic);
        let cluster = producer.cluster.clone();
        producer.handle_cluster(Time(SECOND), &cluster);
        assert_eq!(producer.vacant, [1]);
        assert_eq!(producer.topic("").map_err(|e| e.code()), Err(Some(ErrorCode::INVALID_TOPIC_EXCEPTION)));
    }

    #[test]
    fn a_batch_that_may_be_in_the_log_is_not_split_because_the_broker_would_not_recognize_the_halves() {
        for is_lost in [false, true] {
            let mut producer = producer();
            let now = Time(SECOND);
            (0..2).for_each(|completion| send(&mut producer, now, completion));
            let (mut token, _) = next(&mut producer, now).unwrap();
            let later = now + Duration::from_secs(1);
            if is_lost {
                answer(&mut producer, now, token, lost());
                token = next(&mut producer, later).unwrap().0;
            }
            answer(&mut producer, later, token, produced(ErrorCode::MESSAGE_TOO_LARGE));
            let continues = next(&mut producer, later).is_some();
            let failed = [(0, Err(ErrorKind::Broker)), (1, Err(ErrorKind::Broker))];
            assert_eq!(
                (continues, results(&mut producer)),
                if is_lost { (false, failed.into()) } else { (true, vec![]) }
            );
        }
    }

    #[test]
    fn a_batch_in_flight_fails_at_its_delivery_timeout_while_its_request_continues() {
        for result in [produced(ErrorCode::NONE), produced(ErrorCode::NOT_LEADER_OR_FOLLOWER), lost()] {
            let is_written = result.is_ok() && *result.as_ref().unwrap() == produced(ErrorCode::NONE).unwrap();
            let mut producer = producer();
            send(&mut producer, Time(SECOND), 0);
            let sent = Time(4 * SECOND);
            let (token, deadline) = next(&mut producer, sent).unwrap();
            // The broker must be reached by then.
            assert_eq!((sequence(&token), deadline), ((0, 0), Time(5 * SECOND)));
            assert_eq!(producer.next_timeout(sent), Some(Time(5 * SECOND)));
            let flush = producer.flush();
            producer.handle_timeout(Time(5 * SECOND));
            assert_eq!(results(&mut producer), [(0, Err(ErrorKind::Timeout))]);
            assert!(producer.is_flushed(flush) && producer.outstanding() == 0);
            assert!(producer.metrics().buffered_bytes > 0, "the request still holds the batch");
            answer(&mut producer, Time(6 * SECOND), token, result);
            assert_eq!(producer.metrics().buffered_bytes, 0);
            // If the batch is not in the log, the broker waits for its sequence number, so a new epoch starts.
            send(&mut producer, Time(7 * SECOND), 1);
            let (token, _) = next(&mut producer, Time(7 * SECOND)).unwrap();
            assert_eq!(sequence(&token), if is_written { (0, 1) } else { (1, 0) });
            answer(&mut producer, Time(7 * SECOND), token, produced(ErrorCode::NONE));
            assert_eq!(results(&mut producer), [(1, Ok(3))]);
        }
    }

    #[test]
    fn batches_in_flight_fail_when_the_client_closes() {
        let mut producer = producer();
        send(&mut producer, Time(SECOND), 0);
        let sent = next(&mut producer, Time(SECOND));
        assert!(sent.is_some());
        producer.abandon_all(&Error::new(ErrorKind::Closed, "closed"));
        assert_eq!(results(&mut producer), [(0, Err(ErrorKind::Closed))]);
    }
}
