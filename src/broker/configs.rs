//! Topic configurations: every name that Kafka 4.4 knows, with its default and its valid values.
//!
//! The broker enforces `max.message.bytes`, `message.timestamp.type`, `message.timestamp.before.max.ms`,
//! `message.timestamp.after.max.ms`, `min.insync.replicas`, `cleanup.policy`, `retention.ms`, `retention.bytes`,
//! `segment.bytes`, `segment.ms`, `delete.retention.ms` and `min.compaction.lag.ms`. It stores and returns the others
//! without effect.

use super::log::Rolling;
use std::collections::BTreeMap;

/// Valid values of a configuration.
#[derive(Clone, Copy, Debug)]
enum ValueType {
    Bool,
    Text,
    Number { min: i64, max: i64 },
    Ratio,
    OneOf(&'static [&'static str]),
    ListOf(&'static [&'static str]),
}

use ValueType::{Bool, ListOf, Number, OneOf, Ratio, Text};

const INT: i64 = i32::MAX as i64;
const LONG: i64 = i64::MAX;

const fn number(min: i64, max: i64) -> ValueType {
    Number { min, max }
}

/// Name, default and type, sorted by name.
static KNOWN: &[(&str, &str, ValueType)] = &[
    ("cleanup.policy", "delete", ListOf(&["compact", "delete"])),
    ("compression.gzip.level", "-1", number(-1, 9)),
    ("compression.lz4.level", "9", number(1, 17)),
    ("compression.type", "producer", OneOf(&["uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"])),
    ("compression.zstd.level", "3", number(-131_072, 22)),
    ("delete.retention.ms", "86400000", number(0, LONG)),
    ("file.delete.delay.ms", "60000", number(0, LONG)),
    ("flush.messages", "9223372036854775807", number(1, LONG)),
    ("flush.ms", "9223372036854775807", number(0, LONG)),
    ("follower.replication.throttled.replicas", "", Text),
    ("index.interval.bytes", "4096", number(0, INT)),
    ("leader.replication.throttled.replicas", "", Text),
    ("local.retention.bytes", "-2", number(-2, LONG)),
    ("local.retention.ms", "-2", number(-2, LONG)),
    ("max.compaction.lag.ms", "9223372036854775807", number(1, LONG)),
    ("max.message.bytes", "1048588", number(0, INT)),
    ("message.timestamp.after.max.ms", "3600000", number(0, LONG)),
    ("message.timestamp.before.max.ms", "9223372036854775807", number(0, LONG)),
    ("message.timestamp.type", "CreateTime", OneOf(&["CreateTime", "LogAppendTime"])),
    ("min.cleanable.dirty.ratio", "0.5", Ratio),
    ("min.compaction.lag.ms", "0", number(0, LONG)),
    ("min.insync.replicas", "1", number(1, INT)),
    ("preallocate", "false", Bool),
    ("remote.log.copy.disable", "false", Bool),
    ("remote.log.delete.on.disable", "false", Bool),
    ("remote.storage.enable", "false", Bool),
    ("retention.bytes", "-1", number(-1, LONG)),
    ("retention.ms", "604800000", number(-1, LONG)),
    ("segment.bytes", "1073741824", number(1 << 20, INT)),
    ("segment.index.bytes", "10485760", number(4, INT)),
    ("segment.jitter.ms", "0", number(0, LONG)),
    ("segment.ms", "604800000", number(1, LONG)),
    ("unclean.leader.election.enable", "false", Bool),
];

/// A topic's configuration: the values that were set, and the effective values of the enforced ones.
#[derive(Clone, Debug)]
pub(super) struct Configs {
    set: BTreeMap<&'static str, String>,
    pub max_message_bytes: usize,
    pub append_time: bool,
    pub timestamp_before_max_ms: i64,
    pub timestamp_after_max_ms: i64,
    pub min_insync_replicas: usize,
    /// Whether retention deletes old records.
    pub delete: bool,
    /// Whether compaction removes records that have a newer one with the same key.
    pub compact: bool,
    /// -1 means no limit.
    pub retention_ms: i64,
    /// -1 means no limit.
    pub retention_bytes: i64,
    pub segment_bytes: u64,
    pub segment_ms: i64,
    pub delete_retention_ms: i64,
    pub min_compaction_lag_ms: i64,
}

/// A configuration as DescribeConfigs shows it.
pub(super) struct Listed<'a> {
    pub name: &'static str,
    pub value: &'a str,
    pub is_default: bool,
}

impl Default for Configs {
    fn default() -> Self {
        Self::with(BTreeMap::new())
    }
}

