//! Tests API versions, and input that does not follow Kafka's protocol.

use super::{Got, World, batch, frame, response};
use bytes::Bytes;
use flate2::read::GzDecoder;
use klamm::api::header::get_response_header;
use klamm::api::*;
use klamm::broker::{Connection, Options};
use klamm::record::Producer;
use klamm::wire::{Reader, Value};
use std::io::{BufRead, BufReader};
use std::time::Duration;

/// Returns the APIs that the broker lists.
pub(super) fn served() -> Vec<&'static Entry> {
    let answer = World::with_topic().call::<api_versions::Request>(1, 0, &Default::default());
    answer.api_keys.iter().map(|served| by_key(served.api_key).unwrap()).collect()
}

#[test]
fn every_version_of_every_api_answers_in_its_format() {
    for api in served() {
        for version in api.info.min..=api.info.max_stable {
            let mut world = World::with_topic();
            let mut fields = Vec::new();
            if api.info.key == produce::API.key {
                fields.push(("acks".into(), Value::Int(1)));
            }
            let body = api.request.encode(version, Value::Struct(fields)).unwrap();
            world.cluster.handle(world.now, Connection(1), frame(api.info, version, 3, &body));
            let Got::Frame(mut answer) = world.next(1) else { panic!("{} v{version}", api.info.name) };
            let mut r = Reader::new(answer.split_off(4), version, false);
            assert_eq!(get_response_header(api.info, version, &mut r).unwrap(), 3);
            api.response.decode(version, r.rest()).unwrap();
        }
    }
}

#[test]
fn malformed_input_closes_the_connection() {
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
fn extra_bytes_after_a_request_are_ignored() {
    let mut world = World::with_topic();
    // librdkafka 2.16: a count of four bytes where null takes one.
    let body = [0, 0, 0, 0, 1, 0, 0];
    world.cluster.handle(world.now, Connection(1), frame(&metadata::API, 13, 1, &body));
    let (_, answer) = world.receive::<metadata::Request>(1, 13).unwrap();
    assert_eq!(answer.topics.len(), 1);
}

#[test]
fn api_versions_answers_an_unknown_version() {
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
    let found: Vec<_> = answer.api_keys.iter().map(|k| (k.api_key, k.min_version, k.max_version)).collect();
    let known: Vec<_> = served().iter().map(|a| (a.info.key, a.info.min, a.info.max_stable)).collect();
    assert_eq!(found, known);
    assert!(known.len() > 10);
    let mut finalized = answer.finalized_features.iter().map(|f| (f.name.as_str(), f.max_version_level));
    assert!(finalized.any(|f| f == ("transaction.version", 2)));
    let old = world.call(1, 3, &request).supported_features;
    assert!(old.iter().all(|f| f.min_version > 0), "v3 has no features that may be at version 0");
    assert_eq!(world.call(1, 4, &api_versions::Request::default()).error_code, ErrorCode::INVALID_REQUEST);
}

/// Request bodies from other programs: (API, version, body).
fn golden_requests() -> Vec<(&'static Info, i16, Vec<u8>)> {
    let served = served();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/vectors/messages.jsonl.gz");
    let lines = BufReader::new(GzDecoder::new(std::fs::File::open(path).unwrap())).lines();
    let parse = |line: std::io::Result<String>| {
        let line: serde_json::Value = serde_json::from_str(&line.unwrap()).unwrap();
        let api = served.iter().find(|api| line["kind"] == "request" && line["api"] == api.info.name)?;
        let hex = line["hex"].as_str()?.as_bytes();
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
        Some((api.info, line["version"].as_i64()? as i16, hex.chunks(2).map(byte).collect()))
    };
    lines.filter_map(parse).collect()
}

#[test]
fn no_whole_truncated_or_changed_request_panics() {
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
                world.cluster.disconnect(world.now, Connection(connection));
            }
        }
    }
    world.advance(Duration::from_secs(900));
    assert_eq!(world.cluster.next_timeout(), None, "transactions last 15 minutes at most");
    assert_eq!(world.produce(batch(&["still here"], Producer::NONE)).error_code, ErrorCode::NONE);
}
