//! Batches of magic 2: the header, the walk over what a fetch returned, the checks.
//!
//! ```text
//! 0 base_offset i64 | 8 length i32 | 12 leader_epoch i32 | 16 magic i8 | 17 crc u32 | 21 attributes i16
//! 23 last_offset_delta i32 | 27 base_timestamp i64 | 35 max_timestamp i64 | 43 producer_id i64
//! 51 producer_epoch i16 | 53 base_sequence i32 | 57 count i32 | 61 records
//! ```
//!
//! `length` counts from the leader epoch on, the checksum from the attributes on. A batch that is cut off at the end
//! of a fetch is not an error: the broker cuts at the size it was asked for.

use super::{HEADER_SIZE, LOG_OVERHEAD, RecordSet, crc32c};
use crate::compress::{Compression, decompress_into};
use crate::wire::{Error, Reason};
use bytes::Bytes;
use std::ops::RangeInclusive;

/// Lengths that can be true: a message of magic 0 takes 14 bytes, and a whole batch is smaller than 2 GiB. Others are
/// no batch that is cut off, which a larger fetch would bring whole.
const LENGTHS: RangeInclusive<i32> = 14..=i32::MAX - 12;

const TIMESTAMP_TYPE: i16 = 1 << 3;
const TRANSACTIONAL: i16 = 1 << 4;
const CONTROL: i16 = 1 << 5;
const DELETE_HORIZON: i16 = 1 << 6;

/// Who set a record's timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimestampType {
    /// The producer.
    CreateTime,
    /// The broker, on append.
    LogAppendTime,
}

/// The header of a batch, in wire order.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Header {
    pub base_offset: i64,
    pub batch_length: i32,
    pub partition_leader_epoch: i32,
    pub magic: i8,
    pub crc: u32,
    pub attributes: i16,
    pub last_offset_delta: i32,
    pub base_timestamp: i64,
    pub max_timestamp: i64,
    pub producer_id: i64,
    pub producer_epoch: i16,
    pub base_sequence: i32,
    pub count: i32,
}

fn at<const N: usize>(data: &[u8], offset: usize) -> Option<[u8; N]> {
    data.get(offset..)?.first_chunk().copied()
}

impl Header {
    /// The header of the batch that `data` starts with; `None` if the batch is cut off.
    pub fn parse(data: &[u8]) -> Result<Option<Self>, Error> {
        let (Some(length), Some([magic])) = (at(data, 8), at(data, 16)) else {
            return Ok(None);
        };
        let batch_length = i32::from_be_bytes(length);
        let size = usize::try_from(batch_length).ok().filter(|_| LENGTHS.contains(&batch_length));
        let Some(size) = size.map(|n| n + LOG_OVERHEAD) else {
            return Err(Error::new(Reason::Length { length: batch_length.into(), left: data.len() }, 8));
        };
        if size > data.len() {
            return Ok(None);
        }
        if magic != 2 {
            return Err(Error::new(Reason::Invalid("message format is not 2"), 16));
        }
        Self::fields(data)
            .filter(|_| size >= HEADER_SIZE)
            .map(Some)
            .ok_or_else(|| Error::new(Reason::Length { length: batch_length.into(), left: HEADER_SIZE }, 8))
    }

    fn fields(data: &[u8]) -> Option<Self> {
        Some(Self {
            base_offset: i64::from_be_bytes(at(data, 0)?),
            batch_length: i32::from_be_bytes(at(data, 8)?),
            partition_leader_epoch: i32::from_be_bytes(at(data, 12)?),
            magic: i8::from_be_bytes(at(data, 16)?),
            crc: u32::from_be_bytes(at(data, 17)?),
            attributes: i16::from_be_bytes(at(data, 21)?),
            last_offset_delta: i32::from_be_bytes(at(data, 23)?),
            base_timestamp: i64::from_be_bytes(at(data, 27)?),
            max_timestamp: i64::from_be_bytes(at(data, 35)?),
            producer_id: i64::from_be_bytes(at(data, 43)?),
            producer_epoch: i16::from_be_bytes(at(data, 51)?),
            base_sequence: i32::from_be_bytes(at(data, 53)?),
            count: i32::from_be_bytes(at(data, 57)?),
        })
    }

