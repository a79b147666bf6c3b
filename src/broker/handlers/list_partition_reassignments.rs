//! ListPartitionReassignments v0: returns nothing, since reassignments complete immediately.

use super::defaults::RespondWith;
use crate::api::list_partition_reassignments::{Request, Response};
use crate::broker::authorizer::{Operation, Resource};
use crate::broker::request::{Context, HandlerResult};
use crate::broker::state::State;

pub(super) fn handle(state: &mut State, context: &Context, request: Request) -> HandlerResult<Response> {
    if let Err(code) = state.check(context, Operation::Describe, Resource::Cluster) {
        return HandlerResult::Reply(request.response_with(code));
    }
    HandlerResult::Reply(Response { error_message: None, ..Response::default() })
}
