//! AlterConfigs v0 to v2: replaces the whole configuration of topics and groups. Configurations that are not named
//! return to their defaults. Node configurations are not supported (INVALID_REQUEST).

use crate::api::ErrorCode;
use crate::api::alter_configs::{Request, Resource, ResourceResponse, Response};
use crate::api::describe_configs::{GROUP, TOPIC};
use crate::broker::authorizer::{self, Operation};
use crate::broker::configs::Configs;
use crate::broker::group;
use crate::broker::journal::Entry;
use crate::broker::request::{ApiError, Context, HandlerResult};
use crate::broker::state::State;
use std::collections::BTreeMap;

pub(super) fn handle(state: &mut State, context: &Context, request: Request) -> HandlerResult<Response> {
    let mut times = BTreeMap::<_, usize>::new();
    for resource in &request.resources {
        *times.entry((resource.resource_type, resource.resource_name.clone())).or_default() += 1;
    }
    let responses = request.resources.into_iter().map(|resource| {
        let again = times.get(&(resource.resource_type, resource.resource_name.clone())).is_some_and(|n| *n > 1);
        let what = authorizer::Resource::of_configs(resource.resource_type, &resource.resource_name);
        let allowed = state.check(context, Operation::AlterConfigs, what);
        let altered = match (again, resource.resource_type) {
            (true, _) => Err(ApiError::new(ErrorCode::INVALID_REQUEST, "Each resource must appear at most once.")),
            _ if let Err(code) = allowed => Err(code.into()),
            (false, TOPIC) => alter_topic(state, &resource, request.validate_only),
            (false, GROUP) => alter_group(state, &resource, request.validate_only),
            (false, other) => {
                let why = format!("Resources of type {other} cannot be altered here.");
                Err(ApiError::new(ErrorCode::INVALID_REQUEST, why))
            }
        };
        let refusal = altered.err().unwrap_or(ErrorCode::NONE.into());
        ResourceResponse {
            error_code: refusal.code,
            error_message: refusal.message,
            resource_type: resource.resource_type,
            resource_name: resource.resource_name,
        }
    });
    let responses = responses.collect();
    HandlerResult::Reply(Response { responses, ..Response::default() })
}

fn alter_topic(state: &mut State, resource: &Resource, validate_only: bool) -> Result<(), ApiError> {
    let (name, release) = (&resource.resource_name, state.defaults_of());
    let Some(topic) = state.topics.get_mut(name) else {
        let why = format!("The topic '{name}' does not exist.");
        return Err(ApiError::new(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, why));
    };
    let given = resource.configs.iter().map(|c| (c.name.as_str(), c.value.as_deref()));
    let configs = Configs::parse(release, given).map_err(|why| ApiError::new(ErrorCode::INVALID_CONFIG, why))?;
    if !validate_only {
        topic.configs = configs;
        state.note_topic(name);
    }
    Ok(())
}

fn alter_group(state: &mut State, resource: &Resource, validate_only: bool) -> Result<(), ApiError> {
    let State { groups, memory, journal, .. } = state;
    let id = resource.resource_name.as_str();
    if id.is_empty() {
        return Err(ApiError::new(ErrorCode::INVALID_REQUEST, "Default group resources are not allowed."));
    }
    let mut configs = group::Configs::default();
    for config in &resource.configs {
        let value = config.value.as_deref();
        configs.set(&config.name, value).map_err(|why| ApiError::new(ErrorCode::INVALID_CONFIG, why))?;
    }
    if validate_only {
        return Ok(());
    }
    if !groups.configure(memory, id, configs) {
        return Err(ErrorCode::KAFKA_STORAGE_ERROR.into());
    }
    for (name, value, _) in configs.list() {
        journal.note(|| Entry::group_config(id, name, Some(&value)));
    }
    Ok(())
}
