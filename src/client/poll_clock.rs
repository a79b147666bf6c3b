//! Measures how often an application polls, and how long the application works between polls. Only the polling thread
//! writes the measurements, so there is almost no contention for their lock.

use crate::engine::Time;
use crate::engine::consumer::Polls;
use crate::engine::metrics::Family;
use std::sync::{Mutex, PoisonError};

/// The measurements of the polls of one consumer.
#[derive(Default)]
pub(super) struct PollClock(Mutex<Polls>);

impl PollClock {
    /// Notes that a poll begins or ends.
    pub fn note(&self, now: Time, begins: bool) {
        let mut polls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if begins { polls.begin(now) } else { polls.end(now) }
    }

    /// Returns the metrics about polls.
    pub fn family(&self, group: &'static str, now: Time) -> Family {
        let mut family = Family::new(group);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).put(&mut family, now);
        family
    }
}
