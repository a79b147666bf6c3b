//! Reads fetch responses: checks and decompresses batches, and drops control batches and aborted transactions.
//!
//! The code in this file runs without a lock, on the I/O thread, while Python processes earlier records. Batches that
//! would decompress to more than the prefetch limit stay compressed until the application reads them. `partition.rs`
//! buffers the batches.

use super::density::Density;
use super::frame::{Frame, FrameSlice, Leftover};
use crate::api::{ErrorCode, fetch};
use crate::compress::Compression;
use crate::engine::{Error, ErrorKind, Reply};
use crate::record::{Batch, Control, ControlType, Header, RecordSet, TimestampType, batches};
use crate::wire::{self, Reason, Uuid};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

/// The first Fetch version that returns the first batch whole, even above the size limit (Kafka 0.10.1).
const WHOLE_BATCHES: i16 = 3;

/// A partition in a fetch request.
#[derive(Clone, Debug)]
pub struct RequestedPartition {
    /// The consumer's number of the partition.
    pub slot: usize,
    /// Counts seeks, so that the consumer can drop the response to a request from before a seek.
    pub generation: u64,
    /// The requested offset.
    pub offset: i64,
    pub topic: Arc<str>,
    pub id: Uuid,
    pub partition: i32,
    /// The leader epoch that the consumer knows, or -1.
    pub leader_epoch: i32,
    /// The requested maximum size in bytes.
    pub max_bytes: i32,
    /// Whether reading stops at a batch with an implausible offset or epoch.
    pub stops_at_implausible: bool,
}

/// How to read a response.
#[derive(Clone, Copy, Debug)]
pub struct DecodeOptions {
    pub check_crcs: bool,
    pub read_committed: bool,
    /// The largest decompressed size of a batch, in bytes.
    pub max_decompressed_bytes: usize,
    /// How many bytes may be decompressed before the application reads them. The last batch may exceed this budget.
    pub decompression_budget: usize,
}

impl DecodeOptions {
    /// Decompresses a batch.
    pub fn records(&self, batch: &Batch) -> Result<RecordSet, wire::Error> {
        let records = batch.records(self.max_decompressed_bytes)?;
        Ok(if self.check_crcs { records } else { records.skip_crcs() })
    }
}

/// The records of a batch.
#[derive(Debug)]
pub enum Contents {
    /// No records for the application: a control batch, or records of an aborted transaction.
    NoRecords,
    /// Decompressed records.
    Records(RecordSet),
    /// Compressed records. The previous batches have used up the decompression budget.
    Compressed(Batch, DecodeOptions),
}

/// A batch in the buffer.
#[derive(Debug)]
pub struct Chunk {
    pub contents: Contents,
    pub timestamp_type: TimestampType,
    /// The offset after the batch.
    pub next_offset: i64,
    /// The epoch of the leader that wrote the batch, or -1 in old formats.
    pub leader_epoch: i32,
    pub bytes: usize,
    /// The batch's part of the response's memory. `None` if the batch was decompressed into memory of its own.
    pub slice: Option<FrameSlice>,
}

impl Chunk {
    /// Returns the number of records.
    pub fn count(&self) -> usize {
        match &self.contents {
            Contents::NoRecords => 0,
            Contents::Records(set) => set.left(),
            Contents::Compressed(batch, _) => usize::try_from(batch.header.count).unwrap_or(0),
        }
    }
}

/// The fetched records of one partition, or its error.
#[derive(Debug)]
pub struct FetchedPartition {
    pub requested: RequestedPartition,
    pub code: ErrorCode,
    pub high_watermark: i64,
    /// The end of the readable records, or -1 if unknown. With `read_committed`, this is the last stable offset, and
    /// otherwise the high watermark.
    pub readable_end: i64,
    /// The first offset of the log, or -1 if unknown.
    pub log_start_offset: i64,
    /// A nearer follower to fetch from (KIP-392). The response then has no records.
    pub replica: Option<i32>,
    pub chunks: Vec<Chunk>,
    /// The size, the number and the offsets of the batches in `chunks`.
    pub density: Density,
    /// Why reading stopped before the end of the data.
    pub error: Option<Error>,
    /// Whether a batch has an implausible offset or epoch.
    pub has_implausible_batch: bool,
    /// Whether the data is only the beginning of a message that is larger than the requested size.
    pub cut_off: bool,
}

