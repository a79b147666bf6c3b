//! Records without an outcome, counted by the flush that waits for them.

use std::collections::VecDeque;

/// See the top of this file. A generation is what lies between two flushes; there are few at a time.
#[derive(Debug, Default)]
pub(super) struct Outstanding(VecDeque<(u64, u64)>);

impl Outstanding {
    /// Counts a record of a generation.
    #[inline]
    pub fn add(&mut self, generation: u64) {
        match self.0.back_mut() {
            Some((latest, count)) if *latest == generation => *count += 1,
            _ => self.add_to_another(generation),
        }
    }

    /// A record of the first of a generation, or of an earlier one whose batch is not full yet.
    #[cold]
    fn add_to_another(&mut self, generation: u64) {
        match self.0.binary_search_by_key(&generation, |(g, _)| *g) {
            Ok(at) => self.0.iter_mut().skip(at).take(1).for_each(|(_, count)| *count += 1),
            Err(at) => self.0.insert(at, (generation, 1)),
        }
    }

    /// Records of a generation have their outcome.
    pub fn remove(&mut self, generation: u64, records: u64) {
        for (_, count) in self.0.iter_mut().filter(|(g, _)| *g == generation) {
            *count = count.saturating_sub(records);
        }
        self.0.retain(|(_, count)| *count > 0);
    }

    /// The first generation that has one.
    pub fn oldest(&self) -> Option<u64> {
        self.0.front().map(|(generation, _)| *generation)
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.0.iter().map(|(_, count)| count).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_counted_by_generation_in_whatever_order_they_come_and_go() {
        let mut outstanding = Outstanding::default();
        for generation in [3, 3, 5, 4, 3, 5] {
            outstanding.add(generation);
        }
        assert_eq!((outstanding.count(), outstanding.oldest()), (6, Some(3)));
        outstanding.remove(4, 1);
        outstanding.remove(3, 2);
        assert_eq!((outstanding.count(), outstanding.oldest()), (3, Some(3)));
        outstanding.remove(3, 1);
        assert_eq!((outstanding.count(), outstanding.oldest()), (2, Some(5)));
        outstanding.remove(5, 2);
        assert_eq!((outstanding.count(), outstanding.oldest()), (0, None));
    }
}
