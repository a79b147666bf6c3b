//! EndTxn v0 to v5: commits or aborts a transaction. The broker writes the transaction markers into the logs before it
//! sends the reply.
//!
//! Version 5 implements transaction protocol v2 (KIP-890): the end of each transaction raises the epoch, and the
//! response has the producer's new ID and epoch.

use super::defaults::RespondWith;
use crate::api::ErrorCode;
use crate::api::end_txn::{Request, Response};
use crate::broker::authorizer::{Operation, Resource};
use crate::broker::ids::ProducerId;
use crate::broker::request::{Context, HandlerResult};
use crate::broker::state::State;
use crate::broker::transactions::EndRequest;

pub(super) fn handle(state: &mut State, context: &Context, request: Request) -> HandlerResult<Response> {
    let id = request.transactional_id.as_str();
    let end = EndRequest {
        id,
        producer: ProducerId { id: request.producer_id, epoch: request.producer_epoch },
        committed: request.committed,
        raises_epoch: context.version >= 5,
    };
    let allowed = state.check_coordinator(context, Operation::Write, Resource::TransactionalId(id));
    let ended = allowed.and_then(|()| {
        let State { transactions, memory, producer_ids, .. } = state;
        transactions.end(memory, producer_ids, context.clock, end)
    });
    HandlerResult::Reply(match ended {
        Ok((ended, producer)) => {
            if let Some(ended) = ended {
                state.write_markers(context.clock, &ended);
            }
            Response { producer_id: producer.id, producer_epoch: producer.epoch, ..Response::default() }
        }
        Err(ErrorCode::PRODUCER_FENCED) if context.version < 2 => {
            request.response_with(ErrorCode::INVALID_PRODUCER_EPOCH)
        }
        Err(code) => request.response_with(code),
    })
}
