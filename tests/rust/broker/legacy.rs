//! Tests brokers of Kafka 0.6 and 0.7. The tests replay captures of real brokers request by request, and check
//! behaviour that captures cannot show.
//!
//! The captures are in chronological order, but some requests are missing. If a captured fetch returns messages whose
//! produce request was not captured, the test produces these messages first. The real brokers had two partitions,
//! segments of 1,000 bytes and messages of at most 100,000 bytes.

use super::{Got, START_MS};
use crate::vectors::{self, hex, text};
use bytes::Bytes;
use klamm::broker::legacy::{Brokers, Settings};
use klamm::broker::{Connection, LegacyVersion, Node, Options, Output, Version};
use klamm::compress::{Compression, compress};
use klamm::legacy::{
    ErrorCode, Fetch, Fetched, Magic, MessageSetBuilder, Offsets, Produce, Request, RequestType, Response,
};
use klamm::record::crc32;
use std::time::Duration;

const RELEASES: [(&str, LegacyVersion); 4] = [
    ("0.6.1", LegacyVersion::V0_6_1),
    ("0.7.0", LegacyVersion::V0_7_0),
    ("0.7.1", LegacyVersion::V0_7_1),
    ("0.7.2", LegacyVersion::V0_7_2),
];
const MINUTE: Duration = Duration::from_secs(60);

struct World {
    release: LegacyVersion,
    brokers: Brokers,
    start_ms: i64,
    now: Duration,
    connections: u64,
}

impl World {
    fn new(release: LegacyVersion, start_ms: i64, partitions: i32, settings: Settings) -> Self {
        let as_version = Version::Legacy(release);
        let options = Options { default_partitions: partitions, legacy: settings, as_version, ..Options::default() };
        let brokers = Brokers::new(&options, start_ms, 7);
        Self { release, brokers, start_ms, now: Duration::ZERO, connections: 0 }
    }

    fn small(release: LegacyVersion, start_ms: i64) -> Self {
        let settings = Settings { segment_bytes: 1000, max_message_bytes: 100_000, ..Settings::default() };
        Self::new(release, start_ms, 2, settings)
    }

    fn at(&mut self, ms: i64) {
        self.now = Duration::from_millis((ms - self.start_ms).try_into().unwrap());
        self.brokers.handle_timeout(self.now);
    }

    fn pass(&mut self, by: Duration) {
        self.now += by;
        self.brokers.handle_timeout(self.now);
    }

    /// Sends a frame without its length on a new connection.
    fn send(&mut self, frame: Bytes) -> Got {
        self.connections += 1;
        let connection = Connection(self.connections);
        self.brokers.connect(1, connection);
        self.brokers.handle(self.now, connection, frame);
        let mut written = Vec::new();
        while let Some(output) = self.brokers.poll_send() {
            match output {
                Output::Reply { parts, .. } => written.extend(parts.concat()),
                Output::Close { .. } => return Got::Closed,
            }
        }
        if written.is_empty() { Got::Nothing } else { Got::Frame(written.into()) }
    }

    fn ask(&mut self, request: &Request) -> Got {
        self.send(Bytes::from(request.encode().unwrap()).slice(4..))
    }

    fn produce(&mut self, topic: &str, partition: i32, set: impl Into<Bytes>) -> Got {
        self.ask(&Request::Produce(Produce { topic: topic.to_owned(), partition, message_set: set.into() }))
    }

    fn fetch(&mut self, topic: &str, offset: i64) -> (ErrorCode, Bytes) {
        let request = Request::Fetch(Fetch { topic: topic.to_owned(), partition: 0, offset, max_size: 1 << 20 });
        match self.answer(&request) {
            Response::Fetch(fetched) => (fetched.error, fetched.message_set),
            other => panic!("{other:?}"),
        }
    }

    fn offsets(&mut self, topic: &str, time: i64) -> Vec<i64> {
        let request = Request::Offsets(Offsets { topic: topic.to_owned(), partition: 0, time, max_number: 100 });
        match self.answer(&request) {
            Response::Offsets { offsets, .. } => offsets,
            other => panic!("{other:?}"),
        }
    }

    fn answer(&mut self, request: &Request) -> Response {
        let Got::Frame(frame) = self.ask(request) else { panic!("no answer to {request:?}") };
        Response::decode_frame(request.request_type(), frame).unwrap()
    }

    fn magic(&self) -> Magic {
        if self.release == LegacyVersion::V0_6_1 { Magic::V0 } else { Magic::V1 }
    }

    /// Returns a message set of payloads.
    fn set(&self, payloads: &[&[u8]]) -> Bytes {
        let mut set = MessageSetBuilder::new(self.magic());
        payloads.iter().for_each(|payload| set.append(payload).unwrap());
        set.seal(klamm::compress::Compression::None).unwrap().into()
    }

