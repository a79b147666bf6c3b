//! ElectLeaders v0 to v2: immediately makes the first replica of a partition the leader. If a partition has no leader,
//! an unclean election makes one of the running replicas the leader. An unclean election loses no records, because all
//! replicas have all records.

use super::defaults::RespondWith;
use crate::api::ErrorCode;
use crate::api::elect_leaders::{PREFERRED, PartitionResult, Request, Response, TopicPartitions, TopicResult, UNCLEAN};
use crate::broker::authorizer::{Operation, Resource};
use crate::broker::request::{ApiError, Context, HandlerResult};
use crate::broker::state::State;

pub(super) fn handle(state: &mut State, context: &Context, request: Request) -> HandlerResult<Response> {
    if let Err(code) = state.check(context, Operation::Alter, Resource::Cluster) {
        return HandlerResult::Reply(request.response_with(code));
    }
    if ![PREFERRED, UNCLEAN].contains(&request.election_type) {
        return HandlerResult::Reply(request.response_with(ErrorCode::INVALID_REQUEST));
    }
    let names_partitions = request.topic_partitions.is_some();
    let all = |state: &State| {
        let all_partitions = |name: &str| TopicPartitions {
            topic: name.to_owned(),
            partitions: state.topics.get(name).map_or_else(Vec::new, |t| (0..).take(t.partitions.len()).collect()),
        };
        state.topics.names().map(all_partitions).collect()
    };
    let topic_partitions: Vec<_> = request.topic_partitions.unwrap_or_else(|| all(state));
    let mut results = Vec::with_capacity(topic_partitions.len());
    for TopicPartitions { topic, partitions } in topic_partitions {
        let mut partition_result = Vec::with_capacity(partitions.len());
        for partition_id in partitions {
            let elected = elect(state, &topic, partition_id, request.election_type);
            let ApiError { code, message } = elected.err().unwrap_or(ErrorCode::NONE.into());
            // A request for all partitions gets only those that changed.
            if names_partitions || code != ErrorCode::ELECTION_NOT_NEEDED {
                partition_result.push(PartitionResult { partition_id, error_code: code, error_message: message });
            }
        }
        if !partition_result.is_empty() {
            results.push(TopicResult { topic, partition_result });
        }
    }
    HandlerResult::Reply(Response { replica_election_results: results, ..Response::default() })
}

impl RespondWith for Request {
    fn response_with(self, error_code: ErrorCode) -> Response {
        let result = |TopicPartitions { topic, partitions }| TopicResult {
            topic,
            partition_result: partitions
                .into_iter()
                .map(|partition_id| PartitionResult { partition_id, error_code, error_message: None })
                .collect(),
        };
        let results = self.topic_partitions.unwrap_or_default().into_iter().map(result).collect();
        Response { error_code, replica_election_results: results, ..Response::default() }
    }
}

fn elect(state: &mut State, topic: &str, index: i32, kind: i8) -> Result<(), ApiError> {
    let partition = state.topics.get_mut(topic).and_then(|t| t.partition(index));
    let Some(partition) = partition else {
        let why = "This server does not host this topic-partition.";
        return Err(ApiError::new(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, why));
    };
    let (leader, replicas) = (partition.leader, partition.replicas.clone());
    let new_leader = match kind {
        PREFERRED => replicas.first().copied(),
        _ if leader >= 0 => Some(leader),
        _ => replicas.into_iter().find(|id| state.is_live(*id)),
    };
    match new_leader {
        Some(new_leader) if new_leader == leader => {
            Err(ApiError::new(ErrorCode::ELECTION_NOT_NEEDED, "Leader election not needed for topic partition."))
        }
        Some(new_leader) if state.is_live(new_leader) => state
            .move_leader(topic, index, new_leader)
            .map_err(|why| ApiError::new(ErrorCode::LEADER_NOT_AVAILABLE, why)),
        _ if kind == PREFERRED => Err(ErrorCode::PREFERRED_LEADER_NOT_AVAILABLE.into()),
        _ => Err(ErrorCode::ELIGIBLE_LEADERS_NOT_AVAILABLE.into()),
    }
}
