//! DescribeQuorum v0 to v2: describes a quorum in which every node is a voter and the active controller is the leader.

use super::defaults::RespondWith;
use crate::api::ErrorCode;
use crate::api::describe_quorum::{
    Listener, Node, PartitionResponse, ReplicaState, Request, Response, Topic, TopicResponse,
};
use crate::broker::authorizer::{Operation, Resource};
use crate::broker::request::{Context, HandlerResult};
use crate::broker::state::State;

const METADATA: &str = "__cluster_metadata";

pub(super) fn handle(state: &mut State, context: &Context, request: Request) -> HandlerResult<Response> {
    if let Err(code) = state.check(context, Operation::Describe, Resource::Cluster) {
        return HandlerResult::Reply(request.response_with(code));
    }
    let has_metadata =
        |topic: &Topic| topic.topic_name == METADATA && topic.partitions.iter().any(|p| p.partition_index == 0);
    let nodes = match request.topics.iter().any(has_metadata) {
        true => state.nodes().map(node).collect(),
        false => Vec::new(),
    };
    let topics = request.topics.into_iter().map(|topic| {
        let is_metadata = topic.topic_name == METADATA;
        let partitions = topic.partitions.iter().map(|p| match (is_metadata, p.partition_index) {
            (true, 0) => metadata_partition(state, context),
            (_, partition_index) => PartitionResponse {
                partition_index,
                error_code: ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
                error_message: Some("This server does not host this topic-partition.".to_owned()),
                ..PartitionResponse::default()
            },
        });
        TopicResponse { partitions: partitions.collect(), topic_name: topic.topic_name }
    });
    HandlerResult::Reply(Response { topics: topics.collect(), nodes, ..Response::default() })
}

fn metadata_partition(state: &State, context: &Context) -> PartitionResponse {
    let leader_id = state.live().next().map_or(-1, |n| n.id);
    let end = i64::try_from(state.topics.created()).unwrap_or(i64::MAX);
    let replica = |id| ReplicaState {
        replica_id: id,
        log_end_offset: end,
        last_fetch_timestamp: context.clock.wall_ms,
        last_caught_up_timestamp: context.clock.wall_ms,
        ..ReplicaState::default()
    };
    PartitionResponse {
        leader_id,
        leader_epoch: 1,
        high_watermark: end,
        current_voters: state.nodes().map(|n| replica(n.id)).collect(),
        ..PartitionResponse::default()
    }
}

fn node(node: &crate::broker::Node) -> Node {
    let listener = Listener { name: "CONTROLLER".to_owned(), host: node.host.clone(), port: node.port };
    Node { node_id: node.id, listeners: vec![listener] }
}

impl RespondWith for Request {
    fn response_with(self, error_code: ErrorCode) -> Response {
        Response { error_code, ..Response::default() }
    }
}
