//! The clients. Each client has one I/O thread, which runs state machines from `engine` over sockets from `net`.
//!
//! Callers and the I/O thread share the state of a client through one lock, which they hold for microseconds.
//! Compression, checksums and decoding run without the lock. A call returns a [`Pending`]. The caller waits for the
//! `Pending` by blocking or through a [`std::task::Waker`].
//!
//! ```text
//! producer, consumer, share_consumer, admin   the typed calls of each client
//! core            the I/O thread, waiting, closing: the same for every client
//! driver          sockets and the network's state machine
//! shared          the state machine's lock, and how threads wait and wake each other
//! inline_polling, event_loop                  callers that poll in place of the I/O thread
//! dispatch, completion                        completes calls and calls callbacks
//! config                                      configuration keys and their values
//! legacy                                      the connection to brokers of Kafka 0.6 and 0.7
//! ```

#![allow(clippy::disallowed_methods, reason = "clocks, locks and threads belong here")]

mod admin;
mod completion;
mod config;
mod consumer;
mod core;
mod dispatch;
mod driver;
mod event_loop;
pub mod fork;
mod identity;
mod inline_polling;
mod legacy;
mod login_mailbox;
mod metrics;
mod poll_clock;
mod producer;
mod share_consumer;
mod shared;

pub use self::core::{AnyClient, Client};
pub use crate::engine::ConnectionId;
pub use crate::engine::consumer::{Assigned, CommitResult, Slice};
pub use crate::engine::group::{CustomAssignor, assignor};
pub use crate::engine::legacy::zookeeper;
pub use crate::engine::ops::{Condition, Item, ItemResult, Knowing, Route};
pub use crate::engine::producer::murmur2;
pub use crate::engine::sasl::{BearerToken, gssapi, scram};
pub use crate::engine::share::{AckResults, Acknowledgement};
pub use crate::engine::{Cluster, Endpoints, Error, ErrorKind, Time, TopicPartition, seconds};
pub use admin::Admin;
pub use completion::{Pending, Promise};
pub use config::{
    ClientType, Config, FOREIGN_OPTIONS, ForeignOption, KEYS, Key, Kind, Value, Verdict, find_key, parse_address,
    verdict,
};
pub use consumer::{Change, CommittedOffset, Consumer, LastCommit};
pub use dispatch::{Waiting, after_batch};
pub use event_loop::Sockets;
pub use legacy::LegacyConnection;
pub use login_mailbox::LoginMailbox;
pub use metrics::{Family, Number};
pub use producer::{
    Appender, Failure, GroupMetadata, NOW, NewRecord, PAUSE, Producer, RecordMetadata, TopicIndex, records_were,
};
pub use share_consumer::ShareConsumer;
