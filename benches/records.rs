//! What a record costs between a caller's bytes and the wire: `cargo bench --bench records`.
//!
//! 10,000 records with 16-byte keys and 100-byte values in one batch, not compressed; the two parts that every record
//! pays for, varints and the checksum, on their own.

use bytes::Bytes;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use klamm::compress::{Compression, DEFAULT_LIMIT};
use klamm::record::{BatchBuilder, Producer, batches, crc32c};
use klamm::wire::varint;
use std::hint::black_box;

const RECORDS: u64 = 10_000;
const KEY: [u8; 16] = *b"0123456789abcdef";
const VALUE: [u8; 100] = [b'v'; 100];

fn encode() -> Bytes {
    let mut builder = BatchBuilder::with_capacity(2 << 20);
    for i in 0..RECORDS {
        builder.append(1_700_000_000_000 + i as i64 / 8, Some(black_box(&KEY)), Some(black_box(&VALUE)), &[]);
    }
    builder.seal(Compression::None, Producer::NONE).expect("no codec that could fail").data
}

/// Reads every record and looks at its key and value.
fn decode(data: &Bytes) -> usize {
    let mut bytes = 0;
    for batch in batches(data.clone()) {
        let batch = batch.expect("a batch written above");
        batch.check_crc().expect("a batch written above");
        let mut set = batch.records(DEFAULT_LIMIT).expect("a batch written above");
        while let Some(Ok(record)) = set.next_view() {
            bytes += black_box(record.key()).map_or(0, <[u8]>::len) + black_box(record.value()).map_or(0, <[u8]>::len);
        }
    }
    bytes
}

fn records(c: &mut Criterion) {
    let data = encode();
    assert_eq!(decode(&data), RECORDS as usize * (KEY.len() + VALUE.len()));
    let mut group = c.benchmark_group("records");
    group.throughput(Throughput::Elements(RECORDS));
    group.bench_function("encode", |b| b.iter(encode));
    group.bench_function("decode", |b| b.iter(|| decode(black_box(&data))));
    group.finish();
}

fn parts(c: &mut Criterion) {
    let mut group = c.benchmark_group("parts");
    let mut varints = Vec::new();
    for i in 0..RECORDS as i64 {
        varint::put_i64(&mut varints, i * i);
    }
    group.throughput(Throughput::Elements(RECORDS));
    group.bench_function("varints", |b| {
        b.iter(|| {
            let (mut data, mut sum) = (black_box(varints.as_slice()), 0i64);
            while let Some(v) = varint::take_i64(&mut data) {
                sum = sum.wrapping_add(v);
            }
            sum
        });
    });
    let data = encode();
    group.throughput(Throughput::Bytes(data.len() as u64));
    group.bench_function("crc32c", |b| b.iter(|| crc32c(black_box(&data))));
    group.finish();
}

criterion_group!(benches, records, parts);
criterion_main!(benches);
