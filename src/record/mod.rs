//! The contents of a log: record batches of magic 2 (KIP-98) and messages of magic 0 and 1. Readers decode records on
//! demand, and writers write a batch in one pass.
//!
//! `batch` splits a fetch response into batches, and `header` reads their headers. `record_set` iterates over the
//! records of a batch without copying, and `message_set` iterates over messages of older formats. `view` has the
//! records, whose keys, values and headers are slices of the batch. `control` decodes control records, and `fault`
//! explains malformed records. `builder` and `message_builder` write batches and messages. `convert` changes the
//! format, and `crc` computes checksums.
//!
//! Memory: reading an uncompressed batch allocates nothing. Decompressing a batch needs at most three times the
//! decompressed size, plus 128 KiB for the codec. The factor is three because a growing `Vec` doubles its capacity, and
//! the old and the new buffer exist together for a moment. The caller's limit and the codec's maximum ratio (see the
//! table in [`crate::compress`]) limit the decompressed size. If a gzip member states a size that is too large, the
//! decoder reserves at most 16 times the compressed size. The C library of zstd needs 160 KiB more, and 8 MiB for a
//! damaged stream. The code does not recurse: it rejects a compressed message inside a compressed message.
//!
//! The byte offset in an error counts from the start of the batch, as if the batch were not compressed. For a message
//! inside a compressed message, the byte offset in an error counts from the start of the first inner message.

#![deny(clippy::unwrap_used, clippy::indexing_slicing, clippy::cast_possible_truncation)]

mod batch;
#[allow(clippy::indexing_slicing, clippy::cast_possible_truncation, reason = "our own data, kept far below 2 GiB")]
mod builder;
mod control;
mod convert;
mod crc;
mod fault;
mod header;
#[allow(clippy::indexing_slicing, clippy::cast_possible_truncation, reason = "our own data, kept far below 2 GiB")]
mod message_builder;
mod message_set;
mod record_set;
mod view;

pub use batch::{Batch, Batches, batches};
pub use builder::{Appended, BatchBuilder, Producer, Sealed, first_record_size, max_record_size, reseal};
pub use control::{Control, ControlType};
pub use convert::{down_convert, up_convert};
pub use crc::{crc32, crc32c};
pub use header::{Header, TimestampType, sequence_after};
pub use message_builder::MessageSetBuilder;
pub use record_set::RecordSet;
pub use view::{Headers, Record, View};

use crate::compress;
use crate::wire::{Error, Reason};

/// The value of the timestamp field of a record without a timestamp.
pub const NO_TIMESTAMP: i64 = -1;

/// The size of a magic 2 batch without records.
pub const HEADER_SIZE: usize = 61;
/// The size of the base offset and the length field, which the length field does not count.
pub const LOG_OVERHEAD: usize = 12;

/// Returns the error for data at the position `at` that a codec cannot compress or decompress.
#[cold]
pub(crate) fn undecodable(error: &compress::Error, at: usize) -> Error {
    let why = error.to_string();
    Error::new(if error.is_out_of_memory() { Reason::OutOfMemory(why) } else { Reason::Compression(why) }, at)
}
