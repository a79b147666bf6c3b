//! LZ4: blocks through lz4_flex, the frame around them read here, because what Kafka's Java client takes is not what
//! the frame format's specification says: one frame of independent blocks, version 1, no dictionary; the content
//! checksum is not verified, and what follows the frame is ignored. Frames are written by lz4_flex, as the Java
//! client writes them: independent blocks of 64 KiB, no checksums but the header's. That one is wrong in magic 0, where
//! the Java client computed it over the frame's magic number too (KIP-57).

use super::too_large;
use lz4_flex::block::{DecompressError, decompress_into};
use lz4_flex::frame::{BlockMode, BlockSize, FrameEncoder, FrameInfo};
use std::io::Write;
use twox_hash::XxHash32;

const MAGIC: [u8; 4] = 0x184d_2204_u32.to_le_bytes();

/// Flags of the frame: the version in the two highest bits, then independent blocks, block checksums, content size,
/// content checksum, a reserved bit, a dictionary.
const VERSION: u8 = 0b1100_0000;
const VERSION_1: u8 = 0b0100_0000;
const INDEPENDENT: u8 = 1 << 5;
const BLOCK_CHECKSUMS: u8 = 1 << 4;
const CONTENT_SIZE: u8 = 1 << 3;
const CONTENT_CHECKSUM: u8 = 1 << 2;
const REFUSED: u8 = 0b11;

/// Bit of a block's length that says its bytes are stored as they are.
const STORED: u32 = 1 << 31;

pub fn compress(data: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
    let info = FrameInfo::new().block_size(BlockSize::Max64KB).block_mode(BlockMode::Independent);
    let mut encoder = FrameEncoder::with_frame_info(info, out);
    encoder.write_all(data).map_err(|e| e.to_string())?;
    encoder.finish().map(drop).map_err(|e| e.to_string())
}

/// Gives a frame of ours the header checksum of magic 0.
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

/// Reads one frame; its header checksum is looked at if `checked`.
pub fn decompress(mut data: &[u8], checked: bool, limit: usize, out: &mut Vec<u8>) -> Result<(), String> {
    let (flags, block_size) = frame_header(&mut data, checked)?;
    loop {
        let length = word(&mut data)?;
        if length == 0 {
            if flags & CONTENT_CHECKSUM != 0 {
                word(&mut data)?;
            }
            return Ok(());
        }
        let length_of_block = (length & !STORED) as usize;
        if length_of_block > block_size {
            return Err(format!("block of {length_of_block} bytes in a frame of blocks up to {block_size}"));
        }
        let block = bytes(&mut data, length_of_block)?;
        if flags & BLOCK_CHECKSUMS != 0 && word(&mut data)? != XxHash32::oneshot(0, block) {
            return Err("block checksum does not match the data".to_owned());
        }
        let room = block_size.min(limit.saturating_sub(out.len()));
        if length & STORED == 0 {
            append_decompressed(block, room, out).map_err(|e| match e {
                DecompressError::OutputTooSmall { .. } if room < block_size => too_large(limit),
                e => e.to_string(),
            })?;
        } else if block.len() > room {
            return Err(too_large(limit));
        } else {
            out.extend_from_slice(block);
        }
    }
}

fn append_decompressed(block: &[u8], room: usize, out: &mut Vec<u8>) -> Result<(), DecompressError> {
    let start = out.len();
    // A byte of a block stands for 255 at most, so that a small one does not get room for four megabytes.
    out.resize(start + room.min(block.len().saturating_mul(255)), 0);
    let written = decompress_into(block, out.get_mut(start..).unwrap_or_default());
    out.truncate(start + written.as_ref().copied().unwrap_or(0));
    written.map(drop)
}

/// The flags and the size of the largest block.
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
    if flags & REFUSED != 0 {
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
