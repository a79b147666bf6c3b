//! Builds produce requests: batches of all partitions with the same leader share one request.
//!
//! [`Producer::next_request`] chooses the batches. [`build_request`] compresses the batches and computes checksums
//! outside of the producer's lock. Brokers before Kafka 0.11 get records in their older formats.

use super::batch::Batch;
use super::transaction::InFlight;
use super::{InFlightBatch, InFlightRequest, Producer, ProducerToken, Reports};
use crate::api::{Info, Release, init_producer_id, produce};
use crate::compress::{Codec, Compression, DEFAULT_LIMIT};
use crate::engine::{Call, Deadline, Outgoing, Target, Time};
use crate::record::down_convert;
use crate::wire::{Uuid, Wire, Writer};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// The first Produce versions with message format 1 (Kafka 0.10), with message format 2 (Kafka 0.11), and with zstd.
const MIN_VERSION_MAGIC_1: i16 = 2;
const MIN_VERSION_MAGIC_2: i16 = 3;
const MIN_VERSION_ZSTD: i16 = 7;
/// The first Produce version that names topics only by ID.
const MIN_VERSION_TOPIC_IDS: i16 = 13;
/// With `linger` 0, the producer sends open batches at once while fewer requests than this are in flight to the broker.
const EAGER_IN_FLIGHT: usize = 2;

/// A request before compression and checksums.
pub enum ProducerRequest<D> {
    /// A produce request.
    Produce(Box<BrokerBatches<D>>),
    /// Any other request.
    Ready(Outgoing<ProducerToken<D>>),
}

/// The batches for one broker.
pub struct BrokerBatches<D> {
    node: i32,
    batches: Vec<InFlightBatch<D>>,
    /// The name and the ID of each topic, by index.
    topic_ids: HashMap<usize, (Arc<str>, Uuid)>,
    compression: Codec,
    transactional_id: Option<Arc<str>>,
    idempotence_required: bool,
    acks: i16,
    timeout: Duration,
    now: Time,
    deadline: Time,
    max_version: i16,
}

/// A feature that older brokers do not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Feature {
    Nothing,
    Timestamps,
    Idempotence,
    Headers,
    Transactions,
    Lz4,
    Zstd,
}

struct ProduceCall {
    request: produce::Request,
    required_feature: Feature,
}

impl Call for ProduceCall {
    fn api(&self) -> &'static Info {
        &produce::API
    }

    fn put(&self, w: &mut Writer) {
        if w.version >= MIN_VERSION_MAGIC_2 {
            return Wire::put(&self.request, w);
        }
        // A broker before 0.11 knows only the older formats; `min_version` rules out records that do not fit these.
        let mut request = self.request.clone();
        let magic = i8::from(w.version >= MIN_VERSION_MAGIC_1);
        for p in request.topic_data.iter_mut().flat_map(|t| &mut t.partition_data) {
            let older = p.records.take().map(|records| down_convert(records, magic, 0, DEFAULT_LIMIT));
            // This cannot fail: klamm wrote the records, and not with zstd.
            p.records = older.and_then(Result::ok);
        }
        Wire::put(&request, w);
    }

    fn min_version(&self) -> i16 {
        match self.required_feature {
            Feature::Nothing | Feature::Lz4 => 0,
            Feature::Timestamps => MIN_VERSION_MAGIC_1,
            Feature::Idempotence | Feature::Headers | Feature::Transactions => MIN_VERSION_MAGIC_2,
            Feature::Zstd => MIN_VERSION_ZSTD,
        }
    }

    fn feature(&self) -> &'static str {
        match self.required_feature {
            Feature::Nothing => produce::API.name,
            Feature::Timestamps => "a record's own timestamp",
            Feature::Idempotence => "an idempotent producer",
            Feature::Headers => "record headers",
            Feature::Transactions => "transactions",
            Feature::Lz4 => "compression with lz4",
            Feature::Zstd => "compression with zstd",
        }
    }

    fn min_release(&self) -> Option<Release> {
        // An older broker would only answer with an unknown error.
        (self.required_feature == Feature::Lz4).then_some(Release::V0_8_2)
    }

    fn is_answered(&self) -> bool {
        self.request.acks != 0
    }
}

