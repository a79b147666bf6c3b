//! AddOffsetsToTxn v0 to v4: adds a group's offsets to a transaction.

use crate::api::ErrorCode;
use crate::api::add_offsets_to_txn::{Request, Response};
use crate::broker::authorizer::{Operation, Resource};
use crate::broker::ids::ProducerId;
use crate::broker::request::{Context, HandlerResult};
use crate::broker::state::State;
use crate::broker::transactions::{OFFSETS_TOPIC, offsets_partition};

pub(super) fn handle(state: &mut State, context: &Context, request: Request) -> HandlerResult<Response> {
    let id = request.transactional_id.as_str();
    let producer = ProducerId { id: request.producer_id, epoch: request.producer_epoch };
    let may_write = state.check(context, Operation::Write, Resource::TransactionalId(id));
    let allowed = may_write.and_then(|()| state.check(context, Operation::Read, Resource::Group(&request.group_id)));
    let added = if allowed.is_err() {
        allowed
    } else if id.is_empty() {
        Err(ErrorCode::INVALID_REQUEST)
    } else if !state.is_coordinator(context.node, id) {
        Err(ErrorCode::NOT_COORDINATOR)
    } else {
        let partition = [(OFFSETS_TOPIC, offsets_partition(&request.group_id))];
        state.transactions.add(&mut state.memory, context.clock, id, producer, partition.into_iter())
    };
    let error_code = match added {
        Ok(()) => ErrorCode::NONE,
        Err(ErrorCode::PRODUCER_FENCED) if context.version < 2 => ErrorCode::INVALID_PRODUCER_EPOCH,
        Err(code) => code,
    };
    HandlerResult::Reply(Response { error_code, ..Response::default() })
}
