//! AddPartitionsToTxn v0 to v5: adds partitions to transactions. For each transaction, the handler adds all partitions
//! or none.
//!
//! In Kafka, only brokers send v4 and later versions. If the dev broker has an authorizer, the handler requires the
//! permission ClusterAction from v4 on.

use super::defaults::RespondWith;
use crate::api::ErrorCode;
use crate::api::add_partitions_to_txn::TransactionResult;
use crate::api::add_partitions_to_txn::{PartitionResult, Request, Response, Topic, TopicResult, Transaction};
use crate::broker::authorizer::{Operation, Resource};
use crate::broker::ids::ProducerId;
use crate::broker::request::{Context, HandlerResult};
use crate::broker::state::State;

pub(super) fn handle(state: &mut State, context: &Context, request: Request) -> HandlerResult<Response> {
    if context.version >= 4 {
        if let Err(code) = state.check(context, Operation::ClusterAction, Resource::Cluster) {
            return HandlerResult::Reply(request.response_with(code));
        }
        let results = request.transactions.into_iter().map(|transaction| TransactionResult {
            topic_results: add(state, context, &transaction),
            transactional_id: transaction.transactional_id,
        });
        return HandlerResult::Reply(Response { results_by_transaction: results.collect(), ..Response::default() });
    }
    let id = Resource::TransactionalId(&request.v3_and_below_transactional_id);
    if let Err(code) = state.check(context, Operation::Write, id) {
        return HandlerResult::Reply(request.response_with(code));
    }
    let transaction = Transaction {
        transactional_id: request.v3_and_below_transactional_id,
        producer_id: request.v3_and_below_producer_id,
        producer_epoch: request.v3_and_below_producer_epoch,
        verify_only: false,
        topics: request.v3_and_below_topics,
    };
    let results_by_topic_v3_and_below = add(state, context, &transaction);
    HandlerResult::Reply(Response { results_by_topic_v3_and_below, ..Response::default() })
}

impl RespondWith for Request {
    fn response_with(self, error_code: ErrorCode) -> Response {
        let topics = |topics: Vec<Topic>| topics.into_iter().map(|topic| result(&topic, |_, _| error_code)).collect();
        let results = self.transactions.into_iter().map(|transaction| TransactionResult {
            transactional_id: transaction.transactional_id,
            topic_results: topics(transaction.topics),
        });
        let results_by_transaction = results.collect();
        let results_by_topic_v3_and_below = topics(self.v3_and_below_topics);
        Response { error_code, results_by_transaction, results_by_topic_v3_and_below, ..Response::default() }
    }
}

fn add(state: &mut State, context: &Context, transaction: &Transaction) -> Vec<TopicResult> {
    let exists = |state: &State, topic: &str, index: i32| {
        usize::try_from(index).is_ok_and(|index| state.topics.get(topic).is_some_and(|t| index < t.partitions.len()))
    };
    let pairs = || transaction.topics.iter().flat_map(|t| t.partitions.iter().map(|index| (t.name.as_str(), *index)));
    // In v4 and later, the requesting broker has checked its own client.
    let may_write = |state: &State, topic: &str| match context.version {
        4.. => Ok(()),
        _ => state.check(context, Operation::Write, Resource::Topic(topic)),
    };
    let is_denied = transaction.topics.iter().any(|topic| may_write(state, &topic.name).is_err());
    let missing = is_denied || pairs().any(|(topic, index)| !exists(state, topic, index));
    let producer = ProducerId { id: transaction.producer_id, epoch: transaction.producer_epoch };
    let id = transaction.transactional_id.as_str();
    let added = if missing {
        Err(ErrorCode::OPERATION_NOT_ATTEMPTED)
    } else if id.is_empty() {
        Err(ErrorCode::INVALID_REQUEST)
    } else if !state.is_coordinator(context.node, id) {
        Err(ErrorCode::NOT_COORDINATOR)
    } else if transaction.verify_only {
        Ok(())
    } else {
        state.transactions.add(&mut state.memory, context.clock, id, producer, pairs())
    };
    let mut judge = |topic: &str, index| match added {
        Err(ErrorCode::OPERATION_NOT_ATTEMPTED) if let Err(code) = may_write(state, topic) => code,
        Err(ErrorCode::OPERATION_NOT_ATTEMPTED) if !exists(state, topic, index) => {
            ErrorCode::UNKNOWN_TOPIC_OR_PARTITION
        }
        Err(ErrorCode::PRODUCER_FENCED) if context.version < 2 => ErrorCode::INVALID_PRODUCER_EPOCH,
        Err(code) => code,
        Ok(()) if transaction.verify_only => match state.transactions.verify(id, producer, topic, index) {
            Err(ErrorCode::TRANSACTION_ABORTABLE) if context.version < 5 => ErrorCode::INVALID_TXN_STATE,
            Err(code) => code,
            Ok(()) => ErrorCode::NONE,
        },
        Ok(()) => ErrorCode::NONE,
    };
    transaction.topics.iter().map(|topic| result(topic, &mut judge)).collect()
}

fn result(topic: &Topic, mut judge: impl FnMut(&str, i32) -> ErrorCode) -> TopicResult {
    let results = topic
        .partitions
        .iter()
        .map(|index| PartitionResult { partition_index: *index, partition_error_code: judge(&topic.name, *index) });
    TopicResult { name: topic.name.clone(), results_by_partition: results.collect() }
}
