//! DescribeConfigs v0 to v4: describes topics and groups. A node has no readable configuration, so its list is empty.
//! Synonyms and documentation are left out.

use crate::api::ErrorCode;
use crate::api::describe_configs::{BROKER, Config, GROUP, Request, Resource, ResourceResult, Response, TOPIC};
use crate::broker::authorizer::{self, Operation};
use crate::broker::request::{ApiError, Context, HandlerResult};
use crate::broker::state::State;

/// Sources of values.
const SOURCE_TOPIC: i8 = 1;
const SOURCE_DEFAULT: i8 = 5;
const SOURCE_GROUP: i8 = 8;
/// Types of values.
const STRING: i8 = 2;

pub(super) fn handle(state: &mut State, context: &Context, request: Request) -> HandlerResult<Response> {
    let results = request.resources.into_iter().map(|resource| {
        let found = describe(state, context, &resource);
        let (configs, refusal) = match found {
            Ok(configs) => (configs, ErrorCode::NONE.into()),
            Err(refusal) => (Vec::new(), refusal),
        };
        let is_wanted = |c: &Config| resource.configuration_keys.as_ref().is_none_or(|keys| keys.contains(&c.name));
        ResourceResult {
            error_code: refusal.code,
            error_message: refusal.message,
            resource_type: resource.resource_type,
            configs: configs.into_iter().filter(is_wanted).collect(),
            resource_name: resource.resource_name,
        }
    });
    let results = results.collect();
    HandlerResult::Reply(Response { results, ..Response::default() })
}

fn describe(state: &State, context: &Context, resource: &Resource) -> Result<Vec<Config>, ApiError> {
    let name = resource.resource_name.as_str();
    let what = authorizer::Resource::of_configs(resource.resource_type, name);
    state.check(context, Operation::DescribeConfigs, what)?;
    let config = |name: &str, value: String, is_default: bool, own: i8| Config {
        name: name.to_owned(),
        value: Some(value),
        is_default,
        config_source: if is_default { SOURCE_DEFAULT } else { own },
        config_type: STRING,
        documentation: None,
        ..Config::default()
    };
    match resource.resource_type {
        TOPIC => match state.topics.get(name) {
            Some(topic) => {
                let listed = topic.configs.list();
                Ok(listed.map(|c| config(c.name, c.value.to_owned(), c.is_default, SOURCE_TOPIC)).collect())
            }
            None => Err(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.into()),
        },
        GROUP if !name.is_empty() => {
            let listed = state.groups.configs(name).list();
            Ok(listed.into_iter().map(|c| config(c.0, c.1, c.2, SOURCE_GROUP)).collect())
        }
        BROKER => Ok(Vec::new()),
        other => {
            let why = format!("Resources of type {other} cannot be described here.");
            Err(ApiError::new(ErrorCode::INVALID_REQUEST, why))
        }
    }
}
