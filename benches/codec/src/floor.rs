//! The minimum work that every codec must do, and direct calls of the compression libraries, as references for the
//! benches.

use bytes::Bytes;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use klamm::compress::Compression;
use lz4_flex::frame::{BlockMode, BlockSize, FrameDecoder, FrameEncoder, FrameInfo};
use std::io::{Read, Write};

/// Copies a batch and computes its checksum.
pub fn copy_and_checksum(data: &Bytes) -> (Vec<u8>, u32) {
    let copy = data.to_vec();
    let crc = klamm::record::crc32c(&copy[21..]);
    (copy, crc)
}

/// Compresses with the library, with klamm's settings. Returns `None` for no compression.
pub fn compress(compression: Compression, data: &[u8]) -> Option<Vec<u8>> {
    let room = Vec::with_capacity(data.len() / 2);
    Some(match compression {
        Compression::None => return None,
        Compression::Gzip => {
            let mut encoder = GzEncoder::new(room, flate2::Compression::default());
            encoder.write_all(data).expect("memory");
            encoder.finish().expect("memory")
        }
        Compression::Snappy => snap::raw::Encoder::new().compress_vec(data).expect("less than 4 GiB"),
        Compression::Lz4 => {
            let info = FrameInfo::new().block_size(BlockSize::Max64KB).block_mode(BlockMode::Independent);
            let mut encoder = FrameEncoder::with_frame_info(info, room);
            encoder.write_all(data).expect("memory");
            encoder.finish().expect("memory")
        }
        Compression::Zstd => zstd::bulk::compress(data, zstd::DEFAULT_COMPRESSION_LEVEL).expect("memory"),
    })
}

/// Decompresses with the library, which gets the size of the output; klamm does not know it.
pub fn decompress(compression: Compression, packed: &[u8], size: usize) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(size);
    Some(match compression {
        Compression::None => return None,
        Compression::Gzip => {
            GzDecoder::new(packed).read_to_end(&mut out).expect("written above");
            out
        }
        Compression::Snappy => snap::raw::Decoder::new().decompress_vec(packed).expect("written above"),
        Compression::Lz4 => {
            FrameDecoder::new(packed).read_to_end(&mut out).expect("written above");
            out
        }
        Compression::Zstd => zstd::bulk::decompress(packed, size).expect("written above"),
    })
}
