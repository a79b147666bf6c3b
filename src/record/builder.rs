//! Writes a batch. The builder encodes each record once, at its final position, and fills in the header at the end.

use super::{HEADER_SIZE, Header, crc32c};
use crate::compress::{self, Codec, Compression, compress};
use crate::wire::varint::{len_i64, put_i32, put_i64};
use bytes::Bytes;

/// The producer of a batch. Idempotent and transactional producers have an ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Producer {
    /// The producer ID from InitProducerId, or -1.
    pub id: i64,
    /// The epoch of the producer ID, or -1.
    pub epoch: i16,
    /// The sequence number of the first record, or -1.
    pub base_sequence: i32,
    /// Whether the batch belongs to a transaction.
    pub transactional: bool,
}

impl Producer {
    /// A producer without an ID.
    pub const NONE: Self = Self { id: -1, epoch: -1, base_sequence: -1, transactional: false };
}

/// Returns an upper bound for the size of a record in a batch.
pub fn max_record_size(key: Option<&[u8]>, value: Option<&[u8]>, headers: &[(&[u8], Option<&[u8]>)]) -> usize {
    // Size, attributes, both deltas, two lengths, header count: 5 + 1 + 10 + 5 + 5 + 5 + 5.
    let headers: usize = headers.iter().map(|(k, v)| 10 + k.len() + v.map_or(0, <[u8]>::len)).sum();
    36 + key.map_or(0, <[u8]>::len) + value.map_or(0, <[u8]>::len) + headers
}

/// Returns the exact size of a record at the start of a batch. The function is slower than [`max_record_size`].
#[cold]
pub fn first_record_size(key: Option<&[u8]>, value: Option<&[u8]>, headers: &[(&[u8], Option<&[u8]>)]) -> usize {
    let each: usize = headers.iter().map(|(k, v)| sized(Some(*k)) + sized(*v)).sum();
    // One byte each for the attributes and the deltas, which are 0.
    let size = 3 + sized(key) + sized(value) + len_i64(headers.len() as i64) + each;
    len_i64(size as i64) + size
}

/// The result of [`BatchBuilder::append`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// The index of the record in the batch, from 0.
    pub index: i32,
    /// The size of the record in bytes.
    pub size: usize,
}

/// A batch to which the caller appends records.
#[derive(Debug)]
pub struct BatchBuilder {
    buf: Vec<u8>,
    count: i32,
    /// The number of offsets that have no record.
    gaps: i32,
    base_timestamp: Option<i64>,
    max_timestamp: i64,
    deltas: Deltas,
}

/// A batch that is ready to send. The caller can still set the offsets, the producer and the sequence numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sealed {
    /// The bytes of the batch.
    pub data: Bytes,
    /// Number of records.
    pub count: i32,
}

impl BatchBuilder {
    /// Creates an empty batch with a capacity of `capacity` bytes.
    pub fn with_capacity(capacity: usize) -> Self {
        Self::with_buffer(Vec::with_capacity(capacity.max(HEADER_SIZE) + ROOM))
    }

    /// Creates an empty batch in the memory of an old batch.
    pub fn with_buffer(mut buf: Vec<u8>) -> Self {
        buf.clear();
        buf.resize(HEADER_SIZE + ROOM, 0);
        Self { buf, count: 0, gaps: 0, base_timestamp: None, max_timestamp: i64::MIN, deltas: Deltas::default() }
    }

    /// Makes timestamps relative to the delete horizon `ms` instead of the first timestamp.
    pub fn with_base_timestamp(self, ms: i64) -> Self {
        Self { base_timestamp: Some(ms), ..self }
    }

    /// Returns the current size, including the header.
    pub fn size(&self) -> usize {
        self.buf.len() - ROOM
    }

    /// Returns the current number of records.
    pub fn count(&self) -> i32 {
        self.count
    }

    /// Appends a record. Timestamps are milliseconds since 1970.
    #[inline]
    pub fn append(
        &mut self,
        timestamp: i64,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: &[(&[u8], Option<&[u8]>)],
    ) -> Appended {
        self.put(self.count + self.gaps, timestamp, key, value, headers)
    }

    /// Appends a record at offset `delta` after the base offset. Compaction leaves gaps between offsets.
    pub fn append_at(
        &mut self,
        delta: i32,
        timestamp: i64,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: &[(&[u8], Option<&[u8]>)],
    ) -> Appended {
        self.gaps = delta - self.count;
        self.deltas.until = i32::MIN; // what is kept is for the offset behind the last one
        self.put(delta, timestamp, key, value, headers)
    }

