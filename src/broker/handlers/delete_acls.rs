//! DeleteAcls v0 to v3: immediately deletes the access rules that match filters. Without an authorizer, the error is
//! SECURITY_DISABLED.

use super::defaults::RespondWith;
use super::describe_acls;
use crate::api::ErrorCode;
use crate::api::delete_acls::{Filter, FilterResult, MatchingAcl, Request, Response};
use crate::broker::authorizer::NO_AUTHORIZER;
use crate::broker::authorizer::{Operation, Resource};
use crate::broker::request::{Context, HandlerResult};
use crate::broker::state::State;

pub(super) fn handle(state: &mut State, context: &Context, request: Request) -> HandlerResult<Response> {
    if state.authorizer.is_none() {
        let filter_results =
            vec![filter_result(ErrorCode::SECURITY_DISABLED, Some(NO_AUTHORIZER)); request.filters.len()];
        return HandlerResult::Reply(Response { filter_results, ..Response::default() });
    }
    if let Err(code) = state.check(context, Operation::Alter, Resource::Cluster) {
        return HandlerResult::Reply(request.response_with(code));
    }
    let filter_results = request.filters.into_iter().map(|filter| delete(state, filter)).collect();
    HandlerResult::Reply(Response { filter_results, ..Response::default() })
}

fn filter_result(error_code: ErrorCode, why: Option<&str>) -> FilterResult {
    FilterResult { error_code, error_message: why.map(str::to_owned), matching_acls: Vec::new() }
}

fn delete(state: &mut State, filter: Filter) -> FilterResult {
    let filter = describe_acls::filter(crate::api::describe_acls::Request {
        resource_type_filter: filter.resource_type_filter,
        resource_name_filter: filter.resource_name_filter,
        pattern_type_filter: filter.pattern_type_filter,
        principal_filter: filter.principal_filter,
        host_filter: filter.host_filter,
        operation: filter.operation,
        permission_type: filter.permission_type,
    });
    let Some(filter) = filter else {
        return filter_result(ErrorCode::INVALID_REQUEST, Some("Unknown filter."));
    };
    let matching_acls = state.remove_rules(&filter).into_iter().map(|rule| MatchingAcl {
        error_code: ErrorCode::NONE,
        error_message: None,
        resource_type: rule.kind.number(),
        resource_name: rule.name,
        pattern_type: rule.pattern.number(),
        principal: rule.principal,
        host: rule.host,
        operation: rule.operation.number(),
        permission_type: rule.permission.number(),
    });
    FilterResult { matching_acls: matching_acls.collect(), ..filter_result(ErrorCode::NONE, None) }
}
