//! Replies to JoinGroup and SyncGroup requests that wait for other members.
//!
//! A handler registers the connection before it changes the group. When a later change of the group completes the
//! request, the group stores the reply in [`PendingReplies`], and the cluster sends the reply.

use crate::api::{join_group, sync_group};
use crate::broker::ids::Connection;
use std::collections::BTreeMap;

/// A reply to a request that waited for other members.
#[derive(Debug)]
pub(in crate::broker) enum GroupReply {
    Join(join_group::Response),
    Sync(sync_group::Response),
}

/// The requests that wait, and the replies that are ready.
#[derive(Debug, Default)]
pub(in crate::broker) struct PendingReplies {
    waiting: BTreeMap<Connection, Option<GroupReply>>,
    ready: Vec<Connection>,
}

impl PendingReplies {
    /// Registers a connection that waits for a reply.
    pub fn register(&mut self, connection: Connection) {
        self.waiting.insert(connection, None);
    }

    /// Stores the reply for a connection. Does nothing if the connection no longer waits.
    pub fn complete(&mut self, connection: Connection, reply: GroupReply) {
        if let Some(waiting) = self.waiting.get_mut(&connection) {
            *waiting = Some(reply);
            self.ready.push(connection);
        }
    }

    /// Removes and returns the reply for a connection. The connection then no longer waits. Returns `None` if there is
    /// no reply yet.
    pub fn take(&mut self, connection: Connection) -> Option<GroupReply> {
        let reply = self.waiting.get_mut(&connection)?.take()?;
        self.waiting.remove(&connection);
        Some(reply)
    }

    pub fn forget(&mut self, connection: Connection) {
        self.waiting.remove(&connection);
    }

    /// Returns a connection whose reply is ready.
    pub fn next_ready(&mut self) -> Option<Connection> {
        self.ready.pop()
    }
}
