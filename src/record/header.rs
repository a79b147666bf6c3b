//! Reads the header of a record batch (magic 2) or of a message (magic 0 or 1).
//!
//! ```text
//! magic 2     0 base_offset i64 | 8 length i32 | 12 leader_epoch i32 | 16 magic i8 | 17 crc u32 | 21 attributes i16
//!             23 last_offset_delta i32 | 27 base_timestamp i64 | 35 max_timestamp i64 | 43 producer_id i64
//!             51 producer_epoch i16 | 53 base_sequence i32 | 57 count i32 | 61 records
//! magic 0, 1  0 offset i64 | 8 length i32 | 12 crc u32 | 16 magic i8 | 17 attributes i8 | 18 timestamp i64 (magic 1)
//!             key_length i32, key | value_length i32, value
//! ```
//!
//! The field `length` is the number of bytes from byte 12 on. The checksum covers all bytes after the field `crc`. An
//! incomplete batch at the end of a fetch response is not an error, because the broker cuts the response at the
//! requested size.

use super::{LOG_OVERHEAD, crc32c};
use crate::compress::Compression;
use crate::wire::{Error, Reason};

/// The minimum length, which is the length of a magic 0 message without key and value. Stricter checks follow when the
/// magic is known.
pub(super) const MIN_LENGTH: i32 = 14;
/// The maximum length, because a batch is smaller than 2 GiB. A larger length is an error and not an incomplete batch,
/// because a larger fetch could not complete the batch.
const MAX_LENGTH: i32 = i32::MAX - 12;
/// The length field of a magic 1 message without key and value.
const MIN_LENGTH_1: i32 = 22;
/// The length field of an empty magic 2 batch.
const MIN_LENGTH_2: i32 = 49;

const TIMESTAMP_TYPE: i16 = 1 << 3;
const TRANSACTIONAL: i16 = 1 << 4;
const CONTROL: i16 = 1 << 5;
const DELETE_HORIZON: i16 = 1 << 6;

/// The source of a record's timestamp, with Kafka's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimestampType {
    /// No timestamp (magic 0).
    None = -1,
    /// Set by the producer.
    CreateTime = 0,
    /// Set by the broker when it appended the batch.
    LogAppendTime = 1,
}

impl TimestampType {
    /// Returns Kafka's name of the timestamp type.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "NoTimestampType",
            Self::CreateTime => "CreateTime",
            Self::LogAppendTime => "LogAppendTime",
        }
    }
}

/// The header of a batch, in the order of magic 2.
///
/// A message of magic 0 or 1 appears as a batch of one record at `base_offset`. The timestamp of the message is both
/// the base and the maximum timestamp. The offset of a compressed message is the offset of its last inner message. The
/// first offset is only known after decompression. Fields that these formats do not have are -1, as in Kafka.
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

pub(super) fn at<const N: usize>(data: &[u8], offset: usize) -> Option<[u8; N]> {
    data.get(offset..)?.first_chunk().copied()
}

impl Header {
    /// Reads the header at the start of `data`. Returns `None` if the batch is incomplete.
    pub fn parse(data: &[u8]) -> Result<Option<Self>, Error> {
        let Some(batch_length) = at(data, 8).map(i32::from_be_bytes) else {
            return Ok(None);
        };
        let too_short = |least: i32| {
            Error::new(Reason::TooShort { length: batch_length.into(), least: least.unsigned_abs() as usize }, 8)
        };
        if batch_length < MIN_LENGTH {
            return Err(too_short(MIN_LENGTH));
        }
        let Some(magic) = at(data, 16).map(i8::from_be_bytes) else {
            return Ok(None);
        };
        if !(0..=2).contains(&magic) {
            return Err(Error::new(Reason::Invalid("magic is not 0, 1 or 2"), 16));
        }
        if batch_length > MAX_LENGTH {
            let (length, limit) = (batch_length.unsigned_abs() as usize, MAX_LENGTH as usize);
            return Err(Error::new(Reason::TooLong { length, limit }, 8));
        }
        let size = size_of(batch_length);
        if size > data.len() {
            return Ok(None);
        }
        let (header, least) = match magic {
            2 => (Self::batch(data), MIN_LENGTH_2),
            1 => (Self::message(data), MIN_LENGTH_1),
            _ => (Self::message(data), MIN_LENGTH),
        };
        header.filter(|_| batch_length >= least).map(Some).ok_or_else(|| too_short(least))
    }

