//! Messages and headers against what the Java client wrote and read: every line of the golden vectors, in both
//! directions. What decoding refuses, and how it says so, is here too; hostile input at large is in `hostile`.

use crate::vectors::{self, Body, from_json, hex, int, text, to_json};
use bytes::Bytes;
use klamm::api::header::{self, RequestHeader};
use klamm::api::{self, Door, ErrorCode, Message};
use klamm::wire::{Reader, Writer};
use std::collections::BTreeSet;

/// The door a body goes through.
pub fn door(body: &Body) -> &'static Door {
    let entry = api::by_name(&body.api).unwrap_or_else(|| panic!("no API is called {}", body.api));
    if body.kind == "request" { &entry.request } else { &entry.response }
}

#[test]
fn every_message_decodes_to_what_java_wrote_and_encodes_to_its_bytes() {
    let bodies = vectors::bodies();
    assert!(bodies.len() > 1000);
    for body in &bodies {
        let value = door(body).decode(body.version, body.bytes.clone()).unwrap();
        assert_eq!(to_json(&value), body.json, "{}", body.name());
        let encoded = door(body).encode(body.version, from_json(&body.json, &value));
        assert_eq!(encoded.unwrap(), body.bytes, "{}", body.name());
    }
}

#[test]
fn every_version_of_every_api_has_a_vector() {
    let bodies = vectors::bodies();
    let seen: BTreeSet<_> = bodies.iter().map(|b| (b.api.as_str(), b.kind.as_str(), b.version)).collect();
    let all = api::APIS.iter().flat_map(|entry| {
        let versions = move |kind| (entry.info.min..=entry.info.max).map(move |v| (entry.info.name, kind, v));
        versions("request").chain(versions("response"))
    });
    assert_eq!(seen, all.collect());
}

#[test]
fn every_strict_prefix_of_a_message_is_refused() {
    for body in vectors::bodies() {
        // Bodies are 3,955 bytes at most; of the larger ones every seventh prefix does, and the one that lacks a byte.
        let step = if body.bytes.len() < 512 { 1 } else { 7 };
        for cut in (0..body.bytes.len()).rev().step_by(step) {
            let decoded = door(&body).decode(body.version, body.bytes.slice(..cut));
            assert!(decoded.is_err(), "{} cut to {cut} of {} bytes", body.name(), body.bytes.len());
        }
    }
}

#[test]
fn a_byte_left_over_is_refused() {
    for body in vectors::bodies() {
        let longer = [&body.bytes[..], &[0]].concat();
        let error = door(&body).decode(body.version, longer.into()).unwrap_err();
        let expected = format!("{}: 1 bytes left over (at byte {})", body.name(), body.bytes.len());
        assert_eq!(error.to_string(), expected);
    }
}

#[test]
fn tagged_fields_nobody_knows_are_dropped() {
    for (body, without) in vectors::bodies_with_unknown_tags() {
        let value = door(&body).decode(body.version, body.bytes.clone()).unwrap();
        assert_eq!(to_json(&value), body.json, "{}", body.name());
        assert_eq!(door(&body).encode(body.version, value).unwrap(), without, "{}", body.name());
    }
}

#[test]
fn headers_are_those_java_writes() {
    for line in vectors::lines("headers.jsonl.gz") {
        let (bytes, json, version) = (hex(&line, "hex").unwrap(), &line["json"], int::<i16>(&line, "version"));
        match (text(&line, "name"), version) {
            // Only ControlledShutdown v0 has this header, and no client sends it.
            ("RequestHeader", 0) => {}
            ("RequestHeader", _) => {
                let expected = RequestHeader {
                    api_key: int(json, "requestApiKey"),
                    api_version: int(json, "requestApiVersion"),
                    correlation_id: int(json, "correlationId"),
                    client_id: json["clientId"].as_str().map(str::to_owned),
                };
                // An API whose flexible versions are such that this one takes the vector's header.
                let api: &'static api::Info = Box::leak(Box::new(api::Info {
                    name: "Any",
                    key: expected.api_key,
                    min: i16::MIN,
                    max: i16::MAX,
                    max_stable: i16::MAX,
                    flexible: if version == 2 { i16::MIN } else { i16::MAX },
                }));
                let mut r = Reader::new(bytes.clone(), 0, false);
                assert_eq!(RequestHeader::get(&mut r, |_| Some(api).filter(|a| a.is_flexible(0))).unwrap(), expected);
                assert_eq!(r.left(), 0);
                let mut w = Writer::new(0, false);
                expected.put(api, &mut w);
                if version == 2 || api.flexible > expected.api_version {
                    assert_eq!(w.finish().unwrap(), bytes, "{line}");
                }
            }
            (_, version) => {
                let fetch = &api::fetch::API;
                let body_version = if version == 1 { fetch.flexible } else { fetch.flexible - 1 };
                assert_eq!(header::response_header_version(fetch, body_version), version);
                let mut r = Reader::new(bytes.clone(), body_version, false);
                let id = header::get_response_header(fetch, body_version, &mut r).unwrap();
                assert_eq!((id, r.left()), (int(json, "correlationId"), 0));
                assert_eq!(header::peek_correlation_id(&bytes).unwrap(), id);
                let mut w = Writer::new(body_version, version == 1);
                header::put_response_header(fetch, body_version, id, &mut w);
                assert_eq!(w.finish().unwrap(), bytes);
            }
        }
    }
}

