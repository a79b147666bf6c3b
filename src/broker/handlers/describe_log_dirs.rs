//! DescribeLogDirs v0 to v5: returns one directory for each node, with the sizes of its replicas. The directory exists
//! only in memory, and all nodes share one memory limit.

use super::defaults::RespondWith;
use crate::api::ErrorCode;
use crate::api::describe_log_dirs::{DirResult, PartitionResult, Request, Response, TopicResult};
use crate::broker::authorizer::{Operation, Resource};
use crate::broker::request::{Context, HandlerResult};
use crate::broker::state::State;
use crate::broker::topics::Topic;
use std::collections::{BTreeMap, BTreeSet};

pub(super) const LOG_DIR: &str = "/dev-broker";

pub(super) fn handle(state: &mut State, context: &Context, request: Request) -> HandlerResult<Response> {
    if let Err(error_code) = state.check(context, Operation::Describe, Resource::Cluster) {
        return HandlerResult::Reply(Response { error_code, ..Response::default() });
    }
    let requested: Option<BTreeMap<String, BTreeSet<i32>>> = request
        .topics
        .map(|topics| topics.into_iter().map(|t| (t.topic, t.partitions.into_iter().collect())).collect());
    let mut topics = Vec::new();
    for name in state.topics.names() {
        let indexes = requested.as_ref().map(|requested| requested.get(name));
        let (Some(topic), false) = (state.topics.get(name), indexes == Some(None)) else { continue };
        let is_requested = |index| indexes.flatten().is_none_or(|indexes| indexes.contains(&index));
        let partitions = replicas(topic, context.node).filter(|p| is_requested(p.partition_index)).collect::<Vec<_>>();
        if !partitions.is_empty() {
            topics.push(TopicResult { name: name.to_owned(), partitions });
        }
    }
    let (total, usable) = state.memory.limit_and_free();
    let result = DirResult {
        log_dir: LOG_DIR.to_owned(),
        topics,
        total_bytes: i64::try_from(total).unwrap_or(i64::MAX),
        usable_bytes: i64::try_from(usable).unwrap_or(i64::MAX),
        ..DirResult::default()
    };
    HandlerResult::Reply(Response { results: vec![result], ..Response::default() })
}

impl RespondWith for Request {
    fn response_with(self, error_code: ErrorCode) -> Response {
        let result = DirResult { error_code, log_dir: LOG_DIR.to_owned(), ..DirResult::default() };
        Response { error_code, results: vec![result], ..Response::default() }
    }
}

fn replicas(topic: &Topic, node: i32) -> impl Iterator<Item = PartitionResult> {
    let hosted = topic.partitions.iter().zip(0..).filter(move |(p, _)| p.replicas.contains(&node));
    hosted.map(|(p, partition_index)| PartitionResult {
        partition_index,
        partition_size: i64::try_from(p.log.bytes()).unwrap_or(i64::MAX),
        offset_lag: 0,
        is_future_key: false,
    })
}
