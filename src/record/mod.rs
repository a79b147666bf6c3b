//! What a log holds: record batches of magic 2 (KIP-98), read lazily and written in one pass.
//!
//! `batch` finds batches in what a broker sent, checks them and seals new ones; `view` walks the records of one
//! without copying; `crc` is the checksum. Keys, values and headers are slices of the batch.

#![deny(clippy::unwrap_used, clippy::indexing_slicing, clippy::cast_possible_truncation)]

mod batch;
#[allow(clippy::indexing_slicing, clippy::cast_possible_truncation, reason = "our own data, kept far below 2 GiB")]
mod builder;
mod control;
mod convert;
mod crc;
mod header;
#[allow(clippy::indexing_slicing, clippy::cast_possible_truncation, reason = "our own data, kept far below 2 GiB")]
mod message_builder;
mod message_set;
mod view;

pub use batch::{Batch, Batches, batches};
pub use builder::{Appended, BatchBuilder, Producer, Sealed, max_record_size, reseal};
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
