//! The journal of the state: this file records changes of the state, and restores the state from a journal when a
//! cluster restarts.

use super::State;
use crate::api::ErrorCode;
use crate::broker::clock::Clock;
use crate::broker::configs::Configs;
use crate::broker::group::offsets::Committed;
use crate::broker::journal::{
    Batch, Config, Ended, Entry, FRAME_HEADER, GroupConfig, GroupPartition, Ids, LogOffset, Name, NodeConfigs, Offset,
    Partition, Quota, Topic, User, frame,
};
use crate::broker::log::Log;
use crate::broker::node_configs::Scope;
use crate::broker::sasl::Secret;
use crate::record::{self, Control, ControlType, TimestampType, batches};
use crate::wire::{Error, Reader};
use bytes::Bytes;
use std::collections::BTreeSet;

impl State {
    /// Returns the changes since the last call. The caller must write these changes to the journal before it sends any
    /// reply.
    pub fn take_journal(&mut self) -> Option<Vec<u8>> {
        let changed = self.transactions.take_changed();
        if self.producer_ids.0 != self.journal.next_producer_id {
            self.journal.next_producer_id = self.producer_ids.0;
            let ids = Ids { cluster_id: self.cluster_id.clone(), next_producer_id: self.producer_ids.0 };
            self.journal.append(|| Entry::Ids(ids));
        }
        for id in changed {
            let saved = self.transactions.saved(&id);
            if let Some(saved) = saved {
                self.journal.append(|| Entry::Transaction(saved));
            }
        }
        self.journal.take()
    }

    /// Records the current state of a topic.
    pub fn journal_topic(&mut self, name: &str) {
        let Some(topic) = self.topics.get(name) else { return };
        let configs = topic.configs.list().filter(|c| !c.is_default);
        self.journal.append(|| {
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

    pub fn journal_topics(&mut self) {
        for name in self.topics.names().map(str::to_owned).collect::<Vec<_>>() {
            self.journal_topic(&name);
        }
    }

    /// Restores the state from a journal, and starts to record changes. Returns how many bytes of the journal are
    /// complete frames.
    pub fn restore(&mut self, clock: Clock, mut data: Bytes) -> Result<usize, Error> {
        let all = data.len();
        while let Some(body) = frame(&data) {
            data = data.slice(FRAME_HEADER + body.len()..);
            let mut reader = Reader::new(body.clone(), 0, true);
            while reader.offset() < body.len() {
                self.replay(clock, Entry::get(&mut reader)?);
            }
        }
        let live: BTreeSet<i32> = self.live().map(|n| n.id).collect();
        let replicas = self.topics.partitions_mut().flat_map(|p| p.replicas.clone());
        let missing: Vec<_> = replicas.filter(|id| !live.contains(id)).collect();
        self.down.extend(missing);
        // Each leader starts a new epoch, as a restarted broker does.
        for partition in self.topics.partitions_mut() {
            let current = live.contains(&partition.leader).then_some(partition.leader);
            let next = current.or_else(|| partition.replicas.iter().find(|id| live.contains(id)).copied());
            partition.lead(next.unwrap_or(-1));
        }
        self.journal.entries = Some(Vec::new());
        self.journal_topics();
        Ok(all - data.len())
    }

    fn replay(&mut self, clock: Clock, entry: Entry) {
        let State { topics, groups, memory, transactions, credentials, topic_defaults, .. } = self;
        match entry {
            Entry::Ids(ids) => {
                self.cluster_id = ids.cluster_id;
                (self.producer_ids.0, self.journal.next_producer_id) = (ids.next_producer_id, ids.next_producer_id);
            }
            Entry::Topic(topic) => self.replay_topic(topic),
            Entry::TopicGone(Name { name }) => drop(self.delete_topic(&name)),
            Entry::Batch(batch) => self.replay_batch(&batch),
            Entry::Start(LogOffset { topic, partition, offset }) => {
                self.delete_before(&topic, partition, offset);
            }
            Entry::Cut(LogOffset { topic, partition, offset }) => drop(self.truncate(&topic, partition, offset)),
            Entry::Cleaned(Batch { topic, partition, now_ms, records }) => {
                let kept: Vec<_> = batches(records).filter_map(Result::ok).collect();
                if let Some(topic) = topics.get_mut(&topic) {
                    let rolling = topic.configs.rolling(now_ms);
                    if let Some(partition) = topic.partition(partition) {
                        memory.release(partition.log.total_memory());
                        partition.log.replace(&kept, rolling);
                        memory.reserve(partition.log.total_memory());
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
            Entry::OffsetGone(GroupPartition { group, topic, partition }) => {
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
                let mut settings = groups.settings(&group);
                if settings.set(topic_defaults.release, &name, value.as_deref()).is_ok() {
                    groups.configure(memory, &group, settings);
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
                    self.replay_rule(rule, is_there);
                }
            }
            Entry::NodeConfigs(NodeConfigs { is_all, node, configs }) => {
                let scope = if is_all { Scope::All } else { Scope::Node(node) };
                self.replay_node_configs(scope, configs.into_iter().map(|c| (c.name, c.value)).collect());
            }
            Entry::Quota(Quota { entity, key, value, is_there }) => {
                let entity = entity.into_iter().map(|part| (part.kind, part.name)).collect();
                self.set_quota(&entity, &key, is_there.then_some(value));
            }
            Entry::Token(token) => self.replay_token(token),
            Entry::TokenGone(Name { name }) => self.remove_token(&name),
            Entry::Transaction(saved) => transactions.restore(memory, clock, saved),
        }
    }

    fn replay_topic(&mut self, Topic { name, topic_id, configs, partitions }: Topic) {
        let defaults = self.topic_defaults.clone();
        let configs = Configs::parse(&defaults, configs.iter().map(|c| (c.name.as_str(), Some(c.value.as_str()))));
        let configs = configs.unwrap_or_else(|_| Configs::of(defaults));
        let replicas = || partitions.iter().map(|p| p.replicas.clone());
        match self.topics.get_mut(&name) {
            Some(topic) => {
                topic.configs = configs;
                let has = topic.partitions.len();
                self.topics.grow(&name, replicas().skip(has).collect());
            }
            None => self.topics.create(&name, topic_id, replicas().collect(), configs),
        }
        let existing = self.topics.get_mut(&name).into_iter().flat_map(|topic| &mut topic.partitions);
        for (partition, kept) in existing.zip(partitions) {
            (partition.leader, partition.leader_epoch) = (kept.leader, kept.leader_epoch);
            partition.replicas = kept.replicas;
        }
    }

    /// Appends unchanged batches that another cluster wrote.
    pub fn append_recorded_batch(&mut self, clock: Clock, topic: &str, partition: i32, records: Bytes) {
        let batch = Batch { topic: topic.to_owned(), partition, now_ms: clock.wall_ms, records };
        self.replay_batch(&batch);
        self.journal.append(|| Entry::Batch(batch));
    }

    fn replay_batch(&mut self, Batch { topic, partition, now_ms, records }: &Batch) {
        let State { topics, memory, .. } = self;
        let Some(topic) = topics.get_mut(topic) else { return };
        let rolling = topic.configs.rolling(*now_ms);
        let Some(partition) = topic.partition(*partition) else { return };
        for batch in batches(records.clone()).filter_map(Result::ok) {
            let header = &batch.header;
            memory.reserve(Log::batch_memory(batch.data.len()) + partition.producers.added_memory(header));
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
                memory.reserve(Log::ABORTED_TXN_MEMORY);
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
