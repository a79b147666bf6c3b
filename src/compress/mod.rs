//! The four compression codecs of Kafka's record batches, one file each, with bounded output.
//!
//! A decoder does not trust the size in compressed data: its output grows as it decompresses, and stops at a limit. If
//! a codec was not compiled in, its functions return an error that names the Cargo feature.
//!
//! | codec | levels (KIP-390) | default | output bytes per input byte, at most |
//! |---|---|---|---|
//! | gzip | 1 to 9, and -1 for the default | 6 | 1,032 |
//! | snappy | none | | 22 |
//! | lz4 | 1 to 17 | 9 | 255 |
//! | zstd | -131,072 to 22 | 3 | 43,691: a block of three bytes that repeats one byte 131,072 times |
//!
//! The lz4 level is validated but has no effect: lz4_flex has one level, comparable to the Java client's default.

#![deny(clippy::unwrap_used, clippy::indexing_slicing, clippy::cast_possible_truncation)]

mod bounded;
#[cfg(feature = "gzip")]
mod gzip;
#[cfg(feature = "lz4")]
mod lz4;
#[cfg(feature = "snappy")]
mod snappy;
#[cfg(feature = "zstd")]
mod zstd;

use bounded::{Fault, append, too_large};
use std::fmt;

/// The default limit for the decompressed size of a batch, in bytes.
pub const DEFAULT_LIMIT: usize = 256 << 20;

/// The compression of a batch's records, which is in the lowest three bits of the batch's attributes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Compression {
    /// No compression.
    #[default]
    None,
    /// gzip (RFC 1952), with one or more members.
    Gzip,
    /// Snappy blocks in xerial framing, or one block without framing.
    Snappy,
    /// The LZ4 frame format.
    Lz4,
    /// Zstandard frames (KIP-110).
    Zstd,
}

impl Compression {
    /// All codecs, ordered by number.
    pub const ALL: [Self; 5] = [Self::None, Self::Gzip, Self::Snappy, Self::Lz4, Self::Zstd];

    /// Returns the codec for a batch's attributes, or `None` for an unassigned number.
    pub fn from_attributes(attributes: i16) -> Option<Self> {
        Self::ALL.get((attributes & 7) as usize).copied()
    }

    /// Returns the codec's number in the attributes of a batch.
    pub fn number(self) -> i16 {
        self as i16
    }

    /// Returns the codec's name in Kafka's configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Gzip => "gzip",
            Self::Snappy => "snappy",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        }
    }

    /// Returns the codec with this name in Kafka's configuration.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|c| c.name() == name)
    }
}

/// A codec with a compression level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Codec {
    compression: Compression,
    level: Option<i32>,
}

impl Codec {
    /// Returns the codec with a level. Fails if the codec does not have this level (see the table of this module).
    pub fn with_level(compression: Compression, level: i32) -> Result<Self, String> {
        let (is_valid, levels) = match compression {
            Compression::None | Compression::Snappy => (false, "no levels"),
            Compression::Gzip => (level == -1 || (1..=9).contains(&level), "levels 1 to 9, and -1 for its default"),
            Compression::Lz4 => ((1..=17).contains(&level), "levels 1 to 17"),
            Compression::Zstd => ((-131_072..=22).contains(&level), "levels -131072 to 22"),
        };
        if is_valid {
            return Ok(Self { compression, level: Some(level) });
        }
        Err(format!("{} has {levels}, not {level}", compression.name()))
    }

    /// Returns the codec without the level.
    pub fn compression(self) -> Compression {
        self.compression
    }
}

/// Uses the codec's default level.
impl From<Compression> for Codec {
    fn from(compression: Compression) -> Self {
        Self { compression, level: None }
    }
}

/// The error if data cannot be compressed or decompressed, exceeds the size limit of a batch, or does not fit into the
/// memory of the system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The codec.
    pub compression: Compression,
    fault: Fault,
}

impl Error {
    /// Creates the error for data that cannot be compressed.
    pub(crate) fn refused(compression: Compression, why: String) -> Self {
        Self { compression, fault: why.into() }
    }

    /// Returns whether the data may be valid, but the system has no memory for it.
    pub fn is_out_of_memory(&self) -> bool {
        matches!(self.fault, Fault::OutOfMemory(_))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.compression != Compression::None {
            write!(f, "{}: ", self.compression.name())?;
        }
        match &self.fault {
            Fault::Refused(why) => f.write_str(why),
            Fault::OutOfMemory(bytes) => write!(f, "no memory for {bytes} bytes"),
        }
    }
}

