//! Writing a batch: records are encoded where they will be sent from, once, and the header is filled in at the end.

use super::{HEADER_SIZE, Header, crc32c};
use crate::compress::{self, Codec, Compression, compress};
use crate::wire::varint::{len_i64, len_u64, put_i32, put_i64};
use bytes::Bytes;

/// Who writes a batch: idempotent and transactional producers have an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Producer {
    /// From InitProducerId; -1 for none.
    pub id: i64,
    /// The id's epoch; -1 for none.
    pub epoch: i16,
    /// Sequence number of the batch's first record; -1 for none.
    pub base_sequence: i32,
    /// Whether the batch is part of a transaction.
    pub transactional: bool,
}

impl Producer {
    /// A producer without an id.
    pub const NONE: Self = Self { id: -1, epoch: -1, base_sequence: -1, transactional: false };
}

/// An upper bound of the bytes a record takes in a batch, for limits.
pub fn max_record_size(key: Option<&[u8]>, value: Option<&[u8]>, headers: &[(&str, Option<&[u8]>)]) -> usize {
    // Size, attributes, both deltas, two lengths, header count: 5 + 1 + 10 + 5 + 5 + 5 + 5.
    let headers: usize = headers.iter().map(|(k, v)| 10 + k.len() + v.map_or(0, <[u8]>::len)).sum();
    36 + key.map_or(0, <[u8]>::len) + value.map_or(0, <[u8]>::len) + headers
}

/// What [`BatchBuilder::append`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// The record's place in the batch, from 0.
    pub index: i32,
    /// Bytes it took.
    pub size: usize,
}

/// A batch that is being filled.
#[derive(Debug)]
pub struct BatchBuilder {
    buf: Vec<u8>,
    count: i32,
    /// Offsets that were left out among the records so far.
    gaps: i32,
    base_timestamp: Option<i64>,
    max_timestamp: i64,
}

/// A batch that is ready to send: offsets, producer and sequence may still be set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sealed {
    /// The batch.
    pub data: Bytes,
    /// How many records it holds.
    pub count: i32,
}

impl BatchBuilder {
    /// An empty batch with room for `capacity` bytes.
    pub fn with_capacity(capacity: usize) -> Self {
        Self::with_buffer(Vec::with_capacity(capacity.max(HEADER_SIZE)))
    }

    /// An empty batch in the memory of an old one.
    pub fn with_buffer(mut buf: Vec<u8>) -> Self {
        buf.clear();
        buf.resize(HEADER_SIZE, 0);
        Self { buf, count: 0, gaps: 0, base_timestamp: None, max_timestamp: i64::MIN }
    }

    /// The same empty batch, in which timestamps count from `ms` instead of the first one: from a delete horizon.
    pub fn with_base_timestamp(self, ms: i64) -> Self {
        Self { base_timestamp: Some(ms), ..self }
    }

    /// Bytes so far, header included.
    pub fn size(&self) -> usize {
        self.buf.len()
    }

    /// Records so far.
    pub fn count(&self) -> i32 {
        self.count
    }

    /// Appends a record; timestamps are milliseconds since 1970.
    #[inline]
    pub fn append(
        &mut self,
        timestamp: i64,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: &[(&str, Option<&[u8]>)],
    ) -> Appended {
        self.put(self.count + self.gaps, timestamp, key, value, headers)
    }

    /// Appends a record whose offset is `delta` after the batch's: compaction leaves gaps.
    pub fn append_at(
        &mut self,
        delta: i32,
        timestamp: i64,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: &[(&str, Option<&[u8]>)],
    ) -> Appended {
        self.gaps = delta - self.count;
        self.put(delta, timestamp, key, value, headers)
    }

    #[inline]
    fn put(
        &mut self,
        delta: i32,
        timestamp: i64,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: &[(&str, Option<&[u8]>)],
    ) -> Appended {
        self.max_timestamp = self.max_timestamp.max(timestamp);
        let (index, start) = (self.count, self.buf.len());
        let timestamp_delta = timestamp.wrapping_sub(*self.base_timestamp.get_or_insert(timestamp));
        let headers_size = match headers {
            [] => 1,
            _ => {
                len_i64(headers.len() as i64)
                    + headers.iter().map(|(k, v)| sized(Some(k.as_bytes())) + sized(*v)).sum::<usize>()
            }
        };
        let numbers = [zigzag(timestamp_delta), zigzag(delta.into()), length(key), length(value)];
        let [timestamp, offset, key_length, value_length] = numbers;
        let (key_bytes, value_bytes) = (key.unwrap_or_default(), value.unwrap_or_default());
        let payload = key_bytes.len() + value_bytes.len() + headers_size;
        let buf = &mut self.buf;
        // In zigzag order like the others. With all of them below this the record's size has at most three bytes, too.
        let headers_length = 2 * headers_size as u64;
        if (timestamp | offset | key_length | value_length | headers_length) < 1 << 19 {
            let (timestamp, value_length) = (Varint::new(timestamp), Varint::new(value_length));
            let second = Varint::new(offset).then(Varint::new(key_length));
            let size = 1 + timestamp.len + second.len + value_length.len + payload;
            let record_size = Varint::new(2 * size as u64);
            // Attributes are a byte of zeros behind the size.
            let first = Varint { len: record_size.len + 1, ..record_size }.then(timestamp);
            put_first(buf, &first.beside(second), first.len + second.len);
            put_bytes(buf, key_bytes);
            put_first(buf, &(value_length.bytes as u32).to_le_bytes(), value_length.len);
            put_bytes(buf, value_bytes);
        } else {
            let size = 1 + numbers.into_iter().map(len_u64).sum::<usize>() + payload;
            put_slowly(buf, size, timestamp_delta, delta, key, value);
        }
        put_i32(buf, headers.len() as i32);
        for (k, v) in headers {
            put_sized(buf, Some(k.as_bytes()));
            put_sized(buf, *v);
        }
        self.count += 1;
        Appended { index, size: self.buf.len() - start }
    }

