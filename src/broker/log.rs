//! A partition's log: batches as bytes, and an index entry for each batch.
//!
//! ```text
//! sealed: [====|=======|==]  shared slices, read without a copy     entries: offsets, position, largest timestamp
//! open:   [===            ]  appended to; sealed by a read          segments: the unit of retention
//! ```
//!
//! An append copies a batch once. The log writes the base offset and the leader epoch into the copy. If the topic uses
//! log-append time, the log also writes the time of the append and a new checksum. The checksum does not cover the base
//! offset and the leader epoch. A read returns whole batches unchanged. If a read spans several slices and the first
//! slice is large enough for a response, the read returns only the first slice. If the first slice is too small, the
//! read copies several slices into one buffer, up to a limit.

use crate::api::ErrorCode;
use crate::record::{Batch, Header, TimestampType, batches, crc32c};
use bytes::{Bytes, BytesMut};

/// Maximum decompressed bytes of a batch in a search by timestamp.
const DECOMPRESS_LIMIT: usize = crate::compress::DEFAULT_LIMIT;

/// Capacity of the smallest and of the largest open buffer. Capacity that was never written uses only address space.
const MIN_CAPACITY: usize = 64 << 10;
const MAX_CAPACITY: usize = 4 << 20;

/// A read returns a slice of this size without the following slices. Copying the slices together would cost more than
/// another request.
const MIN_SHORT: usize = 256 << 10;
/// Maximum number of bytes that a read copies for a response. A larger first batch is copied whole.
const MAX_COPY: usize = 1 << 20;

#[derive(Clone, Copy, Debug)]
struct Entry {
    base_offset: i64,
    last_offset: i64,
    position: u64,
    max_timestamp: i64,
}

/// The visible properties of a log segment in Kafka: its start, and the times of its oldest and newest record.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    pub base_offset: i64,
    position: u64,
    first_timestamp: i64,
    /// Timestamp of the newest record. If the newest record has no timestamp, this is the append time.
    pub newest_ms: i64,
}

/// The segment configuration of the topic, and the current time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rolling {
    pub bytes: u64,
    pub ms: i64,
    pub now_ms: i64,
}

/// An aborted transaction: its start, the offset of its marker, and the last stable offset with the marker.
#[derive(Clone, Copy, Debug)]
struct Aborted {
    producer_id: i64,
    first: i64,
    last: i64,
    stable: i64,
}

#[derive(Debug)]
struct Sealed {
    position: u64,
    data: Bytes,
}

#[derive(Debug, Default)]
pub(super) struct Log {
    start: i64,
    end: i64,
    entries: Vec<Entry>,
    segments: Vec<Segment>,
    /// Leader epochs that have batches in the log, with their start offsets.
    epochs: Vec<(i32, i64)>,
    /// Ordered by the offsets of their markers.
    aborted: Vec<Aborted>,
    sealed: Vec<Sealed>,
    open: BytesMut,
    open_position: u64,
    open_capacity: usize,
}

#[derive(Debug, Default)]
pub(super) struct Slice {
    pub data: Bytes,
    /// Number of bytes that are available within the limit, which is at least the size of `data`.
    pub available: usize,
}

/// A record found by timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub offset: i64,
    pub timestamp: i64,
    pub leader_epoch: i32,
}

impl Log {
    pub const ABORTED_TXN_MEMORY: usize = size_of::<Aborted>();

    /// Returns the memory that a batch of `size` bytes takes.
    pub fn batch_memory(size: usize) -> usize {
        size + size_of::<Entry>()
    }

    pub fn total_memory(&self) -> usize {
        self.bytes() as usize + self.entries.len() * size_of::<Entry>() + self.aborted.len() * Self::ABORTED_TXN_MEMORY
    }

    pub fn bytes(&self) -> u64 {
        self.size() - self.position(0)
    }

    pub fn start_offset(&self) -> i64 {
        self.start
    }

