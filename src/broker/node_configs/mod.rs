//! Node configurations: the values with which the cluster was started, and the changes since then.
//!
//! The following configurations have an effect: defaults of topics and groups, `num.partitions`,
//! `default.replication.factor`, `auto.create.topics.enable`, `group.initial.rebalance.delay.ms`,
//! `group.consumer.migration.policy` and `delegation.token.*`. The broker stores and returns all other node
//! configurations, but they have no effect. All nodes share their logs and groups, so only the value of the first node
//! has an effect. A cluster that imitates an older release also has the configurations of Kafka 4.4.

mod keys;

use super::configs;
use super::group::{POLICY, Policy};
use super::request::ApiError;
use crate::api::describe_configs::{
    BOOLEAN, DOUBLE, INT, LONG, PASSWORD, SHORT, SOURCE_ALL_NODES, SOURCE_DEFAULT, SOURCE_FILE, SOURCE_NODE,
};
use crate::api::{ErrorCode, Release};
use keys::{CONFIG_KEYS, ConfigKey};
use std::collections::BTreeMap;

/// Configurations with other units, which apply if the configuration in milliseconds has no value.
const OTHER_UNITS: &[(&str, &str, i64)] = &[
    ("log.retention.ms", "log.retention.minutes", 60_000),
    ("log.retention.ms", "log.retention.hours", 3_600_000),
    ("log.roll.ms", "log.roll.hours", 3_600_000),
    ("log.roll.jitter.ms", "log.roll.jitter.hours", 3_600_000),
];

/// Configurations of a single node, which have no value for all nodes.
const PER_NODE_KEYS: &[&str] = &["listener.security.protocol.map", "listeners"];

const MIN_IN_SYNC: &str = "min.insync.replicas";

/// The nodes to which a change applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    All,
    Node(i32),
}

/// A value with its source: the name of the configuration, the text of the value, and the number of the source.
pub(super) type SourcedValue = (String, String, i8);

/// A configuration, with the fields that DescribeConfigs returns.
#[derive(Debug)]
pub(super) struct Described {
    pub name: String,
    pub value: Option<String>,
    pub source: i8,
    pub value_type: i8,
    pub read_only: bool,
    pub is_sensitive: bool,
    pub synonyms: Vec<SourcedValue>,
}

#[derive(Debug)]
pub(super) struct NodeConfigs {
    release: Release,
    first: i32,
    file: BTreeMap<String, String>,
    all: BTreeMap<String, String>,
    per_node: BTreeMap<i32, BTreeMap<String, String>>,
}

/// Checks a line of a configuration file. The error is a message.
pub(super) fn check(name: &str, value: &str) -> Result<(), String> {
    let key = find(name).ok_or_else(|| format!("unknown node configuration {name:?}"))?;
    key.check(value)
}

fn find(name: &str) -> Option<&'static ConfigKey> {
    CONFIG_KEYS.binary_search_by_key(&name, |key| key.name).ok().and_then(|index| CONFIG_KEYS.get(index))
}

impl ConfigKey {
    fn check(&self, value: &str) -> Result<(), String> {
        let value = value.trim();
        if self.name == POLICY {
            return Policy::by_name(value).map(drop);
        }
        let (is_valid, type_name) = match self.value_type {
            BOOLEAN => (["true", "false"].contains(&value.to_ascii_lowercase().as_str()), "BOOLEAN"),
            INT => (value.parse::<i32>().is_ok(), "INT"),
            SHORT => (value.parse::<i16>().is_ok(), "SHORT"),
            LONG => (value.parse::<i64>().is_ok(), "LONG"),
            DOUBLE => (value.parse::<f64>().is_ok(), "DOUBLE"),
            _ => (true, ""),
        };
        let why =
            if type_name == "BOOLEAN" { "Expected value to be either true or false" } else { "Not a number of type" };
        match (is_valid, type_name) {
            (true, _) => Ok(()),
            (false, "BOOLEAN") => Err(format!("Invalid value {value} for configuration {}: {why}", self.name)),
            (false, _) => Err(format!("Invalid value {value} for configuration {}: {why} {type_name}", self.name)),
        }
    }
}

