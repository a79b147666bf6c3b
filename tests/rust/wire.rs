//! Compares the encoding and decoding of messages, headers and structures with the golden vectors of the Java client.
//! The file also tests the errors of decoding. `hostile.rs` tests hostile input in general.

use crate::vectors::{self, Body, from_json, hex, int, text, to_json};
use bytes::Bytes;
use klamm::api::data::consumer_protocol;
use klamm::api::header::{self, ClientId, RequestHeader};
use klamm::api::{self, APIS, ErrorCode, Message, MessageHandle, STRUCTURES};
use klamm::wire::{Reader, Reason, Writer};
use std::collections::BTreeSet;

/// The codec of a body.
pub fn handle(body: &Body) -> &'static MessageHandle {
    api::by_kind(&body.of, &body.kind).unwrap_or_else(|| panic!("{} is not known", body.name()))
}

#[test]
fn every_message_decodes_to_what_java_wrote_and_encodes_to_its_bytes() {
    let bodies = vectors::bodies();
    assert!(bodies.len() > 1000);
    for body in &bodies {
        let value = handle(body).decode(body.version, body.bytes.clone()).unwrap();
        assert_eq!(to_json(&value), body.json, "{}", body.name());
        let encoded = handle(body).encode(body.version, from_json(&body.json, &value));
        assert_eq!(encoded.unwrap(), body.bytes, "{}", body.name());
    }
}

#[test]
fn every_version_of_every_message_has_a_vector() {
    let bodies = vectors::bodies();
    let seen: BTreeSet<_> = bodies.iter().map(|b| (b.of.as_str(), b.kind.as_str(), b.version)).collect();
    let handles = APIS.iter().flat_map(|api| [&api.request, &api.response]).chain(STRUCTURES);
    let all = handles
        .flat_map(|handle| (handle.info().min..=handle.info().max).map(|v| (handle.info().name, handle.kind(), v)));
    assert_eq!(seen, all.collect());
}

#[test]
fn every_strict_prefix_of_a_message_is_refused() {
    let with_unknown_tags = vectors::bodies_with_unknown_tags().into_iter().map(|(body, ..)| body);
    for body in vectors::bodies().into_iter().chain(with_unknown_tags) {
        for cut in 0..body.bytes.len() {
            let decoded = handle(&body).decode(body.version, body.bytes.slice(..cut));
            let is_incomplete =
                decoded.is_err_and(|e| matches!(e.reason(), Reason::Truncated { .. } | Reason::Length { .. }));
            assert!(is_incomplete, "{} cut to {cut} of {} bytes", body.name(), body.bytes.len());
        }
    }
}

#[test]
fn a_byte_left_over_is_refused() {
    for body in vectors::bodies() {
        let longer = [&body.bytes[..], &[0]].concat();
        let error = handle(&body).decode(body.version, longer.into()).unwrap_err();
        let expected = format!("{}: 1 bytes left over (at byte {})", body.name(), body.bytes.len());
        assert_eq!(error.to_string(), expected);
    }
}

#[test]
fn unknown_tagged_fields_are_dropped_and_counted() {
    for (body, unknown, without) in vectors::bodies_with_unknown_tags() {
        let data = [&body.bytes[..], b"more"].concat();
        let found = handle(&body).decode_prefix(body.version, data.into()).unwrap();
        assert_eq!(to_json(&found.value), body.json, "{}", body.name());
        assert_eq!((found.unknown_tags, &found.rest[..]), (unknown, &b"more"[..]), "{}", body.name());
        assert_eq!(handle(&body).encode(body.version, found.value).unwrap(), without, "{}", body.name());
    }
}

#[test]
fn apis_have_the_keys_versions_and_headers_that_kafka_gives_them() {
    let table = vectors::document("apis.json");
    let rows = table["apis"].as_array().unwrap();
    assert_eq!(rows.len(), APIS.len());
    for (row, api) in rows.iter().zip(APIS) {
        let info = api.info;
        // What 4.4 knows of it, or else 3.9; old versions of what both know are those of 3.9.
        let clients: Vec<_> = ["4.4.0", "3.9.2"].iter().map(|v| &row[*v]).filter(|c| c["min"].is_i64()).collect();
        let newest = clients[0];
        let oldest = clients.iter().map(|client| int::<i16>(client, "min")).min().unwrap();
        let flexible =
            newest["flexible"].as_str().and_then(|v| v.strip_suffix('+')).map_or(i16::MAX, |v| v.parse().unwrap());
        let found = (info.key, info.name, info.min, info.max, info.max_stable, info.flexible);
        let newest_versions = (int(newest, "max"), int(newest, "max_stable"));
        let expected = (int(row, "key"), text(row, "name"), oldest, newest_versions.0, newest_versions.1, flexible);
        assert_eq!(found, expected);
        assert_eq!(info.internal, newest["internal"], "{}", info.name);
        for client in clients {
            let headers = |name: &str| client[name].as_array().unwrap().iter().map(|v| v.as_i64().unwrap() as i16);
            for (version, (request, response)) in
                (int(client, "min")..).zip(headers("request_header").zip(headers("response_header")))
            {
                assert_eq!(header::request_header_version(info, version), request, "{} v{version}", info.name);
                assert_eq!(header::response_header_version(info, version), response, "{} v{version}", info.name);
            }
        }
    }
}

