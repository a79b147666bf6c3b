//! Tests authentication without sockets. The tests connect the client's state machine to the dev broker's cluster, and
//! to simulated brokers that are old, dishonest or faulty.

use bytes::{Bytes, BytesMut};
use klamm::api::header::{RequestHeader, put_response_header};
use klamm::api::{self, ErrorCode, Message, Request, api_versions, metadata, sasl_authenticate, sasl_handshake};
use klamm::broker::{self, Cluster, Node, Options, Output, Sasl};
use klamm::engine::sasl::{BearerToken, Credentials, Nonces, gssapi, scram};
use klamm::engine::{Connection, Error, ErrorKind, LoginConfig, Time};
use klamm::frame::Frames;
use klamm::wire::{Reader, Writer};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

const ALICE: &str = "al=ice,";
const PASSWORD: &str = "s3cret w\u{f6}rd";
const TOKEN: &str = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhbGljZSIsImV4cCI6MTAwfQ.";

fn credentials(mechanism: &str) -> Credentials {
    let (username, password) = (ALICE.to_owned(), PASSWORD.to_owned());
    match scram::Mechanism::from_name(mechanism) {
        Some(mechanism) => Credentials::Scram { mechanism, username, password, extensions: Vec::new() },
        None if mechanism == "PLAIN" => Credentials::Plain { username, password },
        None => Credentials::Bearer(Some(Arc::new(BearerToken::new(TOKEN.to_owned(), Vec::new()).unwrap()))),
    }
}

fn client(credentials: Credentials) -> Connection<u32> {
    let login_config = LoginConfig {
        credentials: Arc::new(credentials),
        nonces: Nonces::new([7; 32]),
        renewal_timeout: Duration::from_secs(30),
    };
    let timeout = Duration::from_secs(10);
    Connection::new(Time(0), "broker:9092".to_owned(), "test".to_owned(), 100 << 20, timeout, Some(login_config))
}

/// Returns the client's output as frames without their lengths.
fn said(client: &mut Connection<u32>) -> Vec<Bytes> {
    let mut frames = Frames::new(1 << 20);
    std::iter::from_fn(|| client.poll_send()).for_each(|bytes| frames.buffer().extend_from_slice(&bytes));
    std::iter::from_fn(|| frames.next_frame().unwrap()).collect()
}

fn tell(client: &mut Connection<u32>, now: Time, bytes: &[u8]) -> Result<(), Error> {
    client.frames().buffer().extend_from_slice(bytes);
    client.handle_received(now)
}

fn behind_length(body: &[u8]) -> BytesMut {
    let mut frame = BytesMut::from(&u32::try_from(body.len()).unwrap().to_be_bytes()[..]);
    frame.extend_from_slice(body);
    frame
}

/// Returns a request's header, and its body if it is an `R`.
fn read<R: Request>(frame: &Bytes) -> (RequestHeader, R) {
    let mut r = Reader::new(frame.clone(), 0, false);
    let header = RequestHeader::get(&mut r, |key| api::by_key(key).map(|entry| entry.info)).unwrap();
    assert_eq!(header.request_api_key, R::API.key);
    let body = api::decode(header.request_api_version, r.rest()).unwrap();
    (header, body)
}

fn answer<M: Message>(header: &RequestHeader, response: &M) -> BytesMut {
    let version = header.request_api_version;
    let mut w = Writer::new(version, M::API.is_flexible(version));
    put_response_header(M::API, version, header.correlation_id, &mut w);
    response.put(&mut w);
    behind_length(&w.parts().unwrap().concat())
}

/// Returns the API versions of a broker of some release.
fn versions(handshake: i16, authenticate: Option<i16>) -> api_versions::Response {
    let of = |api: &api::Info, max_version| api_versions::ApiVersion { api_key: api.key, min_version: 0, max_version };
    let mut api_keys = vec![of(&metadata::API, 1), of(&sasl_handshake::API, handshake)];
    api_keys.extend(authenticate.map(|max| of(&sasl_authenticate::API, max)));
    api_versions::Response { api_keys, ..Default::default() }
}

/// Runs the login until the broker has accepted the mechanism, and returns the client's first token.
fn begin(client: &mut Connection<u32>, handshake: i16, authenticate: Option<i16>) -> Bytes {
    agree(client, handshake, authenticate);
    said(client).remove(0)
}

