//! Tests the removal of records on request, by age, by size, and by compaction.

use super::{START_MS, World, batch, fetch_request, record, values};
use bytes::Bytes;
use klamm::api::*;
use klamm::broker::Options;
use klamm::compress::Compression;
use klamm::record::{BatchBuilder, Producer, batches};
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);

fn keyed(timestamp: i64, records: &[(&str, Option<&str>)], producer: Producer) -> Bytes {
    let mut builder = BatchBuilder::with_capacity(0);
    for (key, value) in records {
        builder.append(timestamp, Some(key.as_bytes()), value.map(str::as_bytes), &[(b"h", Some(b"x"))]);
    }
    builder.seal(Compression::None, producer).unwrap().data
}

/// Returns offset, key and value of all records.
fn read(world: &mut World) -> Vec<(i64, String, Option<String>)> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let (mut out, mut offset) = (Vec::new(), 0);
    loop {
        let data = world.fetch(&fetch::Request { max_wait_ms: 0, ..fetch_request(offset) }).records.unwrap();
        if data.is_empty() {
            return out;
        }
        for batch in batches(data) {
            let batch = batch.unwrap();
            batch.check_crc().unwrap();
            offset = batch.header.next_offset();
            let mut records = batch.records(1 << 20).unwrap();
            while let Some(view) = records.next_view() {
                let view = view.unwrap();
                out.push((view.offset(), text(view.key().unwrap()), view.value().map(text)));
            }
        }
    }
}

impl World {
    fn delete_records(&mut self, offset: i64) -> (i64, ErrorCode) {
        let partition = delete_records::Partition { partition_index: 0, offset };
        let topic = delete_records::Topic { name: "t".to_owned(), partitions: vec![partition] };
        let request = delete_records::Request { topics: vec![topic], timeout_ms: 1000 };
        let answer = self.call(1, 2, &request).topics.remove(0).partitions.remove(0);
        (answer.low_watermark, answer.error_code)
    }

    fn log_start(&mut self) -> i64 {
        let partition = list_offsets::Partition { timestamp: list_offsets::EARLIEST, ..Default::default() };
        let topic = list_offsets::Topic { name: "t".to_owned(), partitions: vec![partition] };
        self.call(1, 7, &list_offsets::Request { topics: vec![topic], ..Default::default() }).topics[0].partitions[0]
            .offset
    }
}

#[test]
fn deleted_records_are_invisible_and_free_their_memory() {
    let mut world = World::new(Options { max_bytes: 1700, ..Options::default() });
    world.create("t", 1, &[]);
    let large = "x".repeat(400);
    for _ in 0..3 {
        assert_eq!(world.produce(batch(&[&large, "b"], Producer::NONE)).error_code, ErrorCode::NONE);
    }
    assert_eq!(world.produce(batch(&[&large], Producer::NONE)).error_code, ErrorCode::KAFKA_STORAGE_ERROR);
    assert_eq!(world.delete_records(3), (3, ErrorCode::NONE));
    assert_eq!(world.delete_records(1), (3, ErrorCode::NONE), "an earlier offset changes nothing");
    assert_eq!(world.fetch(&fetch_request(2)).error_code, ErrorCode::OFFSET_OUT_OF_RANGE);
    let answer = world.fetch(&fetch_request(3));
    // Whole batches are returned.
    assert_eq!((answer.log_start_offset, values(&answer.records)[1].clone()), (3, record(3, "b")));
    assert_eq!(world.produce(batch(&[&large], Producer::NONE)).base_offset, 6);
    assert_eq!(world.delete_records(8), (-1, ErrorCode::OFFSET_OUT_OF_RANGE));
    assert_eq!(world.delete_records(-1), (7, ErrorCode::NONE));
    assert_eq!(world.produce(batch(&["z"], Producer::NONE)).base_offset, 7);
    assert_eq!(values(&world.fetch(&fetch_request(7)).records), [record(7, "z")]);
}

#[test]
fn records_are_deleted_by_age() {
    let mut world = World::new(Options::default());
    world.create("t", 1, &[("retention.ms", "7200000"), ("segment.ms", "1000")]);
    for hour in 0..3 {
        world.produce(keyed(START_MS + hour * 3_600_000, &[("k", Some("v"))], Producer::NONE));
        world.advance(HOUR);
    }
    assert_eq!(world.log_start(), 1, "the first is three hours old, the second two");
    world.advance(HOUR + Duration::from_secs(1));
    assert_eq!(world.log_start(), 3, "the last segment goes by age as well");
    assert_eq!(world.produce(batch(&["z"], Producer::NONE)).base_offset, 3);
    world.create("kept", 1, &[("retention.ms", "-1")]);
}

#[test]
fn records_are_deleted_by_size_except_in_the_last_segment() {
    let mut world = World::new(Options::default());
    world.create("t", 1, &[("retention.bytes", "1000000"), ("segment.bytes", "1048576")]);
    let large = "x".repeat(700_000);
    for _ in 0..4 {
        world.produce(batch(&[&large], Producer::NONE));
    }
    world.cluster.retain(world.now);
    // A segment is deleted if enough bytes follow it.
    assert_eq!(world.log_start(), 2);
}

#[test]
fn compaction_keeps_the_newest_record_of_each_key() {
    let mut world = World::new(Options::default());
    world.create("t", 1, &[("cleanup.policy", "compact"), ("delete.retention.ms", "60000")]);
    let producer = |base_sequence| Producer { id: 9, epoch: 0, base_sequence, transactional: false };
    let old = [("a", Some("1")), ("b", Some("1")), ("a", Some("2")), ("c", Some("1"))];
    world.produce(keyed(START_MS, &old, producer(0)));
    world.produce(keyed(START_MS, &[("b", None)], producer(4)));
    world.produce(keyed(START_MS, &[("d", Some("1")), ("a", Some("3"))], producer(5)));
    world.cluster.compact(world.now, "t").unwrap();
    let of = |offset, key: &str, value: Option<&str>| (offset, key.to_owned(), value.map(str::to_owned));
    let (c, b) = (of(3, "c", Some("1")), of(4, "b", None));
    let rest = [of(5, "d", Some("1")), of(6, "a", Some("3"))];
    assert_eq!(read(&mut world), [vec![c.clone(), b], rest.to_vec()].concat());

    // A tombstone is removed after its retention, and its producer is still known.
    world.advance(Duration::from_secs(61));
    world.cluster.compact(world.now, "t").unwrap();
    assert_eq!(read(&mut world), [vec![c], rest.to_vec()].concat());
    assert_eq!(world.produce(keyed(START_MS, &[("d", None), ("a", None)], producer(7))).base_offset, 7);
    let refused = world.produce(batch(&["no key", "nor here"], Producer::NONE));
    assert_eq!(refused.error_code, ErrorCode::INVALID_RECORD);
    assert_eq!(refused.record_errors.iter().map(|record| record.batch_index).collect::<Vec<_>>(), [0, 1]);

    // No records are left, but readers reach the end.
    world.cluster.compact(world.now, "t").unwrap();
    world.advance(Duration::from_secs(61));
    world.cluster.compact(world.now, "t").unwrap();
    assert_eq!(read(&mut world), [of(3, "c", Some("1"))]);
    assert_eq!(world.delete_records(1).1, ErrorCode::POLICY_VIOLATION);
    assert!(world.cluster.compact(world.now, "none").unwrap_err().contains("does not exist"));
}
