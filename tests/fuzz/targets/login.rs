//! Checks both sides of a login: the client and the broker handle any input without a panic, and the broker only
//! accepts the right password.
//!
//! Input: a byte, then messages. The lowest bit of the byte selects who sends the messages: 1 a broker, 0 a client. The
//! other bits of the first byte select the mechanism. A byte before each message contains the length of the message. If
//! the highest bit of this byte is set, the message is sent without a frame.

#![no_main]

use bytes::Bytes;
use klamm::api::header::{ClientId, RequestHeader, put_response_header};
use klamm::api::{self, Info, Message, api_versions, sasl_authenticate, sasl_handshake};
use klamm::broker::{self, Cluster, Node, Options, Output, Sasl};
use klamm::engine::sasl::gssapi::{LibraryCall, LibraryResult};
use klamm::engine::sasl::{BearerToken, Credentials, Nonces, scram};
use klamm::engine::{Connection, LoginConfig, Time};
use klamm::wire::Writer;
use libfuzzer_sys::fuzz_target;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Too long to guess.
const PASSWORD: &str = "51a64a3e-76c7-4c87-8ff4-6b1a8b0a1f0d";

fn messages(data: &[u8]) -> impl Iterator<Item = (bool, &[u8])> {
    let mut rest = data;
    std::iter::from_fn(move || {
        let (length, behind) = rest.split_first()?;
        let (message, behind) = behind.split_at(behind.len().min(usize::from(length & 0x7f)));
        rest = behind;
        Some((length & 0x80 != 0, message))
    })
}

/// Runs a client against a broker that sends any bytes.
fn broker(mechanism: usize, data: &[u8]) {
    let (username, password) = ("alice".to_owned(), PASSWORD.to_owned());
    let name = broker::MECHANISMS.get(mechanism);
    let credentials = match name.and_then(|name| scram::Mechanism::from_name(name)) {
        None if name.is_none() => Credentials::Gssapi,
        Some(mechanism) => Credentials::Scram { mechanism, username, password, extensions: Vec::new() },
        None if mechanism == 0 => Credentials::Bearer(BearerToken::new("t".to_owned(), Vec::new()).ok().map(Arc::new)),
        None => Credentials::Plain { username, password },
    };
    let proves = matches!(credentials, Credentials::Scram { .. });
    let (asks, mut has_chosen) = (matches!(credentials, Credentials::Gssapi), false);
    let login_config = LoginConfig {
        credentials: Arc::new(credentials),
        nonces: Nonces::new([1; 32]),
        renewal_timeout: Duration::from_secs(30),
    };
    let mut client: Connection<()> =
        Connection::new(Time(0), String::new(), String::new(), 1 << 24, Duration::from_secs(10), Some(login_config));
    let of = |api: &Info| api_versions::ApiVersion { api_key: api.key, min_version: 0, max_version: 1 };
    let api_keys = vec![of(&sasl_handshake::API), of(&sasl_authenticate::API)];
    let versions = response(4, 0, &api_versions::Response { api_keys, ..Default::default() });
    let handshake = response(1, 1, &sasl_handshake::Response::default());
    for bytes in [&versions, &handshake] {
        client.frames().buffer().extend_from_slice(bytes);
        client.handle_received(Time(0)).expect("these are right");
    }
    for (correlation_id, (bare, message)) in (2..).zip(messages(data)) {
        let auth_bytes = Bytes::copy_from_slice(message);
        let framed = || response(1, correlation_id, &sasl_authenticate::Response { auth_bytes, ..Default::default() });
        client.frames().buffer().extend_from_slice(&if bare { message.to_vec() } else { framed() });
        if client.handle_received(Time(0)).is_err() {
            break;
        }
        while let Some(call) = client.poll_library_call() {
            has_chosen |= matches!(call, LibraryCall::Wrap(_));
            if client.handle_library_result(Ok(library(call))).is_err() {
                return;
            }
        }
        while client.poll_send().is_some() {}
        assert!(!asks || has_chosen || !client.is_ready(), "it was ready before it said that nothing is protected");
        assert!(!(proves && client.is_ready()), "a broker that does not know the password was believed");
    }
}

/// A Kerberos library that repeats the broker's tokens. An odd first byte of a token completes the context.
fn library(call: LibraryCall) -> LibraryResult {
    let is_established = matches!(&call, LibraryCall::Step(token) if token.first().is_some_and(|first| first & 1 == 1));
    let (LibraryCall::Step(token) | LibraryCall::Unwrap(token) | LibraryCall::Wrap(token)) = call;
    LibraryResult { token, is_established }
}

/// Runs a broker against a client that sends any bytes.
fn client(mechanism: usize, data: &[u8]) {
    let name = broker::MECHANISMS[mechanism];
    let users = BTreeMap::from([("alice".to_owned(), PASSWORD.to_owned())]);
    let sasl = Sasl { users: BTreeMap::from([(name.to_owned(), users)]), max_reauth: None };
    let node = Node { id: 1, host: String::new(), port: 1 };
    let mut cluster = Cluster::new(&Options { sasl: Some(sasl), ..Options::default() }, vec![node], 0, 1);
    let me = broker::Connection(1);
    cluster.connect(1, me);
    let handshake = sasl_handshake::Request { mechanism: name.to_owned() };
    cluster.handle(Duration::ZERO, me, request(&handshake));
    while cluster.poll_send().is_some() {}
    for (bare, message) in messages(data) {
        let auth_bytes = Bytes::copy_from_slice(message);
        let framed = || request(&sasl_authenticate::Request { auth_bytes });
        cluster.handle(Duration::ZERO, me, if bare { Bytes::copy_from_slice(message) } else { framed() });
        while let Some(output) = cluster.poll_send() {
            if matches!(output, Output::Close { .. }) {
                return;
            }
        }
    }
}

fn response<M: Message>(version: i16, correlation_id: i32, response: &M) -> Vec<u8> {
    let mut w = Writer::new(version, M::API.is_flexible(version));
    w.buf.extend_from_slice(&[0; 4]);
    put_response_header(M::API, version, correlation_id, &mut w);
    response.put(&mut w);
    let mut frame = w.finish().expect("it has a form");
    let length = u32::try_from(frame.len() - 4).expect("it is short");
    frame[..4].copy_from_slice(&length.to_be_bytes());
    frame
}

fn request<R: api::Request>(request: &R) -> Bytes {
    let mut w = Writer::new(1, false);
    let client_id = ClientId(None);
    RequestHeader { request_api_key: R::API.key, request_api_version: 1, correlation_id: 1, client_id }
        .put(R::API, &mut w);
    request.put(&mut w);
    w.finish().expect("it has a form").into()
}

fuzz_target!(|data: &[u8]| {
    let Some((kind, data)) = data.split_first() else { return };
    // Clients know one mechanism more than the dev broker: GSSAPI.
    let (mechanism, count) = (usize::from(kind >> 1), broker::MECHANISMS.len());
    if kind & 1 == 1 { broker(mechanism % (count + 1), data) } else { client(mechanism % count, data) }
});
