//! Tests producing: rejected batches, idempotence and limits.

use super::{Got, START_MS, World, batch, batch_at, fetch_request, produce_request, record, values};
use bytes::Bytes;
use klamm::api::*;
use klamm::broker::Options;
use klamm::compress::Compression;
use klamm::record::{Producer, batches};
use std::time::Duration;

fn idempotent(epoch: i16, base_sequence: i32) -> Producer {
    Producer { id: 9, epoch, base_sequence, transactional: false }
}

#[test]
fn a_repeated_batch_keeps_its_offset_and_a_gap_is_rejected() {
    let mut world = World::with_topic();
    for i in 0..3 {
        assert_eq!(world.produce(batch(&["a", "b"], idempotent(0, 2 * i))).base_offset, 2 * i64::from(i));
    }
    let again = world.produce(batch(&["a", "b"], idempotent(0, 2)));
    assert_eq!((again.error_code, again.base_offset), (ErrorCode::NONE, 2));
    let gap = world.produce(batch(&["a"], idempotent(0, 8)));
    assert_eq!((gap.error_code, gap.base_offset), (ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER, -1));
    assert_eq!(world.produce(batch(&["a"], idempotent(1, 0))).base_offset, 6);
    assert_eq!(world.produce(batch(&["a"], idempotent(0, 6))).error_code, ErrorCode::INVALID_PRODUCER_EPOCH);
}

#[test]
fn anything_but_one_whole_valid_batch_is_rejected() {
    let mut world = World::with_topic();
    let good = batch(&["a", "b"], Producer::NONE);
    let changed = |at: usize, byte: u8| {
        let mut bytes = good.to_vec();
        bytes[at] ^= byte;
        Bytes::from(bytes)
    };
    let resealed = |at: usize, byte: u8| {
        let mut bytes = changed(at, byte).to_vec();
        let crc = klamm::record::crc32c(&bytes[21..]);
        bytes[17..21].copy_from_slice(&crc.to_be_bytes());
        Bytes::from(bytes)
    };
    for (records, code) in [
        (changed(70, 1), ErrorCode::CORRUPT_MESSAGE),
        (good.slice(..good.len() - 1), ErrorCode::CORRUPT_MESSAGE),
        (good.slice(..10), ErrorCode::INVALID_RECORD),
        (Bytes::new(), ErrorCode::INVALID_RECORD),
        ([good.clone(), good.clone()].concat().into(), ErrorCode::INVALID_RECORD),
        (changed(16, 3), ErrorCode::INVALID_RECORD),
        (resealed(60, 1), ErrorCode::INVALID_RECORD),
        (resealed(57, 0x7f), ErrorCode::INVALID_RECORD),
        (resealed(22, 5), ErrorCode::INVALID_RECORD),
        (resealed(22, 1 << 5), ErrorCode::INVALID_RECORD),
        (resealed(27 + 8, 0x40), ErrorCode::INVALID_TIMESTAMP),
    ] {
        let answer = world.produce(records);
        assert_eq!(answer.error_code, code, "{:?}", answer.error_message);
        assert!(answer.error_message.is_some());
    }
    let without_id = world.produce(resealed(22, 1 << 4));
    assert_eq!(without_id.error_code, ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED);
    assert_eq!(world.produce(good).base_offset, 0);
}

