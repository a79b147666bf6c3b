//! Topic configurations: every key of every supported release, with its type, its default and its valid values.
//!
//! The broker enforces `max.message.bytes`, `message.timestamp.type`, `message.timestamp.before.max.ms`,
//! `message.timestamp.after.max.ms`, `message.timestamp.difference.max.ms`, `min.insync.replicas`, `cleanup.policy`,
//! `retention.ms`, `retention.bytes`, `segment.bytes`, `segment.ms`, `delete.retention.ms` and `min.compaction.lag.ms`.
//! The broker stores and returns all other topic configurations, but they have no effect.

use super::log::Rolling;
use crate::api::{Release, describe_configs};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Valid values of a configuration.
#[derive(Clone, Copy, Debug)]
pub(super) enum ValueType {
    Bool,
    Text,
    Int {
        min: i64,
        max: i64,
    },
    Long {
        min: i64,
        max: i64,
    },
    Ratio,
    OneOf(&'static [&'static str]),
    ListOf(&'static [&'static str]),
    /// A list of arbitrary items.
    List,
}

use ValueType::{Bool, List, ListOf, OneOf, Ratio, Text};

const INT_MAX: i64 = i32::MAX as i64;
const LONG_MAX: i64 = i64::MAX;
const FOREVER: &str = "9223372036854775807";

const fn int(min: i64, max: i64) -> ValueType {
    ValueType::Int { min, max }
}

const fn long(min: i64) -> ValueType {
    ValueType::Long { min, max: LONG_MAX }
}

/// A configuration key of topics or groups, with valid values of the type `V`.
#[derive(Debug)]
pub(super) struct ConfigKey<V> {
    pub name: &'static str,
    pub default: &'static str,
    pub value_type: V,
    /// The node configuration that sets the default of all topics or groups, or an empty string.
    pub node_config: &'static str,
    pub since: Release,
}

pub(super) const fn key<V: Copy>(
    name: &'static str,
    default: &'static str,
    value_type: V,
    node_config: &'static str,
    since: Release,
) -> ConfigKey<V> {
    ConfigKey { name, default, value_type, node_config, since }
}

use Release::*;

const COMPRESSIONS: ValueType = OneOf(&["uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"]);

