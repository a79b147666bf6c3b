//! The dev broker's core under simulated time, and its listener over real sockets.

use bytes::Bytes;
use flate2::read::GzDecoder;
use klamm::api::header::{RequestHeader, get_response_header};
use klamm::api::*;
use klamm::broker::{Broker, Cluster, Connection, Node, Options, Output};
use klamm::compress::Compression;
use klamm::record::{BatchBuilder, Producer, batches};
use klamm::wire::{Reader, Uuid, Value, Writer};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

const START_MS: i64 = 1_700_000_000_000;

/// A cluster, its clock, and clients that are connected to one node each: client `n` to node `n`.
struct World {
    cluster: Cluster,
    now: Duration,
}

#[derive(Debug, PartialEq)]
enum Got {
    Frame(Bytes),
    Nothing,
    Closed,
}

impl World {
    fn new(options: Options) -> Self {
        let node = |id| Node { id, host: "localhost".to_owned(), port: 9000 + id as u16 };
        let nodes: Vec<_> = (1..=options.nodes as i32).map(node).collect();
        let mut cluster = Cluster::new(&options, nodes, START_MS, 1);
        for id in 1..=options.nodes as i32 {
            cluster.connect(id, Connection(id as u64));
        }
        Self { cluster, now: Duration::ZERO }
    }

    /// One node and a topic `t` with one partition.
    fn with_topic() -> Self {
        let mut world = Self::new(Options::default());
        world.create("t", 1, &[]);
        world
    }

    fn create(&mut self, name: &str, partitions: i32, configs: &[(&str, &str)]) -> Uuid {
        let config = |(name, value): &(&str, &str)| create_topics::Config {
            name: (*name).to_owned(),
            value: Some((*value).to_owned()),
        };
        let topic = create_topics::Topic {
            name: name.to_owned(),
            num_partitions: partitions,
            replication_factor: -1,
            configs: configs.iter().map(config).collect(),
            ..Default::default()
        };
        let request = create_topics::Request { topics: vec![topic], ..Default::default() };
        let result = self.call(1, 7, &request).topics.remove(0);
        assert_eq!(result.error_code, ErrorCode::NONE, "{:?}", result.error_message);
        result.topic_id
    }

    fn send<R: Request>(&mut self, client: u64, version: i16, correlation_id: i32, request: &R) {
        let frame = frame(R::API, version, correlation_id, &encode(version, request).unwrap());
        self.cluster.handle(self.now, Connection(client), frame);
    }

    /// The next output, which has to be for `client`.
    fn next(&mut self, client: u64) -> Got {
        match self.cluster.poll_send() {
            Some(Output::Reply { connection, parts }) => {
                assert_eq!(connection, Connection(client));
                Got::Frame(parts.concat().into())
            }
            Some(Output::Close { connection }) => {
                assert_eq!(connection, Connection(client));
                Got::Closed
            }
            None => Got::Nothing,
        }
    }

    fn receive<R: Request>(&mut self, client: u64, version: i16) -> Option<(i32, R::Response)> {
        match self.next(client) {
            Got::Frame(frame) => Some(response::<R>(version, frame)),
            Got::Nothing => None,
            Got::Closed => panic!("the broker closed the connection"),
        }
    }

    fn call<R: Request>(&mut self, client: u64, version: i16, request: &R) -> R::Response {
        self.send(client, version, 7, request);
        self.receive::<R>(client, version).expect("an answer").1
    }

    fn advance(&mut self, by: Duration) {
        self.now += by;
        self.cluster.handle_timeout(self.now);
    }

    fn produce(&mut self, records: Bytes) -> produce::PartitionResponse {
        self.call(1, 12, &produce_request("t", records)).responses.remove(0).partition_responses.remove(0)
    }

    fn fetch(&mut self, request: &fetch::Request) -> fetch::PartitionResponse {
        self.call(1, 12, request).responses.remove(0).partitions.remove(0)
    }
}

fn frame(api: &Info, version: i16, correlation_id: i32, body: &[u8]) -> Bytes {
    let mut w = Writer::new(version, api.is_flexible(version));
    let client_id = Some("test".to_owned());
    RequestHeader { api_key: api.key, api_version: version, correlation_id, client_id }.put(api, &mut w);
    w.buf.extend_from_slice(body);
    w.finish().unwrap().into()
}

