//! Compares the format of Kafka 0.7 with the current format: 10,000 messages of Kafka 0.7 (magic 1) and 10,000 records
//! of magic 2, all uncompressed.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use klamm::compress::Compression;
use klamm_bench_codec::{SHAPES, klamm as ours, legacy};
use std::hint::black_box;

fn decode(c: &mut Criterion) {
    let mut group = c.benchmark_group("legacy");
    for shape in SHAPES {
        let plain = shape.plain();
        let (old, new) = (legacy::answer(&plain), ours::encode(&plain, Compression::None));
        assert_eq!(
            (legacy::read(&old), ours::views(&new)),
            (shape.records * (shape.key + shape.value), legacy::read(&old))
        );
        group.throughput(Throughput::Elements(shape.records as u64));
        group.bench_function(BenchmarkId::new("magic 1", shape.name), |b| b.iter(|| legacy::read(black_box(&old))));
        group.bench_function(BenchmarkId::new("magic 2", shape.name), |b| b.iter(|| ours::views(black_box(&new))));
    }
    group.finish();
}

criterion_group!(benches, decode);
criterion_main!(benches);
