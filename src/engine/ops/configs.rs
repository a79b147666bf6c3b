//! Reads and changes configurations of topics, brokers and groups.

use super::{Op, OpContext, Output};
use crate::api::describe_configs::{self, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC};
use crate::api::incremental_alter_configs::{self as alter, DELETE, SET};
use crate::engine::{Error, ErrorKind, Reply, Target};

/// A resource with a configuration: its type and name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigResource {
    kind: i8,
    name: String,
}

/// The names of the resource types.
const KINDS: [(&str, i8); 5] = [
    ("topic", TOPIC),
    ("broker", BROKER),
    ("broker-logger", BROKER_LOGGER),
    ("client-metrics", CLIENT_METRICS),
    ("group", GROUP),
];

impl ConfigResource {
    /// Creates a `topic`, `broker` (an ID, or empty for all), `broker-logger`, `client-metrics` or `group`.
    pub fn new(kind: &str, name: String) -> Result<Self, Error> {
        let Some((_, kind)) = KINDS.iter().find(|(known, _)| *known == kind) else {
            let names: Vec<&str> = KINDS.iter().map(|(name, _)| *name).collect();
            let error = Error::new(ErrorKind::Config, format!("unknown resource type {kind:?}"));
            return Err(error.with_hint(format!("allowed: {}", names.join(", "))));
        };
        let this = Self { kind: *kind, name };
        match this.node() {
            Err(_) => {
                let error = Error::new(ErrorKind::Config, format!("broker {:?} is not a number", this.name));
                Err(error.with_hint("the name of a broker is its ID"))
            }
            Ok(_) => Ok(this),
        }
    }

    /// Returns the only broker that has the configuration.
    fn node(&self) -> Result<Option<i32>, std::num::ParseIntError> {
        let own = matches!(self.kind, BROKER | BROKER_LOGGER) && !self.name.is_empty();
        if own { self.name.parse().map(Some) } else { Ok(None) }
    }

    fn target(&self, otherwise: Target) -> Target {
        self.node().ok().flatten().map_or(otherwise, Target::Node)
    }

    fn described(&self) -> String {
        let kind = KINDS.iter().find(|(_, kind)| *kind == self.kind).map_or("resource", |(name, _)| *name);
        format!("{kind} {:?}", self.name)
    }
}

/// A setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigEntry {
    /// The name.
    pub name: String,
    /// The value; `None` if it is sensitive.
    pub value: Option<String>,
    /// The source of the value, numbered as in DescribeConfigs; -1 if the broker is too old to tell (before Kafka 1.1).
    pub source: i8,
    /// Whether the value is read-only.
    pub read_only: bool,
    /// Whether the value is sensitive.
    pub sensitive: bool,
}

/// DescribeConfigs for one resource.
pub struct DescribeConfigs {
    resource: ConfigResource,
    found: Option<Vec<ConfigEntry>>,
}

impl DescribeConfigs {
    /// Requests all settings of a resource.
    pub fn new(resource: ConfigResource) -> Self {
        Self { resource, found: None }
    }
}

impl Op for DescribeConfigs {
    fn name(&self) -> &'static str {
        "describe configs"
    }

    fn step(&mut self, cx: &mut OpContext<'_>) -> Result<(), Error> {
        if !cx.knows_brokers() {
            return Ok(());
        }
        let resource = describe_configs::Resource {
            resource_type: self.resource.kind,
            resource_name: self.resource.name.clone(),
            configuration_keys: None,
        };
        let request = describe_configs::Request { resources: vec![resource], ..Default::default() };
        cx.send(self.resource.target(Target::Any), request, 0);
        Ok(())
    }

    fn take(&mut self, _: &mut OpContext<'_>, _: u32, _: i32, reply: Reply) -> Result<(), Error> {
        let version = reply.version;
        let response: describe_configs::Response = reply.decode()?;
        let mut found = Vec::new();
        for result in response.results {
            refused(&self.resource, "describe configs of", result.error_code, result.error_message)?;
            found.extend(result.configs.into_iter().map(|c| ConfigEntry {
                name: c.name,
                value: c.value.filter(|_| !c.is_sensitive),
                // Version 0 tells only whether the value is the default.
                source: if version == 0 && c.is_default { DEFAULT } else { c.config_source },
                read_only: c.read_only,
                sensitive: c.is_sensitive,
            }));
        }
        self.found = Some(found);
        Ok(())
    }

    fn output(&mut self) -> Option<Output> {
        self.found.take().map(Output::Configs)
    }
}

/// The source number of a default value.
const DEFAULT: i8 = 5;

/// IncrementalAlterConfigs for one resource.
pub struct AlterConfigs {
    resource: ConfigResource,
    changes: Vec<(String, Option<String>)>,
    validate_only: bool,
    done: bool,
}

impl AlterConfigs {
    /// Sets values; `None` resets one to its default. With `validate_only` the broker only checks the request.
    pub fn new(resource: ConfigResource, changes: Vec<(String, Option<String>)>, validate_only: bool) -> Self {
        Self { done: changes.is_empty(), resource, changes, validate_only }
    }
}

impl Op for AlterConfigs {
    fn name(&self) -> &'static str {
        "alter configs"
    }

    fn step(&mut self, cx: &mut OpContext<'_>) -> Result<(), Error> {
        if self.done || !cx.knows_brokers() {
            return Ok(());
        }
        let config = |(name, value): &(String, Option<String>)| alter::Config {
            name: name.clone(),
            config_operation: if value.is_some() { SET } else { DELETE },
            value: value.clone(),
        };
        let resource = alter::Resource {
            resource_type: self.resource.kind,
            resource_name: self.resource.name.clone(),
            configs: self.changes.iter().map(config).collect(),
        };
        let request = alter::Request { resources: vec![resource], validate_only: self.validate_only };
        cx.send(self.resource.target(Target::Controller), request, 0);
        Ok(())
    }

    fn take(&mut self, _: &mut OpContext<'_>, _: u32, _: i32, reply: Reply) -> Result<(), Error> {
        let response: alter::Response = reply.decode()?;
        for result in response.responses {
            refused(&self.resource, "alter configs of", result.error_code, result.error_message)?;
        }
        self.done = true;
        Ok(())
    }

    fn output(&mut self) -> Option<Output> {
        self.done.then_some(Output::Done)
    }
}

fn refused(
    resource: &ConfigResource,
    tried: &str,
    code: crate::api::ErrorCode,
    why: Option<String>,
) -> Result<(), Error> {
    let why = why.filter(|w| !w.is_empty()).map_or_else(String::new, |w| format!(": {w}"));
    code.check().map_err(|code| Error::refused(code, format!("{tried} {}{why}", resource.described())))
}
