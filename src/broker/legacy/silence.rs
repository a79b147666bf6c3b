//! Injected faults of legacy brokers: the broker handles a request late, or closes the connection without handling the
//! request.
//!
//! A request that is handled late delays all later requests of its connection. There are no faults that change replies,
//! because most legacy requests get no reply.

use super::super::clock::Time;
use super::super::fault::{Action, Fault};
use super::super::ids::Connection;
use bytes::Bytes;
use std::collections::{BTreeMap, VecDeque};

/// The active faults, and the requests that wait because of them.
#[derive(Debug, Default)]
pub(super) struct Silence {
    faults: Vec<Fault>,
    /// For each connection: the time at which the broker handles the first waiting request, and the waiting requests.
    held: BTreeMap<Connection, (Time, VecDeque<Bytes>)>,
}

/// The decision about a request.
pub(super) enum Fate {
    /// The broker handles the request now.
    Handled(Bytes),
    /// The broker handles the request later.
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

    /// Adds a fault. Returns an error if legacy brokers do not support the fault.
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

    /// Removes all faults. Requests that already wait are still handled late.
    pub fn clear(&mut self) {
        self.faults.clear();
    }

    /// Decides what the broker does with a request.
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

    /// Removes and returns the late requests that are due, and the later requests of the same connections.
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
