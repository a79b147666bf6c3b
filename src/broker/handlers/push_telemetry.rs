//! PushTelemetry v0: stores the metrics that a client pushes (KIP-714).

use super::defaults::RespondWith;
use crate::api::ErrorCode;
use crate::api::push_telemetry::{Request, Response};
use crate::broker::request::{Context, HandlerResult};
use crate::broker::state::State;

pub(super) fn handle(state: &mut State, _context: &Context, request: Request) -> HandlerResult<Response> {
    let result = state.telemetry.store_push(&request);
    HandlerResult::Reply(request.response_with(result.err().unwrap_or(ErrorCode::NONE)))
}
