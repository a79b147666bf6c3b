//! Tests the draft protocol between Kafka 0.7 and 0.8: its codec and its broker. The tests follow the table in
//! `src/legacy/draft.rs` row by row.

use super::START_MS;
use bytes::Bytes;
use klamm::broker::legacy::Brokers;
use klamm::broker::{Connection, Options, Output, Version};
use klamm::compress::Compression;
use klamm::legacy::draft::{Header, OffsetData, PartitionData, Request, Response, ResponseHeader, TopicData};
use klamm::legacy::{Magic, MessageSetBuilder};
use std::time::Duration;

struct World {
    brokers: Brokers,
    now: Duration,
}

fn set(payload: &[u8]) -> Bytes {
    let mut set = MessageSetBuilder::new(Magic::V1);
    set.append(payload).unwrap();
    set.seal(Compression::None).unwrap().into()
}

fn header(correlation_id: i32) -> Header {
    Header { version: 0, correlation_id, client_id: "me".to_owned() }
}

fn produce(correlation_id: i32, required_acks: i8, parts: &[(&str, i32, Bytes)]) -> Request {
    let data = parts.iter().map(|(topic, partition, message_set)| TopicData {
        topic: (*topic).to_owned(),
        partitions: vec![PartitionData { partition: *partition, message_set: message_set.clone() }],
    });
    Request::Produce { header: header(correlation_id), required_acks, ack_timeout: 500, data: data.collect() }
}

fn fetch(correlation_id: i32, max_wait: i32, min_bytes: i32, partitions: &[(i32, i32)]) -> Request {
    let topics = vec![OffsetData {
        topic: "t".to_owned(),
        partitions: partitions.iter().map(|(partition, _)| *partition).collect(),
        offsets: partitions.iter().map(|(_, offset)| *offset).collect(),
    }];
    Request::Fetch { header: header(correlation_id), replica_id: -1, max_wait, min_bytes, topics }
}

impl World {
    fn new() -> Self {
        let options = Options { as_version: Version::Draft, default_partitions: 2, ..Options::default() };
        let mut brokers = Brokers::new(&options, START_MS, 1);
        brokers.connect(1, Connection(1));
        Self { brokers, now: Duration::ZERO }
    }

    fn send(&mut self, request: &Request) {
        let frame = Bytes::from(request.encode().unwrap()).slice(4..);
        self.brokers.handle(self.now, Connection(1), frame);
    }

    /// Returns the next reply; `None` if there is none or the connection is closed.
    fn answer(&mut self, is_produce: bool) -> Option<Response> {
        match self.brokers.poll_send()? {
            Output::Reply { parts, .. } => Some(Response::decode_frame(is_produce, parts.concat().into()).unwrap()),
            Output::Close { .. } => None,
        }
    }

    fn pass(&mut self, ms: u64) {
        self.now += Duration::from_millis(ms);
        self.brokers.handle_timeout(self.now);
    }
}

fn sets(response: &Response) -> Vec<Bytes> {
    let Response::Fetch { data, .. } = response else { panic!("{response:?}") };
    data.iter().flat_map(|topic| &topic.partitions).map(|part| part.message_set.clone()).collect()
}

#[test]
fn requests_have_the_layout_of_the_proposal() {
    let request = produce(7, 1, &[("t", 1, Bytes::from_static(b"abc"))]);
    let frame = request.encode().unwrap();
    let wanted: &[u8] =
        b"\0\0\0\x23\0\0\0\0\0\0\0\x07\0\x02me\x01\0\0\x01\xf4\0\x01\0\x01t\0\x01\0\0\0\x01\0\0\0\x03abc";
    assert_eq!(frame, wanted);
    assert_eq!(Request::decode_frame(frame.into()), Ok(request));
    let request = fetch(8, 100, 1, &[(0, 5), (1, 6)]);
    let frame = request.encode().unwrap();
    let wanted: &[u8] = b"\0\0\0\x31\0\x01\0\0\0\0\0\x08\0\x02me\xff\xff\xff\xff\0\0\0\x64\0\0\0\x01\
        \0\x01\0\x01t\0\x02\0\0\0\0\0\0\0\x01\0\x02\0\0\0\x05\0\0\0\x06";
    assert_eq!(frame, wanted);
    assert_eq!(Request::decode_frame(frame.clone().into()), Ok(request));
    for cut in 0..frame.len() - 4 {
        assert!(Request::decode(Bytes::from(frame.clone()).slice(4..4 + cut)).is_err(), "{cut}");
    }
}