    /// Returns the offset of the next record. The end offset is also the high watermark, because all replicas share one
    /// log.
    pub fn end_offset(&self) -> i64 {
        self.end
    }

    /// Returns the end position, which counts all bytes since the start of the log, including deleted bytes.
    fn size(&self) -> u64 {
        self.open_position + self.open.len() as u64
    }

    /// Appends a validated batch and returns its base offset.
    pub fn append(
        &mut self,
        data: &[u8],
        header: &Header,
        leader_epoch: i32,
        log_append_time: Option<i64>,
        rolling: Rolling,
    ) -> i64 {
        let base_offset = self.end;
        let entry = Entry {
            base_offset,
            last_offset: base_offset + i64::from(header.last_offset_delta),
            position: self.size(),
            max_timestamp: log_append_time.unwrap_or(header.max_timestamp),
        };
        self.roll(entry, data.len(), rolling);
        self.push(entry, data);
        let start = self.open.len() - data.len();
        if let Some(batch) = self.open.get_mut(start..) {
            patch(batch, base_offset, leader_epoch, header, log_append_time);
        }
        self.note_epoch(leader_epoch, base_offset);
        base_offset
    }

    /// Appends a batch of an earlier log unchanged.
    pub fn append_kept(&mut self, batch: &Batch, rolling: Rolling) {
        let Batch { header, data } = batch;
        let entry = Entry {
            base_offset: header.base_offset,
            last_offset: header.last_offset(),
            position: self.size(),
            max_timestamp: header.max_timestamp,
        };
        self.roll(entry, data.len(), rolling);
        self.push(entry, data);
        self.note_epoch(header.partition_leader_epoch, header.base_offset);
    }

    fn note_epoch(&mut self, leader_epoch: i32, base_offset: i64) {
        if self.epochs.last().is_none_or(|(epoch, _)| *epoch < leader_epoch) {
            self.epochs.push((leader_epoch, base_offset));
        }
    }

    fn push(&mut self, entry: Entry, data: &[u8]) {
        if self.open.capacity() - self.open.len() < data.len() {
            self.seal();
            self.open_capacity = (self.open_capacity * 2).clamp(MIN_CAPACITY, MAX_CAPACITY);
            self.open = BytesMut::with_capacity(self.open_capacity.max(data.len()));
        }
        self.open.extend_from_slice(data);
        self.entries.push(entry);
        self.end = entry.last_offset + 1;
    }

    /// Returns the batches from `base_offset` on, which must be recent.
    pub fn newest(&self, base_offset: i64) -> Bytes {
        let from = self.position(self.index_of(base_offset));
        let mut copy = BytesMut::new();
        for slice in self.sealed.iter().filter(|s| s.position + s.data.len() as u64 > from) {
            copy.extend_from_slice(slice.data.get(from.saturating_sub(slice.position) as usize..).unwrap_or_default());
        }
        copy.extend_from_slice(self.open.get(from.saturating_sub(self.open_position) as usize..).unwrap_or_default());
        copy.freeze()
    }

    /// Starts a new segment if the last segment is full, or too old for the batch.
    fn roll(&mut self, entry: Entry, size: usize, rolling: Rolling) {
        let stamp = if entry.max_timestamp < 0 { rolling.now_ms } else { entry.max_timestamp };
        if let Some(last) = self.segments.last_mut() {
            let is_full = entry.position - last.position + size as u64 > rolling.bytes;
            if !is_full && stamp.saturating_sub(last.first_timestamp) <= rolling.ms {
                last.newest_ms = last.newest_ms.max(stamp);
                return;
            }
        }
        let (base_offset, position) = (entry.base_offset, entry.position);
        self.segments.push(Segment { base_offset, position, first_timestamp: stamp, newest_ms: stamp });
    }

