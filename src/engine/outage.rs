//! Detects that no broker responds any more. The client reports the outage to the application and keeps retrying.

use super::{Error, ErrorKind, Time};
use std::time::Duration;

/// How long polls do not raise an error again that stays until the application does something else than poll, such as
/// the error that ended a membership. Without this pause, a loop that catches the error would use a whole CPU core.
pub const STANDING_ERROR_PAUSE: Duration = Duration::from_secs(1);

/// The hint of an outage, if its cause has no hint.
const KEEPS_RETRYING: &str = "the client keeps retrying; check the brokers and the network";

/// The time without a response from any broker.
#[derive(Debug)]
pub struct Outage {
    /// How long the outage may last before it is an error.
    timeout: Duration,
    /// When requests began to fail, or when the outage was last reported.
    since: Option<Time>,
    /// The error of the last attempt.
    last: Option<Error>,
    /// Whether `last` names all brokers that were tried.
    is_of_all: bool,
    due: Option<Error>,
}

impl Outage {
    /// Creates a state without failures.
    pub fn new(timeout: Duration) -> Self {
        Self { timeout, since: None, last: None, is_of_all: false, due: None }
    }

    /// Notes the error of a request that was sent at `asked_at`. An error code counts as a response.
    pub fn failed(&mut self, now: Time, asked_at: Time, error: &Error) {
        if error.code().is_some() || !error.is_retriable() {
            return self.ended();
        }
        self.since.get_or_insert(if error.kind() == ErrorKind::Timeout { asked_at } else { now });
        if !self.is_of_all {
            self.last = Some(error.clone());
        }
    }

    /// Notes that the client could not reach any broker.
    pub fn unreachable(&mut self, now: Time, error: &Error) {
        if error.is_retriable() {
            self.since.get_or_insert(now);
            (self.last, self.is_of_all) = (Some(error.clone()), true);
        }
    }

    /// Notes a response from a broker.
    pub fn ended(&mut self) {
        if self.since.is_some() {
            *self = Self::new(self.timeout);
        }
    }

    /// Returns when the outage is an error.
    pub fn next_timeout(&self) -> Option<Time> {
        self.since.filter(|_| self.due.is_none()).map(|since| since + self.timeout)
    }

    /// Makes the outage an error if it has lasted for the timeout, and again after each further timeout. `tried` is
    /// what failed. If `is_wanted` is false, there is no error, but the time also restarts.
    pub fn handle_timeout(&mut self, now: Time, is_wanted: bool, tried: &str) {
        let (Some(last), true) = (&self.last, self.next_timeout().is_some_and(|at| at <= now)) else { return };
        self.due = is_wanted.then(|| Error::in_vain(tried, self.timeout, last, KEEPS_RETRYING));
        self.since = Some(now);
    }

    /// Returns whether [`Outage::take`] has an error.
    pub fn is_due(&self) -> bool {
        self.due.is_some()
    }

    /// Returns the error for the application. Each error is returned once.
    pub fn take(&mut self) -> Option<Error> {
        self.due.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::ErrorCode;

    #[test]
    fn an_outage_is_an_error_each_time_that_its_timeout_passes() {
        let at = |seconds| Time(0) + Duration::from_secs(seconds);
        let mut outage = Outage::new(Duration::from_secs(10));
        let refused = Error::new(ErrorKind::Network, "cannot connect").from_broker("h:1");
        let mut errors = Vec::new();
        for seconds in 1..32 {
            outage.failed(at(seconds), at(seconds), &refused);
            outage.handle_timeout(at(seconds), true, "reading");
            errors.extend(outage.take().map(|error| (seconds, error.to_string())));
        }
        let message =
            "reading did not succeed in 10 s: cannot connect (broker h:1); hint: ".to_owned() + KEEPS_RETRYING;
        assert_eq!(errors, [11, 21, 31].map(|seconds| (seconds, message.clone())));
        outage.failed(at(40), at(40), &Error::refused(ErrorCode::NOT_LEADER_OR_FOLLOWER, "fetch"));
        assert!(outage.next_timeout().is_none(), "an error code is a response");
    }

    #[test]
    fn the_error_names_all_brokers_and_a_silent_one_counts_from_its_request() {
        let at = |seconds| Time(0) + Duration::from_secs(seconds);
        let mut outage = Outage::new(Duration::from_secs(10));
        outage.failed(at(30), at(5), &Error::new(ErrorKind::Timeout, "no response to Fetch in time"));
        assert_eq!(outage.next_timeout(), Some(at(15)));
        outage.unreachable(at(31), &Error::new(ErrorKind::Network, "no broker can be reached: refused (h:1, h:2)"));
        outage.failed(at(32), at(32), &Error::new(ErrorKind::Network, "connection lost"));
        outage.handle_timeout(at(32), true, "reading");
        assert!(outage.take().unwrap().message().contains("h:1, h:2"));
    }
}