fn response<R: Request>(version: i16, mut frame: Bytes) -> (i32, R::Response) {
    let length = frame.split_to(4);
    assert_eq!(u32::from_be_bytes(length[..].try_into().unwrap()) as usize, frame.len());
    let mut r = Reader::new(frame, version, false);
    let correlation_id = get_response_header(R::API, version, &mut r).unwrap();
    (correlation_id, decode(version, r.rest()).unwrap())
}

fn batch(values: &[&str], producer: Producer) -> Bytes {
    batch_at(START_MS, values, Compression::None, producer)
}

fn batch_at(timestamp: i64, values: &[&str], compression: Compression, producer: Producer) -> Bytes {
    let mut builder = BatchBuilder::with_capacity(0);
    for value in values {
        builder.append(timestamp, None, Some(value.as_bytes()), &[]);
    }
    builder.seal(compression, producer).unwrap().data
}

fn produce_request(topic: &str, records: Bytes) -> produce::Request {
    let partition_data = vec![produce::PartitionData { index: 0, records: Some(records) }];
    produce::Request {
        transactional_id: None,
        acks: -1,
        timeout_ms: 1000,
        topic_data: vec![produce::TopicData { name: topic.to_owned(), topic_id: Uuid::ZERO, partition_data }],
    }
}

fn fetch_request(offset: i64) -> fetch::Request {
    let partition = fetch::Partition { fetch_offset: offset, partition_max_bytes: 1 << 20, ..Default::default() };
    let topic = fetch::Topic { topic: "t".to_owned(), partitions: vec![partition], ..Default::default() };
    fetch::Request { max_wait_ms: 500, min_bytes: 1, topics: vec![topic], ..Default::default() }
}

fn values(records: &Option<Bytes>) -> Vec<(i64, String)> {
    let mut out = Vec::new();
    for batch in batches(records.clone().unwrap()) {
        let batch = batch.unwrap();
        batch.check_crc().unwrap();
        let mut records = batch.records(1 << 20).unwrap();
        while let Some(view) = records.next_view() {
            let view = view.unwrap();
            out.push((view.offset(), String::from_utf8(view.value().unwrap().to_vec()).unwrap()));
        }
    }
    out
}

fn record(offset: i64, value: &str) -> (i64, String) {
    (offset, value.to_owned())
}

fn idempotent(epoch: i16, base_sequence: i32) -> Producer {
    Producer { id: 9, epoch, base_sequence, transactional: false }
}

#[test]
fn every_version_of_every_api_answers_in_its_own_form() {
    for api in APIS {
        for version in api.info.min..=api.info.max_stable {
            let mut world = World::with_topic();
            let mut fields = Vec::new();
            if api.info.key == produce::API.key {
                fields.push(("acks".to_owned(), Value::Int(1)));
            }
            let body = (api.request.encode)(version, Value::Struct(fields)).unwrap();
            world.cluster.handle(world.now, Connection(1), frame(api.info, version, 3, &body));
            let Got::Frame(mut answer) = world.next(1) else { panic!("{} v{version}", api.info.name) };
            let mut r = Reader::new(answer.split_off(4), version, false);
            assert_eq!(get_response_header(api.info, version, &mut r).unwrap(), 3);
            (api.response.decode)(version, r.rest()).unwrap();
        }
    }
}

#[test]
fn a_long_poll_wakes_on_produce() {
    let mut world = World::with_topic();
    world.cluster.connect(1, Connection(2));
    world.send(2, 12, 5, &fetch_request(0));
    assert_eq!(world.next(2), Got::Nothing);
    assert!(world.cluster.is_parked(Connection(2)));

    world.now += Duration::from_millis(10);
    assert_eq!(world.produce(batch(&["a", "b"], Producer::NONE)).base_offset, 0);
    let (correlation_id, answer) = world.receive::<fetch::Request>(2, 12).unwrap();
    let partition = &answer.responses[0].partitions[0];
    assert_eq!(correlation_id, 5);
    assert_eq!(values(&partition.records), [record(0, "a"), record(1, "b")]);
    assert_eq!(partition.high_watermark, 2);
    assert!(!world.cluster.is_parked(Connection(2)));
    assert_eq!(world.cluster.next_timeout(), None);
}

