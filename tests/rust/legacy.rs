//! Tests the codec of Kafka 0.6 and 0.7 with captured traffic of real brokers and with hostile input.

use crate::hostile::{Random, mutate, peak_of};
use crate::vectors::{self, hex, text};
use bytes::Bytes;
use klamm::compress::{Compression, DEFAULT_LIMIT, compress};
use klamm::legacy::{
    ErrorCode, Fetch, Fetched, MAX_DEPTH, Magic, Message, MessageSetBuilder, Messages, Offsets, Produce, Request,
    RequestType, Response,
};
use klamm::record::crc32;
use klamm::wire::{Error, Reason};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::{Value as Json, json};

/// Requests that brokers reject: the error and its place.
const REFUSED_REQUESTS: [(&str, &str); 3] = [
    ("frame.type5", "type: only the types 0 to 4 exist (at byte 4)"),
    ("frame.type_neg", "type: only the types 0 to 4 exist (at byte 4)"),
    ("frame.size_huge", "length: length 104857601 exceeds the 0 bytes left (at byte 0)"),
];
/// Responses to a negative `max_size`. Their length is too small, so they cannot be decoded.
const REFUSED_RESPONSES: [(&str, &str); 2] =
    [("fetch.size_minus1", "1 bytes left over (at byte 5)"), ("fetch.size_minus2", "2 bytes left over (at byte 4)")];
/// A produce request whose entry has the response to a later fetch.
const ANSWER_TO_A_LATER_FETCH: &str = "byte_by_byte";

struct Capture {
    name: String,
    request: Bytes,
    response: Bytes,
    decoded: Json,
}

