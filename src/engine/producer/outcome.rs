//! Answers into outcomes: what is acknowledged, what is tried again and where its place is, what has failed for good.

use super::batch::{Batch, Partition};
use super::transaction::{MARKERS_WAIT, Step};
use super::{Flight, Producer, Sent};
use crate::api::{ErrorCode, init_producer_id, produce};
use crate::engine::ops::UNKNOWN_TOPIC_GRACE;
use crate::engine::{Broker, Error, ErrorKind, LeaderChange, Reply, Time, wait_after};
use crate::wire::Uuid;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// The records of a batch that a broker says are to blame for its refusal, by their place, and why each is.
type Named = BTreeMap<i32, Error>;

impl<D> Producer<D> {
    /// Fails a batch for good. A sequence number that was used up leaves a gap, so the identity goes with it.
    fn fail(&mut self, topic: usize, partition: usize, batch: Batch<D>, error: Error) {
        self.note_failure(&batch, &error);
        self.settle(topic, partition, batch, Err(error));
        self.take_news();
    }

    fn note_failure(&mut self, batch: &Batch<D>, error: &Error) {
        if batch.producer.is_some() {
            self.identity.abandon();
        }
        if let Some(transactions) = &mut self.transactions {
            transactions.batch_failed(error);
        }
    }

    /// Fails those records of a batch that the broker named (KIP-467). The others, of which it took none because of them, go
    /// again without them, unless an earlier try may have taken all; within a transaction they end with it.
    fn fail_records(&mut self, topic: usize, partition: usize, batch: Batch<D>, error: Error, named: Named) {
        let is_named = |index: i32| named.contains_key(&index);
        let mut refused = if (0..batch.count).all(is_named) {
            batch
        } else if batch.may_be_written {
            return self.fail(topic, partition, batch, error);
        } else {
            match batch.divide(|index| !is_named(index)) {
                Ok((rest, refused)) => {
                    if let Some(p) = self.partition(topic, partition) {
                        p.put_back(rest);
                        self.active.insert((topic, partition));
                    }
                    refused
                }
                Err(batch) => return self.fail(topic, partition, *batch, error),
            }
        };
        self.note_failure(&refused, &error);
        if let Some(t) = self.topics.get_mut(topic) {
            t.metrics.note(&refused, false);
        }
        let mut deliveries = std::mem::take(&mut refused.deliveries);
        for (index, error) in (0..).zip(named.into_values()) {
            let later = deliveries.split_off(deliveries.partition_point(|d| d.index <= index));
            let deliveries = std::mem::replace(&mut deliveries, later);
            self.tell(topic, partition, 1, deliveries, Err(error));
        }
        self.forget(refused);
        self.take_news();
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
        if let Ok(Some(response)) = &response {
            self.note_response(now, node, response);
        }
        let demands = flights.iter().map(|flight| flight.batch.demands()).max().unwrap_or_default();
        for mut flight in flights {
            if let Some(p) = self.partition(flight.topic, flight.partition) {
                p.answered(flight.number);
            }
            flight.batch.producer = Some(flight.producer).filter(|p| p.id >= 0);
            let until = flight.batch.created + self.config.delivery_timeout;
            let waits = self.flying.remove(&(until, flight.topic, flight.partition, flight.number));
            let result = match &response {
                Ok(None) => Ok((-1, -1)),
                Ok(Some(response)) => self.outcome_of(&flight, response),
                Err(e) => Err((e.clone(), Named::new())),
            };
            let Some(waits) = waits else {
                self.land_late(flight, result.is_ok());
                continue;
            };
            flight.batch.deliveries = waits.deliveries;
            match result {
                Ok(found) => {
                    if let Some(p) = self.partition(flight.topic, flight.partition) {
                        p.succeeded(flight.number);
                    }
                    self.settle(flight.topic, flight.partition, flight.batch, Ok(found));
                }
                Err((error, named)) => {
                    let is_innocent = flight.batch.demands() < demands;
                    self.retry(now, node, flight, is_innocent, error, named);
                }
            }
        }
        let in_flight = self.in_flight.values().sum();
        if self.identity.drained(in_flight) {
            self.restart_sequences();
        }
    }

    /// Takes in what became of a batch that has its outcome since its time was over.
    fn land_late(&mut self, flight: Flight<D>, is_written: bool) {
        if is_written {
            if let Some(p) = self.partition(flight.topic, flight.partition) {
                p.succeeded(flight.number);
            }
        } else if flight.batch.producer.is_some() {
            self.identity.abandon();
        }
        self.give_back(flight.batch);
    }

