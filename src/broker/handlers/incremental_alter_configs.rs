//! IncrementalAlterConfigs v0 and v1: changes configurations of topics and groups. Node configurations are not
//! supported (INVALID_REQUEST).

use crate::api::ErrorCode;
use crate::api::describe_configs::{GROUP, TOPIC};
use crate::api::incremental_alter_configs::{
    APPEND, DELETE, Request, Resource, ResourceResponse, Response, SET, SUBTRACT,
};
use crate::broker::authorizer::{self, Operation};
use crate::broker::journal::Entry;
use crate::broker::request::{ApiError, Context, HandlerResult};
use crate::broker::state::State;
use std::collections::BTreeMap;

pub(super) fn handle(state: &mut State, context: &Context, request: Request) -> HandlerResult<Response> {
    let validate_only = request.validate_only;
    let mut times = BTreeMap::<_, usize>::new();
    for resource in &request.resources {
        *times.entry((resource.resource_type, resource.resource_name.clone())).or_default() += 1;
    }
    let responses = request.resources.into_iter().map(|resource| {
        let again = times.get(&(resource.resource_type, resource.resource_name.clone())).is_some_and(|n| *n > 1);
        let altered = match again {
            true => Err(ApiError::new(ErrorCode::INVALID_REQUEST, "Each resource must appear at most once.")),
            false => alter(state, context, &resource, validate_only),
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

fn alter(state: &mut State, context: &Context, resource: &Resource, validate_only: bool) -> Result<(), ApiError> {
    let what = authorizer::Resource::of_configs(resource.resource_type, &resource.resource_name);
    state.check(context, Operation::AlterConfigs, what)?;
    match resource.resource_type {
        TOPIC => alter_topic(state, resource, validate_only),
        GROUP => alter_group(state, resource, validate_only),
        other => {
            let why = format!("Resources of type {other} cannot be altered here.");
            Err(ApiError::new(ErrorCode::INVALID_REQUEST, why))
        }
    }
}

fn alter_topic(state: &mut State, resource: &Resource, validate_only: bool) -> Result<(), ApiError> {
    let Some(topic) = state.topics.get_mut(&resource.resource_name) else {
        let why = format!("The topic '{}' does not exist.", resource.resource_name);
        return Err(ApiError::new(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, why));
    };
    let mut configs = topic.configs.clone();
    for config in &resource.configs {
        let (name, joined);
        let value = match (config.config_operation, config.value.as_deref()) {
            (SET, value @ Some(_)) => value,
            (DELETE, _) => None,
            (APPEND | SUBTRACT, Some(given)) => {
                name = &config.name;
                let Some(mut items) = configs.items(name) else {
                    let what = if config.config_operation == APPEND { "append" } else { "subtract" };
                    let why = format!("Can't {what} to key {name} because its type is not LIST.");
                    return Err(ApiError::new(ErrorCode::INVALID_CONFIG, why));
                };
                let given: Vec<String> = given.split(',').map(|item| item.trim().to_owned()).collect();
                items.retain(|item| !given.contains(item));
                if config.config_operation == APPEND {
                    items.extend(given);
                }
                joined = items.join(",");
                Some(joined.as_str())
            }
            (SET | APPEND | SUBTRACT, None) => {
                let why = format!("Null value not supported for : {}", config.name);
                return Err(ApiError::new(ErrorCode::INVALID_REQUEST, why));
            }
            (other, _) => {
                let why = format!("Unknown operation type {other} is not supported.");
                return Err(ApiError::new(ErrorCode::INVALID_REQUEST, why));
            }
        };
        let change = [(config.name.as_str(), value)];
        let altered = configs.altered(change.into_iter());
        configs = altered.map_err(|why| ApiError::new(ErrorCode::INVALID_CONFIG, why))?;
    }
    if !validate_only {
        topic.configs = configs;
        state.note_topic(&resource.resource_name);
    }
    Ok(())
}

fn alter_group(state: &mut State, resource: &Resource, validate_only: bool) -> Result<(), ApiError> {
    let State { groups, memory, journal, .. } = state;
    let id = resource.resource_name.as_str();
    if id.is_empty() {
        return Err(ApiError::new(ErrorCode::INVALID_REQUEST, "Default group resources are not allowed."));
    }
    let mut configs = groups.configs(id);
    let mut changes = Vec::with_capacity(resource.configs.len());
    for config in &resource.configs {
        let value = match (config.config_operation, config.value.as_deref()) {
            (SET, Some(value)) => Some(value),
            (SET, None) => {
                let why = format!("Null value not supported for : {}", config.name);
                return Err(ApiError::new(ErrorCode::INVALID_REQUEST, why));
            }
            (DELETE, _) => None,
            (APPEND | SUBTRACT, _) => {
                let what = if config.config_operation == APPEND { "APPEND" } else { "SUBTRACT" };
                let why = format!("Can't {what} to key {} because its type is not LIST.", config.name);
                return Err(ApiError::new(ErrorCode::INVALID_CONFIG, why));
            }
            (other, _) => {
                let why = format!("Unknown operation type {other} is not supported.");
                return Err(ApiError::new(ErrorCode::INVALID_REQUEST, why));
            }
        };
        configs.set(&config.name, value).map_err(|why| ApiError::new(ErrorCode::INVALID_CONFIG, why))?;
        changes.push((config.name.as_str(), value));
    }
    if validate_only {
        return Ok(());
    }
    if !groups.configure(memory, id, configs) {
        return Err(ErrorCode::KAFKA_STORAGE_ERROR.into());
    }
    changes.into_iter().for_each(|(name, value)| journal.note(|| Entry::group_config(id, name, value)));
    Ok(())
}