    /// Returns a message of this size, including its header.
    fn message(&self, size: usize) -> Bytes {
        let header = if self.magic() == Magic::V0 { 9 } else { 10 };
        self.set(&[&vec![b'x'; size - header]])
    }
}

/// Returns the messages that a fetch from the start of a log shows.
fn found(request: &Request, response: &Response) -> Vec<Produce> {
    let pair = |part: &Fetch, fetched: &Fetched| {
        let whole = fetched.message_set.len() < usize::try_from(part.max_size).unwrap_or(0);
        (part.offset == 0 && whole && !fetched.message_set.is_empty()).then(|| Produce {
            topic: part.topic.clone(),
            partition: part.partition,
            message_set: fetched.message_set.clone(),
        })
    };
    match (request, response) {
        (Request::Fetch(part), Response::Fetch(fetched)) => pair(part, fetched).into_iter().collect(),
        (Request::MultiFetch(parts), Response::MultiFetch { parts: fetched, .. }) => {
            parts.iter().zip(fetched).filter_map(|(part, fetched)| pair(part, fetched)).collect()
        }
        _ => Vec::new(),
    }
}

/// Returns the time of an offsets request.
fn time(frame: &Bytes) -> i64 {
    match Request::decode_frame(frame.clone()) {
        Ok(Request::Offsets(part)) => part.time,
        other => panic!("{other:?}"),
    }
}

#[test]
fn brokers_answer_as_in_the_captures() {
    let lines = vectors::lines("legacy.jsonl.gz");
    let mut replayed = 0;
    for (name, release) in RELEASES {
        let lines: Vec<_> = lines.iter().filter(|line| text(line, "broker") == name).collect();
        let request = |named: &str| {
            let line = lines.iter().find(|line| text(line, "name") == named);
            hex(line.unwrap_or_else(|| panic!("{name}: {named}")), "request_hex").unwrap()
        };
        let mut world = World::small(release, time(&request("offsets.seg.before")) + 1);
        let mut java = World::new(release, START_MS, 2, Settings::default());
        for line in &lines {
            let (label, frame, response) =
                (text(line, "name"), hex(line, "request_hex").unwrap(), hex(line, "response_hex").unwrap());
            if label.starts_with("flush.") || label.starts_with("retention.") {
                continue; // they need a clock: see below
            }
            let world = if label.starts_with("java.") { &mut java } else { &mut world };
            prepare(world, label, &request);
            if label.starts_with("offsets.seg.") {
                world.at(time(&request("offsets.seg.now")));
            }
            if label == "frame.size_huge" {
                let closes = world.brokers.max_frame() < 0x0640_0001;
                assert_eq!(closes, line["decoded"]["connection"] == "closed", "{name} {label}");
                continue;
            }
            if let Ok(asked) = Request::decode_frame(frame.clone())
                && let Ok(answered) = Response::decode_frame(asked.request_type(), response.clone())
            {
                for Produce { topic, partition, message_set } in found(&asked, &answered) {
                    let known = Request::Fetch(Fetch { topic: topic.clone(), partition, offset: 0, max_size: 1 });
                    if let Response::Fetch(Fetched { message_set: stored, .. }) = world.answer(&known)
                        && stored.is_empty()
                    {
                        assert_eq!(world.produce(&topic, partition, message_set), Got::Nothing, "{name} {label}");
                    }
                }
            }
            let mut got = world.send(frame.slice(4..));
            if label == "byte_by_byte" {
                assert_eq!(got, Got::Nothing, "the entry has the answer to a fetch that came later");
                let later = Fetch { topic: "slow".to_owned(), partition: 0, offset: 0, max_size: 1000 };
                got = world.ask(&Request::Fetch(later));
            }
            let wanted = match (response.is_empty(), line["decoded"]["connection"].as_str()) {
                (false, _) => Got::Frame(response),
                (true, Some("closed")) => Got::Closed,
                (true, _) => Got::Nothing,
            };
            if label.starts_with("offsets.rnd") {
                continue; // which partition it is was the broker's choice
            }
            assert_eq!(got, wanted, "{name} {label}");
            replayed += 1;
        }
    }
    assert_eq!(replayed, 392);
}

