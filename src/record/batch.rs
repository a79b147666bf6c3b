//! Splits the record data of a fetch response into batches, verifies their checksums, and returns iterators over their
//! records.

use super::header::Header;
use super::message_set::Messages;
use super::{HEADER_SIZE, RecordSet, crc32, crc32c, undecodable};
use crate::compress::{Compression, check_start, decompress_into};
use crate::wire::{Error, Reason};
use bytes::Bytes;

/// A complete batch: its header and all of its bytes. In magic 0 and 1, a batch is one message, compressed or not, or a
/// run of uncompressed messages (see [`Batches::in_runs`]).
#[derive(Clone, Debug)]
pub struct Batch {
    /// The header of the batch. Byte offsets in errors count from the start of the header.
    pub header: Header,
    /// The bytes of the batch, including the header. The bytes share memory with the frame.
    pub data: Bytes,
}

impl Batch {
    /// Compares the checksum with the data. The checksums of messages are also verified while the messages are read, so
    /// that a run ends at a damaged message.
    pub fn check_crc(&self) -> Result<(), Error> {
        let (at, found) = match self.header.magic {
            2 => (17, self.data.get(21..).map(crc32c)),
            _ if self.header.count > 1 => return Ok(()),
            _ => (12, self.data.get(16..).map(crc32)),
        };
        if found == Some(self.header.crc) {
            return Ok(());
        }
        Err(Error::new(Reason::Invalid("checksum does not match the data"), at))
    }

    /// Returns the records, decompressed to at most `limit` bytes. In magic 2, damaged compressed data ends the
    /// iteration with an error, after the intact records. In magic 0 and 1, the function itself fails, because offsets
    /// depend on the last message. The Java client does the same.
    pub fn records(&self, limit: usize) -> Result<RecordSet, Error> {
        let (codec_at, body_at) = if self.header.magic == 2 { (21, HEADER_SIZE) } else { (17, 0) };
        let compression = self.header.compression();
        let compression = compression.ok_or_else(|| Error::new(Reason::Invalid("no such compression"), codec_at))?;
        // Positions of records have 31 bits.
        let limit = limit.min(i32::MAX as usize);
        let body = self.data.slice(body_at.min(self.data.len())..);
        match (self.header.magic, compression) {
            (2, Compression::None) => RecordSet::new(&self.header, body, None),
            (2, _) if self.header.count == 0 => {
                let start = check_start(compression, &body, limit);
                start.map_err(|e| undecodable(&e, HEADER_SIZE))?;
                RecordSet::new(&self.header, Bytes::new(), None)
            }
            (2, _) => {
                let mut plain = Vec::new();
                let damage = decompress_into(compression, &body, limit, &mut plain).err();
                if let Some(e) = damage.as_ref().filter(|e| e.is_out_of_memory()) {
                    return Err(undecodable(e, HEADER_SIZE));
                }
                let damage = damage.map(|e| undecodable(&e, HEADER_SIZE));
                RecordSet::new(&self.header, plain.into(), damage)
            }
            (_, Compression::None) => Ok(RecordSet::of_messages(body, Messages::plain(&self.header))),
            (_, Compression::Zstd) => Err(Error::new(Reason::Invalid("zstd needs magic 2"), codec_at)),
            _ => Messages::wrapped(&self.header, &body, limit).map(|(data, inner)| RecordSet::of_messages(data, inner)),
        }
    }
}

/// Iterates over batches, in order. An incomplete batch ends the iteration.
#[derive(Clone, Debug)]
pub struct Batches {
    data: Bytes,
    offset: usize,
    in_runs: bool,
}

/// Iterates over the batches of a `records` field. The batches may have different magic numbers.
pub fn batches(data: Bytes) -> Batches {
    Batches { data, offset: 0, in_runs: false }
}

impl Batches {
    /// Returns the number of bytes that have not been read. After the last complete batch, this is the size of the
    /// incomplete batch.
    pub fn left(&self) -> usize {
        self.data.len() - self.offset
    }

    /// Returns consecutive uncompressed messages of magic 0 or 1 as one batch, if they differ only in their records. A
    /// reader that only needs records then saves most of the work.
    pub fn in_runs(self) -> Self {
        Self { in_runs: true, ..self }
    }

    /// Adds the following similar messages to the run of an uncompressed message.
    fn extend(header: &mut Header, data: &Bytes) {
        let mut size = header.size();
        while let Some(Ok(Some(next))) = data.get(size..).map(Header::parse) {
            let alike = next.magic == header.magic && next.attributes == header.attributes;
            let rising = next.base_offset > header.last_offset();
            let delta = next.base_offset.checked_sub(header.base_offset).and_then(|delta| i32::try_from(delta).ok());
            let length = header.batch_length.checked_add_unsigned(u32::try_from(next.size()).unwrap_or(u32::MAX));
            let (true, Some(delta), Some(length)) = (alike && rising, delta, length) else {
                return;
            };
            header.last_offset_delta = delta;
            header.batch_length = length;
            header.max_timestamp = header.max_timestamp.max(next.max_timestamp);
            header.count += 1;
            size += next.size();
        }
    }
}

impl Iterator for Batches {
    type Item = Result<Batch, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.data.slice(self.offset..);
        match Header::parse(&rest) {
            Ok(None) => None,
            Ok(Some(mut header)) => {
                if self.in_runs && header.magic < 2 && header.compression() == Some(Compression::None) {
                    Self::extend(&mut header, &rest);
                }
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
