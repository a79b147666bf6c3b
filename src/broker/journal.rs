//! What a cluster keeps on disk: everything that changed, in order, and how that makes the same cluster again.
//!
//! ```text
//! frame   length u32 | CRC-32C u32 | entries      one for what came of a request or of time passing, or none of it
//! entry   kind i8 | fields, in Kafka's flexible encoding
//! ```
//!
//! Kept are topics, configurations, records, committed offsets, producer ids and what partitions know of producers,
//! transactions, access rules, quotas, and users of SCRAM that came over the protocol. A transaction that is open at the end goes on, until its time is over, as its coordinator would read it from
//! its log. Members of groups and the state of share groups are not kept, so members join anew. The journal only
//! grows.

use super::authorizer::{Kind, Operation, Pattern, Permission, Rule};
use super::configs::Configs;
use super::group::offsets::Committed;
use super::log::Log;
use super::quotas;
use super::sasl::Secret;
use super::state::{Clock, State};
use super::transactions::Saved;
use crate::api::ErrorCode;
use crate::record::{self, Control, ControlType, TimestampType, batches, crc32c};
use crate::wire::{Error, Reader, Reason, Uuid, Wire, Writer};
use bytes::Bytes;
use std::collections::BTreeSet;

/// Length and checksum.
const FRAME_HEADER: usize = 8;

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
    struct Place {
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
        /// Of the transaction it waits for, or -1.
        producer_id: i64,
    }
    struct Ended {
        producer_id: i64,
        partitions: Vec<i32>,
        committed: bool,
    }
    struct GroupPlace {
        group: String,
        topic: String,
        partition: i32,
    }
    struct User {
        mechanism: i8,
        name: String,
        /// -1 if the user is gone.
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
    struct GroupConfig {
        group: String,
        name: String,
        value: Option<String>,
    }
}

