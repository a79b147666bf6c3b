//! DescribeTransactions v0: returns the state of the transactional IDs that the node coordinates.

use crate::api::ErrorCode;
use crate::api::describe_transactions::{Request, Response, Topic, TransactionState};
use crate::broker::authorizer::{Operation, Resource};
use crate::broker::request::{Context, HandlerResult};
use crate::broker::state::State;

pub(super) fn handle(state: &mut State, context: &Context, request: Request) -> HandlerResult<Response> {
    let transaction_states = request.transactional_ids.into_iter().map(|id| match describe(state, context, &id) {
        Ok(state) => TransactionState { transactional_id: id, ..state },
        Err(error_code) => transaction_error(id, error_code),
    });
    HandlerResult::Reply(Response { transaction_states: transaction_states.collect(), ..Response::default() })
}

fn transaction_error(transactional_id: String, error_code: ErrorCode) -> TransactionState {
    TransactionState { error_code, transactional_id, ..TransactionState::default() }
}

fn describe(state: &State, context: &Context, id: &str) -> Result<TransactionState, ErrorCode> {
    state.check_coordinator(context, Operation::Describe, Resource::TransactionalId(id))?;
    let txn = state.transactions.get(id).ok_or(ErrorCode::TRANSACTIONAL_ID_NOT_FOUND)?;
    let may_describe = |topic: &str| state.allows(context, Operation::Describe, Resource::Topic(topic));
    let topics = txn
        .partitions
        .iter()
        .filter(|(topic, _)| may_describe(topic))
        .map(|(topic, indexes)| Topic { topic: topic.clone(), partitions: indexes.iter().copied().collect() });
    Ok(TransactionState {
        transaction_state: txn.state.name().to_owned(),
        transaction_timeout_ms: txn.timeout_ms,
        transaction_start_time_ms: txn.start_ms,
        producer_id: txn.producer.id,
        producer_epoch: txn.producer.epoch,
        topics: topics.collect(),
        ..TransactionState::default()
    })
}
