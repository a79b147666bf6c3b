//! The settings with which a cluster starts: the options of the cluster, and the settings of each node.

use super::authorizer::Acls;
use super::legacy;
use super::node_configs;
use super::sasl::Sasl;
use super::version::Version;
use crate::net::tls::Server as TlsServer;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// Options of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Number of nodes.
    pub nodes: usize,
    /// ID of the first node. The other nodes have the following IDs.
    pub first_node: i32,
    /// Racks, which are assigned to the nodes in turn. Like Kafka with `RackAwareReplicaSelector`, the cluster refers a
    /// consumer to a replica in the consumer's rack.
    pub racks: Vec<String>,
    /// Whether a metadata or produce request creates a missing topic.
    pub auto_create_topics: bool,
    /// Default number of partitions of a new topic.
    pub default_partitions: i32,
    /// Port of the first node. The value 0 selects a free port. Other nodes always use a free port.
    pub port: u16,
    /// Directory for the data that survives a restart of the process.
    pub data_dir: Option<PathBuf>,
    /// Whether the cluster syncs data to the disk before it replies to a request.
    pub fsync: bool,
    /// Memory limit for records, in bytes. Above this limit, produce requests fail with KAFKA_STORAGE_ERROR.
    pub max_bytes: usize,
    /// Transaction protocol version that the cluster announces. Version 2 is the version of KIP-890, and version 1 is
    /// the version before KIP-890.
    pub transaction_version: i16,
    /// How long a new group waits for more members before its first generation: Kafka's
    /// `group.initial.rebalance.delay.ms`. Kafka's default is 3 s. The dev broker's default is 0, so that a test with
    /// one consumer starts immediately.
    pub group_initial_rebalance_delay: Duration,
    /// SASL settings. `None` disables authentication.
    pub sasl: Option<Sasl>,
    /// Settings of the authorizer. `None` allows every operation.
    pub acls: Option<Acls>,
    /// TLS settings. `None` disables encryption.
    pub tls: Option<TlsServer>,
    /// The Kafka release that the cluster imitates.
    pub as_version: Version,
    /// Node configurations, as in the configuration file of a Kafka broker.
    pub config: BTreeMap<String, String>,
    /// Whether clients can push their metrics (KIP-714), as if a Kafka broker had a telemetry plugin.
    pub telemetry: bool,
    /// Broker configuration of a legacy release.
    pub legacy: legacy::Settings,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            nodes: 1,
            first_node: 1,
            racks: Vec::new(),
            auto_create_topics: true,
            default_partitions: 1,
            port: 0,
            data_dir: None,
            fsync: false,
            max_bytes: 1 << 30,
            transaction_version: 2,
            group_initial_rebalance_delay: Duration::ZERO,
            sasl: None,
            acls: None,
            tls: None,
            as_version: Version::default(),
            config: BTreeMap::new(),
            telemetry: false,
            legacy: legacy::Settings::default(),
        }
    }
}

impl Options {
    /// Checks the nodes' IDs and configurations. The error is a message.
    pub fn check(&self) -> Result<(), String> {
        if self.first_node < 0 {
            return Err(format!("a node ID is at least 0, but the first is {}", self.first_node));
        }
        self.config.iter().try_for_each(|(name, value)| node_configs::check(name, value))
    }

    /// Returns the configuration file with which the nodes start.
    pub(super) fn file(&self) -> BTreeMap<String, String> {
        let delay = self.group_initial_rebalance_delay.as_millis().to_string();
        let own = [
            ("auto.create.topics.enable", self.auto_create_topics.to_string()),
            ("group.initial.rebalance.delay.ms", delay),
            ("num.partitions", self.default_partitions.to_string()),
        ];
        let own = own.into_iter().map(|(name, value)| (name.to_owned(), value));
        own.chain(self.config.clone()).collect()
    }
}

/// A node's ID and its address for clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// The node ID.
    pub id: i32,
    /// Host name or address.
    pub host: String,
    /// Port.
    pub port: u16,
}
