//! CreatePartitions v0 to v3: adds partitions to topics immediately. Any node accepts the request. Members of consumer
//! groups and share groups receive the new partitions with their next heartbeats. The dev broker does not implement
//! quotas and policies for partitions.

use crate::api::ErrorCode;
use crate::api::create_partitions::{Request, Response, Topic, TopicResult};
use crate::broker::authorizer::{Operation, Resource};
use crate::broker::request::{ApiError, Context, HandlerResult};
use crate::broker::state::State;
use std::collections::{HashMap, HashSet};

pub(super) fn handle(state: &mut State, context: &Context, request: Request) -> HandlerResult<Response> {
    let mut occurrences: HashMap<String, usize> = HashMap::new();
    for topic in &request.topics {
        *occurrences.entry(topic.name.clone()).or_default() += 1;
    }
    let results = request.topics.into_iter().map(|topic| {
        let is_duplicate = occurrences.get(&topic.name).is_some_and(|n| *n > 1);
        let created = match is_duplicate {
            true => Err(ApiError::new(ErrorCode::INVALID_REQUEST, "Duplicate topic in request.")),
            false => match state.check(context, Operation::Alter, Resource::Topic(&topic.name)) {
                Ok(()) => grow(state, &topic, request.validate_only),
                Err(code) => Err(code.into()),
            },
        };
        let error = created.err().unwrap_or(ErrorCode::NONE.into());
        TopicResult { name: topic.name, error_code: error.code, error_message: error.message }
    });
    let results = results.collect();
    HandlerResult::Reply(Response { results, ..Response::default() })
}

fn grow(state: &mut State, requested: &Topic, validate_only: bool) -> Result<(), ApiError> {
    let Some(topic) = state.topics.get(&requested.name) else {
        let why = "This server does not host this topic-partition.";
        return Err(ApiError::new(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, why));
    };
    let invalid = |why: String| Err(ApiError::new(ErrorCode::INVALID_PARTITIONS, why));
    let current_count = topic.partitions.len();
    let factor = topic.partitions.first().map_or(1, |p| p.replicas.len());
    let Some(added_count) = usize::try_from(requested.count).ok().and_then(|count| count.checked_sub(current_count))
    else {
        return invalid(format!(
            "The topic {} currently has {current_count} partition(s); {} would not be an increase.",
            requested.name, requested.count
        ));
    };
    if added_count == 0 {
        return invalid(format!("Topic already has {current_count} partition(s)."));
    }
    state.topics.check_partitions(added_count).map_err(|(code, message)| ApiError::new(code, message))?;
    let replicas = match &requested.assignments {
        Some(assignments) => {
            if assignments.len() != added_count {
                let why = format!("{} assignments were given for {added_count} new partition(s).", assignments.len());
                return Err(ApiError::new(ErrorCode::INVALID_REPLICA_ASSIGNMENT, why));
            }
            assignments.iter().map(|a| check_assignment(state, &a.broker_ids, factor)).collect::<Result<_, _>>()?
        }
        None => state.assign_replicas(added_count, factor),
    };
    if !validate_only {
        state.topics.grow(&requested.name, replicas);
        state.journal_topic(&requested.name);
    }
    Ok(())
}

/// Returns the replicas that the request assigns to a partition.
fn check_assignment(state: &State, brokers: &[i32], factor: usize) -> Result<Vec<i32>, ApiError> {
    let distinct: HashSet<_> = brokers.iter().collect();
    let all_exist = brokers.iter().all(|id| state.node(*id).is_some());
    if brokers.len() != factor || distinct.len() != factor || !all_exist {
        let why = format!("Each new partition needs {factor} different replicas on brokers that exist.");
        return Err(ApiError::new(ErrorCode::INVALID_REPLICA_ASSIGNMENT, why));
    }
    Ok(brokers.to_vec())
}
