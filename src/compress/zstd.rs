//! Compresses and decompresses Zstandard, with the reference library.
//!
//! The input may have more than one frame, and the decoder ignores skippable frames. Empty input decompresses to empty
//! output. The decoder decompresses each frame in one call, directly into the output. The streaming API would first
//! allocate the window size of the frame, which can be 128 MiB for a frame of a few bytes. If the data is damaged, the
//! decoder reads it again as a stream, to recover the bytes before the damage.

use super::bounded::{Fault, append, read_bounded, reserve};
use std::cell::Cell;
use std::io::Read;
use zstd::bulk::{Compressor, Decompressor};
use zstd::stream::read::Decoder;

const MAGIC: u32 = 0xfd2f_b528;
/// The magic numbers of skippable frames, without their lowest four bits.
const SKIPPABLE: u32 = 0x184d_2a50;
/// The maximum output of one block, in bytes.
const MAX_BLOCK: usize = 1 << WINDOW_OF_MAX_BLOCK;
const WINDOW_OF_MAX_BLOCK: u8 = 17;
/// The largest window for a damaged stream, as a power of two. The value is the window of level 19.
const DAMAGED_WINDOW: u8 = 23;
/// The header byte for a window of 128 MiB, which is the largest window that the library accepts by default.
const WIDEST: u8 = (27 - 10) << 3;
/// The flag of a frame without a window size of its own.
const SINGLE_SEGMENT: u8 = 1 << 5;

thread_local! {
    /// The compressor that [`super::compress`] reuses in this thread, with its level.
    pub(super) static KEPT: Cell<Option<(i32, Compressor<'static>)>> = const { Cell::new(None) };
}

pub fn compress(data: &[u8], level: Option<i32>, out: &mut Vec<u8>) -> Result<(), String> {
    let level = level.unwrap_or(zstd::DEFAULT_COMPRESSION_LEVEL);
    let mut compressor = match KEPT.take() {
        Some((kept_level, kept)) if kept_level == level => kept,
        _ => Compressor::new(level).map_err(|e| e.to_string())?,
    };
    let packed = compressor.compress(data).map_err(|e| e.to_string())?;
    KEPT.set(Some((level, compressor)));
    out.extend_from_slice(&packed);
    Ok(())
}

pub fn decompress(data: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<(), Fault> {
    let max_output = limit.saturating_sub(out.len());
    let mut output = Vec::new();
    let is_whole = match bound(data) {
        Some(bound) => {
            reserve(&mut output, bound.min(max_output))?;
            Decompressor::new().and_then(|mut d| d.decompress_to_buffer(data, &mut output)).is_ok()
        }
        None => false,
    };
    if !is_whole {
        drop(output);
        let [start, window, rest] = narrowed(data);
        let limit = if window.is_empty() { limit } else { limit.min(out.len() + (1 << DAMAGED_WINDOW)) };
        let decoder = Decoder::with_buffer(start.chain(window).chain(rest));
        let mut decoder = decoder.map_err(|e| e.to_string())?;
        decoder.window_log_max(DAMAGED_WINDOW.into()).map_err(|e| e.to_string())?;
        return read_bounded(decoder, out, limit);
    }
    if out.is_empty() {
        output.shrink_to_fit();
        *out = output;
    } else {
        append(out, &output)?;
    }
    Ok(())
}

/// Returns the data in three parts, with the window of the first frame lowered to the limit for damaged data. The
/// output is the same as long as no reference exceeds that window. Does not change windows that the library rejects by
/// default.
fn narrowed(data: &[u8]) -> [&[u8]; 3] {
    const NARROW: u8 = (DAMAGED_WINDOW - 10) << 3;
    match data {
        [_, _, _, _, flags, NARROW..=WIDEST, rest @ ..] if flags & SINGLE_SEGMENT == 0 => {
            [data.split_at(5).0, &[NARROW], rest]
        }
        _ => [data, &[], &[]],
    }
}

/// Returns the maximum output of whole frames, computed from the sizes of their blocks. Returns `None` if the data is
/// not a sequence of frames.
fn bound(mut data: &[u8]) -> Option<usize> {
    let mut total = 0usize;
    while !data.is_empty() {
        let magic = u32::from_le_bytes(take(&mut data)?);
        if magic & !15 == SKIPPABLE {
            let length = u32::from_le_bytes(take(&mut data)?) as usize;
            data = data.get(length..)?;
            continue;
        }
        if magic != MAGIC {
            return None;
        }
        let [flags] = take(&mut data)?;
        // Window, dictionary and content size, whose widths the flags give.
        let single = u8::from(flags & SINGLE_SEGMENT != 0);
        let window = 1 - single;
        let dictionary = 1u8 << (flags & 3) >> 1;
        let content = if flags >> 6 == 0 { single } else { 1 << (flags >> 6) };
        // The library minds a window that is too wide, or a block that is larger than it, only in a stream, as Java has
        // it.
        let mut max_block = MAX_BLOCK;
        if let Some(&described) = data.first().filter(|_| single == 0) {
            if content == 0 && described > WIDEST {
                return None;
            }
            let power = 1usize << (10 + (described >> 3)).min(WINDOW_OF_MAX_BLOCK);
            max_block = MAX_BLOCK.min(power + power / 8 * usize::from(described & 7));
        }
        data = data.get(usize::from(window + dictionary + content)..)?;
        loop {
            let [a, b, c] = take(&mut data)?;
            let header = u32::from_le_bytes([a, b, c, 0]);
            let size = (header >> 3) as usize;
            // Bytes as they are, one byte repeated, compressed ones.
            let (takes, makes) = match header >> 1 & 3 {
                0 => (size, size),
                1 => (1, size),
                _ => (size, max_block),
            };
            data = data.get(takes..)?;
            total = total.saturating_add(makes.min(max_block));
            if header & 1 == 1 {
                break;
            }
        }
        if flags & 4 != 0 {
            take::<4>(&mut data)?;
        }
    }
    Some(total)
}

fn take<const N: usize>(data: &mut &[u8]) -> Option<[u8; N]> {
    let (bytes, rest) = data.split_first_chunk()?;
    *data = rest;
    Some(*bytes)
}
