//! Limits the output of the decoders: reads from a decoder up to a limit, and returns an error if there is more output.
//!
//! The codecs depend on this file, and this file depends on no codec.

use std::io::Read;

/// The size of one read from a decoder, in bytes. Kafka's Java client reads zstd in pieces of this size, and loses the
/// piece in which the decoder finds damage.
#[allow(dead_code)]
const PIECE: usize = 16 << 10;

/// Reads all output of a decoder into `out`, up to `limit` bytes in total.
#[allow(dead_code)]
pub(super) fn read_bounded(mut decoder: impl Read, out: &mut Vec<u8>, limit: usize) -> Result<(), String> {
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

/// Returns the error for output that exceeds the limit.
pub(super) fn too_large(limit: usize) -> String {
    format!("more than {limit} bytes when decompressed")
}
