//! DescribeDelegationToken v0 to v3: fails as in Kafka with delegation tokens disabled.

use super::defaults::Refuse;
use crate::api::describe_delegation_token::{Request, Response};
use crate::broker::request::{Context, HandlerResult};
use crate::broker::state::State;

pub(super) fn handle(state: &mut State, _: &Context, request: Request) -> HandlerResult<Response> {
    HandlerResult::Reply(request.refuse(state.no_tokens()))
}
