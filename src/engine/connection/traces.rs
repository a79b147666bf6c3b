//! Records what happens on a connection, in the log and in the flight recorder.

use super::{Connection, InFlight};
use crate::api::header::{RequestHeader, get_response_header};
use crate::api::{self, ErrorCode, Info};
use crate::engine::{Error, ErrorKind, Time};
use crate::logging::flight::{Content, Flight, Frame, FrameKind, checksum, put_text};
use crate::logging::{self, Location};
use crate::wire::{Reader, Value};
use bytes::{Bytes, BytesMut};
use std::fmt::Write;

/// The largest size of a fetch response whose error codes the recorder keeps. A copy of a larger response would cost
/// too much.
const LONGEST_FETCH: usize = 4 << 10;
/// The largest size of other responses whose error codes the recorder keeps.
const LONGEST_OTHER: usize = 64 << 10;
/// The largest number of error codes of a response in a dump.
const MOST_ERRORS: usize = 100;
/// The APIs whose messages the recorder may keep. The messages of other APIs may contain credentials, or configurations
/// with passwords.
const KEPT: &[i16] = &[
    api::produce::API.key,
    api::fetch::API.key,
    api::list_offsets::API.key,
    api::offset_for_leader_epoch::API.key,
    api::metadata::API.key,
    api::offset_commit::API.key,
    api::offset_fetch::API.key,
    api::find_coordinator::API.key,
    api::join_group::API.key,
    api::heartbeat::API.key,
    api::leave_group::API.key,
    api::sync_group::API.key,
    api::api_versions::API.key,
    api::init_producer_id::API.key,
    api::add_partitions_to_txn::API.key,
    api::add_offsets_to_txn::API.key,
    api::end_txn::API.key,
    api::txn_offset_commit::API.key,
    api::consumer_group_heartbeat::API.key,
    api::share_group_heartbeat::API.key,
    api::share_fetch::API.key,
    api::share_acknowledge::API.key,
];

impl<T> Connection<T> {
    /// Records a request. The time of its record is the time when the connection was last used.
    pub(super) fn record_request(&self, api: &'static Info, version: i16, correlation_id: i32, parts: &[Bytes]) {
        logging::record(|flight| {
            let size = parts.iter().map(Bytes::len).sum();
            let is_kept = flight.keeps_values() && KEPT.contains(&api.key) && size <= flight.longest_content();
            Frame {
                at: self.used_at.0,
                kind: FrameKind::Request,
                broker: self.address.clone(),
                api: api.name,
                version,
                correlation_id,
                size,
                checksum: parts.first().map_or(0, |part| checksum(part)),
                content: is_kept.then(|| {
                    let mut bytes = BytesMut::with_capacity(size);
                    parts.iter().for_each(|part| bytes.extend_from_slice(part));
                    Content { bytes: bytes.freeze(), describe: describe_request }
                }),
            }
        });
    }

    /// Records a response.
    pub(super) fn record_response(&self, now: Time, request: &InFlight<T>, frame: &Bytes) {
        logging::record(|flight| Frame {
            at: now.0,
            kind: FrameKind::Response,
            broker: self.address.clone(),
            api: request.api.name,
            version: request.version,
            correlation_id: request.correlation_id,
            size: frame.len(),
            checksum: checksum(frame),
            content: content(flight, request, frame),
        });
    }

    /// Records that a request got no response.
    pub(super) fn record_lost(&self, request: &InFlight<T>, error: &Error) {
        logging::record(|flight| Frame {
            at: flight.now(),
            kind: if error.kind() == ErrorKind::Timeout { FrameKind::TimedOut } else { FrameKind::Lost },
            broker: self.address.clone(),
            api: request.api.name,
            version: request.version,
            correlation_id: request.correlation_id,
            size: 0,
            checksum: 0,
            content: None,
        });
    }

    /// Logs that the session cannot be renewed yet.
    pub(super) fn log_expired_token(&self) {
        let location = Location::broker(&self.address);
        event!(
            Warn,
            Auth,
            location,
            "the OAUTHBEARER token expired, so that the session cannot be renewed; hint: check the token provider"
        );
    }

    /// Logs a response.
    pub(super) fn log_response(&self, now: Time, request: &InFlight<T>) {
        let InFlight { api, version, sent_at, .. } = request;
        let milliseconds = now.since(*sent_at).as_secs_f64() * 1000.0;
        let location = Location::broker(&self.address);
        event!(Debug, Network, location, "{} version {version} was answered after {milliseconds:.3} ms", api.name);
    }
}

