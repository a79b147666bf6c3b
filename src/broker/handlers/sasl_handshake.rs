//! SaslHandshake v0 and v1: chooses the mechanism, also for re-authentication (KIP-368).
//!
//! After v0, SASL messages arrive without a request header. As in Kafka, an unsupported mechanism closes the
//! connection.

use super::defaults::RespondWith;
use crate::api::ErrorCode;
use crate::api::sasl_handshake::{Request, Response};
use crate::broker::request::{Context, HandlerResult};
use crate::broker::state::State;

pub(super) fn handle(state: &mut State, context: &Context, request: Request) -> HandlerResult<Response> {
    let Some(authenticator) = &mut state.authenticator else {
        return HandlerResult::Reply(request.response_with(ErrorCode::ILLEGAL_SASL_STATE));
    };
    let is_enabled = authenticator.begin(context.connection, &request.mechanism, context.version == 0);
    let error_code = if is_enabled { ErrorCode::NONE } else { ErrorCode::UNSUPPORTED_SASL_MECHANISM };
    HandlerResult::Reply(Response { error_code, mechanisms: authenticator.mechanisms() })
}
