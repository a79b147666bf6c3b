//! IncrementalAlterConfigs v0 and v1: changes configurations of topics, groups and nodes, and the level of a node's
//! root logger.

use super::describe_configs::ROOT_LOGGER;
use crate::api::ErrorCode;
use crate::api::describe_configs::{BROKER, BROKER_LOGGER, GROUP, TOPIC};
use crate::api::incremental_alter_configs::{
    APPEND, DELETE, Request, Resource, ResourceResponse, Response, SET, SUBTRACT,
};
use crate::broker::authorizer::{self, Operation};
use crate::broker::journal::Entry;
use crate::broker::request::{ApiError, Context, HandlerResult};
use crate::broker::state::State;
use std::collections::BTreeMap;

/// Levels of a logger.
const LEVELS: &[&str] = &["DEBUG", "ERROR", "FATAL", "INFO", "TRACE", "WARN"];

pub(super) fn handle(state: &mut State, context: &Context, request: Request) -> HandlerResult<Response> {
    let validate_only = request.validate_only;
    let mut occurrences = BTreeMap::<_, usize>::new();
    for resource in &request.resources {
        *occurrences.entry((resource.resource_type, resource.resource_name.clone())).or_default() += 1;
    }
    let responses = request.resources.into_iter().map(|resource| {
        let is_duplicate =
            occurrences.get(&(resource.resource_type, resource.resource_name.clone())).is_some_and(|n| *n > 1);
        let altered = match is_duplicate {
            true => Err(ApiError::new(ErrorCode::INVALID_REQUEST, "Each resource must appear at most once.")),
            false => alter(state, context, &resource, validate_only),
        };
        let error = altered.err().unwrap_or(ErrorCode::NONE.into());
        ResourceResponse {
            error_code: error.code,
            error_message: error.message,
            resource_type: resource.resource_type,
            resource_name: resource.resource_name,
        }
    });
    let responses = responses.collect();
    HandlerResult::Reply(Response { responses, ..Response::default() })
}

fn alter(state: &mut State, context: &Context, resource: &Resource, validate_only: bool) -> Result<(), ApiError> {
    let authorized_resource = authorizer::Resource::of_configs(resource.resource_type, &resource.resource_name);
    state.check(context, Operation::AlterConfigs, authorized_resource)?;
    match resource.resource_type {
        TOPIC => alter_topic(state, resource, validate_only),
        GROUP => alter_group(state, resource, validate_only),
        BROKER => alter_broker(state, context, resource, validate_only),
        BROKER_LOGGER => alter_logger(state, context, resource, validate_only),
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
            (APPEND | SUBTRACT, Some(list)) => {
                name = &config.name;
                let Some(mut items) = configs.items(name) else {
                    let operation_name = if config.config_operation == APPEND { "append" } else { "subtract" };
                    let why = format!("Can't {operation_name} to key {name} because its type is not LIST.");
                    return Err(ApiError::new(ErrorCode::INVALID_CONFIG, why));
                };
                let changed_items: Vec<String> = list.split(',').map(|item| item.trim().to_owned()).collect();
                items.retain(|item| !changed_items.contains(item));
                if config.config_operation == APPEND {
                    items.extend(changed_items);
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
        let altered = configs.with_changes(change.into_iter());
        configs = altered.map_err(|why| ApiError::new(ErrorCode::INVALID_CONFIG, why))?;
    }
    if !validate_only {
        topic.configs = configs;
        state.journal_topic(&resource.resource_name);
    }
    Ok(())
}

fn alter_group(state: &mut State, resource: &Resource, validate_only: bool) -> Result<(), ApiError> {
    let State { groups, memory, journal, topic_defaults, .. } = state;
    let id = resource.resource_name.as_str();
    if id.is_empty() {
        return Err(ApiError::new(ErrorCode::INVALID_REQUEST, "Default group resources are not allowed."));
    }
    let mut settings = groups.settings(id);
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
                let operation_name = if config.config_operation == APPEND { "APPEND" } else { "SUBTRACT" };
                let why = format!("Can't {operation_name} to key {} because its type is not LIST.", config.name);
                return Err(ApiError::new(ErrorCode::INVALID_CONFIG, why));
            }
            (other, _) => {
                let why = format!("Unknown operation type {other} is not supported.");
                return Err(ApiError::new(ErrorCode::INVALID_REQUEST, why));
            }
        };
        settings
            .set(topic_defaults.release, &config.name, value)
            .map_err(|why| ApiError::new(ErrorCode::INVALID_CONFIG, why))?;
        changes.push((config.name.as_str(), value));
    }
    if validate_only {
        return Ok(());
    }
    if !groups.configure(memory, id, settings) {
        return Err(ErrorCode::KAFKA_STORAGE_ERROR.into());
    }
    changes.into_iter().for_each(|(name, value)| journal.append(|| Entry::group_config(id, name, value)));
    Ok(())
}