#[test]
fn api_versions_answers_with_header_0_in_every_version() {
    let api = &api::api_versions::API;
    assert!((api.min..=api.max).all(|version| header::response_header_version(api, version) == 0));
}

#[test]
fn error_codes_are_those_of_the_java_client() {
    let table = vectors::document("errors.json");
    let rows = table.as_array().unwrap();
    assert_eq!(ErrorCode::all().count(), rows.len());
    for row in rows {
        let code = ErrorCode(int(row, "code"));
        assert_eq!(code.name(), row["name"]);
        assert_eq!(code.is_retriable(), row["retriable"], "{code}");
        assert_eq!(code.is_stale_metadata(), row["refresh_metadata"], "{code}");
    }
}

fn refused<M: Message + std::fmt::Debug>(version: i16, bytes: impl Into<Bytes>) -> String {
    api::decode::<M>(version, bytes.into()).unwrap_err().to_string()
}

/// A Fetch response of four topics with a partition each, and where the length of the last records is.
fn fetched() -> (Vec<u8>, usize) {
    let partition = || api::fetch::PartitionResponse { records: Some(Bytes::from_static(b"x")), ..Default::default() };
    let topic = || api::fetch::TopicResponse { partitions: vec![partition()], ..Default::default() };
    let response = api::fetch::Response { responses: (0..4).map(|_| topic()).collect(), ..Default::default() };
    let bytes = api::encode(12, &response).unwrap();
    // Behind the length are the byte itself and the tag counts of partition, topic and response.
    let at = bytes.len() - 5;
    assert_eq!(bytes[at], 2);
    (bytes, at)
}

#[test]
fn an_error_names_the_message_the_field_the_reason_and_the_byte() {
    let (mut bytes, at) = fetched();
    bytes.splice(at..=at, [0x81, 0x20]);
    bytes.extend_from_slice(&[0; 13]);
    assert_eq!(
        refused::<api::fetch::Response>(12, bytes),
        format!(
            "Fetch response v12: responses[3].partitions[0].records: length 4096 exceeds the 17 bytes left (at byte {at})"
        ),
    );
}

#[test]
fn every_reason_to_refuse_bytes_has_its_words() {
    use api::{delete_topics, find_coordinator, metadata, produce};
    let refusals = [
        (
            refused::<metadata::Request>(99, b"".as_slice()),
            "Metadata request v99: no such version, known are 0 to 13 (at byte 0)",
        ),
        (
            refused::<metadata::Request>(0, b"\0\0".as_slice()),
            "Metadata request v0: topics: needs 4 bytes, 2 left (at byte 0)",
        ),
        (
            refused::<metadata::Request>(0, b"\xff\xff\xff\xff".as_slice()),
            "Metadata request v0: topics: is null, which this version does not allow (at byte 0)",
        ),
        (
            refused::<metadata::Request>(0, b"\x80\0\0\0".as_slice()),
            "Metadata request v0: topics: length -2147483648 is negative (at byte 0)",
        ),
        (
            refused::<metadata::Request>(0, b"\0\0\0\x01\0\x05ab".as_slice()),
            "Metadata request v0: topics[0].name: length 5 exceeds the 2 bytes left (at byte 4)",
        ),
        (
            refused::<metadata::Request>(0, b"\x7f\xff\xff\xff\0\0".as_slice()),
            "Metadata request v0: topics: length 2147483647 exceeds the 2 bytes left (at byte 0)",
        ),
        (
            refused::<find_coordinator::Request>(0, b"\0\x02\xff\xfe".as_slice()),
            "FindCoordinator request v0: key: is not UTF-8 (at byte 2)",
        ),
        (
            refused::<delete_topics::Request>(4, b"\x80\x80\x80\x80\x80\0".as_slice()),
            "DeleteTopics request v4: topicNames: variable-length integer is longer than its type (at byte 0)",
        ),
        (
            refused::<produce::Response>(10, b"\x01\0\0\0\0\x01\0\x02\x01\0".as_slice()),
            "Produce response v10: 1 bytes left over (at byte 9)",
        ),
    ];
    for (found, expected) in refusals {
        assert_eq!(found, expected);
    }
}

#[test]
fn values_without_a_form_on_the_wire_are_refused_by_name() {
    let encode = |version, json: &str| {
        let json: serde_json::Value = serde_json::from_str(json).unwrap();
        let door = &api::by_name("Metadata").unwrap().request;
        door.encode(version, from_json(&json, &like_metadata())).unwrap_err().to_string()
    };
    assert_eq!(
        encode(1, r#"{"topics": [{"nam": "t"}]}"#),
        "Metadata request v1: topics[0]: has no field \"nam\" in this version, did you mean \"name\"? (at byte 0)"
    );
    assert_eq!(encode(1, r#"{"topics": 7}"#), "Metadata request v1: topics: wants a list, got an integer (at byte 0)");
    assert_eq!(
        encode(9, r#"{"topics": [{"name": null}]}"#),
        "Metadata request v9: name: is null, which this version does not allow (at byte 1)"
    );
    let long = format!(r#"{{"topics": [{{"name": "{}"}}]}}"#, "x".repeat(40_000));
    assert_eq!(encode(1, &long), "Metadata request v1: 40000 bytes do not fit its length field (at byte 4)");
}

fn like_metadata() -> klamm::wire::Value {
    use klamm::wire::Value;
    let topic = Value::Struct(vec![("name".into(), Value::String(String::new()))]);
    Value::Struct(vec![("topics".into(), Value::List(vec![topic]))])
}