impl NodeConfigs {
    /// Creates the configurations of nodes that were started with this file. `first` is the ID of the first node.
    pub fn new(release: Release, first: i32, file: BTreeMap<String, String>) -> Self {
        let mut all = BTreeMap::new();
        // Eligible leader replicas (KIP-966) make this a value of all nodes.
        if release >= Release::V4_1 {
            all.insert(MIN_IN_SYNC.to_owned(), file.get(MIN_IN_SYNC).map_or("1", String::as_str).to_owned());
        }
        Self { release, first, file, all, per_node: BTreeMap::new() }
    }

    /// Returns the values of a configuration that were set. The effective value comes first.
    fn set(&self, node: i32, name: &str) -> impl Iterator<Item = SourcedValue> {
        let own = self.per_node.get(&node).and_then(|own| own.get(name)).map(|value| (value, SOURCE_NODE));
        let all = self.all.get(name).map(|value| (value, SOURCE_ALL_NODES));
        let file = self.file.get(name).map(|value| (value, SOURCE_FILE));
        own.into_iter().chain(all).chain(file).map(|(value, source)| (name.to_owned(), value.clone(), source))
    }

    /// Returns all values of a configuration. The effective value comes first, and the default comes last.
    pub fn synonyms(&self, node: i32, name: &str) -> Vec<SourcedValue> {
        let units = OTHER_UNITS.iter().filter(|(of, ..)| *of == name);
        let mut synonyms: Vec<_> = self.set(node, name).collect();
        synonyms.extend(units.clone().flat_map(|(_, other, _)| self.set(node, other)));
        // Without a value, Kafka does not name the default in another unit.
        let other_units = units.map(|(_, other, _)| *other).filter(|_| !synonyms.is_empty()).collect::<Vec<_>>();
        let defaults = [name].into_iter().chain(other_units);
        let defaults =
            defaults.filter_map(|name| Some((name.to_owned(), self.default(name)?.to_owned(), SOURCE_DEFAULT)));
        synonyms.extend(defaults.collect::<Vec<_>>());
        synonyms
    }

