//! Faults of legacy brokers: requests that the broker drops, handles late, or never handles.
//!
//! A late request delays all later requests of its connection. Faults that change replies are left out, because most
//! legacy requests get no reply.

use super::super::clock::Time;
use super::super::fault::{Action, Fault};
use super::super::ids::Connection;
use bytes::Bytes;
use std::collections::{BTreeMap, VecDeque};

/// The active faults, and the requests that wait because of them.
#[derive(Debug, Default)]
pub(super) struct Silence {
    faults: Vec<Fault>,
    /// By connection: when its first request is handled, and its requests.
    held: BTreeMap<Connection, (Time, VecDeque<Bytes>)>,
}

/// What a fault does with a request.
pub(super) enum Fate {
    /// The broker handles it now.
    Handled(Bytes),
    /// The broker handles it later.
    Held,
    /// The broker closes the connection.
    Dropped,
}

impl Silence {
    pub fn forget(&mut self, connection: Connection) {
        self.held.remove(&connection);
    }

    pub fn next_timeout(&self) -> Option<Time> {
        self.held.values().map(|(at, _)| *at).min()
    }

    /// Adds a fault. Returns an error for what legacy brokers do not support.
    pub fn add(&mut self, fault: Fault) -> Result<(), String> {
        let is_plain = fault.api.is_none() && fault.topic.is_none() && fault.probability >= 1.0;
        if !is_plain || !matches!(fault.action, Action::Delay(_) | Action::Drop) {
            let why = "legacy brokers (Kafka 0.6 and 0.7) only support the faults delay and drop, without api, topic and \
                       probability";
            return Err(why.to_owned());
        }
        self.faults.push(fault);
        Ok(())
    }

    /// Removes all faults. Requests that wait stay late.
    pub fn clear(&mut self) {
        self.faults.clear();
    }

    /// Returns what to do with a request.
    pub fn apply(&mut self, now: Time, connection: Connection, node: i32, frame: Bytes) -> Fate {
        if let Some((_, frames)) = self.held.get_mut(&connection) {
            frames.push_back(frame);
            return Fate::Held;
        }
        match self.select(node) {
            Some(Action::Delay(delay)) => {
                self.held.insert(connection, (now + delay, [frame].into()));
                Fate::Held
            }
            Some(_) => Fate::Dropped,
            None => Fate::Handled(frame),
        }
    }

    /// Removes and returns the late requests whose time has come, with those after them.
    pub fn take_due(&mut self, now: Time) -> Vec<(Connection, VecDeque<Bytes>)> {
        let due = self.held.extract_if(.., |_, (at, _)| *at <= now);
        due.map(|(connection, (_, frames))| (connection, frames)).collect()
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