impl std::error::Error for Error {}

/// Compresses `data` and appends the result to `out`.
///
/// Each thread keeps its last compressor of each codec, about 270 KB for gzip. A compressor for each batch would
/// fragment the heap between the batches that are in flight, which keeps a multiple of the memory in use.
#[allow(unused_variables)]
pub fn compress(codec: impl Into<Codec>, data: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
    let Codec { compression, level } = codec.into();
    match compression {
        Compression::None => {
            out.extend_from_slice(data);
            Ok(())
        }
        #[cfg(feature = "gzip")]
        Compression::Gzip => gzip::compress(data, level, out),
        #[cfg(feature = "snappy")]
        Compression::Snappy => snappy::compress(data, out),
        #[cfg(feature = "lz4")]
        Compression::Lz4 => lz4::compress(data, out),
        #[cfg(feature = "zstd")]
        Compression::Zstd => zstd::compress(data, level, out),
        #[allow(unreachable_patterns)]
        other => Err(missing(other)),
    }
    .map_err(|fault| Error { compression, fault: fault.into() })
}

/// Decompresses `data`. Fails if the output would exceed `limit` bytes.
pub fn decompress(compression: Compression, data: &[u8], limit: usize) -> Result<Vec<u8>, Error> {
    let mut out = Vec::new();
    decompress_into(compression, data, limit, &mut out)?;
    Ok(out)
}

