//! Message formats 0 and 1, for old clients. Logs contain only format 2.
//!
//! As in Kafka, the broker converts messages of old formats when they arrive. A compressed message becomes one batch,
//! and consecutive uncompressed messages become one batch. When an old client fetches, the broker converts the records
//! to the client's format. The broker ignores offsets in produced messages.

use super::log::{Log, Slice};
use crate::api::ErrorCode;
use crate::compress::{Compression, DEFAULT_LIMIT};
use crate::record::{Batch, BatchBuilder, Header, Producer, batches, down_convert};
use crate::wire::Error;
use bytes::Bytes;

/// Converts messages of format 0 or 1 to batches.
pub(super) fn up(data: Bytes) -> Result<Vec<Batch>, Error> {
    let mut out = Vec::new();
    for messages in batches(data).in_runs() {
        let messages = messages?;
        messages.check_crc()?;
        let mut builder = BatchBuilder::with_capacity(messages.data.len());
        let mut records = messages.records(DEFAULT_LIMIT)?;
        while let Some(view) = records.next_view() {
            let view = view?;
            builder.append(view.timestamp(), view.key(), view.value(), &[]);
        }
        if builder.count() == 0 {
            continue;
        }
        let compression = messages.header.compression().unwrap_or_default();
        let refused = |_| Error::new(crate::wire::Reason::Invalid("messages cannot be recompressed"), 0);
        let data = builder.seal(compression, Producer::NONE).map_err(refused)?.data;
        out.extend(Header::parse(&data)?.map(|header| Batch { header, data }));
    }
    Ok(out)
}

/// Returns the message format of a Fetch version, or `None` for format 2.
pub(super) fn of_fetch(version: i16) -> Option<i8> {
    match version {
        ..2 => Some(0),
        2 | 3 => Some(1),
        _ => None,
    }
}

/// Reads batches like [`Log::read`], and converts them to an old format. Old formats have no control batches. The read
/// skips control batches, so that the reader makes progress.
pub(super) fn read_down(
    log: &mut Log,
    magic: i8,
    offset: i64,
    until: i64,
    limit: usize,
    at_least_one: bool,
) -> Result<Slice, ErrorCode> {
    let mut from = offset;
    loop {
        let slice = log.read(from, until, limit, at_least_one)?;
        let mut zstd = false;
        for batch in batches(slice.data.clone()) {
            let header = batch.map_err(|_| ErrorCode::CORRUPT_MESSAGE)?.header;
            zstd |= header.compression() == Some(Compression::Zstd);
            from = header.next_offset();
        }
        if zstd {
            return Err(ErrorCode::UNSUPPORTED_COMPRESSION_TYPE);
        }
        let read_on = !slice.data.is_empty();
        let data = down_convert(slice.data, magic, offset, DEFAULT_LIMIT).map_err(|_| ErrorCode::CORRUPT_MESSAGE)?;
        if !data.is_empty() || !read_on {
            return Ok(Slice { available: data.len(), data });
        }
    }
}
