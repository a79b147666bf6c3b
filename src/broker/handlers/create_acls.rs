//! CreateAcls v0 to v3: adds access rules immediately. Any node accepts the request. A broker without an authorizer
//! responds with SECURITY_DISABLED.

use super::defaults::RespondWith;
use crate::api::ErrorCode;
use crate::api::create_acls::{Acl, AclResult, Request, Response};
use crate::broker::authorizer::NO_AUTHORIZER;
use crate::broker::authorizer::{CLUSTER, Operation, Pattern, Permission, Resource, ResourceType, Rule};
use crate::broker::request::{ApiError, Context, HandlerResult};
use crate::broker::state::State;

pub(super) fn handle(state: &mut State, context: &Context, request: Request) -> HandlerResult<Response> {
    if state.authorizer.is_none() {
        let result =
            AclResult { error_code: ErrorCode::SECURITY_DISABLED, error_message: Some(NO_AUTHORIZER.to_owned()) };
        let results = vec![result; request.creations.len()];
        return HandlerResult::Reply(Response { results, ..Response::default() });
    }
    if let Err(code) = state.check(context, Operation::Alter, Resource::Cluster) {
        return HandlerResult::Reply(request.response_with(code));
    }
    let results = request.creations.into_iter().map(|acl| {
        let added = parse(acl).and_then(|rule| match state.add_rule(rule) {
            true => Ok(()),
            false => Err(ErrorCode::KAFKA_STORAGE_ERROR.into()),
        });
        let ApiError { code, message } = added.err().unwrap_or(ErrorCode::NONE.into());
        AclResult { error_code: code, error_message: message }
    });
    let results = results.collect();
    HandlerResult::Reply(Response { results, ..Response::default() })
}

fn parse(acl: Acl) -> Result<Rule, ApiError> {
    let invalid = |why: String| ApiError::new(ErrorCode::INVALID_REQUEST, why);
    let unknown = |field: &str, name: &str| invalid(format!("Invalid {field} {name}"));
    let kind = ResourceType::from_number(acl.resource_type);
    let kind = kind.ok_or_else(|| unknown("resourceType", ResourceType::text(acl.resource_type)))?;
    let pattern = Pattern::from_number(acl.resource_pattern_type);
    let pattern = pattern.ok_or_else(|| unknown("patternType", Pattern::text(acl.resource_pattern_type)))?;
    let operation = Operation::from_number(acl.operation);
    let operation = operation.ok_or_else(|| unknown("operation", Operation::text(acl.operation)))?;
    let permission = Permission::from_number(acl.permission_type);
    let permission = permission.ok_or_else(|| unknown("permissionType", Permission::text(acl.permission_type)))?;
    if kind == ResourceType::Cluster && acl.resource_name != CLUSTER {
        return Err(invalid(format!("The only valid name for the CLUSTER resource is {CLUSTER}")));
    }
    if acl.resource_name.is_empty() {
        return Err(invalid("Invalid empty resource name".to_owned()));
    }
    if !acl.principal.contains(':') {
        return Err(invalid(format!(
            "Could not parse principal from `{}` (no colon is present separating the principal type from the principal \
             name)",
            acl.principal
        )));
    }
    Ok(Rule { kind, pattern, name: acl.resource_name, principal: acl.principal, host: acl.host, operation, permission })
}