/// Sorted by name. Before 0.10.1, no request could set or show a configuration. The table therefore uses `V0_8_0` for
/// all earlier names.
#[rustfmt::skip]
static CONFIG_KEYS: &[ConfigKey<ValueType>] = &[
    key("cleanup.policy", "delete", ListOf(&["compact", "delete"]), "log.cleanup.policy", V0_8_0),
    key("compression.gzip.level", "-1", int(-1, 9), "compression.gzip.level", V3_8),
    key("compression.lz4.level", "9", int(1, 17), "compression.lz4.level", V3_8),
    key("compression.type", "producer", COMPRESSIONS, "compression.type", V0_8_0),
    key("compression.zstd.level", "3", int(-131_072, 22), "compression.zstd.level", V3_8),
    key("delete.retention.ms", "86400000", long(0), "log.cleaner.delete.retention.ms", V0_8_0),
    key("errors.deadletterqueue.group.enable", "false", Bool, "", V4_4),
    key("file.delete.delay.ms", "60000", long(0), "log.segment.delete.delay.ms", V0_8_0),
    key("flush.messages", FOREVER, long(1), "log.flush.interval.messages", V0_8_0),
    key("flush.ms", FOREVER, long(0), "log.flush.interval.ms", V0_8_0),
    key("follower.replication.throttled.replicas", "", List, "", V0_8_0),
    key("index.interval.bytes", "4096", int(0, INT_MAX), "log.index.interval.bytes", V0_8_0),
    key("leader.replication.throttled.replicas", "", List, "", V0_8_0),
    key("local.retention.bytes", "-2", long(-2), "log.local.retention.bytes", V3_6),
    key("local.retention.ms", "-2", long(-2), "log.local.retention.ms", V3_6),
    key("max.compaction.lag.ms", FOREVER, long(1), "log.cleaner.max.compaction.lag.ms", V2_3),
    key("max.decompressed.message.bytes", "2147483639", int(1, INT_MAX), "max.decompressed.message.bytes", V4_4),
    key("max.message.bytes", "1048588", int(0, INT_MAX), "message.max.bytes", V0_8_0),
    key("message.downconversion.enable", "true", Bool, "log.message.downconversion.enable", V2_0),
    key("message.format.version", "3.0-IV1", Text, "log.message.format.version", V0_8_0),
    key("message.timestamp.after.max.ms", "3600000", long(0), "log.message.timestamp.after.max.ms", V3_6),
    key("message.timestamp.before.max.ms", FOREVER, long(0), "log.message.timestamp.before.max.ms", V3_6),
    key("message.timestamp.difference.max.ms", FOREVER, long(0), "log.message.timestamp.difference.max.ms", V0_8_0),
    key("message.timestamp.type", "CreateTime", OneOf(&["CreateTime", "LogAppendTime"]), "log.message.timestamp.type", V0_8_0),
    key("min.cleanable.dirty.ratio", "0.5", Ratio, "log.cleaner.min.cleanable.ratio", V0_8_0),
    key("min.compaction.lag.ms", "0", long(0), "log.cleaner.min.compaction.lag.ms", V0_8_0),
    key("min.insync.replicas", "1", int(1, INT_MAX), "min.insync.replicas", V0_8_0),
    key("preallocate", "false", Bool, "log.preallocate", V0_8_0),
    key("remote.copy.lag.bytes", "-1", long(-2), "log.remote.copy.lag.bytes", V4_4),
    key("remote.copy.lag.ms", "0", long(-2), "log.remote.copy.lag.ms", V4_4),
    key("remote.log.copy.disable", "false", Bool, "", V3_9),
    key("remote.log.delete.on.disable", "false", Bool, "", V3_9),
    key("remote.storage.enable", "false", Bool, "", V3_6),
    key("retention.bytes", "-1", long(-1), "log.retention.bytes", V0_8_0),
    key("retention.ms", "604800000", long(-1), "log.retention.ms", V0_8_0),
    key("segment.bytes", "1073741824", int(1 << 20, INT_MAX), "log.segment.bytes", V0_8_0),
    key("segment.index.bytes", "10485760", int(4, INT_MAX), "log.index.size.max.bytes", V0_8_0),
    key("segment.jitter.ms", "0", long(0), "log.roll.jitter.ms", V0_8_0),
    key("segment.ms", "604800000", long(1), "log.roll.ms", V0_8_0),
    key("unclean.leader.election.enable", "false", Bool, "unclean.leader.election.enable", V0_8_0),
];

/// Names whose node configurations are unset by default. The default comes from a node configuration with another unit,
/// except for `flush.ms`.
const UNSET_ON_NODES: &[&str] = &["flush.ms", "retention.ms", "segment.jitter.ms", "segment.ms"];

/// Names that Kafka 4.0 removed.
const REMOVED: &[&str] =
    &["message.downconversion.enable", "message.format.version", "message.timestamp.difference.max.ms"];

/// Defaults and valid values that applied before a release. The oldest release comes first.
#[rustfmt::skip]
static EARLIER: &[(Release, &str, &str, ValueType)] = &[
    (V2_1, "compression.type", "producer", OneOf(&["uncompressed", "lz4", "snappy", "gzip", "producer"])),
    (V2_5, "max.message.bytes", "1000012", int(0, INT_MAX)),
    (V1_0, "message.format.version", "0.11.0-IV2", Text),
    (V1_1, "message.format.version", "1.0-IV0", Text),
    (V2_0, "message.format.version", "1.1-IV0", Text),
    (V2_1, "message.format.version", "2.0-IV1", Text),
    (V2_2, "message.format.version", "2.1-IV2", Text),
    (V2_3, "message.format.version", "2.2-IV1", Text),
    (V2_4, "message.format.version", "2.3-IV1", Text),
    (V2_5, "message.format.version", "2.4-IV1", Text),
    (V2_6, "message.format.version", "2.5-IV0", Text),
    (V2_7, "message.format.version", "2.6-IV0", Text),
    (V2_8, "message.format.version", "2.7-IV2", Text),
    (V3_0, "message.format.version", "2.8-IV1", Text),
    (V4_0, "message.timestamp.after.max.ms", FOREVER, long(0)),
    (V4_0, "segment.bytes", "1073741824", int(14, INT_MAX)),
];

