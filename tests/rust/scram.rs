//! Tests SCRAM with exchanges of the Java client, and with brokers that send wrong proofs.

use crate::vectors::{jsonl, text};
use klamm::engine::sasl::scram::{Mechanism, ScramClient};
use klamm::engine::{Error, ErrorKind};
use serde_json::Value as Json;

fn client(line: &Json) -> ScramClient {
    let extensions: Vec<(String, String)> = line["extensions"]
        .as_object()
        .unwrap()
        .iter()
        .map(|(k, v)| (k.clone(), v.as_str().unwrap().to_owned()))
        .collect();
    let mechanism = Mechanism::from_name(text(line, "mechanism")).unwrap();
    let (name, password) = (text(line, "username"), text(line, "password"));
    ScramClient::new(mechanism, name, password, text(line, "client_nonce"), &extensions).unwrap()
}

#[test]
fn every_exchange_of_the_java_client() {
    let lines = jsonl("scram.jsonl");
    assert_eq!(lines.len(), 20);
    for line in &lines {
        let client = client(line);
        assert_eq!(client.first(), text(line, "client_first"));
        let (answer, expected) = client.client_final(text(line, "server_first")).unwrap();
        assert_eq!(answer, text(line, "client_final"));
        expected.check(text(line, "server_final")).unwrap();
    }
}

fn refusal(result: Result<(), Error>) -> String {
    let error = result.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Authentication);
    error.to_string()
}

#[test]
fn a_broker_that_does_not_know_the_password_is_refused() {
    let lines = jsonl("scram.jsonl");
    let (line, other) = (&lines[0], &lines[1]);
    let (_, expected) = client(line).client_final(text(line, "server_first")).unwrap();
    assert!(refusal(expected.check(text(other, "server_final"))).contains("signature is wrong"));
    assert!(refusal(expected.check("v=")).contains("signature is wrong"));
    assert!(refusal(expected.check("")).contains("signature is wrong"));
    assert!(refusal(expected.check("e=invalid-proof")).contains("invalid-proof"));
}

#[test]
fn a_challenge_that_makes_no_sense_is_refused() {
    let line = &jsonl("scram.jsonl")[0];
    let (nonce, good) = (text(line, "client_nonce"), text(line, "server_first"));
    let bad = [
        (String::new(), "must have nonce, salt and iterations"),
        (format!("m=x,{good}"), "extension"),
        (good.replace("r=r", "r=x"), "nonce"),
        (format!("r={nonce},s=AAAA,i=4096"), "nonce"),
        (format!("r={nonce}x,s=A!,i=4096"), "must have nonce, salt and iterations"),
        (format!("r={nonce}x,s=AAAA,i=-1"), "must have nonce, salt and iterations"),
        (format!("r={nonce}x,s=AAAA"), "must have nonce, salt and iterations"),
        (format!("r={nonce}x,s=AAAA,i=1"), "iterations"),
        (format!("r={nonce}x,s=AAAA,i=4294967295"), "iterations"),
    ];
    for (challenge, why) in bad {
        let message = refusal(client(line).client_final(&challenge).map(drop));
        assert!(message.contains(why), "{challenge}: {message}");
    }
}

#[test]
fn what_a_message_cannot_carry_is_refused() {
    let new = |nonce, key: &str, value: &str| {
        let extension = [(key.to_owned(), value.to_owned())];
        ScramClient::new(Mechanism::Sha256, "u", "p", nonce, &extension).map_err(|e| e.kind()).map(drop)
    };
    assert_eq!(new("n", "tokenauth", "true"), Ok(()));
    for (nonce, key, value) in
        [("", "a", "b"), ("a,b", "a", "b"), ("é", "a", "b"), ("n", "1", "b"), ("n", "a", "b,c"), ("n", "", "b")]
    {
        assert_eq!(new(nonce, key, value), Err(ErrorKind::Config));
    }
}

#[test]
fn the_password_is_not_shown() {
    let line = &jsonl("scram.jsonl")[0];
    let shown = format!("{:?}", client(line));
    assert!(shown.contains("n=user") && !shown.contains(text(line, "password")), "{shown}");
}
