//! The checksums: CRC-32C (Castagnoli) in magic 2, over everything behind it: the base offset and the leader epoch
//! come before it, so that a broker can change them without touching the rest. CRC-32 in magic 0 and 1.

/// The checksum of magic 2.
pub fn crc32c(data: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(data)
}

/// The checksum of magic 0 and 1.
pub fn crc32(data: &[u8]) -> u32 {
    // For messages of 60 to 1,000 bytes twice as fast as crc-fast's.
    crc32fast::hash(data)
}
