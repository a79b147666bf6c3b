//! Changes node configurations, and applies the changes to topics and groups.

use super::State;
use crate::api::ErrorCode;
use crate::broker::configs::Defaults;
use crate::broker::group::Settings;
use crate::broker::journal::Entry;
use crate::broker::node_configs::Scope;
use crate::broker::request::{ApiError, Context};
use std::collections::BTreeMap;

impl State {
    /// Returns the nodes to which a resource name in a request refers. An empty name stands for all nodes.
    pub fn config_scope(&self, context: &Context, name: &str) -> Result<Scope, ApiError> {
        let invalid = |why: String| Err(ApiError::new(ErrorCode::INVALID_REQUEST, why));
        let expected = context.node;
        match name.parse() {
            _ if name.is_empty() => Ok(Scope::All),
            Ok(id) if id == expected => Ok(Scope::Node(id)),
            Ok(id) => invalid(format!("Unexpected broker id, expected {expected}, but received {id}")),
            Err(_) => invalid(format!("Node id must be an integer, but it is: {name}")),
        }
    }

    /// Replaces the values of a scope.
    pub fn set_node_configs(&mut self, scope: Scope, values: BTreeMap<String, String>) {
        self.journal.append(|| Entry::node_configs(scope, &values));
        self.replay_node_configs(scope, values);
    }

    /// Replaces the values of a scope, without a journal entry.
    pub fn replay_node_configs(&mut self, scope: Scope, values: BTreeMap<String, String>) {
        let Self { node_configs, topics, groups, .. } = self;
        node_configs.replace(scope, values);
        self.topic_defaults = Defaults::new(self.topic_defaults.release, |name| node_configs.changed(name));
        topics.set_defaults(&self.topic_defaults);
        groups.set_defaults(Settings::of_nodes(node_configs));
    }

    /// Returns the configurations that Kafka would read from this node's configuration file.
    pub fn node_file(&self, id: i32) -> Vec<(&'static str, String)> {
        let Some(node) = self.node(id) else { return Vec::new() };
        let address = format!("PLAINTEXT://{}:{}", node.host, node.port);
        let rack = self.rack(id).map(|rack| ("broker.rack", rack));
        let own = [
            ("advertised.listeners", address.clone()),
            ("broker.id", id.to_string()),
            ("default.replication.factor", self.default_replication_factor().to_string()),
            ("listeners", address),
            ("node.id", id.to_string()),
            ("process.roles", "broker,controller".to_owned()),
        ];
        own.into_iter().chain(rack).collect()
    }
}
