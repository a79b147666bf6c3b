//! Zstandard through the reference library. Frames may follow each other and skippable ones are skipped; no bytes at
//! all read as no records.

use super::read_bounded;
use zstd::stream::read::Decoder;

pub fn compress(data: &[u8], level: Option<i32>, out: &mut Vec<u8>) -> Result<(), String> {
    let level = level.unwrap_or(zstd::DEFAULT_COMPRESSION_LEVEL);
    zstd::stream::copy_encode(data, out, level).map_err(|e| e.to_string())
}

pub fn decompress(data: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<(), String> {
    let decoder = Decoder::with_buffer(data).map_err(|e| e.to_string())?;
    read_bounded(decoder, out, limit)
}
