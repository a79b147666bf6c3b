//! The metrics of fetching that consumers and share consumers have in common.

use super::{Family, Sizes, Stat, Timing};
use crate::engine::Time;
use crate::record::Record;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// The measurements of a topic, or of all topics.
#[derive(Clone, Debug, Default)]
struct Reads {
    /// The number of delivered records in each batch.
    records: Stat,
    /// The uncompressed size of the delivered records in each batch.
    bytes: Stat,
    /// The size of the records in each fetch response.
    fetch_size: Sizes,
    records_per_request: Stat,
}

impl Reads {
    fn put(&self, family: &mut Family, now: Time) {
        family.sums("records-consumed", &self.records, now);
        family.sums("bytes-consumed", &self.bytes, now);
        family.spread("fetch-size", self.fetch_size.stat(), now);
        family.put("records-per-request-avg", self.records_per_request.recent(now).average());
    }
}

/// The measurements of a consumer.
#[derive(Clone, Debug, Default)]
pub struct Reading {
    all: Reads,
    topics: BTreeMap<Arc<str>, Reads>,
    throttle: Stat,
    /// The time from the timestamps of records to their delivery to the application.
    end_to_end: Timing,
}

impl Reading {
    /// Measures a fetch response. `topics` contains the topic, the bytes and the records of each partition.
    pub fn note_fetch<'a>(
        &mut self,
        now: Time,
        throttle: Duration,
        topics: impl IntoIterator<Item = (&'a Arc<str>, usize, usize)>,
    ) {
        self.throttle.record(now, throttle.as_secs_f64() * 1000.0);
        let (mut all_bytes, mut all_records) = (0, 0);
        let mut topics = topics.into_iter().peekable();
        while let Some((topic, mut bytes, mut records)) = topics.next() {
            while let Some((_, b, r)) = topics.next_if(|(next, ..)| *next == topic) {
                (bytes, records) = (bytes + b, records + r);
            }
            (all_bytes, all_records) = (all_bytes + bytes, all_records + records);
            // A response without news of a topic says nothing about its sizes.
            if bytes > 0 {
                let reads = self.topic(topic);
                reads.fetch_size.record(now, bytes as f64);
                reads.records_per_request.record(now, records as f64);
            }
        }
        if all_bytes > 0 {
            self.all.fetch_size.record(now, all_bytes as f64);
            self.all.records_per_request.record(now, all_records as f64);
        }
    }

    fn topic(&mut self, topic: &Arc<str>) -> &mut Reads {
        if !self.topics.contains_key(topic) {
            self.topics.insert(topic.clone(), Reads::default());
        }
        self.topics.entry(topic.clone()).or_default()
    }

    /// Measures the records of one batch that the client delivers to the application. `wall_ms` is the time in
    /// milliseconds since 1970.
    pub fn note_delivered(&mut self, now: Time, wall_ms: i64, topic: &Arc<str>, batch: &[Record]) {
        let (Some(first), Some(last)) = (batch.first(), batch.last()) else { return };
        let (records, bytes) = (batch.len() as f64, first.size_to(last) as f64);
        self.all.records.record(now, records);
        self.all.bytes.record(now, bytes);
        let reads = self.topic(topic);
        reads.records.record(now, records);
        reads.bytes.record(now, bytes);
        if last.timestamp >= 0 {
            // The producer's clock may be ahead.
            self.end_to_end.record(now, wall_ms.saturating_sub(last.timestamp).max(0) as f64);
        }
    }

    /// Returns the metrics of all topics together, and of each topic.
    pub fn families(&self, group: &'static str, now: Time) -> Vec<Family> {
        let mut all = Family::new(group);
        self.all.put(&mut all, now);
        all.spread("fetch-throttle-time", &self.throttle, now);
        all.percentiles("end-to-end-latency", &self.end_to_end, now);
        let topics = self.topics.iter().map(|(topic, reads)| {
            let mut family = Family::new(group).tag("topic", topic);
            reads.put(&mut family, now);
            family
        });
        std::iter::once(all).chain(topics).collect()
    }
}
