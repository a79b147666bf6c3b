//! AlterReplicaLogDirs v0 to v2: moves no replicas, because a node has only one log directory.

use super::defaults::RespondWith;
use super::describe_log_dirs::LOG_DIR;
use crate::api::ErrorCode;
use crate::api::alter_replica_log_dirs::{PartitionResult, Request, Response, TopicResult};
use crate::broker::authorizer::{Operation, Resource};
use crate::broker::request::{Context, HandlerResult};
use crate::broker::state::State;

pub(super) fn handle(state: &mut State, context: &Context, request: Request) -> HandlerResult<Response> {
    if let Err(code) = state.check(context, Operation::Alter, Resource::Cluster) {
        return HandlerResult::Reply(request.response_with(code));
    }
    HandlerResult::Reply(results(request, |path, topic, index| {
        let topic = state.topics.get(topic);
        let partition = topic.and_then(|topic| topic.partitions.get(usize::try_from(index).ok()?));
        match partition {
            _ if path != LOG_DIR => ErrorCode::LOG_DIR_NOT_FOUND,
            Some(partition) if partition.replicas.contains(&context.node) => ErrorCode::NONE,
            Some(_) => ErrorCode::REPLICA_NOT_AVAILABLE,
            None => ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
        }
    }))
}

impl RespondWith for Request {
    fn response_with(self, error_code: ErrorCode) -> Response {
        results(self, |_, _, _| error_code)
    }
}

fn results(request: Request, result: impl Fn(&str, &str, i32) -> ErrorCode) -> Response {
    let mut results = Vec::new();
    for dir in &request.dirs {
        for topic in &dir.topics {
            let partitions = topic.partitions.iter().map(|index| PartitionResult {
                partition_index: *index,
                error_code: result(&dir.path, &topic.name, *index),
            });
            results.push(TopicResult { topic_name: topic.name.clone(), partitions: partitions.collect() });
        }
    }
    Response { results, ..Response::default() }
}
