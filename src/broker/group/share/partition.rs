//! What a share group has done with a partition: which records are in somebody's hands, and how often they were
//! (KIP-932).
//!
//! ```text
//!           acquire                 accept, reject, gap
//! Available -------> Acquired ------------------------------> Done --all before it too--> behind the start
//!     ^                 |  release, lock over, member gone      ^
//!     '-----------------+---------------------------------------'  delivered too often
//! ```
//!
//! Kept are the records between the start, before which all are done, and the end, behind which none was handed out.

use super::Owner;
use crate::api::ErrorCode;
use crate::api::share_acknowledge::{ACCEPT, GAP, REJECT, RELEASE, RENEW};
use crate::api::share_fetch::{AcquiredRecords, RECORD_LIMIT};
use crate::broker::Time;
use crate::broker::group::Configs;
use crate::broker::log::Log;
use crate::record::batches;
use bytes::Bytes;
use std::collections::BTreeMap;

/// How often a record is delivered at most: Kafka's `group.share.delivery.count.limit`.
const MAX_DELIVERIES: i16 = 5;

/// Records that may be between start and end: Kafka's `group.share.partition.max.record.locks`.
const MAX_RECORDS: usize = 2000;

/// What keeping one record takes, roughly.
const RECORD: usize = 128;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Stage {
    Available,
    Acquired { by: Owner, until: Time },
    Done,
}

#[derive(Clone, Debug)]
struct Record {
    stage: Stage,
    deliveries: i16,
}

/// See the top of this file.
#[derive(Debug)]
pub(super) struct Partition {
    start: i64,
    end: i64,
    records: BTreeMap<i64, Record>,
    /// The leader that handed the records out; the next one knows of none in anybody's hands.
    leader_epoch: i32,
    /// When the first lock is over.
    pub next_lock: Option<Time>,
}

/// What a member wants of a partition.
#[derive(Clone, Copy, Debug)]
pub(in crate::broker) struct Want<'a> {
    pub now: Time,
    pub configs: Configs,
    pub by: &'a Owner,
    pub leader_epoch: i32,
    pub max_bytes: usize,
    pub max_records: usize,
    pub mode: i8,
    /// Whether a first batch comes even if it is larger than `max_bytes`.
    pub is_first: bool,
}

/// How far a group is in a partition.
#[derive(Clone, Copy, Debug)]
pub(in crate::broker) struct Progress {
    /// Before it all records are done.
    pub start: i64,
    /// Records behind it that are, too.
    pub done: i64,
}

/// Offsets and what became of them: one type for all, or one each.
#[derive(Clone, Debug)]
pub(in crate::broker) struct Acknowledged {
    pub first: i64,
    pub last: i64,
    pub types: Vec<i8>,
}

impl Partition {
    pub fn new(start: i64, leader_epoch: i32) -> Self {
        Self { start, end: start, records: BTreeMap::new(), leader_epoch, next_lock: None }
    }

    pub fn cost(&self) -> usize {
        RECORD + self.records.len() * RECORD
    }

    pub fn progress(&self) -> Progress {
        let done = self.records.values().filter(|record| record.stage == Stage::Done).count();
        Progress { start: self.start, done: i64::try_from(done).unwrap_or(i64::MAX) }
    }

    /// Hands records out: the batches they are in, and which of them are the member's.
    pub fn acquire(&mut self, log: &mut Log, want: &Want<'_>) -> Result<(Bytes, Vec<AcquiredRecords>), ErrorCode> {
        if want.leader_epoch != self.leader_epoch {
            self.release(|_, _| true);
            self.leader_epoch = want.leader_epoch;
        }
        self.start = self.start.max(log.start_offset());
        self.advance();
        let Some(from) = self.next_available().filter(|from| *from < log.end_offset() && want.max_records > 0) else {
            return Ok((Bytes::new(), Vec::new()));
        };
        let data = log.read(from, i64::MAX, want.max_bytes, want.is_first)?.data;
        let (mut taken, mut size) = (Vec::<AcquiredRecords>::new(), 0);
        let mut count = 0;
        for batch in batches(data.clone()).map_while(Result::ok) {
            if count >= want.max_records {
                break;
            }
            for offset in batch.header.base_offset.max(from)..=batch.header.last_offset() {
                if want.mode == RECORD_LIMIT && count >= want.max_records {
                    break;
                }
                let Some(deliveries) = self.take(offset, want) else { continue };
                count += 1;
                match taken.last_mut().filter(|a| a.last_offset + 1 == offset && a.delivery_count == deliveries) {
                    Some(run) => run.last_offset = offset,
                    None => taken.push(AcquiredRecords {
                        first_offset: offset,
                        last_offset: offset,
                        delivery_count: deliveries,
                    }),
                }
            }
            size += batch.header.size();
        }
        self.find_next_lock();
        let data = if taken.is_empty() { Bytes::new() } else { data.slice(..size.min(data.len())) };
        Ok((data, taken))
    }

