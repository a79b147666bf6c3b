//! Compresses and decompresses LZ4: the crate lz4_flex handles the blocks, and this file handles the frame around them.
//!
//! Like Kafka's Java client, the decoder supports only a part of the frame format: one frame, independent blocks,
//! version 1, no dictionary. The decoder does not verify the content checksum, and it ignores bytes after the frame.
//! The Java client decodes blocks with the reference library. This file therefore decodes a block according to the
//! rules of the reference library if lz4_flex rejects the block, or if the block does not end in literals.
//!
//! The encoder writes frames as the Java client does: independent blocks of 64 KiB, and no checksum except the header
//! checksum. In messages of magic 0, the Java client wrongly includes the frame's magic number in the header checksum
//! (KIP-57), and klamm writes the same checksum.

use super::bounded::{Fault, append, append_zeros, reserve, too_large};
use lz4_flex::block::{DecompressError, decompress_into};
use lz4_flex::frame::{BlockMode, BlockSize, FrameEncoder, FrameInfo};
use std::cell::Cell;
use std::io::Write;
use twox_hash::XxHash32;

const MAGIC: [u8; 4] = 0x184d_2204_u32.to_le_bytes();

/// The flags of the frame, from the highest bit: version (two bits), independent blocks, block checksums, content size,
/// content checksum, a reserved bit, dictionary.
const VERSION: u8 = 0b1100_0000;
const VERSION_1: u8 = 0b0100_0000;
const INDEPENDENT: u8 = 1 << 5;
const BLOCK_CHECKSUMS: u8 = 1 << 4;
const CONTENT_SIZE: u8 = 1 << 3;
const CONTENT_CHECKSUM: u8 = 1 << 2;
const UNSUPPORTED_FLAGS: u8 = 0b11;

/// The bit in the length of a block that is stored without compression.
const STORED: u32 = 1 << 31;

thread_local! {
    /// The encoder that [`super::compress`] reuses in this thread.
    pub(super) static KEPT: Cell<Option<FrameEncoder<Vec<u8>>>> = const { Cell::new(None) };
}

pub fn compress(data: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
    // An encoder that has written a frame writes no header for empty data.
    let mut encoder = KEPT.take().filter(|_| !data.is_empty()).unwrap_or_else(|| {
        let info = FrameInfo::new().block_size(BlockSize::Max64KB).block_mode(BlockMode::Independent);
        FrameEncoder::with_frame_info(info, Vec::new())
    });
    *encoder.get_mut() = std::mem::take(out);
    let written = encoder.write_all(data).map_err(|e| e.to_string());
    let finished = written.and_then(|()| encoder.try_finish().map_err(|e| e.to_string()));
    *out = std::mem::take(encoder.get_mut());
    if finished.is_ok() {
        KEPT.set(Some(encoder));
    }
    finished
}

/// Replaces the header checksum of a frame that klamm wrote by the wrong checksum that magic 0 requires.
pub fn break_checksum(frame: &mut [u8]) {
    // Magic number, flags, sizes, checksum.
    if let Some((header, [checksum, ..])) = frame.split_at_mut_checked(MAGIC.len() + 2) {
        *checksum = checksum_of(header);
    }
}

fn checksum_of(header: &[u8]) -> u8 {
    let [_, _, checksum, _] = XxHash32::oneshot(0, header).to_be_bytes();
    checksum
}

pub fn check_start(mut data: &[u8]) -> Result<(), String> {
    frame_header(&mut data, true).map(drop)
}

/// Decompresses one frame. Verifies the header checksum if `checked` is true.
pub fn decompress(mut data: &[u8], checked: bool, limit: usize, out: &mut Vec<u8>) -> Result<(), Fault> {
    let (flags, block_size) = frame_header(&mut data, checked)?;
    loop {
        let length = word(&mut data)?;
        if length & !STORED == 0 {
            if flags & CONTENT_CHECKSUM != 0 {
                word(&mut data)?;
            }
            return Ok(());
        }
        let length_of_block = (length & !STORED) as usize;
        if length_of_block > block_size {
            return Err(format!("block of {length_of_block} bytes in a frame of blocks up to {block_size}").into());
        }
        let block = bytes(&mut data, length_of_block)?;
        if flags & BLOCK_CHECKSUMS != 0 && word(&mut data)? != XxHash32::oneshot(0, block) {
            return Err("block checksum does not match the data".into());
        }
        let max_output = block_size.min(limit.saturating_sub(out.len()));
        if length & STORED == 0 {
            let start = out.len();
            let error = match append_decompressed(block, max_output, out)? {
                Ok(()) if ends_in_literals(block, out.get(start..).unwrap_or_default()) => continue,
                Ok(()) => "block does not end in literals".to_owned(),
                Err(DecompressError::OutputTooSmall { .. }) if max_output < block_size => return Err(too_large(limit)),
                Err(e) => e.to_string(),
            };
            out.truncate(start);
            if append_as_reference(block, block_size, limit, out)?.is_none() {
                out.truncate(start);
                return Err(error.into());
            }
        } else if block.len() > max_output {
            return Err(too_large(limit));
        } else {
            append(out, block)?;
        }
    }
}