    /// Returns the segments, the oldest first, each with the size of the log after the segment.
    pub fn segments(&self) -> impl Iterator<Item = (Segment, u64)> {
        let ends = self.segments.iter().skip(1).map(|s| s.position).chain([self.size()]);
        self.segments.iter().zip(ends).map(|(segment, end)| (*segment, self.size() - end))
    }

    /// Returns the start of the segment after an offset, or the end of the log.
    pub fn segment_end(&self, offset: i64) -> i64 {
        self.segments.iter().find(|s| s.base_offset > offset).map_or(self.end, |s| s.base_offset)
    }

    /// Deletes the records below an offset. The log removes a batch when all records of the batch are deleted.
    pub fn delete_before(&mut self, offset: i64) {
        self.start = self.start.max(offset.min(self.end));
        let deleted = self.entries.partition_point(|e| e.last_offset < self.start);
        self.entries.drain(..deleted);
        let from = self.position(0);
        if self.entries.is_empty() {
            self.seal();
        }
        self.sealed.retain(|s| s.position + s.data.len() as u64 > from);
        let kept = self.segments.partition_point(|s| s.base_offset <= self.start).saturating_sub(1);
        self.segments.drain(..kept);
        if self.entries.is_empty() {
            self.segments.clear();
        }
        let obsolete = self.epochs.partition_point(|(_, start)| *start <= self.start).saturating_sub(1);
        self.epochs.drain(..obsolete);
        self.aborted.retain(|a| a.last >= self.start);
    }

    pub fn batches(&mut self) -> Vec<Batch> {
        self.seal();
        let first = self.position(0);
        let whole = self.copy(0, first, self.size());
        batches(whole).filter_map(Result::ok).collect()
    }

    /// Replaces all batches with the batches that compaction kept.
    pub fn replace(&mut self, kept: &[Batch], rolling: Rolling) {
        let (end, epochs) = (self.end, std::mem::take(&mut self.epochs));
        (self.open, self.open_position, self.open_capacity) = (BytesMut::new(), 0, 0);
        self.entries.clear();
        self.segments.clear();
        self.sealed.clear();
        for batch in kept {
            self.append_kept(batch, rolling);
        }
        (self.end, self.epochs) = (end, epochs);
    }

    /// Returns whether a producer's batch at an offset belongs to an aborted transaction.
    pub fn is_aborted(&self, producer_id: i64, offset: i64) -> bool {
        let from = self.aborted.partition_point(|a| a.last < offset);
        self.aborted.iter().skip(from).any(|a| a.producer_id == producer_id && a.first <= offset)
    }

    /// Removes the batch that contains an offset, and all later batches.
    pub fn truncate(&mut self, offset: i64) {
        if offset >= self.end {
            return;
        }
        let index = self.index_of(offset);
        let position = self.position(index);
        let end = self.entries.get(index).map_or(self.end, |e| e.base_offset.min(offset));
        self.seal();
        self.sealed.retain(|s| s.position < position);
        if let Some(last) = self.sealed.last_mut() {
            last.data.truncate((position - last.position) as usize);
        }
        self.open_position = position;
        self.entries.truncate(index);
        self.segments.retain(|s| s.position < position);
        self.start = self.start.min(end);
        self.epochs.retain(|(_, start)| *start < end);
        self.aborted.retain(|a| a.last < end);
        self.end = end;
    }

    /// Returns the largest leader epoch that is not above `epoch`, and its end offset. `current` is the current leader
    /// epoch.
    pub fn end_of_epoch(&self, epoch: i32, current: i32) -> Option<(i32, i64)> {
        if epoch == current {
            return Some((epoch, self.end));
        }
        let next = self.epochs.partition_point(|(start_epoch, _)| *start_epoch <= epoch);
        let end = match self.epochs.get(next) {
            Some((_, start)) => *start,
            None if epoch < current => self.end,
            None => return None,
        };
        let latest = next.checked_sub(1).and_then(|i| self.epochs.get(i)).map_or(epoch, |(epoch, _)| *epoch);
        Some((latest, end))
    }

