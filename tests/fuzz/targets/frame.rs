//! Checks the frame reader. However a stream is divided into pieces, the reader finds the same frames, and no frame
//! needs more memory than the received bytes.
//!
//! Input: the size of the pieces, then the stream.

#![no_main]

use klamm::frame::Frames;
use libfuzzer_sys::fuzz_target;

const MAX: usize = 1 << 20;

fn frames(stream: &[u8], piece: usize) -> (Vec<Vec<u8>>, bool) {
    let mut frames = Frames::new(MAX);
    let mut out = Vec::new();
    for bytes in stream.chunks(piece) {
        frames.buffer().extend_from_slice(bytes);
        loop {
            match frames.next_frame() {
                Ok(Some(frame)) => out.push(frame.to_vec()),
                Ok(None) => break,
                Err(_) => return (out, true),
            }
        }
        let (buffer, missing) = frames.inbox();
        assert!(missing(buffer) <= MAX + 4);
    }
    (out, false)
}

fuzz_target!(|data: &[u8]| {
    let Some((piece, stream)) = data.split_first() else { return };
    assert_eq!(frames(stream, usize::from(*piece) + 1), frames(stream, stream.len().max(1)));
});