/// Returns the part of a response that the recorder keeps. If the response may contain credentials, the recorder keeps
/// only the error codes.
fn content<T>(flight: &Flight, request: &InFlight<T>, frame: &Bytes) -> Option<Content> {
    let InFlight { api, version, .. } = request;
    let is_kept = KEPT.contains(&api.key);
    let is_fetch = [api::fetch::API.key, api::share_fetch::API.key].contains(&api.key);
    let most = match () {
        () if is_kept && flight.keeps_values() => usize::MAX,
        () if is_fetch => LONGEST_FETCH,
        () => LONGEST_OTHER,
    };
    if frame.len() > most.min(flight.longest_content()) {
        return None;
    }
    if is_kept {
        // A copy, because the frame may be a part of a larger buffer.
        return Some(Content { bytes: Bytes::copy_from_slice(frame), describe: describe_response });
    }
    let errors = errors(&message(api.name, *version, frame)?.1);
    let as_it_is = |_: &Frame, bytes: &Bytes, _: bool, out: &mut String| out.push_str(&String::from_utf8_lossy(bytes));
    (!errors.is_empty()).then(|| Content { bytes: errors.into(), describe: as_it_is })
}

/// Returns the body of a response and its decoded form.
fn message(api: &str, version: i16, frame: &Bytes) -> Option<(Bytes, Value)> {
    let entry = api::by_name(api)?;
    let mut reader = Reader::new(frame.clone(), version, false);
    get_response_header(entry.info, version, &mut reader).ok()?;
    let body = reader.rest();
    Some((body.clone(), entry.response.decode(version, body).ok()?))
}

/// Appends the error codes of a response. Also appends its body if it is a Metadata response, or if the dump may
/// contain values.
fn describe_response(frame: &Frame, bytes: &Bytes, has_values: bool, out: &mut String) {
    let Some((body, value)) = message(frame.api, frame.version, bytes) else { return };
    out.push_str(&errors(&value));
    if has_values || frame.api == api::metadata::API.name {
        put_body(&body, out);
    }
}

/// Appends the body of a request.
fn describe_request(_: &Frame, bytes: &Bytes, _: bool, out: &mut String) {
    let mut reader = Reader::new(bytes.slice(4.min(bytes.len())..), 0, false);
    let known = |key| api::by_key(key).map(|entry| entry.info);
    if RequestHeader::get(&mut reader, known).is_ok() {
        put_body(&reader.rest(), out);
    }
}

fn put_body(body: &[u8], out: &mut String) {
    out.push_str(",\"body\":\"");
    for byte in body {
        // Writing to a string cannot fail.
        let _ = write!(out, "{byte:02x}");
    }
    out.push('"');
}

/// Returns the error codes of a message as a field of a dump, or nothing if there are none.
fn errors(message: &Value) -> String {
    let (mut list, mut left) = (String::new(), MOST_ERRORS);
    put_errors(message, &mut Vec::new(), &mut left, &mut list);
    if list.is_empty() { list } else { format!(",\"errors\":[{list}]") }
}

/// Appends the error codes of a message. `names` contains the JSON fields with the topic of the error codes.
fn put_errors(value: &Value, names: &mut Vec<String>, left: &mut usize, out: &mut String) {
    match value {
        Value::List(values) => values.iter().for_each(|value| put_errors(value, names, left, out)),
        Value::Struct(fields) => {
            let known = names.len();
            names.extend(fields.iter().filter_map(|(name, value)| name_field(name, value)));
            for (name, value) in fields {
                match value {
                    Value::Int(code) if **name == *"errorCode" && *code != 0 && *left > 0 => {
                        *left -= 1;
                        let code = ErrorCode(i16::try_from(*code).unwrap_or(-1));
                        let comma = if out.is_empty() { "" } else { "," };
                        let _ = write!(out, "{comma}{{\"code\":\"{}\"{}}}", code.name(), names.concat());
                    }
                    value => put_errors(value, names, left, out),
                }
            }
            names.truncate(known);
        }
        _ => {}
    }
}

/// Returns a field of a message as a JSON field, if the field is the name of a topic or the number of a partition.
fn name_field(name: &str, value: &Value) -> Option<String> {
    let mut out = String::from(",\"");
    match (name, value) {
        ("name" | "topic" | "topicName", Value::String(topic)) => {
            out.push_str("topic\":");
            put_text(&mut out, topic);
        }
        ("topicId", Value::Uuid(id)) => {
            let _ = write!(out, "topic_id\":\"{id}\"");
        }
        ("partition" | "partitionIndex" | "index", Value::Int(number)) => {
            let _ = write!(out, "partition\":{number}");
        }
        _ => return None,
    }
    Some(out)
}
