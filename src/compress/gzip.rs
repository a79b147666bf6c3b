//! gzip through flate2 on zlib-rs. Members follow each other; what follows the last one is ignored, as Java does.

use super::read_bounded;
use flate2::Compression;
use flate2::bufread::GzDecoder;
use flate2::write::GzEncoder;
use std::io::Write;

const MAGIC: [u8; 2] = [0x1f, 0x8b];

pub fn compress(data: &[u8], level: Option<i32>, out: &mut Vec<u8>) -> Result<(), String> {
    // -1 is the default in Kafka as in zlib.
    let level = level.and_then(|level| u32::try_from(level).ok()).map_or_else(Compression::default, Compression::new);
    let mut encoder = GzEncoder::new(out, level);
    encoder.write_all(data).and_then(|()| encoder.finish().map(drop)).map_err(|e| e.to_string())
}

pub fn decompress(mut data: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<(), String> {
    loop {
        let mut member = GzDecoder::new(data);
        read_bounded(&mut member, out, limit)?;
        data = member.into_inner();
        if !data.starts_with(&MAGIC) {
            return Ok(());
        }
    }
}
