//! Sets client quotas, and counts requests towards the quotas.

use super::State;
use crate::broker::journal::Entry;
use crate::broker::quotas::{Client, Entity, quota_memory};
use crate::broker::request::Context;
use std::time::Duration;

impl State {
    /// Sets or removes a quota. Returns false if the memory limit is reached.
    pub fn set_quota(&mut self, entity: &Entity, key: &str, value: Option<f64>) -> bool {
        match (self.quotas.has(entity, key), value) {
            (false, None) => return true,
            (false, Some(_)) if !self.memory.try_reserve(quota_memory(entity)) => return false,
            (true, None) => self.memory.release(quota_memory(entity)),
            _ => {}
        }
        self.quotas.change(entity, key, value);
        self.journal.append(|| Entry::quota(entity, key, value));
        true
    }

    /// Counts bytes towards the client's rate, and returns for how long the broker throttles the client.
    pub fn meter(&mut self, context: &Context, key: &'static str, bytes: usize) -> Duration {
        self.metered(context).map_or(Duration::ZERO, |client| self.quotas.meter(&client, key, bytes))
    }

    /// Subtracts bytes from the client's rate, if the rate contains more than these bytes. Returns whether it
    /// subtracted them.
    pub fn unmeter(&mut self, context: &Context, key: &'static str, bytes: usize) -> bool {
        self.metered(context).is_some_and(|client| self.quotas.unmeter(&client, key, bytes))
    }

    /// Returns how many bytes the client may have in one response, at most `limit_bytes`.
    pub fn max_response_bytes(&self, context: &Context, key: &str, limit_bytes: i32) -> i32 {
        self.metered(context).map_or(limit_bytes, |client| self.quotas.max_response_bytes(&client, key, limit_bytes))
    }

    /// Returns the client of a request, or `None` if no quota is set.
    fn metered<'a>(&self, context: &'a Context) -> Option<Client<'a>> {
        (!self.quotas.is_empty()).then(|| Client {
            now: context.clock.now,
            node: context.node,
            connection: context.connection,
            principal: self.principal(context.connection),
            client_id: context.client_id.as_deref().unwrap_or(""),
        })
    }
}
