//! The producer's metrics that are not counters: sizes, times and rates, under the names of the Java client.

use crate::engine::Time;
use crate::engine::metrics::{Family, Sizes, Stat, Timing};
use std::time::Duration;

/// The measurements of a topic, or of all topics.
#[derive(Debug, Default)]
pub(super) struct Sending {
    /// The number of records in each batch.
    pub records: Stat,
    /// The compressed size of each batch.
    pub bytes: Stat,
    /// The compressed size divided by the uncompressed size.
    pub compression: Stat,
    pub retries: Stat,
    pub errors: Stat,
}

impl Sending {
    /// Measures a batch: its number of records, and its size after and before compression.
    pub fn note_batch(&mut self, now: Time, records: i32, size: usize, uncompressed_size: usize) {
        self.records.record(now, f64::from(records));
        self.bytes.record(now, size as f64);
        if uncompressed_size > 0 {
            self.compression.record(now, size as f64 / uncompressed_size as f64);
        }
    }

    pub fn put(&self, family: &mut Family, now: Time) {
        family.sums("record-send", &self.records, now);
        family.sums("byte", &self.bytes, now);
        family.sums("record-retry", &self.retries, now);
        family.sums("record-error", &self.errors, now);
    }
}

/// The measurements of a producer.
#[derive(Debug, Default)]
pub(super) struct Measured {
    pub all: Sending,
    pub batch_size: Sizes,
    /// The uncompressed size of records, recorded for each batch.
    pub record_size: Stat,
    pub records_per_request: Stat,
    pub queue_time: Timing,
    pub request_latency: Timing,
    pub throttle: Stat,
    pub splits: Stat,
    /// When a record began to wait for room in the buffer.
    pub full_since: Option<Time>,
    /// How long records have waited for room in the buffer in total.
    pub full: Duration,
    /// When the state machine was last called.
    pub now: Time,
}

impl Measured {
    pub fn note_first_send(&mut self, now: Time, waited: Duration) {
        self.queue_time.note(now, waited);
    }

    pub fn note_throttle(&mut self, now: Time, wait: Duration) {
        self.throttle.record(now, wait.as_secs_f64() * 1000.0);
    }

    pub fn note_split(&mut self) {
        self.splits.note(self.now);
    }

    /// Notes that a record found the buffer full.
    pub fn note_full(&mut self) {
        self.full_since.get_or_insert(self.now);
    }

    /// Notes that the buffer has room again.
    pub fn note_room(&mut self) {
        if let Some(since) = self.full_since.take() {
            self.full += self.now.since(since);
        }
    }
}
