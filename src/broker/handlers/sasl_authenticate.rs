//! SaslAuthenticate v0 to v2: handles a message of the SASL mechanism that SaslHandshake v1 chose. If authentication
//! fails, the broker responds with an error and closes the connection.

use super::defaults::RespondWith;
use crate::api::ErrorCode;
use crate::api::sasl_authenticate::{Request, Response};
use crate::broker::request::{Context, HandlerResult};
use crate::broker::state::State;

pub(super) fn handle(state: &mut State, context: &Context, request: Request) -> HandlerResult<Response> {
    match state.handle_token(context.clock, context.connection, &request.auth_bytes) {
        None => HandlerResult::Reply(request.response_with(ErrorCode::ILLEGAL_SASL_STATE)),
        Some(Ok(reply)) => HandlerResult::Reply(Response {
            auth_bytes: reply.message.into(),
            session_lifetime_ms: reply.session_ms,
            ..Response::default()
        }),
        Some(Err(why)) => HandlerResult::Reply(Response {
            error_code: ErrorCode::SASL_AUTHENTICATION_FAILED,
            error_message: Some(why),
            ..Response::default()
        }),
    }
}