    fn default(&self, name: &str) -> Option<&'static str> {
        if name == POLICY && self.release < Release::V4_0 {
            return Some("disabled");
        }
        configs::default_on_nodes(self.release, name).or_else(|| find(name)?.default)
    }

    /// Returns which groups may change their protocol while they have members.
    pub fn migration_policy(&self) -> Policy {
        let changed = self.changed(POLICY);
        Policy::by_name(changed.as_deref().or_else(|| self.default(POLICY)).unwrap_or_default()).unwrap_or_default()
    }

    /// Returns the value on the first node, or `None` if that value is the default.
    pub fn changed(&self, name: &str) -> Option<String> {
        let own = self.set(self.first, name).next().map(|(_, value, _)| value);
        own.or_else(|| {
            let mut units = OTHER_UNITS.iter().filter(|(of, ..)| *of == name);
            units.find_map(|(_, other, ms)| {
                let (_, value, _) = self.set(self.first, other).next()?;
                let count: i64 = value.trim().parse().ok()?;
                Some(if count < 0 { count } else { count.saturating_mul(*ms) }.to_string())
            })
        })
    }

    /// Returns the effective value on the first node as a number.
    pub fn number(&self, name: &str) -> Option<i64> {
        let value = self.changed(name).or_else(|| self.default(name).map(str::to_owned))?;
        value.trim().parse().ok()
    }

    /// Returns the effective value on the first node as a truth value.
    pub fn is_true(&self, name: &str) -> bool {
        let value = self.changed(name).or_else(|| self.default(name).map(str::to_owned));
        value.is_some_and(|value| value.trim().eq_ignore_ascii_case("true"))
    }

    /// Returns all configurations of a node. `extra` contains configurations from the node's own file, such as its ID.
    pub fn describe(&self, node: i32, extra: &[(&str, String)]) -> Vec<Described> {
        let described = CONFIG_KEYS.iter().map(|key| {
            let mut synonyms = self.synonyms(node, key.name);
            if let Some((name, value)) = extra.iter().find(|(name, _)| *name == key.name) {
                let at = synonyms.iter().position(|(.., source)| *source == SOURCE_DEFAULT).unwrap_or(synonyms.len());
                synonyms.insert(at, ((*name).to_owned(), value.clone(), SOURCE_FILE));
            }
            describe(key.name, Some(key), synonyms)
        });
        let is_unknown = |name: &&String| find(name).is_none();
        let unknown =
            self.per_node.get(&node).into_iter().flat_map(BTreeMap::keys).chain(self.all.keys()).filter(is_unknown);
        let unknown = unknown.map(|name| describe(name, None, self.synonyms(node, name)));
        described.chain(unknown).collect()
    }

    /// Returns the values that were set for all nodes.
    pub fn describe_all(&self) -> Vec<Described> {
        let sourced = |name: &String, value: &String| vec![(name.clone(), value.clone(), SOURCE_ALL_NODES)];
        self.all.iter().map(|(name, value)| describe(name, find(name), sourced(name, value))).collect()
    }

    /// Returns the items of a list, or `None` if the configuration is not a list.
    pub fn items(&self, scope: Scope, name: &str) -> Option<Vec<String>> {
        let key = find(name).filter(|key| key.value_type == crate::api::describe_configs::LIST)?;
        let node = if let Scope::Node(node) = scope { node } else { self.first };
        let value = self.synonyms(node, key.name).into_iter().next().map(|(_, value, _)| value).unwrap_or_default();
        Some(value.split(',').map(|item| item.trim().to_owned()).filter(|item| !item.is_empty()).collect())
    }

    /// Returns the values that were set in a scope.
    pub fn in_scope(&self, scope: Scope) -> BTreeMap<String, String> {
        match scope {
            Scope::All => self.all.clone(),
            Scope::Node(node) => self.per_node.get(&node).cloned().unwrap_or_default(),
        }
    }

    /// Checks new values of a scope. Like Kafka, it accepts unknown names.
    pub fn check(&self, scope: Scope, values: &BTreeMap<String, String>) -> Result<(), ApiError> {
        let before = self.in_scope(scope);
        let invalid = |why: String| Err(ApiError::new(ErrorCode::INVALID_REQUEST, why));
        for (name, value) in values.iter().filter(|(name, value)| before.get(*name) != Some(*value)) {
            let Some(key) = find(name) else { continue };
            if !key.is_dynamic {
                return invalid(format!("Cannot update these configs dynamically: [{name}]"));
            }
            if scope == Scope::All && (PER_NODE_KEYS.contains(&name.as_str()) || is_per_node_secret(name)) {
                return invalid(format!(
                    "Cannot update these configs at default cluster level, broker id must be specified: [{name}]"
                ));
            }
            key.check(value).or_else(invalid)?;
        }
        let has_eligible_replicas = self.release >= Release::V4_1;
        let changed = |name: &str| before.get(name) != values.get(name);
        match scope {
            Scope::Node(_) if has_eligible_replicas && changed(MIN_IN_SYNC) => Err(ApiError::new(
                ErrorCode::INVALID_CONFIG,
                "Broker-level min.insync.replicas cannot be altered while ELR is enabled.",
            )),
            Scope::All if has_eligible_replicas && !values.contains_key(MIN_IN_SYNC) => Err(ApiError::new(
                ErrorCode::INVALID_CONFIG,
                "Cluster-level min.insync.replicas cannot be removed while ELR is enabled.",
            )),
            _ => Ok(()),
        }
    }

    /// Replaces the values of a scope. The caller has checked the new values.
    pub fn replace(&mut self, scope: Scope, values: BTreeMap<String, String>) {
        match scope {
            Scope::All => self.all = values,
            Scope::Node(node) => drop(self.per_node.insert(node, values)),
        }
    }
}