impl ConfigKey<ValueType> {
    fn is_in(&self, release: Release) -> bool {
        self.since <= release && (release < V4_0 || !REMOVED.contains(&self.name))
    }

    /// Returns the default and the valid values of the configuration in a release.
    fn of(&self, release: Release) -> (&'static str, ValueType) {
        let earlier = EARLIER.iter().find(|(before, name, ..)| release < *before && *name == self.name);
        earlier.map_or((self.default, self.value_type), |(_, _, default, value_type)| (*default, *value_type))
    }
}

fn all_keys(release: Release) -> impl Iterator<Item = &'static ConfigKey<ValueType>> {
    CONFIG_KEYS.iter().filter(move |key| key.is_in(release))
}

fn find(release: Release, name: &str) -> Option<&'static ConfigKey<ValueType>> {
    all_keys(release).find(|key| key.name == name)
}

/// The defaults of all topics: the defaults of a release, and values of node configurations.
#[derive(Clone, Debug)]
pub(super) struct Defaults {
    pub release: Release,
    nodes: Arc<BTreeMap<&'static str, String>>,
}

impl Defaults {
    /// Returns the defaults of a release. `on_nodes` returns the value of a node configuration that was set.
    pub fn new(release: Release, on_nodes: impl Fn(&str) -> Option<String>) -> Self {
        let nodes = all_keys(release).filter_map(|key| Some((key.name, on_nodes(key.node_config)?)));
        Self { release, nodes: Arc::new(nodes.collect()) }
    }

    fn of(&self, key: &ConfigKey<ValueType>) -> &str {
        self.nodes.get(key.name).map_or(key.of(self.release).0, String::as_str)
    }
}

/// Returns a release's default for a node configuration, if that node configuration sets the default of all topics.
pub(super) fn default_on_nodes(release: Release, node_config: &str) -> Option<&'static str> {
    let is_set = |key: &&ConfigKey<ValueType>| !key.node_config.is_empty() && !UNSET_ON_NODES.contains(&key.name);
    let mut keys = all_keys(release).filter(is_set);
    keys.find(|key| key.node_config == node_config).map(|key| key.of(release).0)
}

/// A topic's configuration: the values that were set, and the effective values of the enforced configurations.
#[derive(Clone, Debug)]
pub(super) struct Configs {
    defaults: Defaults,
    set: BTreeMap<&'static str, String>,
    pub max_message_bytes: usize,
    pub uses_log_append_time: bool,
    pub timestamp_before_max_ms: i64,
    pub timestamp_after_max_ms: i64,
    pub min_insync_replicas: usize,
    /// Whether retention deletes old records.
    pub delete: bool,
    /// Whether compaction removes a record if a newer record has the same key.
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

/// A configuration, with the fields that DescribeConfigs returns.
pub(super) struct Listed<'a> {
    pub name: &'static str,
    pub value: &'a str,
    pub is_default: bool,
    pub value_type: ValueType,
    /// The node configuration that sets the default of all topics, or an empty string.
    pub node_config: &'static str,
}

impl Configs {
    /// Returns the configuration of a topic that uses only defaults.
    pub fn of(defaults: Defaults) -> Self {
        Self::with(defaults, BTreeMap::new())
    }

    /// Replaces the defaults.
    pub fn set_defaults(&mut self, defaults: &Defaults) {
        *self = Self::with(defaults.clone(), std::mem::take(&mut self.set));
    }