impl Capture {
    fn refused(&self, table: &[(&str, &'static str)]) -> Option<&'static str> {
        table.iter().find(|(name, _)| self.name == *name).map(|(_, why)| *why)
    }

    /// Returns the request and its fields, or `None`.
    fn request(&self) -> Option<Request> {
        let read = Request::decode_frame(self.request.clone());
        match self.refused(&REFUSED_REQUESTS) {
            Some(why) => assert_eq!(read.unwrap_err().to_string(), why, "{}", self.name),
            None => return Some(read.unwrap_or_else(|e| panic!("{}: {e}", self.name))),
        }
        None
    }

    fn response_type(&self) -> RequestType {
        let asked = self.request().unwrap().request_type();
        if self.name == ANSWER_TO_A_LATER_FETCH { RequestType::Fetch } else { asked }
    }

    /// Returns the response, if it has fields.
    fn response(&self) -> Option<Response> {
        if self.response.is_empty() {
            return None;
        }
        let read = Response::decode_frame(self.response_type(), self.response.clone());
        match self.refused(&REFUSED_RESPONSES) {
            Some(why) => assert_eq!(read.unwrap_err().to_string(), why, "{}", self.name),
            None => return Some(read.unwrap_or_else(|e| panic!("{}: {e}", self.name))),
        }
        None
    }

    /// Returns all message sets with their start offsets.
    fn sets(&self) -> Vec<(Bytes, i64)> {
        let mut sets = Vec::new();
        let mut offsets = Vec::new();
        match self.request() {
            Some(Request::Produce(part)) => sets.push((part.message_set, 0)),
            Some(Request::MultiProduce(parts)) => sets.extend(parts.into_iter().map(|part| (part.message_set, 0))),
            Some(Request::Fetch(part)) => offsets.push(part.offset),
            Some(Request::MultiFetch(parts)) => offsets.extend(parts.iter().map(|part| part.offset)),
            Some(Request::Offsets(_)) | None => {}
        }
        offsets.resize(offsets.len().max(1), 0);
        match self.response() {
            Some(Response::Fetch(part)) => sets.push((part.message_set, offsets[0])),
            Some(Response::MultiFetch { parts, .. }) => {
                sets.extend(parts.into_iter().map(|part| part.message_set).zip(offsets));
            }
            Some(Response::Offsets { .. }) | None => {}
        }
        sets
    }
}

fn captures() -> Vec<Capture> {
    let read = |line: &Json| Capture {
        name: text(line, "name").to_owned(),
        request: hex(line, "request_hex").unwrap(),
        response: hex(line, "response_hex").unwrap(),
        decoded: line["decoded"].clone(),
    };
    let captures: Vec<Capture> = vectors::lines("legacy.jsonl.gz").iter().map(read).collect();
    assert_eq!(captures.len(), 413);
    captures
}

fn messages(data: &Bytes, offset: i64) -> Messages {
    Messages::new(data.clone(), offset, DEFAULT_LIMIT)
}

/// Returns all messages, or the error of one of them.
fn read(data: &[u8]) -> Result<Vec<Message>, Error> {
    messages(&Bytes::copy_from_slice(data), 0).collect()
}

/// Returns the messages of a set in the form of the captures, without nesting.
fn describe(data: &Bytes, offset: i64) -> Json {
    let mut walk = messages(data, offset);
    let found: Vec<Json> = walk
        .by_ref()
        .map(|message| {
            let m = message.unwrap();
            let payload = shortened(&m.payload);
            json!([m.offset, m.next_offset, m.magic.number(), m.compression.number(), payload, m.index, m.count])
        })
        .collect();
    json!({"messages": found, "tail": walk.left()})
}

/// Returns a payload in the form of the captures.
fn shortened(payload: &[u8]) -> String {
    match payload.len() {
        0..=80 => String::from_utf8_lossy(payload).into_owned(),
        n => format!("({n} bytes) {}", String::from_utf8_lossy(&payload[..16])),
    }
}

/// Returns the same from a capture.
fn expected(set: &Json) -> Json {
    let mut flat = Vec::new();
    for outer in set["messages"].as_array().unwrap() {
        let mut inner = Vec::new();
        let more = leaves(outer, &mut inner);
        let (count, codec) = (inner.len() as u64 + more, &outer["codec"]);
        flat.extend(
            inner.iter().enumerate().map(|(i, leaf)| {
                json!([outer["start"], outer["next"], leaf["magic"], codec, leaf["payload"], i, count])
            }),
        );
        flat.extend((0..more).map(|_| Json::Null));
    }
    let tail = if set["tail"].is_null() { &set["trailing_partial_bytes"] } else { &set["tail"] };
    json!({"messages": flat, "tail": tail})
}

/// Collects the messages inside a wrapper, and returns the number that the capture omits.
fn leaves<'a>(message: &'a Json, found: &mut Vec<&'a Json>) -> u64 {
    match (message["..."].as_u64(), message["inner"].as_array()) {
        (Some(more), _) => more,
        (_, Some(inner)) => inner.iter().map(|message| leaves(message, found)).sum(),
        _ => {
            found.push(message);
            0
        }
    }
}

fn assert_same_messages(name: &str, data: &Bytes, offset: i64, set: &Json) {
    let (mut found, expected) = (describe(data, offset), expected(set));
    if let (Some(found), Some(expected)) = (found["messages"].as_array_mut(), expected["messages"].as_array()) {
        assert_eq!(found.len(), expected.len(), "{name}");
        for (found, _) in found.iter_mut().zip(expected).filter(|(_, expected)| expected.is_null()) {
            *found = Json::Null;
        }
    }
    assert_eq!(found, expected, "{name}");
}

fn assert_same_request(name: &str, request: &Request, expected: &Json) {
    let asked = |topic: &str, partition: i32| json!({"topic": topic, "partition": partition});
    let fetch = |part: &Fetch| {
        let mut json = asked(&part.topic, part.partition);
        (json["offset"], json["max_size"]) = (part.offset.into(), part.max_size.into());
        json
    };
    assert_eq!(request.request_type().name(), expected["type"], "{name}");
    let parts = match request {
        Request::Fetch(part) => vec![fetch(part)],
        Request::MultiFetch(parts) => parts.iter().map(fetch).collect(),
        Request::Offsets(part) => {
            let mut json = asked(&part.topic, part.partition);
            (json["time"], json["max_number"]) = (part.time.into(), part.max_number.into());
            vec![json]
        }
        Request::Produce(_) | Request::MultiProduce(_) => {
            let parts = match request {
                Request::MultiProduce(parts) => parts.as_slice(),
                Request::Produce(part) => std::slice::from_ref(part),
                _ => &[],
            };
            assert_eq!(parts.len(), expected["parts"].as_array().unwrap().len(), "{name}");
            for (part, expected) in parts.iter().zip(expected["parts"].as_array().unwrap()) {
                assert_eq!(part.topic, expected["topic"], "{name}");
                assert_eq!(part.partition, expected["partition"], "{name}");
                assert_eq!(part.message_set.len(), expected["messages_length"], "{name}");
                assert_same_messages(name, &part.message_set, 0, expected);
            }
            return;
        }
    };
    assert_eq!(Json::from(parts), expected["parts"], "{name}");
}

fn assert_same_response(capture: &Capture, response: &Response, expected: &Json) {
    let name = &capture.name;
    let offsets = match capture.request() {
        Some(Request::Fetch(part)) => vec![part.offset],
        Some(Request::MultiFetch(parts)) => parts.iter().map(|part| part.offset).collect(),
        _ => vec![0],
    };
    let fetched = |part: &Fetched, offset, expected: &Json| {
        assert_eq!(part.error.0, expected["error"], "{name}");
        if let Some(size) = expected["set_bytes"].as_u64() {
            assert_eq!(part.message_set.len() as u64, size, "{name}");
        }
        assert_same_messages(name, &part.message_set, offset, expected);
    };
    match response {
        Response::Fetch(part) => fetched(part, offsets[0], expected),
        Response::MultiFetch { error, parts } => {
            assert_eq!(error.0, expected["outer_error"], "{name}");
            assert_eq!(parts.len(), expected["parts"].as_array().unwrap().len(), "{name}");
            for ((part, offset), expected) in parts.iter().zip(offsets).zip(expected["parts"].as_array().unwrap()) {
                fetched(part, offset, expected);
            }
        }
        Response::Offsets { error, offsets } => {
            assert_eq!(error.0, expected["error"], "{name}");
            assert_eq!(json!(offsets), expected["offsets"], "{name}");
        }
    }
}

#[test]
fn every_captured_request_is_read_and_written_as_it_was() {
    let mut read = 0;
    for capture in captures() {
        let Some(request) = capture.request() else { continue };
        read += 1;
        assert_eq!(request.encode().unwrap(), capture.request, "{}", capture.name);
        assert_eq!(Request::decode(capture.request.slice(4..)).unwrap(), request, "{}", capture.name);
        if !capture.decoded["request"].is_null() {
            assert_same_request(&capture.name, &request, &capture.decoded["request"]);
        }
    }
    // Three frames that are no request, on each of the four brokers.
    assert_eq!(read, 413 - 12);
}

#[test]
fn every_captured_response_is_read_and_written_as_it_was() {
    let (mut read, mut refused) = (0, 0);
    for capture in captures() {
        let Some(response) = capture.response() else {
            refused += usize::from(!capture.response.is_empty());
            continue;
        };
        read += 1;
        assert_eq!(response.encode().unwrap(), capture.response, "{}", capture.name);
        let body = capture.response.slice(4..);
        assert_eq!(Response::decode(capture.response_type(), body).unwrap(), response, "{}", capture.name);
        let nested = !capture.decoded["response"].is_null();
        let expected = if nested { &capture.decoded["response"] } else { &capture.decoded };
        assert_same_response(&capture, &response, expected);
    }
    assert_eq!((read, refused), (297 - 4, 8));
}

#[test]
fn every_strict_prefix_of_a_frame_is_refused() {
    for capture in captures() {
        for cut in 0..capture.request.len().min(2000) {
            assert!(Request::decode_frame(capture.request.slice(..cut)).is_err(), "{} {cut}", capture.name);
            if cut >= 4 {
                assert!(Request::decode(capture.request.slice(4..cut)).is_err(), "{} {cut}", capture.name);
            }
        }
        for cut in 0..capture.response.len().min(2000) {
            let frame = capture.response.slice(..cut);
            assert!(Response::decode_frame(capture.response_type(), frame).is_err(), "{} {cut}", capture.name);
        }
    }
}

#[test]
fn every_prefix_of_a_message_set_has_the_messages_that_are_whole() {
    for (data, offset) in captures().iter().flat_map(Capture::sets) {
        let whole: Vec<_> = messages(&data, offset).map_while(Result::ok).collect();
        for cut in 0..data.len().min(500) {
            let mut walk = messages(&data.slice(..cut), offset);
            let found: Vec<Message> = walk.by_ref().map_while(Result::ok).collect();
            let end = offset + cut as i64;
            let expected: Vec<_> = whole.iter().take_while(|m| m.next_offset <= end).cloned().collect();
            assert_eq!(found, expected);
            assert_eq!(walk.offset() + walk.left() as i64, end);
        }
    }
}

#[test]
fn captured_messages_that_are_not_compressed_are_written_as_they_were() {
    let mut written = 0;
    for (data, _) in captures().iter().flat_map(Capture::sets) {
        for message in messages(&data, 0).map_while(Result::ok).filter(|m| m.compression == Compression::None) {
            let (start, end) = (message.offset as usize, message.next_offset as usize);
            let mut set = MessageSetBuilder::new(message.magic);
            set.append(&message.payload).unwrap();
            // Attributes that mean nothing are not written.
            if message.magic == Magic::V0 || data[start + 5] == 0 {
                assert_eq!(set.seal(Compression::None).unwrap(), data[start..end]);
                written += 1;
            }
        }
    }
    assert!(written > 300, "{written}");
}

#[test]
fn a_payload_that_is_not_compressed_is_a_slice_of_its_frame() {
    let set = set(Magic::V1, &[b"one", b"two"], Compression::None);
    let produce = Produce { topic: "t".into(), partition: 0, message_set: set.into() };
    let frame = Bytes::from(Request::Produce(produce).encode().unwrap());
    let Request::Produce(part) = Request::decode_frame(frame.clone()).unwrap() else { panic!() };
    let message = messages(&part.message_set, 0).nth(1).unwrap().unwrap();
    assert_eq!(message.payload.as_ptr(), frame[frame.len() - 3..].as_ptr());
}

fn set(magic: Magic, payloads: &[&[u8]], compression: Compression) -> Vec<u8> {
    let mut set = MessageSetBuilder::new(magic);
    for payload in payloads {
        set.append(payload).unwrap();
    }
    set.seal(compression).unwrap()
}

/// Returns a message of magic 1 with these attributes.
fn raw(attributes: u8, payload: &[u8]) -> Vec<u8> {
    let length = (6 + payload.len() as u32).to_be_bytes();
    [&length[..], &[1, attributes], &crc32(payload).to_be_bytes(), payload].concat()
}

/// Returns a wrapper around these bytes.
fn wrap(compression: Compression, data: &[u8]) -> Vec<u8> {
    let mut packed = Vec::new();
    compress(compression, data, &mut packed).unwrap();
    raw(compression.number() as u8, &packed)
}

#[test]
fn messages_in_wrappers_know_the_outer_boundaries_their_index_and_how_many_there_are() {
    let deep = wrap(Compression::Snappy, &set(Magic::V0, &[b"b", b"c"], Compression::None));
    let inside = [set(Magic::V1, &[b"a"], Compression::None), deep, set(Magic::V1, &[b"d"], Compression::None)];
    let wrapper = wrap(Compression::Gzip, &inside.concat());
    let plain = set(Magic::V0, &[b"e"], Compression::None);
    let data = Bytes::from([wrapper.clone(), plain].concat());
    let found: Vec<Message> = messages(&data, 1000).collect::<Result<_, _>>().unwrap();
    let end = 1000 + wrapper.len() as i64;
    let summary: Vec<_> =
        found.iter().map(|m| (&m.payload[..], m.magic, m.offset, m.next_offset, m.index, m.count)).collect();
    assert_eq!(
        summary,
        [
            (&b"a"[..], Magic::V1, 1000, end, 0, 4),
            (b"b", Magic::V0, 1000, end, 1, 4),
            (b"c", Magic::V0, 1000, end, 2, 4),
            (b"d", Magic::V1, 1000, end, 3, 4),
            (b"e", Magic::V0, end, end + 10, 0, 1),
        ]
    );
    let codecs: Vec<_> = found.iter().map(|m| m.compression).collect();
    assert_eq!(codecs, [[Compression::Gzip; 4].as_slice(), &[Compression::None]].concat());
}

#[test]
fn messages_before_an_error_are_read_and_none_after_it() {
    let mut data = set(Magic::V1, &[b"one", b"two", b"three"], Compression::None);
    data[13 + 10] ^= 1;
    let mut walk = messages(&data.into(), 0);
    assert_eq!(walk.next().unwrap().unwrap().payload, "one");
    assert_eq!(walk.next().unwrap().unwrap_err().path(), "[1].checksum");
    assert!(walk.next().is_none());
    assert_eq!(walk.offset(), 13);
}

#[test]
fn broken_messages_are_refused_by_path_and_offset() {
    let good = set(Magic::V1, &[b"good"], Compression::None);
    let behind_good = |bytes: &[u8]| [&good[..], bytes].concat();
    let mut bad_crc = good.clone();
    bad_crc[6] ^= 0x80;
    let mut bad_crc_0 = set(Magic::V0, &[b"good"], Compression::None);
    bad_crc_0[5] ^= 0x80;
    let in_one = |data: &[u8]| wrap(Compression::Gzip, data);
    let mut bad_wrapper = in_one(&good);
    let last = bad_wrapper.len() - 1;
    bad_wrapper[last] ^= 1;
    let cases = [
        (behind_good(&bad_crc), "[1].checksum: does not match the payload (at byte 20)"),
        (behind_good(&bad_crc_0), "[1].checksum: does not match the payload (at byte 19)"),
        (behind_good(&bad_wrapper), "[1].checksum: does not match the payload (at byte 20)"),
        (behind_good(&raw(3, b"x")), "[1].attributes: codec 3 does not exist in Kafka 0.7 (at byte 19)"),
        (behind_good(&raw(0xff, b"x")), "[1].attributes: codec 3 does not exist in Kafka 0.7 (at byte 19)"),
        (behind_good(&[0, 0, 0, 7, 2, 0, 0, 0, 0, 0, 0]), "[1].magic: is neither 0 nor 1 (at byte 18)"),
        (behind_good(&[0, 0, 0, 5, 1, 0, 0, 0, 0]), "[1].length: needs 6 bytes, 5 left (at byte 14)"),
        (
            behind_good(&[0, 0, 0, 4, 0, 0]),
            "[1].length: is less than the size of a message without payload (at byte 14)",
        ),
        (behind_good(&[0, 0, 0, 0]), "[1].length: is less than the size of a message without payload (at byte 14)"),
        (behind_good(&[0xff; 4]), "[1].length: length -1 is negative (at byte 14)"),
        (in_one(&behind_good(&bad_crc)), "[0].messages[1].checksum: does not match the payload (at byte 20)"),
        (in_one(&raw(3, b"x")), "[0].messages[0].attributes: codec 3 does not exist in Kafka 0.7 (at byte 5)"),
        (in_one(&[0x80, 0, 0, 0]), "[0].messages[0].length: length -2147483648 is negative (at byte 0)"),
        (
            in_one(&behind_good(&in_one(&behind_good(&bad_crc)))),
            "[0].messages[1].messages[1].checksum: does not match the payload (at byte 20)",
        ),
    ];
    for (data, why) in cases {
        assert_eq!(read(&data).unwrap_err().to_string(), why);
    }
    for attributes in [1, 2, 0x81] {
        let refused = read(&raw(attributes, b"neither gzip nor snappy")).unwrap_err();
        assert_eq!((refused.path().as_str(), refused.offset()), ("[0].payload", 10));
        assert!(matches!(refused.reason(), Reason::Compression(_)), "{refused}");
    }
    for attributes in [0xfc, 4, 0x80] {
        assert_eq!(read(&raw(attributes, b"x")).unwrap()[0].payload, "x");
    }
}

#[test]
fn an_empty_wrapper_and_a_cut_message_inside_are_taken_as_the_broker_takes_them() {
    let good = set(Magic::V1, &[b"good", b"cut"], Compression::None);
    let data = [wrap(Compression::Gzip, b""), wrap(Compression::Snappy, &good[..good.len() - 1])].concat();
    let found = read(&data).unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!((&found[0].payload[..], found[0].index, found[0].count), (&b"good"[..], 0, 1));
}

#[test]
fn wrappers_in_wrappers_end_at_a_depth() {
    let mut data = set(Magic::V1, &[b"deep"], Compression::None);
    for _ in 0..MAX_DEPTH {
        data = wrap(Compression::Gzip, &data);
    }
    assert_eq!(read(&data).unwrap()[0].payload, "deep");
    let refused = read(&wrap(Compression::Gzip, &data)).unwrap_err();
    assert!(refused.to_string().contains("more than 8 wrappers around a message"), "{refused}");
    for _ in 0..200 {
        data = wrap(Compression::Gzip, &data);
    }
    assert_eq!(read(&data).unwrap_err().reason(), refused.reason());
}

#[test]
fn what_comes_out_of_a_wrapper_and_those_inside_of_it_has_one_limit() {
    const LIMIT: usize = 4 << 20;
    let zeros = set(Magic::V1, &[&vec![0; 1 << 20]], Compression::Gzip);
    let many = wrap(Compression::Gzip, &zeros.repeat(50));
    let deep = wrap(Compression::Gzip, &wrap(Compression::Gzip, &wrap(Compression::Gzip, &vec![0; 64 << 20])));
    for bomb in [many, deep] {
        let size = bomb.len();
        let data = Bytes::from(bomb);
        let (result, peak) = peak_of(|| Messages::new(data, 0, LIMIT).collect::<Result<Vec<_>, _>>());
        assert!(matches!(result.unwrap_err().reason(), Reason::Compression(_)));
        assert!(size < 1 << 20 && peak < 3 * LIMIT + (128 << 10), "{size} bytes took {peak}");
    }
    // One behind the other they take no more than one.
    let data = Bytes::from(zeros.repeat(50));
    let (count, peak) = peak_of(|| Messages::new(data, 0, LIMIT).filter(Result::is_ok).count());
    assert_eq!(count, 50);
    assert!(peak < 3 * LIMIT + (128 << 10), "{peak}");
}

#[test]
fn broken_frames_are_refused_by_path_and_offset() {
    let request = |body: &[u8]| Request::decode(Bytes::copy_from_slice(body)).unwrap_err().to_string();
    let place = [0, 1, b't', 0, 0, 0, 0];
    let produce = |size: [u8; 4]| request(&[&[0, 0][..], &place, &size, b"abc"].concat());
    assert_eq!(produce([0xff; 4]), "messageSet: length -1 is negative (at byte 9)");
    assert_eq!(produce([0xff, 0xff, 0xff, 0xfe]), "messageSet: length -2 is negative (at byte 9)");
    assert_eq!(produce([0x7f, 0xff, 0xff, 0xff]), "messageSet: length 2147483647 exceeds the 3 bytes left (at byte 9)");
    assert_eq!(produce([0, 0, 0, 2]), "1 bytes left over (at byte 15)");
    assert_eq!(request(&[0, 1, 0xff, 0xff]), "topic: length -1 is negative (at byte 2)");
    assert_eq!(request(&[0, 1, 0, 1, 0xff]), "topic: is not UTF-8 (at byte 4)");
    assert_eq!(request(&[0, 2, 0xff, 0xff]), "count: length -1 is negative (at byte 2)");
    let two = [&[0, 2, 0, 2][..], &place, &[0; 12]].concat();
    assert_eq!(request(&two), "count: length 2 exceeds the 19 bytes left (at byte 2)");
    let second = [&[0, 3, 0, 2][..], &place, &[0; 4], &place, &[0xff; 4]].concat();
    assert_eq!(request(&second), "parts[1].messageSet: length -1 is negative (at byte 22)");

    let response = |to, body: &[u8]| Response::decode(to, Bytes::copy_from_slice(body)).unwrap_err().to_string();
    assert_eq!(response(RequestType::Fetch, &[0]), "error: needs 2 bytes, 1 left (at byte 0)");
    assert_eq!(response(RequestType::Produce, &[0, 0]), "is never answered (at byte 0)");
    let part = |size: u8| response(RequestType::MultiFetch, &[0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, size, 0]);
    assert_eq!(part(2), "parts[1].length: length 2 exceeds the 1 bytes left (at byte 8)");
    assert_eq!(part(1), "parts[1].error: needs 2 bytes, 1 left (at byte 12)");
    let offsets = |count: [u8; 4]| response(RequestType::Offsets, &[&[0, 0][..], &count, &[0; 9]].concat());
    assert_eq!(offsets([0xff; 4]), "offsets: length -1 is negative (at byte 2)");
    assert_eq!(offsets([0x7f, 0, 0, 0]), "offsets: length 2130706432 exceeds the 9 bytes left (at byte 2)");
    assert_eq!(offsets([0, 0, 0, 1]), "1 bytes left over (at byte 14)");

    let frame = |bytes: &[u8]| Request::decode_frame(Bytes::copy_from_slice(bytes)).unwrap_err().to_string();
    assert_eq!(frame(&[0xff; 6]), "length: length -1 is negative (at byte 0)");
    assert_eq!(frame(&[0, 0, 0, 1, 0, 0]), "1 bytes left over (at byte 5)");
}

#[test]
fn error_codes_have_names_and_unknown_ones_survive() {
    let name = |code| ErrorCode(code).to_string();
    assert_eq!(name(-1), "UNKNOWN (-1)");
    assert_eq!(name(1), "OFFSET_OUT_OF_RANGE (1)");
    assert_eq!(name(99), "UNKNOWN (99)");
    for code in [-1, 0, 1, 2, 3, 4, 99] {
        let response = Response::Fetch(Fetched { error: ErrorCode(code), message_set: Bytes::new() });
        let frame = response.encode().unwrap();
        assert_eq!(Response::decode_frame(RequestType::Fetch, frame.into()).unwrap(), response);
    }
}

#[test]
fn what_has_no_form_on_the_wire_is_not_written() {
    let fetch = Fetch { topic: "t".repeat(32_768), partition: 0, offset: 0, max_size: 0 };
    assert_eq!(Request::Fetch(fetch.clone()).encode().unwrap_err().path(), "topic");
    let fetch = Fetch { topic: String::new(), ..fetch };
    assert_eq!(Request::MultiFetch(vec![fetch; 32_768]).encode().unwrap_err().path(), "count");
    let mut set = MessageSetBuilder::new(Magic::V0);
    set.append(b"x").unwrap();
    assert!(set.seal(Compression::Gzip).unwrap_err().to_string().contains("magic 0 cannot be compressed"));
    for compression in [Compression::Lz4, Compression::Zstd] {
        let error = MessageSetBuilder::new(Magic::V1).seal(compression).unwrap_err();
        assert!(error.to_string().contains("no compression but gzip and snappy"), "{error}");
    }
}

#[test]
fn nothing_without_messages_is_wrapped() {
    assert_eq!(set(Magic::V1, &[], Compression::Gzip), b"");
}

#[test]
fn a_set_is_compressed_into_one_wrapper_with_messages_of_magic_1_inside() {
    for compression in [Compression::Gzip, Compression::Snappy] {
        let data = set(Magic::V1, &[b"one", b"two"], compression);
        assert_eq!((data[4], i16::from(data[5])), (1, compression.number()));
        let found = read(&data).unwrap();
        assert!(found.iter().all(|m| m.magic == Magic::V1 && m.next_offset == data.len() as i64 && m.count == 2));
        assert_eq!(found[1].payload, "two");
    }
}

#[test]
fn mutated_captures_neither_panic_nor_take_more_memory_than_they_may() {
    const LIMIT: usize = 1 << 20;
    let mut random = Random(7);
    for capture in captures() {
        for _ in 0..20 {
            let request = Bytes::from(mutate(&capture.request[4..], &mut random));
            let (read, peak) = peak_of(|| Request::decode(request.clone()));
            assert!(peak <= 32 * request.len() + 4096, "{} bytes took {peak}", request.len());
            if let Ok(read) = read {
                assert_eq!(read.encode().unwrap()[4..], request);
            }
            let response = Bytes::from(mutate(&capture.response, &mut random));
            for kind in RequestType::ALL {
                let (read, peak) = peak_of(|| Response::decode(kind, response.clone()));
                assert!(peak <= 32 * response.len() + 4096, "{} bytes took {peak}", response.len());
                if let Ok(read) = read {
                    assert_eq!(read.encode().unwrap()[4..], response);
                }
            }
        }
        for (data, offset) in capture.sets() {
            for _ in 0..5 {
                let data = Bytes::from(mutate(&data, &mut random));
                let end = offset + data.len() as i64;
                let (ends, peak) = peak_of(|| {
                    let walk = Messages::new(data, offset, LIMIT);
                    walk.map_while(Result::ok).all(|m| m.next_offset <= end && m.index < m.count)
                });
                assert!(ends && peak < 3 * LIMIT + (128 << 10), "{peak}");
            }
        }
    }
}

fn produce() -> impl Strategy<Value = Produce> {
    let make = |(topic, partition, set): (String, i32, Vec<u8>)| Produce { topic, partition, message_set: set.into() };
    (".{0,20}", any::<i32>(), vec(any::<u8>(), 0..50)).prop_map(make)
}

fn fetch() -> impl Strategy<Value = Fetch> {
    (".{0,20}", any::<i32>(), any::<i64>(), any::<i32>()).prop_map(|(topic, partition, offset, max_size)| Fetch {
        topic,
        partition,
        offset,
        max_size,
    })
}

fn offsets() -> impl Strategy<Value = Offsets> {
    (".{0,20}", any::<i32>(), any::<i64>(), any::<i32>()).prop_map(|(topic, partition, time, max_number)| Offsets {
        topic,
        partition,
        time,
        max_number,
    })
}

fn fetched() -> impl Strategy<Value = Fetched> {
    let make = |(error, set): (i16, Vec<u8>)| Fetched { error: ErrorCode(error), message_set: set.into() };
    (any::<i16>(), vec(any::<u8>(), 0..50)).prop_map(make)
}

fn runner() -> TestRunner {
    let config = Config { cases: 256, failure_persistence: None, ..Config::default() };
    TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]))
}

