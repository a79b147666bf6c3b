//! The deadlines of a state machine, in one table. `next_timeout` returns the earliest deadline of the table.
//!
//! A state machine names its deadlines in an enum. Before an action that may have to wait, the state machine calls
//! [`Timers::is_due`]. If the deadline has not passed, `is_due` arms the timer. The code therefore cannot forget to arm
//! a timer:
//!
//! ```text
//! fn step(&mut self, now: Time) {
//!     self.timers.clear();                                    // what still waits arms its timer again below
//!     if !self.in_flight && self.timers.is_due(Timer::Heartbeat, self.heartbeat_at, now) {
//!         self.send_heartbeat(now);
//!     }
//! }
//! fn next_timeout(&self) -> Option<Time> { self.timers.next_timeout() }
//! ```
//!
//! `step` has to run after each input and before `next_timeout`. After each input, the driver calls `poll_send` until
//! `poll_send` returns `None`. If no request waits to be sent, `poll_send` calls `step`. State machines without a
//! `step` function keep the deadline in the table itself: [`Timers::set`] when the wait begins, [`Timers::stop`] when
//! it ends, and [`Timers::has_passed`] in `handle_timeout`.

use super::Time;

/// The armed timers of a state machine. `K` is an enum with one variant for each deadline.
#[derive(Clone, Debug)]
pub struct Timers<K>(Vec<(K, Time)>);

impl<K> Default for Timers<K> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<K: Copy + PartialEq> Timers<K> {
    /// Returns whether a deadline has passed. If not, arms the timer.
    pub fn is_due(&mut self, timer: K, deadline: Time, now: Time) -> bool {
        let is_due = deadline <= now;
        if !is_due {
            self.set(timer, deadline);
        }
        is_due
    }

    /// Arms a timer, or changes its deadline.
    pub fn set(&mut self, timer: K, deadline: Time) {
        match self.0.iter_mut().find(|(armed, _)| *armed == timer) {
            Some((_, at)) => *at = deadline,
            None => self.0.push((timer, deadline)),
        }
    }

    /// Disarms a timer.
    pub fn stop(&mut self, timer: K) {
        self.0.retain(|(armed, _)| *armed != timer);
    }

    /// Disarms all timers.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Returns the deadline of a timer, if the timer is armed.
    pub fn get(&self, timer: K) -> Option<Time> {
        self.0.iter().find(|(armed, _)| *armed == timer).map(|(_, at)| *at)
    }

    /// Returns whether a timer is armed and its deadline has passed.
    pub fn has_passed(&self, timer: K, now: Time) -> bool {
        self.get(timer).is_some_and(|at| at <= now)
    }

    /// Returns the earliest deadline of all armed timers.
    pub fn next_timeout(&self) -> Option<Time> {
        self.0.iter().map(|(_, at)| *at).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy, PartialEq)]
    enum Timer {
        Heartbeat,
        Retry,
    }

    #[test]
    fn what_is_held_back_arms_its_timer() {
        let mut timers = Timers::default();
        assert!(timers.is_due(Timer::Heartbeat, Time(5), Time(5)));
        assert_eq!(timers.next_timeout(), None);
        assert!(!timers.is_due(Timer::Heartbeat, Time(9), Time(5)));
        assert!(!timers.is_due(Timer::Retry, Time(7), Time(5)));
        assert_eq!(timers.next_timeout(), Some(Time(7)));
        timers.clear();
        assert_eq!(timers.next_timeout(), None);
    }

    #[test]
    fn a_timer_passes_at_its_deadline_until_it_is_stopped() {
        let mut timers = Timers::default();
        timers.set(Timer::Retry, Time(3));
        timers.set(Timer::Retry, Time(4));
        assert!(!timers.has_passed(Timer::Retry, Time(3)) && timers.has_passed(Timer::Retry, Time(4)));
        assert!(!timers.has_passed(Timer::Heartbeat, Time(9)));
        timers.stop(Timer::Retry);
        assert!(!timers.has_passed(Timer::Retry, Time(4)) && timers.get(Timer::Retry).is_none());
    }
}