#[test]
fn a_body_is_found_after_its_header() {
    for api in APIS {
        for version in api.info.min..=api.info.max {
            let request = RequestHeader {
                request_api_key: api.info.key,
                request_api_version: version,
                correlation_id: 7,
                // Only ControlledShutdown v0 is too old for a name.
                client_id: ClientId((header::request_header_version(api.info, version) > 0).then(|| "me".into())),
            };
            let flexible = api.info.is_flexible(version);
            let mut w = Writer::new(version, flexible);
            request.put(api.info, &mut w);
            assert_eq!((w.version, w.flexible), (version, flexible));
            w.buf.push(9);
            let mut r = Reader::new(w.finish().unwrap().into(), version, flexible);
            let found = RequestHeader::get(&mut r, |key| api::by_key(key).map(|api| api.info)).unwrap();
            let expected = RequestHeader { client_id: found.client_id.clone(), ..request.clone() };
            assert_eq!((&found, r.rest()), (&expected, Bytes::from_static(&[9])));
            assert_eq!(
                found.client_id.0.as_deref().unwrap_or_default(),
                request.client_id.0.as_deref().unwrap_or_default()
            );

            let mut w = Writer::new(version, flexible);
            header::put_response_header(api.info, version, 7, &mut w);
            assert_eq!((w.version, w.flexible), (version, flexible));
            w.buf.push(9);
            let frame = Bytes::from(w.finish().unwrap());
            let mut r = Reader::new(frame, version, flexible);
            assert_eq!(header::get_response_header(api.info, version, &mut r).unwrap(), 7);
            assert_eq!(r.rest(), Bytes::from_static(&[9]));
        }
    }
}

/// Returns the lines of one part of the consumer protocol: value, version, and the bytes after the version.
fn prefixed<M: Message>() -> Vec<(M, i16, Bytes)> {
    let lines = vectors::lines("structures.jsonl.gz").into_iter().filter(|line| text(line, "name") == M::API.name);
    let each = lines.map(|line| {
        let body = Body::new(&line);
        (api::decode(body.version, body.bytes).unwrap(), body.version, hex(&line, "hex_prefixed").unwrap())
    });
    each.collect()
}

fn consumer_protocol_is_read_as_java_reads_it<M: Message + PartialEq + std::fmt::Debug>() {
    let lines = prefixed::<M>();
    assert!(lines.len() > 10);
    for (message, version, bytes) in lines {
        assert_eq!(consumer_protocol::decode::<M>(bytes.clone()).unwrap(), message);
        assert_eq!(consumer_protocol::encode(version, &message).unwrap(), bytes);
        // A body without its last fields is read as one of an older version. Without its first field, it is an error.
        let error = consumer_protocol::decode::<M>(bytes.slice(..3)).unwrap_err();
        assert!(matches!(error.reason(), Reason::Truncated { .. } | Reason::Length { .. }), "{error}");
        let with = |version: i16| Bytes::from([&version.to_be_bytes()[..], &bytes[2..], b"more"].concat());
        if version == M::API.max {
            assert_eq!(consumer_protocol::decode::<M>(with(version + 1)).unwrap(), message);
            assert_eq!(consumer_protocol::decode::<M>(with(i16::MAX)).unwrap(), message);
        }
        let error = consumer_protocol::decode::<M>(with(-1)).unwrap_err();
        assert!(matches!(error.reason(), Reason::Version { min: 0, max: 3 }), "{error}");
    }
}

