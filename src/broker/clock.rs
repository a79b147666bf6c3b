//! The cluster's two clocks: the time since its start, and the wall clock.
//!
//! Only the server reads a system clock. The server passes the time to the cluster, so that tests can pass a simulated
//! time.

use std::time::Duration;

/// Time since the cluster started.
pub type Time = Duration;

/// Converts milliseconds from a request or configuration. A negative number counts as 0.
pub(super) fn millis(ms: i32) -> Duration {
    Duration::from_millis(u64::try_from(ms).unwrap_or(0))
}

/// The time at which a request is handled.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    pub now: Time,
    /// Wall clock, in milliseconds since 1970.
    pub wall_ms: i64,
}

impl Clock {
    /// Returns the clock of a cluster that started at `start_ms`.
    pub fn new(now: Time, start_ms: i64) -> Self {
        Self { now, wall_ms: start_ms.saturating_add(i64::try_from(now.as_millis()).unwrap_or(i64::MAX)) }
    }
}
