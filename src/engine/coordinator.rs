//! Finds the broker that coordinates a group or a transactional ID, with FindCoordinator.

use super::{Call, Error, Reply};
use crate::api::{ErrorCode, Info, Release, find_coordinator};
use crate::wire::{Wire, Writer};
use std::fmt;

/// A FindCoordinator request, and its purpose.
pub struct Find {
    request: find_coordinator::Request,
    is_for_member: bool,
}

impl Call for Find {
    fn api(&self) -> &'static Info {
        &find_coordinator::API
    }

    fn put(&self, w: &mut Writer) {
        Wire::put(&self.request, w);
    }

    fn min_version(&self) -> i16 {
        // Version 0 has only groups.
        i16::from(self.request.key_type != find_coordinator::GROUP)
    }

    fn feature(&self) -> &'static str {
        match self.request.key_type {
            find_coordinator::TRANSACTION => "transactions",
            _ if self.is_for_member => "membership of a group",
            _ => find_coordinator::API.name,
        }
    }

    fn min_release(&self) -> Option<Release> {
        // Coordinators of offsets are older than groups with members.
        self.is_for_member.then_some(Release::V0_9_0)
    }
}

/// Returns the request for one key. All versions can encode this request.
pub fn request(key_type: i8, key: &str) -> Find {
    let request = find_coordinator::Request { key: key.to_owned(), key_type, coordinator_keys: vec![key.to_owned()] };
    Find { request, is_for_member: false }
}

/// Returns the request of a client that wants to join a group.
pub fn request_as_member(group: &str) -> Find {
    Find { is_for_member: true, ..request(find_coordinator::GROUP, group) }
}

/// Reads the coordinator's broker ID from a response. `whose` is the owner of the coordinator for error messages, such
/// as `group "g"`.
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

/// Returns whether an error means that another broker is the coordinator now.
pub fn is_moved(code: ErrorCode) -> bool {
    matches!(code, ErrorCode::NOT_COORDINATOR | ErrorCode::COORDINATOR_NOT_AVAILABLE)
}