    #[inline]
    fn put(
        &mut self,
        delta: i32,
        timestamp: i64,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: &[(&[u8], Option<&[u8]>)],
    ) -> Appended {
        let (index, start) = (self.count, self.size());
        if delta < self.deltas.until && timestamp == self.deltas.timestamp {
            self.deltas.bytes = self.deltas.bytes.wrapping_add(self.deltas.step);
        } else {
            self.max_timestamp = self.max_timestamp.max(timestamp);
            let base = *self.base_timestamp.get_or_insert(timestamp);
            self.deltas = Deltas::new(delta, timestamp, base);
        }
        let headers_size = match headers {
            [] => 1,
            _ => {
                len_i64(headers.len() as i64) + headers.iter().map(|(k, v)| sized(Some(*k)) + sized(*v)).sum::<usize>()
            }
        };
        let (key_bytes, value_bytes) = (key.unwrap_or_default(), value.unwrap_or_default());
        let payload = key_bytes.len() + value_bytes.len() + headers_size;
        let buf = &mut self.buf;
        if let Some(room) = buf.last_chunk_mut()
            && payload < self.deltas.limit
        {
            let (key_length, value_length) = (Varint::new(length(key)), Varint::new(length(value)));
            let deltas_len = self.deltas.len & 7; // as it is; so that the compiler knows that it stays in the room
            let size = deltas_len + key_length.len + value_length.len + payload;
            let mut front = Front { room, len: 0 };
            front.number(Varint::new(2 * size as u64));
            front.set(front.len, self.deltas.bytes.to_le_bytes());
            front.len += deltas_len;
            front.number(key_length);
            if front.bytes(key_bytes) {
                front.number(value_length);
                let value_start = start + front.len;
                if front.bytes(value_bytes) {
                    let end = start + front.len;
                    buf.truncate(end);
                } else {
                    buf.truncate(value_start);
                    // Reserved at once for everything that follows, here and below: a vector that grew for a large
                    // value would double for the zeros after it.
                    if value_bytes.len() + headers_size >= LARGE {
                        buf.reserve(value_bytes.len() + headers_size + ROOM);
                    }
                    buf.extend_from_slice(value_bytes);
                }
            } else {
                let key_start = start + front.len;
                buf.truncate(key_start);
                buf.reserve(payload + 4 + ROOM);
                buf.extend_from_slice(key_bytes);
                let value_start = buf.len() + value_length.len;
                buf.extend_from_slice(&(value_length.bytes as u32).to_le_bytes());
                buf.truncate(value_start);
                buf.extend_from_slice(value_bytes);
            }
        } else {
            buf.truncate(start);
            let timestamp_delta = timestamp.wrapping_sub(self.base_timestamp.unwrap_or(timestamp));
            put_slowly(buf, timestamp_delta, delta, key, value, headers_size);
        }
        match headers {
            // The zero byte before these zeros is their encoding.
            [] => buf.extend_from_slice(&[0; 1 + ROOM]),
            _ => put_headers(buf, headers, headers_size),
        }
        self.count += 1;
        Appended { index, size: self.size() - start }
    }

