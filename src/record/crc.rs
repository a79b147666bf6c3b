//! Checksums of batches. Magic 2 uses CRC-32C (Castagnoli) over all bytes after the checksum. The base offset and the
//! leader epoch come before the checksum, so a broker can change these fields without computing a new checksum. Magic 0
//! and 1 use CRC-32.
//!
//! This file only computes checksums. `Batch::check_crc` in `batch.rs` compares the checksum of a batch with its data.

/// Computes the checksum of magic 2.
pub fn crc32c(data: &[u8]) -> u32 {
    if data.len() >= HARDWARE_CRC_MIN_BYTES && !prefers_crc_fast() {
        crc32c::crc32c(data)
    } else {
        crc_fast::crc32_iscsi(data)
    }
}

/// The smallest size from which the CPU's CRC-32C instruction is faster than 128-bit multiplication.
const HARDWARE_CRC_MIN_BYTES: usize = 512;

/// Returns whether to use crc-fast for data of every size. On x86-64, crc-fast is the fastest if the CPU can multiply
/// 512 bits at a time. On other architectures, klamm always uses crc-fast.
#[cfg(target_arch = "x86_64")]
fn prefers_crc_fast() -> bool {
    is_x86_feature_detected!("avx512vl") && is_x86_feature_detected!("vpclmulqdq")
}

#[cfg(not(target_arch = "x86_64"))]
fn prefers_crc_fast() -> bool {
    true
}

/// Computes the checksum of magic 0 and 1.
pub fn crc32(data: &[u8]) -> u32 {
    // Twice as fast as crc-fast for messages of 60 to 1,000 bytes.
    crc32fast::hash(data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_and_long_data_have_the_checksum_of_rfc_3720() {
        let bitwise = |data: &[u8]| {
            !data.iter().fold(!0u32, |crc, byte| {
                (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ ((crc & 1) * 0x82f6_3b78))
            })
        };
        // RFC 3720, B.4: 32 bytes of zeros.
        assert_eq!(bitwise(&[0; 32]), 0x8a91_36aa);
        let min = HARDWARE_CRC_MIN_BYTES;
        for length in [0, 1, 31, min - 1, min, min + 1, 4 * min + 7, 40_000] {
            let data: Vec<u8> = (0..=255).chain((3..=250).rev()).cycle().take(length).collect();
            assert_eq!(crc32c(&data), bitwise(&data), "{length}");
        }
    }
}
