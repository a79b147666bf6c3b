//! InitProducerId v0 to v5: a fresh id for an idempotent producer, the same id with the next epoch for a transactional
//! one, whose open transaction is aborted first (CONCURRENT_TRANSACTIONS: ask again).
//!
//! What an idempotent producer had before is not looked at, as in Kafka. v6 is unstable in Kafka 4.4 and not served.

use super::{Answer, Context};
use crate::api::ErrorCode;
use crate::api::init_producer_id::{Request, Response};
use crate::broker::authorizer::{Operation, Resource};
use crate::broker::state::{ProducerId, State};
use crate::broker::transactions::Init;

pub(super) fn handle(state: &mut State, context: &Context, request: Request) -> Answer<Response> {
    let claims = match (request.producer_id, request.producer_epoch) {
        (-1, -1) => Ok(None),
        (-1, _) | (_, -1) => Err(ErrorCode::INVALID_REQUEST),
        (id, epoch) => Ok(Some(ProducerId { id, epoch })),
    };
    let given = claims.and_then(|claims| match &request.transactional_id {
        None if !state.may_write_somewhere(context) => {
            state.check(context, Operation::IdempotentWrite, Resource::Cluster)?;
            Ok(ProducerId { id: state.producer_ids.next(), epoch: 0 })
        }
        None => Ok(ProducerId { id: state.producer_ids.next(), epoch: 0 }),
        Some(id) => next(state, context, id, &request, claims),
    });
    Answer::Reply(match given {
        Ok(ProducerId { id, epoch }) => Response { producer_id: id, producer_epoch: epoch, ..Response::default() },
        Err(error_code) => refuse(request, error_code),
    })
}

pub(super) fn refuse(_: Request, error_code: ErrorCode) -> Response {
    Response { error_code, producer_epoch: -1, ..Response::default() }
}

fn next(
    state: &mut State,
    context: &Context,
    id: &str,
    request: &Request,
    claims: Option<ProducerId>,
) -> Result<ProducerId, ErrorCode> {
    state.check(context, Operation::Write, Resource::TransactionalId(id))?;
    if id.is_empty() {
        return Err(ErrorCode::INVALID_REQUEST);
    }
    if !state.is_coordinator(context.node, id) {
        return Err(ErrorCode::NOT_COORDINATOR);
    }
    let State { transactions, memory, producer_ids, .. } = state;
    match transactions.init(memory, producer_ids, id, request.transaction_timeout_ms, claims) {
        Ok(Init::Given(producer)) => Ok(producer),
        Ok(Init::Fenced(ended)) => {
            state.write_markers(context.clock, &ended);
            Err(ErrorCode::CONCURRENT_TRANSACTIONS)
        }
        Err(ErrorCode::PRODUCER_FENCED) if context.version < 4 => Err(ErrorCode::INVALID_PRODUCER_EPOCH),
        Err(code) => Err(code),
    }
}
