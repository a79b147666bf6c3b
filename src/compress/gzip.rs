//! Compresses and decompresses gzip, with the crates flate2 and zlib-rs.
//!
//! The input may have more than one gzip member. As in Kafka's Java client, the decoder ignores reserved flags. If the
//! bytes after a member are not another member, the decoder ignores these bytes. The decoder decompresses each member
//! in one call, directly into the output. If the data is damaged, the decoder reads it again in pieces, to recover the
//! bytes before the damage.

use super::bounded::{Fault, read_bounded, reserve};
use flate2::bufread::GzDecoder;
use flate2::{Compress, Compression, Crc, FlushCompress, Status};
use std::cell::Cell;
use std::io::{Chain, ErrorKind, Read};

const MAGIC: [u8; 2] = [0x1f, 0x8b];
/// The size of a member's header without a name, together with the trailing checksum and size.
const SMALLEST: usize = 18;
/// The reserved flags of a member's header.
const RESERVED: u8 = 0b1110_0000;
/// A member contains its decompressed size. The decoder allocates memory for this size, but at most this many times the
/// compressed size.
const USUAL_RATIO: usize = 16;

/// The header of a member without a name and a time. The last byte means that the operating system is unknown.
const HEADER: [u8; 10] = [MAGIC[0], MAGIC[1], 8, 0, 0, 0, 0, 0, 0, 255];
/// The output space that a call of the compressor has at least, in bytes.
const SPACE: usize = 1 << 10;

thread_local! {
    /// The compressor that [`super::compress`] reuses in this thread, with its level.
    pub(super) static KEPT: Cell<Option<(Compression, Compress)>> = const { Cell::new(None) };
}

pub fn compress(data: &[u8], level: Option<i32>, out: &mut Vec<u8>) -> Result<(), String> {
    // -1 is the default in Kafka as in zlib.
    let level = level.and_then(|level| u32::try_from(level).ok()).map_or_else(Compression::default, Compression::new);
    let kept = KEPT.take().filter(|(kept_level, _)| *kept_level == level);
    let (_, mut compressor) = kept.unwrap_or_else(|| (level, Compress::new(level, false)));
    out.extend_from_slice(&HEADER);
    let mut rest = data;
    loop {
        out.reserve(SPACE);
        let read = compressor.total_in();
        let status = compressor.compress_vec(rest, out, FlushCompress::Finish).map_err(|e| e.to_string())?;
        rest = usize::try_from(compressor.total_in() - read).ok().and_then(|n| rest.get(n..)).unwrap_or_default();
        if status == Status::StreamEnd {
            break;
        }
    }
    compressor.reset();
    KEPT.set(Some((level, compressor)));
    let mut crc = Crc::new();
    crc.update(data);
    out.extend_from_slice(&crc.sum().to_le_bytes());
    out.extend_from_slice(&crc.amount().to_le_bytes());
    Ok(())
}

pub fn decompress(mut data: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<(), Fault> {
    let start = out.len();
    if whole(data, limit, out)?.is_some() {
        // What the last member says of its size may be a lie.
        out.shrink_to_fit();
        return Ok(());
    }
    out.truncate(start);
    out.shrink_to_fit();
    loop {
        let mut start = [0; 4];
        let mut member = open(data, &mut start);
        read_bounded(&mut member, out, limit)?;
        (_, data) = member.into_inner().into_inner();
        if !is_member(data) {
            return Ok(());
        }
    }
}

pub fn check_start(data: &[u8]) -> Result<(), String> {
    let mut start = [0; 4];
    open(data, &mut start).header().map(drop).ok_or_else(|| "not a gzip header".to_owned())
}

/// Returns a decoder for the member at the start of `data`. `start` receives the first bytes of the member without the
/// reserved flags, which flate2 would reject.
fn open<'s, 'd>(data: &'d [u8], start: &'s mut [u8; 4]) -> GzDecoder<Chain<&'s [u8], &'d [u8]>> {
    let Some((first, rest)) = data.split_first_chunk() else { return GzDecoder::new([].chain(data)) };
    *start = *first;
    let [.., flags] = start;
    *flags &= !RESERVED;
    GzDecoder::new(start.chain(rest))
}

/// Returns whether `data` is another member, so that the Java client would continue to read.
fn is_member(data: &[u8]) -> bool {
    data.len() > SMALLEST && data.starts_with(&MAGIC) && check_start(data).is_ok()
}

/// Decompresses the intact data, within the limit. Uses as few calls as possible, because the decoder copies its window
/// in each call.
fn whole(mut data: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<Option<()>, Fault> {
    let size = data.last_chunk().map_or(0, |size| u32::from_le_bytes(*size) as usize);
    reserve(out, size.min(data.len().saturating_mul(USUAL_RATIO)).min(limit.saturating_sub(out.len())))?;
    loop {
        let mut start = [0; 4];
        let member = open(data, &mut start);
        // One byte more than allowed tells "exactly at the limit" from "beyond it".
        let Some(left) = limit.checked_sub(out.len()) else { return Ok(None) };
        let mut member = member.take((left as u64).saturating_add(1));
        match member.read_to_end(out) {
            Err(e) if e.kind() == ErrorKind::OutOfMemory => return Err(Fault::OutOfMemory(2 * out.len())),
            Ok(_) if out.len() <= limit => {}
            _ => return Ok(None),
        }
        (_, data) = member.into_inner().into_inner().into_inner();
        if !is_member(data) {
            return Ok(Some(()));
        }
    }
}