    /// Parses names and values. The error is a message.
    pub fn parse<'a>(
        defaults: &Defaults,
        values: impl Iterator<Item = (&'a str, Option<&'a str>)>,
    ) -> Result<Self, String> {
        let mut set = BTreeMap::new();
        for (name, value) in values {
            let Some(key) = find(defaults.release, name) else {
                return Err(format!("Unknown topic config name: {name}"));
            };
            let Some(value) = value else {
                return Err(format!("Null value not supported for topic configs: {name}"));
            };
            let (_, value_type) = key.of(defaults.release);
            let checked = value_type.check(value);
            checked.map_err(|expected| format!("Invalid value {value} for configuration {name}: {expected}"))?;
            set.insert(key.name, value.to_owned());
        }
        Ok(Self::with(defaults.clone(), set))
    }

    /// Returns a copy with changed values. The value `None` resets a configuration to its default. The error is a
    /// message.
    pub fn with_changes<'a>(
        &'a self,
        changes: impl Iterator<Item = (&'a str, Option<&'a str>)>,
    ) -> Result<Self, String> {
        let mut values: BTreeMap<&str, &str> = self.set.iter().map(|(name, value)| (*name, value.as_str())).collect();
        for (name, value) in changes {
            match value {
                Some(value) => drop(values.insert(name, value)),
                None if find(self.defaults.release, name).is_some() => drop(values.remove(name)),
                None => return Err(format!("Unknown topic config name: {name}")),
            }
        }
        Self::parse(&self.defaults, values.into_iter().map(|(name, value)| (name, Some(value))))
    }

    /// Returns the items of a list configuration, or `None` if the configuration is not a list.
    pub fn items(&self, name: &str) -> Option<Vec<String>> {
        let key = find(self.defaults.release, name).filter(|key| matches!(key.value_type, ListOf(_) | List))?;
        let value = self.set.get(name).map_or(self.defaults.of(key), String::as_str);
        Some(value.split(',').map(|item| item.trim().to_owned()).filter(|item| !item.is_empty()).collect())
    }

    fn with(defaults: Defaults, set: BTreeMap<&'static str, String>) -> Self {
        let value = |name| {
            let default = || find(defaults.release, name).map_or("", |key| defaults.of(key));
            set.get(name).map_or_else(default, String::as_str)
        };
        let number = |name| value(name).trim().parse::<i64>().unwrap_or(i64::MAX);
        let has_policy = |name| value("cleanup.policy").split(',').any(|policy| policy.trim() == name);
        // Between 3.6 and 3.9, the limit for both directions counts where the one for a direction has its default.
        let limit = |name| match number(name) {
            i64::MAX => number("message.timestamp.difference.max.ms"),
            limit => limit,
        };
        Self {
            max_message_bytes: usize::try_from(number("max.message.bytes")).unwrap_or(usize::MAX),
            uses_log_append_time: value("message.timestamp.type") == "LogAppendTime",
            timestamp_before_max_ms: limit("message.timestamp.before.max.ms"),
            timestamp_after_max_ms: limit("message.timestamp.after.max.ms"),
            min_insync_replicas: usize::try_from(number("min.insync.replicas")).unwrap_or(usize::MAX),
            delete: has_policy("delete"),
            compact: has_policy("compact"),
            retention_ms: number("retention.ms"),
            retention_bytes: number("retention.bytes"),
            segment_bytes: u64::try_from(number("segment.bytes")).unwrap_or(u64::MAX),
            segment_ms: number("segment.ms"),
            delete_retention_ms: number("delete.retention.ms"),
            min_compaction_lag_ms: number("min.compaction.lag.ms"),
            defaults,
            set,
        }
    }

    /// Returns the settings that decide when a log starts a new segment.
    pub fn rolling(&self, now_ms: i64) -> Rolling {
        Rolling { bytes: self.segment_bytes, ms: self.segment_ms, now_ms }
    }

    /// Returns every configuration, by name.
    pub fn list(&self) -> impl Iterator<Item = Listed<'_>> {
        all_keys(self.defaults.release).map(|key| {
            let set = self.set.get(key.name).map(String::as_str);
            Listed {
                name: key.name,
                value: set.unwrap_or(self.defaults.of(key)),
                is_default: set.is_none(),
                value_type: key.of(self.defaults.release).1,
                node_config: key.node_config,
            }
        })
    }
}