fn append_decompressed(
    block: &[u8],
    max_output: usize,
    out: &mut Vec<u8>,
) -> Result<Result<(), DecompressError>, Fault> {
    let start = out.len();
    // A byte of a block stands for 255 at most, so that a small one does not get room for four megabytes.
    append_zeros(out, max_output.min(block.len().saturating_mul(255)))?;
    let written = decompress_into(block, out.get_mut(start..).unwrap_or_default());
    out.truncate(start + written.as_ref().copied().unwrap_or(0));
    Ok(written.map(drop))
}

/// Returns whether the last five bytes of the block are literals, as in the output of every encoder.
fn ends_in_literals(block: &[u8], decompressed: &[u8]) -> bool {
    block.ends_with(decompressed.last_chunk::<LAST_LITERALS>().map_or(decompressed, |last| last))
}

/// Decompresses a block by the rules of the reference library. Returns `None` if that library rejects the block. The
/// library reads a match with offset 0 as zeros. The library makes some checks of the end of a block only near the end
/// of the input or of the output.
fn append_as_reference(
    mut block: &[u8],
    block_size: usize,
    limit: usize,
    out: &mut Vec<u8>,
) -> Result<Option<()>, Fault> {
    let start = out.len();
    let max_output = limit.saturating_sub(start);
    loop {
        let Some((&token, rest)) = block.split_first() else { return Ok(None) };
        block = rest;
        let written = out.len() - start;
        let is_far_from_the_end = token >> 4 < LONG && block.len() > 16 && written + 32 <= block_size;
        let Some(literals) = length_of(token >> 4, &mut block) else { return Ok(None) };
        let is_last = !is_far_from_the_end && (written + literals + 12 > block_size || literals + 8 > block.len());
        if is_last && (literals != block.len() || written + literals > block_size) {
            return Ok(None);
        }
        let Some((bytes, rest)) = block.split_at_checked(literals) else { return Ok(None) };
        if written + literals > max_output {
            return Err(too_large(limit));
        }
        append(out, bytes)?;
        if is_last {
            return Ok(Some(()));
        }
        let Some((&offset, rest)) = rest.split_first_chunk() else { return Ok(None) };
        block = rest;
        let Some(length) = length_of(token & 15, &mut block).map(|length| length + 4) else { return Ok(None) };
        let offset = usize::from(u16::from_le_bytes(offset));
        let (written, end) = (out.len() - start, out.len() - start + length);
        if token & 15 == LONG && block.len() < LAST_LITERALS || offset > written || end + LAST_LITERALS > block_size {
            return Ok(None);
        }
        if end > max_output {
            return Err(too_large(limit));
        }
        if offset == 0 {
            append_zeros(out, length)?;
        }
        reserve(out, start + end - out.len())?;
        // What is copied may be what the copy has just made.
        while out.len() - start < end {
            let from = out.len() - offset;
            out.extend_from_within(from..(from + end - (out.len() - start)).min(out.len()));
        }
    }
}

/// The length in a token if more length bytes follow.
const LONG: u8 = 15;
const LAST_LITERALS: usize = 5;

fn length_of(short: u8, block: &mut &[u8]) -> Option<usize> {
    let mut length = usize::from(short);
    let mut last_byte = if short == LONG { u8::MAX } else { 0 };
    while last_byte == u8::MAX {
        let (&byte, rest) = block.split_first()?;
        (last_byte, *block) = (byte, rest);
        length += usize::from(byte);
    }
    Some(length)
}

/// Reads the header of a frame. Returns the flags and the maximum size of a block.
fn frame_header(data: &mut &[u8], checked: bool) -> Result<(u8, usize), String> {
    if bytes(data, MAGIC.len())? != MAGIC {
        return Err("not an LZ4 frame".to_owned());
    }
    let header = *data;
    let (&[flags, sizes], rest) = data.split_first_chunk().ok_or_else(cut_off)?;
    *data = rest;
    if flags & VERSION != VERSION_1 {
        return Err(format!("frame version {} is not 1", flags >> 6));
    }
    if flags & UNSUPPORTED_FLAGS != 0 {
        return Err("dictionaries are not supported".to_owned());
    }
    if flags & INDEPENDENT == 0 {
        return Err("blocks that depend on one another are not supported".to_owned());
    }
    let block_size = match sizes {
        0x40 => 64 << 10,
        0x50 => 256 << 10,
        0x60 => 1 << 20,
        0x70 => 4 << 20,
        _ => return Err(format!("no such block size: {sizes:#04x}")),
    };
    if flags & CONTENT_SIZE != 0 {
        bytes(data, 8)?;
    }
    let described = header.get(..header.len() - data.len()).unwrap_or_default();
    if bytes(data, 1)? != [checksum_of(described)] && checked {
        return Err("frame header checksum does not match".to_owned());
    }
    Ok((flags, block_size))
}

fn word(data: &mut &[u8]) -> Result<u32, String> {
    let (word, rest) = data.split_first_chunk().ok_or_else(cut_off)?;
    *data = rest;
    Ok(u32::from_le_bytes(*word))
}

fn bytes<'a>(data: &mut &'a [u8], n: usize) -> Result<&'a [u8], String> {
    let (bytes, rest) = data.split_at_checked(n).ok_or_else(cut_off)?;
    *data = rest;
    Ok(bytes)
}

#[cold]
fn cut_off() -> String {
    "frame is cut off".to_owned()
}