impl FetchedPartition {
    /// Returns whether the response has nothing for this partition that the consumer has to act on.
    pub fn is_empty(&self) -> bool {
        let has_data = !self.chunks.is_empty() || self.has_implausible_batch || self.cut_off;
        !has_data && !self.code.is_error() && self.error.is_none() && self.replica.is_none()
    }
}

/// A whole response.
#[derive(Debug)]
pub struct FetchResult {
    /// The ID of the fetch session, or 0 without a session.
    pub session_id: i32,
    /// The throttle time.
    pub throttle: Duration,
    /// All requested partitions. In a fetch session, the response omits partitions without changes.
    pub partitions: Vec<FetchedPartition>,
}

impl FetchResult {
    /// Returns the bytes of all records.
    pub fn bytes(&self) -> usize {
        self.partitions.iter().flat_map(|p| &p.chunks).map(|chunk| chunk.bytes).sum()
    }
}

/// Reads a response. `leftover` counts the memory that the response occupies in addition to the buffered batches.
pub fn decode_fetch_response(
    requested: Vec<RequestedPartition>,
    options: DecodeOptions,
    leftover: Leftover,
    mut reply: Reply,
) -> Result<FetchResult, Error> {
    let returns_whole_batches = reply.version >= WHOLE_BATCHES;
    let frame;
    (frame, reply.body) = Frame::new(reply.body, leftover);
    let mut response: fetch::Response = reply.decode()?;
    response.error_code.check().map_err(|code| Error::refused(code, "fetch"))?;
    let mut positions: HashMap<(&str, Uuid, i32), (usize, usize)> = HashMap::new();
    for (t, topic) in response.responses.iter().enumerate() {
        for (p, partition) in topic.partitions.iter().enumerate() {
            positions.insert((&topic.topic, topic.topic_id, partition.partition_index), (t, p));
        }
    }
    let by_id = |r: &RequestedPartition| positions.get(&("", r.id, r.partition));
    let in_response: Vec<Option<(usize, usize)>> = requested
        .iter()
        .map(|r| positions.get(&(&*r.topic, Uuid::ZERO, r.partition)).or_else(|| by_id(r)).copied())
        .collect();
    let mut partitions = Vec::with_capacity(requested.len());
    let mut budget = options.decompression_budget;
    for (requested, position) in requested.into_iter().zip(in_response) {
        let topic = position.and_then(|(t, p)| response.responses.get_mut(t).map(|t| (t, p)));
        partitions.push(match topic.and_then(|(t, p)| t.partitions.get_mut(p)) {
            Some(p) => {
                let has_data = p.records.as_ref().is_some_and(|records| !records.is_empty());
                let mut fetched = decode_partition(requested, options, &frame, &mut budget, p);
                let has_result = !fetched.chunks.is_empty() || fetched.error.is_some() || fetched.has_implausible_batch;
                fetched.cut_off = has_data && !has_result && !returns_whole_batches;
                fetched
            }
            None => FetchedPartition {
                requested,
                code: ErrorCode::NONE,
                high_watermark: -1,
                readable_end: -1,
                log_start_offset: -1,
                replica: None,
                chunks: Vec::new(),
                density: Density::default(),
                error: None,
                has_implausible_batch: false,
                cut_off: false,
            },
        });
    }
    let throttle = Duration::from_millis(u64::try_from(response.throttle_time_ms).unwrap_or(0));
    Ok(FetchResult { session_id: response.session_id, throttle, partitions })
}

