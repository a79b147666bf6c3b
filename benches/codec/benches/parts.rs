//! Measures the parts of the work that every record needs: varints and checksums.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use klamm::record::crc32c;
use klamm::wire::varint;
use std::hint::black_box;

const COUNT: i64 = 10_000;

fn varints(c: &mut Criterion) {
    let mut encoded = Vec::new();
    for i in 0..COUNT {
        varint::put_i64(&mut encoded, i * i);
    }
    let mut group = c.benchmark_group("varint");
    group.throughput(Throughput::Elements(COUNT as u64));
    group.bench_function("decode", |b| {
        b.iter(|| {
            let (mut data, mut sum) = (black_box(encoded.as_slice()), 0i64);
            while let Some(v) = varint::take_i64(&mut data) {
                sum = sum.wrapping_add(v);
            }
            sum
        });
    });
    group.bench_function("encode", |b| {
        let mut out = Vec::with_capacity(encoded.len());
        b.iter(|| {
            out.clear();
            for i in 0..black_box(COUNT) {
                varint::put_i64(&mut out, i * i);
            }
            out.len()
        });
    });
    group.finish();
}

fn checksum(c: &mut Criterion) {
    let data = vec![7u8; 1 << 20];
    let mut group = c.benchmark_group("checksum");
    for size in [100, 1 << 10, 16 << 10, 1 << 20] {
        group.throughput(Throughput::Bytes(size as u64));
        group.bench_function(format!("{size} bytes"), |b| b.iter(|| crc32c(black_box(&data[..size]))));
        // The two libraries from which klamm chooses.
        group.bench_function(format!("{size} bytes, crc-fast"), |b| {
            b.iter(|| crc_fast::crc32_iscsi(black_box(&data[..size])));
        });
        group.bench_function(format!("{size} bytes, crc32c"), |b| b.iter(|| crc32c::crc32c(black_box(&data[..size]))));
    }
    group.finish();
}

criterion_group!(benches, varints, checksum);
criterion_main!(benches);
