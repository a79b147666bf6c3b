//! Variable-length integers: seven bits in each byte, the least significant first. Signed integers use zigzag encoding.
//! Like Kafka's own reader, the decoder accepts encodings that are longer than necessary. The encoding of a 32-bit
//! integer has at most 5 bytes, and the encoding of a 64-bit integer has at most 10 bytes.

/// Appends an unsigned 32-bit integer.
#[inline]
pub fn put_u32(out: &mut Vec<u8>, mut v: u32) {
    while v >= 0x80 {
        out.push(v as u8 | 0x80);
        v >>= 7;
    }
    out.push(v as u8);
}

/// Appends an unsigned 64-bit integer.
#[inline]
pub fn put_u64(out: &mut Vec<u8>, mut v: u64) {
    while v >= 0x80 {
        out.push(v as u8 | 0x80);
        v >>= 7;
    }
    out.push(v as u8);
}

/// Appends a zigzag 32-bit integer.
#[inline]
pub fn put_i32(out: &mut Vec<u8>, v: i32) {
    put_u32(out, ((v << 1) ^ (v >> 31)) as u32);
}

/// Appends a zigzag 64-bit integer.
#[inline]
pub fn put_i64(out: &mut Vec<u8>, v: i64) {
    put_u64(out, ((v << 1) ^ (v >> 63)) as u64);
}

/// Returns the encoded size of an unsigned integer.
#[inline]
pub fn len_u64(v: u64) -> usize {
    (70 - (v | 1).leading_zeros() as usize) / 7
}

/// Returns the encoded size of a zigzag integer.
#[inline]
pub fn len_i64(v: i64) -> usize {
    len_u64(((v << 1) ^ (v >> 63)) as u64)
}

/// Reads an unsigned integer of at most `bits` bits from the front of `data`. Returns `None` if the integer is
/// incomplete or too long.
#[inline]
pub fn take_u64(data: &mut &[u8], bits: u32) -> Option<u64> {
    let mut v = 0u64;
    let mut shift = 0;
    loop {
        let (&byte, rest) = data.split_first()?;
        *data = rest;
        if shift < 64 {
            v |= u64::from(byte & 0x7f) << shift;
        }
        if byte < 0x80 {
            return Some(v);
        }
        shift += 7;
        if shift >= bits {
            return None;
        }
    }
}

/// Reads an unsigned 32-bit integer from the front of `data`. Drops the bits of a fifth byte that exceed 32 bits.
#[inline]
pub fn take_u32(data: &mut &[u8]) -> Option<u32> {
    take_u64(data, 32).map(|v| v as u32)
}

/// Reads a zigzag 32-bit integer from the front of `data`.
#[inline]
pub fn take_i32(data: &mut &[u8]) -> Option<i32> {
    // Lengths and deltas of small records are nearly always one byte.
    if let Some((&byte, rest)) = data.split_first()
        && byte < 0x80
    {
        *data = rest;
        return Some(i32::from(byte >> 1) ^ -i32::from(byte & 1));
    }
    let v = take_u32(data)?;
    Some((v >> 1) as i32 ^ -((v & 1) as i32))
}

/// Reads a zigzag 64-bit integer from the front of `data`.
#[inline]
pub fn take_i64(data: &mut &[u8]) -> Option<i64> {
    if let Some((&byte, rest)) = data.split_first()
        && byte < 0x80
    {
        *data = rest;
        return Some(i64::from(byte >> 1) ^ -i64::from(byte & 1));
    }
    let v = take_u64(data, 64)?;
    Some((v >> 1) as i64 ^ -((v & 1) as i64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_edge_round_trips_in_the_predicted_length() {
        for shift in 0..64 {
            for v in [1i64 << shift, (1i64 << shift).wrapping_sub(1), (1i64 << shift).wrapping_neg()] {
                let mut out = Vec::new();
                put_i64(&mut out, v);
                assert_eq!(out.len(), len_i64(v), "{v}");
                assert_eq!(take_i64(&mut out.as_slice()), Some(v));
                if let Ok(v) = i32::try_from(v) {
                    out.clear();
                    put_i32(&mut out, v);
                    assert_eq!(take_i32(&mut out.as_slice()), Some(v));
                }
            }
        }
    }

    #[test]
    fn six_bytes_are_too_long_for_32_bits_and_eleven_for_64() {
        assert_eq!(take_u64(&mut &[0x80, 0x80, 0x80, 0x80, 0][..], 32), Some(0));
        assert_eq!(take_u64(&mut &[0x80, 0x80, 0x80, 0x80, 0x80, 0][..], 32), None);
        assert_eq!(take_u64(&mut &[[0x80; 9].as_slice(), &[0]].concat()[..], 64), Some(0));
        assert_eq!(take_u64(&mut &[[0x80; 10].as_slice(), &[0]].concat()[..], 64), None);
        assert_eq!(take_u64(&mut &[0x80][..], 32), None);
    }
}
