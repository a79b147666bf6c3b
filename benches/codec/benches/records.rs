//! Measures batches of 10,000 records: encoding, and decoding to views and to Arrow columns. Compares klamm with other
//! codecs and with the `floor`.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use klamm::compress::Compression;
use klamm_bench_codec::{SHAPES, barnabas, floor, kafka_protocol, klamm as ours};
use std::hint::black_box;

fn encode(c: &mut Criterion) {
    let mut group = c.benchmark_group("encode");
    for shape in SHAPES {
        let plain = shape.plain();
        let theirs = kafka_protocol::records(&plain);
        assert_eq!(
            kafka_protocol::decode(&ours::encode(&plain, Compression::None)),
            shape.records * (shape.key + shape.value)
        );
        group.throughput(Throughput::Elements(shape.records as u64));
        group.bench_function(BenchmarkId::new("klamm", shape.name), |b| {
            b.iter(|| ours::encode(black_box(&plain), Compression::None));
        });
        group.bench_function(BenchmarkId::new("kafka-protocol", shape.name), |b| {
            b.iter(|| kafka_protocol::encode(black_box(&theirs)));
        });
        let data = ours::encode(&plain, Compression::None);
        group.bench_function(BenchmarkId::new("floor", shape.name), |b| {
            b.iter(|| floor::copy_and_checksum(black_box(&data)));
        });
    }
    group.finish();
}

fn decode(c: &mut Criterion) {
    let columns = ours::all_columns();
    let mut group = c.benchmark_group("decode");
    for shape in SHAPES {
        let data = ours::encode(&shape.plain(), Compression::None);
        let bytes = shape.records * (shape.key + shape.value);
        assert_eq!((ours::views(&data), kafka_protocol::decode(&data)), (bytes, bytes));
        assert_eq!((ours::columns(&data, &columns), barnabas::decode(&data)), (shape.records, shape.records));
        group.throughput(Throughput::Elements(shape.records as u64));
        group.bench_function(BenchmarkId::new("klamm", shape.name), |b| b.iter(|| ours::views(black_box(&data))));
        group.bench_function(BenchmarkId::new("klamm to Arrow", shape.name), |b| {
            b.iter(|| ours::columns(black_box(&data), &columns));
        });
        group.bench_function(BenchmarkId::new("barnabas", shape.name), |b| {
            b.iter(|| barnabas::decode(black_box(&data)))
        });
        group.bench_function(BenchmarkId::new("kafka-protocol", shape.name), |b| {
            b.iter(|| kafka_protocol::decode(black_box(&data)));
        });
        group.bench_function(BenchmarkId::new("floor", shape.name), |b| {
            b.iter(|| floor::copy_and_checksum(black_box(&data)));
        });
    }
    group.finish();
}

criterion_group!(benches, encode, decode);
criterion_main!(benches);
