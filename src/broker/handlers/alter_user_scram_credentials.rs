//! AlterUserScramCredentials v0: adds, changes and deletes SCRAM users. Users can log in with the new credentials if
//! the SCRAM mechanism is enabled. For each user, the handler applies all changes or none.

use super::defaults::RespondWith;
use crate::api::ErrorCode;
use crate::api::alter_user_scram_credentials::{Request, Response, SCRAM_SHA_256, SCRAM_SHA_512, UserResult};
use crate::broker::authorizer::{Operation, Resource};
use crate::broker::journal::Entry;
use crate::broker::request::{ApiError, Context, HandlerResult};
use crate::broker::sasl::Secret;
use crate::broker::state::State;
use std::collections::BTreeMap;

/// Valid iteration counts, as in Kafka.
const ITERATIONS: std::ops::RangeInclusive<i32> = 4096..=16_384;

/// Memory of a user, without the name.
const USER_MEMORY: usize = 256;

/// A mechanism and its new credentials. `None` deletes the credentials.
type Change = (i8, Option<Secret>);

pub(super) fn handle(state: &mut State, context: &Context, request: Request) -> HandlerResult<Response> {
    if let Err(code) = state.check(context, Operation::Alter, Resource::Cluster) {
        return HandlerResult::Reply(request.response_with(code));
    }
    let mut users: BTreeMap<String, Result<Vec<Change>, ApiError>> = BTreeMap::new();
    let mut add = |user: String, change: Result<Change, ApiError>| {
        let changes = users.entry(user).or_insert_with(|| Ok(Vec::new()));
        match (changes.as_mut(), change) {
            (Ok(valid), Ok((mechanism, _))) if valid.iter().any(|(other, _)| *other == mechanism) => {
                let why = "A user credential cannot be altered twice in the same request";
                *changes = Err(ApiError::new(ErrorCode::DUPLICATE_RESOURCE, why));
            }
            (Ok(valid), Ok(change)) => valid.push(change),
            (Ok(_), Err(error)) => *changes = Err(error),
            (Err(_), _) => {}
        }
    };
    for wanted in request.deletions {
        let change = check(&wanted.name, wanted.mechanism).map(|()| (wanted.mechanism, None));
        add(wanted.name, change);
    }
    for wanted in request.upsertions {
        let iterations = u32::try_from(wanted.iterations).unwrap_or(0);
        let unacceptable = |why| Err(ApiError::new(ErrorCode::UNACCEPTABLE_CREDENTIAL, why));
        let change = check(&wanted.name, wanted.mechanism).and_then(|()| match wanted.iterations {
            ..4096 => unacceptable("Too few iterations"),
            n if !ITERATIONS.contains(&n) => unacceptable("Too many iterations"),
            _ => {
                let (salt, password) = (wanted.salt.to_vec(), wanted.salted_password.to_vec());
                Ok((wanted.mechanism, Some(Secret::Salted { iterations, salt, password })))
            }
        });
        add(wanted.name, change);
    }
    let results = users.into_iter().map(|(user, changes)| {
        let error = changes.and_then(|changes| apply(state, &user, changes)).err().unwrap_or(ErrorCode::NONE.into());
        UserResult { user, error_code: error.code, error_message: error.message }
    });
    let results = results.collect();
    HandlerResult::Reply(Response { results, ..Response::default() })
}

impl RespondWith for Request {
    fn response_with(self, error_code: ErrorCode) -> Response {
        let upserted = self.upsertions.into_iter().map(|wanted| wanted.name);
        let users = self.deletions.into_iter().map(|wanted| wanted.name).chain(upserted);
        let result = |user| UserResult { user, error_code, error_message: None };
        Response { results: users.map(result).collect(), ..Response::default() }
    }
}

fn check(user: &str, mechanism: i8) -> Result<(), ApiError> {
    if user.is_empty() {
        return Err(ApiError::new(ErrorCode::UNACCEPTABLE_CREDENTIAL, "Username must not be empty"));
    }
    match mechanism {
        SCRAM_SHA_256 | SCRAM_SHA_512 => Ok(()),
        _ => Err(ApiError::new(ErrorCode::UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")),
    }
}

fn apply(state: &mut State, user: &str, changes: Vec<Change>) -> Result<(), ApiError> {
    let State { credentials, memory, journal, .. } = state;
    let is_known = |mechanism| credentials.get(mechanism, user).is_some();
    if changes.iter().any(|(mechanism, secret)| secret.is_none() && !is_known(*mechanism)) {
        let why = "Attempt to delete a user credential that does not exist";
        return Err(ApiError::new(ErrorCode::RESOURCE_NOT_FOUND, why));
    }
    let is_new = |(mechanism, secret): &&Change| secret.is_some() && !is_known(*mechanism);
    if !memory.try_reserve(changes.iter().filter(is_new).count() * (USER_MEMORY + user.len())) {
        return Err(ErrorCode::KAFKA_STORAGE_ERROR.into());
    }
    for (mechanism, secret) in changes {
        journal.append(|| Entry::user(mechanism, user, secret.as_ref()));
        match secret {
            Some(secret) => credentials.set(mechanism, user, secret),
            None => {
                credentials.remove(mechanism, user);
                memory.release(USER_MEMORY + user.len());
            }
        }
    }
    Ok(())
}
