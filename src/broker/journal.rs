//! The journal of a cluster on disk: a log of all changes, from which a cluster restores its state after a restart.
//!
//! ```text
//! frame   length u32 | CRC-32C u32 | entries      the changes of one request or timeout, complete or not at all
//! entry   kind i8 | fields, in Kafka's flexible encoding
//! ```
//!
//! The journal contains topics, configurations, records, committed offsets, producers, transactions, access rules,
//! quotas and delegation tokens. The journal also contains SCRAM users that clients added over the protocol. As in
//! Kafka, an open transaction survives a restart of the cluster, and then ends or times out. The journal does not
//! contain group members and share group states, so members must join again after a restart. The journal is never
//! compacted.

use super::authorizer::{Operation, Pattern, Permission, ResourceType, Rule};
use super::clock::Clock;
use super::group::offsets::Committed;
use super::node_configs::Scope;
use super::quotas;
use super::sasl::Secret;
use super::tokens::Token;
use super::transactions::SavedTransaction;
use crate::record::crc32c;
use crate::wire::{Error, Reader, Reason, Uuid, Wire, Writer};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};

pub(super) const FRAME_HEADER: usize = 8;

message! {
    struct Ids {
        cluster_id: String,
        next_producer_id: i64,
    }
    struct Topic {
        name: String,
        topic_id: Uuid,
        configs: Vec<Config>,
        partitions: Vec<Partition>,
    }
    struct Config {
        name: String,
        value: String,
    }
    struct Partition {
        leader: i32,
        leader_epoch: i32,
        replicas: Vec<i32>,
    }
    struct Name {
        name: String,
    }
    struct Batch {
        topic: String,
        partition: i32,
        now_ms: i64,
        records: Bytes,
    }
    struct LogOffset {
        topic: String,
        partition: i32,
        offset: i64,
    }
    struct Offset {
        group: String,
        topic: String,
        partition: i32,
        offset: i64,
        leader_epoch: i32,
        metadata: String,
        /// Producer ID of the transaction that contains the offset, or -1.
        producer_id: i64,
    }
    struct Ended {
        producer_id: i64,
        partitions: Vec<i32>,
        committed: bool,
    }
    struct GroupPartition {
        group: String,
        topic: String,
        partition: i32,
    }
    struct User {
        mechanism: i8,
        name: String,
        /// -1 if the user was deleted.
        iterations: i32,
        salt: Bytes,
        password: Bytes,
    }
    struct Acl {
        kind: i8,
        pattern: i8,
        name: String,
        principal: String,
        host: String,
        operation: i8,
        permission: i8,
        is_there: bool,
    }
    struct Quota {
        entity: Vec<Part>,
        key: String,
        value: f64,
        is_there: bool,
    }
    struct Part {
        kind: String,
        name: Option<String>,
    }
    struct NodeConfigs {
        is_all: bool,
        node: i32,
        configs: Vec<Config>,
    }
    struct GroupConfig {
        group: String,
        name: String,
        value: Option<String>,
    }
}

