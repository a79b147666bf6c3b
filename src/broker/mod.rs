//! The embedded dev broker: a small, honest Kafka cluster inside one process, in memory, for tests, demos and
//! development, and in a file if that is wanted. It is not for production: nothing is replicated.
//!
//! ```text
//! listener   sockets, one port a node, one thread for all        (it alone has sockets and a clock)
//! disk       the file that outlives the process, if one is wanted    journal  what is in it
//! cluster    frames and time in, replies out; parked requests    (sans-I/O, see its verbs)
//! fault      what goes wrong on purpose      control  how a program steers a cluster that runs
//! cleaner    what goes from logs by itself   formats  messages of clients from before 0.11
//! old/       brokers of Kafka 0.6 and 0.7 in its place      machine  one or the other      version  which
//! handlers/  one file per API, under the name of its `api/` file: versions served and what is left out
//! sasl       who may come in: users, and what is known of each connection that has to log in
//! authorizer  who may do what      quotas  how much of it
//! certificates  a throw-away authority for TLS      subject  whom a certificate names
//! state      what the nodes know in common: topics, logs, groups, producer ids
//! fetch_sessions  what each node knows of its readers
//! ```
//!
//! One state serves all nodes: a node is a view of it that answers only for what it leads or coordinates, so that
//! clients have to find leaders as in a real cluster.

mod authorizer;
mod certificates;
mod cleaner;
mod cluster;
mod configs;
mod control;
mod disk;
mod fault;
mod fetch_sessions;
mod formats;
mod group;
mod handlers;
mod idempotence;
mod journal;
mod listener;
mod log;
mod machine;
pub mod old;
mod pattern;
mod quotas;
mod requests;
mod sasl;
mod state;
mod subject;
mod topics;
mod transactions;
mod version;

pub use crate::net::tls::Server as TlsServer;
pub use authorizer::Acls;
pub use certificates::{Authority, Certificate};
pub use cluster::{Cluster, Connection, Output};
pub use control::Control;
pub use fault::{Action, Fault};
pub use listener::Broker;
pub use requests::Seen;
pub use sasl::{MECHANISMS, Sasl};
pub use state::Node;
pub use version::{Old, Version};

use std::path::PathBuf;
use std::time::Duration;

/// Time since the cluster started.
pub type Time = Duration;

/// What a cluster is like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// How many nodes; they are numbered from 1.
    pub nodes: usize,
    /// The racks that nodes are in, in turn, if they are in any. Readers are then sent to a replica in their own, as by
    /// Kafka's `RackAwareReplicaSelector`.
    pub racks: Vec<String>,
    /// Whether asking for a topic or producing to it makes it.
    pub auto_create_topics: bool,
    /// Partitions of a topic that is made without saying how many.
    pub default_partitions: i32,
    /// The first node's port; 0 takes a free one, as the other nodes always do.
    pub port: u16,
    /// Where everything is kept that has to outlive the process, if anything is.
    pub data_dir: Option<PathBuf>,
    /// Whether that is on the disk, and not only the system's, before a request is answered.
    pub fsync: bool,
    /// Memory for records, bytes; beyond it produce requests are refused with KAFKA_STORAGE_ERROR.
    pub max_bytes: usize,
    /// The protocol of transactions that clients are told to use: 2 is KIP-890's, 1 the one before.
    pub transaction_version: i16,
    /// How long a new group waits for more members before its first generation: Kafka's
    /// `group.initial.rebalance.delay.ms`, 3 s there; none here, so that a test's only consumer starts at once.
    pub group_initial_rebalance_delay: Duration,
    /// Whether clients have to say who they are.
    pub sasl: Option<Sasl>,
    /// Whether it is decided who may do what.
    pub acls: Option<Acls>,
    /// Whether connections are encrypted.
    pub tls: Option<TlsServer>,
    /// The release that clients meet.
    pub as_version: Version,
    /// Where that has byte offsets: what its configuration file would say.
    pub old: old::Settings,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            nodes: 1,
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
            old: old::Settings::default(),
        }
    }
}
