//! Group configurations (KIP-848, KIP-932): session and lock durations, heartbeat intervals, and where a share group
//! starts.
//!
//! Left out: Kafka's bounds for these values, which would slow tests down; the form `by_duration:` of
//! `share.auto.offset.reset`; and names without an effect here.

use std::time::Duration;

const RESET: &str = "share.auto.offset.reset";

/// The effective configuration of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::broker) struct Configs {
    pub consumer_heartbeat_ms: i32,
    consumer_session_ms: i32,
    pub share_heartbeat_ms: i32,
    pub share_lock_ms: i32,
    share_session_ms: i32,
    pub share_from_start: bool,
}

impl Default for Configs {
    /// Returns Kafka's defaults, except for the heartbeat intervals, which are 5 s in Kafka. A member learns its
    /// assignment with a heartbeat, and tests should not wait that long.
    fn default() -> Self {
        Self {
            consumer_heartbeat_ms: 500,
            consumer_session_ms: 45_000,
            share_heartbeat_ms: 500,
            share_lock_ms: 30_000,
            share_session_ms: 45_000,
            share_from_start: false,
        }
    }
}

impl Configs {
    /// Returns the session timeout of a member of a KIP-848 group.
    pub fn consumer_session(&self) -> Duration {
        millis(self.consumer_session_ms)
    }

    /// Returns the session timeout of a member of a share group.
    pub fn share_session(&self) -> Duration {
        millis(self.share_session_ms)
    }

    /// Returns how long a member may hold an acquired record.
    pub fn share_lock(&self) -> Duration {
        millis(self.share_lock_ms)
    }

    /// Returns all configurations: name, value and whether it is the default.
    pub fn list(&self) -> Vec<(&'static str, String, bool)> {
        let default = Self::default();
        let reset = |from_start: bool| if from_start { "earliest" } else { "latest" };
        let numbers = [
            ("consumer.heartbeat.interval.ms", self.consumer_heartbeat_ms, default.consumer_heartbeat_ms),
            ("consumer.session.timeout.ms", self.consumer_session_ms, default.consumer_session_ms),
            ("share.heartbeat.interval.ms", self.share_heartbeat_ms, default.share_heartbeat_ms),
            ("share.record.lock.duration.ms", self.share_lock_ms, default.share_lock_ms),
            ("share.session.timeout.ms", self.share_session_ms, default.share_session_ms),
        ];
        let mut all: Vec<_> =
            numbers.into_iter().map(|(name, n, default)| (name, n.to_string(), n == default)).collect();
        all.push((RESET, reset(self.share_from_start).to_owned(), self.share_from_start == default.share_from_start));
        all
    }

    /// Sets a configuration, or resets it to its default. The error is a message.
    pub fn set(&mut self, name: &str, value: Option<&str>) -> Result<(), String> {
        let default = Self::default();
        if name == RESET {
            self.share_from_start = match value.map(str::to_ascii_lowercase).as_deref() {
                None => default.share_from_start,
                Some("latest") => false,
                Some("earliest") => true,
                Some(value) => return Err(format!("Invalid value {value} for configuration {name}")),
            };
            return Ok(());
        }
        let (field, default, least) = match name {
            "consumer.heartbeat.interval.ms" => (&mut self.consumer_heartbeat_ms, default.consumer_heartbeat_ms, 1),
            "consumer.session.timeout.ms" => (&mut self.consumer_session_ms, default.consumer_session_ms, 1),
            "share.heartbeat.interval.ms" => (&mut self.share_heartbeat_ms, default.share_heartbeat_ms, 1),
            "share.record.lock.duration.ms" => (&mut self.share_lock_ms, default.share_lock_ms, 1000),
            "share.session.timeout.ms" => (&mut self.share_session_ms, default.share_session_ms, 1),
            _ => return Err(format!("Unknown group config name: {name}")),
        };
        let Some(value) = value else {
            *field = default;
            return Ok(());
        };
        let refused = |why: &str| Err(format!("Invalid value {value} for configuration {name}: {why}"));
        *field = match value.trim().parse::<i32>() {
            Ok(number) if number >= least => number,
            Ok(_) => return refused(&format!("Value must be at least {least}")),
            Err(_) => return refused("Not a number of type INT"),
        };
        Ok(())
    }
}

fn millis(ms: i32) -> Duration {
    Duration::from_millis(u64::try_from(ms).unwrap_or(0))
}
