//! ListTransactions v0 to v2: lists the transactional IDs that a node coordinates.

use super::defaults::RespondWith;
use crate::api::ErrorCode;
use crate::api::list_transactions::{Request, Response, TransactionState};
use crate::broker::authorizer::{Operation, Resource};
use crate::broker::regex::FullMatchRegex;
use crate::broker::request::{Context, HandlerResult};
use crate::broker::state::State;
use crate::broker::transactions::{self, TransactionMetadata};

pub(super) fn handle(state: &mut State, context: &Context, request: Request) -> HandlerResult<Response> {
    let pattern = request.transactional_id_pattern.as_deref().filter(|p| !p.is_empty()).map(FullMatchRegex::parse);
    let Ok(pattern) = pattern.transpose() else {
        return HandlerResult::Reply(request.response_with(ErrorCode::INVALID_REGULAR_EXPRESSION));
    };
    let duration = |t: &TransactionMetadata| context.clock.wall_ms.saturating_sub(t.start_ms);
    let matches_filters = |id: &str, t: &TransactionMetadata| {
        state.is_coordinator(context.node, id)
            && state.allows(context, Operation::Describe, Resource::TransactionalId(id))
            && (request.state_filters.is_empty() || request.state_filters.iter().any(|s| s == t.state.name()))
            && (request.producer_id_filters.is_empty() || request.producer_id_filters.contains(&t.producer.id))
            && (request.duration_filter < 0 || duration(t) > request.duration_filter)
            && pattern.as_ref().is_none_or(|pattern| pattern.matches(id))
    };
    let listed = state.transactions.all().filter(|(id, t)| matches_filters(id, t)).map(|(id, t)| TransactionState {
        transactional_id: id.to_owned(),
        producer_id: t.producer.id,
        transaction_state: t.state.name().to_owned(),
    });
    let transaction_states = listed.collect();
    let unknown = |name: &String| !transactions::TransactionState::NAMES.contains(&name.as_str());
    let unknown_state_filters = request.state_filters.into_iter().filter(unknown).collect();
    HandlerResult::Reply(Response { unknown_state_filters, transaction_states, ..Response::default() })
}