/// Compresses batches and builds their produce request.
pub fn build_request<D>(request: ProducerRequest<D>) -> Outgoing<ProducerToken<D>> {
    let request = match request {
        ProducerRequest::Ready(outgoing) => return outgoing,
        ProducerRequest::Produce(request) => *request,
    };
    let BrokerBatches { node, mut batches, topic_ids, compression, acks, timeout, now, deadline, .. } = request;
    let mut topics: Vec<(usize, produce::TopicData)> = Vec::new();
    let mut has_headers = false;
    let mut has_timestamps = false;
    let mut bytes = 0;
    for sent in &mut batches {
        has_headers |= sent.batch.has_headers;
        has_timestamps |= sent.batch.has_timestamps;
        // A batch that cannot be compressed is sent uncompressed; the codec was checked when the client was configured.
        let sealed = sent.batch.seal(compression, sent.producer);
        let records = sealed.or_else(|_| sent.batch.seal(Compression::None.into(), sent.producer)).ok();
        bytes += records.as_ref().map_or(0, |records| records.len() as u64);
        let data = produce::PartitionData { index: sent.partition as i32, records };
        // Batches are in the order of their topics.
        match topics.last_mut().filter(|(topic, _)| *topic == sent.topic) {
            Some((_, t)) => t.partition_data.push(data),
            None => {
                let (name, topic_id) = topic_ids.get(&sent.topic).cloned().unwrap_or_default();
                let t = produce::TopicData { name: name.to_string(), topic_id, partition_data: vec![data] };
                topics.push((sent.topic, t));
            }
        }
    }
    let required_feature = match compression.compression() {
        Compression::Zstd => Feature::Zstd,
        _ if request.transactional_id.is_some() => Feature::Transactions,
        _ if has_headers => Feature::Headers,
        // By default, idempotence is optional: during an upgrade some brokers of a cluster may lack it.
        _ if request.idempotence_required => Feature::Idempotence,
        _ if has_timestamps => Feature::Timestamps,
        Compression::Lz4 => Feature::Lz4,
        _ => Feature::Nothing,
    };
    let max_version = request.max_version;
    let request = produce::Request {
        transactional_id: request.transactional_id.map(|id| id.to_string()),
        acks,
        timeout_ms: i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX),
        topic_data: topics.into_iter().map(|(_, t)| t).collect(),
    };
    let lacks_id = topic_ids.values().any(|(_, id)| id.is_zero());
    let max_version = if lacks_id { max_version.min(MIN_VERSION_TOPIC_IDS - 1) } else { max_version };
    let call = Box::new(ProduceCall { request, required_feature });
    Outgoing {
        target: Target::Node(node),
        call,
        token: ProducerToken::Produce(InFlightRequest { batches, sent_at: now, compressed_bytes: bytes }),
        // A batch whose delivery timeout ends while the request is in flight fails alone; the request continues.
        deadline: Deadline::ToSend(deadline),
        max_version,
    }
}

impl<D> Producer<D> {
    fn is_due(&self, batch: &Batch<D>, node: i32, now: Time) -> bool {
        let is_eager = self.in_flight.get(&node).copied().unwrap_or(0) < EAGER_IN_FLIGHT;
        batch.flush_epoch < self.flush_below
            || self.buffer_is_full
            || (if self.config.linger.is_zero() { is_eager } else { now >= batch.created + self.config.linger })
    }