#[test]
fn newer_versions_of_the_consumer_protocol_are_read_as_the_newest_known() {
    consumer_protocol_is_read_as_java_reads_it::<consumer_protocol::Subscription>();
    consumer_protocol_is_read_as_java_reads_it::<consumer_protocol::Assignment>();
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

/// Returns a Fetch response of four topics with one partition each, and the position of the last records' length.
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
            "Produce response v10: nodeEndpoints: 1 bytes left over (at byte 9)",
        ),
        (
            refused::<produce::Response>(10, b"\x01\0\0\0\0\x01\0\x03\x01\0".as_slice()),
            "Produce response v10: nodeEndpoints: length 3 exceeds the 2 bytes left (at byte 7)",
        ),
        (
            refused::<produce::Response>(10, b"\x01\0\0\0\0\x01\0\x07\x02\0\0\0\x01\x09m".as_slice()),
            "Produce response v10: nodeEndpoints[0].host: length 8 exceeds the 1 bytes left (at byte 13)",
        ),
        (
            refused::<produce::Response>(9, b"\x01\0\0\0\0\x01\0\x03\x01\0".as_slice()),
            "Produce response v9: length 3 exceeds the 2 bytes left (at byte 7)",
        ),
        (
            refused::<metadata::Request>(
                12,
                [&b"\x02"[..], &[0; 16], b"\x81\x80\x02", &[b'x'; 1 << 15], &[0; 4]].concat(),
            ),
            "Metadata request v12: topics[0].name: length 32768 exceeds the limit of 32767 (at byte 17)",
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
        let handle = &api::by_name("Metadata").unwrap().request;
        handle.encode(version, from_json(&json, &like_metadata())).unwrap_err().to_string()
    };
    assert_eq!(
        encode(1, r#"{"topics": [{"nam": "t"}]}"#),
        "Metadata request v1: topics[0]: has no field \"nam\" in this version, did you mean \"name\"?"
    );
    assert_eq!(encode(1, r#"{"topics": 7}"#), "Metadata request v1: topics: wants a list, got an integer");
    assert_eq!(
        encode(9, r#"{"topics": [{"name": null}]}"#),
        "Metadata request v9: topics[0].name: is null, which this version does not allow (at byte 1)"
    );
    // Of Java's code no version of a message takes a longer string, whatever there is room for.
    let named = |n| format!(r#"{{"topics": [{{"name": "{}"}}]}}"#, "x".repeat(n));
    for (version, at) in [(1, 4), (9, 1)] {
        assert_eq!(
            encode(version, &named(1 << 15)),
            format!(
                "Metadata request v{version}: topics[0].name: length 32768 exceeds the limit of 32767 (at byte {at})"
            )
        );
    }
}

#[test]
fn a_typed_message_without_a_form_is_refused_with_the_way_to_what_is_wrong() {
    use api::metadata::{Request, TopicRequest};
    let topics =
        |n| Some(vec![TopicRequest::default(), TopicRequest { name: Some("x".repeat(n)), ..TopicRequest::default() }]);
    let bytes = api::encode(12, &Request { topics: topics((1 << 15) - 1), ..Request::default() }).unwrap();
    assert_eq!(api::decode::<Request>(12, bytes.into()).unwrap().topics, topics((1 << 15) - 1));
    let error = api::encode(12, &Request { topics: topics(1 << 15), ..Request::default() }).unwrap_err();
    assert_eq!(error.path(), "topics[1].name");
}

#[test]
fn an_encoding_error_in_a_tagged_field_names_its_position() {
    use api::produce::{NodeEndpoint, Response};
    let host = |n| vec![NodeEndpoint::default(), NodeEndpoint { host: "h".repeat(n), ..NodeEndpoint::default() }];
    let response = |n| Response { node_endpoints: host(n), ..Response::default() };
    let good = api::encode(10, &response(4)).unwrap();
    let error = api::encode(10, &response(1 << 15)).unwrap_err();
    assert_eq!(error.path(), "nodeEndpoints[1].host");
    // The tag's length is two bytes longer there, and the error is where the string's begins.
    assert_eq!(error.offset(), good.windows(4).position(|w| w == b"hhhh").unwrap() - 1 + 2);
}

#[test]
fn a_client_id_that_is_too_long_is_named() {
    for version in [1, 2] {
        let error = api::encode(
            version,
            &RequestHeader { client_id: ClientId(Some("c".repeat(1 << 15))), ..RequestHeader::default() },
        );
        assert_eq!(error.unwrap_err().path(), "clientId", "v{version}");
    }
}

#[test]
fn an_empty_tag_section_too_many_is_passed_over_where_it_is_asked_for() {
    use klamm::api::metadata::Response;
    for (version, surplus, is_taken) in [(9, &[0][..], true), (9, &[0, 0], true), (9, &[0, 1], false), (8, &[0], false)]
    {
        let mut body = api::encode(version, &Response::default()).unwrap();
        body.extend_from_slice(surplus);
        let error = api::decode::<Response>(version, body.clone().into()).unwrap_err();
        assert_eq!(*error.reason(), Reason::TrailingBytes(surplus.len()));
        assert_eq!(api::decode_padded::<Response>(version, body.into()).is_ok(), is_taken, "v{version} {surplus:?}");
    }
}

fn like_metadata() -> klamm::wire::Value {
    use klamm::wire::Value;
    let topic = Value::Struct(vec![("name".into(), Value::String(String::new()))]);
    Value::Struct(vec![("topics".into(), Value::List(vec![topic]))])
}
