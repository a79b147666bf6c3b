//! Tests fetching (long polls, limits, topic IDs) and the lookup of offsets by time.

use super::{Got, START_MS, World, batch, batch_at, fetch_request, produce_request, record, values};
use klamm::api::*;
use klamm::broker::{Connection, Options};
use klamm::compress::Compression;
use klamm::record::Producer;
use klamm::wire::Uuid;
use std::time::Duration;

#[test]
fn a_long_poll_wakes_on_produce() {
    let mut world = World::with_topic();
    world.cluster.connect(1, Connection(2));
    world.send(2, 12, 5, &fetch_request(0));
    assert_eq!(world.next(2), Got::Nothing);
    assert!(world.cluster.is_blocked(Connection(2)));

    world.now += Duration::from_millis(10);
    assert_eq!(world.produce(batch(&["a", "b"], Producer::NONE)).base_offset, 0);
    let (correlation_id, answer) = world.receive::<fetch::Request>(2, 12).unwrap();
    let partition = &answer.responses[0].partitions[0];
    assert_eq!(correlation_id, 5);
    assert_eq!(values(&partition.records), [record(0, "a"), record(1, "b")]);
    assert_eq!(partition.high_watermark, 2);
    assert!(!world.cluster.is_blocked(Connection(2)));
    assert_eq!(world.cluster.next_timeout(), None);
}

#[test]
fn a_long_poll_returns_nothing_at_its_deadline() {
    let mut world = World::with_topic();
    world.now = Duration::from_secs(3);
    world.send(1, 12, 5, &fetch_request(0));
    assert_eq!(world.cluster.next_timeout(), Some(Duration::from_millis(3500)));
    world.advance(Duration::from_millis(499));
    assert_eq!(world.next(1), Got::Nothing);
    world.advance(Duration::from_millis(1));
    let (_, answer) = world.receive::<fetch::Request>(1, 12).unwrap();
    assert_eq!(values(&answer.responses[0].partitions[0].records), []);
    assert_eq!(world.cluster.next_timeout(), None);
}

#[test]
fn a_long_poll_waits_for_min_bytes() {
    let mut world = World::with_topic();
    world.cluster.connect(1, Connection(2));
    let one = batch(&["a"], Producer::NONE);
    let request = fetch::Request { min_bytes: 2 * one.len() as i32, ..fetch_request(0) };
    world.send(2, 12, 5, &request);
    world.produce(one.clone());
    assert_eq!(world.next(2), Got::Nothing);
    world.produce(one);
    let (_, answer) = world.receive::<fetch::Request>(2, 12).unwrap();
    assert_eq!(values(&answer.responses[0].partitions[0].records).len(), 2);
}

#[test]
fn replies_are_sent_in_the_order_of_the_requests() {
    let mut world = World::with_topic();
    world.send(1, 12, 1, &fetch_request(0));
    world.send(1, 9, 2, &metadata::Request::default());
    world.send(1, 12, 3, &fetch_request(0));
    world.send(1, 9, 4, &metadata::Request::default());
    assert_eq!(world.next(1), Got::Nothing);
    world.advance(Duration::from_millis(500));
    assert_eq!(world.receive::<fetch::Request>(1, 12).unwrap().0, 1);
    assert_eq!(world.receive::<metadata::Request>(1, 9).unwrap().0, 2);
    assert_eq!(world.next(1), Got::Nothing, "the second fetch waits from when its turn came");
    world.advance(Duration::from_millis(500));
    assert_eq!(world.receive::<fetch::Request>(1, 12).unwrap().0, 3);
    assert_eq!(world.receive::<metadata::Request>(1, 9).unwrap().0, 4);
}

#[test]
fn a_client_that_disconnects_is_removed() {
    let mut world = World::with_topic();
    world.cluster.connect(1, Connection(2));
    world.send(2, 12, 5, &fetch_request(0));
    world.cluster.disconnect(world.now, Connection(2));
    assert_eq!(world.cluster.next_timeout(), None);
    world.produce(batch(&["a"], Producer::NONE));
    assert_eq!(world.next(2), Got::Nothing);
}

