//! Group configurations (KIP-848, KIP-932, KIP-1071): session and lock durations, heartbeat intervals, limits of share
//! groups, and the offset at which a new share group starts.
//!
//! A member receives its assignment in the response to a heartbeat. The default heartbeat interval is 0.5 s instead of
//! Kafka's 5 s, so that tests do not have to wait.
//!
//! The dev broker does not enforce Kafka's bounds for session timeouts and heartbeat intervals, because the bounds
//! would slow tests down. The configurations of streams groups and dead letter queues exist but have no effect.

use crate::api::Release;
use crate::api::describe_configs::{BOOLEAN, INT, LIST, STRING};
use crate::broker::clock::millis;
use crate::broker::configs::{ConfigKey, key};
use crate::broker::node_configs::NodeConfigs;
use std::collections::BTreeMap;
use std::time::Duration;

const RESET: &str = "share.auto.offset.reset";
const ISOLATION: &str = "share.isolation.level";

/// Valid values of a configuration.
#[derive(Clone, Copy, Debug)]
enum ValueType {
    Bool,
    Text,
    List,
    Int { min: i32, max: i32 },
    OneOf(&'static [&'static str]),
    Reset,
}

use ValueType::{Bool, Int, List, OneOf, Reset, Text};

const fn at_least(min: i32) -> ValueType {
    Int { min, max: i32::MAX }
}

use Release::{V4_0, V4_1, V4_2, V4_3, V4_4};

/// Sorted by name.
#[rustfmt::skip]
static CONFIG_KEYS: &[ConfigKey<ValueType>] = &[
    key("consumer.assignment.interval.ms", "1000", Int { min: 0, max: 15_000 }, "group.consumer.assignment.interval.ms", V4_3),
    key("consumer.heartbeat.interval.ms", "500", at_least(1), "group.consumer.heartbeat.interval.ms", V4_0),
    key("consumer.session.timeout.ms", "45000", at_least(1), "group.consumer.session.timeout.ms", V4_0),
    key("errors.deadletterqueue.copy.record.enable", "false", Bool, "", V4_4),
    key("errors.deadletterqueue.topic.name", "", Text, "", V4_4),
    key("share.assignment.interval.ms", "1000", Int { min: 0, max: 15_000 }, "group.share.assignment.interval.ms", V4_3),
    key(RESET, "latest", Reset, "", V4_0),
    key("share.delivery.count.limit", "5", Int { min: 2, max: 10 }, "group.share.delivery.count.limit", V4_3),
    key("share.heartbeat.interval.ms", "500", at_least(1), "group.share.heartbeat.interval.ms", V4_0),
    key(ISOLATION, "read_uncommitted", OneOf(&["read_committed", "read_uncommitted"]), "", V4_1),
    key("share.partition.max.record.locks", "2000", Int { min: 100, max: 4000 }, "group.share.partition.max.record.locks", V4_3),
    key("share.record.lock.duration.ms", "30000", at_least(1000), "group.share.record.lock.duration.ms", V4_0),
    key("share.renew.acknowledge.enable", "true", Bool, "", V4_3),
    key("share.session.timeout.ms", "45000", at_least(1), "group.share.session.timeout.ms", V4_0),
    key("streams.assignment.interval.ms", "1000", Int { min: 0, max: 15_000 }, "group.streams.assignment.interval.ms", V4_3),
    key("streams.assignor.name", "sticky", OneOf(&["sticky"]), "group.streams.assignors", V4_4),
    key("streams.heartbeat.interval.ms", "5000", at_least(1), "group.streams.heartbeat.interval.ms", V4_1),
    key("streams.initial.rebalance.delay.ms", "3000", at_least(0), "group.streams.initial.rebalance.delay.ms", V4_2),
    key("streams.num.standby.replicas", "0", Int { min: 0, max: 2 }, "group.streams.num.standby.replicas", V4_1),
    key("streams.rack.aware.assignment.tags", "", List, "group.streams.rack.aware.assignment.tags", V4_4),
    key("streams.session.timeout.ms", "45000", at_least(1), "group.streams.session.timeout.ms", V4_1),
];

