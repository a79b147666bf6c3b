//! ListPartitionReassignments v0: none, since they are over when they are answered.

use super::{Answer, Context};
use crate::api::ErrorCode;
use crate::api::list_partition_reassignments::{Request, Response};
use crate::broker::state::State;

pub(super) fn handle(_: &mut State, _: &Context, _: Request) -> Answer<Response> {
    Answer::Reply(Response { error_message: None, ..Response::default() })
}

pub(super) fn refuse(_: Request, error_code: ErrorCode) -> Response {
    Response { error_code, error_message: None, ..Response::default() }
}
