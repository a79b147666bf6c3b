//! DescribeConfigs v0 to v4: describes topics and groups. A node has no readable configuration, so its list is empty.
//! Documentation is left out.

use crate::api::ErrorCode;
use crate::api::describe_configs::{
    BROKER, Config, GROUP, Request, Resource, ResourceResult, Response, STRING, Synonym, TOPIC,
};
use crate::broker::authorizer::{self, Operation};
use crate::broker::configs::Listed;
use crate::broker::request::{ApiError, Context, HandlerResult};
use crate::broker::state::State;
use crate::broker::topics::valid_name;

/// Sources of values.
const SOURCE_TOPIC: i8 = 1;
const SOURCE_DEFAULT: i8 = 5;
const SOURCE_GROUP: i8 = 8;

pub(super) fn handle(state: &mut State, context: &Context, request: Request) -> HandlerResult<Response> {
    let results = request.resources.into_iter().map(|resource| {
        let found = describe(state, context, &resource);
        let (configs, refusal) = match found {
            Ok(configs) => (configs, ErrorCode::NONE.into()),
            Err(refusal) => (Vec::new(), refusal),
        };
        // Kafka 4.4 describes all configurations if the list of names is empty.
        let wanted = resource.configuration_keys.as_ref().filter(|keys| !keys.is_empty());
        let is_wanted = |c: &Config| wanted.is_none_or(|keys| keys.contains(&c.name));
        let with_synonyms = |c: Config| match request.include_synonyms {
            true => c,
            false => Config { synonyms: Vec::new(), ..c },
        };
        ResourceResult {
            error_code: refusal.code,
            error_message: refusal.message,
            resource_type: resource.resource_type,
            configs: configs.into_iter().filter(is_wanted).map(with_synonyms).collect(),
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
            Some(topic) => Ok(topic.configs.list().map(describe_topic_config).collect()),
            None => match valid_name(name) {
                Ok(()) => Err(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.into()),
                Err(why) => {
                    Err(ApiError::new(ErrorCode::INVALID_TOPIC_EXCEPTION, format!("Topic name is invalid: {why}")))
                }
            },
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

fn describe_topic_config(config: Listed<'_>) -> Config {
    let synonym =
        |name: &str, value: &str, source| Synonym { name: name.to_owned(), value: Some(value.to_owned()), source };
    let own = (!config.is_default).then(|| synonym(config.name, config.value, SOURCE_TOPIC));
    let of_nodes =
        (!config.node_config.is_empty()).then(|| synonym(config.node_config, config.default, SOURCE_DEFAULT));
    Config {
        name: config.name.to_owned(),
        value: Some(config.value.to_owned()),
        is_default: config.is_default,
        config_source: if config.is_default { SOURCE_DEFAULT } else { SOURCE_TOPIC },
        config_type: config.value_type.code(),
        synonyms: own.into_iter().chain(of_nodes).collect(),
        documentation: None,
        ..Config::default()
    }
}
