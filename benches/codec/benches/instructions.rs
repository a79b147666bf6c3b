//! Counts the CPU instructions of each codec. Unlike the time, the number of instructions is the same in every run. The
//! bench needs valgrind and gungraun-runner.

use bytes::Bytes;
use gungraun::{library_benchmark, library_benchmark_group, main};
use klamm::compress::Compression;
use klamm_bench_codec::{Plain, SHAPES, barnabas, floor, kafka_protocol, klamm as ours};
use std::hint::black_box;

/// Returns records that are never freed: the work of the allocator would be counted too.
fn plain() -> &'static [Plain] {
    SHAPES[0].plain().leak()
}

fn batch() -> Bytes {
    ours::encode(plain(), Compression::None)
}

#[library_benchmark]
#[bench::klamm(plain())]
fn encode(records: &[Plain]) -> Bytes {
    black_box(ours::encode(black_box(records), Compression::None))
}

#[library_benchmark]
#[bench::kafka_protocol(kafka_protocol::records(plain()).leak())]
fn encode_peer(records: &[::kafka_protocol::records::Record]) -> Bytes {
    black_box(kafka_protocol::encode(black_box(records)))
}

#[library_benchmark]
#[bench::klamm(ours::views, batch())]
#[bench::barnabas(barnabas::decode, batch())]
#[bench::kafka_protocol(kafka_protocol::decode, batch())]
fn decode(how: fn(&Bytes) -> usize, data: Bytes) -> usize {
    black_box(how(black_box(&data)))
}

#[library_benchmark]
#[bench::klamm((ours::all_columns(), batch()))]
fn decode_to_arrow((columns, data): (klamm::arrow::Columns, Bytes)) -> usize {
    black_box(ours::columns(black_box(&data), &columns))
}

#[library_benchmark]
#[bench::copy_and_checksum(batch())]
fn lower_bound(data: Bytes) -> (Vec<u8>, u32) {
    black_box(floor::copy_and_checksum(black_box(&data)))
}

library_benchmark_group!(name = records, benchmarks = [encode, encode_peer, decode, decode_to_arrow, lower_bound]);
main!(library_benchmark_groups = records);
