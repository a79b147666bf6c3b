//! AlterClientQuotas v0 and v1: quotas of users, client ids and addresses. Byte rates are enforced, the others kept.

use super::{Answer, Context, Refusal};
use crate::api::ErrorCode;
use crate::api::alter_client_quotas::{Entity, Entry, EntryResponse, Op, Request, Response};
use crate::broker::authorizer::{Operation, Resource};
use crate::broker::quotas::{self, CLIENT_ID, IP, USER, check};
use crate::broker::state::State;
use std::collections::BTreeSet;
use std::net::IpAddr;

pub(super) fn handle(state: &mut State, context: &Context, request: Request) -> Answer<Response> {
    if let Err(code) = state.check(context, Operation::AlterConfigs, Resource::Cluster) {
        return Answer::Reply(refuse(request, code));
    }
    let mut seen = BTreeSet::new();
    let entries = request.entries.into_iter().map(|Entry { entity, ops }| {
        let named = entity.iter().map(|part| (part.entity_type.clone(), part.entity_name.clone())).collect();
        let altered = match seen.insert(quotas::Entity::clone(&named)) {
            true => alter(state, &named, ops, request.validate_only),
            false => Err(Refusal::new(ErrorCode::INVALID_REQUEST, "Ignoring duplicate entity")),
        };
        let Refusal { code, message } = altered.err().unwrap_or(ErrorCode::NONE.into());
        let part = |(entity_type, entity_name)| Entity { entity_type, entity_name };
        EntryResponse { error_code: code, error_message: message, entity: named.into_iter().map(part).collect() }
    });
    let entries = entries.collect();
    Answer::Reply(Response { entries, ..Response::default() })
}

pub(super) fn refuse(request: Request, error_code: ErrorCode) -> Response {
    let refuse = |entry: Entry| EntryResponse { error_code, error_message: None, entity: entry.entity };
    Response { entries: request.entries.into_iter().map(refuse).collect(), ..Response::default() }
}

/// All changes of an entity take place, or none.
fn alter(state: &mut State, entity: &quotas::Entity, ops: Vec<Op>, validate_only: bool) -> Result<(), Refusal> {
    let invalid = |why: String| Refusal::new(ErrorCode::INVALID_REQUEST, why);
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
