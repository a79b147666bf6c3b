//! DescribeAcls v0 to v3: the rules that a filter lets through. SECURITY_DISABLED without an authorizer.

use super::{Answer, Context};
use crate::api::ErrorCode;
use crate::api::describe_acls::{Acl, Request, Resource, Response};
use crate::broker::authorizer::{self, Filter, Kind, Names, Operation, Permission};
use crate::broker::state::State;

/// In a filter: whatever it is.
const ANY: i8 = 1;

pub(super) fn handle(state: &mut State, context: &Context, request: Request) -> Answer<Response> {
    let Some(authorizer) = &state.authorizer else {
        let error_message = Some("No Authorizer is configured on the broker".to_owned());
        return Answer::Reply(Response { error_message, ..refuse(request, ErrorCode::SECURITY_DISABLED) });
    };
    if let Err(code) = state.check(context, Operation::Describe, authorizer::Resource::Cluster) {
        return Answer::Reply(refuse(request, code));
    }
    let Some(filter) = filter(request) else {
        return Answer::Reply(Response { error_code: ErrorCode::INVALID_REQUEST, ..nothing() });
    };
    let mut resources: Vec<Resource> = Vec::new();
    for rule in authorizer.rules.iter().filter(|rule| filter.fits(rule)) {
        let acl = Acl {
            principal: rule.principal.clone(),
            host: rule.host.clone(),
            operation: rule.operation.number(),
            permission_type: rule.permission.number(),
        };
        // Rules are in the order of what they are about.
        let (resource_type, pattern_type) = (rule.kind.number(), rule.pattern.number());
        let is_its = |r: &&mut Resource| {
            (r.resource_type, r.pattern_type, &r.resource_name) == (resource_type, pattern_type, &rule.name)
        };
        match resources.last_mut().filter(is_its) {
            Some(resource) => resource.acls.push(acl),
            None => {
                let resource_name = rule.name.clone();
                resources.push(Resource { resource_type, resource_name, pattern_type, acls: vec![acl] });
            }
        }
    }
    Answer::Reply(Response { resources, ..nothing() })
}

pub(super) fn refuse(_: Request, error_code: ErrorCode) -> Response {
    Response { error_code, ..nothing() }
}

fn nothing() -> Response {
    Response { error_message: None, ..Response::default() }
}

/// What the numbers of a filter mean; `None` if one of them has no meaning.
pub(super) fn filter(asked: Request) -> Option<Filter> {
    Some(Filter {
        kind: unless_any(asked.resource_type_filter, Kind::from_number)?,
        name: asked.resource_name_filter,
        names: Names::from_number(asked.pattern_type_filter)?,
        principal: asked.principal_filter,
        host: asked.host_filter,
        operation: unless_any(asked.operation, Operation::from_number)?,
        permission: unless_any(asked.permission_type, Permission::from_number)?,
    })
}

fn unless_any<T>(number: i8, parse: impl Fn(i8) -> Option<T>) -> Option<Option<T>> {
    if number == ANY { Some(None) } else { parse(number).map(Some) }
}