/// Returns messages that were produced before a capture and not captured.
fn prepare(world: &mut World, label: &str, request: &dyn Fn(&str) -> Bytes) {
    match label {
        "offsets.seg.latest_2" => {
            let line = request("offsets.seg.mid");
            let Response::Fetch(first) = segment(world.release) else { unreachable!() };
            world.at(time(&line) - 1);
            (0..11).for_each(|i| drop(world.produce("seg", 0, first.message_set.slice(i * 100..(i + 1) * 100))));
            let message = world.message(100);
            (11..22).for_each(|_| drop(world.produce("seg", 0, message.clone())));
            world.at(time(&line) + 1);
            (22..30).for_each(|_| drop(world.produce("seg", 0, message.clone())));
        }
        "offsets.segset" => {
            let small = world.set(&[b"tail"]);
            world.produce("segset", 0, small);
        }
        "multifetch.after_middle_too_large" => {
            let Ok(Request::Produce(large)) = Request::decode_frame(request("produce.too_large")) else {
                unreachable!()
            };
            // The first of its two messages differed here.
            let large = large.message_set.slice(world.set(&[b"a"]).len()..);
            let part = |partition, message_set| Produce { topic: "mpl".to_owned(), partition, message_set };
            let parts = vec![part(0, world.set(&[b"first"])), part(0, large), part(1, world.set(&[b"third"]))];
            assert_eq!(world.ask(&Request::MultiProduce(parts)), Got::Nothing);
        }
        _ => {}
    }
}

/// Returns the first segment of topic `seg`.
fn segment(release: LegacyVersion) -> Response {
    let (name, _) = RELEASES.into_iter().find(|(_, known)| *known == release).unwrap();
    let lines = vectors::lines("legacy.jsonl.gz");
    let line = lines.iter().find(|line| text(line, "broker") == name && text(line, "name") == "fetch.seg.first");
    Response::decode_frame(RequestType::Fetch, hex(line.unwrap(), "response_hex").unwrap()).unwrap()
}

#[test]
fn bytes_that_are_not_flushed_are_invisible() {
    for (_, release) in RELEASES {
        let settings = Settings { flush_messages: 1000, flush_ms: 2500, ..Settings::default() };
        let mut world = World::new(release, START_MS, 2, settings);
        let set = world.set(&[b"late"]);
        world.produce("fl", 0, set.clone());
        let end = i64::try_from(set.len()).unwrap();
        assert_eq!(world.fetch("fl", 0), (ErrorCode::NONE, Bytes::new()));
        assert_eq!(world.fetch("fl", end).0, ErrorCode::OFFSET_OUT_OF_RANGE);
        assert_eq!(world.offsets("fl", -1), [0]);
        assert_eq!(world.brokers.next_timeout(), Some(Duration::from_millis(2500)));
        world.pass(Duration::from_millis(2500));
        assert_eq!(world.fetch("fl", 0), (ErrorCode::NONE, set));
        assert_eq!(world.offsets("fl", -1), [end, 0]);
    }
}

#[test]
fn a_segment_that_is_full_is_followed_before_the_next_message_in_0_7_2_and_after_the_last_one_before() {
    for (_, release) in RELEASES {
        let mut world = World::small(release, START_MS);
        let message = world.message(100);
        (0..11).for_each(|_| drop(world.produce("t", 0, message.clone())));
        assert_eq!(world.offsets("t", -1), [1100, 0]);
        let request = Request::Offsets(Offsets { topic: "t".to_owned(), partition: 0, time: -1, max_number: 1 });
        assert_eq!(world.answer(&request), Response::Offsets { error: ErrorCode::NONE, offsets: vec![1100] });
        assert_eq!(world.fetch("t", 1100), (ErrorCode::NONE, Bytes::new()));
        world.pass(MINUTE);
        // An empty segment was created before the minute passed. The end of a log always counts as written now.
        let before = START_MS + 30_000;
        assert_eq!(world.offsets("t", before).len(), if release == LegacyVersion::V0_7_2 { 1 } else { 2 });
    }
}

#[test]
fn old_segments_are_deleted_whole() {
    for (_, release) in RELEASES {
        let settings = Settings { segment_bytes: 1000, retention_ms: 120_000, ..Settings::default() };
        let mut world = World::new(release, START_MS, 1, settings);
        let message = world.message(100);
        (0..11).for_each(|_| drop(world.produce("rst", 0, message.clone())));
        world.pass(MINUTE);
        (0..34).for_each(|_| drop(world.produce("rst", 0, message.clone())));
        world.pass(MINUTE);
        assert_eq!(world.offsets("rst", -1), [4500, 4400, 3300, 2200, 1100]);
        assert_eq!(world.offsets("rst", -2), [1100]);
        assert_eq!(world.fetch("rst", 1000).0, ErrorCode::OFFSET_OUT_OF_RANGE);
        assert_eq!(world.fetch("rst", 1100).0, ErrorCode::NONE);
        world.pass(MINUTE);
        assert_eq!(world.offsets("rst", -1), [4500]);
        assert_eq!(world.brokers.next_timeout(), None);
    }
}

