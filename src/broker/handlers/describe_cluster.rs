//! DescribeCluster v0 to v2: returns the running nodes and, on request, the stopped (fenced) nodes. The dev broker has
//! no listener for controllers, so a request for controllers gets MISMATCHED_ENDPOINT_TYPE.

use super::defaults::RespondWith;
use crate::api::ErrorCode;
use crate::api::describe_cluster::{BROKERS, Broker, CONTROLLERS, Request, Response};
use crate::broker::request::{Context, HandlerResult};
use crate::broker::state::State;

pub(super) fn handle(state: &mut State, context: &Context, request: Request) -> HandlerResult<Response> {
    match request.endpoint_type {
        BROKERS => {}
        CONTROLLERS => return HandlerResult::Reply(request.response_with(ErrorCode::MISMATCHED_ENDPOINT_TYPE)),
        _ => return HandlerResult::Reply(request.response_with(ErrorCode::UNSUPPORTED_ENDPOINT_TYPE)),
    }
    let brokers = state.nodes().filter(|n| request.include_fenced_brokers || state.is_live(n.id)).map(|n| Broker {
        broker_id: n.id,
        host: n.host.clone(),
        port: n.port.into(),
        rack: state.rack(n.id),
        is_fenced: !state.is_live(n.id),
    });
    HandlerResult::Reply(Response {
        cluster_id: state.cluster_id.clone(),
        controller_id: state.live().next().map_or(-1, |n| n.id),
        brokers: brokers.collect(),
        cluster_authorized_operations: state
            .cluster_operations_if(request.include_cluster_authorized_operations, context),
        ..Response::default()
    })
}