fn decode_partition(
    requested: RequestedPartition,
    options: DecodeOptions,
    frame: &Arc<Frame>,
    budget: &mut usize,
    p: &mut fetch::PartitionResponse,
) -> FetchedPartition {
    let mut aborted = p.aborted_transactions.take().unwrap_or_default();
    aborted.sort_by_key(|t| t.first_offset);
    let mut aborted = aborted.into_iter().peekable();
    let mut aborting = HashSet::new();
    let replica = Some(p.preferred_read_replica).filter(|r| *r >= 0);
    // Brokers before 0.11 have no last stable offset.
    let is_bounded = options.read_committed && p.last_stable_offset >= 0;
    let mut fetched = FetchedPartition {
        code: p.error_code,
        high_watermark: p.high_watermark,
        readable_end: if is_bounded { p.last_stable_offset } else { p.high_watermark },
        log_start_offset: p.log_start_offset,
        replica,
        chunks: Vec::new(),
        density: Density::default(),
        error: None,
        has_implausible_batch: false,
        cut_off: false,
        requested,
    };
    let mut expected_offset = fetched.requested.offset;
    let mut first_offset = None;
    for batch in batches(p.records.take().unwrap_or_default()).in_runs() {
        let batch = match batch.and_then(|b| if options.check_crcs { b.check_crc().map(|()| b) } else { Ok(b) }) {
            Ok(batch) => batch,
            Err(e) => {
                fetched.error = Some(damaged_batch_error(&fetched.requested, &fetched.chunks, &e));
                break;
            }
        };
        let next_offset = batch.header.next_offset();
        if is_implausible(&batch, expected_offset, &fetched) {
            fetched.has_implausible_batch = true;
            if fetched.requested.stops_at_implausible {
                // Possibly the previous batch has too high an offset, instead of this one too low an offset.
                if batch.header.base_offset < expected_offset {
                    fetched.chunks.pop();
                }
                break;
            }
        }
        expected_offset = next_offset;
        if next_offset <= fetched.requested.offset {
            continue;
        }
        if options.read_committed {
            while let Some(t) = aborted.next_if(|t| t.first_offset <= batch.header.last_offset()) {
                aborting.insert(t.producer_id);
            }
        }
        let dropped = batch.header.is_transactional() && aborting.contains(&batch.header.producer_id);
        let is_compressed = batch.header.compression() != Some(Compression::None);
        let (timestamp_type, leader_epoch) = (batch.header.timestamp_type(), batch.header.partition_leader_epoch);
        let (size, base_offset) = (batch.data.len(), batch.header.base_offset);
        let (contents, bytes, in_frame) = if batch.header.is_control() {
            if options.read_committed && is_abort(&batch, options.max_decompressed_bytes) {
                aborting.remove(&batch.header.producer_id);
            }
            (Contents::NoRecords, 0, false)
        } else if dropped {
            (Contents::NoRecords, 0, false)
        } else if is_compressed && *budget == 0 {
            (Contents::Compressed(batch, options), size, true)
        } else {
            match options.records(&batch) {
                Ok(records) => {
                    let bytes = records.data().len().max(size);
                    *budget = budget.saturating_sub(if is_compressed { bytes } else { 0 });
                    (Contents::Records(records), bytes, !is_compressed)
                }
                Err(e) => {
                    fetched.error = Some(damaged_batch_error(&fetched.requested, &fetched.chunks, &e));
                    break;
                }
            }
        };
        let first = *first_offset.get_or_insert(base_offset);
        fetched.density = Density {
            bytes: fetched.density.bytes + size,
            batches: fetched.density.batches + 1,
            offsets: usize::try_from(next_offset.saturating_sub(first)).unwrap_or(0),
        };
        let slice = in_frame.then(|| FrameSlice::new(frame, size));
        fetched.chunks.push(Chunk { contents, timestamp_type, next_offset, leader_epoch, bytes, slice });
    }
    fetched
}

/// Returns whether a batch that should start at `expected_offset` has an implausible offset or epoch. No checksum
/// covers these fields. A damaged offset would make the consumer skip records, or put its position out of range.
/// Batches above the high watermark are rare but valid, because the broker looks up the high watermark before it reads
/// the log.
fn is_implausible(batch: &Batch, expected_offset: i64, fetched: &FetchedPartition) -> bool {
    let Header { base_offset, partition_leader_epoch, .. } = batch.header;
    let (last_offset, epoch) = (batch.header.last_offset(), fetched.requested.leader_epoch);
    // The first batch may begin before the requested offset.
    let starts_too_low =
        last_offset < expected_offset || (base_offset < expected_offset && expected_offset != fetched.requested.offset);
    starts_too_low
        || (fetched.high_watermark >= 0 && last_offset >= fetched.high_watermark)
        || (epoch >= 0 && partition_leader_epoch > epoch)
}

