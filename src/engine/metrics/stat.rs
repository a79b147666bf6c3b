//! Numbers that are recorded over time.
//!
//! As in the Java client, totals count from the start of the client. Rates, averages and percentiles use two samples of
//! 30 seconds each. Every 30 seconds, a new sample replaces the older of the two samples. Rates, averages and
//! percentiles therefore cover the last 30 to 60 seconds.

use super::number::Number;
use crate::engine::Time;
use hdrhistogram::Histogram;
use std::borrow::Cow;
use std::time::Duration;

/// How long a sample lasts. The value is the Java client's default for `metrics.sample.window.ms`.
const WINDOW: Duration = Duration::from_secs(30);
/// The shortest time over which rates are computed. If a client has just started, a single event would otherwise look
/// like thousands of events per second.
const MIN_ELAPSED: Duration = Duration::from_secs(1);
/// The largest value of a histogram: an hour in microseconds, or 3.6 GB.
const MAX_VALUE: u64 = 3_600_000_000;
/// The number of exact digits of percentiles. With two digits, a histogram needs 14 KB.
const DIGITS: u8 = 2;

#[derive(Clone, Copy, Debug)]
struct Sample {
    start: Time,
    count: u64,
    sum: f64,
    max: f64,
}

impl Sample {
    fn at(start: Time) -> Self {
        Self { start, count: 0, sum: 0.0, max: 0.0 }
    }

    /// Returns whether a new sample has to begin.
    fn is_full(&self, now: Time) -> bool {
        now.since(self.start) >= WINDOW
    }

    /// Returns whether the sample still counts.
    fn is_recent(&self, now: Time) -> bool {
        self.count > 0 && now.since(self.start) < 2 * WINDOW
    }
}

/// Recorded numbers: their count and sum since the start, and the last two samples.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stat {
    count: u64,
    sum: f64,
    /// The last two samples, the newer sample first. `None` before the first number.
    samples: Option<[Sample; 2]>,
}

/// The values of the last two samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Recent {
    /// The number of events.
    pub count: u64,
    /// The sum of the recorded numbers.
    pub sum: f64,
    /// The largest recorded number.
    pub max: f64,
    /// The time that the samples cover, in seconds.
    pub elapsed: f64,
}

impl Recent {
    /// Returns the average number, or 0 without events.
    pub fn average(&self) -> f64 {
        if self.count > 0 { self.sum / self.count as f64 } else { 0.0 }
    }

    /// Returns the sum per second.
    pub fn rate(&self) -> f64 {
        self.sum / self.elapsed
    }

    /// Returns the events per second.
    pub fn event_rate(&self) -> f64 {
        self.count as f64 / self.elapsed
    }
}

impl Stat {
    /// Records a number. Returns whether a new sample began.
    #[inline]
    pub fn record(&mut self, now: Time, value: f64) -> bool {
        self.record_sum(now, 1, value, value)
    }

    /// Records several numbers by their count, their sum and the largest number.
    pub fn record_sum(&mut self, now: Time, count: u64, sum: f64, max: f64) -> bool {
        self.count += count;
        self.sum += sum;
        let [newer, older] = self.samples.get_or_insert_with(|| [Sample::at(now); 2]);
        let begins = newer.is_full(now);
        if begins {
            *older = std::mem::replace(newer, Sample::at(now));
        }
        newer.count += count;
        newer.sum += sum;
        newer.max = newer.max.max(max);
        begins
    }

    /// Records an event without a number.
    pub fn note(&mut self, now: Time) {
        self.record(now, 1.0);
    }

    /// Returns the number of events since the start.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the sum of the numbers since the start.
    pub fn sum(&self) -> f64 {
        self.sum
    }

    /// Returns the values in the form of librdkafka's statistics.
    pub fn window(&self, now: Time) -> Vec<(Cow<'static, str>, Number)> {
        let Recent { count, sum, max, .. } = self.recent(now);
        let values = [("cnt", count as f64), ("sum", sum), ("avg", self.recent(now).average()), ("max", max)];
        values.map(|(name, value)| (name.into(), value.into())).into()
    }

    /// Returns the values of the last two samples.
    pub fn recent(&self, now: Time) -> Recent {
        let samples = self.samples.iter().flatten().filter(|sample| sample.is_recent(now));
        let empty = Recent { count: 0, sum: 0.0, max: 0.0, elapsed: MIN_ELAPSED.as_secs_f64() };
        samples.fold(empty, |all, sample| Recent {
            count: all.count + sample.count,
            sum: all.sum + sample.sum,
            max: all.max.max(sample.max),
            elapsed: all.elapsed.max(now.since(sample.start).as_secs_f64()),
        })
    }
}

/// Recorded numbers with percentiles. The histogram counts in steps of 1/`PER_UNIT`.
#[derive(Clone, Debug, Default)]
pub struct Distribution<const PER_UNIT: u64> {
    stat: Stat,
    /// The histogram of each sample, the newer sample first.
    histograms: Option<Box<[Histogram<u32>; 2]>>,
}

/// Times in milliseconds, exact to the microsecond.
pub type Timing = Distribution<1000>;
/// Sizes and other whole numbers.
pub type Sizes = Distribution<1>;

impl<const PER_UNIT: u64> Distribution<PER_UNIT> {
    /// Records a number.
    pub fn record(&mut self, now: Time, value: f64) {
        let begins = self.stat.record(now, value);
        if self.histograms.is_none() {
            let histogram = || Histogram::new_with_bounds(1, MAX_VALUE, DIGITS).ok();
            self.histograms = histogram().zip(histogram()).map(|(newer, older)| Box::new([newer, older]));
        }
        if let Some([newer, older]) = self.histograms.as_deref_mut() {
            if begins {
                std::mem::swap(newer, older);
                newer.reset();
            }
            newer.saturating_record((value * PER_UNIT as f64) as u64);
        }
    }

