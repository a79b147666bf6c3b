//! DeleteTopics v0 to v6: deletes topics immediately, by name or, from v6 on, by ID. Any node accepts the request.
//!
//! The handler also deletes the records, producer states and committed offsets of the topic. Fetches that wait for the
//! topic get a response.

use super::defaults::RespondWith;
use crate::api::ErrorCode;
use crate::api::delete_topics::{Request, Response, Topic, TopicResult};
use crate::broker::authorizer::Operation;
use crate::broker::request::{ApiError, Context, HandlerResult};
use crate::broker::state::State;
use std::collections::HashSet;

pub(super) fn handle(state: &mut State, context: &Context, request: Request) -> HandlerResult<Response> {
    let topics = match context.version {
        6.. => request.topics,
        _ => request.topic_names.into_iter().map(|name| Topic { name: Some(name), ..Topic::default() }).collect(),
    };
    let mut seen = HashSet::new();
    let responses = topics.into_iter().map(|topic| {
        let topic_id = topic.topic_id;
        let again = !seen.insert((topic.name.clone(), topic_id));
        let name = match again {
            true => Err(ApiError::new(ErrorCode::INVALID_REQUEST, "Duplicate topic name or id.")),
            false => find(state, context, &topic),
        };
        let (name, error) = match name {
            Ok(name) => (Some(name), ApiError::from(ErrorCode::NONE)),
            Err(error) => (topic.name, error),
        };
        let topic_id = match (&name, error.code.is_error()) {
            (Some(name), false) => state.delete_topic(name).unwrap_or(topic_id),
            _ => topic_id,
        };
        TopicResult { name, topic_id, error_code: error.code, error_message: error.message }
    });
    let responses = responses.collect();
    HandlerResult::Reply(Response { responses, ..Response::default() })
}

impl RespondWith for Request {
    fn response_with(self, error_code: ErrorCode) -> Response {
        let named = self.topic_names.into_iter().map(|name| Topic { name: Some(name), ..Topic::default() });
        let result = |Topic { name, topic_id }| TopicResult { name, topic_id, error_code, error_message: None };
        let responses = self.topics.into_iter().chain(named).map(result).collect();
        Response { responses, ..Response::default() }
    }
}

fn find(state: &State, context: &Context, topic: &Topic) -> Result<String, ApiError> {
    let name = topic.name.as_deref().unwrap_or_default();
    state.check_topic(context, Operation::Delete, name, topic.topic_id)?;
    match (&topic.name, topic.topic_id.is_zero()) {
        (Some(name), true) => match state.topics.get(name) {
            Some(_) => Ok(name.clone()),
            None => {
                let why = "This server does not host this topic-partition.";
                Err(ApiError::new(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, why))
            }
        },
        (None, false) => match state.topics.name_of(topic.topic_id) {
            Some(name) => Ok(name.to_owned()),
            None => Err(ApiError::new(ErrorCode::UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")),
        },
        (Some(_), false) => {
            Err(ApiError::new(ErrorCode::INVALID_REQUEST, "You may not specify both topic name and topic id."))
        }
        (None, true) => Err(ApiError::new(ErrorCode::INVALID_REQUEST, "Neither topic name nor id were specified.")),
    }
}
