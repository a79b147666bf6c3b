//! Writes messages of magic 0 and 1: uncompressed messages, or one compressed message that contains all messages.

use super::builder::check_size;
use super::{LOG_OVERHEAD, crc32};
use crate::compress::{self, Codec, Compression, compress, compress_of_magic_0};

/// The attribute bit of magic 1 for log-append time.
const LOG_APPEND_TIME: u8 = 1 << 3;

/// Collects messages of magic 0 or 1.
#[derive(Debug)]
pub struct MessageSetBuilder {
    buf: Vec<u8>,
    magic: u8,
    append_time: Option<i64>,
    first_offset: Option<i64>,
    last_offset: i64,
    max_timestamp: i64,
}

impl MessageSetBuilder {
    /// Creates a set of messages without timestamps.
    pub fn magic_0() -> Self {
        Self { buf: Vec::new(), magic: 0, append_time: None, first_offset: None, last_offset: 0, max_timestamp: -1 }
    }

    /// Creates a set of messages. The messages have their own timestamps, or all have the same log-append time.
    pub fn magic_1(append_time: Option<i64>) -> Self {
        Self { magic: 1, append_time, ..Self::magic_0() }
    }

    /// Returns the current size.
    pub fn size(&self) -> usize {
        self.buf.len()
    }

    /// Appends a message. The timestamp is in milliseconds since 1970, or -1.
    pub fn append(&mut self, offset: i64, timestamp: i64, key: Option<&[u8]>, value: Option<&[u8]>) {
        self.first_offset.get_or_insert(offset);
        self.last_offset = offset;
        let timestamp = self.append_time.unwrap_or(timestamp);
        self.max_timestamp = self.max_timestamp.max(timestamp);
        self.put(offset, Compression::None, timestamp, key, value);
    }

    fn put(&mut self, offset: i64, compression: Compression, timestamp: i64, key: Option<&[u8]>, value: Option<&[u8]>) {
        let start = self.buf.len();
        let buf = &mut self.buf;
        let attributes = compression.number() as u8 | self.append_time.map_or(0, |_| LOG_APPEND_TIME);
        buf.extend_from_slice(&offset.to_be_bytes());
        buf.extend_from_slice(&[0; 8]);
        buf.extend_from_slice(&[self.magic, attributes]);
        if self.magic == 1 {
            buf.extend_from_slice(&timestamp.to_be_bytes());
        }
        for part in [key, value] {
            buf.extend_from_slice(&part.map_or(-1, |part| part.len() as i32).to_be_bytes());
            buf.extend_from_slice(part.unwrap_or_default());
        }
        let length = (buf.len() - start - LOG_OVERHEAD) as i32;
        buf[start + 8..start + 12].copy_from_slice(&length.to_be_bytes());
        let crc = crc32(&buf[start + 16..]);
        buf[start + 12..start + 16].copy_from_slice(&crc.to_be_bytes());
    }

    /// Returns the messages one after the other, or inside one compressed message. In magic 1, inner offsets count from
    /// the first message. The checksum does not cover offsets. Fails if the messages exceed 2 GiB.
    pub fn seal(mut self, codec: impl Into<Codec>) -> Result<Vec<u8>, compress::Error> {
        let codec = codec.into();
        check_size(self.buf.len(), codec.compression())?;
        let Some(first_offset) = self.first_offset.filter(|_| codec.compression() != Compression::None) else {
            return Ok(self.buf);
        };
        let mut packed = Vec::with_capacity(self.buf.len() / 2);
        if self.magic == 0 {
            compress_of_magic_0(codec, &self.buf, &mut packed)?;
        } else {
            self.make_relative(first_offset);
            compress(codec, &self.buf, &mut packed)?;
        }
        self.buf.clear();
        self.put(self.last_offset, codec.compression(), self.max_timestamp, None, Some(&packed));
        check_size(self.buf.len(), codec.compression())?;
        Ok(self.buf)
    }

    fn make_relative(&mut self, first_offset: i64) {
        let mut rest = self.buf.as_mut_slice();
        while let Some((offset, behind)) = rest.split_first_chunk_mut::<8>() {
            *offset = (i64::from_be_bytes(*offset).wrapping_sub(first_offset)).to_be_bytes();
            let length = u32::from_be_bytes([behind[0], behind[1], behind[2], behind[3]]) as usize;
            rest = &mut behind[4 + length..];
        }
    }
}
