//! Tests message formats 0 and 1, which old clients write and read.

use super::{World, batch, batch_at, fetch_request, produce_request, record, values};
use bytes::Bytes;
use klamm::api::*;
use klamm::compress::Compression;
use klamm::record::{MessageSetBuilder, Producer, batches};

fn messages(mut set: MessageSetBuilder, values: &[&str], compression: Compression) -> Bytes {
    for value in values {
        // Offsets that a client writes are ignored.
        set.append(0, 1_000, Some(b"k"), Some(value.as_bytes()));
    }
    set.seal(compression).unwrap().into()
}

impl World {
    fn produce_in(&mut self, version: i16, records: Bytes) -> produce::PartitionResponse {
        self.call(1, version, &produce_request("t", records)).responses.remove(0).partition_responses.remove(0)
    }

    fn fetch_in(&mut self, version: i16, request: &fetch::Request) -> fetch::PartitionResponse {
        self.call(1, version, request).responses.remove(0).partitions.remove(0)
    }
}

/// Returns magic, offset, timestamp and value of each record.
fn old(records: &Option<Bytes>) -> Vec<(i8, i64, i64, String)> {
    let mut out = Vec::new();
    for batch in batches(records.clone().unwrap()) {
        let batch = batch.unwrap();
        batch.check_crc().unwrap();
        let mut records = batch.records(1 << 20).unwrap();
        while let Some(view) = records.next_view() {
            let view = view.unwrap();
            let value = String::from_utf8(view.value().unwrap().to_vec()).unwrap();
            out.push((batch.header.magic, view.offset(), view.timestamp(), value));
        }
    }
    out
}

#[test]
fn old_message_formats_are_stored_and_converted_for_each_reader() {
    for compression in [Compression::None, Compression::Gzip] {
        let mut world = World::with_topic();
        let zero = messages(MessageSetBuilder::magic_0(), &["a", "b"], compression);
        assert_eq!(world.produce_in(0, zero).base_offset, 0);
        let one = messages(MessageSetBuilder::magic_1(None), &["c", "d"], compression);
        let answer = world.produce_in(2, one);
        assert_eq!((answer.error_code, answer.base_offset), (ErrorCode::NONE, 2));
        let two = batch_at(super::START_MS, &["e"], compression, Producer::NONE);
        assert_eq!(world.produce(two).base_offset, 4);

        let all = ["a", "b", "c", "d", "e"];
        let times = [-1, -1, 1_000, 1_000, super::START_MS];
        for (version, magic) in [(0, 0), (1, 0), (2, 1), (3, 1), (4, 2)] {
            let found = old(&world.fetch_in(version, &fetch_request(0)).records);
            let time = |time| if magic == 0 { -1 } else { time };
            let expected = (0..).zip(all).zip(times).map(|((n, v), t)| (magic, n, time(t), v.to_owned()));
            assert_eq!(found, expected.collect::<Vec<_>>(), "v{version} {compression:?}");
        }
        assert_eq!(old(&world.fetch_in(1, &fetch_request(4)).records), [(0, 4, -1, "e".to_owned())]);
    }
}

#[test]
fn unreadable_messages_are_rejected() {
    let mut world = World::with_topic();
    let good = messages(MessageSetBuilder::magic_1(None), &["a"], Compression::None);
    let mut bad = good.to_vec();
    *bad.last_mut().unwrap() ^= 1;
    assert_eq!(world.produce_in(2, bad.into()).error_code, ErrorCode::CORRUPT_MESSAGE);
    assert_eq!(world.produce_in(3, good.clone()).error_code, ErrorCode::INVALID_RECORD);
    let mixed = [good, batch(&["b"], Producer::NONE)].concat();
    assert_eq!(world.produce_in(2, mixed.into()).error_code, ErrorCode::INVALID_RECORD);
    assert_eq!(world.fetch(&fetch::Request { max_wait_ms: 0, ..fetch_request(0) }).high_watermark, 0);
}

#[cfg(feature = "zstd")]
#[test]
fn zstd_has_no_old_form() {
    let mut world = World::with_topic();
    world.produce(batch_at(super::START_MS, &["a"], Compression::Zstd, Producer::NONE));
    assert_eq!(world.fetch_in(3, &fetch_request(0)).error_code, ErrorCode::UNSUPPORTED_COMPRESSION_TYPE);
    assert_eq!(values(&world.fetch_in(10, &fetch_request(0)).records), [record(0, "a")]);
}

#[test]
fn a_message_larger_than_the_limit_is_cut_off_before_version_3() {
    let mut world = World::with_topic();
    world.produce(batch(&["0123456789"], Producer::NONE));
    let mut request = fetch_request(0);
    request.topics[0].partitions[0].partition_max_bytes = 20;
    assert_eq!(world.fetch_in(2, &request).records.unwrap().len(), 20);
    assert_eq!(old(&world.fetch_in(3, &request).records).len(), 1);
}
