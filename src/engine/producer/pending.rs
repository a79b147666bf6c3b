//! Counts the records that have no result yet. Each `flush` starts a new flush epoch. The records of each epoch are
//! counted separately, so a flush waits only for earlier records.

use std::collections::VecDeque;

/// Pairs of a flush epoch and its number of records, ordered by epoch. Only a flush starts a new epoch, so there are
/// few pairs.
#[derive(Debug, Default)]
pub(super) struct PendingRecords(VecDeque<(u64, u64)>);

impl PendingRecords {
    /// Counts a new record.
    #[inline]
    pub fn add(&mut self, flush_epoch: u64) {
        match self.0.back_mut() {
            Some((latest, count)) if *latest == flush_epoch => *count += 1,
            _ => self.add_to_another(flush_epoch),
        }
    }

    /// Counts a record of a new epoch, or of an earlier epoch whose batch is not full yet.
    #[cold]
    fn add_to_another(&mut self, flush_epoch: u64) {
        match self.0.binary_search_by_key(&flush_epoch, |(g, _)| *g) {
            Ok(at) => self.0.iter_mut().skip(at).take(1).for_each(|(_, count)| *count += 1),
            Err(at) => self.0.insert(at, (flush_epoch, 1)),
        }
    }

    /// Notes that records of an epoch are acknowledged or failed.
    pub fn remove(&mut self, flush_epoch: u64, records: u64) {
        for (_, count) in self.0.iter_mut().filter(|(g, _)| *g == flush_epoch) {
            *count = count.saturating_sub(records);
        }
        self.0.retain(|(_, count)| *count > 0);
    }

    /// Returns the oldest epoch with a pending record.
    pub fn oldest(&self) -> Option<u64> {
        self.0.front().map(|(flush_epoch, _)| *flush_epoch)
    }

    /// Returns the number of pending records.
    pub fn count(&self) -> u64 {
        self.0.iter().map(|(_, count)| count).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_counted_by_flush_epoch_in_any_order() {
        let mut pending = PendingRecords::default();
        for flush_epoch in [3, 3, 5, 4, 3, 5] {
            pending.add(flush_epoch);
        }
        assert_eq!((pending.count(), pending.oldest()), (6, Some(3)));
        pending.remove(4, 1);
        pending.remove(3, 2);
        assert_eq!((pending.count(), pending.oldest()), (3, Some(3)));
        pending.remove(3, 1);
        assert_eq!((pending.count(), pending.oldest()), (2, Some(5)));
        pending.remove(5, 2);
        assert_eq!((pending.count(), pending.oldest()), (0, None));
    }
}
