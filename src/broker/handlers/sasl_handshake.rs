//! SaslHandshake v0 and v1: chooses the mechanism, also of a connection that has to log in again (KIP-368).
//!
//! After v0 the mechanism's tokens come bare. A mechanism that there is not ends the connection, as in Kafka.

use super::{Answer, Context};
use crate::api::ErrorCode;
use crate::api::sasl_handshake::{Request, Response};
use crate::broker::state::State;

pub(super) fn handle(state: &mut State, context: &Context, request: Request) -> Answer<Response> {
    let Some(door) = &mut state.door else {
        return Answer::Reply(refuse(request, ErrorCode::ILLEGAL_SASL_STATE));
    };
    let known = door.begin(context.connection, &request.mechanism, context.version == 0);
    let error_code = if known { ErrorCode::NONE } else { ErrorCode::UNSUPPORTED_SASL_MECHANISM };
    Answer::Reply(Response { error_code, mechanisms: door.mechanisms() })
}

pub(super) fn refuse(_: Request, error_code: ErrorCode) -> Response {
    Response { error_code, ..Response::default() }
}
