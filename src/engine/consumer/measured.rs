//! The measurements of a consumer: lag, rebalances, and the measurements that consumers and share consumers have in
//! common.

use super::fetch_response::{Chunk, FetchResult};
use crate::engine::Time;
use crate::engine::group::Change;
use crate::engine::metrics::reading::Reading;
use crate::engine::metrics::{Family, Stat, Timing};
use std::time::Duration;

/// The measurements of a consumer.
#[derive(Debug, Default)]
pub(super) struct Measured {
    pub reading: Reading,
    /// The lag of a partition at each of its fetches.
    pub lag: Stat,
    /// When the current rebalance of the member began.
    pub rebalancing_since: Option<Time>,
    pub rebalances: Timing,
    pub failed_rebalances: Stat,
    pub rebalanced_at: Option<Time>,
    /// When the application took the change that it is handling.
    change_taken_at: Time,
    /// How long the application took to handle new assignments. `revoked` and `lost` are the times for these types of
    /// changes.
    pub assigned: Timing,
    pub revoked: Timing,
    pub lost: Timing,
}

impl Measured {
    pub fn note_fetch(&mut self, now: Time, all: &FetchResult) {
        let topics = all.partitions.iter().map(|p| {
            let bytes = p.chunks.iter().map(|chunk| chunk.bytes).sum();
            (&p.requested.topic, bytes, p.chunks.iter().map(Chunk::count).sum())
        });
        self.reading.note_fetch(now, all.throttle, topics);
    }

    pub fn note_lag(&mut self, now: Time, lag: i64) {
        self.lag.record(now, lag.max(0) as f64);
    }

    pub fn note_taken(&mut self, now: Time) {
        self.change_taken_at = now;
    }

    pub fn note_handled(&mut self, now: Time, change: &Change) {
        let took = now.since(self.change_taken_at);
        match change {
            Change::Assigned(_) => self.assigned.note(now, took),
            Change::Revoked(_) => self.revoked.note(now, took),
            Change::Lost(_) => {
                self.lost.note(now, took);
                self.failed_rebalances.note(now);
            }
        }
    }

    /// Notes whether the member is in a rebalance. If a rebalance has just ended, returns how long it took.
    pub fn note_rebalancing(&mut self, now: Time, is_rebalancing: bool) -> Option<Duration> {
        let Some(since) = self.rebalancing_since else {
            self.rebalancing_since = is_rebalancing.then_some(now);
            return None;
        };
        (!is_rebalancing).then(|| {
            let took = now.since(since);
            self.rebalances.note(now, took);
            (self.rebalancing_since, self.rebalanced_at) = (None, Some(now));
            took
        })
    }
}

/// Measures how the application polls. Only the application's thread writes these measurements.
#[derive(Clone, Debug, Default)]
pub struct Polls {
    /// When the current poll began. `None` between polls.
    began: Option<Time>,
    last: Option<Time>,
    between: Timing,
    /// The fraction of the time that the application spent in polls, measured from each poll to the next.
    idle: Stat,
    idle_for: Duration,
}

impl Polls {
    /// Notes that a poll has begun, unless one has begun already.
    pub fn begin(&mut self, now: Time) {
        if self.began.is_some() {
            return;
        }
        if let Some(last) = self.last {
            let cycle = now.since(last);
            self.between.note(now, cycle);
            if !cycle.is_zero() {
                self.idle.record(now, self.idle_for.as_secs_f64() / cycle.as_secs_f64());
            }
        }
        (self.began, self.last) = (Some(now), Some(now));
    }

    /// Notes that the poll has returned.
    pub fn end(&mut self, now: Time) {
        if let Some(began) = self.began.take() {
            self.idle_for = now.since(began);
        }
    }

    /// Adds the metrics about polls to the metrics of the client.
    pub fn put(&self, family: &mut Family, now: Time) {
        family.percentiles("time-between-poll", &self.between, now);
        family.put("poll-idle-ratio-avg", self.idle.recent(now).average().min(1.0));
        family.put("last-poll-seconds-ago", self.last.map_or(-1.0, |at| now.since(at).as_secs_f64()));
    }
}