#[test]
fn deleting_a_topic_answers_waiting_fetches() {
    let mut world = World::with_topic();
    world.cluster.connect(1, Connection(2));
    world.send(2, 12, 5, &fetch_request(0));
    let request = delete_topics::Request { topic_names: vec!["t".to_owned()], ..Default::default() };
    assert_eq!(world.call(1, 5, &request).responses[0].error_code, ErrorCode::NONE);
    let (_, answer) = world.receive::<fetch::Request>(2, 12).unwrap();
    assert_eq!(answer.responses[0].partitions[0].error_code, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
    assert_eq!(world.call(1, 5, &request).responses[0].error_code, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
}

#[test]
fn fetch_past_the_end_is_out_of_range() {
    let mut world = World::with_topic();
    world.produce(batch(&["a"], Producer::NONE));
    assert_eq!(world.fetch(&fetch_request(2)).error_code, ErrorCode::OFFSET_OUT_OF_RANGE);
    assert_eq!(world.fetch(&fetch_request(-1)).error_code, ErrorCode::OFFSET_OUT_OF_RANGE);
}

#[test]
fn limits_hold_except_for_the_first_batch() {
    let mut world = World::with_topic();
    let one = batch(&["a"], Producer::NONE);
    for _ in 0..3 {
        world.produce(one.clone());
    }
    let limited = |max_bytes: usize, partition_max_bytes: usize| {
        let mut request = fetch::Request { max_bytes: max_bytes as i32, ..fetch_request(0) };
        request.topics[0].partitions[0].partition_max_bytes = partition_max_bytes as i32;
        request
    };
    assert_eq!(values(&world.fetch(&limited(1, 1)).records).len(), 1);
    assert_eq!(values(&world.fetch(&limited(1000, 2 * one.len())).records).len(), 2);
    assert_eq!(values(&world.fetch(&limited(2 * one.len(), 1000)).records).len(), 2);
    // Only the first partition with data may exceed the limit.
    let mut twice = limited(1, 1);
    twice.topics.push(twice.topics[0].clone());
    let answer = world.call(1, 12, &twice);
    assert!(answer.responses[1].partitions[0].records.as_ref().unwrap().is_empty());
}

#[test]
fn versions_with_topic_ids_find_topics_by_id() {
    let mut world = World::new(Options::default());
    let topic_id = world.create("t", 1, &[]);
    let mut request = produce_request("", batch(&["a"], Producer::NONE));
    request.topic_data[0].topic_id = topic_id;
    let answer = world.call(1, 13, &request).responses.remove(0);
    assert_eq!((answer.topic_id, answer.partition_responses[0].error_code), (topic_id, ErrorCode::NONE));
    let mut request = fetch_request(0);
    request.topics[0].topic_id = topic_id;
    let answer = world.call(1, 18, &request).responses.remove(0);
    assert_eq!(values(&answer.partitions[0].records), [record(0, "a")]);
    request.topics[0].topic_id = Uuid([1; 16]);
    let answer = world.call(1, 18, &request).responses.remove(0);
    assert_eq!(answer.partitions[0].error_code, ErrorCode::UNKNOWN_TOPIC_ID);
}

#[test]
fn a_wrong_leader_epoch_is_rejected() {
    let mut world = World::with_topic();
    let mut request = fetch_request(0);
    request.topics[0].partitions[0].current_leader_epoch = 1;
    assert_eq!(world.fetch(&request).error_code, ErrorCode::UNKNOWN_LEADER_EPOCH);
}

#[test]
fn list_offsets_finds_ends_times_and_the_latest_record() {
    let mut world = World::with_topic();
    for (timestamp, compression) in [(10, Compression::None), (30, Compression::Gzip), (20, Compression::None)] {
        world.produce(batch_at(START_MS + timestamp, &["a", "b"], compression, Producer::NONE));
    }
    let mut ask = |version, timestamp| {
        let partitions = vec![list_offsets::Partition {
            timestamp,
            current_leader_epoch: -1,
            max_num_offsets: 9,
            partition_index: 0,
        }];
        let topics = vec![list_offsets::Topic { name: "t".to_owned(), partitions }];
        let request = list_offsets::Request { replica_id: -1, topics, ..Default::default() };
        let answer = world.call(1, version, &request).topics.remove(0).partitions.remove(0);
        (answer.error_code.0, answer.offset, answer.timestamp, answer.old_style_offsets)
    };
    let time = START_MS;
    assert_eq!(ask(0, list_offsets::LATEST).3, [6, 0]);
    assert_eq!(ask(0, list_offsets::EARLIEST).3, [0]);
    assert_eq!(ask(1, list_offsets::LATEST), (0, 6, -1, vec![]));
    assert_eq!(ask(1, list_offsets::EARLIEST), (0, 0, -1, vec![]));
    assert_eq!(ask(1, 0), (0, 0, time + 10, vec![]));
    assert_eq!(ask(4, time + 11), (0, 2, time + 30, vec![]));
    assert_eq!(ask(4, time + 31), (0, -1, -1, vec![]));
    assert_eq!(ask(7, list_offsets::MAX_TIMESTAMP), (0, 2, time + 30, vec![]));
    assert_eq!(ask(6, list_offsets::MAX_TIMESTAMP).0, ErrorCode::UNSUPPORTED_VERSION.0);
    assert_eq!(ask(9, list_offsets::LATEST_TIERED), (0, -1, -1, vec![]));
    assert_eq!(ask(11, -99).0, ErrorCode::UNSUPPORTED_VERSION.0);
}
