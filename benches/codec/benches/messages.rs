//! Measures metadata and fetch responses of 1,000 partitions, and compares klamm with kafka-protocol.

use criterion::{Criterion, criterion_group, criterion_main};
use klamm::api::{decode, fetch, metadata};
use klamm_bench_codec::messages::*;
use std::hint::black_box;

fn metadata(c: &mut Criterion) {
    let message = metadata_response();
    let body = encoded(METADATA, &message);
    let theirs = their_metadata(&body);
    assert_eq!(their_bytes(METADATA, &theirs, 0), body);
    let mut group = c.benchmark_group("metadata of 1,000 partitions");
    group.bench_function("decode/klamm", |b| {
        b.iter(|| decode::<metadata::Response>(METADATA, black_box(&body).clone()))
    });
    group.bench_function("decode/kafka-protocol", |b| b.iter(|| their_metadata(black_box(&body))));
    group.bench_function("encode/klamm", |b| b.iter(|| encoded(METADATA, black_box(&message))));
    group.bench_function("encode/kafka-protocol", |b| b.iter(|| their_bytes(METADATA, black_box(&theirs), body.len())));
    group.finish();
}

fn fetch(c: &mut Criterion) {
    let message = fetch_response();
    let body = encoded(FETCH, &message);
    let theirs = their_fetch(&body);
    assert_eq!(their_bytes(FETCH, &theirs, 0), body);
    let mut group = c.benchmark_group("fetch of 1,000 partitions");
    group.bench_function("decode/klamm", |b| b.iter(|| decode::<fetch::Response>(FETCH, black_box(&body).clone())));
    group.bench_function("decode/kafka-protocol", |b| b.iter(|| their_fetch(black_box(&body))));
    group.bench_function("encode/klamm", |b| b.iter(|| encoded(FETCH, black_box(&message))));
    group.bench_function("encode/kafka-protocol", |b| b.iter(|| their_bytes(FETCH, black_box(&theirs), body.len())));
    group.finish();
}

criterion_group!(benches, metadata, fetch);
criterion_main!(benches);