#[test]
fn a_long_poll_ends_at_its_deadline_with_nothing() {
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
fn a_long_poll_waits_for_as_many_bytes_as_it_asks_for() {
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
fn answers_leave_in_the_order_of_the_requests() {
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
fn a_client_that_is_gone_is_forgotten() {
    let mut world = World::with_topic();
    world.cluster.connect(1, Connection(2));
    world.send(2, 12, 5, &fetch_request(0));
    world.cluster.disconnect(Connection(2));
    assert_eq!(world.cluster.next_timeout(), None);
    world.produce(batch(&["a"], Producer::NONE));
    assert_eq!(world.next(2), Got::Nothing);
}

#[test]
fn deleting_a_topic_answers_who_waits_for_it() {
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
fn limits_hold_but_the_first_batch_comes_whole() {
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
fn there_are_no_sessions_and_a_session_id_is_unknown() {
    let mut world = World::with_topic();
    let new = fetch::Request { session_epoch: 0, max_wait_ms: 0, ..fetch_request(0) };
    assert_eq!(world.call(1, 12, &new).session_id, 0);
    let known = fetch::Request { session_id: 5, session_epoch: 1, ..fetch_request(0) };
    assert_eq!(world.call(1, 12, &known).error_code, ErrorCode::FETCH_SESSION_ID_NOT_FOUND);
}

#[test]
fn versions_with_topic_ids_know_topics_by_them() {
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
fn a_batch_sent_again_keeps_its_offset_and_a_gap_is_refused() {
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
fn a_batch_that_is_not_one_whole_sound_batch_is_refused() {
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
        (resealed(22, 1 << 4), ErrorCode::INVALID_TXN_STATE),
        (resealed(27 + 8, 0x40), ErrorCode::INVALID_TIMESTAMP),
    ] {
        let answer = world.produce(records);
        assert_eq!(answer.error_code, code, "{:?}", answer.error_message);
        assert!(answer.error_message.is_some());
    }
    assert_eq!(world.produce(good).base_offset, 0);
}

#[test]
fn limits_of_topic_and_memory_refuse_a_batch() {
    let mut world = World::new(Options { max_bytes: 300, ..Options::default() });
    world.create("t", 1, &[("max.message.bytes", "200")]);
    let large = "x".repeat(200);
    assert_eq!(world.produce(batch(&[&large], Producer::NONE)).error_code, ErrorCode::MESSAGE_TOO_LARGE);
    let small = batch(&[&large[..100]], Producer::NONE);
    assert_eq!(world.produce(small.clone()).error_code, ErrorCode::NONE);
    let full = world.produce(small.clone());
    assert_eq!(full.error_code, ErrorCode::KAFKA_STORAGE_ERROR);
    assert!(full.error_message.unwrap().contains("300 bytes"));
    // Deleting a topic gives its memory back.
    let request = delete_topics::Request { topic_names: vec!["t".to_owned()], ..Default::default() };
    world.call(1, 5, &request);
    world.create("t", 1, &[]);
    assert_eq!(world.produce(small).error_code, ErrorCode::NONE);
}

#[test]
fn a_topic_may_take_the_append_time() {
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
fn acks_zero_has_no_answer_and_closes_on_an_error() {
    let mut world = World::with_topic();
    let silent = |topic| produce::Request { acks: 0, ..produce_request(topic, batch(&["a"], Producer::NONE)) };
    world.send(1, 9, 1, &silent("t"));
    assert_eq!(world.next(1), Got::Nothing);
    assert_eq!(values(&world.fetch(&fetch_request(0)).records), [record(0, "a")]);
    world.send(1, 9, 1, &silent("unknown"));
    assert_eq!(world.next(1), Got::Closed);
}

#[test]
fn a_node_answers_only_for_what_it_leads_and_says_who_does() {
    let mut world = World::new(Options { nodes: 3, ..Options::default() });
    world.create("t", 6, &[]);
    let metadata = world.call(2, 12, &metadata::Request { topics: None, ..Default::default() });
    assert_eq!(metadata.brokers.len(), 3);
    let partitions = &metadata.topics[0].partitions;
    let leaders: Vec<_> = partitions.iter().map(|p| p.leader_id).collect();
    let mut sorted = leaders.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, [1, 1, 2, 2, 3, 3]);
    assert!(partitions.iter().all(|p| p.replica_nodes.len() == 3 && p.replica_nodes[0] == p.leader_id));

    let leader = leaders[0] as u64;
    let other = if leader == 1 { 2 } else { 1 };
    let request = produce_request("t", batch(&["a"], Producer::NONE));
    let answer = world.call(other, 12, &request);
    let partition = &answer.responses[0].partition_responses[0];
    assert_eq!(partition.error_code, ErrorCode::NOT_LEADER_OR_FOLLOWER);
    assert_eq!(partition.current_leader.leader_id, leaders[0]);
    assert_eq!(answer.node_endpoints[0].port, 9000 + leaders[0]);
    assert_eq!(world.call(leader, 12, &request).responses[0].partition_responses[0].error_code, ErrorCode::NONE);
    let answer = world.call(other, 12, &fetch_request(0));
    assert_eq!(answer.responses[0].partitions[0].error_code, ErrorCode::NOT_LEADER_OR_FOLLOWER);
    assert_eq!(answer.responses[0].partitions[0].current_leader.leader_id, leaders[0]);
}

#[test]
fn an_epoch_of_another_time_is_refused() {
    let mut world = World::with_topic();
    let mut request = fetch_request(0);
    request.topics[0].partitions[0].current_leader_epoch = 1;
    assert_eq!(world.fetch(&request).error_code, ErrorCode::UNKNOWN_LEADER_EPOCH);
}

#[test]
fn no_topics_means_all_in_metadata_v0_and_none_later() {
    let mut world = World::with_topic();
    world.create("u", 2, &[]);
    let none = metadata::Request { topics: Some(Vec::new()), ..Default::default() };
    let all = metadata::Request { topics: None, ..Default::default() };
    let names =
        |response: metadata::Response| -> Vec<_> { response.topics.into_iter().filter_map(|t| t.name).collect() };
    assert_eq!(names(world.call(1, 0, &none)), ["t", "u"]);
    assert_eq!(names(world.call(1, 1, &none)), [""; 0]);
    assert_eq!(names(world.call(1, 1, &all)), ["t", "u"]);
    assert_eq!(names(world.call(1, 13, &all)), ["t", "u"]);
}

#[test]
fn asking_for_a_topic_makes_it_unless_that_is_not_wanted() {
    let ask = |name: &str, allow| metadata::Request {
        topics: Some(vec![metadata::TopicRequest { name: Some(name.to_owned()), ..Default::default() }]),
        allow_auto_topic_creation: allow,
        ..Default::default()
    };
    let mut world = World::new(Options { default_partitions: 4, ..Options::default() });
    let mut first = |version, name, allow| world.call(1, version, &ask(name, allow)).topics.remove(0);
    assert_eq!(first(4, "new", false).error_code, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
    assert_eq!(first(4, "a/b", true).error_code, ErrorCode::INVALID_TOPIC_EXCEPTION);
    let made = first(12, "new", true);
    assert_eq!((made.error_code, made.partitions.len()), (ErrorCode::NONE, 4));
    assert!(!made.topic_id.is_zero());
    assert_eq!(first(1, "newer", true).partitions.len(), 4);

    let mut world = World::new(Options { auto_create_topics: false, ..Options::default() });
    assert_eq!(world.call(1, 1, &ask("new", true)).topics[0].error_code, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
}

#[test]
fn metadata_finds_a_topic_by_id() {
    let mut world = World::new(Options::default());
    let topic_id = world.create("t", 1, &[]);
    let mut by_id = |version, topic_id| {
        let topics = Some(vec![metadata::TopicRequest { topic_id, name: None }]);
        world.call(1, version, &metadata::Request { topics, ..Default::default() }).topics.remove(0)
    };
    assert_eq!(by_id(12, topic_id).name.as_deref(), Some("t"));
    assert_eq!(by_id(12, Uuid([9; 16])).error_code, ErrorCode::UNKNOWN_TOPIC_ID);
    assert_eq!(by_id(10, topic_id).error_code, ErrorCode::INVALID_REQUEST);
}

#[test]
fn topics_that_cannot_be_made_say_why() {
    let mut world = World::with_topic();
    let plain = |name: &str| create_topics::Topic {
        name: name.to_owned(),
        num_partitions: 1,
        replication_factor: 1,
        ..Default::default()
    };
    let assign = |indexes: &[i32], brokers: &[i32]| create_topics::Topic {
        num_partitions: -1,
        replication_factor: -1,
        assignments: indexes
            .iter()
            .map(|i| create_topics::ReplicaAssignment { partition_index: *i, broker_ids: brokers.to_vec() })
            .collect(),
        ..plain("x")
    };
    let config = vec![create_topics::Config { name: "no.such".to_owned(), value: Some(String::new()) }];
    for (topic, code) in [
        (plain("t"), ErrorCode::TOPIC_ALREADY_EXISTS),
        (plain("a b"), ErrorCode::INVALID_TOPIC_EXCEPTION),
        (create_topics::Topic { num_partitions: 0, ..plain("x") }, ErrorCode::INVALID_PARTITIONS),
        (create_topics::Topic { num_partitions: 10_001, ..plain("x") }, ErrorCode::POLICY_VIOLATION),
        (create_topics::Topic { replication_factor: 2, ..plain("x") }, ErrorCode::INVALID_REPLICATION_FACTOR),
        (create_topics::Topic { replication_factor: 0, ..plain("x") }, ErrorCode::INVALID_REPLICATION_FACTOR),
        (create_topics::Topic { configs: config, ..plain("x") }, ErrorCode::INVALID_CONFIG),
        (create_topics::Topic { num_partitions: 1, ..assign(&[0], &[1]) }, ErrorCode::INVALID_REQUEST),
        (assign(&[0, 2], &[1]), ErrorCode::INVALID_REPLICA_ASSIGNMENT),
        (assign(&[0], &[2]), ErrorCode::INVALID_REPLICA_ASSIGNMENT),
        (assign(&[0], &[1, 1]), ErrorCode::INVALID_REPLICA_ASSIGNMENT),
    ] {
        let answer = world.call(1, 7, &create_topics::Request { topics: vec![topic], ..Default::default() });
        assert_eq!(answer.topics[0].error_code, code, "{:?}", answer.topics[0]);
        assert!(answer.topics[0].error_message.is_some());
    }
    let twice = create_topics::Request { topics: vec![plain("x"), plain("x")], ..Default::default() };
    let answer = world.call(1, 7, &twice);
    assert!(answer.topics.iter().all(|t| t.error_code == ErrorCode::INVALID_REQUEST));
    let mut only = create_topics::Request { topics: vec![assign(&[1, 0], &[1])], validate_only: true, timeout_ms: 1 };
    assert_eq!(world.call(1, 7, &only).topics[0].num_partitions, 2);
    only.validate_only = false;
    assert_eq!(world.call(1, 7, &only).topics[0].error_code, ErrorCode::NONE, "validating made nothing");
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

/// The client that is connected to a group's coordinator.
fn coordinator(world: &mut World, group: &str) -> u64 {
    let request = find_coordinator::Request { coordinator_keys: vec![group.to_owned()], ..Default::default() };
    let found = world.call(1, 4, &request).coordinators.remove(0);
    let old = find_coordinator::Request { key: group.to_owned(), ..Default::default() };
    assert_eq!(world.call(1, 0, &old).node_id, found.node_id);
    found.node_id as u64
}

#[test]
fn committed_offsets_come_back_in_every_version() {
    let mut world = World::new(Options { nodes: 3, ..Options::default() });
    let topic_id = world.create("t", 2, &[]);
    let here = coordinator(&mut world, "g");
    for version in 0..=10 {
        let commit = |index, offset| offset_commit::Partition {
            partition_index: index,
            committed_offset: offset,
            committed_metadata: Some(format!("m{offset}")),
            ..Default::default()
        };
        let offset = 10 + i64::from(version);
        let topic = offset_commit::Topic {
            name: "t".to_owned(),
            topic_id,
            partitions: vec![commit(0, offset), commit(7, offset)],
        };
        let request = offset_commit::Request { group_id: "g".to_owned(), topics: vec![topic], ..Default::default() };
        let answer = world.call(here, version, &request).topics.remove(0);
        let codes: Vec<_> = answer.partitions.iter().map(|p| p.error_code).collect();
        assert_eq!(codes, [ErrorCode::NONE, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION]);
        let there = here % 3 + 1;
        let answer = world.call(there, version, &request).topics.remove(0);
        assert_eq!(answer.partitions[0].error_code, ErrorCode::NOT_COORDINATOR);

        let wanted = |all: bool| {
            let topics = vec![offset_fetch::Topic { name: "t".to_owned(), partition_indexes: vec![0, 1] }];
            let group_topics =
                vec![offset_fetch::GroupTopic { name: "t".to_owned(), topic_id, partition_indexes: vec![0, 1] }];
            let group = offset_fetch::Group {
                group_id: "g".to_owned(),
                topics: (!all).then_some(group_topics),
                ..Default::default()
            };
            offset_fetch::Request {
                group_id: "g".to_owned(),
                topics: (!all).then_some(topics),
                groups: vec![group],
                ..Default::default()
            }
        };
        let fetched = |mut response: offset_fetch::Response| -> Vec<_> {
            let partitions = if version >= 8 {
                let group = response.groups.remove(0);
                assert_eq!(group.error_code, ErrorCode::NONE);
                group.topics.into_iter().flat_map(|t| t.partitions).collect::<Vec<_>>()
            } else {
                response.topics.into_iter().flat_map(|t| t.partitions).collect()
            };
            partitions.into_iter().map(|p| (p.committed_offset, p.metadata.unwrap_or_default())).collect()
        };
        let committed = (offset, format!("m{offset}"));
        assert_eq!(fetched(world.call(here, version, &wanted(false))), [committed.clone(), (-1, String::new())]);
        if version >= 2 {
            assert_eq!(fetched(world.call(here, version, &wanted(true))), [committed]);
        }
        let answer = world.call(there, version, &wanted(false));
        let code = match version {
            0 | 1 => answer.topics[0].partitions[0].error_code,
            2..8 => answer.error_code,
            _ => answer.groups[0].error_code,
        };
        assert_eq!(code, ErrorCode::NOT_COORDINATOR);
    }
}

#[test]
fn producer_ids_differ_and_transactional_ids_raise_their_epoch() {
    let mut world = World::new(Options::default());
    let mut ask = |version, transactional_id: Option<&str>, producer_id, producer_epoch| {
        let request = init_producer_id::Request {
            transactional_id: transactional_id.map(str::to_owned),
            transaction_timeout_ms: 1000,
            producer_id,
            producer_epoch,
            ..Default::default()
        };
        let answer = world.call(1, version, &request);
        (answer.error_code.0, answer.producer_id, answer.producer_epoch)
    };
    let (_, first, epoch) = ask(0, None, -1, -1);
    assert_eq!(epoch, 0);
    assert_ne!(ask(4, None, -1, -1).1, first);
    let (_, id, _) = ask(4, Some("x"), -1, -1);
    assert_eq!(ask(4, Some("x"), -1, -1), (0, id, 1));
    assert_eq!(ask(4, Some("x"), id, 1), (0, id, 2));
    assert_eq!(ask(4, Some("x"), id, 1).0, ErrorCode::PRODUCER_FENCED.0);
    assert_eq!(ask(3, Some("x"), id, 1).0, ErrorCode::INVALID_PRODUCER_EPOCH.0);
}

#[test]
fn what_is_not_kafka_closes_the_connection() {
    let body = encode(9, &metadata::Request::default()).unwrap();
    let good = frame(&metadata::API, 9, 1, &body);
    let with = |at: usize, value: i16| {
        let mut bytes = good.to_vec();
        bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
        Bytes::from(bytes)
    };
    let http = Bytes::from_static(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let unstable = frame(&init_producer_id::API, 6, 1, &[0; 40]);
    for bad in [with(0, 999), with(2, 99), with(2, -1), good.slice(..good.len() - 1), http, Bytes::new(), unstable] {
        let mut world = World::with_topic();
        world.cluster.handle(world.now, Connection(1), bad);
        assert_eq!(world.next(1), Got::Closed);
        world.cluster.handle(world.now, Connection(1), good.clone());
        assert_eq!(world.next(1), Got::Nothing, "nothing after it is looked at");
    }
}

#[test]
fn bytes_after_a_request_are_ignored_as_kafka_does() {
    let mut world = World::with_topic();
    // librdkafka 2.16: a count of four bytes where null takes one.
    let body = [0, 0, 0, 0, 1, 0, 0];
    world.cluster.handle(world.now, Connection(1), frame(&metadata::API, 13, 1, &body));
    let (_, answer) = world.receive::<metadata::Request>(1, 13).unwrap();
    assert_eq!(answer.topics.len(), 1);
}

#[test]
fn api_versions_answers_a_version_from_the_future() {
    let mut world = World::with_topic();
    world.cluster.handle(world.now, Connection(1), frame(&api_versions::API, 99, 8, b"whatever it holds"));
    let Got::Frame(answer) = world.next(1) else { panic!("no answer") };
    let (correlation_id, answer) = response::<api_versions::Request>(0, answer);
    assert_eq!((correlation_id, answer.error_code), (8, ErrorCode::UNSUPPORTED_VERSION));
    assert_eq!(answer.api_keys[0].max_version, 5);

    let request = api_versions::Request {
        client_software_name: "klamm".to_owned(),
        client_software_version: "0.1".to_owned(),
        ..Default::default()
    };
    let answer = world.call(1, 4, &request);
    let served: Vec<_> = answer.api_keys.iter().map(|k| (k.api_key, k.min_version, k.max_version)).collect();
    let known: Vec<_> = APIS.iter().map(|a| (a.info.key, a.info.min, a.info.max_stable)).collect();
    assert_eq!(served, known);
    assert_eq!(world.call(1, 4, &api_versions::Request::default()).error_code, ErrorCode::INVALID_REQUEST);
}

/// Request bodies that other programs made: (API, version, body).
fn golden_requests() -> Vec<(&'static Info, i16, Vec<u8>)> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/vectors/messages.jsonl.gz");
    let lines = BufReader::new(GzDecoder::new(std::fs::File::open(path).unwrap())).lines();
    let parse = |line: std::io::Result<String>| {
        let line: serde_json::Value = serde_json::from_str(&line.unwrap()).unwrap();
        let api = by_name(line["api"].as_str()?).filter(|_| line["kind"] == "request")?;
        let hex = line["hex"].as_str()?.as_bytes();
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
        Some((api.info, line["version"].as_i64()? as i16, hex.chunks(2).map(byte).collect()))
    };
    lines.filter_map(parse).collect()
}

#[test]
fn no_request_makes_it_panic_whole_cut_or_changed() {
    let requests = golden_requests();
    assert!(requests.len() > 300);
    let mut world = World::new(Options { nodes: 2, max_bytes: 1 << 20, ..Options::default() });
    world.create("t", 1, &[]);
    let mut connection = 10;
    for (round, (api, version, body)) in requests.iter().enumerate() {
        for cut in [body.len(), body.len() / 2, body.len().saturating_sub(1)] {
            for flip in [None, Some(round * 7919), Some(round * 104_729)] {
                let mut bytes = body[..cut].to_vec();
                if let Some(bit) = flip.filter(|_| cut > 0) {
                    bytes[bit / 8 % cut] ^= 1 << (bit % 8);
                }
                connection += 1;
                world.cluster.connect(1 + connection as i32 % 2, Connection(connection));
                world.cluster.handle(world.now, Connection(connection), frame(api, *version, 1, &bytes));
                while world.cluster.poll_send().is_some() {}
                world.cluster.disconnect(Connection(connection));
            }
        }
    }
    assert_eq!(world.cluster.next_timeout(), None);
    assert_eq!(world.produce(batch(&["still here"], Producer::NONE)).error_code, ErrorCode::NONE);
}

fn read_frame(stream: &mut TcpStream) -> std::io::Result<Bytes> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let mut frame = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut frame)?;
    Ok([length.to_vec(), frame].concat().into())
}

fn ask<R: Request>(stream: &mut TcpStream, version: i16, request: &R) -> R::Response {
    let frame = frame(R::API, version, 1, &encode(version, request).unwrap());
    stream.write_all(&[&(frame.len() as u32).to_be_bytes(), &frame[..]].concat()).unwrap();
    response::<R>(version, read_frame(stream).unwrap()).1
}

fn connect(broker: &Broker, node: usize) -> TcpStream {
    let stream = TcpStream::connect(broker.addresses()[node]).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    stream
}

#[test]
fn a_cluster_listens_answers_and_stops() {
    let mut broker = Broker::start(&Options { nodes: 3, ..Options::default() }).unwrap();
    let mut clients: Vec<_> = (0..3).map(|node| connect(&broker, node)).collect();
    let ports: Vec<_> = broker.addresses().iter().map(|a| i32::from(a.port())).collect();
    for client in &mut clients {
        let answer = ask(client, 12, &metadata::Request::default());
        assert_eq!(answer.brokers.iter().map(|b| b.port).collect::<Vec<_>>(), ports);
    }
    broker.stop();
    assert_eq!(clients[0].read(&mut [0]).unwrap(), 0);
    assert!(TcpStream::connect(broker.addresses()[0]).is_err());
    broker.stop();
}

#[test]
fn large_answers_arrive_whole_through_a_small_window() {
    let broker = Broker::start(&Options::default()).unwrap();
    let mut client = connect(&broker, 0);
    let named = metadata::TopicRequest { name: Some("t".to_owned()), ..Default::default() };
    ask(&mut client, 12, &metadata::Request { topics: Some(vec![named]), ..Default::default() });
    let value = "x".repeat(900_000);
    for offset in 0..20 {
        let answer = ask(&mut client, 12, &produce_request("t", batch(&[&value], Producer::NONE)));
        assert_eq!(answer.responses[0].partition_responses[0].base_offset, offset);
    }
    // Twenty fetches at once, read only after all of them were sent.
    let mut request = fetch_request(0);
    request.topics[0].partitions[0].partition_max_bytes = i32::MAX;
    let frame = frame(&fetch::API, 12, 1, &encode(12, &request).unwrap());
    let frame = [&(frame.len() as u32).to_be_bytes(), &frame[..]].concat();
    client.write_all(&frame.repeat(20)).unwrap();
    for _ in 0..20 {
        let answer = response::<fetch::Request>(12, read_frame(&mut client).unwrap()).1;
        let offsets: Vec<_> = values(&answer.responses[0].partitions[0].records).iter().map(|r| r.0).collect();
        assert!(!offsets.is_empty() && offsets.iter().zip(0..).all(|(a, b)| *a == b));
    }
}

#[test]
fn a_long_poll_is_answered_over_a_socket_by_another_connection_and_by_time() {
    let broker = Broker::start(&Options::default()).unwrap();
    let (mut reader, mut writer) = (connect(&broker, 0), connect(&broker, 0));
    let named = metadata::TopicRequest { name: Some("t".to_owned()), ..Default::default() };
    ask(&mut writer, 12, &metadata::Request { topics: Some(vec![named]), ..Default::default() });
    let wait = fetch::Request { max_wait_ms: 60_000, ..fetch_request(0) };
    let frame = frame(&fetch::API, 12, 1, &encode(12, &wait).unwrap());
    reader.write_all(&[&(frame.len() as u32).to_be_bytes(), &frame[..]].concat()).unwrap();
    ask(&mut writer, 12, &produce_request("t", batch(&["a"], Producer::NONE)));
    let answer = response::<fetch::Request>(12, read_frame(&mut reader).unwrap()).1;
    assert_eq!(values(&answer.responses[0].partitions[0].records), [record(0, "a")]);
    let answer = ask(&mut reader, 12, &fetch::Request { max_wait_ms: 20, ..fetch_request(1) });
    assert_eq!(values(&answer.responses[0].partitions[0].records), []);
}

#[test]
fn a_frame_too_long_or_malformed_closes_the_socket() {
    let broker = Broker::start(&Options::default()).unwrap();
    for bytes in [&b"GET / HTTP/1.1\r\n\r\n"[..], &(101u32 << 20).to_be_bytes(), &[0, 0, 0, 1, 9]] {
        let mut client = connect(&broker, 0);
        client.write_all(bytes).unwrap();
        // The kernel says "reset" where it still held bytes that nobody read.
        assert!(matches!(client.read(&mut [0]), Ok(0) | Err(_)));
    }
    ask(&mut connect(&broker, 0), 12, &metadata::Request::default());
}

#[test]
fn a_port_that_is_taken_is_an_error_that_names_it() {
    let broker = Broker::start(&Options::default()).unwrap();
    let port = broker.addresses()[0].port();
    let error = Broker::start(&Options { port, ..Options::default() }).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::AddrInUse);
    assert!(error.to_string().contains(&port.to_string()));
}
