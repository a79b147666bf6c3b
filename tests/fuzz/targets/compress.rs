//! Checks that decompression respects its limit, and that compressed data decompresses to the original data.
//!
//! Input: the codec, then data. The target decompresses the data, and also compresses the same data.

#![no_main]

use klamm::compress::{Compression, compress, decompress};
use libfuzzer_sys::fuzz_target;

const LIMIT: usize = 4 << 20;

fuzz_target!(|data: &[u8]| {
    let Some((codec, data)) = data.split_first() else { return };
    let codec = Compression::ALL[usize::from(*codec) % Compression::ALL.len()];
    if let Ok(plain) = decompress(codec, data, LIMIT) {
        assert!(plain.len() <= LIMIT);
    }
    let mut packed = Vec::new();
    compress(codec, data, &mut packed).expect("no codec fails to write");
    assert_eq!(decompress(codec, &packed, data.len()).expect("klamm wrote it"), data);
});
