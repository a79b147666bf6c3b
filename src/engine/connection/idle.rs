//! Decides when to close an idle connection, and when the broker must first answer a small request to show that the
//! connection still works.

use super::{Connection, ConnectionState, ConnectionTimer};
use crate::api::Release;
use crate::engine::Time;
use crate::engine::version_probe::probe_request;
use std::time::Duration;

/// How long a connection may be idle before it needs a check, unless the connection has survived a longer silence.
const IDLE_CHECK: Duration = Duration::from_secs(2);
/// How much longer than its longest silence a connection may be idle without a check.
const CHECK_SLACK: Duration = Duration::from_millis(500);
/// How long the broker may take to respond to the check.
const CHECK_TIMEOUT: Duration = Duration::from_secs(2);

impl<T> Connection<T> {
    /// Returns whether the broker has to show that an idle connection is alive.
    pub fn is_checking(&self) -> bool {
        self.state == ConnectionState::Checking
    }

    /// Sends the broker a small request if the connection was idle for longer than it is known to survive, because
    /// routers and load balancers drop idle connections silently. Returns whether requests have to wait for the
    /// response.
    pub fn check_if_idle(&mut self, now: Time) -> bool {
        let is_due = now.since(self.received_at) > IDLE_CHECK.max(self.longest_silence + CHECK_SLACK);
        let ends = |timer| self.timers.get(timer).is_some_and(|at| at <= now + CHECK_TIMEOUT);
        if !self.is_ready() || !is_due || !self.is_unused() || ends(ConnectionTimer::Renewal) {
            return false;
        }
        self.state = ConnectionState::Checking;
        self.ask_anything(now + CHECK_TIMEOUT);
        true
    }

    /// Returns when the connection will have been idle for `max`. Returns `None` while a request is in flight.
    pub fn idle_at(&self, max: Duration) -> Option<Time> {
        (self.is_ready() && self.is_unused() && !self.is_unconfirmed).then(|| self.used_at + max)
    }

    /// Notes that the connection is used.
    pub fn note_use(&mut self, now: Time) {
        self.used_at = now;
    }

    /// Returns whether the connection has been idle for at least `max`.
    pub fn is_idle_since(&self, now: Time, max: Option<Duration>) -> bool {
        max.and_then(|max| self.idle_at(max)).is_some_and(|at| at <= now)
    }

    fn is_unused(&self) -> bool {
        self.in_flight.is_empty() && self.unanswered.is_empty()
    }

    /// Sends a request whose response shows that the broker has read all earlier requests, for
    /// [`Connection::is_unconfirmed`].
    pub fn ask_confirmation(&mut self) {
        if self.is_ready() {
            self.ask_anything(Time::NEVER);
        }
    }

    fn ask_anything(&mut self, deadline: Time) {
        match self.release {
            // A request this small can always be encoded.
            Some(_) => drop(self.ask(&*probe_request(Release::V0_8_0), 0, deadline)),
            None => self.ask_versions(0, deadline),
        }
    }
}
