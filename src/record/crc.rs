//! CRC-32C (Castagnoli), the checksum of magic 2, over everything behind it: the base offset and the leader epoch
//! come before it, so that a broker can change them without touching the rest.

/// The checksum of `data`.
pub fn crc32c(data: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(data)
}