/// The position at which a share group starts to read a new partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::broker) enum ShareStart {
    Latest,
    Earliest,
    /// At the first record that is not older than this duration.
    NotOlderThan(Duration),
}

/// The effective configuration of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::broker) struct Configs {
    pub consumer_heartbeat_ms: i32,
    consumer_session_ms: i32,
    pub share_heartbeat_ms: i32,
    pub share_lock_ms: i32,
    share_session_ms: i32,
    pub share_start: ShareStart,
    /// Whether a share group skips records of aborted transactions, and waits for the end of open transactions.
    pub share_is_committed: bool,
    pub share_max_deliveries: i16,
    pub share_max_locks: usize,
    /// Whether members of a share group may renew their locks.
    pub share_renews: bool,
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

    /// Returns the duration of the acquisition lock of a record.
    pub fn share_lock(&self) -> Duration {
        millis(self.share_lock_ms)
    }
}

/// A configuration, with the fields that DescribeConfigs returns.
pub(in crate::broker) struct Listed<'a> {
    pub name: &'static str,
    pub default: &'static str,
    /// The value that the group sets, if any.
    pub set: Option<&'a str>,
    pub config_type: i8,
    /// The node configuration that sets the default of all groups, or an empty string.
    pub node_config: &'static str,
}

/// The values that a group sets, or that all groups have by default.
#[derive(Clone, Debug, Default)]
pub(in crate::broker) struct Settings(BTreeMap<&'static str, String>);

impl Settings {
    /// Returns the group defaults that node configurations set.
    pub fn of_nodes(nodes: &NodeConfigs) -> Self {
        Self(CONFIG_KEYS.iter().filter_map(|key| Some((key.name, nodes.changed(key.node_config)?))).collect())
    }

    /// Returns all configurations of a release.
    pub fn list(&self, release: Release) -> impl Iterator<Item = Listed<'_>> {
        let keys = CONFIG_KEYS.iter().filter(move |key| key.since <= release);
        keys.map(|key| Listed {
            name: key.name,
            default: key.default,
            set: self.0.get(key.name).map(String::as_str),
            config_type: match key.value_type {
                Bool => BOOLEAN,
                Int { .. } => INT,
                List => LIST,
                Text | OneOf(_) | Reset => STRING,
            },
            node_config: key.node_config,
        })
    }

    /// Returns the values that are set.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.0.iter().map(|(name, value)| (*name, value.as_str()))
    }

    /// Sets a configuration, or resets it to its default. The error is a message.
    pub fn set(&mut self, release: Release, name: &str, value: Option<&str>) -> Result<(), String> {
        let key = CONFIG_KEYS.iter().find(|key| key.name == name && key.since <= release);
        let key = key.ok_or_else(|| format!("Unknown group config name: {name}"))?;
        match value {
            None => drop(self.0.remove(key.name)),
            Some(value) => {
                key.check(value)?;
                self.0.insert(key.name, value.trim().to_owned());
            }
        }
        Ok(())
    }

    /// Returns the effective configuration of a group. `defaults` has the values of all groups.
    pub fn effective(&self, defaults: &Self) -> Configs {
        let value = |name: &str| {
            let set = self.0.get(name).or_else(|| defaults.0.get(name)).map(String::as_str);
            set.or_else(|| CONFIG_KEYS.iter().find(|key| key.name == name).map(|key| key.default)).unwrap_or_default()
        };
        let number = |name| value(name).trim().parse::<i32>().unwrap_or(i32::MAX);
        Configs {
            consumer_heartbeat_ms: number("consumer.heartbeat.interval.ms"),
            consumer_session_ms: number("consumer.session.timeout.ms"),
            share_heartbeat_ms: number("share.heartbeat.interval.ms"),
            share_lock_ms: number("share.record.lock.duration.ms"),
            share_session_ms: number("share.session.timeout.ms"),
            share_start: start(value(RESET)).unwrap_or(ShareStart::Latest),
            share_is_committed: value(ISOLATION) == "read_committed",
            share_max_deliveries: i16::try_from(number("share.delivery.count.limit")).unwrap_or(i16::MAX),
            share_max_locks: usize::try_from(number("share.partition.max.record.locks")).unwrap_or(usize::MAX),
            share_renews: value("share.renew.acknowledge.enable").eq_ignore_ascii_case("true"),
        }
    }
}

