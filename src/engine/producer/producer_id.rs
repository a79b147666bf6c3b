//! Producer ID and epoch of an idempotent producer (KIP-98, KIP-360).
//!
//! ```text
//! Unknown ──InitProducerId sent──► Requested ──response──► Known ──sequence gap──► Draining ──nothing in flight──► Known
//!    ▲────────────────error────────────┘                                               └──last epoch used──► Unknown
//! ```
//!
//! A batch that fails for good leaves a gap in the sequence numbers. After a gap, the producer sends no new batch until
//! all requests in flight are complete. With the next epoch, every partition starts at sequence number 0 again. If the
//! result of some batches is unknown, the producer retries these batches unchanged before their partition starts the
//! new epoch. A transactional producer gets its ID and epoch from the module `transaction`, not from this file.

use crate::engine::{Backoff, Time};
use crate::record::Producer;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProducerIdState {
    /// The producer is not idempotent.
    NotNeeded,
    /// The producer ID is not known, and the producer requests it at this time.
    Unknown(Time),
    Requested,
    /// The producer ID and the epoch are known.
    Known(i64, i16),
    /// The epoch has a gap in the sequence numbers, and ends when nothing is in flight.
    Draining(i64, i16),
}

/// State machine of the producer ID and epoch.
#[derive(Debug)]
pub struct ProducerId {
    state: ProducerIdState,
    transactional: bool,
    backoff: Backoff,
}

impl ProducerId {
    /// Creates the state machine. Only an idempotent or transactional producer needs an ID.
    pub fn new(idempotent: bool, transactional: bool, backoff: Backoff) -> Self {
        let state = match (idempotent, transactional) {
            (_, true) => ProducerIdState::Unknown(Time::NEVER),
            (true, false) => ProducerIdState::Unknown(Time(0)),
            (false, false) => ProducerIdState::NotNeeded,
        };
        Self { state, transactional, backoff }
    }

    /// Returns whether batches get sequence numbers.
    pub fn is_idempotent(&self) -> bool {
        self.state != ProducerIdState::NotNeeded
    }

    /// Returns the producer ID, epoch and sequence number of a new batch, or `None` while the producer may not send
    /// batches.
    pub fn producer(&self, sequence: i32) -> Option<Producer> {
        match self.state {
            ProducerIdState::NotNeeded => Some(Producer::NONE),
            ProducerIdState::Known(id, epoch) => {
                Some(Producer { id, epoch, base_sequence: sequence, transactional: self.transactional })
            }
            _ => None,
        }
    }

    /// Returns true if InitProducerId is due, and notes that it is sent.
    pub fn request(&mut self, now: Time) -> bool {
        let due = matches!(self.state, ProducerIdState::Unknown(at) if at <= now);
        if due {
            self.state = ProducerIdState::Requested;
        }
        due
    }

    /// Returns when InitProducerId is due.
    pub fn next_timeout(&self) -> Option<Time> {
        match self.state {
            ProducerIdState::Unknown(at) => Some(at).filter(|at| *at < Time::NEVER),
            _ => None,
        }
    }

    /// Starts to use a producer ID and epoch.
    pub fn set(&mut self, id: i64, epoch: i16) {
        self.backoff.reset();
        self.state = ProducerIdState::Known(id, epoch);
    }

    /// Returns whether the producer may work without a producer ID.
    pub fn is_optional(&self, is_required: bool) -> bool {
        !is_required && !self.transactional
    }

    /// Continues without idempotence, because the broker is older than Kafka 0.11, or a log has an older message
    /// format.
    pub fn disable_idempotence(&mut self) {
        self.state = ProducerIdState::NotNeeded;
    }

    /// Notes that InitProducerId failed, and schedules the retry.
    pub fn schedule_retry(&mut self, now: Time) {
        self.state = ProducerIdState::Unknown(now + self.backoff.next_wait());
    }

    /// Notes a gap in the sequence numbers, after which the epoch must end.
    pub fn request_epoch_bump(&mut self) {
        if let (ProducerIdState::Known(id, epoch), false) = (self.state, self.transactional) {
            self.state = ProducerIdState::Draining(id, epoch);
        }
    }

    /// Starts the next epoch if the old epoch is draining and nothing is in flight. After the last epoch, requests a
    /// new ID. Returns whether the sequence numbers must restart.
    pub fn bump_epoch_if_drained(&mut self, in_flight: usize) -> bool {
        let ProducerIdState::Draining(id, epoch) = self.state else {
            return false;
        };
        if in_flight == 0 {
            self.state = epoch
                .checked_add(1)
                .map_or(ProducerIdState::Unknown(Time(0)), |epoch| ProducerIdState::Known(id, epoch));
        }
        in_flight == 0
    }
}
