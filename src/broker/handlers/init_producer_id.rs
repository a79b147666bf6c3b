//! InitProducerId v0 to v5: returns a new producer ID to an idempotent producer. A transactional producer gets its
//! previous producer ID with the next epoch. If a transaction is open, the coordinator aborts it and responds
//! CONCURRENT_TRANSACTIONS, so that the client retries.
//!
//! As in Kafka, the handler ignores the previous ID of an idempotent producer. The broker does not serve v6, which is
//! unstable in Kafka 4.4.

use super::defaults::RespondWith;
use crate::api::ErrorCode;
use crate::api::init_producer_id::{Request, Response};
use crate::broker::authorizer::{Operation, Resource};
use crate::broker::ids::ProducerId;
use crate::broker::request::{Context, HandlerResult};
use crate::broker::state::State;
use crate::broker::transactions::InitResult;

pub(super) fn handle(state: &mut State, context: &Context, request: Request) -> HandlerResult<Response> {
    let claimed_producer = match (request.producer_id, request.producer_epoch) {
        (-1, -1) => Ok(None),
        (-1, _) | (_, -1) => Err(ErrorCode::INVALID_REQUEST),
        (id, epoch) => Ok(Some(ProducerId { id, epoch })),
    };
    let assigned = claimed_producer.and_then(|claimed_producer| match &request.transactional_id {
        None => {
            state.check_idempotent_write(context)?;
            Ok(ProducerId { id: state.producer_ids.next(), epoch: 0 })
        }
        Some(id) => init_transactional(state, context, id, &request, claimed_producer),
    });
    HandlerResult::Reply(match assigned {
        Ok(ProducerId { id, epoch }) => Response { producer_id: id, producer_epoch: epoch, ..Response::default() },
        Err(error_code) => request.response_with(error_code),
    })
}

fn init_transactional(
    state: &mut State,
    context: &Context,
    id: &str,
    request: &Request,
    claimed_producer: Option<ProducerId>,
) -> Result<ProducerId, ErrorCode> {
    state.check_coordinator(context, Operation::Write, Resource::TransactionalId(id))?;
    let State { transactions, memory, producer_ids, .. } = state;
    match transactions.init(memory, producer_ids, id, request.transaction_timeout_ms, claimed_producer) {
        Ok(InitResult::Assigned(producer)) => Ok(producer),
        Ok(InitResult::Fenced(ended)) => {
            state.write_markers(context.clock, &ended);
            Err(ErrorCode::CONCURRENT_TRANSACTIONS)
        }
        Err(ErrorCode::PRODUCER_FENCED) if context.version < 4 => Err(ErrorCode::INVALID_PRODUCER_EPOCH),
        Err(code) => Err(code),
    }
}
