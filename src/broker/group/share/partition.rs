//! State of a share group in one partition: which records are acquired, and how often each was delivered (KIP-932).
//!
//! ```text
//!           acquire                 accept, reject, gap
//! Available -------> Acquired ------------------------------> Done --all before it too--> before the start
//!     ^                 |  release, lock expired, member gone   ^
//!     '-----------------+---------------------------------------'  delivered too often
//! ```
//!
//! The state contains the records between a start offset and an end offset. All records below the start offset are
//! done, and no record at or above the end offset has been acquired yet.

use crate::api::ErrorCode;
use crate::api::share_acknowledge::{ACCEPT, GAP, REJECT, RELEASE, RENEW};
use crate::api::share_fetch::{AcquiredRecords, RECORD_LIMIT};
use crate::broker::Time;
use crate::broker::group::Configs;
use crate::broker::ids::ShareSessionKey;
use crate::broker::log::Log;
use crate::record::{Header, batches};
use bytes::Bytes;
use std::collections::BTreeMap;

const RECORD_MEMORY: usize = 128;

#[derive(Clone, Debug, PartialEq, Eq)]
enum RecordState {
    Available,
    Acquired { by: ShareSessionKey, until: Time },
    Done,
}

#[derive(Clone, Debug)]
struct Record {
    state: RecordState,
    deliveries: i16,
}

#[derive(Debug)]
pub(super) struct SharePartition {
    start: i64,
    end: i64,
    records: BTreeMap<i64, Record>,
    /// Epoch of the leader that delivered the records. The next leader makes all acquired records available again.
    leader_epoch: i32,
    /// Maximum number of deliveries of a record, which each fetch updates.
    max_deliveries: i16,
    pub next_lock: Option<Time>,
}

/// The parameters with which a member fetches from a partition.
#[derive(Clone, Copy, Debug)]
pub(in crate::broker) struct Want<'a> {
    pub now: Time,
    pub wall_ms: i64,
    pub configs: Configs,
    pub by: &'a ShareSessionKey,
    pub leader_epoch: i32,
    /// The group reads up to this offset.
    pub until: i64,
    pub max_bytes: usize,
    pub max_records: usize,
    pub mode: i8,
    /// Whether to return the first batch even if it is larger than `max_bytes`.
    pub is_first: bool,
}

#[derive(Clone, Copy, Debug)]
pub(in crate::broker) struct Progress {
    /// All records below this offset are done.
    pub start: i64,
    /// Number of records above the start that are done.
    pub done: i64,
}

/// A range of offsets with acknowledgement types: one type for all records, or one type for each record.
#[derive(Clone, Debug)]
pub(in crate::broker) struct Acknowledged {
    pub first: i64,
    pub last: i64,
    pub types: Vec<i8>,
}

impl SharePartition {
    pub fn new(start: i64, leader_epoch: i32) -> Self {
        Self { start, end: start, records: BTreeMap::new(), leader_epoch, max_deliveries: i16::MAX, next_lock: None }
    }

    pub fn memory_size(&self) -> usize {
        RECORD_MEMORY + self.records.len() * RECORD_MEMORY
    }

    pub fn progress(&self) -> Progress {
        let done = self.records.values().filter(|record| record.state == RecordState::Done).count();
        Progress { start: self.start, done: i64::try_from(done).unwrap_or(i64::MAX) }
    }

    /// Acquires records. Returns the batches that contain the acquired records, and the acquired ranges.
    pub fn acquire(&mut self, log: &mut Log, want: &Want<'_>) -> Result<(Bytes, Vec<AcquiredRecords>), ErrorCode> {
        if want.leader_epoch != self.leader_epoch {
            self.release(|_, _| true);
            self.leader_epoch = want.leader_epoch;
        }
        self.max_deliveries = want.configs.share_max_deliveries;
        self.start = self.start.max(log.start_offset());
        self.advance();
        loop {
            let until = want.until.min(log.end_offset());
            let Some(from) = self.next_available(want).filter(|from| *from < until && want.max_records > 0) else {
                return Ok((Bytes::new(), Vec::new()));
            };
            let acquired = self.acquire_from(from, log, want)?;
            // Records of aborted transactions are skipped.
            if !acquired.1.is_empty() || self.next_available(want).is_none_or(|next| next <= from) {
                return Ok(acquired);
            }
        }
    }

    fn acquire_from(
        &mut self,
        from: i64,
        log: &mut Log,
        want: &Want<'_>,
    ) -> Result<(Bytes, Vec<AcquiredRecords>), ErrorCode> {
        let data = log.read(from, want.until, want.max_bytes, want.is_first)?.data;
        let (mut acquired, mut size) = (Vec::<AcquiredRecords>::new(), 0);
        let mut count = 0;
        for batch in batches(data.clone()).map_while(Result::ok) {
            if count >= want.max_records {
                break;
            }
            let offsets = batch.header.base_offset.max(from)..=batch.header.last_offset();
            let Header { producer_id, base_offset, .. } = batch.header;
            let is_data = batch.header.is_transactional() && !batch.header.is_control();
            if want.configs.share_is_committed && is_data && log.is_aborted(producer_id, base_offset) {
                offsets.for_each(|offset| self.skip(offset, want));
                size += batch.header.size();
                continue;
            }
            for offset in offsets {
                if want.mode == RECORD_LIMIT && count >= want.max_records {
                    break;
                }
                let Some(deliveries) = self.acquire_record(offset, want) else { continue };
                count += 1;
                match acquired.last_mut().filter(|a| a.last_offset + 1 == offset && a.delivery_count == deliveries) {
                    Some(run) => run.last_offset = offset,
                    None => acquired.push(AcquiredRecords {
                        first_offset: offset,
                        last_offset: offset,
                        delivery_count: deliveries,
                    }),
                }
            }
            size += batch.header.size();
        }
        self.advance();
        self.find_next_lock();
        let data = if acquired.is_empty() { Bytes::new() } else { data.slice(..size.min(data.len())) };
        Ok((data, acquired))
    }

