//! Decides when to log a problem that persists: at once, and then again after waits that double from 1 to 60 seconds.

use super::Time;
use std::time::Duration;

/// The first and the longest wait.
const WAITS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// Decides when the log lines about one problem are due.
#[derive(Clone, Debug)]
pub struct Reminder {
    next: Time,
    wait: Duration,
}

impl Default for Reminder {
    fn default() -> Self {
        Self { next: Time(0), wait: WAITS.0 }
    }
}

impl Reminder {
    /// Creates a reminder whose first log line is due at `time`.
    pub fn from(time: Time) -> Self {
        Self { next: time, ..Self::default() }
    }

    /// Returns whether a log line is due. If so, doubles the wait until the next line.
    pub fn is_due(&mut self, now: Time) -> bool {
        let is_due = self.next <= now;
        if is_due {
            self.next = now + self.wait;
            self.wait = (self.wait * 2).min(WAITS.1);
        }
        is_due
    }

    /// Returns when the next log line is due.
    pub fn next(&self) -> Time {
        self.next
    }

    /// Returns whether the problem was logged.
    pub fn was_logged(&self) -> bool {
        self.wait > WAITS.0
    }

    /// Notes that the problem is over.
    pub fn end(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_that_lasts_is_logged_at_once_and_less_and_less_often() {
        let mut reminder = Reminder::default();
        assert!(!reminder.was_logged());
        let mut due = |seconds: u64| reminder.is_due(Time(seconds * 1_000_000));
        let times: Vec<u64> = (5..300).filter(|second| due(*second)).collect();
        assert_eq!(times, [5, 6, 8, 12, 20, 36, 68, 128, 188, 248]);
        assert!(reminder.was_logged());
        reminder.end();
        assert!(!reminder.was_logged() && reminder.is_due(Time(0)));
    }
}
