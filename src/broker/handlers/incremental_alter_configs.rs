//! IncrementalAlterConfigs v0 and v1: configurations of groups. Those of topics and nodes are left out, INVALID_REQUEST.

use super::{Answer, Context, Refusal};
use crate::api::ErrorCode;
use crate::api::describe_configs::GROUP;
use crate::api::incremental_alter_configs::{DELETE, Request, Resource, ResourceResponse, Response, SET};
use crate::broker::state::State;

pub(super) fn handle(state: &mut State, _: &Context, request: Request) -> Answer<Response> {
    let validate_only = request.validate_only;
    let responses = request.resources.into_iter().map(|resource| {
        let refusal = match alter(state, &resource, validate_only) {
            Ok(()) => Refusal::from(ErrorCode::NONE),
            Err(refusal) => refusal,
        };
        ResourceResponse {
            error_code: refusal.code,
            error_message: refusal.message,
            resource_type: resource.resource_type,
            resource_name: resource.resource_name,
        }
    });
    let responses = responses.collect();
    Answer::Reply(Response { responses, ..Response::default() })
}

pub(super) fn refuse(request: Request, error_code: ErrorCode) -> Response {
    let refuse = |Resource { resource_type, resource_name, .. }| ResourceResponse {
        error_code,
        error_message: None,
        resource_type,
        resource_name,
    };
    Response { responses: request.resources.into_iter().map(refuse).collect(), ..Response::default() }
}

fn alter(state: &mut State, resource: &Resource, validate_only: bool) -> Result<(), Refusal> {
    let State { groups, memory, .. } = state;
    let id = resource.resource_name.as_str();
    if resource.resource_type != GROUP {
        let why = format!("Resources of type {} cannot be altered here.", resource.resource_type);
        return Err(Refusal::new(ErrorCode::INVALID_REQUEST, why));
    }
    if id.is_empty() {
        return Err(Refusal::new(ErrorCode::INVALID_REQUEST, "Default group resources are not allowed."));
    }
    let mut configs = groups.configs(id);
    for config in &resource.configs {
        let value = match (config.config_operation, config.value.as_deref()) {
            (SET, Some(value)) => Some(value),
            (SET, None) => {
                let why = format!("Null value not supported for group configs: {}", config.name);
                return Err(Refusal::new(ErrorCode::INVALID_CONFIG, why));
            }
            (DELETE, _) => None,
            _ => return Err(Refusal::new(ErrorCode::INVALID_CONFIG, format!("{} is not a list.", config.name))),
        };
        configs.set(&config.name, value).map_err(|why| Refusal::new(ErrorCode::INVALID_CONFIG, why))?;
    }
    match validate_only || groups.configure(memory, id, configs) {
        true => Ok(()),
        false => Err(ErrorCode::KAFKA_STORAGE_ERROR.into()),
    }
}
