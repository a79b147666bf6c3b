//! CreateTopics v0 to v7: creates the topics before it responds. Any node accepts the request.
//!
//! The handler uses Kafka's error messages, because users search for these texts. The handler ignores the timeout of
//! the request. The dev broker limits the number of partitions, but does not implement other quotas and policies.

use super::describe_configs::source;
use crate::api::ErrorCode;
use crate::api::create_topics::{ConfigResult, ReplicaAssignment, Request, Response, Topic, TopicResult};
use crate::broker::authorizer::{Operation, Resource};
use crate::broker::configs::Configs;
use crate::broker::request::{ApiError, Context, HandlerResult};
use crate::broker::state::State;
use std::collections::{HashMap, HashSet};

pub(super) fn handle(state: &mut State, context: &Context, request: Request) -> HandlerResult<Response> {
    let mut occurrences: HashMap<String, usize> = HashMap::new();
    for topic in &request.topics {
        *occurrences.entry(topic.name.clone()).or_default() += 1;
    }
    let may_create_all = state.allows(context, Operation::Create, Resource::Cluster);
    let topics = request.topics.into_iter().map(|topic| {
        let name = topic.name.clone();
        let plan = match occurrences.get(&name) {
            Some(2..) => Err(ApiError::new(ErrorCode::INVALID_REQUEST, "Duplicate topic name.")),
            _ if !may_create_all && !state.allows(context, Operation::Create, Resource::Topic(&name)) => {
                Err(ApiError::new(ErrorCode::TOPIC_AUTHORIZATION_FAILED, "Authorization failed."))
            }
            _ => plan(state, topic),
        };
        match plan {
            Ok(plan) => create(state, context, name, plan, request.validate_only),
            Err(ApiError { code, message }) => {
                TopicResult { name, error_code: code, error_message: message, ..TopicResult::default() }
            }
        }
    });
    let topics = topics.collect();
    HandlerResult::Reply(Response { topics, ..Response::default() })
}

struct Plan {
    replicas: Vec<Vec<i32>>,
    configs: Configs,
}

fn create(state: &mut State, context: &Context, name: String, plan: Plan, validate_only: bool) -> TopicResult {
    let topic_id = if validate_only { Default::default() } else { state.new_uuid() };
    let configs = plan.configs.list().map(|config| ConfigResult {
        name: config.name.to_owned(),
        value: Some(config.value.to_owned()),
        read_only: false,
        config_source: source(state, context, &config),
        is_sensitive: false,
    });
    let configs = configs.collect();
    let result = TopicResult {
        topic_id,
        error_message: None,
        num_partitions: i32::try_from(plan.replicas.len()).unwrap_or(i32::MAX),
        replication_factor: plan.replicas.first().map_or(-1, |r| i16::try_from(r.len()).unwrap_or(i16::MAX)),
        configs: Some(configs),
        name,
        ..TopicResult::default()
    };
    if !validate_only {
        state.topics.create(&result.name, topic_id, plan.replicas, plan.configs);
        state.journal_topic(&result.name);
    }
    match state.check(context, Operation::DescribeConfigs, Resource::Topic(&result.name)) {
        Ok(()) => result,
        Err(topic_config_error_code) => {
            let (topic_id, name) = (result.topic_id, result.name);
            TopicResult { name, topic_id, topic_config_error_code, error_message: None, ..TopicResult::default() }
        }
    }
}

fn plan(state: &State, topic: Topic) -> Result<Plan, ApiError> {
    state.topics.check_name(&topic.name).map_err(|(code, message)| ApiError::new(code, message))?;
    let replicas = match topic.assignments.is_empty() {
        true => assign_by_count(state, topic.num_partitions, topic.replication_factor)?,
        false => requested_replicas(state, &topic)?,
    };
    let overrides = topic.configs.iter().map(|c| (c.name.as_str(), c.value.as_deref()));
    let configs = Configs::parse(&state.topic_defaults, overrides)
        .map_err(|why| ApiError::new(ErrorCode::INVALID_CONFIG, why))?;
    Ok(Plan { replicas, configs })
}

fn assign_by_count(state: &State, partitions: i32, factor: i16) -> Result<Vec<Vec<i32>>, ApiError> {
    let partitions = match partitions {
        -1 => state.default_partitions(),
        n => usize::try_from(n).ok().filter(|n| *n > 0).ok_or_else(|| {
            ApiError::new(ErrorCode::INVALID_PARTITIONS, "Number of partitions must be larger than 0.")
        })?,
    };
    let nodes = state.live().count();
    let invalid = |why| Err(ApiError::new(ErrorCode::INVALID_REPLICATION_FACTOR, why));
    let factor = match usize::try_from(factor) {
        Err(_) if factor == -1 => state.default_replication_factor(),
        Err(_) | Ok(0) => {
            return invalid("Replication factor must be larger than 0, or -1 to use the default value.".to_owned());
        }
        Ok(n) if n > nodes => {
            return invalid(format!(
                "Unable to replicate the partition {n} time(s): The target replication factor of {n} cannot be reached \
                 because only {nodes} broker(s) are registered."
            ));
        }
        Ok(n) => n,
    };
    state.topics.check_partitions(partitions).map_err(|(code, message)| ApiError::new(code, message))?;
    Ok(state.assign_replicas(partitions, factor))
}

/// Returns the replicas that the request assigns to each partition.
fn requested_replicas(state: &State, topic: &Topic) -> Result<Vec<Vec<i32>>, ApiError> {
    let invalid = |why: &str| ApiError::new(ErrorCode::INVALID_REPLICA_ASSIGNMENT, why);
    if topic.num_partitions != -1 || topic.replication_factor != -1 {
        let why = "Partitions and replication factor must be -1 where replicas are assigned by hand.";
        return Err(ApiError::new(ErrorCode::INVALID_REQUEST, why));
    }
    state.topics.check_partitions(topic.assignments.len()).map_err(|(code, message)| ApiError::new(code, message))?;
    let mut assignments: Vec<&ReplicaAssignment> = topic.assignments.iter().collect();
    assignments.sort_by_key(|a| a.partition_index);
    if assignments.iter().zip(0..).any(|(a, index)| a.partition_index != index) {
        return Err(invalid("Partitions must be numbered consecutively from 0."));
    }
    let factor = assignments.first().map_or(0, |a| a.broker_ids.len());
    for a in &assignments {
        let distinct: HashSet<_> = a.broker_ids.iter().collect();
        if a.broker_ids.is_empty() || a.broker_ids.len() != factor || distinct.len() != factor {
            return Err(invalid(
                "Every partition needs the same number of replicas, at least one, on different brokers.",
            ));
        }
        if !a.broker_ids.iter().all(|id| state.node(*id).is_some()) {
            return Err(invalid("A replica is assigned to a broker that does not exist."));
        }
    }
    Ok(assignments.into_iter().map(|a| a.broker_ids.clone()).collect())
}
