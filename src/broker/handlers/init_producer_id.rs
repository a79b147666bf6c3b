//! InitProducerId v0 to v5: a fresh id for an idempotent producer, the same id with the next epoch for a
//! transactional one.
//!
//! Left out: transactions themselves; a transactional id is only given its epochs. v6 is unstable in Kafka 4.4 and
//! not served.

use super::{Answer, Context};
use crate::api::ErrorCode;
use crate::api::init_producer_id::{Request, Response};
use crate::broker::state::{ProducerId, State};

/// The longest transaction allowed, milliseconds: Kafka's `transaction.max.timeout.ms`.
const MAX_TIMEOUT_MS: i32 = 15 * 60 * 1000;

/// After this epoch a producer gets a new id, as in Kafka, which keeps the largest one for fencing.
const LAST_EPOCH: i16 = i16::MAX - 1;

/// What remembering a transactional id takes besides the id, roughly.
const ENTRY: usize = 96;

pub(super) fn handle(state: &mut State, context: &Context, request: Request) -> Answer<Response> {
    let given = match &request.transactional_id {
        None => Ok(ProducerId { id: state.new_producer_id(), epoch: 0 }),
        Some(id) => next(state, context, id, &request),
    };
    Answer::Reply(match given {
        Ok(ProducerId { id, epoch }) => Response { producer_id: id, producer_epoch: epoch, ..Response::default() },
        Err(error_code) => Response { error_code, producer_epoch: -1, ..Response::default() },
    })
}

fn next(state: &mut State, context: &Context, id: &str, request: &Request) -> Result<ProducerId, ErrorCode> {
    if id.is_empty() {
        return Err(ErrorCode::INVALID_REQUEST);
    }
    if !state.is_coordinator(context.node, id) {
        return Err(ErrorCode::NOT_COORDINATOR);
    }
    if !(1..=MAX_TIMEOUT_MS).contains(&request.transaction_timeout_ms) {
        return Err(ErrorCode::INVALID_TRANSACTION_TIMEOUT);
    }
    let last = state.transactional_ids.get(id).copied();
    if last.is_none() && !state.memory.take(id.len() + ENTRY) {
        return Err(ErrorCode::COORDINATOR_NOT_AVAILABLE);
    }
    let resumes = request.producer_id >= 0;
    let claims = ProducerId { id: request.producer_id, epoch: request.producer_epoch };
    if resumes && last.is_some_and(|last| last != claims) {
        return Err(match context.version {
            ..4 => ErrorCode::INVALID_PRODUCER_EPOCH,
            _ => ErrorCode::PRODUCER_FENCED,
        });
    }
    let given = match last {
        Some(ProducerId { id, epoch }) if epoch < LAST_EPOCH => ProducerId { id, epoch: epoch + 1 },
        _ => ProducerId { id: state.new_producer_id(), epoch: 0 },
    };
    state.transactional_ids.insert(id.to_owned(), given);
    Ok(given)
}
