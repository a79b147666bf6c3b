//! AlterUserScramCredentials v0: users of SCRAM are new, changed or gone, and log in accordingly, where the mechanism is
//! one that clients may use. All changes of a user take place, or none.

use super::{Answer, Context, Refusal};
use crate::api::ErrorCode;
use crate::api::alter_user_scram_credentials::{Request, Response, SCRAM_SHA_256, SCRAM_SHA_512, UserResult};
use crate::broker::authorizer::{Operation, Resource};
use crate::broker::journal::Entry;
use crate::broker::sasl::Secret;
use crate::broker::state::State;
use std::collections::BTreeMap;

/// Rounds that are enough and not too many, as for Kafka.
const ITERATIONS: std::ops::RangeInclusive<i32> = 4096..=16_384;

/// What a user takes besides the name.
const COST: usize = 256;

/// A mechanism and what becomes of it; `None` if it goes.
type Change = (i8, Option<Secret>);

pub(super) fn handle(state: &mut State, context: &Context, request: Request) -> Answer<Response> {
    if let Err(code) = state.check(context, Operation::Alter, Resource::Cluster) {
        return Answer::Reply(refuse(request, code));
    }
    let mut users: BTreeMap<String, Result<Vec<Change>, Refusal>> = BTreeMap::new();
    let mut add = |user: String, change: Result<Change, Refusal>| {
        let changes = users.entry(user).or_insert_with(|| Ok(Vec::new()));
        match (changes.as_mut(), change) {
            (Ok(known), Ok((mechanism, _))) if known.iter().any(|(other, _)| *other == mechanism) => {
                let why = "A user credential cannot be altered twice in the same request";
                *changes = Err(Refusal::new(ErrorCode::DUPLICATE_RESOURCE, why));
            }
            (Ok(known), Ok(change)) => known.push(change),
            (Ok(_), Err(refusal)) => *changes = Err(refusal),
            (Err(_), _) => {}
        }
    };
    for wanted in request.deletions {
        let change = check(&wanted.name, wanted.mechanism).map(|()| (wanted.mechanism, None));
        add(wanted.name, change);
    }
    for wanted in request.upsertions {
        let iterations = u32::try_from(wanted.iterations).unwrap_or(0);
        let refuse = |why| Err(Refusal::new(ErrorCode::UNACCEPTABLE_CREDENTIAL, why));
        let change = check(&wanted.name, wanted.mechanism).and_then(|()| match wanted.iterations {
            ..4096 => refuse("Too few iterations"),
            n if !ITERATIONS.contains(&n) => refuse("Too many iterations"),
            _ => {
                let (salt, password) = (wanted.salt.to_vec(), wanted.salted_password.to_vec());
                Ok((wanted.mechanism, Some(Secret::Salted { iterations, salt, password })))
            }
        });
        add(wanted.name, change);
    }
    let results = users.into_iter().map(|(user, changes)| {
        let refusal = changes.and_then(|changes| apply(state, &user, changes)).err().unwrap_or(ErrorCode::NONE.into());
        UserResult { user, error_code: refusal.code, error_message: refusal.message }
    });
    let results = results.collect();
    Answer::Reply(Response { results, ..Response::default() })
}

pub(super) fn refuse(request: Request, error_code: ErrorCode) -> Response {
    let upserted = request.upsertions.into_iter().map(|wanted| wanted.name);
    let users = request.deletions.into_iter().map(|wanted| wanted.name).chain(upserted);
    let refuse = |user| UserResult { user, error_code, error_message: None };
    Response { results: users.map(refuse).collect(), ..Response::default() }
}

fn check(user: &str, mechanism: i8) -> Result<(), Refusal> {
    if user.is_empty() {
        return Err(Refusal::new(ErrorCode::UNACCEPTABLE_CREDENTIAL, "Username must not be empty"));
    }
    match mechanism {
        SCRAM_SHA_256 | SCRAM_SHA_512 => Ok(()),
        _ => Err(Refusal::new(ErrorCode::UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")),
    }
}

fn apply(state: &mut State, user: &str, changes: Vec<Change>) -> Result<(), Refusal> {
    let State { credentials, memory, journal, .. } = state;
    let is_known = |mechanism| credentials.get(mechanism, user).is_some();
    if changes.iter().any(|(mechanism, secret)| secret.is_none() && !is_known(*mechanism)) {
        let why = "Attempt to delete a user credential that does not exist";
        return Err(Refusal::new(ErrorCode::RESOURCE_NOT_FOUND, why));
    }
    let is_new = |(mechanism, secret): &&Change| secret.is_some() && !is_known(*mechanism);
    if !memory.take(changes.iter().filter(is_new).count() * (COST + user.len())) {
        return Err(ErrorCode::KAFKA_STORAGE_ERROR.into());
    }
    for (mechanism, secret) in changes {
        journal.note(|| Entry::user(mechanism, user, secret.as_ref()));
        match secret {
            Some(secret) => credentials.set(mechanism, user, secret),
            None => {
                credentials.remove(mechanism, user);
                memory.give(COST + user.len());
            }
        }
    }
    Ok(())
}
