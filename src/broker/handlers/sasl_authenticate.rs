//! SaslAuthenticate v0 to v2: a token of the mechanism that SaslHandshake v1 chose. Who is refused is told why, and the
//! connection ends.

use super::{Answer, Context};
use crate::api::ErrorCode;
use crate::api::sasl_authenticate::{Request, Response};
use crate::broker::state::State;

pub(super) fn handle(state: &mut State, context: &Context, request: Request) -> Answer<Response> {
    match state.take_token(context.clock, context.connection, &request.auth_bytes) {
        None => Answer::Reply(refuse(request, ErrorCode::ILLEGAL_SASL_STATE)),
        Some(Ok(told)) => Answer::Reply(Response {
            auth_bytes: told.message.into(),
            session_lifetime_ms: told.session_ms,
            ..Response::default()
        }),
        Some(Err(why)) => Answer::Reply(Response {
            error_code: ErrorCode::SASL_AUTHENTICATION_FAILED,
            error_message: Some(why),
            ..Response::default()
        }),
    }
}

pub(super) fn refuse(_: Request, error_code: ErrorCode) -> Response {
    Response { error_code, error_message: None, ..Response::default() }
}