/// Returns the error for a damaged batch, or for a batch that does not fit into memory.
pub fn damaged_batch_error(requested: &RequestedPartition, chunks: &[Chunk], e: &wire::Error) -> Error {
    let offset = chunks.last().map_or(requested.offset, |c| c.next_offset);
    if matches!(e.reason(), Reason::OutOfMemory(_)) {
        let message =
            format!("cannot read the batch at offset {offset} of {}-{}: {e}", requested.topic, requested.partition);
        return Error::new(ErrorKind::OutOfMemory, message)
            .at(&requested.topic, requested.partition)
            .with_hint("free memory and poll again, or decrease queued_max_bytes");
    }
    let message = format!("batch at offset {offset} of {}-{} is damaged: {e}", requested.topic, requested.partition);
    Error::new(ErrorKind::Decode, message).at(&requested.topic, requested.partition).with_hint(format!(
        "check the broker's disk; seek past the batch, or read what is readable from {offset} with check.crcs=false"
    ))
}

/// Returns whether a control batch aborts a transaction.
fn is_abort(batch: &Batch, max_decompressed_bytes: usize) -> bool {
    let Ok(mut records) = batch.records(max_decompressed_bytes) else {
        return false;
    };
    match records.next_view() {
        Some(Ok(view)) => {
            Control::parse(view.key(), view.value()).is_some_and(|c| c.control_type == ControlType::Abort)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::partition::Partition;
    use super::*;
    use crate::api;
    use crate::compress::DEFAULT_LIMIT;
    use crate::record::{BatchBuilder, MessageSetBuilder, Producer};

    const OPTIONS: DecodeOptions = DecodeOptions {
        check_crcs: true,
        read_committed: false,
        max_decompressed_bytes: DEFAULT_LIMIT,
        decompression_budget: usize::MAX,
    };

    fn messages(magic: i8, offsets: std::ops::Range<i64>, compression: Compression) -> Vec<u8> {
        let mut set = if magic == 0 { MessageSetBuilder::magic_0() } else { MessageSetBuilder::magic_1(None) };
        for offset in offsets {
            set.append(offset, 1_000 + offset, None, Some(offset.to_string().as_bytes()));
        }
        set.seal(compression).unwrap()
    }

    fn batch(offsets: std::ops::Range<i64>, compression: Compression) -> Vec<u8> {
        let mut builder = BatchBuilder::with_capacity(0);
        for offset in offsets.clone() {
            builder.append(1_000 + offset, None, Some(offset.to_string().as_bytes()), &[]);
        }
        let sealed = builder.seal(compression, Producer::NONE).unwrap();
        [&offsets.start.to_be_bytes(), &sealed.data[8..]].concat()
    }

    /// Reads a response to a fetch from `offset`.
    fn fetched(offset: i64, options: DecodeOptions, records: Vec<u8>, stops_at_implausible: bool) -> FetchedPartition {
        let requested = RequestedPartition {
            slot: 0,
            generation: 0,
            offset,
            topic: Arc::from("t"),
            id: Uuid::ZERO,
            partition: 0,
            leader_epoch: 3,
            max_bytes: 0,
            stops_at_implausible,
        };
        let partition =
            fetch::PartitionResponse { high_watermark: 1_000, records: Some(records.into()), ..Default::default() };
        let topic = fetch::TopicResponse { topic: "t".to_owned(), partitions: vec![partition], ..Default::default() };
        let response = fetch::Response { responses: vec![topic], ..Default::default() };
        let reply = Reply { version: 4, body: api::encode(4, &response).unwrap().into() };
        decode_fetch_response(vec![requested], options, Leftover::default(), reply).unwrap().partitions.remove(0)
    }

    /// Returns the timestamp type and the offset of each delivered record, and the error after the last record.
    fn delivered(offset: i64, options: DecodeOptions, records: Vec<u8>) -> (Vec<(TimestampType, i64)>, Option<Error>) {
        let fetched = fetched(offset, options, records, false);
        let mut partition = Partition::new(Arc::from("t"), 0, None);
        partition.start_at(offset);
        partition.buffer(fetched.chunks, fetched.error);
        let mut slices = Vec::new();
        partition.take(usize::MAX, usize::MAX, &mut slices);
        let record = |s: &super::super::Slice| {
            let value = |r: &crate::record::Record| r.value(&s.data).map(<[u8]>::to_vec);
            let with_type = |r: &crate::record::Record| {
                assert_eq!(value(r), Some(r.offset.to_string().into_bytes()));
                (s.timestamp_type, r.offset)
            };
            s.records.iter().map(with_type).collect::<Vec<_>>()
        };
        (slices.iter().flat_map(record).collect(), partition.take_error())
    }

    #[test]
    fn batches_of_all_formats_in_one_response_are_read_in_order() {
        let all = [
            messages(0, 0..3, Compression::None),
            messages(0, 3..5, Compression::Gzip),
            messages(1, 5..7, Compression::None),
            messages(1, 7..9, Compression::Lz4),
            batch(9..11, Compression::None),
            messages(1, 11..12, Compression::None)[..20].to_vec(),
        ];
        let (records, error) = delivered(0, OPTIONS, all.concat());
        let kind = |offset| if offset < 5 { TimestampType::None } else { TimestampType::CreateTime };
        assert_eq!(records, (0..11).map(|offset| (kind(offset), offset)).collect::<Vec<_>>());
        assert!(error.is_none());
    }

    #[test]
    fn an_offset_is_committed_with_the_epoch_of_the_record_before_it() {
        let of_epoch = |epoch: i32, offsets| {
            let mut batch = batch(offsets, Compression::None);
            batch[12..16].copy_from_slice(&epoch.to_be_bytes());
            batch
        };
        let fetched = fetched(0, OPTIONS, [of_epoch(1, 0..3), of_epoch(1, 3..5), of_epoch(2, 5..8)].concat(), false);
        let mut partition = Partition::new(Arc::from("t"), 0, None);
        partition.start_at(0);
        partition.buffer(fetched.chunks, fetched.error);
        partition.take(7, usize::MAX, &mut Vec::new());
        let epochs = |p: &Partition| [0, 1, 4, 5, 6, 7].map(|offset| p.offset_to_commit(offset).leader_epoch);
        assert_eq!(epochs(&partition), [-1, 1, 1, 1, 2, 2]);
        // Epochs of processed records are forgotten.
        partition.mark_processed(6);
        assert_eq!(epochs(&partition), [-1, -1, -1, -1, 2, 2]);
    }

    #[test]
    fn records_before_the_requested_offset_are_skipped_in_compressed_messages_and_runs() {
        for magic in [0, 1] {
            for compression in [Compression::None, Compression::Snappy] {
                let data = [messages(magic, 0..4, compression), messages(magic, 4..9, compression)].concat();
                let (records, _) = delivered(6, OPTIONS, data);
                assert_eq!(records.iter().map(|(_, offset)| *offset).collect::<Vec<_>>(), [6, 7, 8]);
            }
        }
    }

    #[test]
    fn records_after_the_end_offset_are_dropped() {
        let all = [batch(0..5, Compression::None), batch(5..10, Compression::None), batch(10..15, Compression::None)];
        for (end, most) in [(5, usize::MAX), (7, usize::MAX), (7, 2)] {
            let fetched = fetched(0, OPTIONS, all.concat(), false);
            let mut partition = Partition::new(Arc::from("t"), 0, Some(end));
            partition.start_at(0);
            partition.buffer(fetched.chunks, fetched.error);
            let mut slices = Vec::new();
            while partition.take(most, usize::MAX, &mut slices).0 > 0 {}
            let delivered: usize = slices.iter().map(|s| s.records.len()).sum();
            assert_eq!((delivered as i64, partition.position, partition.buffered), (end, end, 0), "{most} at a time");
        }
    }

    #[test]
    fn batches_beyond_the_budget_are_decompressed_when_the_application_reaches_them() {
        let parts = [batch(0..3, Compression::Gzip), batch(3..5, Compression::Lz4), batch(5..9, Compression::None)];
        let (sizes, mut data) = (parts.each_ref().map(Vec::len), parts.concat());
        let options = DecodeOptions { decompression_budget: 1, ..OPTIONS };
        let read = fetched(0, options, data.clone(), true);
        let is_compressed = |chunk: &Chunk| matches!(chunk.contents, Contents::Compressed(..));
        assert_eq!(read.chunks.iter().map(is_compressed).collect::<Vec<_>>(), [false, true, false]);
        assert_eq!(read.chunks[1].bytes, sizes[1]);
        let offsets = |data| {
            let (records, error) = delivered(0, options, data);
            (records.iter().map(|(_, offset)| *offset).collect::<Vec<_>>(), error.map(|e| e.to_string()))
        };
        assert_eq!(offsets(data.clone()), ((0..9).collect(), None));
        // If it is damaged, the error comes when the application reaches it.
        data[sizes[0] + crate::record::HEADER_SIZE] ^= 0xff;
        let (records, error) = delivered(0, DecodeOptions { check_crcs: false, ..options }, data);
        assert_eq!(records.len(), 3);
        assert!(error.unwrap().to_string().contains("batch at offset 3 of t-0 is damaged"));
    }

    #[test]
    fn reading_stops_at_a_batch_with_an_implausible_offset_or_epoch() {
        let good = || [batch(0..2, Compression::None), batch(2..5, Compression::None), batch(5..7, Compression::None)];
        let read = |damage: &dyn Fn(&mut [u8])| {
            let mut batches = good();
            damage(&mut batches[1]);
            let fetched = fetched(1, OPTIONS, batches.concat(), true);
            (fetched.has_implausible_batch, fetched.chunks.last().map(|c| c.next_offset))
        };
        let offset = |offset: i64| move |batch: &mut [u8]| batch[..8].copy_from_slice(&offset.to_be_bytes());
        assert_eq!(read(&|_| {}), (false, Some(7)));
        // Above the high watermark, up to an overflow of the last offset.
        for wrong in [1_000, 1 << 60, i64::MAX] {
            assert_eq!(read(&offset(wrong)), (true, Some(2)), "{wrong}");
        }
        // Among the offsets of later batches: then either one may be wrong.
        for wrong in [3, 6, 900] {
            assert_eq!(read(&offset(wrong)), (true, Some(2)), "{wrong}");
        }
        // Too low, or the batch before is too high.
        for wrong in [i64::MIN, -3, 0, 1] {
            assert_eq!(read(&offset(wrong)), (true, None), "{wrong}");
        }
        let epoch = |batch: &mut [u8]| batch[12..16].copy_from_slice(&i32::to_be_bytes(4));
        assert_eq!(read(&epoch), (true, Some(2)));
    }

    #[test]
    fn the_epoch_of_a_position_is_the_epoch_of_the_record_before() {
        let mut batches = [batch(0..2, Compression::None), batch(2..5, Compression::None)];
        for (epoch, batch) in (2..).zip(&mut batches) {
            batch[12..16].copy_from_slice(&i32::to_be_bytes(epoch));
        }
        let mut partition = Partition::new(Arc::from("t"), 0, None);
        partition.start_at(0);
        partition.buffer(fetched(0, OPTIONS, batches.concat(), true).chunks, None);
        let mut after = |count| {
            partition.take(count, usize::MAX, &mut Vec::new());
            (partition.position, partition.position_epoch)
        };
        assert_eq!([after(1), after(1), after(1), after(2)], [(1, 2), (2, 2), (3, 3), (5, 3)]);
    }

    #[test]
    fn a_run_is_delivered_up_to_a_damaged_message_or_whole_without_checksums() {
        let mut data = messages(1, 0..5, Compression::None);
        let message = data.len() / 5;
        data[3 * message + 12] ^= 1;
        let (records, error) = delivered(0, OPTIONS, data.clone());
        assert_eq!(records.len(), 3);
        assert!(error.unwrap().to_string().contains("batch at offset 3 of t-0 is damaged: checksum"));
        let (records, error) = delivered(0, DecodeOptions { check_crcs: false, ..OPTIONS }, data);
        assert_eq!(records.len(), 5);
        assert!(error.is_none());
    }
}
