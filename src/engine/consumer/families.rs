//! Groups the consumer's metrics into families: one for all topics, one for each topic, one for each partition, and one
//! for the group.

use super::partition::PositionState;
use super::{Consumer, Slice};
use crate::engine::Time;
use crate::engine::metrics::{Family, Stat};

/// The Java client's name for the group of metrics about fetches.
const FETCHES: &str = "consumer-fetch-manager-metrics";

/// The group of metrics about the offsets of assigned partitions. The Java client does not have this group.
const POSITIONS: &str = "klamm-positions";

impl<T: Send> Consumer<T> {
    /// Measures records that the consumer delivers to the application.
    pub fn note_delivered(&mut self, now: Time, slices: &[Slice]) {
        let wall_ms = self.config.started_ms.saturating_add(i64::try_from(now.0 / 1000).unwrap_or(i64::MAX));
        for slice in slices {
            self.measured.reading.note_delivered(now, wall_ms, &slice.topic, &slice.records);
        }
    }

    /// Notes whether a rebalance has begun or ended, and logs its end.
    pub(super) fn watch_rebalance(&mut self, now: Time) {
        if let Some(group) = self.group.as_ref().filter(|_| self.is_member)
            && let Some(took) = self.measured.note_rebalancing(now, group.is_rebalancing())
        {
            group.log_rebalanced(took);
            self.paused_before_rebalance.clear();
        }
    }

    /// Returns the metrics.
    pub fn families(&self, now: Time) -> Vec<Family> {
        let measured = &self.measured;
        let mut families = measured.reading.families(FETCHES, now);
        if let Some(all) = families.first_mut() {
            all.put("records-lag-max", measured.lag.recent(now).max);
        }
        for p in self.partitions.values() {
            let mut family = Family::new(FETCHES).tag("topic", &p.topic).tag("partition", p.partition);
            if p.state == PositionState::Known && p.readable_end >= 0 {
                family.put("records-lag", (p.readable_end - p.position).max(0).unsigned_abs());
            }
            family.spread("records-lag", &p.lag, now);
            if p.state == PositionState::Known && p.log_start_offset >= 0 {
                family.put("records-lead", (p.position - p.log_start_offset).max(0).unsigned_abs());
            }
            let replica = p.replica.filter(|(_, until)| *until > now).map_or(-1, |(node, _)| node);
            family.put("preferred-read-replica", f64::from(replica));
            families.push(family);
            if p.state == PositionState::Known {
                let mut family = Family::new(POSITIONS).tag("topic", &p.topic).tag("partition", p.partition);
                family.put("position", p.position as f64);
                family.put("finished", p.processed as f64);
                family.put("committed", p.committed as f64);
                family.put("log-start", p.log_start_offset as f64);
                family.put("end", p.readable_end as f64);
                family.put("buffered-bytes", p.buffered);
                families.push(family);
            }
        }
        if self.config.group.is_some() {
            families.push(self.group_family(now));
        }
        families
    }

    fn group_family(&self, now: Time) -> Family {
        let measured = &self.measured;
        let mut family = Family::new("consumer-coordinator-metrics");
        family.put("assigned-partitions", self.partitions.len());
        family.events("rebalance", measured.rebalances.stat(), now);
        let per_hour = |stat: &Stat| stat.recent(now).event_rate() * 3600.0;
        family.put("rebalance-rate-per-hour", per_hour(measured.rebalances.stat()));
        family.percentiles("rebalance-latency", &measured.rebalances, now);
        family.put("rebalance-latency-total", measured.rebalances.stat().sum());
        family.put("failed-rebalance-total", measured.failed_rebalances.count());
        family.put("failed-rebalance-rate-per-hour", per_hour(&measured.failed_rebalances));
        let ago = measured.rebalanced_at.map_or(-1.0, |at| now.since(at).as_secs_f64());
        family.put("last-rebalance-seconds-ago", ago);
        family.spread("partition-assigned-latency", measured.assigned.stat(), now);
        family.spread("partition-revoked-latency", measured.revoked.stat(), now);
        family.spread("partition-lost-latency", measured.lost.stat(), now);
        family
    }
}
