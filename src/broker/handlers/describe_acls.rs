//! DescribeAcls v0 to v3: returns the access rules that match a filter. Without an authorizer, the error is
//! SECURITY_DISABLED.

use super::defaults::RespondWith;
use crate::api::ErrorCode;
use crate::api::describe_acls::{Acl, Request, Resource, Response};
use crate::broker::authorizer::{self, Filter, NameMatch, Operation, Permission, ResourceType};
use crate::broker::request::{Context, HandlerResult};
use crate::broker::state::State;

/// A filter value that matches everything.
const ANY: i8 = 1;

pub(super) fn handle(state: &mut State, context: &Context, request: Request) -> HandlerResult<Response> {
    let Some(authorizer) = &state.authorizer else {
        let error_message = Some("No Authorizer is configured on the broker".to_owned());
        return HandlerResult::Reply(Response { error_message, ..request.response_with(ErrorCode::SECURITY_DISABLED) });
    };
    if let Err(code) = state.check(context, Operation::Describe, authorizer::Resource::Cluster) {
        return HandlerResult::Reply(request.response_with(code));
    }
    let Some(filter) = filter(request) else {
        return HandlerResult::Reply(Response { error_code: ErrorCode::INVALID_REQUEST, ..empty() });
    };
    let mut resources: Vec<Resource> = Vec::new();
    for rule in authorizer.rules.iter().filter(|rule| filter.fits(rule)) {
        let acl = Acl {
            principal: rule.principal.clone(),
            host: rule.host.clone(),
            operation: rule.operation.number(),
            permission_type: rule.permission.number(),
        };
        // Rules are sorted by resource.
        let (resource_type, pattern_type) = (rule.kind.number(), rule.pattern.number());
        let is_same_resource = |r: &&mut Resource| {
            (r.resource_type, r.pattern_type, &r.resource_name) == (resource_type, pattern_type, &rule.name)
        };
        match resources.last_mut().filter(is_same_resource) {
            Some(resource) => resource.acls.push(acl),
            None => {
                let resource_name = rule.name.clone();
                resources.push(Resource { resource_type, resource_name, pattern_type, acls: vec![acl] });
            }
        }
    }
    HandlerResult::Reply(Response { resources, ..empty() })
}

fn empty() -> Response {
    Response { error_message: None, ..Response::default() }
}

/// Converts the numbers of a filter, or returns `None` if a number is unknown.
pub(super) fn filter(request: Request) -> Option<Filter> {
    Some(Filter {
        kind: unless_any(request.resource_type_filter, ResourceType::from_number)?,
        name: request.resource_name_filter,
        names: NameMatch::from_number(request.pattern_type_filter)?,
        principal: request.principal_filter,
        host: request.host_filter,
        operation: unless_any(request.operation, Operation::from_number)?,
        permission: unless_any(request.permission_type, Permission::from_number)?,
    })
}

fn unless_any<T>(number: i8, parse: impl Fn(i8) -> Option<T>) -> Option<Option<T>> {
    if number == ANY { Some(None) } else { parse(number).map(Some) }
}
