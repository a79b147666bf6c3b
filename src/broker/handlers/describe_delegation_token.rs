//! DescribeDelegationToken v0 to v3: returns the tokens of the client's user, and the tokens that access rules allow
//! the user to see.

use super::defaults::RespondWith;
use crate::api::ErrorCode;
use crate::api::describe_delegation_token::{self as described, Request, Response};
use crate::broker::authorizer::{Operation, Resource};
use crate::broker::request::{Context, HandlerResult};
use crate::broker::state::State;
use crate::broker::tokens::{Principal, Token};

pub(super) fn handle(state: &mut State, context: &Context, request: Request) -> HandlerResult<Response> {
    let Some(user) = state.token_user(context.connection) else {
        return HandlerResult::Reply(request.response_with(ErrorCode::DELEGATION_TOKEN_REQUEST_NOT_ALLOWED));
    };
    if !state.tokens.are_enabled() {
        return HandlerResult::Reply(request.response_with(ErrorCode::DELEGATION_TOKEN_AUTH_DISABLED));
    }
    state.expire_tokens(context.clock);
    let owners = request.owners.map(|owners| {
        owners.into_iter().map(|owner| Principal::new(owner.principal_type, owner.principal_name)).collect::<Vec<_>>()
    });
    let is_visible = |token: &&Token| {
        owners.as_ref().is_none_or(|owners| owners.iter().any(|owner| token.belongs_to(owner)))
            && (token.belongs_to(&user)
                || state.allows(context, Operation::Describe, Resource::DelegationToken(&token.id))
                || state.allows(context, Operation::DescribeTokens, Resource::User(&token.owner.to_string())))
    };
    let tokens = state.tokens.all().filter(is_visible).map(|token| describe(state, token)).collect();
    HandlerResult::Reply(Response { tokens, ..Response::default() })
}

fn describe(state: &State, token: &Token) -> described::Token {
    let Token { id, owner, requester, renewers, issued_ms, expires_ms, max_ms } = token.clone();
    let renewer = |Principal { kind, name }| described::Principal { principal_type: kind, principal_name: name };
    described::Token {
        principal_type: owner.kind,
        principal_name: owner.name,
        token_requester_principal_type: requester.kind,
        token_requester_principal_name: requester.name,
        issue_timestamp: issued_ms,
        expiry_timestamp: expires_ms,
        max_timestamp: max_ms,
        hmac: state.tokens.hmac(&id).unwrap_or_default().into(),
        token_id: id,
        renewers: renewers.into_iter().map(renewer).collect(),
    }
}
