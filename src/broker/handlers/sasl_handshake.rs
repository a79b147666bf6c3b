//! SaslHandshake v0 and v1: chooses the SASL mechanism, also when a connection authenticates again (KIP-368).
//!
//! After SaslHandshake v0, the client sends SASL messages without a request header. As in Kafka, the broker closes the
//! connection if it does not support the mechanism.

use super::defaults::RespondWith;
use crate::api::ErrorCode;
use crate::api::sasl_handshake::{Request, Response};
use crate::broker::request::{Context, HandlerResult};
use crate::broker::state::State;

pub(super) fn handle(state: &mut State, context: &Context, request: Request) -> HandlerResult<Response> {
    let Some(authenticator) = &mut state.authenticator else {
        return HandlerResult::Reply(request.response_with(ErrorCode::ILLEGAL_SASL_STATE));
    };
    let started = authenticator.begin(context.clock.now, context.connection, &request.mechanism, context.version == 0);
    let error_code = started.err().unwrap_or(ErrorCode::NONE);
    HandlerResult::Reply(Response { error_code, mechanisms: authenticator.mechanisms() })
}