fn agree(client: &mut Connection<u32>, handshake: i16, authenticate: Option<i16>) {
    let (header, _) = read::<api_versions::Request>(&said(client)[0]);
    tell(client, Time(0), &answer(&header, &versions(handshake, authenticate))).unwrap();
    let (header, request) = read::<sasl_handshake::Request>(&said(client)[0]);
    assert_eq!(header.request_api_version, handshake);
    let response = sasl_handshake::Response { mechanisms: vec![request.mechanism], ..Default::default() };
    tell(client, Time(0), &answer(&header, &response)).unwrap();
}

fn authenticated(token: &'static [u8], session_lifetime_ms: i64) -> sasl_authenticate::Response {
    let auth_bytes = Bytes::from_static(token);
    sasl_authenticate::Response { auth_bytes, session_lifetime_ms, ..Default::default() }
}

fn dev_broker(mechanism: &str) -> Cluster {
    let users = BTreeMap::from([(ALICE.to_owned(), PASSWORD.to_owned())]);
    let sasl = Sasl { users: BTreeMap::from([(mechanism.to_owned(), users)]), max_reauth: None };
    let node = Node { id: 1, host: "broker".to_owned(), port: 9092 };
    let mut cluster = Cluster::new(&Options { sasl: Some(sasl), ..Options::default() }, vec![node], 0, 1);
    cluster.connect(1, broker::Connection(1));
    cluster
}

/// Exchanges messages between a client and a cluster until both are silent. With `old`, the cluster behaves like Kafka
/// 0.10.
fn talk(client: &mut Connection<u32>, cluster: &mut Cluster, old: bool) -> Result<(), Error> {
    loop {
        let frames = said(client);
        if frames.is_empty() {
            return Ok(());
        }
        for frame in frames {
            let asked = Reader::new(frame.clone(), 0, false).rest();
            if old && asked.starts_with(&api_versions::API.key.to_be_bytes()) {
                let (header, _) = read::<api_versions::Request>(&frame);
                tell(client, Time(0), &answer(&header, &versions(0, None)))?;
                continue;
            }
            cluster.handle(Duration::ZERO, broker::Connection(1), frame);
            while let Some(output) = cluster.poll_send() {
                match output {
                    Output::Reply { parts, .. } => tell(client, Time(0), &parts.concat())?,
                    Output::Close { .. } => return Err(client.closed_by_peer()),
                }
            }
        }
    }
}

#[test]
fn every_mechanism_logs_in_at_brokers_old_and_new() {
    for mechanism in broker::MECHANISMS {
        for old in [false, true] {
            let mut client = client(credentials(mechanism));
            talk(&mut client, &mut dev_broker(mechanism), old).unwrap();
            assert!(client.is_ready(), "{mechanism}, old: {old}");
        }
    }
}

#[test]
fn old_and_new_brokers_report_a_failed_login() {
    for mechanism in ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] {
        for old in [false, true] {
            let mut credentials = credentials(mechanism);
            let (Credentials::Plain { password, .. } | Credentials::Scram { password, .. }) = &mut credentials else {
                unreachable!()
            };
            password.push('!');
            let mut client = client(credentials);
            let error = talk(&mut client, &mut dev_broker(mechanism), old).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Authentication);
            assert!(!client.is_ready());
            let said = error.to_string();
            assert!(said.contains(&format!("authentication with {mechanism} as {ALICE:?}")), "{said}");
            assert!(said.contains("check sasl.username, sasl.password") && !said.contains("s3cret"), "{said}");
        }
    }
}

#[test]
fn a_rejected_login_with_a_delegation_token_names_the_token() {
    let login = |tokenauth: &str, old| {
        let extensions = vec![("tokenauth".to_owned(), tokenauth.to_owned())];
        let (username, password) = ("token-1".to_owned(), PASSWORD.to_owned());
        let mechanism = scram::Mechanism::Sha256;
        let mut client = client(Credentials::Scram { mechanism, username, password, extensions });
        let error = talk(&mut client, &mut dev_broker("SCRAM-SHA-256"), old).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Authentication);
        error.hint().unwrap().to_owned()
    };
    let hint = login("true", false);
    assert!(hint.contains("delegation token \"token-1\"") && !hint.contains("sasl.username"), "{hint}");
    // A password, and a broker that closes the connection without an error code.
    for hint in [login("false", false), login("true", true)] {
        assert!(hint.contains("sasl.username") && !hint.contains("token"), "{hint}");
    }
}

