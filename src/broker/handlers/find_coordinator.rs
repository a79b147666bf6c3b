//! FindCoordinator v0 to v6: returns the coordinator of a group or transactional ID. A hash of the group ID or
//! transactional ID selects the coordinator.
//!
//! As in Kafka, the first request for a group creates the topic `__consumer_offsets`, and the first request for a
//! transactional ID creates the topic `__transaction_state`. From v4 on, a request may have several keys. The handler
//! does not support share groups: for key type 2, it returns the error INVALID_REQUEST.

use super::defaults::RespondWith;
use crate::api::ErrorCode;
use crate::api::find_coordinator::{Coordinator, GROUP, Request, Response, TRANSACTION};
use crate::broker::authorizer::{Operation, Resource};
use crate::broker::request::{Context, HandlerResult};
use crate::broker::state::State;
use crate::broker::topics::{OFFSETS, TRANSACTIONS};

pub(super) fn handle(state: &mut State, context: &Context, request: Request) -> HandlerResult<Response> {
    let mut find = |key: String| {
        let allowed = match request.key_type {
            GROUP => state.check(context, Operation::Describe, Resource::Group(&key)),
            TRANSACTION => state.check(context, Operation::Describe, Resource::TransactionalId(&key)),
            _ => Ok(()),
        };
        if let Err(code) = allowed {
            return coordinator_error(key, code, None);
        }
        match request.key_type {
            GROUP => state.create_internal(OFFSETS),
            TRANSACTION => state.create_internal(TRANSACTIONS),
            _ => {}
        }
        let node = state.coordinator(&key).filter(|_| matches!(request.key_type, GROUP | TRANSACTION));
        match node {
            Some(node) => Coordinator {
                key,
                node_id: node.id,
                host: node.host.clone(),
                port: node.port.into(),
                error_code: ErrorCode::NONE,
                error_message: None,
            },
            None => {
                let why = format!("no coordinator for key type {}", request.key_type);
                coordinator_error(key, ErrorCode::INVALID_REQUEST, Some(why))
            }
        }
    };
    if context.version >= 4 {
        let coordinators = request.coordinator_keys.into_iter().map(find).collect();
        return HandlerResult::Reply(Response { coordinators, ..Response::default() });
    }
    let Coordinator { node_id, host, port, error_code, error_message, .. } = find(request.key);
    HandlerResult::Reply(Response { error_code, error_message, node_id, host, port, ..Response::default() })
}

impl RespondWith for Request {
    fn response_with(self, error_code: ErrorCode) -> Response {
        let coordinators =
            self.coordinator_keys.into_iter().map(|key| coordinator_error(key, error_code, None)).collect();
        let (node_id, port, error_message) = (-1, -1, None);
        Response { error_code, error_message, node_id, port, coordinators, ..Response::default() }
    }
}

fn coordinator_error(key: String, error_code: ErrorCode, error_message: Option<String>) -> Coordinator {
    Coordinator { key, node_id: -1, host: String::new(), port: -1, error_code, error_message }
}