impl ValueType {
    /// Returns the number of the type in DescribeConfigs.
    pub fn code(self) -> i8 {
        match self {
            Bool => describe_configs::BOOLEAN,
            Text | OneOf(_) => describe_configs::STRING,
            Self::Int { .. } => describe_configs::INT,
            Self::Long { .. } => describe_configs::LONG,
            Ratio => describe_configs::DOUBLE,
            ListOf(_) | List => describe_configs::LIST,
        }
    }

    pub fn check(self, value: &str) -> Result<(), String> {
        let value = value.trim();
        let one_of = |value: &str, allowed: &[&str]| {
            if allowed.contains(&value) { Ok(()) } else { Err(format!("must be one of {}", allowed.join(", "))) }
        };
        match self {
            Text | List => Ok(()),
            Bool => one_of(&value.to_ascii_lowercase(), &["true", "false"]),
            OneOf(allowed) => one_of(value, allowed),
            ListOf(allowed) => {
                value.split(',').map(str::trim).filter(|v| !v.is_empty()).try_for_each(|v| one_of(v, allowed))
            }
            Self::Int { min, max } | Self::Long { min, max } => match value.parse::<i64>() {
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

    fn defaults(release: Release) -> Defaults {
        Defaults::new(release, |_| None)
    }

    fn parse(name: &str, value: Option<&str>) -> Result<Configs, String> {
        Configs::parse(&defaults(V4_4), [(name, value)].into_iter())
    }

    #[test]
    fn every_default_is_a_valid_value() {
        for release in Release::ALL {
            for key in all_keys(*release) {
                let (default, value_type) = key.of(*release);
                assert_eq!(value_type.check(default), Ok(()), "{} in {}", key.name, release.name());
            }
        }
        assert!(CONFIG_KEYS.is_sorted_by_key(|key| key.name));
        assert!(EARLIER.iter().all(|(_, name, ..)| CONFIG_KEYS.iter().any(|key| key.name == *name)));
    }

    #[test]
    fn values_are_checked_and_enforced_ones_read() {
        assert_eq!(parse("max.message.bytes", Some("5")).unwrap().max_message_bytes, 5);
        assert!(parse("message.timestamp.type", Some("LogAppendTime")).unwrap().uses_log_append_time);
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

    #[test]
    fn defaults_and_names_go_by_release() {
        for (release, bytes, after) in [
            (V0_8_2, 1_000_012, i64::MAX),
            (V2_4, 1_000_012, i64::MAX),
            (V2_5, 1_048_588, i64::MAX),
            (V3_9, 1_048_588, i64::MAX),
            (V4_0, 1_048_588, 3_600_000),
        ] {
            let configs = Configs::of(defaults(release));
            assert_eq!((configs.max_message_bytes, configs.timestamp_after_max_ms), (bytes, after), "{release:?}");
        }
        let names = |release| all_keys(release).map(|key| key.name).collect::<Vec<_>>();
        assert!(!names(V3_5).contains(&"message.timestamp.after.max.ms"));
        assert!(names(V3_9).contains(&"message.timestamp.difference.max.ms"));
        assert!(!names(V4_0).contains(&"message.timestamp.difference.max.ms"));
    }

    #[test]
    fn the_old_limit_of_timestamps_counts_in_both_directions() {
        let given = [("message.timestamp.difference.max.ms", Some("5"))];
        for release in [V3_4, V3_9] {
            let configs = Configs::parse(&defaults(release), given.into_iter()).unwrap();
            assert_eq!((configs.timestamp_before_max_ms, configs.timestamp_after_max_ms), (5, 5));
        }
        assert!(Configs::parse(&defaults(V4_0), given.into_iter()).is_err());
    }
}
