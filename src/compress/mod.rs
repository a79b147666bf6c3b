//! The four compressions of Kafka's record batches, a file each, with bounded output.
//!
//! Rule: a compressed block says nothing that is believed before it is true: output grows as it comes and stops
//! at a limit. A codec that is compiled out gives an error that names its feature.

#![deny(clippy::unwrap_used, clippy::indexing_slicing, clippy::cast_possible_truncation)]

#[cfg(feature = "gzip")]
mod gzip;
#[cfg(feature = "lz4")]
mod lz4;
#[cfg(feature = "snappy")]
mod snappy;
#[cfg(feature = "zstd")]
mod zstd;

use std::fmt;
use std::io::Read;

/// Output allowed for one batch unless configured otherwise, bytes.
pub const DEFAULT_LIMIT: usize = 256 << 20;

/// How a batch's records are compressed: the lowest three bits of its attributes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Compression {
    /// Not at all.
    #[default]
    None,
    /// RFC 1952, several members allowed.
    Gzip,
    /// Blocks in xerial framing, or one bare block.
    Snappy,
    /// The LZ4 frame format.
    Lz4,
    /// Zstandard frames (KIP-110).
    Zstd,
}

impl Compression {
    /// All of them, by number.
    pub const ALL: [Self; 5] = [Self::None, Self::Gzip, Self::Snappy, Self::Lz4, Self::Zstd];

    /// From a batch's attributes; `None` for a number nobody uses.
    pub fn from_attributes(attributes: i16) -> Option<Self> {
        Self::ALL.get((attributes & 7) as usize).copied()
    }

    /// The number in a batch's attributes.
    pub fn number(self) -> i16 {
        self as i16
    }

    /// The name in Kafka's configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Gzip => "gzip",
            Self::Snappy => "snappy",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        }
    }

    /// From the name in Kafka's configuration.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|c| c.name() == name)
    }
}

/// Data that could not be compressed or decompressed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// Which codec.
    pub compression: Compression,
    /// What it said.
    pub why: String,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.compression.name(), self.why)
    }
}

impl std::error::Error for Error {}

/// Compresses `data` onto the end of `out`, at the codec's default level.
#[allow(unused_variables)]
pub fn compress(compression: Compression, data: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
    match compression {
        Compression::None => {
            out.extend_from_slice(data);
            Ok(())
        }
        #[cfg(feature = "gzip")]
        Compression::Gzip => gzip::compress(data, out),
        #[cfg(feature = "snappy")]
        Compression::Snappy => snappy::compress(data, out),
        #[cfg(feature = "lz4")]
        Compression::Lz4 => lz4::compress(data, out),
        #[cfg(feature = "zstd")]
        Compression::Zstd => zstd::compress(data, out),
        #[allow(unreachable_patterns)]
        other => Err(missing(other)),
    }
    .map_err(|why| Error { compression, why })
}

/// Decompresses `data`; more than `limit` bytes of output are refused.
pub fn decompress(compression: Compression, data: &[u8], limit: usize) -> Result<Vec<u8>, Error> {
    let mut out = Vec::new();
    decompress_into(compression, data, limit, &mut out)?;
    Ok(out)
}

/// Decompresses `data` onto the end of `out`, which may hold `limit` bytes in all. After an error, `out` has what
/// came before it.
#[allow(unused_variables)]
pub fn decompress_into(compression: Compression, data: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<(), Error> {
    match compression {
        Compression::None if data.len() > limit.saturating_sub(out.len()) => Err(too_large(limit)),
        Compression::None => {
            out.extend_from_slice(data);
            Ok(())
        }
        #[cfg(feature = "gzip")]
        Compression::Gzip => gzip::decompress(data, limit, out),
        #[cfg(feature = "snappy")]
        Compression::Snappy => snappy::decompress(data, limit, out),
        #[cfg(feature = "lz4")]
        Compression::Lz4 => lz4::decompress(data, limit, out),
        #[cfg(feature = "zstd")]
        Compression::Zstd => zstd::decompress(data, limit, out),
        #[allow(unreachable_patterns)]
        other => Err(missing(other)),
    }
    .map_err(|why| Error { compression, why })
}

#[allow(dead_code)]
fn missing(compression: Compression) -> String {
    format!("this build has no such codec, build with feature `{}`", compression.name())
}

/// Bytes asked of a decoder at a time, as Kafka's Java client asks them of zstd: the piece in which a decoder finds
/// its stream broken is lost.
#[allow(dead_code)]
const PIECE: usize = 16 << 10;

/// Reads a decoder to its end into `out`, no further than `limit` bytes in all.
#[allow(dead_code)]
fn read_bounded(mut decoder: impl Read, out: &mut Vec<u8>, limit: usize) -> Result<(), String> {
    loop {
        let start = out.len();
        // One byte more than allowed tells "exactly at the limit" from "beyond it".
        out.resize(start + PIECE.min(limit.saturating_sub(start).saturating_add(1)), 0);
        let read = decoder.read(out.get_mut(start..).unwrap_or_default());
        out.truncate(start + read.as_ref().copied().unwrap_or(0));
        if read.map_err(|e| e.to_string())? == 0 {
            return Ok(());
        }
        if out.len() > limit {
            out.truncate(limit);
            return Err(too_large(limit));
        }
    }
}

#[allow(dead_code)]
fn too_large(limit: usize) -> String {
    format!("more than {limit} bytes when decompressed")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text() -> Vec<u8> {
        (0..20_000u32).flat_map(|i| format!("line {} of many\n", i % 97).into_bytes()).collect()
    }

    #[test]
    fn every_codec_gives_back_what_it_took() {
        for compression in Compression::ALL {
            for data in [text(), Vec::new(), vec![7]] {
                let mut out = b"before".to_vec();
                compress(compression, &data, &mut out).unwrap();
                assert_eq!(decompress(compression, &out[6..], data.len()).unwrap(), data, "{compression:?}");
            }
        }
    }

    #[test]
    fn output_beyond_the_limit_is_refused() {
        for compression in &Compression::ALL[1..] {
            let (data, mut out) = (text(), Vec::new());
            compress(*compression, &data, &mut out).unwrap();
            assert!(decompress(*compression, &out, data.len() - 1).is_err(), "{compression:?}");
        }
    }

    #[test]
    fn cut_data_is_refused() {
        for compression in &Compression::ALL[1..] {
            let (data, mut out) = (text(), Vec::new());
            compress(*compression, &data, &mut out).unwrap();
            for cut in [1, 7, out.len() / 2, out.len() - 5] {
                assert!(decompress(*compression, &out[..cut], 1 << 24).is_err(), "{compression:?} {cut}");
            }
        }
    }
}