impl ConfigKey<ValueType> {
    fn check(&self, value: &str) -> Result<(), String> {
        let name = self.name;
        let invalid = |why: &str| Err(format!("Invalid value {value} for configuration {name}: {why}"));
        match self.value_type {
            Text | List => Ok(()),
            Bool if ["true", "false"].contains(&value.trim().to_ascii_lowercase().as_str()) => Ok(()),
            Bool => invalid("Expected value to be either true or false"),
            OneOf(allowed) if allowed.contains(&value) => Ok(()),
            OneOf(allowed) => invalid(&format!("String must be one of: {}", allowed.join(", "))),
            Reset if start(value).is_some() => Ok(()),
            Reset => invalid("must be `earliest`, `latest` or of the form `by_duration:PnDTnHnMn.nS`"),
            Int { min, max } => match value.trim().parse::<i32>() {
                Ok(number) if (min..=max).contains(&number) => Ok(()),
                Ok(number) if number < min => invalid(&format!("Value must be at least {min}")),
                Ok(_) => Err(format!("{name} must be in the range {min} to {max} inclusive.")),
                Err(_) => invalid("Not a number of type INT"),
            },
        }
    }
}

fn start(value: &str) -> Option<ShareStart> {
    match value.to_ascii_lowercase().as_str() {
        "latest" => Some(ShareStart::Latest),
        "earliest" => Some(ShareStart::Earliest),
        other => duration(other.strip_prefix("by_duration:")?).map(ShareStart::NotOlderThan),
    }
}

/// Parses an ISO 8601 duration in lower case, such as `p1dt2h3m4.5s`.
fn duration(text: &str) -> Option<Duration> {
    let (days, time) = match text.strip_prefix('p')?.split_once('t') {
        Some((_, "")) => return None,
        Some((days, time)) => (days, time),
        None => (text.strip_prefix('p')?, ""),
    };
    if days.is_empty() && time.is_empty() {
        return None;
    }
    let mut seconds = 0.0;
    for (mut rest, units) in [(days, &[('d', 86_400.0)][..]), (time, &[('h', 3600.0), ('m', 60.0), ('s', 1.0)][..])] {
        for (unit, factor) in units {
            if let Some((number, after)) = rest.split_once(*unit) {
                seconds += number.parse::<f64>().ok().filter(|number| *number >= 0.0)? * factor;
                rest = after;
            }
        }
        if !rest.is_empty() {
            return None;
        }
    }
    Duration::try_from_secs_f64(seconds).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_is_a_valid_value() {
        for key in CONFIG_KEYS {
            assert_eq!(key.check(key.default), Ok(()));
        }
        assert!(CONFIG_KEYS.is_sorted_by_key(|key| key.name));
    }

    #[test]
    fn durations_are_those_of_iso_8601() {
        let seconds = |text: &str| duration(text).map(|duration| duration.as_secs_f64());
        assert_eq!(seconds("p1dt2h3m4.5s"), Some(93_784.5));
        assert_eq!((seconds("p2d"), seconds("pt5m")), (Some(172_800.0), Some(300.0)));
        for text in ["", "p", "pt", "1d", "p1h", "pt1d", "pt-1s", "p1dt", "pt1x"] {
            assert_eq!(seconds(text), None, "{text}");
        }
    }
}
