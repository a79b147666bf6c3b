//! ExpireDelegationToken v0 to v2: there are no delegation tokens, which is what Kafka says where they are switched off.

use super::{Answer, Context};
use crate::api::ErrorCode;
use crate::api::expire_delegation_token::{Request, Response};
use crate::broker::state::State;

pub(super) fn handle(state: &mut State, _: &Context, request: Request) -> Answer<Response> {
    Answer::Reply(refuse(request, state.no_tokens()))
}

pub(super) fn refuse(_: Request, error_code: ErrorCode) -> Response {
    Response { error_code, ..Response::default() }
}
