//! CreateDelegationToken v0 to v3: creates a token for the client, or for another user if an access rule allows it.

use crate::api::ErrorCode;
use crate::api::create_delegation_token::{Request, Response};
use crate::broker::authorizer::{Operation, Resource};
use crate::broker::request::{Context, HandlerResult};
use crate::broker::state::{ANONYMOUS, State};
use crate::broker::tokens::{Principal, Token, USER};

/// The value of time fields in responses without a token, as in Kafka.
const NO_TIME: i64 = -1;

pub(super) fn handle(state: &mut State, context: &Context, request: Request) -> HandlerResult<Response> {
    let user = state.token_user(context.connection);
    let requester = Principal::new(USER, state.user(context.connection).unwrap_or(ANONYMOUS));
    let owner = match request.owner_principal_name.filter(|name| !name.is_empty()) {
        Some(name) => Principal::new(request.owner_principal_type.unwrap_or_default(), name),
        None => requester.clone(),
    };
    let renewers: Vec<_> =
        request.renewers.into_iter().map(|r| Principal::new(r.principal_type, r.principal_name)).collect();
    let may_create = |owner: &Principal| {
        *owner == requester || state.allows(context, Operation::CreateTokens, Resource::User(&owner.to_string()))
    };
    let code = match () {
        () if user.is_none() => ErrorCode::DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
        () if !may_create(&owner) => ErrorCode::DELEGATION_TOKEN_AUTHORIZATION_FAILED,
        () if renewers.iter().any(|renewer| renewer.kind != USER) => ErrorCode::INVALID_PRINCIPAL_TYPE,
        () if !state.tokens.are_enabled() => ErrorCode::DELEGATION_TOKEN_AUTH_DISABLED,
        () => ErrorCode::NONE,
    };
    if code != ErrorCode::NONE {
        return HandlerResult::Reply(error_response(code, owner, requester));
    }
    let now_ms = context.clock.wall_ms;
    let max_lifetime = state.node_configs.number("delegation.token.max.lifetime.ms").unwrap_or(0);
    let lifetime = if request.max_lifetime_ms > 0 { max_lifetime.min(request.max_lifetime_ms) } else { max_lifetime };
    let max_ms = now_ms.saturating_add(lifetime);
    let expires_ms = max_ms.min(now_ms.saturating_add(state.token_expiry_ms()));
    let id = state.new_uuid().to_string();
    let hmac = state.tokens.hmac(&id).unwrap_or_default();
    let token = Token { id, owner, requester, renewers, issued_ms: now_ms, expires_ms, max_ms };
    if !state.set_token(token.clone()) {
        return HandlerResult::Reply(error_response(ErrorCode::KAFKA_STORAGE_ERROR, token.owner, token.requester));
    }
    HandlerResult::Reply(Response {
        principal_type: token.owner.kind,
        principal_name: token.owner.name,
        token_requester_principal_type: token.requester.kind,
        token_requester_principal_name: token.requester.name,
        issue_timestamp_ms: now_ms,
        expiry_timestamp_ms: expires_ms,
        max_timestamp_ms: max_ms,
        token_id: token.id,
        hmac: hmac.into(),
        ..Response::default()
    })
}

fn error_response(error_code: ErrorCode, owner: Principal, requester: Principal) -> Response {
    Response {
        error_code,
        principal_type: owner.kind,
        principal_name: owner.name,
        token_requester_principal_type: requester.kind,
        token_requester_principal_name: requester.name,
        issue_timestamp_ms: NO_TIME,
        expiry_timestamp_ms: NO_TIME,
        max_timestamp_ms: NO_TIME,
        ..Response::default()
    }
}