#[test]
fn each_node_is_independent_and_registers_its_topics() {
    let mut world = World::small(LegacyVersion::V0_7_2, START_MS);
    let set = world.set(&[b"v"]);
    world.produce("b", 1, set.clone());
    world.produce("a", 0, set.clone());
    world.produce("broken", 0, set.slice(1..));
    world.fetch("asked", 0);
    assert_eq!(world.brokers.topics().collect::<Vec<_>>(), [(1, "a", 2), (1, "b", 2), (1, "broken", 2)]);
    world.brokers.connect(2, Connection(0));
    let frame = Bytes::from(Request::MultiFetch(Vec::new()).encode().unwrap()).slice(4..);
    world.brokers.handle(world.now, Connection(0), frame);
    assert_eq!(world.brokers.requests().last().map(|seen| (seen.node, seen.api)), Some((2, "MultiFetch")));
    let node = |id| Node { id, host: "localhost".to_owned(), port: 9000 };
    world.brokers.start_node(world.now, &node(2));
    assert!(world.brokers.kill(2).is_ok());
    assert_eq!(world.brokers.kill(3).unwrap_err(), "node 3 does not exist");
    assert_eq!(
        world.brokers.poll_send(),
        Some(Output::Reply { connection: Connection(0), parts: vec![b"\0\0\0\x02\0\0".as_slice().into()] })
    );
    assert_eq!(world.brokers.poll_send(), Some(Output::Close { connection: Connection(0) }));
}

#[test]
fn a_release_is_parsed_from_its_name() {
    assert_eq!(Version::parse("0.7.0"), Ok(Version::Legacy(LegacyVersion::V0_7_0)));
    assert_eq!(Version::Legacy(LegacyVersion::V0_6_1).to_string(), "0.6.1");
    let why = Version::parse("0.5").unwrap_err();
    assert!(why.contains("0.6.1, 0.7.0, 0.7.1, 0.7.2, draft"), "{why}");
}

/// Returns a message that contains a compressed set.
fn wrapped(set: &[u8]) -> Vec<u8> {
    let mut packed = Vec::new();
    compress(Compression::Gzip, set, &mut packed).unwrap();
    let length = i32::try_from(packed.len() + 6).unwrap();
    [&length.to_be_bytes()[..], &[1, 1], &crc32(&packed).to_be_bytes(), &packed].concat()
}

#[test]
fn nested_sets_are_opened_up_to_a_limit() {
    let mut world = World::new(LegacyVersion::V0_7_2, START_MS, 1, Settings::default());
    let mut set = world.set(&[b"inside"]).to_vec();
    for depth in 1..=9 {
        set = wrapped(&set);
        assert_eq!(world.produce("t", 0, set.clone()), if depth <= 8 { Got::Nothing } else { Got::Closed }, "{depth}");
    }
}

#[test]
fn a_rejected_set_is_not_stored_and_a_truncated_one_is() {
    for (_, release) in RELEASES {
        let mut world = World::small(release, START_MS);
        let good = world.set(&[b"good"]);
        let flipped: Vec<u8> = good.iter().take(good.len() - 1).chain([&0]).copied().collect();
        assert_eq!(world.produce("bad", 0, [&good[..], &flipped].concat()), Got::Closed);
        assert_eq!(world.produce("bad", 0, good.slice(..good.len() - 1)), Got::Closed);
        assert_eq!(world.fetch("bad", 0), (ErrorCode::NONE, Bytes::new()));
        let cut = Bytes::from([&good[..], &good[..7]].concat());
        assert_eq!(world.produce("cut", 0, cut.clone()), Got::Nothing);
        let stored = if release >= LegacyVersion::V0_7_1 { good.clone() } else { cut };
        assert_eq!(world.fetch("cut", 0), (ErrorCode::NONE, stored));
        let part = |partition| Produce { topic: "multi".to_owned(), partition, message_set: good.clone() };
        assert_eq!(world.ask(&Request::MultiProduce(vec![part(0), part(9), part(0)])), Got::Closed);
        assert_eq!(world.fetch("multi", 0), (ErrorCode::NONE, good.clone()));
    }
}

#[test]
fn the_memory_limit_closes_the_connection() {
    let options = Options { max_bytes: 100, as_version: Version::Legacy(LegacyVersion::V0_7_2), ..Options::default() };
    let brokers = Brokers::new(&options, START_MS, 1);
    let mut world =
        World { release: LegacyVersion::V0_7_2, brokers, start_ms: START_MS, now: Duration::ZERO, connections: 0 };
    let message = world.message(60);
    assert_eq!(world.produce("t", 0, message.clone()), Got::Nothing);
    assert_eq!(world.produce("t", 0, message), Got::Closed);
    assert_eq!(world.offsets("t", -1), [60, 0]);
}