    /// Compresses the records and fills in the header. The base offset is 0 and the leader epoch -1, which is what
    /// a producer sends; the broker sets both.
    pub fn seal(self, codec: impl Into<Codec>, producer: Producer) -> Result<Sealed, compress::Error> {
        let Self { mut buf, count, gaps, base_timestamp, max_timestamp } = self;
        let codec = codec.into();
        if codec.compression() != Compression::None {
            let mut packed = Vec::with_capacity(HEADER_SIZE + buf.len() / 2);
            packed.resize(HEADER_SIZE, 0);
            compress(codec, &buf[HEADER_SIZE..], &mut packed)?;
            buf = packed;
        }
        let header = Header {
            base_offset: 0,
            batch_length: 0,
            partition_leader_epoch: -1,
            magic: 2,
            crc: 0,
            attributes: codec.compression().number() | i16::from(producer.transactional) << 4,
            last_offset_delta: count + gaps - 1,
            base_timestamp: base_timestamp.unwrap_or(-1),
            max_timestamp: if count == 0 { -1 } else { max_timestamp },
            producer_id: producer.id,
            producer_epoch: producer.epoch,
            base_sequence: producer.base_sequence,
            count,
        };
        header.stamp(&mut buf);
        Ok(Sealed { data: buf.into(), count })
    }
}

/// The same batch from another producer, or under another sequence number: one copy and a new checksum.
pub fn reseal(data: &[u8], producer: Producer) -> Bytes {
    let mut buf = data.to_vec();
    if let Some(fields) = buf.get_mut(43..57) {
        let (id, rest) = fields.split_at_mut(8);
        let (epoch, sequence) = rest.split_at_mut(2);
        id.copy_from_slice(&producer.id.to_be_bytes());
        epoch.copy_from_slice(&producer.epoch.to_be_bytes());
        sequence.copy_from_slice(&producer.base_sequence.to_be_bytes());
    }
    let crc = buf.get(21..).map_or(0, crc32c);
    if let Some(field) = buf.get_mut(17..21) {
        field.copy_from_slice(&crc.to_be_bytes());
    }
    buf.into()
}

/// Small numbers put together in a register. Storing all of it is cheaper than as many bytes as are used, and pushing
/// them one by one to a vector dearer than both.
#[derive(Clone, Copy)]
struct Varint {
    bytes: u64,
    len: usize,
}

impl Varint {
    /// A number of at most three bytes.
    #[inline]
    fn new(v: u64) -> Self {
        match v {
            0..0x80 => Self { bytes: v, len: 1 },
            0x80..0x4000 => Self { bytes: (v + (v & 0x3f80)) | 0x80, len: 2 },
            _ => Self { bytes: v << 2 & 0x7f_0000 | v << 1 & 0x7f00 | v & 0x7f | 0x8080, len: 3 },
        }
    }

    #[inline]
    fn then(self, next: Self) -> Self {
        Self { bytes: self.bytes | next.bytes.wrapping_shl(8 * self.len as u32), len: self.len + next.len }
    }

    /// The bytes of both, of which this has one to seven: halves are cheaper to shift than 128 bits.
    #[inline]
    fn beside(self, next: Self) -> [u8; 16] {
        let shift = 8 * self.len as u32;
        let (low, high) = (next.bytes.wrapping_shl(shift), next.bytes.wrapping_shr(64 - shift));
        (u128::from(self.bytes | low) | u128::from(high) << 64).to_le_bytes()
    }
}

/// Appends the first `len` bytes.
#[inline]
fn put_first<const N: usize>(buf: &mut Vec<u8>, bytes: &[u8; N], len: usize) {
    let end = buf.len() + len;
    buf.extend_from_slice(bytes);
    buf.truncate(end);
}

