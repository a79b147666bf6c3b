//! Snappy blocks through snap, in the stream framing of the xerial library, which is what Kafka's Java clients
//! write: 8 bytes of magic, version and lowest compatible version as int32, then blocks with an int32 length each.
//! A bare block without framing is read too.

use super::too_large;
use snap::raw::{Decoder, Encoder, decompress_len, max_compress_len};

const MAGIC: [u8; 8] = [0x82, b'S', b'N', b'A', b'P', b'P', b'Y', 0];
const VERSION: [u8; 8] = [0, 0, 0, 1, 0, 0, 0, 1];
/// Input bytes in a block, as the xerial library's default.
const BLOCK: usize = 32 << 10;

pub fn compress(data: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&VERSION);
    let mut encoder = Encoder::new();
    for block in data.chunks(BLOCK) {
        let start = out.len();
        out.resize(start + 4 + max_compress_len(block.len()), 0);
        let (length, body) = out[start..].split_at_mut(4);
        let n = encoder.compress(block, body).map_err(|e| e.to_string())?;
        length.copy_from_slice(&(n as u32).to_be_bytes());
        out.truncate(start + 4 + n);
    }
    Ok(())
}

pub fn decompress(data: &[u8], limit: usize) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    let Some(framed) = data.strip_prefix(&MAGIC) else {
        block(data, &mut out, limit)?;
        return Ok(out);
    };
    let Some(mut rest) = framed.get(VERSION.len()..) else { return Err("stream header is cut off".to_owned()) };
    while !rest.is_empty() {
        // Streams may follow each other.
        if let Some(next) = rest.strip_prefix(&MAGIC) {
            rest = next.get(VERSION.len()..).ok_or("stream header is cut off")?;
            continue;
        }
        let (length, after) = rest.split_first_chunk::<4>().ok_or("block length is cut off")?;
        let length = u32::from_be_bytes(*length) as usize;
        if length > after.len() {
            return Err(format!("block of {length} bytes exceeds the {} left", after.len()));
        }
        let (body, after) = after.split_at(length);
        block(body, &mut out, limit)?;
        rest = after;
    }
    Ok(out)
}

fn block(data: &[u8], out: &mut Vec<u8>, limit: usize) -> Result<(), String> {
    let length = decompress_len(data).map_err(|e| e.to_string())?;
    // A block that claims more than 64 times its size is a lie: a copy of 64 bytes takes 2.
    if length > data.len().saturating_mul(64) || length > limit.saturating_sub(out.len()) {
        return Err(too_large(limit));
    }
    let start = out.len();
    out.resize(start + length, 0);
    let n = Decoder::new().decompress(data, &mut out[start..]).map_err(|e| e.to_string())?;
    out.truncate(start + n);
    Ok(())
}
