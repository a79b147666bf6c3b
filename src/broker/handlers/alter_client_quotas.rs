//! AlterClientQuotas v0 and v1: sets quotas of users, client IDs and addresses. The broker enforces byte rates and only
//! stores other quotas.

use super::defaults::RespondWith;
use crate::api::ErrorCode;
use crate::api::alter_client_quotas::{Entity, Entry, EntryResponse, Op, Request, Response};
use crate::broker::authorizer::{Operation, Resource};
use crate::broker::quotas::{self, CLIENT_ID, IP, USER, check};
use crate::broker::request::{ApiError, Context, HandlerResult};
use crate::broker::state::State;
use std::collections::BTreeSet;
use std::net::IpAddr;

pub(super) fn handle(state: &mut State, context: &Context, request: Request) -> HandlerResult<Response> {
    if let Err(code) = state.check(context, Operation::AlterConfigs, Resource::Cluster) {
        return HandlerResult::Reply(request.response_with(code));
    }
    let mut seen = BTreeSet::new();
    let entries = request.entries.into_iter().map(|Entry { entity, ops }| {
        let parts = entity.iter().map(|part| (part.entity_type.clone(), part.entity_name.clone())).collect();
        let altered = match seen.insert(quotas::Entity::clone(&parts)) {
            true => alter(state, &parts, ops, request.validate_only),
            false => Err(ApiError::new(ErrorCode::INVALID_REQUEST, "Ignoring duplicate entity")),
        };
        let ApiError { code, message } = altered.err().unwrap_or(ErrorCode::NONE.into());
        let part = |(entity_type, entity_name)| Entity { entity_type, entity_name };
        EntryResponse { error_code: code, error_message: message, entity: parts.into_iter().map(part).collect() }
    });
    let entries = entries.collect();
    HandlerResult::Reply(Response { entries, ..Response::default() })
}

/// Applies all changes of an entity, or none.
fn alter(state: &mut State, entity: &quotas::Entity, ops: Vec<Op>, validate_only: bool) -> Result<(), ApiError> {
    let invalid = |why: String| ApiError::new(ErrorCode::INVALID_REQUEST, why);
    check_entity(entity).map_err(invalid)?;
    let mut keys = BTreeSet::new();
    for op in &ops {
        check(entity, &op.key, (!op.remove).then_some(op.value)).map_err(invalid)?;
        if !keys.insert(&op.key) {
            return Err(invalid(format!("Duplicate quota {}", op.key)));
        }
    }
    for op in ops.iter().filter(|_| !validate_only) {
        if !state.set_quota(entity, &op.key, (!op.remove).then_some(op.value)) {
            return Err(ErrorCode::KAFKA_STORAGE_ERROR.into());
        }
    }
    Ok(())
}

fn check_entity(entity: &quotas::Entity) -> Result<(), String> {
    if entity.is_empty() {
        return Err("Invalid empty client quota entity".to_owned());
    }
    for (kind, name) in entity {
        match name {
            _ if ![USER, CLIENT_ID, IP].contains(&kind.as_str()) => {
                return Err(format!("Unhandled client quota entity type: {kind}"));
            }
            Some(name) if name.is_empty() => return Err(format!("Empty {kind} not supported")),
            Some(name) if kind == IP && name != "localhost" && name.parse::<IpAddr>().is_err() => {
                return Err(format!("{name} is not a valid IP or resolvable host."));
            }
            _ => {}
        }
    }
    if entity.contains_key(IP) && entity.len() > 1 {
        let why = "Invalid quota entity combination, IP entity should not be combined with User or ClientId";
        return Err(why.to_owned());
    }
    Ok(())
}