#[test]
fn an_old_brokers_tokens_travel_bare() {
    let mut client = client(credentials("PLAIN"));
    assert_eq!(begin(&mut client, 0, None), format!("\0{ALICE}\0{PASSWORD}"));
    assert!(!client.is_ready());
    tell(&mut client, Time(0), &behind_length(b"")).unwrap();
    assert!(client.is_ready());
}

#[test]
fn a_broker_that_lies_about_the_password_is_left() {
    let mut client = client(credentials("SCRAM-SHA-256"));
    let (header, first) = read::<sasl_authenticate::Request>(&begin(&mut client, 1, Some(2)));
    let first = String::from_utf8(first.auth_bytes.to_vec()).unwrap();
    let nonce = first.rsplit_once("r=").unwrap().1;
    let challenge = format!("r={nonce}theirs,s=c2FsdA==,i=4096");
    let response = sasl_authenticate::Response { auth_bytes: challenge.into(), ..Default::default() };
    tell(&mut client, Time(0), &answer(&header, &response)).unwrap();
    let (header, _) = read::<sasl_authenticate::Request>(&said(&mut client)[0]);
    let signature = b"v=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
    let error = tell(&mut client, Time(0), &answer(&header, &authenticated(signature, 0))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Authentication);
    assert!(error.to_string().contains("the broker's signature is wrong"), "{error}");
    assert!(!client.is_ready());
}

#[test]
fn garbage_after_the_handshake_ends_the_connection() {
    let cases: [(&[u8], &str); 5] = [
        // 2 GiB, and what is too much for a login already.
        (&[0x7f, 0xff, 0xff, 0xff], "frame length 2147483647"),
        (&[0, 0x20, 0, 0], "frame length 2097152"),
        (&[0xff; 8], "frame length -1"),
        (&[0, 0, 0, 2, 0, 0], "malformed"),
        (&[0, 0, 0, 8, 0, 0, 0, 9, 0, 0, 0, 0], "request 9 instead of"),
    ];
    for (garbage, says) in cases {
        let mut client = client(credentials("SCRAM-SHA-256"));
        begin(&mut client, 1, Some(2));
        let error = tell(&mut client, Time(0), garbage).unwrap_err();
        assert!(error.to_string().contains(says), "{error}");
        assert!(!client.is_ready());
    }
}

#[test]
fn a_broker_that_never_comes_to_an_end_is_late() {
    let mut client = client(credentials("PLAIN"));
    begin(&mut client, 1, Some(2));
    tell(&mut client, Time(0), &[0, 0, 0]).unwrap();
    assert_eq!(client.next_timeout(), Some(Time(10_000_000)));
    let error = client.handle_timeout(Time(10_000_000)).unwrap_err();
    assert_eq!((error.kind(), error.message()), (ErrorKind::Timeout, "no response to SaslAuthenticate in time"));
}

#[test]
fn a_session_is_renewed_while_requests_are_in_flight() {
    let mut client = client(credentials("PLAIN"));
    let (header, _) = read::<sasl_authenticate::Request>(&begin(&mut client, 1, Some(2)));
    tell(&mut client, Time(0), &answer(&header, &authenticated(b"", 1000))).unwrap();
    assert_eq!(client.next_timeout(), Some(Time(850_000)));
    let request = metadata::Request::default();
    client.send(&request, i16::MAX, Time(30_000_000), 7).unwrap();
    let (asked, _) = read::<metadata::Request>(&said(&mut client)[0]);

    let now = Time(850_000);
    client.handle_timeout(now).unwrap();
    assert!(!client.is_ready(), "nothing new may go before the broker has agreed again");
    let (header, request) = read::<sasl_handshake::Request>(&said(&mut client)[0]);
    // The answer to what was asked before comes first.
    tell(&mut client, now, &answer(&asked, &metadata::Response::default())).unwrap();
    assert_eq!(client.poll_response().map(|(token, result)| (token, result.is_ok())), Some((7, true)));
    let response = sasl_handshake::Response { mechanisms: vec![request.mechanism], ..Default::default() };
    tell(&mut client, now, &answer(&header, &response)).unwrap();
    let (header, _) = read::<sasl_authenticate::Request>(&said(&mut client)[0]);
    tell(&mut client, now, &answer(&header, &authenticated(b"", 1000))).unwrap();
    assert!(client.is_ready());
    // A broker rejects a renewal within one second of the previous one.
    assert_eq!(client.next_timeout(), Some(Time(1_850_000)));
}