fn alter_broker(
    state: &mut State,
    context: &Context,
    resource: &Resource,
    validate_only: bool,
) -> Result<(), ApiError> {
    let scope = state.config_scope(context, &resource.resource_name)?;
    let mut values = state.node_configs.in_scope(scope);
    for config in &resource.configs {
        let name = config.name.as_str();
        match (config.config_operation, config.value.as_deref()) {
            (DELETE, _) => drop(values.remove(name)),
            (SET, Some(value)) => drop(values.insert(name.to_owned(), value.to_owned())),
            (operation @ (APPEND | SUBTRACT), Some(list)) => {
                let operation_name = if operation == APPEND { "append" } else { "subtract" };
                let Some(mut items) = state.node_configs.items(scope, name) else {
                    let why = format!("Config value {operation_name} is not allowed for config key: {name}");
                    return Err(ApiError::new(ErrorCode::INVALID_CONFIG, why));
                };
                let changed_items: Vec<String> = list.split(',').map(|item| item.trim().to_owned()).collect();
                items.retain(|item| !changed_items.contains(item));
                if operation == APPEND {
                    items.extend(changed_items);
                }
                values.insert(name.to_owned(), items.join(","));
            }
            (SET | APPEND | SUBTRACT, None) => {
                return Err(ApiError::new(
                    ErrorCode::INVALID_REQUEST,
                    format!("Null value not supported for : {name}"),
                ));
            }
            (other, _) => {
                let why = format!("Unknown operation type {other} is not supported.");
                return Err(ApiError::new(ErrorCode::INVALID_REQUEST, why));
            }
        }
    }
    state.node_configs.check(scope, &values)?;
    if !validate_only {
        state.set_node_configs(scope, values);
    }
    Ok(())
}

fn alter_logger(
    state: &mut State,
    context: &Context,
    resource: &Resource,
    validate_only: bool,
) -> Result<(), ApiError> {
    if resource.resource_name != context.node.to_string() {
        let (expected, received) = (context.node, &resource.resource_name);
        let why = format!("Unexpected node id. Expected {expected}, but received {received}");
        return Err(ApiError::new(ErrorCode::INVALID_REQUEST, why));
    }
    for config in &resource.configs {
        let level = match (config.config_operation, config.value.as_deref()) {
            _ if config.name != ROOT_LOGGER => {
                let why = format!("Logger {} does not exist!", config.name);
                return Err(ApiError::new(ErrorCode::INVALID_CONFIG, why));
            }
            (SET, Some(level)) if LEVELS.contains(&level) => level,
            (SET, level) => {
                let level = level.unwrap_or_default();
                let why = format!(
                    "Cannot set the log level of {ROOT_LOGGER} to {level} as it is not a supported log level. Valid log levels are {}",
                    LEVELS.join(", ")
                );
                return Err(ApiError::new(ErrorCode::INVALID_CONFIG, why));
            }
            (DELETE, _) => {
                let why = format!("Removing the log level of the {ROOT_LOGGER} logger is not allowed");
                return Err(ApiError::new(ErrorCode::INVALID_REQUEST, why));
            }
            (operation, _) => {
                let operation_name = if operation == APPEND { "APPEND" } else { "SUBTRACT" };
                let why = format!("{operation_name} operation is not allowed for the BROKER_LOGGER resource");
                return Err(ApiError::new(ErrorCode::INVALID_REQUEST, why));
            }
        };
        if !validate_only {
            level.clone_into(&mut state.log_level);
        }
    }
    Ok(())
}
