//! Measures the sent batches, and groups the producer's metrics into families.

use super::batch::Batch;
use super::{InFlightBatch, Metrics, Producer};
use crate::engine::Time;
use crate::engine::metrics::Family;
use std::sync::Arc;
use std::time::Duration;

/// The metrics group of the counters that the Java client does not have.
const COUNTERS: &str = "klamm-producer-counters";

impl<D> Producer<D> {
    /// Returns the number of records of each topic that are neither acknowledged nor failed.
    pub fn outstanding_by_topic(&self) -> Vec<(Arc<str>, u64)> {
        let count = |batch: &Batch<D>| u64::from(batch.count.unsigned_abs());
        let counts = self.topics.iter().enumerate().map(|(number, topic)| {
            let batches = topic.partitions.iter().flat_map(|p| p.open.iter().chain(&p.queue));
            let in_flight = self.unreported.iter().filter(|((_, topic, ..), _)| *topic == number);
            let in_flight: u64 = in_flight.map(|(_, reports)| u64::from(reports.count.unsigned_abs())).sum();
            (topic.name.clone(), topic.waiting_count() + batches.map(count).sum::<u64>() + in_flight)
        });
        counts.filter(|(_, count)| *count > 0).collect()
    }

    /// Returns a snapshot of the metrics.
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

    /// Measures a produce request that was completed.
    pub(super) fn measure_request(&mut self, now: Time, sent_at: Time, batches: &[InFlightBatch<D>]) {
        let mut count = 0;
        for sent in batches {
            let batch = &sent.batch;
            let (size, uncompressed_size) = (batch.size(), batch.uncompressed_size);
            count += batch.count;
            self.measured.all.note_batch(now, batch.count, size, uncompressed_size);
            self.measured.batch_size.record(now, size as f64);
            let records = u64::from(batch.count.unsigned_abs());
            self.measured.record_size.record_sum(now, records, uncompressed_size as f64, 0.0);
            if let Some(t) = self.topics.get_mut(sent.topic) {
                t.sending.note_batch(now, batch.count, size, uncompressed_size);
            }
        }
        self.measured.records_per_request.record(now, f64::from(count));
        self.measured.request_latency.note(now, now.since(sent_at));
    }

    /// Counts the retry of a batch.
    pub(super) fn note_retry(&mut self, now: Time, topic: usize, records: i32) {
        self.measured.all.retries.record(now, f64::from(records));
        if let Some(t) = self.topics.get_mut(topic) {
            t.metrics.retries += 1;
            t.sending.retries.record(now, f64::from(records));
        }
    }

    /// Counts the result of a batch.
    pub(super) fn note_result(&mut self, topic: usize, batch: &Batch<D>, is_ok: bool) {
        if let Some(t) = self.topics.get_mut(topic) {
            t.metrics.note(batch, is_ok);
        }
        if !is_ok {
            self.note_failed_records(topic, batch.count);
        }
    }

    /// Measures records that failed.
    pub(super) fn note_failed_records(&mut self, topic: usize, records: i32) {
        let now = self.measured.now;
        self.measured.all.errors.record(now, f64::from(records));
        if let Some(t) = self.topics.get_mut(topic) {
            t.sending.errors.record(now, f64::from(records));
        }
    }

    /// Returns the metrics that librdkafka's statistics show as windows of time.
    pub fn windows(&self, now: Time) -> Vec<Family> {
        let window = |name| Family::new("klamm-windows").tag("window", name);
        let mut queued = window("int_latency");
        queued.values = self.measured.queue_time.window(now);
        let mut throttled = window("throttle");
        throttled.values = self.measured.throttle.window(now);
        let topics = self.topics.iter().filter(|t| !t.name.is_empty()).flat_map(|t| {
            [("batchsize", &t.sending.bytes), ("batchcnt", &t.sending.records)].map(|(name, stat)| {
                let mut family = window(name).tag("topic", &t.name);
                family.values = stat.window(now);
                family
            })
        });
        [queued, throttled].into_iter().chain(topics).collect()
    }

    /// Returns the counters that the Java client does not have, with times in seconds.
    fn counters(&self) -> impl Iterator<Item = Family> {
        let Metrics { topics, brokers, buffered_bytes, outstanding } = self.metrics();
        let mut all = Family::new(COUNTERS);
        all.put("buffered-bytes", buffered_bytes);
        all.put("outstanding", outstanding);
        let topics = topics.into_iter().map(|(name, m)| {
            let mut family = Family::new(COUNTERS).tag("topic", name);
            family.put("records", m.records);
            family.put("bytes", m.bytes);
            family.put("batches", m.batches);
            family.put("errors", m.errors);
            family.put("retries", m.retries);
            family.put("queue-time", m.queue_time.as_secs_f64());
            family
        });
        let brokers = brokers.into_iter().map(|(node, m)| {
            let mut family = Family::new(COUNTERS).tag("node-id", format!("node-{node}"));
            family.put("requests", m.requests);
            family.put("bytes", m.bytes);
            family.put("errors", m.errors);
            family.put("in-flight", m.in_flight);
            family.put("request-latency", m.latency.as_secs_f64());
            family.put("max-request-latency", m.max_latency.as_secs_f64());
            family.put("throttled", m.throttled.as_secs_f64());
            family
        });
        std::iter::once(all).chain(topics).chain(brokers)
    }

    /// Returns the metrics.
    pub fn families(&self, now: Time) -> Vec<Family> {
        let measured = &self.measured;
        let mut all = Family::new("producer-metrics");
        measured.all.put(&mut all, now);
        all.percentiles("batch-size", &measured.batch_size, now);
        all.put("compression-rate-avg", measured.all.compression.recent(now).average());
        all.put("record-size-avg", measured.record_size.recent(now).average());
        all.put("records-per-request-avg", measured.records_per_request.recent(now).average());
        all.percentiles("record-queue-time", &measured.queue_time, now);
        all.percentiles("request-latency", &measured.request_latency, now);
        all.spread("produce-throttle-time", &measured.throttle, now);
        all.events("batch-split", &measured.splits, now);
        all.put("requests-in-flight", self.in_flight.values().sum::<usize>());
        all.put("buffer-total-bytes", self.config.buffer_memory);
        all.put("buffer-available-bytes", self.config.buffer_memory.saturating_sub(self.memory));
        let full = measured.full + measured.full_since.map_or(Duration::ZERO, |since| now.since(since));
        all.put("bufferpool-wait-time-ns-total", full.as_nanos() as u64);
        all.put("bufferpool-wait-ratio", if now.0 > 0 { full.as_micros() as f64 / now.0 as f64 } else { 0.0 });
        let topics = self.topics.iter().filter(|t| !t.name.is_empty()).map(|t| {
            let mut family = Family::new("producer-topic-metrics").tag("topic", &t.name);
            t.sending.put(&mut family, now);
            family.put("compression-rate", t.sending.compression.recent(now).average());
            family
        });
        std::iter::once(all).chain(topics).chain(self.counters()).collect()
    }
}