    /// Returns the leader of a partition if the producer may send it a batch now.
    fn ready_leader(&self, topic: usize, partition: usize, now: Time) -> Option<i32> {
        let t = self.topics.get(topic)?;
        let p = t.partitions.get(partition)?;
        // These checks come before the leader's lookup: most batches that wait are lingering or blocked.
        let may_be_due = !p.queue.is_empty() || self.config.linger.is_zero() || self.is_due(p.open.as_ref()?, -1, now);
        if !may_be_due || p.is_blocked(now, self.config.max_in_flight) {
            return None;
        }
        let (node, _) = self.cluster.leader(&t.name, partition as i32)?;
        if self.throttled.get(&node).is_some_and(|(until, _)| *until > now) {
            return None;
        }
        if self.transactions.as_ref().is_some_and(|t| !t.may_send((topic, partition))) {
            return None;
        }
        if self.in_flight.get(&node).copied().unwrap_or(0) >= self.config.max_in_flight {
            return None;
        }
        let due = !p.queue.is_empty() || p.open.as_ref().is_some_and(|open| self.is_due(open, node, now));
        due.then_some(node)
    }

    /// Returns the next request to send.
    pub(super) fn next_request(&mut self, now: Time) -> Option<ProducerRequest<D>> {
        if let Some(step) = self.next_step(now) {
            return Some(ProducerRequest::Ready(step));
        }
        if self.active.is_empty() {
            return None;
        }
        if self.producer_id.request(now) {
            let request = init_producer_id::Request { transactional_id: None, ..Default::default() };
            return Some(ProducerRequest::Ready(Outgoing {
                target: Target::Any,
                call: Box::new(request),
                token: ProducerToken::InitProducerId,
                deadline: Deadline::ToAnswer(now + self.config.request_timeout),
                max_version: i16::MAX,
            }));
        }
        self.producer_id.producer(0)?;
        let node = self.active.iter().find_map(|(t, p)| self.ready_leader(*t, *p, now))?;
        let mut batches = Vec::new();
        let mut topic_ids = HashMap::new();
        let (mut size, mut deadline) = (0, now + self.config.request_timeout);
        let mut from = (0, 0);
        while let Some(&(topic, partition)) = self.active.range(from..).next() {
            from = (topic, partition + 1);
            let Some(t) = self.topics.get_mut(topic) else {
                continue;
            };
            let Some(p) = t.partitions.get_mut(partition) else {
                continue;
            };
            let leader = self.cluster.leader(&t.name, partition as i32);
            let is_blocked = p.is_blocked(now, self.config.max_in_flight)
                || self.transactions.as_ref().is_some_and(|t| !t.may_send((topic, partition)));
            if is_blocked || leader.is_none_or(|(leader, _)| leader != node) {
                continue;
            }
            if p.queue.is_empty()
                && let Some(open) = p.open.take()
            {
                self.send_timers.remove(&(open.created + self.config.linger, topic, partition));
                p.queue.push_back(open);
            }
            let remaining = self.config.max_request_size.saturating_sub(size);
            let Some(mut batch) = p.queue.pop_front_if(|b| batches.is_empty() || b.size() <= remaining) else {
                continue;
            };
            let producer = match batch.producer {
                Some(producer) => producer,
                None => {
                    if p.is_behind_epoch {
                        p.enter_epoch();
                    }
                    let sequence = p.next_sequence;
                    // Sequence numbers wrap around to 0.
                    p.next_sequence = (sequence.wrapping_add(batch.count)) & i32::MAX;
                    self.producer_id.producer(sequence)?
                }
            };
            size += batch.size();
            let number = p.mark_sent();
            t.metrics.note_sent(now, &batch);
            if batch.attempts == 0 {
                self.measured.note_first_send(now, now.since(batch.created));
            }
            let reports = Reports {
                deliveries: std::mem::take(&mut batch.deliveries),
                count: batch.count,
                flush_epoch: batch.flush_epoch,
                error: batch.error.clone(),
            };
            let expires_at = batch.created + self.config.delivery_timeout;
            deadline = deadline.min(expires_at);
            self.unreported.insert((expires_at, topic, partition, number), reports);
            topic_ids.entry(topic).or_insert_with(|| (t.name.clone(), t.id));
            batches.push(InFlightBatch { topic, partition, number, batch, producer });
            if let Some(front) = p.queue.front() {
                self.unsent_expiry = self.unsent_expiry.min(front.created + self.config.delivery_timeout);
            }
            if p.is_idle() {
                self.active.remove(&(topic, partition));
            }
        }
        *self.in_flight.entry(node).or_default() += 1;
        self.brokers.entry(node).or_default().note_sent();
        let mut transactional_id = None;
        let mut max_version = i16::MAX;
        if let Some(transactions) = &mut self.transactions {
            transactions.mark_sent();
            transactional_id = Some(transactions.id().clone());
            max_version = transactions.max_produce();
        }
        Some(ProducerRequest::Produce(Box::new(BrokerBatches {
            node,
            batches,
            topic_ids,
            compression: self.config.compression,
            transactional_id,
            idempotence_required: self.config.idempotence_required,
            acks: self.config.acks,
            timeout: self.config.request_timeout,
            now,
            deadline,
            max_version,
        })))
    }