/// Appends bytes; 8 to 16 of them, as many keys have, in two registers: a call for those takes as long as all the numbers
/// of a record.
#[inline]
fn put_bytes(buf: &mut Vec<u8>, bytes: &[u8]) {
    let len = bytes.len();
    match (bytes.first_chunk(), bytes.last_chunk()) {
        (Some(first), Some(last)) if len <= 16 => {
            let low = u64::from_le_bytes(*first);
            // The last eight without those that are among the first.
            let high = u64::from_le_bytes(*last).checked_shr(8 * (16 - len as u32)).unwrap_or_default();
            put_first(buf, &(u128::from(low) | u128::from(high) << 64).to_le_bytes(), len);
        }
        _ => buf.extend_from_slice(bytes),
    }
}

/// A record's fields before its headers, of any size.
#[cold]
#[inline(never)]
fn put_slowly(
    buf: &mut Vec<u8>,
    size: usize,
    timestamp_delta: i64,
    offset_delta: i32,
    key: Option<&[u8]>,
    value: Option<&[u8]>,
) {
    put_i64(buf, size as i64);
    buf.push(0); // attributes
    put_i64(buf, timestamp_delta);
    put_i32(buf, offset_delta);
    put_sized(buf, key);
    put_sized(buf, value);
}

#[inline]
fn zigzag(v: i64) -> u64 {
    (v << 1 ^ v >> 63) as u64
}

/// A length in zigzag order; -1 for none.
#[inline]
fn length(bytes: Option<&[u8]>) -> u64 {
    bytes.map_or(1, |b| 2 * b.len() as u64)
}

#[inline]
fn sized(bytes: Option<&[u8]>) -> usize {
    bytes.map_or(1, |b| len_i64(b.len() as i64) + b.len())
}

#[inline]
fn put_sized(buf: &mut Vec<u8>, bytes: Option<&[u8]>) {
    match bytes {
        None => put_i32(buf, -1),
        Some(b) => {
            put_i32(buf, b.len() as i32);
            buf.extend_from_slice(b);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The records of a batch as the format says, a field at a time.
    fn plainly(timestamp_delta: i64, delta: i32, key: Option<&[u8]>, value: Option<&[u8]>) -> Vec<u8> {
        let (mut body, mut out) = (vec![0], Vec::new());
        put_i64(&mut body, timestamp_delta);
        put_i32(&mut body, delta);
        put_sized(&mut body, key);
        put_sized(&mut body, value);
        put_i32(&mut body, 0);
        put_i32(&mut out, body.len() as i32);
        out.append(&mut body);
        out
    }

    #[test]
    fn a_record_whose_parts_are_small_may_be_large() {
        let part = vec![7; 1 << 19];
        let below = |bits: u32, room| part.get(..(1usize << bits) - room).map(<[u8]>::to_vec).unwrap_or_default();
        for bits in [17, 18, 19] {
            // One header without a key takes five bytes besides its value.
            let (key, header) = (below(18, 1), below(bits, 6));
            let mut builder = BatchBuilder::with_capacity(0);
            let appended = builder.append(0, Some(&key), Some(&key), &[("", Some(&header))]);
            let sealed = builder.seal(Compression::None, Producer::NONE).expect("nothing to compress");
            let batch = super::super::batches(sealed.data).next().expect("one").expect("whole");
            let records = batch.records(1 << 30).expect("as sealed");
            let data = records.data().clone();
            let found: Vec<_> = records.map(|record| record.expect("as appended")).collect();
            assert_eq!(data.len(), appended.size);
            assert_eq!(found.len(), 1);
            assert_eq!((found[0].key(&data), found[0].value(&data)), (Some(&key[..]), Some(&key[..])));
            assert_eq!(found[0].headers(&data).next(), Some((&b""[..], Some(&header[..]))));
        }
    }

    #[test]
    fn numbers_of_every_size_are_written_as_the_format_says() {
        let bytes: Vec<u8> = (0..=250).cycle().take(3 << 20).collect();
        let sizes = [0, 1, 7, 8, 9, 15, 16, 17, 33, 63, 64, 8191, 8192, 1 << 20, 3 << 20];
        let parts: Vec<Option<&[u8]>> = sizes.iter().map(|n| bytes.get(..*n)).chain([None]).collect();
        let powers = (0..63).flat_map(|shift| [1 << shift, -(1 << shift), (1i64 << shift) - 1]);
        let cases = powers.map(|timestamp_delta| (timestamp_delta, 1, None, Some(&b"value"[..])));
        let cases = cases.chain((0..31).map(|shift| (3, 1 << shift, Some(&b"key"[..]), None)));
        let cases = cases.chain(parts.iter().map(|part| (-1, 70, *part, Some(&b""[..]))));
        let cases = cases.chain(parts.iter().map(|part| (i64::MAX, i32::MAX, Some(&b"key"[..]), *part)));
        for (timestamp_delta, delta, key, value) in cases {
            let mut builder = BatchBuilder::with_capacity(0).with_base_timestamp(0);
            let appended = builder.append_at(delta, timestamp_delta, key, value, &[]);
            let expected = plainly(timestamp_delta, delta, key, value);
            assert_eq!(appended.size, expected.len());
            assert!(appended.size <= max_record_size(key, value, &[]));
            assert!(builder.buf[HEADER_SIZE..] == expected, "{timestamp_delta} {delta}");
        }
    }
}
