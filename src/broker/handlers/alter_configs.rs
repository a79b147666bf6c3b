//! AlterConfigs v0 to v2: replaces the whole configuration of topics, groups and nodes. The handler resets keys that
//! the request does not contain to their defaults.

use crate::api::ErrorCode;
use crate::api::alter_configs::{Request, Resource, ResourceResponse, Response};
use crate::api::describe_configs::{BROKER, GROUP, TOPIC};
use crate::broker::authorizer::{self, Operation};
use crate::broker::configs::Configs;
use crate::broker::group::Settings;
use crate::broker::journal::Entry;
use crate::broker::request::{ApiError, Context, HandlerResult};
use crate::broker::state::State;
use std::collections::BTreeMap;

pub(super) fn handle(state: &mut State, context: &Context, request: Request) -> HandlerResult<Response> {
    let mut occurrences = BTreeMap::<_, usize>::new();
    for resource in &request.resources {
        *occurrences.entry((resource.resource_type, resource.resource_name.clone())).or_default() += 1;
    }
    let responses = request.resources.into_iter().map(|resource| {
        let is_duplicate =
            occurrences.get(&(resource.resource_type, resource.resource_name.clone())).is_some_and(|n| *n > 1);
        let authorized_resource = authorizer::Resource::of_configs(resource.resource_type, &resource.resource_name);
        let allowed = state.check(context, Operation::AlterConfigs, authorized_resource);
        let altered = match (is_duplicate, resource.resource_type) {
            (true, _) => Err(ApiError::new(ErrorCode::INVALID_REQUEST, "Each resource must appear at most once.")),
            _ if let Err(code) = allowed => Err(code.into()),
            (false, TOPIC) => alter_topic(state, &resource, request.validate_only),
            (false, GROUP) => alter_group(state, &resource, request.validate_only),
            (false, BROKER) => alter_broker(state, context, &resource, request.validate_only),
            (false, other) => {
                let why = format!("Resources of type {other} cannot be altered here.");
                Err(ApiError::new(ErrorCode::INVALID_REQUEST, why))
            }
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

fn alter_topic(state: &mut State, resource: &Resource, validate_only: bool) -> Result<(), ApiError> {
    let name = &resource.resource_name;
    let Some(topic) = state.topics.get_mut(name) else {
        let why = format!("The topic '{name}' does not exist.");
        return Err(ApiError::new(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, why));
    };
    let configs = resource.configs.iter().map(|c| (c.name.as_str(), c.value.as_deref()));
    let configs =
        Configs::parse(&state.topic_defaults, configs).map_err(|why| ApiError::new(ErrorCode::INVALID_CONFIG, why))?;
    if !validate_only {
        topic.configs = configs;
        state.journal_topic(name);
    }
    Ok(())
}

fn alter_group(state: &mut State, resource: &Resource, validate_only: bool) -> Result<(), ApiError> {
    let State { groups, memory, journal, topic_defaults, .. } = state;
    let before = groups.settings(&resource.resource_name);
    let id = resource.resource_name.as_str();
    if id.is_empty() {
        return Err(ApiError::new(ErrorCode::INVALID_REQUEST, "Default group resources are not allowed."));
    }
    let mut settings = Settings::default();
    for config in &resource.configs {
        let value = config.value.as_deref();
        settings
            .set(topic_defaults.release, &config.name, value)
            .map_err(|why| ApiError::new(ErrorCode::INVALID_CONFIG, why))?;
    }
    if validate_only {
        return Ok(());
    }
    if !groups.configure(memory, id, settings.clone()) {
        return Err(ErrorCode::KAFKA_STORAGE_ERROR.into());
    }
    before.iter().for_each(|(name, _)| journal.append(|| Entry::group_config(id, name, None)));
    settings.iter().for_each(|(name, value)| journal.append(|| Entry::group_config(id, name, Some(value))));
    Ok(())
}

fn alter_broker(
    state: &mut State,
    context: &Context,
    resource: &Resource,
    validate_only: bool,
) -> Result<(), ApiError> {
    let scope = state.config_scope(context, &resource.resource_name)?;
    let mut values = BTreeMap::new();
    for config in &resource.configs {
        let Some(value) = &config.value else {
            let why = format!("Null value not supported for : {}", config.name);
            return Err(ApiError::new(ErrorCode::INVALID_REQUEST, why));
        };
        values.insert(config.name.clone(), value.clone());
    }
    state.node_configs.check(scope, &values)?;
    if !validate_only {
        state.set_node_configs(scope, values);
    }
    Ok(())
}
