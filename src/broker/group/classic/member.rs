//! A member of a classic group: its metadata, its request that waits for a reply, and its session timeout.

use crate::api::{ErrorCode, join_group, sync_group};
use crate::broker::clock::millis;
use crate::broker::group::migration::Migrant;
use crate::broker::group::replies::{GroupReply, PendingReplies};
use crate::broker::{Connection, Time};
use bytes::Bytes;
use std::collections::BTreeSet;
use std::time::Duration;

/// How long a new member may wait for its first generation. A new member has no session timeout yet.
const NEW_MEMBER_TIMEOUT: Duration = Duration::from_secs(300);

/// Approximate memory of a member without its metadata.
const MEMBER_MEMORY: usize = 256;

#[derive(Debug)]
pub(super) struct Member {
    pub instance: Option<String>,
    pub client_id: String,
    pub session: Duration,
    pub rebalance: Duration,
    pub protocols: Vec<(String, Bytes)>,
    pub assignment: Bytes,
    pub waits: WaitsFor,
    /// The member has not been in a generation yet.
    pub is_new: bool,
    /// When the member's session ends. `None` if the session timeout has passed while the member waits for a reply,
    /// because a waiting member counts as alive.
    pub deadline: Option<Time>,
}

/// The request for whose reply the member waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WaitsFor {
    No,
    Join(Connection),
    Sync(Connection),
}

/// A client that joins, or joins again.
#[derive(Debug)]
pub(in crate::broker) struct Joining<'a> {
    pub now: Time,
    pub connection: Connection,
    pub client_id: &'a str,
    /// The new ID for a client without a member ID.
    pub new_id: String,
    /// Whether the client must join again with its ID before it is a member.
    pub requires_known_member_id: bool,
    /// Whether the response can ask the leader to skip the assignment.
    pub supports_skipping_assignment: bool,
    pub request: &'a join_group::Request,
}

impl Joining<'_> {
    pub fn memory_size(&self) -> usize {
        let protocols = self.request.protocols.iter().map(|p| p.name.len() + p.metadata.len() + 64);
        MEMBER_MEMORY
            + self.new_id.len()
            + self.request.member_id.len()
            + self.client_id.len()
            + protocols.sum::<usize>()
    }

    pub fn protocols(&self) -> Vec<(String, Bytes)> {
        // Copied, so that the whole frame is not kept alive.
        let copy = |p: &join_group::Protocol| (p.name.clone(), Bytes::copy_from_slice(&p.metadata));
        self.request.protocols.iter().map(copy).collect()
    }

    /// Returns a member that waits for a generation.
    pub(super) fn member(&self) -> Member {
        let request = self.request;
        Member {
            instance: request.group_instance_id.clone(),
            client_id: self.client_id.to_owned(),
            session: millis(request.session_timeout_ms),
            rebalance: millis(request.rebalance_timeout_ms),
            protocols: self.protocols(),
            assignment: Bytes::new(),
            waits: WaitsFor::Join(self.connection),
            is_new: true,
            deadline: Some(self.now.saturating_add(NEW_MEMBER_TIMEOUT)),
        }
    }

    pub fn reply_error(&self, replies: &mut PendingReplies, member_id: &str, error_code: ErrorCode) {
        let response = join_group::Response { member_id: member_id.to_owned(), error_code, ..Default::default() };
        replies.complete(self.connection, GroupReply::Join(response));
    }
}

impl Member {
    pub fn from_migrant(now: Time, migrant: Migrant) -> Self {
        let Migrant { instance, client_id, session, rebalance, protocols, assignment, .. } = migrant;
        let deadline = Some(now.saturating_add(session));
        let waits = WaitsFor::No;
        Self { instance, client_id, session, rebalance, protocols, assignment, waits, is_new: false, deadline }
    }

    pub fn migrant(&self, id: &str) -> Migrant {
        Migrant {
            id: id.to_owned(),
            instance: self.instance.clone(),
            client_id: self.client_id.clone(),
            session: self.session,
            rebalance: self.rebalance,
            protocols: self.protocols.clone(),
            assignment: self.assignment.clone(),
        }
    }

    /// Returns the approximate memory of a member with this ID.
    pub fn memory_size(&self, id: &str) -> usize {
        let protocols = self.protocols.iter().map(|(name, metadata)| name.len() + metadata.len() + 64);
        let instance = self.instance.as_ref().map_or(0, |instance| 2 * instance.len() + 64);
        MEMBER_MEMORY
            + 2 * id.len()
            + self.client_id.len()
            + instance
            + self.assignment.len()
            + protocols.sum::<usize>()
    }

    pub fn touch(&mut self, now: Time) {
        self.deadline = Some(now.saturating_add(self.session));
    }

    /// Updates the metadata from a new request.
    pub fn update(&mut self, joining: &Joining<'_>, protocols: Vec<(String, Bytes)>) {
        self.protocols = protocols;
        self.session = millis(joining.request.session_timeout_ms);
        self.rebalance = millis(joining.request.rebalance_timeout_ms);
        self.waits = WaitsFor::Join(joining.connection);
    }

    pub fn names(&self) -> BTreeSet<&str> {
        self.protocols.iter().map(|(name, _)| name.as_str()).collect()
    }

    pub fn has_joined(&self) -> bool {
        matches!(self.waits, WaitsFor::Join(_))
    }

    pub fn metadata(&self, protocol: Option<&str>) -> Bytes {
        let metadata = self.protocols.iter().find(|(name, _)| Some(name.as_str()) == protocol);
        metadata.map(|(_, metadata)| metadata.clone()).unwrap_or_default()
    }

    /// Replies with an error to the request for whose reply the member waits.
    pub fn reply_error(&mut self, id: &str, error_code: ErrorCode, replies: &mut PendingReplies) {
        match std::mem::replace(&mut self.waits, WaitsFor::No) {
            WaitsFor::Join(connection) => {
                let response = join_group::Response { member_id: id.to_owned(), error_code, ..Default::default() };
                replies.complete(connection, GroupReply::Join(response));
            }
            WaitsFor::Sync(connection) => reply_sync_error(replies, connection, error_code),
            WaitsFor::No => {}
        }
    }
}

pub(super) fn reply_sync_error(replies: &mut PendingReplies, connection: Connection, error_code: ErrorCode) {
    replies.complete(connection, GroupReply::Sync(sync_group::Response { error_code, ..Default::default() }));
}