    /// Returns the next request of the transaction.
    fn next_step(&mut self, now: Time) -> Option<Outgoing<ProducerToken<D>>> {
        let transactions = self.transactions.as_mut()?;
        let is_flushed = self.pending.oldest().is_none();
        let in_flight = match self.in_flight.values().any(|n| *n > 0) {
            false => InFlight::Nothing,
            true if self.unreported.is_empty() => InFlight::Expired,
            true => InFlight::Unreported,
        };
        let name = |topic: usize| self.topics.get(topic).map(|t| t.name.clone());
        let step = transactions.poll_send(now, is_flushed, in_flight, name);
        self.apply_transaction_effects();
        step.map(|outgoing| outgoing.map(ProducerToken::Transaction))
    }
}

#[cfg(test)]
mod tests {
    use super::super::ProducedAs;
    use super::*;
    use crate::api;
    use crate::record::{BatchBuilder, batches};

    /// Encodes three records in a Produce version. Returns the magic of each batch, and all values.
    fn written(version: i16, codec: Compression) -> (Vec<i8>, Vec<Vec<u8>>) {
        let mut builder = BatchBuilder::with_capacity(0);
        for value in ["a", "b", "c"] {
            builder.append(1_700_000_000_000, Some(b"k"), Some(value.as_bytes()), &[]);
        }
        let records = Some(builder.seal(codec, ProducedAs::NONE).unwrap().data);
        let partition_data = vec![produce::PartitionData { index: 0, records }];
        let topic = produce::TopicData { name: "t".to_owned(), partition_data, ..Default::default() };
        let request = produce::Request { acks: 1, topic_data: vec![topic], ..Default::default() };
        let mut w = Writer::new(version, false);
        ProduceCall { request, required_feature: Feature::Nothing }.put(&mut w);
        let body = w.parts().unwrap().concat();
        let request: produce::Request = api::decode(version, body.into()).unwrap();
        let records = request.topic_data[0].partition_data[0].records.clone().unwrap();
        let (mut magic, mut values) = (Vec::new(), Vec::new());
        for batch in batches(records) {
            let batch = batch.unwrap();
            magic.push(batch.header.magic);
            let mut views = batch.records(DEFAULT_LIMIT).unwrap();
            while let Some(view) = views.next_view() {
                values.push(view.unwrap().value().unwrap().to_vec());
            }
        }
        (magic, values)
    }

    #[test]
    fn each_produce_version_uses_the_message_format_of_its_time() {
        for codec in [Compression::None, Compression::Gzip, Compression::Snappy, Compression::Lz4] {
            for (version, expected) in [(0, 0), (1, 0), (2, 1), (3, 2), (8, 2)] {
                let (magic, values) = written(version, codec);
                assert!(!magic.is_empty() && magic.iter().all(|m| *m == expected), "v{version}: {magic:?}");
                assert_eq!(values, [b"a", b"b", b"c"], "v{version}");
            }
        }
    }
}
