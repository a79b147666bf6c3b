//! ListConfigResources v0 and v1: lists topics, nodes, the loggers of nodes, and the groups that have a configuration.
//! In v0, the list is empty, because v0 lists only metrics subscriptions, which the dev broker does not have.

use crate::api::ErrorCode;
use crate::api::describe_configs::{BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC};
use crate::api::list_config_resources::{ConfigResource, Request, Response};
use crate::broker::authorizer::{Operation, Resource};
use crate::broker::request::{Context, HandlerResult};
use crate::broker::state::State;

const ALL: [i8; 5] = [GROUP, CLIENT_METRICS, BROKER_LOGGER, BROKER, TOPIC];

pub(super) fn handle(state: &mut State, context: &Context, request: Request) -> HandlerResult<Response> {
    let error_response = |error_code| HandlerResult::Reply(Response { error_code, ..Response::default() });
    if let Err(code) = state.check(context, Operation::DescribeConfigs, Resource::Cluster) {
        return error_response(code);
    }
    if !request.resource_types.iter().all(|kind| ALL.contains(kind)) {
        return error_response(ErrorCode::UNSUPPORTED_VERSION);
    }
    let requested_types = request.resource_types.as_slice();
    let is_requested = |kind: i8| match context.version {
        0 => kind == CLIENT_METRICS,
        _ => requested_types.is_empty() || requested_types.contains(&kind),
    };
    let config_resources = ALL.into_iter().filter(|kind| is_requested(*kind)).flat_map(|resource_type| {
        let names: Vec<String> = match resource_type {
            TOPIC => state.topics.names().map(str::to_owned).collect(),
            BROKER | BROKER_LOGGER => state.live().map(|node| node.id.to_string()).collect(),
            GROUP => state.groups.configured().map(str::to_owned).collect(),
            _ => Vec::new(),
        };
        names.into_iter().map(move |resource_name| ConfigResource { resource_name, resource_type })
    });
    HandlerResult::Reply(Response { config_resources: config_resources.collect(), ..Response::default() })
}
