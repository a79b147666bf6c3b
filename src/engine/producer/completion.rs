//! Completes batches: handles produce responses and timeouts, and decides which batches succeed, retry or fail.
//! `produce_response.rs` reads the responses.
//!
//! A retried batch returns to its partition's queue (`batch.rs`). If a batch has a sequence number and fails for good,
//! it leaves a gap in the sequence. After a gap, the producer needs a new epoch (`producer_id.rs`), or must abort the
//! transaction (`transaction`).

use super::batch::{Batch, Partition};
use super::produce_response::{RecordErrors, by_partition};
use super::transaction::{MARKERS_WAIT, Step};
use super::{InFlightBatch, InFlightRequest, Producer};
use crate::api::{ErrorCode, init_producer_id, produce};
use crate::engine::{Error, ErrorKind, LARGE_REQUEST, Reply, Time, wait_after};
use std::time::Duration;

/// How many times in a row a broker may close the connection while it receives a large batch. After that, the batch
/// fails.
const MAX_DISCONNECTS: u32 = 3;
/// How many times a batch is sent if a broker answers with a code that gives no reason.
const MAX_UNKNOWN: u32 = 5;

/// The hint if the client lacks the permission for idempotence.
const IDEMPOTENT_WRITE: &str = "ask an administrator for an ACL that allows IDEMPOTENT_WRITE on the cluster, or WRITE on any topic from \
                                Kafka 2.8 on; or set enable.idempotence=false";

