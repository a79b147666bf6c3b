//! Groups the share consumer's metrics into families.

use super::ShareConsumer;
use crate::engine::Time;
use crate::engine::consumer::Slice;
use crate::engine::metrics::Family;

/// The Java client's name for the group of metrics about fetches.
const FETCHES: &str = "consumer-share-fetch-manager-metrics";

impl<T: Send> ShareConsumer<T> {
    pub(super) fn note_delivered(&mut self, now: Time, slices: &[Slice]) {
        let since_start = i64::try_from(now.0 / 1000).unwrap_or(i64::MAX);
        let wall_ms = self.config.started_ms.saturating_add(since_start);
        for slice in slices {
            self.measured.reading.note_delivered(now, wall_ms, &slice.topic, &slice.records);
        }
    }

    /// Returns the metrics.
    pub fn families(&self, now: Time) -> Vec<Family> {
        let measured = &self.measured;
        let mut families = measured.reading.families(FETCHES, now);
        if let Some(all) = families.first_mut() {
            all.sums("acknowledgements-send", &measured.acknowledged, now);
            all.sums("acknowledgements-error", &measured.unacknowledged, now);
        }
        let mut group = Family::new("consumer-share-coordinator-metrics");
        group.events("rebalance", measured.rebalances.stat(), now);
        let per_second = measured.rebalances.stat().recent(now).event_rate();
        group.put("rebalance-rate-per-hour", per_second * 3600.0);
        group.percentiles("rebalance-latency", &measured.rebalances, now);
        families.push(group);
        families
    }
}
