//! Converts records between formats. Kafka's brokers also convert records if the format of a client differs from the
//! format of the log.
//!
//! | | kept | lost |
//! |---|---|---|
//! | 2 to 1 | offsets, timestamps and their type, compression | headers, producer and sequence, control batches |
//! | 1 to 0 | offsets, compression | timestamps |
//! | 0 to 1, 1 to 2 | everything | nothing: records of magic 0 have timestamp -1 |
//!
//! A compressed batch becomes a compressed message, and vice versa. Consecutive uncompressed messages become one batch.
//! The conversion first verifies the old checksums, because new checksums would hide earlier damage.

use super::{
    Batch, BatchBuilder, Header, MessageSetBuilder, Producer, RecordSet, TimestampType, View, batches, undecodable,
};
use crate::compress::Compression;
use crate::wire::{Error, Reason};
use bytes::Bytes;

/// Converts records for a reader of magic 0, or of magic 0 and 1. Copies batches that the reader understands. Leaves
/// out records below `first_offset` in uncompressed batches of magic 2. Fails for zstd, which older formats do not
/// have. Each batch may decompress to at most `limit` bytes.
pub fn down_convert(data: Bytes, magic: i8, first_offset: i64, limit: usize) -> Result<Bytes, Error> {
    let mut out = Vec::new();
    for batch in batches(data) {
        let batch = batch?;
        let header = &batch.header;
        if header.is_control() {
            continue;
        }
        if header.magic <= magic {
            out.extend_from_slice(&batch.data);
            continue;
        }
        let (compression, mut records) = open(&batch, limit)?;
        if compression == Compression::Zstd {
            return Err(Error::new(Reason::Invalid("the older formats do not support zstd"), 21));
        }
        let mut messages = match (magic, header.timestamp_type()) {
            (..1, _) => MessageSetBuilder::magic_0(),
            (_, TimestampType::LogAppendTime) => MessageSetBuilder::magic_1(Some(header.max_timestamp)),
            _ => MessageSetBuilder::magic_1(None),
        };
        let mut last_offset = 0;
        while let Some(view) = records.next_view() {
            let view = in_order(view?, &mut last_offset)?;
            if compression != Compression::None || view.offset() >= first_offset {
                messages.append(view.offset(), view.timestamp(), view.key(), view.value());
            }
        }
        out.extend(messages.seal(compression).map_err(|e| undecodable(&e, 0))?);
    }
    Ok(out.into())
}

/// Converts records to magic 1 or 2. Copies batches that already have this magic or a newer magic. Each batch may
/// decompress to at most `limit` bytes.
pub fn up_convert(data: Bytes, magic: i8, limit: usize) -> Result<Bytes, Error> {
    let mut out = Vec::new();
    for batch in batches(data).in_runs() {
        let batch = batch?;
        if batch.header.magic >= magic {
            out.extend_from_slice(&batch.data);
            continue;
        }
        let (compression, mut records) = open(&batch, limit)?;
        if magic == 1 {
            let mut messages = MessageSetBuilder::magic_1(None);
            let mut last_offset = 0;
            while let Some(view) = records.next_view() {
                let view = in_order(view?, &mut last_offset)?;
                messages.append(view.offset(), view.timestamp(), view.key(), view.value());
            }
            out.extend(messages.seal(compression).map_err(|e| undecodable(&e, 0))?);
            continue;
        }
        let stamped = batch.header.timestamp_type() == TimestampType::LogAppendTime;
        let mut open: Option<Open> = None;
        while let Some(view) = records.next_view() {
            let view = view?;
            let append_time = stamped.then_some(view.timestamp());
            match open.as_mut().and_then(|open| open.delta(&view, append_time).map(|delta| (open, delta))) {
                Some((open, delta)) => open.append(delta, &view),
                None => {
                    let full = open.replace(Open::new(&view, append_time));
                    full.map_or(Ok(()), |full| full.seal(compression, &mut out))?;
                }
            }
        }
        open.map_or(Ok(()), |open| open.seal(compression, &mut out))?;
    }
    Ok(out.into())
}

fn open(batch: &Batch, limit: usize) -> Result<(Compression, RecordSet), Error> {
    batch.check_crc()?;
    let records = batch.records(limit)?;
    Ok((batch.header.compression().unwrap_or_default(), records))
}

/// Fails if offsets decrease. Offsets inside a compressed message of magic 1 are relative to the last message, so they
/// must not decrease.
fn in_order<'a>(view: View<'a>, last_offset: &mut i64) -> Result<View<'a>, Error> {
    if view.offset() < *last_offset {
        return Err(Error::new(Reason::Invalid("offset is negative, or lower than that of the previous record"), 0));
    }
    *last_offset = view.offset();
    Ok(view)
}

/// A batch of magic 2 to which the conversion appends records.
struct Open {
    builder: BatchBuilder,
    base_offset: i64,
    last_offset: i64,
    append_time: Option<i64>,
}

impl Open {
    fn new(first: &View<'_>, append_time: Option<i64>) -> Self {
        let builder = BatchBuilder::with_capacity(0);
        let mut open = Self { builder, base_offset: first.offset(), last_offset: first.offset(), append_time };
        open.append(0, first);
        open
    }

    /// Returns the distance of a record from the first record, if the batch can contain the record. Offsets must
    /// increase, and all records with log-append time must have the same timestamp.
    fn delta(&self, view: &View<'_>, append_time: Option<i64>) -> Option<i32> {
        let fits = view.offset() > self.last_offset && append_time == self.append_time;
        let delta = view.offset().checked_sub(self.base_offset).filter(|_| fits)?;
        i32::try_from(delta).ok()
    }

    fn append(&mut self, delta: i32, view: &View<'_>) {
        self.builder.append_at(delta, view.timestamp(), view.key(), view.value(), &[]);
        self.last_offset = view.offset();
    }

    fn seal(self, compression: Compression, out: &mut Vec<u8>) -> Result<(), Error> {
        let sealed = self.builder.seal(compression, Producer::NONE).map_err(|e| undecodable(&e, 0))?;
        let mut batch = sealed.data.to_vec();
        if let Some(mut header) = Header::parse(&batch)? {
            header.base_offset = self.base_offset;
            if let Some(ms) = self.append_time {
                header.set_append_time(ms);
            }
            header.stamp(&mut batch);
        }
        out.extend(batch);
        Ok(())
    }
}
