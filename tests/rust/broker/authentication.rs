//! Tests SASL authentication: requests before and after the authentication, session lifetime, and failures.

use super::*;
use klamm::broker::Sasl;
use std::collections::BTreeMap;

fn world(max_reauth: Option<Duration>) -> World {
    let users = ["alice", "bob"].map(|name| (name.to_owned(), "secret".to_owned()));
    let users = BTreeMap::from([("PLAIN".to_owned(), BTreeMap::from(users))]);
    World::new(Options { sasl: Some(Sasl { users, max_reauth }), ..Options::default() })
}

fn choose(world: &mut World, mechanism: &str) -> sasl_handshake::Response {
    world.call(1, 1, &sasl_handshake::Request { mechanism: mechanism.to_owned() })
}

fn prove(world: &mut World, token: &'static [u8]) -> sasl_authenticate::Response {
    world.call(1, 2, &sasl_authenticate::Request { auth_bytes: Bytes::from_static(token) })
}

fn log_in(world: &mut World) {
    assert_eq!(choose(world, "PLAIN").error_code, ErrorCode::NONE);
    assert_eq!(prove(world, b"\0alice\0secret").error_code, ErrorCode::NONE);
}

fn ask(world: &mut World) -> Got {
    world.send(1, 1, 7, &metadata::Request::default());
    world.next(1)
}

#[test]
fn only_api_versions_is_answered_before_authentication() {
    let mut world = world(None);
    assert!(
        !world
            .call(
                1,
                4,
                &api_versions::Request {
                    client_software_name: "test".to_owned(),
                    client_software_version: "1".to_owned(),
                    ..Default::default()
                }
            )
            .api_keys
            .is_empty()
    );
    assert_eq!(ask(&mut world), Got::Closed);
}

#[test]
fn an_authenticated_client_may_send_requests() {
    let mut world = world(None);
    log_in(&mut world);
    assert!(matches!(ask(&mut world), Got::Frame(_)));
}

#[test]
fn a_wrong_password_gets_an_error_and_closes_the_connection() {
    for token in [&b"\0alice\0wrong"[..], b"\0carol\0secret", b"bob\0alice\0secret", b"\0alice", b"", b"\xff"] {
        let mut world = world(None);
        choose(&mut world, "PLAIN");
        let response = prove(&mut world, token);
        assert_eq!(response.error_code, ErrorCode::SASL_AUTHENTICATION_FAILED);
        assert!(response.error_message.unwrap().starts_with("Authentication failed: "));
        assert_eq!(world.next(1), Got::Closed);
    }
}

#[test]
fn an_unsupported_mechanism_gets_the_list_of_enabled_ones() {
    let mut world = world(None);
    let response = choose(&mut world, "GSSAPI");
    assert_eq!(response.error_code, ErrorCode::UNSUPPORTED_SASL_MECHANISM);
    assert_eq!(response.mechanisms, ["PLAIN"]);
    assert_eq!(world.next(1), Got::Closed);
}

#[test]
fn a_token_without_a_handshake_is_an_error() {
    assert_eq!(prove(&mut world(None), b"\0alice\0secret").error_code, ErrorCode::ILLEGAL_SASL_STATE);
    let mut open = World::new(Options::default());
    assert_eq!(choose(&mut open, "PLAIN").error_code, ErrorCode::ILLEGAL_SASL_STATE);
}

#[test]
fn a_session_that_is_not_renewed_ends() {
    let mut world = world(Some(Duration::from_secs(10)));
    choose(&mut world, "PLAIN");
    assert_eq!(prove(&mut world, b"\0alice\0secret").session_lifetime_ms, 10_000);
    world.advance(Duration::from_secs(9));
    log_in(&mut world);
    world.advance(Duration::from_secs(9));
    assert!(matches!(ask(&mut world), Got::Frame(_)));
    world.advance(Duration::from_secs(1));
    assert_eq!(ask(&mut world), Got::Closed);
}

#[test]
fn a_session_is_renewed_only_for_the_same_user() {
    let mut world = world(Some(Duration::from_secs(10)));
    log_in(&mut world);
    choose(&mut world, "PLAIN");
    let response = prove(&mut world, b"\0bob\0secret");
    assert_eq!(response.error_code, ErrorCode::SASL_AUTHENTICATION_FAILED);
    assert_eq!(world.next(1), Got::Closed);
}

#[test]
fn a_session_is_renewed_at_most_once_a_second_and_not_without_an_end() {
    let mut limited = world(Some(Duration::from_secs(10)));
    log_in(&mut limited);
    log_in(&mut limited);
    limited.advance(Duration::from_millis(900));
    assert_eq!(choose(&mut limited, "PLAIN").error_code, ErrorCode::ILLEGAL_SASL_STATE);
    assert!(matches!(ask(&mut limited), Got::Frame(_)));
    limited.advance(Duration::from_millis(100));
    log_in(&mut limited);

    let mut unlimited = world(None);
    log_in(&mut unlimited);
    assert_eq!(choose(&mut unlimited, "PLAIN").error_code, ErrorCode::ILLEGAL_SASL_STATE);
}

#[test]
fn delegation_tokens_count_against_the_memory_of_the_broker() {
    let users = BTreeMap::from([("PLAIN".to_owned(), BTreeMap::from([("alice".to_owned(), "secret".to_owned())]))]);
    let mut world = World::new(Options {
        sasl: Some(Sasl { users, max_reauth: None }),
        config: BTreeMap::from([("delegation.token.secret.key".to_owned(), "key".to_owned())]),
        max_bytes: 10_000,
        ..Options::default()
    });
    log_in(&mut world);
    let mut create = || world.call(1, 3, &create_delegation_token::Request::default());
    let tokens: Vec<_> = (0..30).map(|_| create()).take_while(|token| token.error_code == ErrorCode::NONE).collect();
    assert!((10..30).contains(&tokens.len()), "{}", tokens.len());
    assert_eq!(create().error_code, ErrorCode::KAFKA_STORAGE_ERROR);
    let expire = expire_delegation_token::Request { hmac: tokens[0].hmac.clone(), expiry_time_period_ms: -1 };
    assert_eq!(world.call(1, 2, &expire).error_code, ErrorCode::NONE);
    assert_eq!(world.call(1, 3, &create_delegation_token::Request::default()).error_code, ErrorCode::NONE);
}
