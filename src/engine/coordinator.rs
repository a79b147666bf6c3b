//! Finding the broker that coordinates a group or a transactional id.

use super::{Error, Reply};
use crate::api::{ErrorCode, find_coordinator};
use std::fmt;

/// FindCoordinator for one key, in the form of every version.
pub fn ask(key_type: i8, key: &str) -> find_coordinator::Request {
    find_coordinator::Request { key: key.to_owned(), key_type, coordinator_keys: vec![key.to_owned()] }
}

/// The coordinator's id out of an answer; the error says whose it is, as `group "g"`.
pub fn read(reply: Reply, whose: impl fmt::Display) -> Result<i32, Error> {
    let response: find_coordinator::Response = reply.decode()?;
    let (code, node) = match response.coordinators.first() {
        Some(c) => (c.error_code, c.node_id),
        None => (response.error_code, response.node_id),
    };
    match code.check() {
        Ok(()) => Ok(node),
        Err(code) => Err(Error::refused(code, format!("find the coordinator of {whose}"))),
    }
}

/// Whether an answer means that the coordinator has to be found again.
pub fn is_moved(code: ErrorCode) -> bool {
    matches!(code, ErrorCode::NOT_COORDINATOR | ErrorCode::COORDINATOR_NOT_AVAILABLE)
}
