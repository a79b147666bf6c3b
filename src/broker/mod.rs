//! The embedded dev broker: a small Kafka cluster within one process, for tests, demos and development.
//!
//! The dev broker keeps its data in memory and, on request, in a file. It is not for production, because it does not
//! replicate data. All nodes share one state. Each node serves only the partitions that it leads and the groups that it
//! coordinates. Clients therefore have to find leaders, as in a real cluster.
//!
//! ```text
//! handle, server        start and control a cluster; its thread, sockets and clock
//! any_cluster           a modern cluster, or legacy/ (Kafka 0.6 and 0.7)       version  which release
//! cluster               frames and time in, replies out; waiting requests      request  arguments and results of handlers
//! handlers/             one file per API, named like its file in `api/`
//! fault                 fault injection                                        replay     replays a client's recording
//! state/                the state that the nodes share, and the operations on it
//! topics, log, cleaner, configs, formats, idempotence, transactions, group/, fetch_sessions     parts of the state
//! authorizer, quotas, sasl, tokens, subject, certificates                                       security
//! journal, disk         the state that survives a restart
//! telemetry             the metrics that clients push (KIP-714)
//! clock, memory, ids, options, request_log, regex                                               small modules
//! ```
//!
//! A request passes through `server`, `cluster` and `handlers` to `state`. The modules for parts of the state, such as
//! `topics`, do not depend on `state`.

mod any_cluster;
mod authorizer;
mod certificates;
mod cleaner;
mod clock;
mod cluster;
mod configs;
mod disk;
mod fault;
mod fetch_sessions;
mod formats;
mod group;
mod handle;
mod handlers;
mod idempotence;
mod ids;
mod journal;
pub mod legacy;
mod log;
mod memory;
mod node_configs;
mod options;
mod quotas;
mod regex;
mod replay;
mod request;
mod request_log;
mod sasl;
mod server;
mod state;
mod subject;
mod telemetry;
mod tokens;
mod topics;
mod transactions;
mod version;

pub use crate::net::tls::Server as TlsServer;
pub use authorizer::Acls;
pub use certificates::{Authority, Certificate};
pub use clock::Time;
pub use cluster::Cluster;
pub use fault::{Action, Fault};
pub use handle::{Broker, Control};
pub use ids::Connection;
pub use options::{Node, Options};
pub use replay::Recording;
pub use request::Output;
pub use request_log::LoggedRequest;
pub use sasl::{MECHANISMS, Sasl};
pub use telemetry::TelemetryPush;

pub use version::{LegacyVersion, Version};
