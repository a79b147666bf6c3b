//! gzip through flate2 on zlib-rs. Members follow each other; what follows the last one is ignored, as Java does.
//!
//! Members are decompressed in one go to where their bytes stay. Only what turns out to be damaged is read again in pieces,
//! for what comes before the damage.

use super::read_bounded;
use flate2::Compression;
use flate2::bufread::GzDecoder;
use flate2::write::GzEncoder;
use std::io::{Read, Write};

const MAGIC: [u8; 2] = [0x1f, 0x8b];
/// Bytes out of one that is in, up to which a size is believed before it is true.
const USUAL_RATIO: usize = 16;

pub fn compress(data: &[u8], level: Option<i32>, out: &mut Vec<u8>) -> Result<(), String> {
    // -1 is the default in Kafka as in zlib.
    let level = level.and_then(|level| u32::try_from(level).ok()).map_or_else(Compression::default, Compression::new);
    let mut encoder = GzEncoder::new(out, level);
    encoder.write_all(data).and_then(|()| encoder.finish().map(drop)).map_err(|e| e.to_string())
}

pub fn decompress(mut data: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<(), String> {
    let start = out.len();
    if whole(data, limit, out).is_some() {
        // What the last member says of its size may be a lie.
        out.shrink_to_fit();
        return Ok(());
    }
    out.truncate(start);
    out.shrink_to_fit();
    loop {
        let mut member = GzDecoder::new(data);
        read_bounded(&mut member, out, limit)?;
        data = member.into_inner();
        if !data.starts_with(&MAGIC) {
            return Ok(());
        }
    }
}

pub fn check_start(data: &[u8]) -> Result<(), String> {
    GzDecoder::new(data).header().map(drop).ok_or_else(|| "not a gzip header".to_owned())
}

/// Decompresses what is whole and within the limit, in as few pieces as can be: the decoder copies its window once a piece.
fn whole(mut data: &[u8], limit: usize, out: &mut Vec<u8>) -> Option<()> {
    let size = data.last_chunk().map_or(0, |size| u32::from_le_bytes(*size) as usize);
    out.reserve(size.min(data.len().saturating_mul(USUAL_RATIO)).min(limit.saturating_sub(out.len())));
    loop {
        let member = GzDecoder::new(data);
        // One byte more than allowed tells "exactly at the limit" from "beyond it".
        let mut member = member.take((limit.checked_sub(out.len())? as u64).saturating_add(1));
        member.read_to_end(out).ok().filter(|_| out.len() <= limit)?;
        data = member.into_inner().into_inner();
        if !data.starts_with(&MAGIC) {
            return Some(());
        }
    }
}
