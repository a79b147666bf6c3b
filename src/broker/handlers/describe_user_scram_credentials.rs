//! DescribeUserScramCredentials v0: returns the SCRAM users and their iteration counts.

use super::defaults::RespondWith;
use crate::api::ErrorCode;
use crate::api::describe_user_scram_credentials::{Credential, Request, Response, UserResult};
use crate::broker::authorizer::{Operation, Resource};
use crate::broker::request::{Context, HandlerResult};
use crate::broker::state::State;
use std::collections::BTreeMap;

pub(super) fn handle(state: &mut State, context: &Context, request: Request) -> HandlerResult<Response> {
    if let Err(code) = state.check(context, Operation::Describe, Resource::Cluster) {
        return HandlerResult::Reply(request.response_with(code));
    }
    let mut times = BTreeMap::<String, usize>::new();
    for user in request.users.unwrap_or_default() {
        *times.entry(user.name).or_default() += 1;
    }
    if times.is_empty() {
        times = state.credentials.users().into_iter().map(|user| (user.to_owned(), 1)).collect();
    }
    let results = times.into_iter().map(|(user, times)| {
        let credential =
            |(mechanism, rounds)| Credential { mechanism, iterations: i32::try_from(rounds).unwrap_or(i32::MAX) };
        let credential_infos: Vec<_> = state.credentials.of(&user).map(credential).collect();
        let (error_code, why) = match times {
            2.. => (
                ErrorCode::DUPLICATE_RESOURCE,
                Some("Cannot describe SCRAM credentials for the same user twice in a single request"),
            ),
            _ if credential_infos.is_empty() => {
                (ErrorCode::RESOURCE_NOT_FOUND, Some("Attempt to describe a user credential that does not exist"))
            }
            _ => (ErrorCode::NONE, None),
        };
        UserResult {
            error_code,
            error_message: why.map(|why| format!("{why}: {user}")),
            credential_infos: if error_code.is_error() { Vec::new() } else { credential_infos },
            user,
        }
    });
    let results = results.collect();
    HandlerResult::Reply(Response { error_message: None, results, ..Response::default() })
}