    /// Records an aborted transaction whose batches start at `first` and whose marker is at `last`. With the marker,
    /// `stable` becomes the last stable offset.
    pub fn note_aborted(&mut self, producer_id: i64, first: i64, last: i64, stable: i64) {
        self.aborted.push(Aborted { producer_id, first, last, stable });
    }

    /// Returns the aborted transactions (producer, first offset) that a reader of these bytes at `offset` needs.
    pub fn aborted_in(&self, offset: i64, data: &[u8]) -> impl Iterator<Item = (i64, i64)> {
        let read = self.position(self.index_of(offset)) + data.len() as u64;
        let next = self.entries.partition_point(|e| e.position < read);
        let end = self.entries.get(next).map_or(self.end, |e| e.base_offset);
        let from = self.aborted.partition_point(|a| a.last < offset);
        let rest = self.aborted.get(from..).unwrap_or_default();
        // Transactions after one with a stable offset in this range start later.
        let to = rest.iter().position(|a| a.stable >= end).map_or(rest.len(), |last| last + 1);
        rest.iter().take(to).filter(move |a| a.first < end).map(|a| (a.producer_id, a.first))
    }

    /// Reads at most `limit` bytes of whole batches, from the batch that contains `offset` up to `until`. With
    /// `at_least_one`, the read returns the first batch even if the batch is larger than the limit.
    pub fn read(&mut self, offset: i64, until: i64, limit: usize, at_least_one: bool) -> Result<Slice, ErrorCode> {
        if offset < self.start_offset() || offset > self.end {
            return Err(ErrorCode::OFFSET_OUT_OF_RANGE);
        }
        if offset >= until.min(self.end) {
            return Ok(Slice::default());
        }
        let index = self.index_of(offset);
        let from = self.position(index);
        let end = match until < self.end {
            true => self.position(self.entries.partition_point(|e| e.base_offset < until)),
            false => self.size(),
        };
        let to = self.boundary(index, end, limit, at_least_one);
        let available = (to - from) as usize;
        if to > self.open_position {
            self.seal();
        }
        let first = self.sealed.partition_point(|s| s.position <= from).saturating_sub(1);
        let Some(slice) = self.sealed.get(first).filter(|_| to > from) else {
            return Ok(Slice::default());
        };
        let start = (from - slice.position) as usize;
        let remaining = slice.data.len() - start;
        let data = if remaining >= available.min(MIN_SHORT) {
            slice.data.slice(start..start + remaining.min(available))
        } else {
            self.copy(first, from, self.boundary(index, end, limit.min(MAX_COPY), at_least_one))
        };
        Ok(Slice { data, available })
    }

    /// Returns the index of the batch that contains `offset`. If compaction has removed that batch, returns the index
    /// of the next batch.
    fn index_of(&self, offset: i64) -> usize {
        self.entries.partition_point(|e| e.last_offset < offset)
    }

    /// Returns the position of a batch, or the end of the log for the index after the last batch.
    fn position(&self, index: usize) -> u64 {
        self.entries.get(index).map_or(self.size(), |e| e.position)
    }

    /// Returns the end position of the whole batches that start at an index and fit into `limit` bytes. The result is
    /// at most `end`.
    fn boundary(&self, index: usize, end: u64, limit: usize, at_least_one: bool) -> u64 {
        let last = self.position(index).saturating_add(limit as u64);
        if end <= last {
            return end;
        }
        let beyond = self.entries.partition_point(|e| e.position <= last);
        let least = index + usize::from(at_least_one);
        self.position(beyond.saturating_sub(1).max(least))
    }

