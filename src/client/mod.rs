//! The client: machines from `engine` driven over sockets from `net`, one I/O thread for each client.
//!
//! Callers share a client with its I/O thread through one lock, which is held for microseconds; compression,
//! checksums and decoding happen outside of it. A caller gets a [`Pending`] and waits for it as it likes: blocking, or
//! through a [`std::task::Waker`]. The thread starts at the first use, not at import and not before a fork.

#![allow(clippy::disallowed_methods, reason = "clocks, locks and threads belong here")]

mod admin;
pub mod config;
mod consumer;
mod driver;
mod foreign;
pub mod fork;
mod handing;
mod keys;
mod lead;
mod legacy;
mod pending;
mod producer;
mod security;
mod share_consumer;
mod tokens;
mod watch;

pub use crate::engine::ConnectionId;
pub use crate::engine::consumer::{Assigned, Slice};
pub use crate::engine::group::{CustomAssignor, assignor};
pub use crate::engine::legacy::zookeeper;
pub use crate::engine::ops::{ConfigEntry, ConfigResource, GroupDescription, GroupListing, GroupMember, NewTopic};
pub use crate::engine::producer::murmur2;
pub use crate::engine::sasl::{BearerToken, gssapi, scram};
pub use crate::engine::share::{Acknowledgement, Outcomes};
pub use crate::engine::{Cluster, Error, ErrorKind, Time, TopicPartition};
pub use admin::Admin;
pub use config::{Config, Value};
pub use consumer::{Change, CommittedOffset, Consumer, LastCommit};
pub use foreign::{FOREIGN, Foreign, SAME_VALUES, meant};
pub use handing::Waiting;
pub use keys::{KEYS, Key, Kind, Role};
pub use legacy::LegacyConnection;
pub use pending::{Pending, Promise};
pub use producer::{
    Appender, BrokerMetrics, Failure, GroupMetadata, Metrics, NOW, NewRecord, PAUSE, Producer, RecordMetadata,
    TopicIndex, TopicMetrics,
};
pub use share_consumer::ShareConsumer;
pub use tokens::Tokens;
pub use watch::{Sockets, Watched};