fn is_per_node_secret(name: &str) -> bool {
    name.starts_with("ssl.keystore.") || name.starts_with("ssl.truststore.") || name == "ssl.key.password"
}

fn describe(name: &str, key: Option<&ConfigKey>, synonyms: Vec<SourcedValue>) -> Described {
    // The value of an unknown name may be a password.
    let is_sensitive = key.is_none_or(|key| key.value_type == PASSWORD);
    let (value, source) = match synonyms.first() {
        Some((_, value, source)) => (Some(value.clone()), *source),
        None => (key.and_then(|key| key.default).map(str::to_owned), SOURCE_DEFAULT),
    };
    Described {
        name: name.to_owned(),
        value: value.filter(|_| !is_sensitive),
        source,
        value_type: key.map_or(0, |key| key.value_type),
        read_only: key.is_none_or(|key| !key.is_dynamic),
        is_sensitive,
        synonyms: if is_sensitive { Vec::new() } else { synonyms },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn configs(file: &[(&str, &str)]) -> NodeConfigs {
        let file = file.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        NodeConfigs::new(Release::V4_4, 1, file)
    }

    #[test]
    fn names_are_sorted_and_defaults_valid() {
        assert!(CONFIG_KEYS.is_sorted_by_key(|key| key.name));
        for key in CONFIG_KEYS {
            assert_eq!(key.default.map_or(Ok(()), |default| key.check(default)), Ok(()), "{}", key.name);
        }
    }

    #[test]
    fn a_value_comes_from_the_node_then_all_nodes_then_the_file() {
        let mut configs = configs(&[("log.retention.hours", "2")]);
        assert_eq!(configs.changed("log.retention.ms").as_deref(), Some("7200000"));
        let one = |value: &str| BTreeMap::from([("log.retention.ms".to_owned(), value.to_owned())]);
        configs.replace(Scope::All, one("5"));
        assert_eq!(configs.number("log.retention.ms"), Some(5));
        configs.replace(Scope::Node(1), one("4"));
        assert_eq!(configs.number("log.retention.ms"), Some(4));
        let sources: Vec<_> = configs.synonyms(1, "log.retention.ms").into_iter().map(|(.., source)| source).collect();
        assert_eq!(sources, [SOURCE_NODE, SOURCE_ALL_NODES, SOURCE_FILE, SOURCE_DEFAULT]);
    }

    #[test]
    fn only_dynamic_names_can_be_changed() {
        let configs = configs(&[]);
        let change = |scope, name: &str, value: &str| {
            let mut values = configs.in_scope(scope);
            values.insert(name.to_owned(), value.to_owned());
            configs.check(scope, &values).map_err(|error| error.code)
        };
        assert_eq!(change(Scope::Node(1), "log.retention.ms", "5"), Ok(()));
        assert_eq!(change(Scope::Node(1), "no.such", "5"), Ok(()));
        assert_eq!(change(Scope::Node(1), "log.retention.ms", "x"), Err(ErrorCode::INVALID_REQUEST));
        assert_eq!(change(Scope::Node(1), "num.partitions", "5"), Err(ErrorCode::INVALID_REQUEST));
        assert_eq!(change(Scope::All, "listeners", "PLAINTEXT://:1"), Err(ErrorCode::INVALID_REQUEST));
        assert_eq!(change(Scope::Node(1), MIN_IN_SYNC, "2"), Err(ErrorCode::INVALID_CONFIG));
        assert_eq!(change(Scope::All, MIN_IN_SYNC, "2"), Ok(()));
    }

    #[test]
    fn an_unknown_migration_policy_is_refused() {
        assert_eq!(check(POLICY, "Upgrade"), Ok(()));
        assert!(
            check(POLICY, "upgrades").is_err_and(|why| why.contains("BIDIRECTIONAL, UPGRADE, DOWNGRADE, DISABLED"))
        );
    }
}
