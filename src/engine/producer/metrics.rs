//! The producer's metrics. The counters start at 0 when the producer is created, and are never reset.

use super::batch::{Batch, DELIVERY_BYTES};
use crate::engine::Time;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Metrics of one topic.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TopicMetrics {
    /// The number of acknowledged records.
    pub records: u64,
    /// The bytes of acknowledged records before compression.
    pub bytes: u64,
    /// The number of acknowledged batches.
    pub batches: u64,
    /// The number of records that failed.
    pub errors: u64,
    /// The number of retries of batches.
    pub retries: u64,
    /// The total time that batches waited before they were first sent.
    pub queue_time: Duration,
}

/// Metrics of one broker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BrokerMetrics {
    /// The number of produce requests that were sent.
    pub requests: u64,
    /// The compressed bytes of the batches in completed requests.
    pub bytes: u64,
    /// The number of requests that failed, or whose response could not be decoded.
    pub errors: u64,
    /// The number of requests in flight.
    pub in_flight: u64,
    /// The total time from request to response.
    pub latency: Duration,
    /// The longest time from request to response.
    pub max_latency: Duration,
    /// The total throttle time that the broker requested.
    pub throttled: Duration,
}

/// Metrics of a producer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metrics {
    /// Metrics by topic name.
    pub topics: BTreeMap<Arc<str>, TopicMetrics>,
    /// Metrics by broker ID.
    pub brokers: BTreeMap<i32, BrokerMetrics>,
    /// The bytes of buffered records, including records in flight.
    pub buffered_bytes: usize,
    /// The number of records that have neither been acknowledged nor failed yet.
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
