//! Variable-length integers, which Avro uses for numbers, lengths and positions.

/// Appends a number as a zigzag varint.
#[inline]
pub fn put_long(value: i64, out: &mut Vec<u8>) {
    let mut rest = ((value << 1) ^ (value >> 63)) as u64;
    while rest > 0x7f {
        out.push((rest as u8 & 0x7f) | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}