    /// Returns the numbers without percentiles.
    pub fn stat(&self) -> &Stat {
        &self.stat
    }

    /// Returns the histogram of the last two samples.
    fn histogram(&self, now: Time) -> Option<Histogram<u32>> {
        let samples = self.stat.samples.iter().flatten().zip(self.histograms.as_deref()?);
        let recent = samples.filter(|(sample, _)| sample.is_recent(now)).map(|(_, histogram)| histogram);
        recent.fold(None, |all: Option<Histogram<u32>>, histogram| match all {
            None => Some(histogram.clone()),
            // Both have the same bounds, so this cannot fail.
            Some(mut all) => all.add(histogram).is_ok().then_some(all),
        })
    }

    /// Returns the values in the form of librdkafka's statistics, as multiples of 1/`PER_UNIT`.
    pub fn window(&self, now: Time) -> Vec<(Cow<'static, str>, Number)> {
        let Some(all) = self.histogram(now) else { return Vec::new() };
        let quantiles = [("p50", 0.5), ("p75", 0.75), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99), ("p99_99", 0.9999)];
        let values = quantiles.map(|(name, quantile)| (name, all.value_at_quantile(quantile) as f64));
        let parts = PER_UNIT as f64;
        let more = [
            ("min", all.min() as f64),
            ("max", all.max() as f64),
            ("avg", all.mean()),
            ("stddev", all.stdev()),
            ("cnt", all.len() as f64),
            ("sum", self.stat.recent(now).sum * parts),
            ("hdrsize", (all.distinct_values() * size_of::<u32>()) as f64),
        ];
        values.into_iter().chain(more).map(|(name, value)| (name.into(), value.into())).collect()
    }

    /// Returns the values at these quantiles, or 0 without recent numbers.
    pub fn percentiles<const N: usize>(&self, now: Time, quantiles: [f64; N]) -> [f64; N] {
        let all = self.histogram(now);
        let value = |quantile| all.as_ref().map_or(0.0, |h| h.value_at_quantile(quantile) as f64 / PER_UNIT as f64);
        // A bucket's upper end may be above the largest number.
        let max = self.stat.recent(now).max;
        quantiles.map(|quantile| value(quantile).min(max))
    }
}

impl Timing {
    /// Records a duration.
    pub fn note(&mut self, now: Time, duration: Duration) {
        self.record(now, duration.as_micros() as f64 / 1000.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(seconds: u64) -> Time {
        Time(0) + Duration::from_secs(seconds)
    }

    #[test]
    fn rates_and_maxima_are_those_of_the_last_two_samples_and_totals_stay() {
        let mut stat = Stat::default();
        stat.record(at(0), 100.0);
        assert_eq!(stat.recent(at(0)).rate(), 100.0, "a rate is over a second at least");
        assert_eq!(stat.recent(at(10)).rate(), 10.0);
        stat.record(at(35), 20.0);
        assert_eq!((stat.recent(at(40)).sum, stat.recent(at(40)).max), (120.0, 100.0));
        assert_eq!((stat.recent(at(60)).sum, stat.recent(at(60)).max), (20.0, 20.0), "the first sample is too old");
        assert_eq!(stat.recent(at(95)), Recent { count: 0, sum: 0.0, max: 0.0, elapsed: 1.0 });
        assert_eq!((stat.count(), stat.sum()), (2, 120.0));
        // Both samples are too old when the next number comes.
        stat.record(at(500), 1.0);
        assert_eq!((stat.recent(at(500)).count, stat.recent(at(500)).max), (1, 1.0));
    }

    #[test]
    fn percentiles_forget_old_samples() {
        let mut timing = Timing::default();
        assert_eq!(timing.percentiles(at(0), [0.5]), [0.0]);
        (0..100).for_each(|_| timing.note(at(0), Duration::from_secs(9)));
        timing.note(at(40), Duration::from_micros(1500));
        // Percentiles are within a hundredth.
        let about = |found: f64, expected: f64| assert!((found / expected - 1.0).abs() < 0.01, "{found}");
        let [p50] = timing.percentiles(at(41), [0.5]);
        about(p50, 9000.0);
        timing.percentiles(at(65), [0.5, 0.999]).into_iter().for_each(|found| about(found, 1.5));
        timing.note(at(80), Duration::from_micros(2500));
        let [p50, p999] = timing.percentiles(at(80), [0.5, 0.999]);
        about(p50, 1.5);
        about(p999, 2.5);
    }

    proptest! {
        #[test]
        fn percentiles_are_within_a_hundredth_of_the_sorted_numbers(values in prop::collection::vec(1_u64..2_000_000_000, 1..300)) {
            let mut sizes = Sizes::default();
            values.iter().for_each(|value| sizes.record(at(1), *value as f64));
            let mut sorted = values;
            sorted.sort_unstable();
            for (quantile, found) in [0.5, 0.99, 0.999].into_iter().zip(sizes.percentiles(at(2), [0.5, 0.99, 0.999])) {
                let index = ((quantile * sorted.len() as f64).ceil() as usize).clamp(1, sorted.len()) - 1;
                let exact = sorted[index] as f64;
                prop_assert!((found - exact).abs() <= exact / 100.0 + 1.0, "{} {} {}", quantile, found, exact);
            }
        }
    }
}