/// Decompresses `data` and appends the result to `out`, which may contain at most `limit` bytes in total. After an
/// error, `out` contains the data before the damage.
#[allow(unused_variables)]
pub fn decompress_into(compression: Compression, data: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<(), Error> {
    match compression {
        Compression::None if data.len() > limit.saturating_sub(out.len()) => Err(too_large(limit)),
        Compression::None => append(out, data),
        #[cfg(feature = "gzip")]
        Compression::Gzip => gzip::decompress(data, limit, out),
        #[cfg(feature = "snappy")]
        Compression::Snappy => snappy::decompress(data, limit, out),
        #[cfg(feature = "lz4")]
        Compression::Lz4 => lz4::decompress(data, true, limit, out),
        #[cfg(feature = "zstd")]
        Compression::Zstd => zstd::decompress(data, limit, out),
        #[allow(unreachable_patterns)]
        other => Err(missing(other).into()),
    }
    .map_err(|fault| Error { compression, fault })
}

/// Returns an error if `data` does not start like compressed data. The Java client checks only this if no record is
/// read. For this check, a Snappy block without framing is decompressed, up to `limit` bytes.
#[allow(unused_variables)]
pub fn check_start(compression: Compression, data: &[u8], limit: usize) -> Result<(), Error> {
    match compression {
        // A decoder of zstd reads nothing before it is asked to.
        Compression::None | Compression::Zstd => Ok(()),
        #[cfg(feature = "gzip")]
        Compression::Gzip => gzip::check_start(data).map_err(Fault::from),
        #[cfg(feature = "snappy")]
        Compression::Snappy => snappy::check_start(data, limit),
        #[cfg(feature = "lz4")]
        Compression::Lz4 => lz4::check_start(data).map_err(Fault::from),
        #[allow(unreachable_patterns)]
        other => Err(missing(other).into()),
    }
    .map_err(|fault| Error { compression, fault })
}

/// Compresses data for messages of magic 0. The LZ4 frames of magic 0 have the wrong header checksum of the first Java
/// client, which old clients require.
#[allow(unused_variables)]
pub fn compress_of_magic_0(codec: impl Into<Codec>, data: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
    let (codec, start) = (codec.into(), out.len());
    compress(codec, data, out)?;
    #[cfg(feature = "lz4")]
    if codec.compression == Compression::Lz4 {
        lz4::break_checksum(out.get_mut(start..).unwrap_or_default());
    }
    Ok(())
}

/// Decompresses the data of magic 0 messages. Does not verify the header checksum of an LZ4 frame.
pub fn decompress_into_of_magic_0(
    compression: Compression,
    data: &[u8],
    limit: usize,
    out: &mut Vec<u8>,
) -> Result<(), Error> {
    #[cfg(feature = "lz4")]
    if compression == Compression::Lz4 {
        return lz4::decompress(data, false, limit, out).map_err(|fault| Error { compression, fault });
    }
    decompress_into(compression, data, limit, out)
}

#[allow(dead_code)]
fn missing(compression: Compression) -> String {
    format!("this build has no such codec, build with feature `{}`", compression.name())
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

    #[cfg(all(feature = "gzip", feature = "snappy", feature = "lz4", feature = "zstd"))]
    #[test]
    fn a_thread_reuses_its_compressors() {
        let drop_kept = || {
            let kept = (gzip::KEPT.take(), snappy::KEPT.take(), lz4::KEPT.take(), zstd::KEPT.take());
            [kept.0.is_some(), kept.1.is_some(), kept.2.is_some(), kept.3.is_some()]
        };
        let packed = |compression, data: &[u8]| {
            let mut out = Vec::new();
            compress(compression, data, &mut out).unwrap();
            out
        };
        let inputs = [text(), vec![7], Vec::new(), text().split_off(100), text()];
        drop_kept();
        for compression in Compression::ALL {
            let first = inputs.each_ref().map(|data| (packed(compression, data), drop_kept()).0);
            assert_eq!(inputs.each_ref().map(|data| packed(compression, data)), first, "{compression:?}");
            assert_eq!(drop_kept().contains(&true), compression != Compression::None, "{compression:?}");
        }
    }

    #[test]
    fn levels_are_kafkas_and_make_a_difference_where_there_is_one() {
        let packed = |compression, level| {
            let mut out = Vec::new();
            compress(Codec::with_level(compression, level).unwrap(), &text(), &mut out).unwrap();
            assert_eq!(decompress(compression, &out, DEFAULT_LIMIT).unwrap(), text(), "{compression:?} {level}");
            out.len()
        };
        let default = |compression| {
            let mut out = Vec::new();
            compress(compression, &text(), &mut out).unwrap();
            out.len()
        };
        assert!(packed(Compression::Gzip, 1) > packed(Compression::Gzip, 9));
        assert_eq!(packed(Compression::Gzip, -1), default(Compression::Gzip));
        assert!(packed(Compression::Zstd, -131_072) > packed(Compression::Zstd, 22));
        assert_eq!(packed(Compression::Zstd, 3), default(Compression::Zstd));
        assert_eq!(packed(Compression::Lz4, 1), packed(Compression::Lz4, 17));
        for (compression, level) in [
            (Compression::None, 0),
            (Compression::Gzip, 0),
            (Compression::Gzip, 10),
            (Compression::Snappy, 1),
            (Compression::Lz4, 0),
            (Compression::Lz4, 18),
            (Compression::Zstd, 23),
            (Compression::Zstd, -131_073),
        ] {
            assert!(Codec::with_level(compression, level).unwrap_err().contains(compression.name()));
        }
    }

    #[test]
    fn lz4_of_magic_0_has_a_checksum_that_only_magic_0_takes() {
        let (mut good, mut odd) = (Vec::new(), Vec::new());
        compress(Compression::Lz4, b"data", &mut good).unwrap();
        compress_of_magic_0(Compression::Lz4, b"data", &mut odd).unwrap();
        assert_eq!((&good[..6], &good[7..]), (&odd[..6], &odd[7..]));
        assert!(decompress(Compression::Lz4, &odd, 4).unwrap_err().to_string().contains("checksum"));
        for frame in [good, odd] {
            let mut out = Vec::new();
            decompress_into_of_magic_0(Compression::Lz4, &frame, 4, &mut out).unwrap();
            assert_eq!(out, b"data");
        }
    }

    #[test]
    fn a_start_is_good_whatever_follows_it() {
        for compression in Compression::ALL {
            let mut out = Vec::new();
            compress(compression, &text(), &mut out).unwrap();
            out.truncate(out.len() / 2);
            assert_eq!(check_start(compression, &out, 0), Ok(()));
            let reads_its_start = !matches!(compression, Compression::None | Compression::Zstd);
            assert_eq!(check_start(compression, &[0xff; 40], 1 << 20).is_err(), reads_its_start, "{compression:?}");
        }
        assert_eq!(check_start(Compression::Snappy, &[], 0), Ok(()));
        assert_eq!(check_start(Compression::Snappy, b"\x03\x08abc", 3), Ok(()), "a bare block");
    }

    #[test]
    fn a_snappy_stream_ends_where_no_length_fits_any_more() {
        let mut out = Vec::new();
        compress(Compression::Snappy, &text(), &mut out).unwrap();
        for rest in 0..4 {
            let followed = [&out[..], &[0; 3][..rest]].concat();
            assert_eq!(decompress(Compression::Snappy, &followed, DEFAULT_LIMIT), Ok(text()));
        }
        assert!(decompress(Compression::Snappy, &[&out[..], &[1; 4]].concat(), DEFAULT_LIMIT).is_err());
    }

    /// Returns an LZ4 frame with one block and the end mark.
    fn frame_of(block: &[u8], end: u32) -> Vec<u8> {
        let mut frame = Vec::new();
        compress(Compression::Lz4, b"", &mut frame).unwrap();
        frame.truncate(7);
        frame.extend_from_slice(&u32::try_from(block.len()).unwrap().to_le_bytes());
        frame.extend_from_slice(block);
        frame.extend_from_slice(&end.to_le_bytes());
        frame
    }

    #[test]
    fn blocks_of_lz4_are_read_as_the_reference_library_reads_them() {
        let blocks: [(&[u8], Option<&[u8]>); 5] = [
            (b"\x40abcd\x04\x00\x50vwxyz", Some(b"abcdabcdvwxyz")),
            // A match at no distance.
            (b"\x40abcd\x00\x00\x50vwxyz", Some(b"abcd\0\0\0\0vwxyz")),
            // The last five bytes have to be literals,
            (b"\x40abcd\x04\x00\x10z", None),
            // which is looked at near the end of the block only.
            (b"\xe0abcdefghijklmn\x0e\x00\x00", Some(b"abcdefghijklmnabcd")),
            (b"\xd0abcdefghijklm\x0d\x00\x00", None),
        ];
        for (block, expected) in blocks {
            for end in [0, 1 << 31] {
                let found = decompress(Compression::Lz4, &frame_of(block, end), DEFAULT_LIMIT).ok();
                assert_eq!(found.as_deref(), expected, "{block:?}");
            }
        }
        let long = frame_of(b"\x4fabcd\x00\x00\xff\xff\x00\x50vwxyz", 0);
        assert_eq!(decompress(Compression::Lz4, &long, 4 + 529 + 5).unwrap().len(), 4 + 529 + 5);
        assert!(decompress(Compression::Lz4, &long, 100).unwrap_err().to_string().contains("more than 100 bytes"));
    }

    #[test]
    fn bytes_after_a_gzip_member_are_ignored_if_java_ignores_them() {
        let member = |data: &[u8]| {
            let mut out = Vec::new();
            compress(Compression::Gzip, data, &mut out).unwrap();
            out
        };
        let (first, second) = (member(b"first"), member(b"second"));
        let mut unknown_method = second.clone();
        unknown_method[2] = 7;
        let mut unknown_flags = second.clone();
        unknown_flags[3] |= 0xe0;
        let cut = |n| &second[..n];
        for (behind, expected) in [
            (&second[..], Some("firstsecond")),
            (&unknown_flags, Some("firstsecond")),
            (&unknown_method, Some("first")),
            (cut(18), Some("first")),
            (cut(19), None),
        ] {
            let found = decompress(Compression::Gzip, &[&first, behind].concat(), DEFAULT_LIMIT).ok();
            assert_eq!(found.as_deref(), expected.map(str::as_bytes), "{behind:02x?}");
        }
    }

    #[test]
    fn damaged_zstd_is_read_up_to_the_damage_whatever_window_it_asks_for() {
        let whole = ::zstd::stream::encode_all(&text()[..], 22).unwrap();
        for (window, is_read) in [(0x88, true), (0x78, true), (0x60, true), (0x89, false)] {
            let (mut data, mut out) = (whole.clone(), Vec::new());
            data[5] = window;
            assert_eq!(decompress(Compression::Zstd, &data, DEFAULT_LIMIT).is_ok(), is_read, "{window:#x}");
            data.truncate(whole.len() - 1);
            decompress_into(Compression::Zstd, &data, DEFAULT_LIMIT, &mut out).unwrap_err();
            assert_eq!(!out.is_empty(), is_read, "{window:#x}");
        }
    }

    #[test]
    fn a_block_of_zstd_is_no_larger_than_the_window() {
        let mut data = ::zstd::stream::encode_all(&text()[..], 3).unwrap();
        data[5] = 0;
        assert!(decompress(Compression::Zstd, &data, DEFAULT_LIMIT).is_err());
    }

    #[test]
    fn output_beyond_the_limit_is_refused() {
        for compression in &Compression::ALL[1..] {
            let (data, mut out) = (text(), Vec::new());
            compress(*compression, &data, &mut out).unwrap();
            let error = decompress(*compression, &out, data.len() - 1).unwrap_err();
            assert_eq!((error.compression, error.fault), (*compression, too_large(data.len() - 1)));
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
