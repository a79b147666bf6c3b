//! DescribeClientQuotas v0 and v1: returns the quotas that match a filter, including quotas that the broker does not
//! enforce.

use super::defaults::RespondWith;
use crate::api::ErrorCode;
use crate::api::describe_client_quotas::{ANY, Component, DEFAULT, EXACT, Entity, Entry, Quota, Request, Response};
use crate::broker::authorizer::{Operation, Resource};
use crate::broker::quotas::{self, CLIENT_ID, IP, USER};
use crate::broker::request::{ApiError, Context, HandlerResult};
use crate::broker::state::State;
use std::collections::BTreeMap;

/// The names to match, by entity type. The outer `None` matches any name, and the inner `None` is the default entity.
type Filter = BTreeMap<String, Option<Option<String>>>;

pub(super) fn handle(state: &mut State, context: &Context, request: Request) -> HandlerResult<Response> {
    if let Err(code) = state.check(context, Operation::DescribeConfigs, Resource::Cluster) {
        return HandlerResult::Reply(request.response_with(code));
    }
    let strict = request.strict;
    let filter = match parse(request.components) {
        Ok(filter) => filter,
        Err(ApiError { code, message }) => {
            let (error_code, error_message) = (code, message);
            return HandlerResult::Reply(Response { error_code, error_message, entries: None, ..Response::default() });
        }
    };
    let matches = |entity: &quotas::Entity| {
        let has_component = |(kind, expected_name): (&String, &Option<Option<String>>)| {
            entity
                .get(kind)
                .is_some_and(|name| expected_name.as_ref().is_none_or(|expected_name| expected_name == name))
        };
        (!strict || entity.len() == filter.len()) && filter.iter().all(has_component)
    };
    let entries = state.quotas.all().filter(|(entity, _)| matches(entity)).map(|(entity, values)| Entry {
        entity: entity
            .iter()
            .map(|(kind, name)| Entity { entity_type: kind.clone(), entity_name: name.clone() })
            .collect(),
        values: values.iter().map(|(key, value)| Quota { key: key.clone(), value: *value }).collect(),
    });
    HandlerResult::Reply(Response { entries: Some(entries.collect()), ..Response::default() })
}

fn parse(components: Vec<Component>) -> Result<Filter, ApiError> {
    let invalid = |why: String| Err(ApiError::new(ErrorCode::INVALID_REQUEST, why));
    let mut filter = Filter::new();
    for Component { entity_type, match_type, r#match } in components {
        if entity_type.is_empty() {
            return invalid("Invalid empty entity type.".to_owned());
        }
        if ![USER, CLIENT_ID, IP].contains(&entity_type.as_str()) {
            let why = format!("Unsupported entity type {entity_type}");
            return Err(ApiError::new(ErrorCode::UNSUPPORTED_VERSION, why));
        }
        if filter.contains_key(&entity_type) {
            return invalid(format!("Entity type {entity_type} cannot appear more than once in the filter."));
        }
        let unexpected_match =
            |what: &str| invalid(format!("Request specified {what}, but also specified a match string."));
        let expected_name = match (match_type, r#match) {
            (EXACT, Some(name)) => Some(Some(name)),
            (EXACT, None) => {
                return invalid("Request specified MATCH_TYPE_EXACT, but set match string to null.".to_owned());
            }
            (DEFAULT, None) => Some(None),
            (DEFAULT, Some(_)) => return unexpected_match("MATCH_TYPE_DEFAULT"),
            (ANY, None) => None,
            (ANY, Some(_)) => return unexpected_match("MATCH_TYPE_SPECIFIED"),
            (other, _) => return invalid(format!("Unknown match type {other}")),
        };
        filter.insert(entity_type, expected_name);
    }
    if filter.contains_key(IP) && filter.len() > 1 {
        return invalid(
            "Invalid entity filter component combination. IP filter component should not be used with user or \
             clientId filter component."
                .to_owned(),
        );
    }
    Ok(filter)
}
