//! DescribeConfigs v0 to v4: describes topics, groups, nodes, and the root logger of a node. The responses have no
//! documentation of the keys.

use crate::api::ErrorCode;
use crate::api::describe_configs::{
    BROKER, BROKER_LOGGER, Config, GROUP, Request, Resource, ResourceResult, Response, SOURCE_DEFAULT, SOURCE_GROUP,
    SOURCE_TOPIC, STRING, Synonym, TOPIC,
};
use crate::broker::authorizer::{self, Operation};
use crate::broker::configs::Listed;
use crate::broker::group;
use crate::broker::node_configs::{Described, SourcedValue};
use crate::broker::request::{ApiError, Context, HandlerResult};
use crate::broker::state::State;
use crate::broker::topics::valid_name;

/// Source of the level of a logger.
const SOURCE_LOGGER: i8 = 6;
pub(super) const ROOT_LOGGER: &str = "root";

pub(super) fn handle(state: &mut State, context: &Context, request: Request) -> HandlerResult<Response> {
    let results = request.resources.into_iter().map(|resource| {
        let described = describe(state, context, &resource);
        let (configs, error) = match described {
            Ok(configs) => (configs, ErrorCode::NONE.into()),
            Err(error) => (Vec::new(), error),
        };
        // Kafka 4.4 describes all configurations if the list of names is empty.
        let requested_keys = resource.configuration_keys.as_ref().filter(|keys| !keys.is_empty());
        let is_requested = |c: &Config| requested_keys.is_none_or(|keys| keys.contains(&c.name));
        let with_synonyms = |c: Config| match request.include_synonyms {
            true => c,
            false => Config { synonyms: Vec::new(), ..c },
        };
        ResourceResult {
            error_code: error.code,
            error_message: error.message,
            resource_type: resource.resource_type,
            configs: configs.into_iter().filter(is_requested).map(with_synonyms).collect(),
            resource_name: resource.resource_name,
        }
    });
    let results = results.collect();
    HandlerResult::Reply(Response { results, ..Response::default() })
}

fn describe(state: &State, context: &Context, resource: &Resource) -> Result<Vec<Config>, ApiError> {
    let name = resource.resource_name.as_str();
    let authorized_resource = authorizer::Resource::of_configs(resource.resource_type, name);
    state.check(context, Operation::DescribeConfigs, authorized_resource)?;
    let invalid = |why: String| Err(ApiError::new(ErrorCode::INVALID_REQUEST, why));
    let expected = context.node;
    match (resource.resource_type, name.parse()) {
        (TOPIC, _) => match state.topics.get(name) {
            Some(topic) => Ok(topic.configs.list().map(|config| of_topic(state, context, &config)).collect()),
            None => match valid_name(name) {
                Ok(()) => Err(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.into()),
                Err(why) => {
                    Err(ApiError::new(ErrorCode::INVALID_TOPIC_EXCEPTION, format!("Topic name is invalid: {why}")))
                }
            },
        },
        (GROUP, _) if name.is_empty() => invalid("Group name must not be empty".to_owned()),
        (GROUP, _) => {
            let settings = state.groups.settings(name);
            let listed = settings.list(state.topic_defaults.release);
            Ok(listed.map(|config| of_group(state, context, &config)).collect())
        }
        (BROKER, _) if name.is_empty() => Ok(state.node_configs.describe_all().into_iter().map(of_node).collect()),
        (BROKER, Ok(id)) if id == expected => {
            let described = state.node_configs.describe(id, &state.node_file(id));
            Ok(described.into_iter().map(of_node).collect())
        }
        (BROKER, Ok(id)) => {
            invalid(format!("Unexpected broker id, expected {expected} or empty string, but received {id}"))
        }
        (BROKER, Err(_)) => invalid(format!("Broker id must be an integer, but it is: {name}")),
        (BROKER_LOGGER, _) if name.is_empty() => invalid("Broker id must not be empty".to_owned()),
        (BROKER_LOGGER, Ok(id)) if id == expected => Ok(vec![Config {
            name: ROOT_LOGGER.to_owned(),
            value: Some(state.log_level.clone()),
            config_source: SOURCE_LOGGER,
            config_type: STRING,
            documentation: None,
            ..Config::default()
        }]),
        (BROKER_LOGGER, Ok(id)) => invalid(format!("Unexpected broker id, expected {expected} but received {id}")),
        (BROKER_LOGGER, Err(_)) => invalid(format!("Broker id must be an integer, but it is: {name}")),
        (other, _) => invalid(format!("Resources of type {other} cannot be described here.")),
    }
}

/// Returns the source of a topic's value: the topic itself, or the source of the default.
pub(super) fn source(state: &State, context: &Context, config: &Listed<'_>) -> i8 {
    match config.is_default {
        true => state.node_configs.synonyms(context.node, config.node_config).first().map_or(SOURCE_DEFAULT, |s| s.2),
        false => SOURCE_TOPIC,
    }
}

fn of_topic(state: &State, context: &Context, config: &Listed<'_>) -> Config {
    let own = (!config.is_default).then(|| (config.name.to_owned(), config.value.to_owned(), SOURCE_TOPIC));
    let of_nodes = state.node_configs.synonyms(context.node, config.node_config);
    Config {
        name: config.name.to_owned(),
        value: Some(config.value.to_owned()),
        is_default: config.is_default,
        config_source: source(state, context, config),
        config_type: config.value_type.code(),
        synonyms: own.into_iter().chain(of_nodes).map(synonym).collect(),
        documentation: None,
        ..Config::default()
    }
}

fn of_group(state: &State, context: &Context, config: &group::Listed<'_>) -> Config {
    let own = config.set.map(|value| (config.name.to_owned(), value.to_owned(), SOURCE_GROUP));
    let mut synonyms = state.node_configs.synonyms(context.node, config.node_config);
    if config.node_config.is_empty() {
        synonyms.push((config.name.to_owned(), config.default.to_owned(), SOURCE_DEFAULT));
    }
    let synonyms: Vec<_> = own.into_iter().chain(synonyms).collect();
    let (value, source) = synonyms.first().map_or((config.default, SOURCE_DEFAULT), |s| (s.1.as_str(), s.2));
    Config {
        name: config.name.to_owned(),
        value: Some(value.to_owned()),
        is_default: source == SOURCE_DEFAULT,
        config_source: source,
        config_type: config.config_type,
        synonyms: synonyms.into_iter().map(synonym).collect(),
        documentation: None,
        ..Config::default()
    }
}

fn of_node(config: Described) -> Config {
    Config {
        name: config.name,
        value: config.value,
        read_only: config.read_only,
        is_default: config.source == SOURCE_DEFAULT,
        config_source: config.source,
        is_sensitive: config.is_sensitive,
        config_type: config.value_type,
        synonyms: config.synonyms.into_iter().map(synonym).collect(),
        documentation: None,
    }
}

fn synonym((name, value, source): SourcedValue) -> Synonym {
    Synonym { name, value: Some(value), source }
}