macro_rules! entries {
    ($($(#[$doc:meta])* $kind:literal $name:ident($type:ty),)*) => {
        /// Something that changed.
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

            fn get(r: &mut Reader) -> Result<Self, Error> {
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
    /// A topic is new, or something of it is.
    1 Topic(Topic),
    2 TopicGone(Name),
    /// Records as the log keeps them.
    3 Batch(Batch),
    /// A log starts later.
    4 Start(Place),
    /// A log was cut.
    5 Cut(Place),
    /// What cleaning left of a log.
    6 Cleaned(Batch),
    7 Offset(Offset),
    8 OffsetGone(GroupPlace),
    9 GroupGone(Name),
    10 OffsetsEnded(Ended),
    11 GroupConfig(GroupConfig),
    12 Transaction(Saved),
    /// Somebody who logs in by SCRAM.
    13 User(User),
    /// A rule is new, or gone.
    14 Acl(Acl),
    15 Quota(Quota),
}

impl Acl {
    /// `None` if the numbers are those of another version.
    fn rule(self) -> Option<Rule> {
        Some(Rule {
            kind: Kind::from_number(self.kind)?,
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
        Self::Start(Place { topic: topic.to_owned(), partition, offset })
    }

    pub fn cut(topic: &str, partition: i32, offset: i64) -> Self {
        Self::Cut(Place { topic: topic.to_owned(), partition, offset })
    }

    pub fn topic_gone(name: &str) -> Self {
        Self::TopicGone(Name { name: name.to_owned() })
    }

    pub fn group_gone(name: &str) -> Self {
        Self::GroupGone(Name { name: name.to_owned() })
    }

    pub fn group_config(group: &str, name: &str, value: Option<&str>) -> Self {
        let (group, name, value) = (group.to_owned(), name.to_owned(), value.map(str::to_owned));
        Self::GroupConfig(GroupConfig { group, name, value })
    }

    /// `producer_id` is that of the transaction the offset waits for, or -1.
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
        Self::OffsetGone(GroupPlace { group: group.to_owned(), topic: topic.to_owned(), partition })
    }

    /// `None` for somebody who is gone. Passwords as such never come over the protocol.
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

    pub fn ended(producer_id: i64, partitions: &BTreeSet<i32>, committed: bool) -> Self {
        Self::OffsetsEnded(Ended { producer_id, partitions: partitions.iter().copied().collect(), committed })
    }
}

/// What is to be written.
#[derive(Debug, Default)]
pub(super) struct Journal {
    /// Of the next frame; `None` if nothing is kept.
    entries: Option<Vec<u8>>,
    next_producer_id: i64,
}

impl Journal {
    /// Notes something, if anything is kept.
    pub fn note(&mut self, entry: impl FnOnce() -> Entry) {
        if let Some(entries) = &mut self.entries {
            let mut w = Writer::new(0, true);
            entry().put(&mut w);
            // All of it came in requests, whose forms are no wider than these.
            entries.extend(w.finish().unwrap_or_default());
        }
    }

    fn take(&mut self) -> Option<Vec<u8>> {
        let entries = std::mem::take(self.entries.as_mut().filter(|entries| !entries.is_empty())?);
        let length = u32::try_from(entries.len()).unwrap_or(u32::MAX);
        Some([&length.to_be_bytes()[..], &crc32c(&entries).to_be_bytes()[..], &entries].concat())
    }
}

/// The frame that `data` starts with; `None` at a torn tail.
fn frame(data: &Bytes) -> Option<Bytes> {
    let word = |at: usize| Some(u32::from_be_bytes(data.get(at..at + 4)?.try_into().ok()?));
    let (length, crc) = (usize::try_from(word(0)?).ok()?, word(4)?);
    let end = FRAME_HEADER.checked_add(length)?;
    let body = (end <= data.len()).then(|| data.slice(FRAME_HEADER..end))?;
    (crc32c(&body) == crc).then_some(body)
}

impl State {
    /// What changed since the last time, to be written before anybody hears of it.
    pub fn take_journal(&mut self) -> Option<Vec<u8>> {
        let changed = self.transactions.take_changed();
        if self.producer_ids.0 != self.journal.next_producer_id {
            self.journal.next_producer_id = self.producer_ids.0;
            let ids = Ids { cluster_id: self.cluster_id.clone(), next_producer_id: self.producer_ids.0 };
            self.journal.note(|| Entry::Ids(ids));
        }
        for id in changed {
            let saved = self.transactions.saved(&id);
            if let Some(saved) = saved {
                self.journal.note(|| Entry::Transaction(saved));
            }
        }
        self.journal.take()
    }

    /// Notes what a topic is now.
    pub fn note_topic(&mut self, name: &str) {
        let Some(topic) = self.topics.get(name) else { return };
        let configs = topic.configs.list().filter(|c| !c.is_default);
        self.journal.note(|| {
            Entry::Topic(Topic {
                name: name.to_owned(),
                topic_id: topic.id,
                configs: configs.map(|c| Config { name: c.name.to_owned(), value: c.value.to_owned() }).collect(),
                partitions: topic
                    .partitions
                    .iter()
                    .map(|p| Partition { leader: p.leader, leader_epoch: p.leader_epoch, replicas: p.replicas.clone() })
                    .collect(),
            })
        });
    }

    /// Notes what every topic is now.
    pub fn note_topics(&mut self) {
        for name in self.topics.names().map(str::to_owned).collect::<Vec<_>>() {
            self.note_topic(&name);
        }
    }

    /// Makes again what a journal has, keeps one from now on, and says how many of its bytes are whole.
    pub fn restore(&mut self, clock: Clock, mut data: Bytes) -> Result<usize, Error> {
        let all = data.len();
        while let Some(body) = frame(&data) {
            data = data.slice(FRAME_HEADER + body.len()..);
            let mut reader = Reader::new(body.clone(), 0, true);
            while reader.offset() < body.len() {
                self.redo(clock, Entry::get(&mut reader)?);
            }
        }
        let known: BTreeSet<i32> = self.live().map(|n| n.id).collect();
        let replicas = self.topics.partitions_mut().flat_map(|p| p.replicas.clone());
        let gone: Vec<_> = replicas.filter(|id| !known.contains(id)).collect();
        self.down.extend(gone);
        // Whoever leads begins a new epoch, as a broker that was started again does.
        for partition in self.topics.partitions_mut() {
            let stays = known.contains(&partition.leader).then_some(partition.leader);
            let next = stays.or_else(|| partition.replicas.iter().find(|id| known.contains(id)).copied());
            partition.lead(next.unwrap_or(-1));
        }
        self.journal.entries = Some(Vec::new());
        self.note_topics();
        Ok(all - data.len())
    }

    fn redo(&mut self, clock: Clock, entry: Entry) {
        let State { topics, groups, memory, transactions, credentials, .. } = self;
        match entry {
            Entry::Ids(ids) => {
                self.cluster_id = ids.cluster_id;
                (self.producer_ids.0, self.journal.next_producer_id) = (ids.next_producer_id, ids.next_producer_id);
            }
            Entry::Topic(topic) => self.redo_topic(topic),
            Entry::TopicGone(Name { name }) => drop(self.delete_topic(&name)),
            Entry::Batch(batch) => self.redo_batch(&batch),
            Entry::Start(Place { topic, partition, offset }) => {
                self.delete_before(&topic, partition, offset);
            }
            Entry::Cut(Place { topic, partition, offset }) => drop(self.truncate(&topic, partition, offset)),
            Entry::Cleaned(Batch { topic, partition, now_ms, records }) => {
                let kept: Vec<_> = batches(records).filter_map(Result::ok).collect();
                if let Some(topic) = topics.get_mut(&topic) {
                    let rolling = topic.configs.rolling(now_ms);
                    if let Some(partition) = topic.partition(partition) {
                        memory.give(partition.log.total_cost());
                        partition.log.replace(&kept, rolling);
                        memory.charge(partition.log.total_cost());
                    }
                }
            }
            Entry::Offset(Offset { group, topic, partition, offset, leader_epoch, metadata, producer_id }) => {
                groups.create_classic(memory, &group);
                let new = Committed { offset, leader_epoch, metadata };
                match producer_id {
                    ..0 => groups.offsets.commit(memory, &group, &topic, partition, new),
                    id => groups.offsets.commit_pending(memory, &group, (&topic, partition), id, new),
                };
            }
            Entry::OffsetGone(GroupPlace { group, topic, partition }) => {
                groups.offsets.forget(memory, &group, &topic, partition);
            }
            Entry::GroupGone(Name { name }) => {
                let _: ErrorCode = groups.delete(memory, &name);
            }
            Entry::OffsetsEnded(Ended { producer_id, partitions, committed }) => {
                let partitions = partitions.into_iter().collect();
                groups.offsets.end_transaction(memory, producer_id, &partitions, committed);
            }
            Entry::GroupConfig(GroupConfig { group, name, value }) => {
                let mut configs = groups.configs(&group);
                if configs.set(&name, value.as_deref()).is_ok() {
                    groups.configure(memory, &group, configs);
                }
            }
            Entry::User(User { mechanism, name, iterations, salt, password }) => match u32::try_from(iterations) {
                Err(_) => drop(credentials.remove(mechanism, &name)),
                Ok(iterations) => {
                    let (salt, password) = (salt.to_vec(), password.to_vec());
                    credentials.set(mechanism, &name, Secret::Salted { iterations, salt, password });
                }
            },
            Entry::Acl(acl) => {
                let is_there = acl.is_there;
                if let Some(rule) = acl.rule() {
                    self.redo_rule(rule, is_there);
                }
            }
            Entry::Quota(Quota { entity, key, value, is_there }) => {
                let entity = entity.into_iter().map(|part| (part.kind, part.name)).collect();
                self.set_quota(&entity, &key, is_there.then_some(value));
            }
            Entry::Transaction(saved) => transactions.restore(memory, clock, saved),
        }
    }

    fn redo_topic(&mut self, Topic { name, topic_id, configs, partitions }: Topic) {
        let configs = Configs::parse(configs.iter().map(|c| (c.name.as_str(), Some(c.value.as_str()))));
        let configs = configs.unwrap_or_default();
        let replicas = || partitions.iter().map(|p| p.replicas.clone());
        match self.topics.get_mut(&name) {
            Some(topic) => {
                topic.configs = configs;
                let has = topic.partitions.len();
                self.topics.grow(&name, replicas().skip(has).collect());
            }
            None => self.topics.create(&name, topic_id, replicas().collect(), configs),
        }
        let known = self.topics.get_mut(&name).into_iter().flat_map(|topic| &mut topic.partitions);
        for (partition, kept) in known.zip(partitions) {
            (partition.leader, partition.leader_epoch) = (kept.leader, kept.leader_epoch);
            partition.replicas = kept.replicas;
        }
    }

    fn redo_batch(&mut self, Batch { topic, partition, now_ms, records }: &Batch) {
        let State { topics, memory, .. } = self;
        let Some(topic) = topics.get_mut(topic) else { return };
        let rolling = topic.configs.rolling(*now_ms);
        let Some(partition) = topic.partition(*partition) else { return };
        for batch in batches(records.clone()).filter_map(Result::ok) {
            let header = &batch.header;
            memory.charge(Log::cost(batch.data.len()) + partition.producers.cost(header));
            partition.log.append_kept(&batch, rolling);
            let Some(control) = header.is_control().then(|| control(&batch)) else {
                let stamped = header.timestamp_type() == TimestampType::LogAppendTime;
                partition.producers.remember(header, header.base_offset, stamped.then_some(header.max_timestamp));
                continue;
            };
            let epoch = control.and_then(|c| c.coordinator_epoch).unwrap_or(0);
            let first = partition.producers.end_transaction(header, epoch);
            let aborted = control.is_some_and(|c| c.control_type == ControlType::Abort);
            if let Some(first) = first.filter(|_| aborted) {
                memory.charge(Log::ABORTED_COST);
                let stable = partition.producers.first_unstable().unwrap_or(header.next_offset());
                partition.log.note_aborted(header.producer_id, first, header.base_offset, stable);
            }
        }
    }
}

fn control(batch: &record::Batch) -> Option<Control> {
    let mut records = batch.records(0).ok()?;
    let view = records.next_view()?.ok()?;
    Control::parse(view.key(), view.value())
}
