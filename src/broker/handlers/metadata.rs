//! Metadata v0 to v13: returns the nodes, and topics with the leaders of their partitions. From v12 on, a request may
//! name topics by ID.
//!
//! If the request creates a topic, the response already contains the new topic, whereas Kafka first returns
//! LEADER_NOT_AVAILABLE. The controller is the first running node. A request for all topics returns the topics that the
//! client may describe.

use super::defaults::RespondWith;
use crate::api::ErrorCode;
use crate::api::metadata::{Broker, Partition, Request, Response, Topic, TopicRequest};
use crate::broker::authorizer::{Operation, Resource};
use crate::broker::configs::Configs;
use crate::broker::request::{Context, HandlerResult};
use crate::broker::state::State;
use crate::broker::topics::{is_internal, valid_name};
use std::collections::HashSet;

pub(super) fn handle(state: &mut State, context: &Context, request: Request) -> HandlerResult<Response> {
    let may_create = state.node_configs.is_true("auto.create.topics.enable") && request.allow_auto_topic_creation;
    let mut topics = match request.topics {
        Some(mut requested) if context.version > 0 || !requested.is_empty() => {
            let mut seen = HashSet::new();
            let has_id = |t: &TopicRequest| !t.topic_id.is_zero();
            if context.version >= 12 && requested.iter().any(has_id) {
                // Kafka ignores names beside IDs.
                requested.retain(has_id);
            }
            let requested = requested.into_iter().filter(|t| seen.insert((t.name.clone(), t.topic_id)));
            requested.map(|t| find(state, context, t, may_create)).collect()
        }
        _ => {
            let names = state.topics.names().filter(|name| may_describe(state, context, name));
            names.map(|name| describe(state, name)).collect::<Vec<_>>()
        }
    };
    if request.include_topic_authorized_operations {
        for topic in &mut topics {
            if let Some(name) = topic.name.as_ref().filter(|name| may_describe(state, context, name)) {
                topic.topic_authorized_operations = state.operations(context, Resource::Topic(name));
            }
        }
    }
    HandlerResult::Reply(Response {
        topics,
        cluster_authorized_operations: state
            .cluster_operations_if(request.include_cluster_authorized_operations, context),
        ..of_nodes(state)
    })
}

/// Rejects all topics of a request with an error code. The error does not concern the nodes, so the response still
/// contains the nodes.
pub(super) fn response_with(state: &State, context: &Context, request: Request, code: ErrorCode) -> Response {
    if code == ErrorCode::REBOOTSTRAP_REQUIRED {
        return request.response_with(code);
    }
    let topics = match request.topics {
        Some(topics) if context.version > 0 || !topics.is_empty() => Some(topics),
        _ => {
            let names = state.topics.names().map(|name| Some(name.to_string()));
            Some(names.map(|name| TopicRequest { name, ..TopicRequest::default() }).collect())
        }
    };
    Response { topics: Request { topics, ..request }.response_with(code).topics, ..of_nodes(state) }
}

/// Returns a response without topics.
fn of_nodes(state: &State) -> Response {
    let brokers = state.live().map(|n| Broker {
        node_id: n.id,
        host: n.host.clone(),
        port: n.port.into(),
        rack: state.rack(n.id),
    });
    Response {
        brokers: brokers.collect(),
        cluster_id: Some(state.cluster_id.clone()),
        controller_id: state.live().next().map_or(-1, |n| n.id),
        ..Response::default()
    }
}

impl RespondWith for Request {
    fn response_with(self, error_code: ErrorCode) -> Response {
        let topic = |TopicRequest { topic_id, name }| Topic { error_code, name, topic_id, ..Topic::default() };
        let topics = self.topics.unwrap_or_default().into_iter().map(topic).collect();
        // The only error code of the whole response (v13) tells clients to bootstrap again.
        let whole = error_code == ErrorCode::REBOOTSTRAP_REQUIRED;
        Response { topics, error_code: if whole { error_code } else { ErrorCode::NONE }, ..Response::default() }
    }
}

fn find(state: &mut State, context: &Context, requested: TopicRequest, may_create: bool) -> Topic {
    let TopicRequest { topic_id, name } = requested;
    let topic_error = |name, error_code| Topic { error_code, name, topic_id, ..Topic::default() };
    if context.version < 12 && (name.is_none() || !topic_id.is_zero()) {
        // Versions 10 and 11 have the field, but Kafka rejects it.
        return topic_error(Some(name.unwrap_or_default()), ErrorCode::INVALID_REQUEST);
    }
    if !topic_id.is_zero() {
        return match state.topics.name_of(topic_id) {
            Some(name) if may_describe(state, context, name) => describe(state, name),
            _ => topic_error(None, ErrorCode::UNKNOWN_TOPIC_ID),
        };
    }
    let name = name.unwrap_or_default();
    if !may_describe(state, context, &name) {
        return topic_error(Some(name), ErrorCode::TOPIC_AUTHORIZATION_FAILED);
    }
    if state.topics.get(&name).is_none() {
        if valid_name(&name).is_err() {
            return topic_error(Some(name), ErrorCode::INVALID_TOPIC_EXCEPTION);
        }
        if !may_create || is_internal(&name) {
            return topic_error(Some(name), ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
        }
        let by = [Resource::Cluster, Resource::Topic(&name)];
        if !by.into_iter().any(|by| state.allows(context, Operation::Create, by)) {
            return topic_error(Some(name), ErrorCode::TOPIC_AUTHORIZATION_FAILED);
        }
        if let Err(code) = create(state, &name) {
            return topic_error(Some(name), code);
        }
    }
    describe(state, &name)
}

fn may_describe(state: &State, context: &Context, name: &str) -> bool {
    state.allows(context, Operation::Describe, Resource::Topic(name))
}

/// Creates a topic with default settings.
fn create(state: &mut State, name: &str) -> Result<(), ErrorCode> {
    let partitions = state.default_partitions();
    state.topics.check_name(name).map_err(|(code, _)| code)?;
    state.topics.check_partitions(partitions).map_err(|(code, _)| code)?;
    let replicas = state.assign_replicas(partitions, state.default_replication_factor());
    let id = state.new_uuid();
    let configs = Configs::of(state.topic_defaults.clone());
    state.topics.create(name, id, replicas, configs);
    state.journal_topic(name);
    Ok(())
}

fn describe(state: &State, name: &str) -> Topic {
    let Some(topic) = state.topics.get(name) else { return Topic::default() };
    let partitions = topic.partitions.iter().zip(0..).map(|(p, partition_index)| Partition {
        partition_index,
        leader_id: p.leader,
        leader_epoch: p.leader_epoch,
        replica_nodes: p.replicas.clone(),
        isr_nodes: state.in_sync(&p.replicas),
        offline_replicas: p.replicas.iter().filter(|id| !state.is_live(**id)).copied().collect(),
        error_code: if p.leader < 0 { ErrorCode::LEADER_NOT_AVAILABLE } else { ErrorCode::NONE },
    });
    Topic {
        name: Some(name.to_owned()),
        topic_id: topic.id,
        is_internal: is_internal(name),
        partitions: partitions.collect(),
        ..Topic::default()
    }
}