impl Configs {
    /// Parses names and values. The error is a message.
    pub fn parse<'a>(given: impl Iterator<Item = (&'a str, Option<&'a str>)>) -> Result<Self, String> {
        let mut set = BTreeMap::new();
        for (name, value) in given {
            let Some((name, _, kind)) = KNOWN.iter().find(|(known, ..)| *known == name) else {
                return Err(format!("Unknown topic config name: {name}"));
            };
            let Some(value) = value else {
                return Err(format!("Null value not supported for topic configs: {name}"));
            };
            kind.check(value).map_err(|wanted| format!("Invalid value {value} for configuration {name}: {wanted}"))?;
            set.insert(*name, value.to_owned());
        }
        Ok(Self::with(set))
    }

    /// Returns a copy with some values set, or reset to their defaults for `None`. The error is a message.
    pub fn altered<'a>(&'a self, changes: impl Iterator<Item = (&'a str, Option<&'a str>)>) -> Result<Self, String> {
        let mut values: BTreeMap<&str, &str> = self.set.iter().map(|(name, value)| (*name, value.as_str())).collect();
        for (name, value) in changes {
            match value {
                Some(value) => drop(values.insert(name, value)),
                None if KNOWN.iter().any(|(known, ..)| *known == name) => drop(values.remove(name)),
                None => return Err(format!("Unknown topic config name: {name}")),
            }
        }
        Self::parse(values.into_iter().map(|(name, value)| (name, Some(value))))
    }

    /// Returns the items of a list configuration, or `None` if it is not a list.
    pub fn items(&self, name: &str) -> Option<Vec<String>> {
        let (name, default, _) = KNOWN.iter().find(|(known, _, kind)| *known == name && matches!(kind, ListOf(_)))?;
        let value = self.set.get(name).map_or(*default, String::as_str);
        Some(value.split(',').map(|item| item.trim().to_owned()).filter(|item| !item.is_empty()).collect())
    }

    fn with(set: BTreeMap<&'static str, String>) -> Self {
        let value = |name| set.get(name).map_or_else(|| default_of(name), String::as_str);
        let number = |name| value(name).trim().parse::<i64>().unwrap_or(i64::MAX);
        let policy = |wanted| value("cleanup.policy").split(',').any(|policy| policy.trim() == wanted);
        Self {
            max_message_bytes: usize::try_from(number("max.message.bytes")).unwrap_or(usize::MAX),
            append_time: value("message.timestamp.type") == "LogAppendTime",
            timestamp_before_max_ms: number("message.timestamp.before.max.ms"),
            timestamp_after_max_ms: number("message.timestamp.after.max.ms"),
            min_insync_replicas: usize::try_from(number("min.insync.replicas")).unwrap_or(usize::MAX),
            delete: policy("delete"),
            compact: policy("compact"),
            retention_ms: number("retention.ms"),
            retention_bytes: number("retention.bytes"),
            segment_bytes: u64::try_from(number("segment.bytes")).unwrap_or(u64::MAX),
            segment_ms: number("segment.ms"),
            delete_retention_ms: number("delete.retention.ms"),
            min_compaction_lag_ms: number("min.compaction.lag.ms"),
            set,
        }
    }

    /// Returns how the log is split into segments.
    pub fn rolling(&self, now_ms: i64) -> Rolling {
        Rolling { bytes: self.segment_bytes, ms: self.segment_ms, now_ms }
    }

    /// Returns every configuration, by name.
    pub fn list(&self) -> impl Iterator<Item = Listed<'_>> {
        KNOWN.iter().map(|(name, default, _)| match self.set.get(name) {
            Some(value) => Listed { name, value, is_default: false },
            None => Listed { name, value: default, is_default: true },
        })
    }
}

fn default_of(name: &str) -> &'static str {
    KNOWN.iter().find(|(known, ..)| *known == name).map_or("", |(_, default, _)| default)
}

impl ValueType {
    fn check(self, value: &str) -> Result<(), String> {
        let value = value.trim();
        let one_of = |value: &str, allowed: &[&str]| {
            if allowed.contains(&value) { Ok(()) } else { Err(format!("must be one of {}", allowed.join(", "))) }
        };
        match self {
            Text => Ok(()),
            Bool => one_of(&value.to_ascii_lowercase(), &["true", "false"]),
            OneOf(allowed) => one_of(value, allowed),
            ListOf(allowed) => {
                value.split(',').map(str::trim).filter(|v| !v.is_empty()).try_for_each(|v| one_of(v, allowed))
            }
            Number { min, max } => match value.parse::<i64>() {
                Ok(n) if (min..=max).contains(&n) => Ok(()),
                Ok(_) => Err(format!("must be between {min} and {max}")),
                Err(_) => Err("must be a number".to_owned()),
            },
            Ratio => match value.parse::<f64>() {
                Ok(n) if (0.0..=1.0).contains(&n) => Ok(()),
                _ => Err("must be between 0 and 1".to_owned()),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(name: &str, value: Option<&str>) -> Result<Configs, String> {
        Configs::parse([(name, value)].into_iter())
    }

    #[test]
    fn every_default_is_a_valid_value() {
        for (name, default, kind) in KNOWN {
            assert_eq!(kind.check(default), Ok(()), "{name}");
        }
        assert!(KNOWN.is_sorted_by_key(|(name, ..)| name));
    }

    #[test]
    fn values_are_checked_and_enforced_ones_read() {
        assert_eq!(parse("max.message.bytes", Some("5")).unwrap().max_message_bytes, 5);
        assert!(parse("message.timestamp.type", Some("LogAppendTime")).unwrap().append_time);
        assert!(parse("cleanup.policy", Some("compact, delete")).is_ok());
        for (name, value) in [
            ("max.message.bytes", Some("-1")),
            ("max.message.bytes", Some("x")),
            ("message.timestamp.type", Some("Never")),
            ("preallocate", Some("maybe")),
            ("no.such.config", Some("1")),
            ("retention.ms", None),
        ] {
            assert!(parse(name, value).unwrap_err().contains(name));
        }
    }
}