#[test]
fn requests_come_back_as_they_were_written() {
    let request = prop_oneof![
        produce().prop_map(Request::Produce),
        fetch().prop_map(Request::Fetch),
        offsets().prop_map(Request::Offsets),
        vec(fetch(), 0..5).prop_map(Request::MultiFetch),
        vec(produce(), 0..5).prop_map(Request::MultiProduce),
    ];
    let check = |request: Request| {
        let frame = Bytes::from(request.encode().unwrap());
        prop_assert_eq!(Request::decode_frame(frame).unwrap(), request);
        Ok(())
    };
    runner().run(&request, check).unwrap();
}

#[test]
fn responses_come_back_as_they_were_written() {
    let error = any::<i16>().prop_map(ErrorCode);
    let multi = (error.clone(), vec(fetched(), 0..5)).prop_map(|(error, parts)| Response::MultiFetch { error, parts });
    let offsets = (error, vec(any::<i64>(), 0..20)).prop_map(|(error, offsets)| Response::Offsets { error, offsets });
    let check = |response: Response| {
        let to = match &response {
            Response::Fetch(_) => RequestType::Fetch,
            Response::MultiFetch { .. } => RequestType::MultiFetch,
            Response::Offsets { .. } => RequestType::Offsets,
        };
        let frame = Bytes::from(response.encode().unwrap());
        prop_assert_eq!(Response::decode_frame(to, frame).unwrap(), response);
        Ok(())
    };
    runner().run(&prop_oneof![fetched().prop_map(Response::Fetch), multi, offsets], check).unwrap();
}