    /// Applies all acknowledgements. If the member does not hold one of the records, applies none. Renewed records stay
    /// locked until `locked_until`.
    pub fn acknowledge(
        &mut self,
        locked_until: Time,
        by: &ShareSessionKey,
        all: &[Acknowledged],
    ) -> Result<(), ErrorCode> {
        // No member holds records after the end, so a longer range is an error. This also bounds the work below.
        if all.iter().any(|a| a.last >= self.end) {
            return Err(ErrorCode::INVALID_RECORD_STATE);
        }
        let offset_types = |a: &Acknowledged| -> Vec<(i64, i8)> {
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
        let changes: Vec<(i64, i8)> = all.iter().flat_map(offset_types).collect();
        let is_mine = |offset: &i64| match self.records.get(offset).map(|record| &record.state) {
            Some(RecordState::Acquired { by: holder, .. }) => holder == by,
            _ => false,
        };
        if !changes.iter().all(|(offset, _)| is_mine(offset)) {
            return Err(ErrorCode::INVALID_RECORD_STATE);
        }
        for (offset, kind) in changes {
            let Some(record) = self.records.get_mut(&offset) else { continue };
            record.state = match kind {
                RELEASE => record.released(self.max_deliveries),
                RENEW => RecordState::Acquired { by: by.clone(), until: locked_until },
                _ => RecordState::Done,
            };
        }
        self.advance();
        self.find_next_lock();
        Ok(())
    }

    /// Releases acquired records. Returns whether it released any records.
    pub fn release(&mut self, which: impl Fn(&ShareSessionKey, Time) -> bool) -> bool {
        let mut any = false;
        for record in self.records.values_mut() {
            if matches!(&record.state, RecordState::Acquired { by, until } if which(by, *until)) {
                record.state = record.released(self.max_deliveries);
                any = true;
            }
        }
        self.advance();
        self.find_next_lock();
        any
    }

    fn next_available(&self, want: &Want<'_>) -> Option<i64> {
        let released =
            self.records.iter().find(|(_, record)| record.state == RecordState::Available).map(|(offset, _)| *offset);
        released.or((self.records.len() < want.configs.share_max_locks).then_some(self.end.max(self.start)))
    }

    /// Acquires a record if it is available. Returns its number of deliveries.
    fn acquire_record(&mut self, offset: i64, want: &Want<'_>) -> Option<i16> {
        if offset < self.start {
            return None;
        }
        let is_new = offset >= self.end;
        if is_new && self.records.len() >= want.configs.share_max_locks {
            return None;
        }
        let record = self.records.entry(offset).or_insert(Record { state: RecordState::Available, deliveries: 0 });
        if record.state != RecordState::Available {
            return None;
        }
        self.end = self.end.max(offset + 1);
        record.deliveries += 1;
        record.state =
            RecordState::Acquired { by: want.by.clone(), until: want.now.saturating_add(want.configs.share_lock()) };
        Some(record.deliveries)
    }

    /// Marks a record that the group does not deliver as done, if no member holds the record.
    fn skip(&mut self, offset: i64, want: &Want<'_>) {
        let is_new = offset >= self.end;
        if offset < self.start || is_new && self.records.len() >= want.configs.share_max_locks {
            return;
        }
        let record = self.records.entry(offset).or_insert(Record { state: RecordState::Available, deliveries: 0 });
        if record.state == RecordState::Available {
            record.state = RecordState::Done;
        }
        self.end = self.end.max(offset + 1);
    }

    /// Moves the start past the records that are done.
    fn advance(&mut self) {
        self.records = self.records.split_off(&self.start);
        while let Some(first) = self.records.first_entry().filter(|first| first.get().state == RecordState::Done) {
            self.start = first.key() + 1;
            first.remove();
        }
        self.end = self.end.max(self.start);
    }

    fn find_next_lock(&mut self) {
        let until = |record: &Record| match record.state {
            RecordState::Acquired { until, .. } => Some(until),
            _ => None,
        };
        self.next_lock = self.records.values().filter_map(until).min();
    }
}

impl Record {
    fn released(&self, max_deliveries: i16) -> RecordState {
        if self.deliveries >= max_deliveries { RecordState::Done } else { RecordState::Available }
    }
}

impl Acknowledged {
    /// Checks that acknowledgements are ordered ranges of known types that do not overlap. `renews` says whether a lock
    /// may be renewed.
    pub fn are_valid(all: &[Self], renews: bool) -> bool {
        let in_order = all.is_sorted_by(|a, b| a.last < b.first);
        in_order && all.iter().all(|batch| batch.is_valid(renews))
    }

    fn is_valid(&self, renews: bool) -> bool {
        let count = self.last.checked_sub(self.first).and_then(|n| usize::try_from(n).ok());
        let is_known = |kind: &i8| matches!(*kind, GAP | ACCEPT | RELEASE | REJECT) || renews && *kind == RENEW;
        let matches_count = |n: usize| self.types.len() == 1 || self.types.len() == n.saturating_add(1);
        count.is_some_and(matches_count) && self.types.iter().all(is_known)
    }
}
