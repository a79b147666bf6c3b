//! ListPartitionReassignments v0: none, since they are over when they are answered.

use super::{Answer, Context};
use crate::api::ErrorCode;
use crate::api::list_partition_reassignments::{Request, Response};
use crate::broker::authorizer::{Operation, Resource};
use crate::broker::state::State;

pub(super) fn handle(state: &mut State, context: &Context, request: Request) -> Answer<Response> {
    if let Err(code) = state.check(context, Operation::Describe, Resource::Cluster) {
        return Answer::Reply(refuse(request, code));
    }
    Answer::Reply(Response { error_message: None, ..Response::default() })
}

pub(super) fn refuse(_: Request, error_code: ErrorCode) -> Response {
    Response { error_code, error_message: None, ..Response::default() }
}