    /// Takes in what a member did with records, all of it or, if one of them is not the member's, nothing. Those it
    /// renews are its own until then.
    pub fn acknowledge(&mut self, locked_until: Time, by: &Owner, all: &[Acknowledged]) -> Result<(), ErrorCode> {
        // What is behind the end is nobody's, and a range that stops before it is no longer than what is kept.
        if all.iter().any(|a| a.last >= self.end) {
            return Err(ErrorCode::INVALID_RECORD_STATE);
        }
        let each = |a: &Acknowledged| -> Vec<(i64, i8)> {
            let single = match a.types.as_slice() {
                [one] => Some(*one),
                _ => None,
            };
            let types = a.types.iter().copied();
            match single {
                Some(kind) => (a.first.max(self.start)..=a.last).map(|offset| (offset, kind)).collect(),
                None => (a.first..=a.last).zip(types).filter(|(offset, _)| *offset >= self.start).collect(),
            }
        };
        let changes: Vec<(i64, i8)> = all.iter().flat_map(each).collect();
        let is_mine = |offset: &i64| match self.records.get(offset).map(|record| &record.stage) {
            Some(Stage::Acquired { by: owner, .. }) => owner == by,
            _ => false,
        };
        if !changes.iter().all(|(offset, _)| is_mine(offset)) {
            return Err(ErrorCode::INVALID_RECORD_STATE);
        }
        for (offset, kind) in changes {
            let Some(record) = self.records.get_mut(&offset) else { continue };
            record.stage = match kind {
                RELEASE => record.released(),
                RENEW => Stage::Acquired { by: by.clone(), until: locked_until },
                _ => Stage::Done,
            };
        }
        self.advance();
        self.find_next_lock();
        Ok(())
    }

    /// Takes back what is in somebody's hands; whether there was anything.
    pub fn release(&mut self, which: impl Fn(&Owner, Time) -> bool) -> bool {
        let mut any = false;
        for record in self.records.values_mut() {
            if matches!(&record.stage, Stage::Acquired { by, until } if which(by, *until)) {
                record.stage = record.released();
                any = true;
            }
        }
        self.advance();
        self.find_next_lock();
        any
    }

    fn next_available(&self) -> Option<i64> {
        let again = self.records.iter().find(|(_, record)| record.stage == Stage::Available).map(|(offset, _)| *offset);
        again.or((self.records.len() < MAX_RECORDS).then_some(self.end.max(self.start)))
    }

    /// Gives a record to a member, if it is free; how often it was delivered then.
    fn take(&mut self, offset: i64, want: &Want<'_>) -> Option<i16> {
        if offset < self.start {
            return None;
        }
        let is_new = offset >= self.end;
        if is_new && self.records.len() >= MAX_RECORDS {
            return None;
        }
        let record = self.records.entry(offset).or_insert(Record { stage: Stage::Available, deliveries: 0 });
        if record.stage != Stage::Available {
            return None;
        }
        self.end = self.end.max(offset + 1);
        record.deliveries += 1;
        record.stage =
            Stage::Acquired { by: want.by.clone(), until: want.now.saturating_add(want.configs.share_lock()) };
        Some(record.deliveries)
    }

    /// Moves the start behind what is done.
    fn advance(&mut self) {
        self.records = self.records.split_off(&self.start);
        while let Some(first) = self.records.first_entry().filter(|first| first.get().stage == Stage::Done) {
            self.start = first.key() + 1;
            first.remove();
        }
        self.end = self.end.max(self.start);
    }

    fn find_next_lock(&mut self) {
        let until = |record: &Record| match record.stage {
            Stage::Acquired { until, .. } => Some(until),
            _ => None,
        };
        self.next_lock = self.records.values().filter_map(until).min();
    }
}

impl Record {
    fn released(&self) -> Stage {
        if self.deliveries >= MAX_DELIVERIES { Stage::Done } else { Stage::Available }
    }
}

impl Acknowledged {
    /// Whether acknowledgements make sense: in order, of each offset once, of types that are known. `renews` is whether
    /// locks may be renewed with them.
    pub fn are_valid(all: &[Self], renews: bool) -> bool {
        let in_order = all.is_sorted_by(|a, b| a.last < b.first);
        in_order && all.iter().all(|batch| batch.is_valid(renews))
    }

    fn is_valid(&self, renews: bool) -> bool {
        let count = self.last.checked_sub(self.first).and_then(|n| usize::try_from(n).ok());
        let known = |kind: &i8| matches!(*kind, GAP | ACCEPT | RELEASE | REJECT) || renews && *kind == RENEW;
        let fits = |n: usize| self.types.len() == 1 || self.types.len() == n.saturating_add(1);
        count.is_some_and(fits) && self.types.iter().all(known)
    }
}