#[test]
fn compressed_records_that_kafka_cannot_read_are_rejected() {
    let mut world = World::with_topic();
    let resealed = |mut bytes: Vec<u8>| {
        let size = u32::try_from(bytes.len() - 12).unwrap();
        bytes[8..12].copy_from_slice(&size.to_be_bytes());
        let crc = klamm::record::crc32c(&bytes[21..]);
        bytes[17..21].copy_from_slice(&crc.to_be_bytes());
        Bytes::from(bytes)
    };
    let good = |compression| batch_at(START_MS, &["a", "b"], compression, Producer::NONE).to_vec();
    let changed = |compression, at: usize, byte: u8| {
        let mut bytes = good(compression);
        bytes[61 + at] = byte;
        resealed(bytes)
    };
    let records = |payload: &[u8]| {
        let mut bytes = good(Compression::Zstd);
        bytes.truncate(61);
        klamm::compress::compress(Compression::Zstd, payload, &mut bytes).unwrap();
        resealed(bytes)
    };
    for (damaged, code) in [
        (changed(Compression::Gzip, 2, 0), ErrorCode::UNKNOWN_SERVER_ERROR),
        (changed(Compression::Snappy, 16, 0xff), ErrorCode::UNKNOWN_SERVER_ERROR),
        (changed(Compression::Lz4, 4, 0x40), ErrorCode::UNKNOWN_SERVER_ERROR), // dependent blocks
        (changed(Compression::Lz4, 0, 0), ErrorCode::UNKNOWN_SERVER_ERROR),
        (changed(Compression::Zstd, 0, 0), ErrorCode::UNKNOWN_SERVER_ERROR), // no magic number
        (records(b""), ErrorCode::INVALID_RECORD),
        (records(&[0xff; 40]), ErrorCode::INVALID_RECORD),
    ] {
        let answer = world.produce(damaged);
        assert_eq!(answer.error_code, code, "{:?}", answer.error_message);
    }
    for (n, compression) in Compression::ALL.into_iter().enumerate() {
        assert_eq!(world.produce(good(compression).into()).base_offset, 2 * i64::try_from(n).unwrap());
    }
}

#[test]
fn limits_of_topic_and_memory_reject_a_batch() {
    let mut world = World::new(Options { max_bytes: 300, ..Options::default() });
    world.create("t", 1, &[("max.message.bytes", "200")]);
    let large = "x".repeat(200);
    assert_eq!(world.produce(batch(&[&large], Producer::NONE)).error_code, ErrorCode::MESSAGE_TOO_LARGE);
    let small = batch(&[&large[..100]], Producer::NONE);
    assert_eq!(world.produce(small.clone()).error_code, ErrorCode::NONE);
    let full = world.produce(small.clone());
    assert_eq!(full.error_code, ErrorCode::KAFKA_STORAGE_ERROR);
    assert!(full.error_message.unwrap().contains("300 bytes"));
    // Deleting a topic frees its memory.
    let request = delete_topics::Request { topic_names: vec!["t".to_owned()], ..Default::default() };
    world.call(1, 5, &request);
    world.create("t", 1, &[]);
    assert_eq!(world.produce(small).error_code, ErrorCode::NONE);
}

#[test]
fn a_topic_may_use_the_append_time() {
    let mut world = World::new(Options::default());
    world.create("t", 1, &[("message.timestamp.type", "LogAppendTime")]);
    world.now = Duration::from_secs(5);
    let answer = world.produce(batch_at(1, &["a"], Compression::None, Producer::NONE));
    assert_eq!(answer.log_append_time_ms, START_MS + 5000);
    let records = world.fetch(&fetch_request(0)).records.unwrap();
    let batch = batches(records).next().unwrap().unwrap();
    batch.check_crc().unwrap();
    assert_eq!(batch.records(0).unwrap().next().unwrap().unwrap().timestamp, START_MS + 5000);
}

#[test]
fn acks_zero_has_no_reply_and_an_error_closes_the_connection() {
    let mut world = World::with_topic();
    let silent = |topic| produce::Request { acks: 0, ..produce_request(topic, batch(&["a"], Producer::NONE)) };
    world.send(1, 9, 1, &silent("t"));
    assert_eq!(world.next(1), Got::Nothing);
    assert_eq!(values(&world.fetch(&fetch_request(0)).records), [record(0, "a")]);
    world.send(1, 9, 1, &silent("unknown"));
    assert_eq!(world.next(1), Got::Closed);
}
