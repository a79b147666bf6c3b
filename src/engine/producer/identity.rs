//! Who an idempotent producer is: `Unknown` → `Asked` → `Known`, and through `Draining` to `Known` again when a
//! sequence has a gap: then nothing new is sent until nothing is in flight, and the next epoch starts every partition
//! at sequence 0 (KIP-360), those that hold batches of unknown outcome once these are settled under the old one. A
//! transactional producer is told who it is by its transactions.

use crate::engine::{Backoff, Time};
use crate::record::Producer;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    NotNeeded,
    Unknown(Time),
    Asked,
    Known(i64, i16),
    Draining(i64, i16),
}

/// The identity's machine.
#[derive(Debug)]
pub struct Identity {
    state: State,
    transactional: bool,
    backoff: Backoff,
}

impl Identity {
    /// An identity that is needed if the producer is idempotent.
    pub fn new(idempotent: bool, transactional: bool, backoff: Backoff) -> Self {
        let state = match (idempotent, transactional) {
            (_, true) => State::Unknown(Time::NEVER),
            (true, false) => State::Unknown(Time(0)),
            (false, false) => State::NotNeeded,
        };
        Self { state, transactional, backoff }
    }

    /// Whether sequences are kept.
    pub fn is_idempotent(&self) -> bool {
        self.state != State::NotNeeded
    }

    /// What batches may be sent as: `None` while nothing may be sent.
    pub fn producer(&self, sequence: i32) -> Option<Producer> {
        match self.state {
            State::NotNeeded => Some(Producer::NONE),
            State::Known(id, epoch) => {
                Some(Producer { id, epoch, base_sequence: sequence, transactional: self.transactional })
            }
            _ => None,
        }
    }

    /// Whether InitProducerId has to be sent now; notes that it is.
    pub fn ask(&mut self, now: Time) -> bool {
        let due = matches!(self.state, State::Unknown(at) if at <= now);
        if due {
            self.state = State::Asked;
        }
        due
    }

    /// When to ask again.
    pub fn next_timeout(&self) -> Option<Time> {
        match self.state {
            State::Unknown(at) => Some(at).filter(|at| *at < Time::NEVER),
            _ => None,
        }
    }

    /// Takes an id in.
    pub fn known(&mut self, id: i64, epoch: i16) {
        self.backoff.reset();
        self.state = State::Known(id, epoch);
    }

    /// Whether it may be done without.
    pub fn is_optional(&self, is_required: bool) -> bool {
        !is_required && !self.transactional
    }

    /// Does without: the brokers are older than Kafka 0.11, or keep a log in the format of one that is.
    pub fn renounce(&mut self) {
        self.state = State::NotNeeded;
    }

    /// Takes in that no id was given.
    pub fn refused(&mut self, now: Time) {
        self.state = State::Unknown(now + self.backoff.next_wait());
    }

    /// A sequence has a gap: the epoch is of no use any more.
    pub fn abandon(&mut self) {
        if let (State::Known(id, epoch), false) = (self.state, self.transactional) {
            self.state = State::Draining(id, epoch);
        }
    }

    /// If the old epoch is being abandoned and nothing is in flight under it, the next one begins. After the last epoch
    /// a new id is asked for.
    pub fn drained(&mut self, in_flight: usize) -> bool {
        let State::Draining(id, epoch) = self.state else {
            return false;
        };
        if in_flight == 0 {
            self.state = epoch.checked_add(1).map_or(State::Unknown(Time(0)), |epoch| State::Known(id, epoch));
        }
        in_flight == 0
    }
}