    /// Takes in what an answer says besides outcomes: who leads now (KIP-951), and how long the broker wants to be left
    /// alone.
    fn note_response(&mut self, now: Time, node: i32, response: &produce::Response) {
        if response.throttle_time_ms > 0 {
            let wait = Duration::from_millis(response.throttle_time_ms.unsigned_abs().into());
            // What other answers say that were under way does not shorten it.
            let until = self.throttled.entry(node).or_insert(now);
            *until = (*until).max(now + wait);
            self.brokers.entry(node).or_default().throttled += wait;
        }
        let mut moved = Vec::new();
        for t in &response.responses {
            for p in t.partition_responses.iter().filter(|p| p.current_leader.leader_id >= 0) {
                let by_id = |topic: &&super::Topic<D>| !t.topic_id.is_zero() && topic.id == t.topic_id;
                let Some(topic) = self.topics.iter().find(|topic| *topic.name == *t.name || by_id(topic)) else {
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

    /// Base offset and log-append time, or why the batch was not taken and which of its records are to blame.
    fn outcome_of(&self, flight: &Flight<D>, response: &produce::Response) -> Result<(i64, i64), (Error, Named)> {
        let (name, id) = self.topics.get(flight.topic).map_or(("", Uuid::ZERO), |t| (&*t.name, t.id));
        let found = response
            .responses
            .iter()
            .filter(|t| if t.topic_id.is_zero() { t.name == name } else { t.topic_id == id })
            .flat_map(|t| &t.partition_responses)
            .find(|p| p.index == flight.partition as i32);
        let Some(p) = found else {
            let message = format!("broker said nothing of {name}-{}", flight.partition);
            return Err((Error::new(ErrorKind::Decode, message), Named::new()));
        };
        match p.error_code {
            ErrorCode::NONE => Ok((p.base_offset, p.log_append_time_ms)),
            // The broker has the batch, but no longer knows where.
            ErrorCode::DUPLICATE_SEQUENCE_NUMBER => Ok((-1, -1)),
            code => {
                let refused = |code, why: Option<&String>| {
                    let why = why.map_or_else(String::new, |why| format!(" ({why})"));
                    Error::refused(code, format!("produce to {name}-{}{why}", flight.partition))
                };
                // The code is that of the batch: of several records it need not be each one's.
                let of_record = if p.record_errors.len() > 1 { ErrorCode::INVALID_RECORD } else { code };
                let whole = p.error_message.as_ref();
                let named = p.record_errors.iter().filter(|e| (0..flight.batch.count).contains(&e.batch_index));
                let named = named.map(|e| {
                    let why = e.batch_index_error_message.as_ref().or(whole);
                    (e.batch_index, refused(of_record, why))
                });
                let any = p.record_errors.iter().find_map(|e| e.batch_index_error_message.as_ref());
                Err((refused(code, whole.or(any)), named.collect()))
            }
        }
    }

    fn retry(&mut self, now: Time, node: i32, flight: Flight<D>, is_innocent: bool, error: Error, named: Named) {
        let Flight { topic, partition, mut batch, .. } = flight;
        let code = error.code().unwrap_or(ErrorCode::NONE);
        // What an aborted transaction left behind must not be there when the next one begins.
        let is_wanted = self.transactions.as_ref().is_none_or(|t| t.is_wanted());
        let too_large = matches!(code, ErrorCode::MESSAGE_TOO_LARGE | ErrorCode::RECORD_LIST_TOO_LARGE);
        if too_large && batch.count > 1 && is_wanted {
            // A broker that has the whole batch in its log knows it by its sequence numbers, and its halves by nothing.
            return match batch.may_be_written && batch.producer.is_some() {
                true => self.fail(topic, partition, batch, error),
                false => self.split(topic, partition, batch, &error),
            };
        }
        // Behind a batch that failed, or may yet, this is to be expected; in front of all others it means that the broker
        // lost what was acknowledged before.
        let out_of_order = code == ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER;
        let behind = out_of_order && self.partition(topic, partition).is_some_and(|p| p.is_behind(&batch));
        let lost = (out_of_order && !behind)
            || matches!(code, ErrorCode::UNKNOWN_PRODUCER_ID | ErrorCode::INVALID_PRODUCER_EPOCH);
        // A log that is kept in the format of an older Kafka has no place for producers and sequences.
        let unkept = code == ErrorCode::UNSUPPORTED_FOR_MESSAGE_FORMAT
            && batch.producer.is_some()
            && self.identity.is_optional(self.config.idempotence_required);
        if unkept {
            self.identity.renounce();
            batch.producer = None;
        }
        // A transaction that has lost batches can only be aborted.
        let restarts = lost && self.identity.is_idempotent() && self.transactions.is_none();
        // Of an answer that cannot be read nobody knows what it said; a batch that is in the log is not taken twice.
        let unread = error.kind() == ErrorKind::Decode && batch.producer.is_some();
        // Others of the request had what the broker lacks, and are gone when this is tried again.
        let is_innocent = code == ErrorCode::UNSUPPORTED_VERSION && is_innocent;
        let again = error.is_retriable()
            || restarts
            || behind
            || unread
            || is_innocent
            || unkept
            || code == ErrorCode::CONCURRENT_TRANSACTIONS;
        let again = again && is_wanted;
        let leader = self.topics.get(topic).and_then(|t| self.cluster.leader(&t.name, partition as i32));
        let has_moved = code.is_stale_metadata() && leader.is_some_and(|(leader, _)| leader != node);
        if (code.is_stale_metadata() && !has_moved) || error.kind() == ErrorKind::Network {
            self.demand.refresh = true;
        }
        if restarts {
            // A partition that is behind has the next epoch before it.
            if self.partition(topic, partition).is_none_or(|p| !p.is_behind_epoch) {
                self.identity.abandon();
            }
        }
        if !again && is_wanted && !named.is_empty() {
            return self.fail_records(topic, partition, batch, error, named);
        }
        batch.attempts += 1;
        batch.may_be_written |= matches!(
            error.code(),
            None | Some(ErrorCode::REQUEST_TIMED_OUT | ErrorCode::NOT_ENOUGH_REPLICAS_AFTER_APPEND)
        );
        if !again || batch.attempts > self.config.retries || now >= batch.created + self.config.delivery_timeout {
            return self.fail(topic, partition, batch, error);
        }
        // Those that fail together may go together again.
        let wait = wait_after(batch.attempts, self.config.retry_backoff, self.config.seed ^ now.0);
        let wait = match code {
            ErrorCode::CONCURRENT_TRANSACTIONS => wait.min(MARKERS_WAIT),
            // Whoever leads now was named with the refusal.
            _ if has_moved => Duration::ZERO,
            _ => wait,
        };
        if let Some(t) = self.topics.get_mut(topic) {
            t.metrics.retries += 1;
        }
        batch.error = Some(error);
        if let Some(p) = self.partition(topic, partition) {
            // One that is behind waits for those before it and no longer.
            if !behind {
                p.retry_at = now + wait;
            }
            p.requeue(batch);
            // It is not in the log, or the broker would know it; nor is what was to follow it.
            if restarts && p.in_flight() == 0 {
                p.forget_sequences();
            }
            self.active.insert((topic, partition));
        }
    }

    /// A batch that is too large for the broker, although its records may not be, goes as two.
    fn split(&mut self, topic: usize, partition: usize, batch: Batch<D>, error: &Error) {
        match batch.split() {
            Ok((first, second)) => {
                let Some(p) = self.partition(topic, partition) else {
                    return;
                };
                p.requeue(second);
                p.requeue(first);
                self.active.insert((topic, partition));
            }
            Err(batch) => self.fail(topic, partition, *batch, error.clone()),
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
        self.take_news();
    }

    pub(super) fn handle_identity(&mut self, now: Time, result: Result<Reply, Error>) {
        let tried = "get a producer id";
        let result = result
            .and_then(Reply::decode::<init_producer_id::Response>)
            .and_then(|r| r.error_code.check().map(|()| r).map_err(|code| Error::refused(code, tried)));
        match result {
            Ok(r) => self.identity.known(r.producer_id, r.producer_epoch),
            Err(e) if e.code() == Some(ErrorCode::UNSUPPORTED_VERSION) && !self.config.idempotence_required => {
                self.identity.renounce();
            }
            Err(e) => {
                self.identity.refused(now);
                if !e.is_retriable() && e.kind() != ErrorKind::Decode {
                    self.fail_all(&e);
                }
            }
        }
    }

    /// What may no longer wait: batches and records whose time is over.
    pub(super) fn expire(&mut self, now: Time) {
        let limit = self.config.delivery_timeout;
        while let Some(first) = self.flying.first_entry().filter(|e| e.key().0 <= now) {
            // Whether it is written, its answer says: until then it keeps its sequence number, and its memory.
            let ((_, topic, partition, _), waits) = first.remove_entry();
            let error = self.timed_out("delivery.timeout.ms", limit, waits.error);
            if let Some(t) = self.topics.get_mut(topic) {
                t.metrics.errors += u64::from(waits.count.unsigned_abs());
            }
            if let Some(transactions) = &mut self.transactions {
                transactions.batch_failed(&error);
            }
            self.tell(topic, partition, waits.count, waits.deliveries, Err(error));
            self.outstanding.remove(waits.generation, u64::from(waits.count.unsigned_abs()));
            self.take_news();
        }
        for (topic, partition) in self.active.clone() {
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
                let error = self.timed_out("delivery.timeout.ms", limit, batch.error.clone());
                self.fail(topic, partition, batch, error);
            }
            if self.partition(topic, partition).is_some_and(|p| p.is_idle()) {
                self.active.remove(&(topic, partition));
            }
        }
        if self.identity.drained(self.in_flight.values().sum()) {
            self.restart_sequences();
        }
    }

    /// Ends whatever waits to be sent: no broker lets the client in, and waiting would not change that.
    pub(super) fn be_refused(&mut self, error: &Error) {
        if let Some(transactions) = &mut self.transactions {
            transactions.be_refused(error);
            self.take_news();
        }
        for topic in 0..self.topics.len() {
            self.fail_waiting(topic, error);
        }
        for (topic, partition) in self.active.clone() {
            if let Some(p) = self.partition(topic, partition) {
                p.close_open();
            }
            while let Some(batch) = self.partition(topic, partition).and_then(|p| p.queue.pop_front()) {
                self.fail(topic, partition, batch, error.clone());
            }
            if self.partition(topic, partition).is_some_and(|p| p.is_idle()) {
                self.active.remove(&(topic, partition));
            }
        }
        if self.identity.drained(self.in_flight.values().sum()) {
            self.restart_sequences();
        }
    }

    fn timed_out(&self, bound: &str, limit: Duration, why: Option<Error>) -> Error {
        let message = format!("record was not acknowledged within {bound} ({} ms)", limit.as_millis());
        match why.or_else(|| self.unreachable.clone()) {
            Some(e) => Error::new(ErrorKind::Timeout, format!("{message}: {}", e.message()))
                .with_hint(e.hint().unwrap_or("check the brokers and the network")),
            None => Error::new(ErrorKind::Timeout, message).with_hint("check the brokers and the network"),
        }
    }

    pub(super) fn expire_waiting(&mut self, now: Time) {
        let limit = self.config.max_block.min(self.config.delivery_timeout);
        let mut has_failed = false;
        for topic in 0..self.topics.len() {
            let Some(t) = self.topics.get(topic) else {
                continue;
            };
            let Some(since) = t.waiting_since() else {
                continue;
            };
            let code = self.cluster.topics.get(&t.name).map_or(ErrorCode::NONE, |known| known.error);
            let unknown =
                code == ErrorCode::UNKNOWN_TOPIC_OR_PARTITION && now >= since + UNKNOWN_TOPIC_GRACE.min(limit);
            if unknown || (code.is_error() && !code.is_retriable()) {
                let error = Error::refused(code, format!("produce to topic {:?}", t.name));
                self.fail_waiting(topic, &error);
                has_failed = true;
            } else if now >= since + limit {
                let why = Some(code).filter(|c| c.is_error()).map(|c| Error::refused(c, format!("topic {:?}", t.name)));
                let error = self.timed_out("max.block.ms", limit, why);
                self.fail_waiting(topic, &error);
                has_failed = true;
            }
        }
        if has_failed {
            self.let_go(now);
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
        let one = cluster::Partition { leader: 1, leader_epoch: 0, replicas: vec![1], isr: vec![1] };
        let (id, error) = (Uuid::ZERO, ErrorCode::NONE);
        let topic = cluster::Topic { id, error, internal: false, partitions: vec![one] };
        let broker = Broker { id: 1, host: "h".to_owned(), port: 1, rack: None };
        let (topics, brokers) = ([(Arc::from("t"), topic)].into(), [(1, broker)].into());
        producer.handle_cluster(Time(0), &Arc::new(Cluster { topics, brokers, ..Cluster::default() }));
        producer
    }

    fn send(producer: &mut Producer<u32>, now: Time, ticket: u32) {
        let topic = producer.topic("t").unwrap();
        let value = Some(&b"v"[..]);
        let (partition, timestamp) = (Some(0), 0);
        let record = NewRecord { partition, timestamp, is_timed: false, key: None, value, headers: &[] };
        producer.append(now, topic, &record, Some(ticket)).unwrap();
    }

    /// The next request with batches; a producer id is given to whoever asks for one.
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

    /// Who has which outcome: an offset, or a kind of error.
    fn outcomes(producer: &mut Producer<u32>) -> Vec<(u32, Result<i64, ErrorKind>)> {
        let of = |e: Event<u32>| {
            let result = e.result.map(|(offset, _)| offset).map_err(|error| error.kind());
            e.deliveries.into_iter().map(move |d| (d.ticket, result.map(|offset| offset + i64::from(d.index))))
        };
        std::iter::from_fn(|| producer.poll_event()).flat_map(of).collect()
    }

    fn sequence(token: &ProducerToken<u32>) -> (i16, i32) {
        let ProducerToken::Produce(sent) = token else { panic!("no batches") };
        let [Flight { producer, .. }] = &sent.flights[..] else { panic!("several batches") };
        (producer.epoch, producer.base_sequence)
    }

    #[test]
    fn the_place_of_a_topic_that_was_let_go_is_no_topic_without_a_name() {
        let mut producer = producer();
        let topic = producer.topic("absent").unwrap();
        assert_eq!(producer.topic("absent").unwrap(), topic);
        let cluster = producer.cluster.clone();
        producer.handle_cluster(Time(SECOND), &cluster);
        assert_eq!(producer.vacant, [1]);
        assert_eq!(producer.topic("").map_err(|e| e.code()), Err(Some(ErrorCode::INVALID_TOPIC_EXCEPTION)));
    }

    #[test]
    fn a_batch_that_may_be_in_the_log_is_not_cut_in_two_because_the_broker_would_not_know_the_halves() {
        for is_lost in [false, true] {
            let mut producer = producer();
            let now = Time(SECOND);
            (0..2).for_each(|ticket| send(&mut producer, now, ticket));
            let (mut token, _) = next(&mut producer, now).unwrap();
            let later = now + Duration::from_secs(1);
            if is_lost {
                answer(&mut producer, now, token, lost());
                token = next(&mut producer, later).unwrap().0;
            }
            answer(&mut producer, later, token, produced(ErrorCode::MESSAGE_TOO_LARGE));
            let goes_on = next(&mut producer, later).is_some();
            let failed = [(0, Err(ErrorKind::Broker)), (1, Err(ErrorKind::Broker))];
            assert_eq!(
                (goes_on, outcomes(&mut producer)),
                if is_lost { (false, failed.into()) } else { (true, vec![]) }
            );
        }
    }

    #[test]
    fn a_batch_whose_time_is_over_has_its_outcome_while_its_request_goes_on() {
        for result in [produced(ErrorCode::NONE), produced(ErrorCode::NOT_LEADER_OR_FOLLOWER), lost()] {
            let is_written = result.is_ok() && *result.as_ref().unwrap() == produced(ErrorCode::NONE).unwrap();
            let mut producer = producer();
            send(&mut producer, Time(SECOND), 0);
            let sent = Time(4 * SECOND);
            let (token, deadline) = next(&mut producer, sent).unwrap();
            // Who is to get it has to be reached by then.
            assert_eq!((sequence(&token), deadline), ((0, 0), Time(5 * SECOND)));
            assert_eq!(producer.next_timeout(sent), Some(Time(5 * SECOND)));
            let flush = producer.flush();
            producer.handle_timeout(Time(5 * SECOND));
            assert_eq!(outcomes(&mut producer), [(0, Err(ErrorKind::Timeout))]);
            assert!(producer.is_flushed(flush) && producer.outstanding() == 0);
            assert!(producer.metrics().buffered_bytes > 0, "the request holds it still");
            answer(&mut producer, Time(6 * SECOND), token, result);
            assert_eq!(producer.metrics().buffered_bytes, 0);
            // If it is not in the log, its sequence number is one that the broker waits for: the next epoch has none such.
            send(&mut producer, Time(7 * SECOND), 1);
            let (token, _) = next(&mut producer, Time(7 * SECOND)).unwrap();
            assert_eq!(sequence(&token), if is_written { (0, 1) } else { (1, 0) });
            answer(&mut producer, Time(7 * SECOND), token, produced(ErrorCode::NONE));
            assert_eq!(outcomes(&mut producer), [(1, Ok(3))]);
        }
    }

    #[test]
    fn whoever_waits_for_a_batch_in_flight_hears_of_the_end_of_the_client() {
        let mut producer = producer();
        send(&mut producer, Time(SECOND), 0);
        let sent = next(&mut producer, Time(SECOND));
        assert!(sent.is_some());
        producer.abandon_all(&Error::new(ErrorKind::Closed, "closed"));
        assert_eq!(outcomes(&mut producer), [(0, Err(ErrorKind::Closed))]);
    }
}