    fn batch(data: &[u8]) -> Option<Self> {
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

    fn message(data: &[u8]) -> Option<Self> {
        let magic = i8::from_be_bytes(at(data, 16)?);
        let timestamp = if magic == 0 { -1 } else { i64::from_be_bytes(at(data, 18)?) };
        Some(Self {
            base_offset: i64::from_be_bytes(at(data, 0)?),
            batch_length: i32::from_be_bytes(at(data, 8)?),
            partition_leader_epoch: -1,
            magic,
            crc: u32::from_be_bytes(at(data, 12)?),
            attributes: i8::from_be_bytes(at(data, 17)?).into(),
            last_offset_delta: 0,
            base_timestamp: timestamp,
            max_timestamp: timestamp,
            producer_id: -1,
            producer_epoch: -1,
            base_sequence: -1,
            count: 1,
        })
    }

    /// Writes a magic 2 header into the first bytes of a batch, with its length and checksum.
    pub fn stamp(&self, batch: &mut [u8]) {
        let length = i32::try_from(batch.len().saturating_sub(LOG_OVERHEAD)).unwrap_or(i32::MAX);
        let mut put = |at: usize, bytes: &[u8]| {
            if let Some(field) = batch.get_mut(at..at + bytes.len()) {
                field.copy_from_slice(bytes);
            }
        };
        put(0, &self.base_offset.to_be_bytes());
        put(8, &length.to_be_bytes());
        put(12, &self.partition_leader_epoch.to_be_bytes());
        put(16, &[2]);
        put(21, &self.attributes.to_be_bytes());
        put(23, &self.last_offset_delta.to_be_bytes());
        put(27, &self.base_timestamp.to_be_bytes());
        put(35, &self.max_timestamp.to_be_bytes());
        put(43, &self.producer_id.to_be_bytes());
        put(51, &self.producer_epoch.to_be_bytes());
        put(53, &self.base_sequence.to_be_bytes());
        put(57, &self.count.to_be_bytes());
        let crc = batch.get(21..).map_or(0, crc32c);
        if let Some(field) = batch.get_mut(17..21) {
            field.copy_from_slice(&crc.to_be_bytes());
        }
    }

    /// Returns the size of the whole batch.
    pub fn size(&self) -> usize {
        size_of(self.batch_length)
    }

    /// Returns the last offset of the batch when it was written, even if compaction has removed that record.
    pub fn last_offset(&self) -> i64 {
        self.base_offset.wrapping_add(self.last_offset_delta.into())
    }

    /// Returns the offset after the batch.
    pub fn next_offset(&self) -> i64 {
        self.last_offset().wrapping_add(1)
    }

    /// Returns the last sequence number of the batch when it was written, or -1.
    pub fn last_sequence(&self) -> i32 {
        if self.base_sequence == -1 { -1 } else { sequence_after(self.base_sequence, self.last_offset_delta) }
    }

    /// Returns the sequence number of the record at an offset, or -1.
    pub fn sequence_at(&self, offset: i64) -> i32 {
        if self.base_sequence < 0 {
            return -1;
        }
        let delta = i32::try_from(offset.wrapping_sub(self.base_offset)).unwrap_or(i32::MAX);
        sequence_after(self.base_sequence, delta)
    }

    /// Returns the compression of the records, or `None` for an unassigned number.
    pub fn compression(&self) -> Option<Compression> {
        Compression::from_attributes(self.attributes)
    }

    /// Returns the source of the timestamps.
    pub fn timestamp_type(&self) -> TimestampType {
        match self.magic {
            0 => TimestampType::None,
            _ if self.attributes & TIMESTAMP_TYPE == 0 => TimestampType::CreateTime,
            _ => TimestampType::LogAppendTime,
        }
    }

    /// Returns whether the batch belongs to a transaction.
    pub fn is_transactional(&self) -> bool {
        self.has(TRANSACTIONAL)
    }

    /// Returns whether the batch contains control records, such as transaction markers.
    pub fn is_control(&self) -> bool {
        self.has(CONTROL)
    }

    /// Returns when compaction may drop the batch's tombstones (KIP-534), in milliseconds. The base timestamp field
    /// contains this time.
    pub fn delete_horizon_ms(&self) -> Option<i64> {
        self.has(DELETE_HORIZON).then_some(self.base_timestamp)
    }

    /// Marks the batch as having log-append time.
    pub fn set_append_time(&mut self, ms: i64) {
        self.attributes |= TIMESTAMP_TYPE;
        self.max_timestamp = ms;
    }

    /// Marks the batch as a control batch.
    pub fn set_control(&mut self) {
        self.attributes |= CONTROL;
    }

    /// Marks the base timestamp as a delete horizon.
    pub fn set_delete_horizon(&mut self) {
        self.attributes |= DELETE_HORIZON;
    }

    fn has(&self, attribute: i16) -> bool {
        self.magic == 2 && self.attributes & attribute != 0
    }
}

/// Converts the length field of a batch to the size of the batch. The caller has compared the length with
/// [`MIN_LENGTH`] and [`MAX_LENGTH`].
fn size_of(length: i32) -> usize {
    length as usize + LOG_OVERHEAD
}

/// Returns the sequence number `n` after `first`. The numbers wrap around to 0.
pub fn sequence_after(first: i32, n: i32) -> i32 {
    if first > i32::MAX.wrapping_sub(n) {
        n.wrapping_sub(i32::MAX.wrapping_sub(first)).wrapping_sub(1)
    } else {
        first.wrapping_add(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_continue_at_zero_after_the_largest() {
        assert_eq!(sequence_after(5, 3), 8);
        assert_eq!(sequence_after(i32::MAX, 0), i32::MAX);
        assert_eq!(sequence_after(i32::MAX, 1), 0);
        assert_eq!(sequence_after(i32::MAX - 1, i32::MAX), i32::MAX - 2);
    }

    #[test]
    fn what_is_wrong_with_a_header_is_found_before_it_is_whole() {
        let mut data = [0; 17];
        data[11] = 13;
        assert_eq!(Header::parse(&data[..12]).unwrap_err().offset(), 8);
        data[11] = 200;
        assert_eq!(Header::parse(&data[..11]), Ok(None));
        assert_eq!(Header::parse(&data), Ok(None));
        data[16] = 3;
        assert_eq!(Header::parse(&data[..16]), Ok(None));
        assert_eq!(Header::parse(&data).unwrap_err().offset(), 16);
    }
}
