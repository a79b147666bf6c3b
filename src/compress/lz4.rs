//! LZ4 frames through lz4_flex: independent blocks of 64 KiB, as the Java client writes them. What follows the frame
//! is ignored, as Java does.

use super::read_bounded;
use lz4_flex::frame::{BlockMode, BlockSize, FrameDecoder, FrameEncoder, FrameInfo};
use std::io::{BufReader, Write};

/// Flag of a frame that ends in a checksum of its contents.
const CONTENT_CHECKSUM: u8 = 1 << 2;

pub fn compress(data: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
    let info = FrameInfo::new().block_size(BlockSize::Max64KB).block_mode(BlockMode::Independent);
    let mut encoder = FrameEncoder::with_frame_info(info, out);
    encoder.write_all(data).map_err(|e| e.to_string())?;
    encoder.finish().map(drop).map_err(|e| e.to_string())
}

pub fn decompress(data: &[u8], limit: usize) -> Result<Vec<u8>, String> {
    // lz4_flex takes the end of input for the end of the frame, also before the first byte and between two blocks.
    let Some(&flags) = data.get(4).filter(|_| data.len() >= 7) else {
        return Err("frame header is cut off".to_owned());
    };
    let checksum = if flags & CONTENT_CHECKSUM == 0 { 0 } else { 4 };
    let mut out = Vec::new();
    let mut decoder = FrameDecoder::new(BufReader::new(data));
    read_bounded(&mut decoder, &mut out, limit)?;
    let end = data.len() - decoder.get_ref().buffer().len() - decoder.get_ref().get_ref().len() - checksum;
    match data.get(end.saturating_sub(4)..end) {
        Some([0, 0, 0, 0]) => Ok(out),
        _ => Err("frame has no end mark".to_owned()),
    }
}