    /// Bytes of the whole batch.
    pub fn size(&self) -> usize {
        self.batch_length as usize + LOG_OVERHEAD
    }

    /// The offset of the last record the batch was written with.
    pub fn last_offset(&self) -> i64 {
        self.base_offset.wrapping_add(self.last_offset_delta.into())
    }

    /// The offset after the batch.
    pub fn next_offset(&self) -> i64 {
        self.last_offset().wrapping_add(1)
    }

    /// How the records are compressed; `None` for a number nobody uses.
    pub fn compression(&self) -> Option<Compression> {
        Compression::from_attributes(self.attributes)
    }

    /// Who set the timestamps.
    pub fn timestamp_type(&self) -> TimestampType {
        if self.attributes & TIMESTAMP_TYPE == 0 { TimestampType::CreateTime } else { TimestampType::LogAppendTime }
    }

    /// Whether the batch belongs to a transaction.
    pub fn is_transactional(&self) -> bool {
        self.attributes & TRANSACTIONAL != 0
    }

    /// Whether the batch holds a transaction's end mark instead of records.
    pub fn is_control(&self) -> bool {
        self.attributes & CONTROL != 0
    }

    /// When compaction may drop the batch's tombstones (KIP-534), milliseconds; kept in the base timestamp.
    pub fn delete_horizon_ms(&self) -> Option<i64> {
        (self.attributes & DELETE_HORIZON != 0).then_some(self.base_timestamp)
    }
}

/// A whole batch: its header and all of its bytes.
#[derive(Clone, Debug)]
pub struct Batch {
    /// The header.
    pub header: Header,
    /// The batch, header included, shared with the frame it came in.
    pub data: Bytes,
}

impl Batch {
    /// Compares the checksum with the data.
    pub fn check_crc(&self) -> Result<(), Error> {
        if self.data.get(21..).map(crc32c) == Some(self.header.crc) {
            return Ok(());
        }
        Err(Error::new(Reason::Invalid("checksum does not match the data"), 17))
    }

    /// The records, decompressed to at most `limit` bytes if they are compressed. What their codec refuses is an
    /// error of the walk, after the records before it, as in the Java client.
    pub fn records(&self, limit: usize) -> Result<RecordSet, Error> {
        let body = self.data.slice(HEADER_SIZE.min(self.data.len())..);
        let compression = self.header.compression();
        let compression = compression.ok_or_else(|| Error::new(Reason::Invalid("no such compression"), 21))?;
        if compression == Compression::None {
            return RecordSet::new(&self.header, body, None);
        }
        let mut plain = Vec::new();
        // Positions of records have 31 bits.
        let damage = decompress_into(compression, &body, limit.min(i32::MAX as usize), &mut plain).err();
        let damage = damage.map(|e| Error::new(Reason::Compression(e.to_string()), HEADER_SIZE));
        RecordSet::new(&self.header, plain.into(), damage)
    }
}

/// The batches of what a broker sent, in order; a batch that is cut off ends the walk.
#[derive(Clone, Debug)]
pub struct Batches {
    data: Bytes,
    offset: usize,
}

/// Walks the batches of a `records` field.
pub fn batches(data: Bytes) -> Batches {
    Batches { data, offset: 0 }
}

impl Batches {
    /// Bytes not walked yet; after the last batch, those of the one that is cut off.
    pub fn left(&self) -> usize {
        self.data.len() - self.offset
    }
}

impl Iterator for Batches {
    type Item = Result<Batch, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.data.slice(self.offset..);
        match Header::parse(&rest) {
            Ok(None) => None,
            Ok(Some(header)) => {
                self.offset += header.size();
                let data = rest.slice(..header.size());
                Some(Ok(Batch { header, data }))
            }
            Err(e) => {
                self.offset = self.data.len();
                Some(Err(e))
            }
        }
    }
}
