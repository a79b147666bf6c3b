//! The metrics of a share consumer: acknowledgements, and the metrics that consumers also have.

use super::acquired::LeaderResponse;
use crate::engine::Time;
use crate::engine::consumer::Slice;
use crate::engine::metrics::reading::Reading;
use crate::engine::metrics::{Stat, Timing};

/// The measurements of a share consumer.
#[derive(Debug, Default)]
pub(super) struct Measured {
    pub reading: Reading,
    pub acknowledged: Stat,
    pub unacknowledged: Stat,
    joining_since: Option<Time>,
    pub rebalances: Timing,
}

impl Measured {
    pub fn note_fetch(&mut self, now: Time, all: &LeaderResponse) {
        if all.is_fetch {
            let topics = all.partitions.iter().map(|p| {
                let size = |s: &Slice| s.records.first().zip(s.records.last()).map_or(0, |(a, b)| a.size_to(b));
                let bytes = p.slices.iter().map(size).sum();
                (&p.topic_partition.topic, bytes, p.slices.iter().map(|slice| slice.records.len()).sum())
            });
            self.reading.note_fetch(now, all.throttle, topics);
        }
    }

    pub fn note_acks(&mut self, now: Time, count: u64, is_refused: bool) {
        self.acknowledged.record(now, count as f64);
        if is_refused {
            self.unacknowledged.record(now, count as f64);
        }
    }

    pub fn note_rebalancing(&mut self, now: Time, is_joining: bool) {
        match (self.joining_since, is_joining) {
            (None, true) => self.joining_since = Some(now),
            (Some(since), false) => {
                self.rebalances.note(now, now.since(since));
                self.joining_since = None;
            }
            _ => {}
        }
    }
}