#[test]
fn messages_come_back_as_they_were_written() {
    let formats = [
        (Magic::V0, Compression::None),
        (Magic::V1, Compression::None),
        (Magic::V1, Compression::Gzip),
        (Magic::V1, Compression::Snappy),
    ];
    let sets = vec((prop::sample::select(formats.to_vec()), vec(vec(any::<u8>(), 0..40), 0..8)), 0..5);
    let check = |(sets, offset): (Vec<((Magic, Compression), Vec<Vec<u8>>)>, i64)| {
        let (mut data, mut expected) = (Vec::new(), Vec::new());
        for ((magic, compression), payloads) in &sets {
            let slices: Vec<&[u8]> = payloads.iter().map(Vec::as_slice).collect();
            data.extend(set(*magic, &slices, *compression));
            expected.extend(payloads.iter().map(|payload| (*magic, *compression, payload.clone())));
        }
        let mut walk = messages(&data.into(), offset);
        let found: Vec<Message> = walk.by_ref().collect::<Result<_, _>>().unwrap();
        prop_assert_eq!(walk.left(), 0);
        let mut next = offset;
        for message in &found {
            let starts = if message.index == 0 { next } else { message.offset };
            prop_assert_eq!(message.offset, starts);
            next = message.next_offset;
        }
        prop_assert_eq!(next, walk.offset());
        let found: Vec<_> = found.into_iter().map(|m| (m.magic, m.compression, m.payload.to_vec())).collect();
        prop_assert_eq!(found, expected);
        Ok(())
    };
    runner().run(&(sets, 0..1i64 << 40), check).unwrap();
}
