//! Limits the output of the decoders: reads from a decoder up to a limit, and returns an error if there is more output or
//! if the system has no memory for it.
//!
//! The codecs depend on this file, and this file depends on no codec.

use std::io::Read;

/// The size of one read from a decoder, in bytes. Kafka's Java client reads zstd in pieces of this size, and loses the
/// piece in which the decoder finds damage.
#[allow(dead_code)]
const PIECE: usize = 16 << 10;

/// Why a decoder failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The data is damaged or too large.
    Refused(String),
    /// The system has no memory for this number of bytes.
    OutOfMemory(usize),
}

impl<T: Into<String>> From<T> for Fault {
    fn from(why: T) -> Self {
        Self::Refused(why.into())
    }
}

/// Makes room for `more` bytes. The sender of compressed data decides how many bytes this is, so a failed allocation must
/// not end the process.
pub(super) fn reserve(out: &mut Vec<u8>, more: usize) -> Result<(), Fault> {
    out.try_reserve(more).map_err(|_| Fault::OutOfMemory(out.len() + more))
}

/// Appends `more` zeros.
#[allow(dead_code)]
pub(super) fn append_zeros(out: &mut Vec<u8>, more: usize) -> Result<(), Fault> {
    reserve(out, more)?;
    out.resize(out.len() + more, 0);
    Ok(())
}

/// Appends bytes.
pub(super) fn append(out: &mut Vec<u8>, bytes: &[u8]) -> Result<(), Fault> {
    reserve(out, bytes.len())?;
    out.extend_from_slice(bytes);
    Ok(())
}

/// Reads all output of a decoder into `out`, up to `limit` bytes in total.
#[allow(dead_code)]
pub(super) fn read_bounded(mut decoder: impl Read, out: &mut Vec<u8>, limit: usize) -> Result<(), Fault> {
    loop {
        let start = out.len();
        // One byte more than allowed tells "exactly at the limit" from "beyond it".
        append_zeros(out, PIECE.min(limit.saturating_sub(start).saturating_add(1)))?;
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

/// Returns the error for output that exceeds the limit.
pub(super) fn too_large(limit: usize) -> Fault {
    format!("more than {limit} bytes when decompressed").into()
}