macro_rules! entries {
    ($($(#[$doc:meta])* $kind:literal $name:ident($type:ty),)*) => {
        #[derive(Debug)]
        pub(super) enum Entry { $($(#[$doc])* $name($type),)* }

        impl Entry {
            fn put(&self, w: &mut Writer) {
                match self { $(Self::$name(entry) => {
                    let kind: i8 = $kind;
                    kind.put(w);
                    entry.put(w);
                })* }
            }

            pub fn get(r: &mut Reader) -> Result<Self, Error> {
                match i8::get(r)? {
                    $($kind => <$type>::get(r).map(Self::$name),)*
                    _ => Err(Error::new(Reason::Invalid("no such entry"), r.offset())),
                }
            }
        }
    };
}

entries! {
    0 Ids(Ids),
    /// A topic was created or changed.
    1 Topic(Topic),
    2 TopicGone(Name),
    /// A batch, with the bytes that the log stores.
    3 Batch(Batch),
    /// A log starts at a later offset.
    4 Start(LogOffset),
    5 Cut(LogOffset),
    /// A batch that compaction kept.
    6 Cleaned(Batch),
    7 Offset(Offset),
    8 OffsetGone(GroupPartition),
    9 GroupGone(Name),
    10 OffsetsEnded(Ended),
    11 GroupConfig(GroupConfig),
    12 Transaction(SavedTransaction),
    /// A SCRAM user was added or deleted.
    13 User(User),
    /// An access rule was added or deleted.
    14 Acl(Acl),
    15 Quota(Quota),
    /// The configurations of a node, or of all nodes.
    16 NodeConfigs(NodeConfigs),
    /// A delegation token was added or changed. The entry does not contain the token's HMAC, which the brokers compute
    /// with their secret key.
    17 Token(Token),
    18 TokenGone(Name),
}

impl Acl {
    /// Returns the access rule, or `None` if this version does not know one of the numbers.
    pub fn rule(self) -> Option<Rule> {
        Some(Rule {
            kind: ResourceType::from_number(self.kind)?,
            pattern: Pattern::from_number(self.pattern)?,
            name: self.name,
            principal: self.principal,
            host: self.host,
            operation: Operation::from_number(self.operation)?,
            permission: Permission::from_number(self.permission)?,
        })
    }
}

impl Entry {
    pub fn batch(topic: &str, partition: i32, clock: Clock, records: Bytes) -> Self {
        Self::Batch(Batch { topic: topic.to_owned(), partition, now_ms: clock.wall_ms, records })
    }

    pub fn cleaned(topic: &str, partition: i32, clock: Clock, records: Bytes) -> Self {
        Self::Cleaned(Batch { topic: topic.to_owned(), partition, now_ms: clock.wall_ms, records })
    }

    pub fn start(topic: &str, partition: i32, offset: i64) -> Self {
        Self::Start(LogOffset { topic: topic.to_owned(), partition, offset })
    }

    pub fn cut(topic: &str, partition: i32, offset: i64) -> Self {
        Self::Cut(LogOffset { topic: topic.to_owned(), partition, offset })
    }

    pub fn topic_gone(name: &str) -> Self {
        Self::TopicGone(Name { name: name.to_owned() })
    }

    pub fn group_gone(name: &str) -> Self {
        Self::GroupGone(Name { name: name.to_owned() })
    }

    pub fn node_configs(scope: Scope, values: &BTreeMap<String, String>) -> Self {
        let node = if let Scope::Node(node) = scope { node } else { -1 };
        let configs = values.iter().map(|(name, value)| Config { name: name.clone(), value: value.clone() });
        Self::NodeConfigs(NodeConfigs { is_all: scope == Scope::All, node, configs: configs.collect() })
    }

    pub fn group_config(group: &str, name: &str, value: Option<&str>) -> Self {
        let (group, name, value) = (group.to_owned(), name.to_owned(), value.map(str::to_owned));
        Self::GroupConfig(GroupConfig { group, name, value })
    }

    /// `producer_id` is the producer ID of the transaction that contains the offset, or -1.
    pub fn offset(group: &str, topic: &str, partition: i32, producer_id: i64, new: &Committed) -> Self {
        Self::Offset(Offset {
            group: group.to_owned(),
            topic: topic.to_owned(),
            partition,
            offset: new.offset,
            leader_epoch: new.leader_epoch,
            metadata: new.metadata.clone(),
            producer_id,
        })
    }

    pub fn offset_gone(group: &str, topic: &str, partition: i32) -> Self {
        Self::OffsetGone(GroupPartition { group: group.to_owned(), topic: topic.to_owned(), partition })
    }

    /// `secret` is `None` for a deleted user. Plain passwords never arrive over the protocol.
    pub fn user(mechanism: i8, name: &str, secret: Option<&Secret>) -> Self {
        let (iterations, salt, password) = match secret {
            Some(Secret::Salted { iterations, salt, password }) => (*iterations, salt.clone(), password.clone()),
            Some(Secret::Password(_)) | None => (u32::MAX, Vec::new(), Vec::new()),
        };
        let iterations = i32::try_from(iterations).unwrap_or(-1);
        Self::User(User { mechanism, name: name.to_owned(), iterations, salt: salt.into(), password: password.into() })
    }

    pub fn rule(rule: &Rule, is_there: bool) -> Self {
        Self::Acl(Acl {
            kind: rule.kind.number(),
            pattern: rule.pattern.number(),
            name: rule.name.clone(),
            principal: rule.principal.clone(),
            host: rule.host.clone(),
            operation: rule.operation.number(),
            permission: rule.permission.number(),
            is_there,
        })
    }

    pub fn quota(entity: &quotas::Entity, key: &str, value: Option<f64>) -> Self {
        Self::Quota(Quota {
            entity: entity.iter().map(|(kind, name)| Part { kind: kind.clone(), name: name.clone() }).collect(),
            key: key.to_owned(),
            value: value.unwrap_or(0.0),
            is_there: value.is_some(),
        })
    }

    pub fn token_gone(id: &str) -> Self {
        Self::TokenGone(Name { name: id.to_owned() })
    }

    pub fn ended(producer_id: i64, partitions: &BTreeSet<i32>, committed: bool) -> Self {
        Self::OffsetsEnded(Ended { producer_id, partitions: partitions.iter().copied().collect(), committed })
    }
}

/// Changes that are not in the file yet.
#[derive(Debug, Default)]
pub(super) struct Journal {
    /// Entries of the next frame, or `None` if the cluster has no file.
    pub entries: Option<Vec<u8>>,
    pub next_producer_id: i64,
}

impl Journal {
    /// Records a change, if the cluster has a file.
    pub fn append(&mut self, entry: impl FnOnce() -> Entry) {
        if let Some(entries) = &mut self.entries {
            let mut w = Writer::new(0, true);
            entry().put(&mut w);
            // Encoding cannot fail: all values arrived in requests, whose fields are no wider.
            entries.extend(w.finish().unwrap_or_default());
        }
    }

    pub fn take(&mut self) -> Option<Vec<u8>> {
        let entries = std::mem::take(self.entries.as_mut().filter(|entries| !entries.is_empty())?);
        let length = u32::try_from(entries.len()).unwrap_or(u32::MAX);
        Some([&length.to_be_bytes()[..], &crc32c(&entries).to_be_bytes()[..], &entries].concat())
    }
}

/// Returns the frame at the start of `data`, or `None` if it is incomplete.
pub(super) fn frame(data: &Bytes) -> Option<Bytes> {
    let word = |at: usize| Some(u32::from_be_bytes(data.get(at..at + 4)?.try_into().ok()?));
    let (length, crc) = (usize::try_from(word(0)?).ok()?, word(4)?);
    let end = FRAME_HEADER.checked_add(length)?;
    let body = (end <= data.len()).then(|| data.slice(FRAME_HEADER..end))?;
    (crc32c(&body) == crc).then_some(body)
}
