//! What a log holds: record batches of magic 2 (KIP-98) and messages of magic 0 and 1, read lazily and written in one
//! pass.
//!
//! `batch` finds batches in what a broker sent and checks them, `header` is what they begin with; `view` walks the records
//! of one without copying, or `message_set` those of older formats; `control` is what brokers write for themselves;
//! `fault` says what is wrong with a record. `builder` and `message_builder` write, `convert` makes one format of another,
//! `crc` are the checksums. Keys, values and headers are slices of the batch.
//!
//! A batch that is not compressed takes no memory of its own to read. To open one that is compressed takes three times what
//! comes out of it at most (a vector that grows is there twice for a moment) and 128 KiB for its codec; and what comes
//! out ends at the caller's limit and at what the codec makes of so many bytes (the table in [`crate::compress`]). gzip that
//! says it is larger than it is has 16 times its own bytes set aside. The C library of zstd has 160 KiB more, and 8 MiB
//! where it reads a damaged stream as far as that goes. Nothing recurses: there is one level of compressed messages, and
//! another one inside is refused.
//!
//! An error's offset counts from the start of its batch, as if the batch were not compressed; in messages inside of
//! another from the first of them.

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
mod view;

pub use batch::{Batch, Batches, batches};
pub use builder::{Appended, BatchBuilder, Producer, Sealed, first_record_size, max_record_size, reseal};
pub use control::{Control, ControlType};
pub use convert::{down_convert, up_convert};
pub use crc::{crc32, crc32c};
pub use header::{Header, TimestampType, sequence_after};
pub use message_builder::MessageSetBuilder;
pub use view::{Headers, Record, RecordSet, View};

/// Bytes of a magic-2 batch before its records.
pub const HEADER_SIZE: usize = 61;
/// Bytes before the part that the length field counts: base offset and length.
pub const LOG_OVERHEAD: usize = 12;
