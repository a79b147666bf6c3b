//! RenewDelegationToken v0 to v2: makes a token expire later, but not after the end of its maximum lifetime.

use super::defaults::RespondWith;
use crate::api::ErrorCode;
use crate::api::renew_delegation_token::{Request, Response};
use crate::broker::request::{Context, HandlerResult};
use crate::broker::state::State;

pub(super) fn handle(state: &mut State, context: &Context, request: Request) -> HandlerResult<Response> {
    let now_ms = context.clock.wall_ms;
    let token = state.find_token(context, &request.hmac).and_then(|(user, token)| match () {
        () if token.has_expired(now_ms) => Err(ErrorCode::DELEGATION_TOKEN_EXPIRED),
        () if !token.may_renew(&user) => Err(ErrorCode::DELEGATION_TOKEN_OWNER_MISMATCH),
        () => Ok(token),
    });
    let mut token = match token {
        Ok(token) => token,
        Err(code) => return HandlerResult::Reply(request.response_with(code)),
    };
    let longest = state.token_expiry_ms();
    let period_ms = if request.renew_period_ms > 0 { longest.min(request.renew_period_ms) } else { longest };
    token.expires_ms = token.max_ms.min(now_ms.saturating_add(period_ms));
    let expiry_timestamp_ms = token.expires_ms;
    state.set_token(token);
    HandlerResult::Reply(Response { expiry_timestamp_ms, ..Response::default() })
}
