//! Compresses and decompresses Snappy with the crate snap, which handles the blocks. This file handles the stream
//! around the blocks, in the format of the xerial library that Kafka's Java clients use.
//!
//! A stream starts with 8 magic bytes and two int32 numbers: the version of the format, and the lowest version that a
//! reader needs. After these numbers come the blocks, each preceded by its length as an int32. The decoder also accepts
//! a single block that is not in a stream.

use super::bounded::{Fault, append_zeros, too_large};
use snap::raw::{Decoder, Encoder, decompress_len, max_compress_len};
use std::cell::Cell;

const MAGIC: [u8; 8] = [0x82, b'S', b'N', b'A', b'P', b'P', b'Y', 0];
const VERSION: [u8; 8] = [0, 0, 0, 1, 0, 0, 0, 1];
/// The input size of a block, in bytes. The value is the default of the xerial library.
const BLOCK: usize = 32 << 10;
/// The size of the pieces in which Kafka's Java client reads a stream, regardless of blocks. If a piece is damaged,
/// that client drops the whole piece.
const PIECE: usize = 2 << 10;

thread_local! {
    /// The encoder and its buffer for one block, which [`super::compress`] reuses in this thread.
    pub(super) static KEPT: Cell<Option<(Encoder, Vec<u8>)>> = const { Cell::new(None) };
}

pub fn compress(data: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&VERSION);
    let (mut encoder, mut packed) = KEPT.take().unwrap_or_else(|| (Encoder::new(), vec![0; max_compress_len(BLOCK)]));
    for block in data.chunks(BLOCK) {
        let n = encoder.compress(block, &mut packed).map_err(|e| e.to_string())?;
        let length = u32::try_from(n).map_err(|e| e.to_string())?;
        out.extend_from_slice(&length.to_be_bytes());
        out.extend_from_slice(packed.get(..n).unwrap_or_default());
    }
    KEPT.set(Some((encoder, packed)));
    Ok(())
}

pub fn decompress(data: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<(), Fault> {
    let start = out.len();
    let result = stream(data, limit, out);
    if result.is_err() {
        let good = out.len().saturating_sub(start) / PIECE * PIECE;
        out.truncate(start + good);
    }
    result
}

pub fn check_start(data: &[u8], limit: usize) -> Result<(), Fault> {
    match data.strip_prefix(&MAGIC) {
        Some(framed) if framed.len() < VERSION.len() => Err("stream header is cut off".into()),
        Some(_) => Ok(()),
        None if data.is_empty() => Ok(()),
        None => block(data, &mut Vec::new(), limit),
    }
}

fn stream(data: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<(), Fault> {
    let Some(framed) = data.strip_prefix(&MAGIC) else {
        return block(data, out, limit);
    };
    let Some(mut rest) = framed.get(VERSION.len()..) else {
        return Err("stream header is cut off".into());
    };
    // Fewer bytes than a length has are the end, as in the xerial library.
    while let Some((length, after)) = rest.split_first_chunk() {
        // Streams may follow each other.
        if let Some(next) = rest.strip_prefix(&MAGIC) {
            rest = next.get(VERSION.len()..).ok_or("stream header is cut off")?;
            continue;
        }
        let length = u32::from_be_bytes(*length) as usize;
        if length > after.len() {
            return Err(format!("block of {length} bytes exceeds the {} left", after.len()).into());
        }
        let (body, after) = after.split_at(length);
        block(body, out, limit)?;
        rest = after;
    }
    Ok(())
}

fn block(data: &[u8], out: &mut Vec<u8>, limit: usize) -> Result<(), Fault> {
    let length = decompress_len(data).map_err(|e| e.to_string())?;
    // A copy of 64 bytes, the most that an element gives, takes three.
    if length > data.len().saturating_mul(64) / 3 {
        return Err(format!("block of {} bytes cannot hold {length}", data.len()).into());
    }
    if length > limit.saturating_sub(out.len()) {
        return Err(too_large(limit));
    }
    let start = out.len();
    append_zeros(out, length)?;
    let written = Decoder::new().decompress(data, out.get_mut(start..).unwrap_or_default());
    out.truncate(start + written.as_ref().copied().unwrap_or(0));
    written.map(drop).map_err(|e| e.to_string().into())
}