impl<D> Producer<D> {
    /// Fails a batch for good. If the batch had a sequence number, it leaves a gap, and the producer needs a new epoch.
    fn fail(&mut self, now: Time, topic: usize, partition: usize, batch: Batch<D>, error: Error) {
        let error = match &self.transactions {
            Some(transactions) => {
                let ends_producer = error.code() == Some(ErrorCode::PRODUCER_FENCED);
                transactions.explained(error, ends_producer)
            }
            None => error,
        };
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
            self.producer_id.request_epoch_bump();
        }
        if let Some(transactions) = &mut self.transactions {
            transactions.batch_failed(error);
        }
    }

    /// Fails the records that the broker named as invalid (KIP-467), and retries the remaining records of the batch. If
    /// an earlier attempt may have written the batch, the whole batch fails.
    fn fail_records(
        &mut self,
        now: Time,
        topic: usize,
        partition: usize,
        batch: Batch<D>,
        error: Error,
        record_errors: RecordErrors,
    ) {
        let is_bad = |index: i32| record_errors.contains_key(&index);
        let mut refused = if (0..batch.count).all(is_bad) {
            batch
        } else if batch.may_be_written {
            return self.fail(now, topic, partition, batch, error);
        } else {
            match batch.divide(|index| !is_bad(index)) {
                Ok((rest, refused)) => {
                    if let Some(p) = self.partition(topic, partition) {
                        let created = rest.created;
                        p.requeue_good_records(rest);
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
        for (index, error) in (0..).zip(record_errors.into_values()) {
            let later = deliveries.split_off(deliveries.partition_point(|d| d.index <= index));
            let deliveries = std::mem::replace(&mut deliveries, later);
            self.report(topic, partition, 1, deliveries, Err(error));
        }
        self.remove_batch(refused);
        self.apply_transaction_effects();
    }

    pub(super) fn handle_produced(
        &mut self,
        now: Time,
        node: i32,
        request: InFlightRequest<D>,
        result: Result<Reply, Error>,
    ) {
        let InFlightRequest { batches, sent_at, compressed_bytes } = request;
        let acks = self.config.acks;
        if let Some(n) = self.in_flight.get_mut(&node) {
            *n = n.saturating_sub(1);
        }
        let response = match result {
            Ok(_) if acks == 0 => Ok(None),
            Ok(reply) => reply.decode::<produce::Response>().map(Some),
            Err(e) => Err(e),
        };
        self.brokers.entry(node).or_default().note_answer(compressed_bytes, now.since(sent_at), response.is_ok());
        self.measure_request(now, sent_at, &batches);
        if let Ok(Some(response)) = &response {
            self.note_response(now, node, response);
        }
        let response = response.as_ref().map(|response| response.as_ref().map(by_partition));
        let required_features = batches.iter().map(|sent| sent.batch.required_features()).max().unwrap_or_default();
        for mut sent in batches {
            if let Some(p) = self.partition(sent.topic, sent.partition) {
                p.remove_in_flight(sent.number);
            }
            sent.batch.producer = Some(sent.producer).filter(|p| p.id >= 0);
            let expires_at = sent.batch.created + self.config.delivery_timeout;
            let reports = self.unreported.remove(&(expires_at, sent.topic, sent.partition, sent.number));
            let result = match &response {
                Ok(None) => Ok((-1, -1)),
                Ok(Some(response)) => self.result_of(&sent, response),
                Err(e) => Err(((*e).clone(), RecordErrors::new())),
            };
            let Some(reports) = reports else {
                self.complete_expired(sent, result.is_ok());
                continue;
            };
            sent.batch.deliveries = reports.deliveries;
            match result {
                Ok(offset_and_time) => {
                    if let Some(p) = self.partition(sent.topic, sent.partition) {
                        p.succeeded(sent.number);
                    }
                    self.complete(sent.topic, sent.partition, sent.batch, Ok(offset_and_time));
                }
                Err((error, record_errors)) => {
                    let needs_fewer_features = sent.batch.required_features() < required_features;
                    self.retry(now, node, sent, needs_fewer_features, error, record_errors);
                }
            }
        }
        let in_flight = self.in_flight.values().sum();
        if self.producer_id.bump_epoch_if_drained(in_flight) {
            self.restart_sequences();
        }
    }

    /// Handles the response for a batch that failed earlier because its delivery timeout had passed.
    fn complete_expired(&mut self, sent: InFlightBatch<D>, is_written: bool) {
        if is_written {
            if let Some(p) = self.partition(sent.topic, sent.partition) {
                p.succeeded(sent.number);
            }
        } else if sent.batch.producer.is_some() {
            self.producer_id.request_epoch_bump();
        }
        self.free_batch(sent.batch);
    }

    /// Retries a batch after an error, or fails it. `needs_fewer_features` means that another batch in the request
    /// needed a broker feature that this batch does not need.
    fn retry(
        &mut self,
        now: Time,
        node: i32,
        sent: InFlightBatch<D>,
        needs_fewer_features: bool,
        error: Error,
        record_errors: RecordErrors,
    ) {
        let InFlightBatch { topic, partition, mut batch, .. } = sent;
        let code = error.code().unwrap_or(ErrorCode::NONE);
        // Batches of an aborted transaction must not reach the next one.
        let may_retry = self.transactions.as_ref().is_none_or(|t| t.may_send_batches());
        let too_large = matches!(code, ErrorCode::MESSAGE_TOO_LARGE | ErrorCode::RECORD_LIST_TOO_LARGE);
        if too_large && batch.count > 1 && may_retry {
            // If the whole batch may be in the log, the broker would not recognize its halves as duplicates.
            return match batch.may_be_written && batch.producer.is_some() {
                true => self.fail(now, topic, partition, batch, error),
                false => self.split(now, topic, partition, batch, &error),
            };
        }
        // After a batch that failed or may still fail, this error is expected. For the first batch of a partition it
        // means that the broker lost acknowledged batches.
        let out_of_order = code == ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER;
        let follows_unfinished =
            out_of_order && self.partition(topic, partition).is_some_and(|p| p.follows_another(&batch));
        let broker_lost_batches = (out_of_order && !follows_unfinished)
            || matches!(code, ErrorCode::UNKNOWN_PRODUCER_ID | ErrorCode::INVALID_PRODUCER_EPOCH);
        // A log in an older message format cannot store producer IDs and sequence numbers.
        let log_lacks_producer_ids = code == ErrorCode::UNSUPPORTED_FOR_MESSAGE_FORMAT
            && batch.producer.is_some()
            && self.producer_id.is_optional(self.config.idempotence_required);
        if log_lacks_producer_ids {
            self.producer_id.disable_idempotence();
            batch.producer = None;
        }
        // A transaction that lost batches can only be aborted.
        let bumps_epoch = broker_lost_batches && self.producer_id.is_idempotent() && self.transactions.is_none();
        // The result is unknown if the response cannot be decoded, or has no code that klamm knows. A retry is safe: the
        // broker recognizes duplicates.
        let is_unknown_code = error.code().is_some_and(ErrorCode::is_unknown);
        let has_unknown_result = batch.producer.is_some()
            && (error.kind() == ErrorKind::Decode || (is_unknown_code && batch.attempts < MAX_UNKNOWN));
        // Other batches of the request needed the missing feature, and fail. The retry goes without them.
        let retries_alone = code == ErrorCode::UNSUPPORTED_VERSION && needs_fewer_features;
        let should_retry = error.is_retriable()
            || bumps_epoch
            || follows_unfinished
            || has_unknown_result
            || retries_alone
            || log_lacks_producer_ids
            || code == ErrorCode::CONCURRENT_TRANSACTIONS;
        let should_retry = should_retry && may_retry;
        let leader = self.topics.get(topic).and_then(|t| self.cluster.leader(&t.name, partition as i32));
        let has_new_leader = code.is_stale_metadata() && leader.is_some_and(|(leader, _)| leader != node);
        if (code.is_stale_metadata() && !has_new_leader) || error.kind() == ErrorKind::Network {
            self.demand.refresh = true;
        }
        if bumps_epoch {
            // A partition with batches of the old epoch enters the new epoch later anyway.
            if self.partition(topic, partition).is_none_or(|p| !p.is_behind_epoch) {
                self.producer_id.request_epoch_bump();
            }
        }
        if !should_retry && may_retry && !record_errors.is_empty() {
            return self.fail_records(now, topic, partition, batch, error, record_errors);
        }
        batch.attempts += 1;
        batch.may_be_written |= is_unknown_code
            || matches!(
                error.code(),
                None | Some(ErrorCode::REQUEST_TIMED_OUT | ErrorCode::NOT_ENOUGH_REPLICAS_AFTER_APPEND)
            );
        let is_oversized = error.kind() == ErrorKind::Oversized && batch.bytes >= LARGE_REQUEST;
        batch.disconnects = if is_oversized { batch.disconnects + 1 } else { 0 };
        // Later records must not wait for a batch that no broker accepts.
        let should_retry = should_retry && batch.disconnects < MAX_DISCONNECTS;
        if !should_retry || batch.attempts > self.config.retries || now >= batch.created + self.config.delivery_timeout
        {
            return self.fail(now, topic, partition, batch, error);
        }
        // The seed depends on the time, so that batches which fail together are retried together.
        let wait = wait_after(batch.attempts, self.config.retry_backoff, self.config.seed ^ now.0);
        let wait = match code {
            ErrorCode::CONCURRENT_TRANSACTIONS => wait.min(MARKERS_WAIT),
            // The refusal named the new leader.
            _ if has_new_leader => Duration::ZERO,
            _ => wait,
        };
        self.note_retry(now, topic, batch.count);
        batch.error = Some(error);
        if let Some(p) = self.partition(topic, partition) {
            // A batch that follows an unfinished batch waits only for that batch.
            if !follows_unfinished {
                p.retry_at = now + wait;
            }
            let (created, retry_at) = (batch.created, p.retry_at);
            p.requeue(batch);
            // The broker does not have this batch, or it would know the producer. So it has none of the later ones
            // either.
            if bumps_epoch && p.in_flight() == 0 {
                p.forget_sequences();
            }
            self.send_timers.insert((retry_at, topic, partition));
            self.note_unsent(topic, partition, created);
        }
    }

    /// Notes that a partition has a batch to retry, and when that batch was created.
    fn note_unsent(&mut self, topic: usize, partition: usize, created: Time) {
        self.active.insert((topic, partition));
        self.unsent_expiry = self.unsent_expiry.min(created + self.config.delivery_timeout);
    }

    /// Splits a batch that is too large for the broker. The single records of the batch may be small enough.
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
            // Brokers before 2.8 require the ACL IDEMPOTENT_WRITE. If the user did not ask for idempotence, continue
            // without it.
            Err(e)
                if matches!(
                    e.code(),
                    Some(ErrorCode::UNSUPPORTED_VERSION | ErrorCode::CLUSTER_AUTHORIZATION_FAILED)
                ) && !self.config.idempotence_required =>
            {
                self.producer_id.disable_idempotence();
            }
            Err(e) => {
                self.producer_id.schedule_retry(now);
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

    /// Fails batches whose delivery timeout has passed.
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
        if self.producer_id.bump_epoch_if_drained(self.in_flight.values().sum()) {
            self.restart_sequences();
        }
    }

    /// Fails unsent batches whose delivery timeout has passed, and computes when the next unsent batch expires.
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
            let oldest = [p.queue.front(), p.open.as_ref()].into_iter().flatten().map(|batch| batch.created).min();
            match oldest {
                Some(created) => self.unsent_expiry = self.unsent_expiry.min(created + limit),
                None => drop(self.active.remove(&(topic, partition))),
            }
        }
    }

    /// Fails all unsent records, because a broker rejected the client and the next attempt would fail in the same way.
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
        if self.producer_id.bump_epoch_if_drained(self.in_flight.values().sum()) {
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
            let code = self.cluster.topics.get(&t.name).map_or(ErrorCode::NONE, |metadata| metadata.error);
            let is_unknown = code == ErrorCode::UNKNOWN_TOPIC_OR_PARTITION
                && t.unknown.error_at().is_some_and(|at| now >= at.min(since + limit));
            if is_unknown || code.is_permanent() {
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
    use super::super::{Event, NewRecord, Partitioner, ProducerConfig, ProducerRequest, ProducerToken};
    use super::*;
    use crate::api;
    use crate::engine::Broker;
    use crate::engine::cluster::{self, Cluster};
    use crate::engine::{ClientResponse, Role};
    use crate::wire::Uuid;
    use std::sync::Arc;

    const SECOND: u64 = 1_000_000;

    /// Creates an idempotent producer with the metadata of its topic, whose leader is node 1.
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
        let record = NewRecord { partition, timestamp, has_explicit_timestamp: false, key: None, value, headers: &[] };
        producer.append(now, topic, &record, Some(completion)).unwrap();
    }

    /// Returns the token and the deadline of the next produce request. Answers InitProducerId requests.
    fn next(producer: &mut Producer<u32>, now: Time) -> Option<(ProducerToken<u32>, Time)> {
        producer.handle_timeout(now);
        loop {
            let request = producer.poll_send(now)?;
            let is_produce = matches!(request, ProducerRequest::Produce(_));
            let outgoing = Producer::build_request(request);
            if is_produce {
                return Some((outgoing.token, outgoing.deadline.time()));
            }
            let response = init_producer_id::Response { producer_id: 5, ..Default::default() };
            answer(producer, now, outgoing.token, Ok(response));
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
        let [InFlightBatch { producer, .. }] = &sent.batches[..] else { panic!("several batches") };
        (producer.epoch, producer.base_sequence)
    }

    #[test]
    fn a_topic_is_unknown_five_seconds_after_the_first_broker_said_so() {
        let mut p = producer();
        p.config.delivery_timeout = Duration::from_secs(60);
        let topic = p.topic("u").unwrap();
        let record = NewRecord {
            partition: None,
            timestamp: 0,
            has_explicit_timestamp: false,
            key: None,
            value: None,
            headers: &[],
        };
        p.append(Time(0), topic, &record, Some(1)).unwrap();
        let deny = |p: &mut Producer<u32>, now: u64| {
            let (id, error) = (Uuid::ZERO, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
            let topic = cluster::Topic { id, error, internal: false, partitions: Vec::new() };
            p.handle_cluster(
                Time(now),
                &Arc::new(Cluster { topics: [(Arc::from("u"), topic)].into(), ..Cluster::default() }),
            );
            results(p)
        };
        // No broker can be reached for ten seconds. The first one that responds has just restarted.
        for now in [10 * SECOND, 11 * SECOND, 12 * SECOND] {
            assert_eq!(deny(&mut p, now), []);
        }
        assert_eq!(deny(&mut p, 15 * SECOND), [(1, Err(ErrorKind::Broker))]);
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