    /// Compresses the records and fills in the header. The base offset is 0 and the leader epoch -1, as in every batch
    /// from a producer. The broker sets both fields. Fails if the batch, or the uncompressed records, exceed 2 GiB.
    pub fn seal(self, codec: impl Into<Codec>, producer: Producer) -> Result<Sealed, compress::Error> {
        let Self { mut buf, count, gaps, base_timestamp, max_timestamp, .. } = self;
        let codec = codec.into();
        buf.truncate(buf.len() - ROOM);
        check_size(buf.len(), codec.compression())?;
        if codec.compression() != Compression::None {
            let mut packed = Vec::with_capacity(HEADER_SIZE + buf.len() / 2);
            packed.resize(HEADER_SIZE, 0);
            compress(codec, &buf[HEADER_SIZE..], &mut packed)?;
            check_size(packed.len(), codec.compression())?;
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

/// Fails if the total length of a record, or a length in the record, does not fit into 31 bits.
pub(super) fn check_size(size: usize, compression: Compression) -> Result<(), compress::Error> {
    let why = || format!("{size} bytes are more than a batch may have, 2 GiB");
    i32::try_from(size).map(drop).map_err(|_| compress::Error::refused(compression, why()))
}

/// Returns the same batch for another producer or sequence number, with one copy and a new checksum.
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

/// The smallest size from which the builder reserves the memory for a value and its headers at once. For smaller
/// records, doubling the vector is as fast, and a reservation would cost time for each record.
const LARGE: usize = 1024;

/// The number of zeros after the last record. The builder writes the start of the next record over these zeros, because
/// growing the vector with each field takes longer than encoding all numbers. The zeros have room for 44 bytes: a size
/// of three bytes, deltas of seven bytes, and a key and a value of 17 bytes each, including their lengths. Together
/// with the byte before them, the zeros fill three registers.
const ROOM: usize = 47;

/// The encoding of a number, in at most three bytes.
#[derive(Clone, Copy)]
struct Varint {
    bytes: u64,
    len: usize,
}

impl Varint {
    #[inline]
    fn new(v: u64) -> Self {
        match v {
            0..0x80 => Self { bytes: v, len: 1 },
            0x80..0x4000 => Self { bytes: v + (v & !0x7f) + 0x80, len: 2 },
            _ => Self { bytes: v << 2 & 0x7f_0000 | v << 1 & 0x7f00 | v & 0x7f | 0x8080, len: 3 },
        }
    }
}

/// The encoded attributes, timestamp delta and offset delta of a record, for reuse by the next record. In most batches,
/// the next record has the same timestamp and the next offset. Encoding these fields again would take an eighth of the
/// time for a record of 100 bytes.
#[derive(Debug, Default)]
struct Deltas {
    /// The timestamp that the encoded delta stands for.
    timestamp: i64,
    /// The offset delta from which the encoding needs more than an addition of `step`.
    until: i32,
    /// One zero byte and the two encoded deltas, with the lowest byte first. The value is undefined if `limit` is 0.
    bytes: u64,
    /// The number that the next offset adds to `bytes`.
    step: u64,
    /// The number of valid bytes in `bytes`, at most seven.
    len: usize,
    /// If key, value and headers together are shorter than this, each number of the record takes at most three bytes.
    /// The limit is 0 if the deltas are too large.
    limit: usize,
}

impl Deltas {
    #[inline]
    fn new(offset: i32, timestamp: i64, base: i64) -> Self {
        let (first, second) = (zigzag(timestamp.wrapping_sub(base)), zigzag(offset.into()));
        let limit = if (first | second) < 1 << 19 { 1 << 18 } else { 0 };
        let (first, second) = (Varint::new(first), Varint::new(second));
        let shift = 8 * (1 + first.len);
        Self {
            timestamp,
            until: if offset < 0 { i32::MIN } else { (offset | 0x3f).saturating_add(1) },
            bytes: first.bytes << 8 | second.bytes << shift,
            step: 2 << shift,
            len: 1 + first.len + second.len,
            limit,
        }
    }
}

/// The start of a record that the builder is writing.
struct Front<'a> {
    room: &'a mut [u8; ROOM],
    len: usize,
}

impl Front<'_> {
    /// Writes all four bytes of an encoded number. The next field overwrites the bytes that the number does not need.
    #[inline]
    fn number(&mut self, number: Varint) {
        self.set(self.len, (number.bytes as u32).to_le_bytes());
        self.len += number.len;
    }

    /// Writes short bytes as two overlapping halves. Most keys are short. Returns false if the bytes are too long. A
    /// call to copy the bytes would take as long as all numbers of the record.
    #[inline]
    fn bytes(&mut self, bytes: &[u8]) -> bool {
        let len = bytes.len();
        if let (Some(first), Some(last)) = (bytes.first_chunk::<8>(), bytes.last_chunk::<8>()) {
            if len > 16 {
                return false;
            }
            self.set(self.len, *first);
            self.set(self.len + len - 8, *last);
        } else if let (Some(first), Some(last)) = (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
            self.set(self.len, *first);
            self.set(self.len + len - 4, *last);
        } else {
            return false;
        }
        self.len += len;
        true
    }

    #[inline]
    fn set<const N: usize>(&mut self, at: usize, bytes: [u8; N]) {
        if let Some(field) = self.room.get_mut(at..).and_then(|rest| rest.first_chunk_mut()) {
            *field = bytes;
        }
    }
}

/// Writes the fields of a record before its headers. The fields may have any size.
#[cold]
#[inline(never)]
fn put_slowly(
    buf: &mut Vec<u8>,
    timestamp_delta: i64,
    offset_delta: i32,
    key: Option<&[u8]>,
    value: Option<&[u8]>,
    headers_size: usize,
) {
    let numbers = 1 + len_i64(timestamp_delta) + len_i64(offset_delta.into());
    let size = numbers + sized(key) + sized(value) + headers_size;
    buf.reserve(len_i64(size as i64) + size + ROOM);
    put_i64(buf, size as i64);
    buf.push(0); // attributes
    put_i64(buf, timestamp_delta);
    put_i32(buf, offset_delta);
    put_sized(buf, key);
    put_sized(buf, value);
}

/// Writes the headers, and the zeros for the next record.
#[inline(never)]
fn put_headers(buf: &mut Vec<u8>, headers: &[(&[u8], Option<&[u8]>)], size: usize) {
    buf.reserve(size + ROOM);
    put_i32(buf, headers.len() as i32);
    for (k, v) in headers {
        put_sized(buf, Some(*k));
        put_sized(buf, *v);
    }
    buf.extend_from_slice(&[0; ROOM]);
}

#[inline]
fn zigzag(v: i64) -> u64 {
    (v << 1 ^ v >> 63) as u64
}

/// Encodes a length with zigzag, where -1 is null.
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

