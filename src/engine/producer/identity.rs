//! Who an idempotent producer is: `Unknown` → `Asked` → `Known`, and back to `Unknown` through `Draining` when a
//! sequence has a gap: then nothing new is sent until nothing is in flight, and a fresh id starts every partition
//! at sequence 0 (what KIP-360 does with an epoch).

use crate::engine::{Backoff, Time};
use crate::record::Producer;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    NotNeeded,
    Unknown(Time),
    Asked,
    Known(i64, i16),
    Draining,
}

/// The identity's machine.
#[derive(Debug)]
pub struct Identity {
    state: State,
    backoff: Backoff,
}

impl Identity {
    /// An identity that is needed if the producer is idempotent.
    pub fn new(idempotent: bool, backoff: Backoff) -> Self {
        Self { state: if idempotent { State::Unknown(Time(0)) } else { State::NotNeeded }, backoff }
    }

    /// Whether sequences are kept.
    pub fn is_idempotent(&self) -> bool {
        self.state != State::NotNeeded
    }

    /// What batches may be sent as: `None` while nothing may be sent.
    pub fn producer(&self, sequence: i32) -> Option<Producer> {
        match self.state {
            State::NotNeeded => Some(Producer::NONE),
            State::Known(id, epoch) => Some(Producer { id, epoch, base_sequence: sequence, transactional: false }),
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
            State::Unknown(at) => Some(at),
            _ => None,
        }
    }

    /// Takes an id in.
    pub fn known(&mut self, id: i64, epoch: i16) {
        self.backoff.reset();
        self.state = State::Known(id, epoch);
    }

    /// Takes in that no id was given.
    pub fn refused(&mut self, now: Time) {
        self.state = State::Unknown(now + self.backoff.next_wait());
    }

    /// A sequence has a gap: the id is of no use any more.
    pub fn abandon(&mut self) {
        if self.is_idempotent() {
            self.state = State::Draining;
        }
    }

    /// If the old id is being abandoned and nothing is in flight under it, a new one may be asked for.
    pub fn drained(&mut self, in_flight: usize) -> bool {
        let done = self.state == State::Draining && in_flight == 0;
        if done {
            self.state = State::Unknown(Time(0));
        }
        done
    }
}
