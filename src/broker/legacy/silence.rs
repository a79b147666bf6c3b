//! Faults of legacy brokers: requests that are dropped, and requests that the broker handles late, or never.
//!
//! A request that is handled late holds up all later requests of its connection. The faults that change replies are left
//! out, because most legacy requests get none.

use super::super::fault::{Action, Fault};
use super::{Brokers, Connection, Time};
use bytes::Bytes;
use std::collections::{BTreeMap, VecDeque};

/// The active faults, and the requests that wait because of them.
#[derive(Debug, Default)]
pub(super) struct Silence {
    faults: Vec<Fault>,
    /// By connection: when its first request is handled, and its requests.
    held: BTreeMap<Connection, (Time, VecDeque<Bytes>)>,
}

impl Silence {
    pub fn forget(&mut self, connection: Connection) {
        self.held.remove(&connection);
    }

    pub fn next_timeout(&self) -> Option<Time> {
        self.held.values().map(|(at, _)| *at).min()
    }

    fn select(&mut self, node: i32) -> Option<Action> {
        let index = self.faults.iter().position(|fault| fault.node.is_none_or(|its| its == node))?;
        let fault = self.faults.get_mut(index)?;
        let action = fault.action;
        if let Some(times) = &mut fault.times {
            *times = times.saturating_sub(1);
            if *times == 0 {
                self.faults.remove(index);
            }
        }
        Some(action)
    }
}

impl Brokers {
    /// Adds a fault. Returns an error for what legacy brokers do not support.
    pub fn fault(&mut self, fault: Fault) -> Result<(), String> {
        let is_plain = fault.api.is_none() && fault.topic.is_none() && fault.probability >= 1.0;
        if !is_plain || !matches!(fault.action, Action::Delay(_) | Action::Drop) {
            return Err(
                "legacy brokers (Kafka 0.6 and 0.7) only support the faults delay and drop, without api, topic and \
                        probability"
                    .to_owned(),
            );
        }
        self.silence.faults.push(fault);
        Ok(())
    }

    /// Removes all faults. Requests that wait stay late.
    pub fn clear_faults(&mut self) {
        self.silence.faults.clear();
    }

    /// Returns a request to handle now. A request that is dropped or late is not returned.
    pub(super) fn apply_faults(&mut self, now: Time, connection: Connection, node: i32, frame: Bytes) -> Option<Bytes> {
        if let Some((_, frames)) = self.silence.held.get_mut(&connection) {
            frames.push_back(frame);
            return None;
        }
        match self.silence.select(node) {
            Some(Action::Delay(delay)) => {
                self.silence.held.insert(connection, (now + delay, [frame].into()));
                None
            }
            Some(_) => {
                self.close(connection);
                None
            }
            None => Some(frame),
        }
    }

    /// Handles late requests whose time has come, and the requests after them.
    pub(super) fn handle_late(&mut self, now: Time) {
        let due: Vec<_> = self.silence.held.extract_if(.., |_, (at, _)| *at <= now).collect();
        for (connection, (_, mut frames)) in due {
            if let (Some(first), Some(&node)) = (frames.pop_front(), self.clients.get(&connection)) {
                self.handle_now(now, connection, node, first);
            }
            for frame in frames {
                self.handle(now, connection, frame);
            }
        }
    }
}