#[test]
fn responses_have_the_layout_of_the_proposal() {
    let header = ResponseHeader { correlation_id: 7, version: 0, error: 0 };
    let response = Response::Produce { header, errors: vec![-1, 3], offsets: vec![12, -1] };
    let frame = response.encode().unwrap();
    let wanted: &[u8] = b"\0\0\0\x20\0\0\0\x07\0\0\0\0\0\x02\xff\xff\0\x03\0\x02\0\0\0\0\0\0\0\x0c\
        \xff\xff\xff\xff\xff\xff\xff\xff";
    assert_eq!(frame, wanted);
    assert_eq!(Response::decode_frame(true, frame.into()), Ok(response));
}

#[test]
fn lengths_and_counts_that_do_not_fit_are_rejected() {
    let negative = b"\0\0\0\0\0\0\0\x07\0\x02me\x01\0\0\x01\xf4\xff\xff";
    let huge = b"\0\0\0\0\0\0\0\x07\0\x02me\x01\0\0\x01\xf4\x7f\xff";
    let unknown = b"\0\x02\0\0\0\0\0\x07\0\x02me";
    for bytes in [negative.as_slice(), huge, unknown] {
        assert!(Request::decode(Bytes::copy_from_slice(bytes)).is_err());
    }
}

#[test]
fn each_message_set_has_its_error_and_its_offset() {
    let mut world = World::new();
    let (one, two) = (set(b"one"), set(b"two"));
    world.send(&produce(1, 1, &[("t", 0, one.clone()), ("t", 9, one.clone()), ("t", 0, two.clone())]));
    let end = i64::try_from(one.len()).unwrap();
    let header = ResponseHeader { correlation_id: 1, version: 0, error: 0 };
    let wanted = Response::Produce { header, errors: vec![-1, 3, -1], offsets: vec![0, -1, end] };
    assert_eq!(world.answer(true), Some(wanted));
    world.send(&produce(2, 1, &[("t", 0, one.slice(1..))]));
    assert!(matches!(world.answer(true), Some(Response::Produce { errors, .. }) if errors == [2]));
    world.send(&fetch(3, 0, 1, &[(0, 0)]));
    assert_eq!(sets(&world.answer(false).unwrap()), [[one, two].concat()]);
    let seen = world.brokers.requests().last().unwrap();
    assert_eq!((seen.api, seen.correlation_id, seen.client_id.as_deref()), ("Fetch", 3, Some("me")));
}

#[test]
fn a_fetch_waits_while_other_requests_are_answered() {
    let mut world = World::new();
    let message = set(b"message");
    let enough = i32::try_from(message.len()).unwrap() + 1;
    world.send(&fetch(1, 1000, enough, &[(0, 0), (1, 0)]));
    assert_eq!(world.answer(false), None);
    world.send(&produce(2, 1, &[("t", 0, message.clone())]));
    assert!(matches!(world.answer(true), Some(Response::Produce { header, .. }) if header.correlation_id == 2));
    assert_eq!(world.answer(false), None);
    world.send(&produce(3, 0, &[("t", 1, message.clone())]));
    let answer = world.answer(false).unwrap();
    assert_eq!(sets(&answer), [message.clone(), message.clone()]);
    assert_eq!(world.answer(true), None, "a request without acknowledgements has no reply");
    world.send(&fetch(4, 1000, 1_000_000, &[(0, 0)]));
    world.pass(999);
    assert_eq!(world.answer(false), None);
    assert_eq!(world.brokers.next_timeout(), Some(Duration::from_millis(1000)));
    world.pass(1);
    assert_eq!(sets(&world.answer(false).unwrap()), [message]);
}

#[test]
fn missing_acknowledgements_are_an_error_after_the_timeout() {
    let mut world = World::new();
    world.send(&produce(1, 2, &[("t", 0, set(b"v"))]));
    world.pass(499);
    assert_eq!(world.answer(true), None);
    world.pass(1);
    let wanted = ResponseHeader { correlation_id: 1, version: 0, error: -1 };
    assert!(matches!(world.answer(true), Some(Response::Produce { header, .. }) if header == wanted));
}

#[test]
fn a_fetch_error_fails_the_request_at_once() {
    let mut world = World::new();
    world.send(&produce(1, 0, &[("t", 0, set(b"v"))]));
    world.send(&fetch(2, 1000, 1000, &[(0, 0), (1, 0), (7, 0)]));
    let answer = world.answer(false).unwrap();
    assert!(matches!(&answer, Response::Fetch { header, .. } if header.error == 3));
    assert_eq!(sets(&answer), [set(b"v"), Bytes::new(), Bytes::new()]);
    let mut uneven = fetch(3, 0, 0, &[(0, 0)]);
    if let Request::Fetch { topics, .. } = &mut uneven {
        topics.iter_mut().for_each(|topic| topic.offsets.clear());
    }
    world.send(&uneven);
    assert_eq!(world.brokers.poll_send(), Some(Output::Close { connection: Connection(1) }));
}
