//! What a producer counts; everything from its start on.

use super::Producer;
use super::accumulate::DELIVERY_BYTES;
use super::batch::Batch;
use crate::engine::Time;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Of one topic.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TopicMetrics {
    /// Records acknowledged.
    pub records: u64,
    /// Their bytes before compression.
    pub bytes: u64,
    /// Batches acknowledged.
    pub batches: u64,
    /// Records that failed.
    pub errors: u64,
    /// Batches that were sent again.
    pub retries: u64,
    /// How long batches waited until they were sent first, all together.
    pub queue_time: Duration,
}

/// Of one broker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BrokerMetrics {
    /// Produce requests sent.
    pub requests: u64,
    /// What the batches took in those that are not under way any more, as compressed.
    pub bytes: u64,
    /// Those that were lost, or whose answer made no sense.
    pub errors: u64,
    /// Those under way.
    pub in_flight: u64,
    /// From request to answer, all together.
    pub latency: Duration,
    /// From request to answer, the longest.
    pub max_latency: Duration,
    /// How long the broker asked to be left alone.
    pub throttled: Duration,
}

/// Of a producer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metrics {
    /// By topic.
    pub topics: BTreeMap<Arc<str>, TopicMetrics>,
    /// By broker.
    pub brokers: BTreeMap<i32, BrokerMetrics>,
    /// Bytes of records that wait or are in flight.
    pub buffered_bytes: usize,
    /// Records without an outcome.
    pub outstanding: u64,
}

impl TopicMetrics {
    pub(super) fn note<D>(&mut self, batch: &Batch<D>, is_ok: bool) {
        let count = u64::from(batch.count.unsigned_abs());
        if is_ok {
            self.records += count;
            self.bytes += batch.bytes.saturating_sub(batch.deliveries.len() * DELIVERY_BYTES) as u64;
            self.batches += 1;
        } else {
            self.errors += count;
        }
    }

    pub(super) fn note_sent<D>(&mut self, now: Time, batch: &Batch<D>) {
        if batch.attempts == 0 {
            self.queue_time += now.since(batch.created);
        }
    }
}

impl BrokerMetrics {
    pub(super) fn note_sent(&mut self) {
        self.requests += 1;
        self.in_flight += 1;
    }

    pub(super) fn note_answer(&mut self, bytes: u64, latency: Duration, is_ok: bool) {
        self.bytes += bytes;
        self.in_flight = self.in_flight.saturating_sub(1);
        self.errors += u64::from(!is_ok);
        self.latency += latency;
        self.max_latency = self.max_latency.max(latency);
    }
}

impl<D> Producer<D> {
    /// What was counted so far.
    pub fn metrics(&self) -> Metrics {
        Metrics {
            topics: self
                .topics
                .iter()
                .filter(|t| !t.name.is_empty())
                .map(|t| (t.name.clone(), t.metrics.clone()))
                .collect(),
            brokers: self.brokers.clone(),
            buffered_bytes: self.memory,
            outstanding: self.outstanding(),
        }
    }
}
