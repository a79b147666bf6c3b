//! The metrics of a client, under the names of the Java client.
//!
//! * [`stat`]: numbers that are recorded over time, with totals, and with recent rates, averages and percentiles.
//! * [`reading`]: the metrics that consumers and share consumers have in common.
//! * [`Family`]: a snapshot of all metrics about one client, broker, topic or partition.
//!
//! The state machines own their metrics and update them once for each request, response or batch, never for each
//! record. This module does not export metrics: the code that reads a [`Family`] does.

mod number;
pub mod reading;
pub mod stat;

pub use number::Number;
pub use stat::{Sizes, Stat, Timing};

use super::Time;
use std::borrow::Cow;

/// The metrics of one client, broker, topic or partition, at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Family {
    /// The Java client's name for the group of metrics, such as `producer-topic-metrics`.
    pub group: Cow<'static, str>,
    /// The object that the metrics describe, with keys such as `node-id`, `topic` and `partition`.
    pub tags: Vec<(Cow<'static, str>, String)>,
    /// The names and values of the metrics.
    pub values: Vec<(Cow<'static, str>, Number)>,
}

impl Family {
    /// Creates a family without values.
    pub fn new(group: impl Into<Cow<'static, str>>) -> Self {
        Self { group: group.into(), tags: Vec::new(), values: Vec::new() }
    }

    /// Adds a tag.
    pub fn tag(mut self, key: impl Into<Cow<'static, str>>, value: impl ToString) -> Self {
        self.tags.push((key.into(), value.to_string()));
        self
    }

    /// Adds one value.
    pub fn put(&mut self, name: impl Into<Cow<'static, str>>, value: impl Into<Number>) {
        self.values.push((name.into(), value.into()));
    }

    /// Adds the sum of the recorded numbers, and the sum per second, as `-total` and `-rate`.
    pub fn sums(&mut self, name: &str, stat: &Stat, now: Time) {
        self.put(format!("{name}-total"), stat.sum() as u64);
        self.put(format!("{name}-rate"), stat.recent(now).rate());
    }

    /// Adds the number of events, and the events per second, as `-total` and `-rate`.
    pub fn events(&mut self, name: &str, stat: &Stat, now: Time) {
        self.put(format!("{name}-total"), stat.count());
        self.put(format!("{name}-rate"), stat.recent(now).event_rate());
    }

    /// Adds the average and the largest of the recorded numbers, as `-avg` and `-max`.
    pub fn spread(&mut self, name: &str, stat: &Stat, now: Time) {
        let recent = stat.recent(now);
        self.put(format!("{name}-avg"), recent.average());
        self.put(format!("{name}-max"), recent.max);
    }

    /// Adds the same values as [`Family::spread`], and the percentiles, as `-p50`, `-p99` and `-p999`.
    pub fn percentiles<const PER_UNIT: u64>(&mut self, name: &str, values: &stat::Distribution<PER_UNIT>, now: Time) {
        self.spread(name, values.stat(), now);
        for (suffix, value) in ["p50", "p99", "p999"].into_iter().zip(values.percentiles(now, [0.5, 0.99, 0.999])) {
            self.put(format!("{name}-{suffix}"), value);
        }
    }
}