    /// Returns the bytes between two positions, starting at the slice `first`.
    fn copy(&self, first: usize, from: u64, to: u64) -> Bytes {
        let mut copy = BytesMut::with_capacity(to.saturating_sub(from) as usize);
        for slice in self.sealed.iter().skip(first).take_while(|s| s.position < to) {
            let start = from.saturating_sub(slice.position) as usize;
            let end = (to - slice.position).min(slice.data.len() as u64) as usize;
            copy.extend_from_slice(slice.data.get(start..end).unwrap_or_default());
        }
        copy.freeze()
    }

    fn seal(&mut self) {
        if !self.open.is_empty() {
            let position = self.size();
            self.sealed.push(Sealed { position: self.open_position, data: self.open.split().freeze() });
            self.open_position = position;
        }
    }

    fn batch(&mut self, index: usize) -> Option<Batch> {
        let offset = self.entries.get(index)?.last_offset.max(self.start);
        batches(self.read(offset, i64::MAX, 0, true).ok()?.data).next()?.ok()
    }

    /// Returns the first record with a timestamp of at least `timestamp`. Skips batches whose maximum timestamp is
    /// smaller, without decompressing them.
    pub fn first_since(&mut self, timestamp: i64) -> Result<Option<Found>, ErrorCode> {
        // A header may claim a larger timestamp than its records have, so the search continues.
        for index in 0..self.entries.len() {
            if self.entries.get(index).is_some_and(|e| e.max_timestamp < timestamp) {
                continue;
            }
            let Some(batch) = self.batch(index) else {
                return Err(ErrorCode::CORRUPT_MESSAGE);
            };
            if let Some(found) = first_in(&batch, timestamp, self.start)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Returns the first record with the largest timestamp.
    pub fn latest_record(&mut self) -> Result<Option<Found>, ErrorCode> {
        match self.entries.iter().map(|e| e.max_timestamp).max() {
            Some(latest) => self.first_since(latest),
            None => Ok(None),
        }
    }

    /// Returns the leader epoch of the record at or after `offset`.
    pub fn epoch_at(&mut self, offset: i64) -> Option<i32> {
        self.batch(self.index_of(offset)).map(|b| b.header.partition_leader_epoch)
    }
}

fn first_in(batch: &Batch, timestamp: i64, start: i64) -> Result<Option<Found>, ErrorCode> {
    let leader_epoch = batch.header.partition_leader_epoch;
    if batch.header.timestamp_type() == TimestampType::LogAppendTime {
        let (offset, timestamp) = (batch.header.base_offset.max(start), batch.header.max_timestamp);
        return Ok(Some(Found { offset, timestamp, leader_epoch }));
    }
    let records = batch.records(DECOMPRESS_LIMIT).map_err(|_| ErrorCode::CORRUPT_MESSAGE)?;
    for record in records {
        let record = record.map_err(|_| ErrorCode::CORRUPT_MESSAGE)?;
        if record.timestamp >= timestamp && record.offset >= start {
            return Ok(Some(Found { offset: record.offset, timestamp: record.timestamp, leader_epoch }));
        }
    }
    Ok(None)
}

/// Writes the broker's fields into the header of a batch.
fn patch(batch: &mut [u8], base_offset: i64, leader_epoch: i32, header: &Header, log_append_time: Option<i64>) {
    let mut put = |at: usize, bytes: &[u8]| {
        if let Some(field) = batch.get_mut(at..at + bytes.len()) {
            field.copy_from_slice(bytes);
        }
    };
    put(0, &base_offset.to_be_bytes());
    put(12, &leader_epoch.to_be_bytes());
    if let Some(time) = log_append_time {
        put(21, &(header.attributes | 1 << 3).to_be_bytes());
        put(35, &time.to_be_bytes());
        let crc = batch.get(21..).map_or(0, crc32c);
        if let Some(field) = batch.get_mut(17..21) {
            field.copy_from_slice(&crc.to_be_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compress::Compression;
    use crate::record::{BatchBuilder, Producer};

    const ROLLING: Rolling = Rolling { bytes: 1 << 30, ms: i64::MAX, now_ms: 0 };

    fn append(log: &mut Log, timestamps: &[i64], compression: Compression, log_append_time: Option<i64>) -> i64 {
        append_in(7, log, timestamps, compression, log_append_time)
    }

    fn append_in(
        epoch: i32,
        log: &mut Log,
        timestamps: &[i64],
        compression: Compression,
        log_append_time: Option<i64>,
    ) -> i64 {
        let mut builder = BatchBuilder::with_capacity(0);
        for timestamp in timestamps {
            builder.append(*timestamp, None, Some(b"0123456789"), &[]);
        }
        let sealed = builder.seal(compression, Producer::NONE).unwrap();
        let header = Header::parse(&sealed.data).unwrap().unwrap();
        log.append(&sealed.data, &header, epoch, log_append_time, ROLLING)
    }

    fn base_offsets(slice: &Slice) -> Vec<i64> {
        batches(slice.data.clone())
            .map(|b| {
                let batch = b.unwrap();
                batch.check_crc().unwrap();
                assert_eq!(batch.header.partition_leader_epoch, 7);
                batch.header.base_offset
            })
            .collect()
    }

    #[test]
    fn reads_give_whole_batches_within_the_limit() {
        let mut log = Log::default();
        for _ in 0..3 {
            append(&mut log, &[1, 2], Compression::None, None);
        }
        let size = log.size() as usize / 3;
        assert_eq!(base_offsets(&log.read(0, i64::MAX, usize::MAX, false).unwrap()), [0, 2, 4]);
        assert_eq!(base_offsets(&log.read(3, i64::MAX, usize::MAX, false).unwrap()), [2, 4]);
        assert_eq!(base_offsets(&log.read(0, i64::MAX, 2 * size, false).unwrap()), [0, 2]);
        assert_eq!(base_offsets(&log.read(0, i64::MAX, 2 * size - 1, false).unwrap()), [0]);
        assert_eq!(base_offsets(&log.read(5, i64::MAX, size - 1, true).unwrap()), [4]);
        assert!(log.read(0, i64::MAX, size - 1, false).unwrap().data.is_empty());
        assert!(log.read(6, i64::MAX, usize::MAX, true).unwrap().data.is_empty());
        assert_eq!(log.read(7, i64::MAX, 1, true).unwrap_err(), ErrorCode::OFFSET_OUT_OF_RANGE);
        assert_eq!(log.read(-1, i64::MAX, 1, true).unwrap_err(), ErrorCode::OFFSET_OUT_OF_RANGE);
    }

    #[test]
    fn a_read_over_many_small_slices_is_whole_and_one_of_a_large_slice_shares_it() {
        let mut log = Log::default();
        for i in 0..5 {
            append(&mut log, &[1], Compression::None, None);
            log.read(i, i64::MAX, usize::MAX, true).unwrap();
        }
        assert_eq!(log.sealed.len(), 5);
        let all = log.read(0, i64::MAX, usize::MAX, true).unwrap();
        assert_eq!(base_offsets(&all), [0, 1, 2, 3, 4]);
        assert_eq!(all.available, all.data.len());
        let one = log.read(2, i64::MAX, 1, true).unwrap();
        assert_eq!(one.data.as_ptr(), log.sealed[2].data.as_ptr());
    }

    #[test]
    fn a_read_over_large_slices_is_short_and_one_over_many_small_ones_is_bounded() {
        let mut log = Log::default();
        for _ in 0..60_000 {
            append(&mut log, &[1], Compression::None, None);
        }
        log.seal();
        let found = log.read(0, i64::MAX, usize::MAX, true).unwrap();
        assert!(found.data.len() < found.available && found.available == log.size() as usize);
        let mut log = Log::default();
        for _ in 0..20_000 {
            append(&mut log, &[1], Compression::None, None);
            log.seal();
        }
        let found = log.read(0, i64::MAX, usize::MAX, true).unwrap();
        assert!((MAX_COPY / 2..=MAX_COPY).contains(&found.data.len()));
        assert_eq!(found.available, log.size() as usize);
    }

    #[test]
    fn every_offset_can_be_read_while_buffers_grow_and_roll() {
        let mut log = Log::default();
        let mut expected = 0;
        for i in 0..20_000 {
            expected = i;
            assert_eq!(append(&mut log, &[1], Compression::None, None), i);
        }
        let mut offset = 0;
        while offset < log.end_offset() {
            let found = base_offsets(&log.read(offset, i64::MAX, 100_000, true).unwrap());
            assert_eq!(found.first(), Some(&offset));
            offset = found.last().unwrap() + 1;
        }
        assert_eq!(offset, expected + 1);
    }

    #[test]
    fn a_time_finds_the_first_record_at_or_after_it() {
        let mut log = Log::default();
        append(&mut log, &[10, 30, 20], Compression::None, None);
        append(&mut log, &[5], Compression::None, None);
        append(&mut log, &[40, 60, 50], Compression::None, None);
        let mut at = |t| log.first_since(t).unwrap().map(|f| (f.offset, f.timestamp, f.leader_epoch));
        assert_eq!(at(0), Some((0, 10, 7)));
        assert_eq!(at(11), Some((1, 30, 7)));
        assert_eq!(at(31), Some((4, 40, 7)));
        assert_eq!(at(45), Some((5, 60, 7)));
        assert_eq!(at(61), None);
        assert_eq!(log.latest_record().unwrap().unwrap().offset, 5);
    }

    #[cfg(feature = "zstd")]
    #[test]
    fn a_time_is_found_in_a_compressed_batch() {
        let mut log = Log::default();
        append(&mut log, &[10, 30, 20], Compression::Zstd, None);
        assert_eq!(log.first_since(25).unwrap().unwrap().offset, 1);
    }

    #[test]
    fn an_append_time_is_stamped_and_covered_by_the_checksum() {
        let mut log = Log::default();
        append(&mut log, &[10, 20], Compression::None, Some(99));
        let batch = log.batch(0).unwrap();
        batch.check_crc().unwrap();
        assert_eq!(batch.header.timestamp_type(), TimestampType::LogAppendTime);
        assert_eq!(batch.records(0).unwrap().next().unwrap().unwrap().timestamp, 99);
        assert_eq!(log.latest_record().unwrap(), Some(Found { offset: 0, timestamp: 99, leader_epoch: 7 }));
    }

    #[test]
    fn a_truncated_log_continues_at_its_new_end() {
        for cut in 0..=6 {
            let mut log = Log::default();
            for epoch in [1, 1, 4] {
                append_in(epoch, &mut log, &[1, 2], Compression::None, None);
            }
            log.truncate(cut);
            let end = cut - cut % 2;
            assert_eq!((log.start_offset(), log.end_offset()), (0, end));
            let memory_size = log.total_memory();
            append_in(5, &mut log, &[1, 2], Compression::None, None);
            assert!(log.total_memory() > memory_size);
            let data = log.read(0, i64::MAX, usize::MAX, true).unwrap().data;
            let found: Vec<_> = batches(data).map(|b| b.unwrap().header.base_offset).collect();
            assert_eq!(found, (0..=end).step_by(2).collect::<Vec<_>>());
        }
    }

    #[test]
    fn an_epoch_ends_where_the_next_begins() {
        let mut log = Log::default();
        assert_eq!(log.end_of_epoch(3, 3), Some((3, 0)));
        for epoch in [1, 1, 4] {
            append_in(epoch, &mut log, &[1, 2], Compression::None, None);
        }
        let ends: Vec<_> = (0..=6).map(|epoch| log.end_of_epoch(epoch, 5)).collect();
        let expected = [Some((0, 0)), Some((1, 4)), Some((1, 4)), Some((1, 4)), Some((4, 6)), Some((5, 6)), None];
        assert_eq!(ends, expected);
    }
}