#[test]
fn a_broker_that_rejects_a_renewal_does_not_reject_the_credentials() {
    let mut client = client(credentials("PLAIN"));
    let (header, _) = read::<sasl_authenticate::Request>(&begin(&mut client, 1, Some(2)));
    tell(&mut client, Time(0), &answer(&header, &authenticated(b"", 1000))).unwrap();
    client.handle_timeout(Time(850_000)).unwrap();
    let (header, _) = read::<sasl_handshake::Request>(&said(&mut client)[0]);
    let response = sasl_handshake::Response { error_code: ErrorCode::ILLEGAL_SASL_STATE, ..Default::default() };
    let error = tell(&mut client, Time(850_000), &answer(&header, &response)).unwrap_err();
    assert_eq!((error.kind(), error.is_retriable()), (ErrorKind::Network, true));
    assert_eq!(error.message(), "renewal of the SASL session: ILLEGAL_SASL_STATE (34)");
}

fn library(token: &[u8], is_established: bool) -> Result<gssapi::LibraryResult, Error> {
    Ok(gssapi::LibraryResult { token: token.to_vec(), is_established })
}

#[test]
fn what_only_the_kerberos_library_knows_is_asked_for() {
    let mut client = client(Credentials::Gssapi);
    agree(&mut client, 1, Some(2));
    let exchange: [(&[u8], gssapi::LibraryCall, &[u8], bool); 2] = [
        (b"theirs", gssapi::LibraryCall::Step(Vec::new()), b"ticket", false),
        (b"offer", gssapi::LibraryCall::Step(b"theirs".to_vec()), b"", true),
    ];
    for (theirs, question, ours, is_established) in exchange {
        assert!(said(&mut client).is_empty(), "nothing is said before the library answered");
        assert_eq!(client.poll_library_call(), Some(question));
        assert_eq!(client.poll_library_call(), None);
        client.handle_library_result(library(ours, is_established)).unwrap();
        let (header, request) = read::<sasl_authenticate::Request>(&said(&mut client)[0]);
        assert_eq!(request.auth_bytes, ours);
        tell(&mut client, Time(0), &answer(&header, &authenticated(theirs, 0))).unwrap();
    }
    assert_eq!(client.poll_library_call(), Some(gssapi::LibraryCall::Unwrap(b"offer".to_vec())));
    client.handle_library_result(library(&[1, 0, 0, 0], true)).unwrap();
    assert_eq!(client.poll_library_call(), Some(gssapi::LibraryCall::Wrap(vec![1, 0, 0, 0])));
    client.handle_library_result(library(b"choice", true)).unwrap();
    let (header, request) = read::<sasl_authenticate::Request>(&said(&mut client)[0]);
    assert_eq!(request.auth_bytes, &b"choice"[..]);
    assert!(!client.is_ready());
    tell(&mut client, Time(0), &answer(&header, &authenticated(b"", 1000))).unwrap();
    assert!(client.is_ready());
    assert_eq!(client.next_timeout(), Some(Time(850_000)));
}

#[test]
fn a_kerberos_library_that_refuses_or_never_answers_ends_the_login() {
    let mut refused = client(Credentials::Gssapi);
    agree(&mut refused, 1, Some(2));
    refused.poll_library_call().unwrap();
    let why = Error::new(ErrorKind::Authentication, "no ticket");
    assert_eq!(refused.handle_library_result(Err(why)).unwrap_err().message(), "no ticket");

    let mut late = client(Credentials::Gssapi);
    agree(&mut late, 1, Some(2));
    late.poll_library_call().unwrap();
    assert_eq!(late.next_timeout(), Some(Time(10_000_000)));
    let error = late.handle_timeout(Time(10_000_000)).unwrap_err();
    let said = "the Kerberos library did not respond in time";
    assert_eq!((error.kind(), error.message()), (ErrorKind::Timeout, said));
}

#[test]
fn a_broker_without_sasl_is_none_to_log_in_at() {
    let mut client = client(credentials("PLAIN"));
    let (header, _) = read::<api_versions::Request>(&said(&mut client)[0]);
    let response = api_versions::Response::default();
    let error = tell(&mut client, Time(0), &answer(&header, &response)).unwrap_err();
    assert_eq!((error.kind(), error.message()), (ErrorKind::Authentication, "the broker does not support SASL"));
}
