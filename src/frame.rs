//! Frames: a request or response preceded by its length, a big-endian int32.
//!
//! The reader returns a frame as one `Bytes`, so that all values decoded from it can share its memory. The reader
//! checks the length against a limit. The memory of a frame grows with the bytes that have arrived, not with the
//! announced length.

use bytes::{Bytes, BytesMut};
use std::fmt;

/// The default limit for the size of a frame, in bytes. The value is the default of Kafka's `socket.request.max.bytes`.
pub const DEFAULT_MAX_FRAME: usize = 100 << 20;

/// The size from which a frame gets memory of its own. Smaller frames share memory, which is freed when the last of
/// these frames is dropped.
const LARGE: usize = 64 << 10;

/// A length that no Kafka peer sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadLength {
    /// The four bytes at the position of the length.
    pub found: [u8; 4],
    /// The limit for the size of a frame.
    pub max: usize,
}

impl fmt::Display for BadLength {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let length = i32::from_be_bytes(self.found);
        write!(f, "frame length {length} is outside 0 to {} (bytes {:02x?})", self.max, self.found)
    }
}

impl std::error::Error for BadLength {}

/// Splits a byte stream into frames.
#[derive(Debug)]
pub struct Frames {
    buf: BytesMut,
    max: usize,
}

impl Frames {
    /// Creates an empty stream with a limit of `max` bytes for each frame.
    pub fn new(max: usize) -> Self {
        Self { buf: BytesMut::new(), max }
    }

    /// Sets the limit for all later frames.
    pub fn allow(&mut self, max: usize) {
        self.max = max;
    }

    /// Returns the buffer to which the caller appends received bytes.
    pub fn buffer(&mut self) -> &mut BytesMut {
        &mut self.buf
    }

    /// Returns the buffer, and a function that computes how many bytes of the first frame in the buffer are missing.
    pub fn inbox(&mut self) -> (&mut BytesMut, impl Fn(&[u8]) -> usize + use<>) {
        let max = self.max;
        let missing = move |arrived: &[u8]| match arrived.first_chunk::<4>() {
            Some(&length) => {
                (u32::from_be_bytes(length) as usize).min(max).saturating_add(4).saturating_sub(arrived.len())
            }
            None => 4 - arrived.len(),
        };
        (&mut self.buf, missing)
    }

    /// Returns the next complete frame, without its length.
    pub fn next_frame(&mut self) -> Result<Option<Bytes>, BadLength> {
        let Some(&found) = self.buf.first_chunk::<4>() else {
            return Ok(None);
        };
        let length = usize::try_from(i32::from_be_bytes(found)).ok().filter(|n| *n <= self.max);
        let Some(length) = length else {
            return Err(BadLength { found, max: self.max });
        };
        if self.buf.len() < 4 + length {
            return Ok(None);
        }
        let mut frame = if length < LARGE {
            self.buf.split_to(4 + length).freeze()
        } else {
            let behind = BytesMut::from(self.buf.get(4 + length..).unwrap_or_default());
            self.buf.truncate(4 + length);
            std::mem::replace(&mut self.buf, behind).freeze()
        };
        Ok(Some(frame.split_off(4)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_out_whole_however_they_arrive() {
        let wire = [0, 0, 0, 3, b'a', b'b', b'c', 0, 0, 0, 0, 0, 0, 0, 1, b'd'];
        for step in 1..=wire.len() {
            let mut frames = Frames::new(10);
            let mut out = Vec::new();
            for piece in wire.chunks(step) {
                frames.buffer().extend_from_slice(piece);
                while let Some(frame) = frames.next_frame().unwrap() {
                    out.push(frame.to_vec());
                }
            }
            assert_eq!(out, [b"abc".to_vec(), Vec::new(), b"d".to_vec()]);
        }
    }

    #[test]
    fn a_large_frame_shares_its_memory_with_none() {
        let wire = |length: usize, byte| [&(length as u32).to_be_bytes()[..], &vec![byte; length]].concat();
        let mut frames = Frames::new(LARGE);
        frames.buffer().reserve(4 * LARGE);
        frames.buffer().extend_from_slice(&[wire(LARGE, 1), wire(2, 2)].concat());
        let found: Vec<_> = std::iter::from_fn(|| frames.next_frame().unwrap()).collect();
        assert_eq!(found.iter().map(|f| (f.len(), f[0])).collect::<Vec<_>>(), [(LARGE, 1), (2, 2)]);
        assert!(found[0].is_unique() && frames.buffer().is_empty());
    }

    #[test]
    fn what_is_missing_is_known_once_the_length_is() {
        let mut frames = Frames::new(1_000);
        let (buffer, missing) = frames.inbox();
        assert_eq!(missing(buffer), 4);
        buffer.extend_from_slice(&[0, 0, 1]);
        assert_eq!(missing(buffer), 1);
        buffer.extend_from_slice(&[2, 7]);
        assert_eq!(missing(buffer), 257);
        buffer.resize(4 + 258 + 3, 0);
        assert_eq!(missing(buffer), 0);
        // Never more than is allowed, whatever the peer says.
        assert_eq!(missing(&[0xff; 4]), 1_000);
    }

    #[test]
    fn a_length_out_of_bounds_is_refused_before_its_bytes_arrive() {
        for length in [11, -1, i32::MAX] {
            let mut frames = Frames::new(10);
            frames.buffer().extend_from_slice(&length.to_be_bytes());
            assert_eq!(frames.next_frame(), Err(BadLength { found: length.to_be_bytes(), max: 10 }));
        }
    }
}
