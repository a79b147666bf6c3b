//! Measures each compression codec on the records of a batch, and compares it with direct calls of the codec's library.
//! The bench also measures whole compressed batches.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use klamm::compress::{Compression, DEFAULT_LIMIT, compress, decompress};
use klamm_bench_codec::{SHAPES, floor, klamm as ours};
use std::hint::black_box;

fn codecs(c: &mut Criterion) {
    let plain = SHAPES[0].plain();
    let data = ours::encode(&plain, Compression::None).slice(61..);
    for compression in &Compression::ALL[1..] {
        let mut packed = Vec::new();
        compress(*compression, &data, &mut packed).expect("no codec fails to write");
        let theirs = floor::compress(*compression, &data).expect("a codec");
        let batch = ours::encode(&plain, *compression);
        let mut group = c.benchmark_group(compression.name());
        group.throughput(Throughput::Bytes(data.len() as u64));
        group.bench_function(BenchmarkId::new("compress", "klamm"), |b| {
            b.iter(|| {
                let mut out = Vec::with_capacity(data.len() / 2);
                compress(*compression, black_box(&data), &mut out).expect("as above");
                out
            });
        });
        group.bench_function(BenchmarkId::new("compress", "library"), |b| {
            b.iter(|| floor::compress(*compression, black_box(&data)));
        });
        group.bench_function(BenchmarkId::new("decompress", "klamm"), |b| {
            b.iter(|| decompress(*compression, black_box(&packed), DEFAULT_LIMIT).expect("as above"));
        });
        group.bench_function(BenchmarkId::new("decompress", "library"), |b| {
            b.iter(|| floor::decompress(*compression, black_box(&theirs), data.len()));
        });
        group.bench_function(BenchmarkId::new("batch", "encode"), |b| {
            b.iter(|| ours::encode(black_box(&plain), *compression));
        });
        group.bench_function(BenchmarkId::new("batch", "decode"), |b| b.iter(|| ours::views(black_box(&batch))));
        group.finish();
    }
}

criterion_group!(benches, codecs);
criterion_main!(benches);
