//! ExpireDelegationToken v0 to v2: changes when a token expires, or removes the token. As in Kafka, the owner and the
//! renewers can also remove an expired token.

use super::defaults::RespondWith;
use crate::api::ErrorCode;
use crate::api::expire_delegation_token::{Request, Response};
use crate::broker::request::{Context, HandlerResult};
use crate::broker::state::State;

pub(super) fn handle(state: &mut State, context: &Context, request: Request) -> HandlerResult<Response> {
    let (now_ms, period_ms) = (context.clock.wall_ms, request.expiry_time_period_ms);
    let token = state.find_token(context, &request.hmac).and_then(|(user, token)| match () {
        () if !token.may_renew(&user) => Err(ErrorCode::DELEGATION_TOKEN_OWNER_MISMATCH),
        () if period_ms >= 0 && token.has_expired(now_ms) => Err(ErrorCode::DELEGATION_TOKEN_EXPIRED),
        () => Ok(token),
    });
    let mut token = match token {
        Ok(token) => token,
        Err(code) => return HandlerResult::Reply(request.response_with(code)),
    };
    let expiry_timestamp_ms = if period_ms < 0 {
        state.remove_token(&token.id);
        now_ms
    } else {
        token.expires_ms = token.max_ms.min(now_ms.saturating_add(period_ms));
        let expires_ms = token.expires_ms;
        state.set_token(token);
        expires_ms
    };
    HandlerResult::Reply(Response { expiry_timestamp_ms, ..Response::default() })
}