    /// Encodes the records of a batch field by field, exactly as the format specifies.
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
            // A header without a key takes five bytes besides its value.
            let (key, header) = (below(18, 1), below(bits, 6));
            let mut builder = BatchBuilder::with_capacity(0);
            let appended = builder.append(0, Some(&key), Some(&key), &[(&b""[..], Some(&header))]);
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
    fn the_size_of_a_first_record_is_predicted() {
        let bytes = vec![7; 1 << 20];
        for size in [0, 63, 64, 8_191, 8_192, 1 << 20] {
            for headers in [&[][..], &[(&b"name"[..], None), (b"", Some(&bytes[..size]))], &[(&b""[..], None); 64]] {
                for key in [None, Some(&bytes[..size])] {
                    let appended = BatchBuilder::with_capacity(0).append(1_000, key, Some(&bytes[..size]), headers);
                    assert_eq!(appended.size, first_record_size(key, Some(&bytes[..size]), headers));
                }
            }
        }
    }

    #[test]
    fn records_that_follow_one_another_are_written_as_the_format_says() {
        let timestamps = [0, 0, 0, 1, 1, 70, 70, 69, 8_192, 8_192, 1 << 20, 1 << 20, i64::MAX, i64::MAX, i64::MIN, -1];
        let bytes = [7; 100];
        for (runs, size) in [(1, 3), (3, 16), (200, 100)] {
            let part = Some(&bytes[..size]);
            let mut builder = BatchBuilder::with_capacity(0).with_base_timestamp(0);
            let (mut expected, mut next) = (Vec::new(), 0i32);
            for i in 0..40_000 {
                let timestamp = timestamps[i / runs % timestamps.len()];
                let jump = match i {
                    10 => Some(60),
                    20 => Some(-200),
                    1_000 => Some(8_180),
                    2_000 => Some((1 << 18) - 70),
                    3_000 => Some(i32::MAX - 500),
                    3_400 => Some(0),
                    _ => None,
                };
                match jump {
                    Some(delta) => {
                        next = delta;
                        builder.append_at(delta, timestamp, part, part, &[])
                    }
                    None => builder.append(timestamp, part, part, &[]),
                };
                expected.extend(plainly(timestamp, next, part, part));
                next += 1;
            }
            assert!(builder.buf[HEADER_SIZE..builder.size()] == expected, "{runs}");
        }
    }

    #[test]
    fn a_batch_grows_only_beyond_its_capacity() {
        for (key, value) in [(0, 0), (4, 8), (16, 100), (16, 3), (36, 8), (300, 5000), (0, 300_000)] {
            let (key, value) = (vec![7; key], vec![7; value]);
            for headers in [&[][..], &[(&b"name"[..], Some(&b"value"[..]))]] {
                let bound = max_record_size(Some(&key), Some(&value), headers);
                let capacity = HEADER_SIZE + 9 * bound;
                let mut builder = BatchBuilder::with_capacity(capacity);
                let room = builder.buf.capacity();
                while builder.size() + bound <= capacity {
                    builder.append(i64::from(builder.count), Some(&key), Some(&value), headers);
                }
                assert!(builder.count >= 9);
                assert_eq!(builder.buf.capacity(), room, "{} {}", key.len(), value.len());
            }
        }
    }

    #[test]
    fn a_large_record_gets_the_memory_it_needs_and_no_more() {
        for size in [100_000, 300_000] {
            let (large, small) = (vec![7; size], [7; 8]);
            for (key, value, header) in [(0, 1, 0), (1, 1, 1), (0, 0, 1), (1, 0, 0), (0, 1, 1)] {
                let [key, value, header] = [key, value, header].map(|is_large| [&small[..], &large][is_large]);
                let headers = [(&b"name"[..], Some(header))];
                for headers in [&[][..], &headers] {
                    let mut builder = BatchBuilder::with_capacity(0);
                    builder.append(0, Some(key), Some(value), headers);
                    let most = HEADER_SIZE + max_record_size(Some(key), Some(value), headers) + ROOM;
                    assert!(builder.buf.capacity() <= most.max(2 * (HEADER_SIZE + ROOM)));
                }
            }
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
            assert!(builder.buf[HEADER_SIZE..builder.size()] == expected, "{timestamp_delta} {delta}");
        }
    }
}
