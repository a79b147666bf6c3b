//! Removal of data from logs: truncation, retention, compaction, and the deletion of records and topics.

use super::State;
use crate::broker::cleaner::{compacted, due_up_to};
use crate::broker::clock::Clock;
use crate::broker::journal::Entry;
use crate::wire::Uuid;

impl State {
    /// Truncates a log at an offset, as if a lagging replica had become the leader. The error is a message.
    pub fn truncate(&mut self, topic: &str, index: i32, offset: i64) -> Result<(), String> {
        let partition = self.topics.get_mut(topic).and_then(|t| t.partition(index));
        let partition = partition.ok_or_else(|| format!("partition {index} of topic '{topic}' does not exist"))?;
        let before = partition.log.total_memory();
        partition.log.truncate(offset);
        self.memory.release(before - partition.log.total_memory());
        partition.lead(partition.leader);
        self.woken.extend(&partition.waiters);
        self.journal.append(|| Entry::cut(topic, index, offset));
        self.journal_topic(topic);
        Ok(())
    }

    /// Deletes a topic and everything that belongs to it.
    pub fn delete_topic(&mut self, name: &str) -> Option<Uuid> {
        let topic = self.topics.remove(name)?;
        for partition in &topic.partitions {
            self.memory.release(partition.log.total_memory() + partition.producers.total_memory());
            self.woken.extend(&partition.waiters);
        }
        self.groups.forget_topic(&mut self.memory, name, topic.id);
        self.journal.append(|| Entry::topic_gone(name));
        Some(topic.id)
    }

    /// Deletes the records of a partition below an offset. Returns the new start offset of the log.
    pub fn delete_before(&mut self, topic: &str, index: i32, offset: i64) -> Option<i64> {
        let partition = self.topics.get_mut(topic)?.partition(index)?;
        if offset > partition.log.start_offset() {
            let before = partition.log.total_memory();
            partition.log.delete_before(offset);
            self.memory.release(before - partition.log.total_memory());
            self.woken.extend(&partition.waiters);
            self.journal.append(|| Entry::start(topic, index, offset));
        }
        Some(partition.log.start_offset())
    }

    /// Applies the retention of all topics.
    pub fn retain(&mut self, clock: Clock) {
        let mut due = Vec::new();
        for name in self.topics.names() {
            let Some(topic) = self.topics.get(name).filter(|topic| topic.configs.delete) else {
                continue;
            };
            for (partition, index) in topic.partitions.iter().zip(0..) {
                let start = due_up_to(&partition.log, &topic.configs, clock.wall_ms);
                due.extend(start.map(|start| (name.to_owned(), index, start)));
            }
        }
        for (topic, index, start) in due {
            self.delete_before(&topic, index, start);
        }
    }

    /// Compacts a topic. The error is a message.
    pub fn compact(&mut self, clock: Clock, name: &str) -> Result<(), String> {
        let topic = self.topics.get_mut(name).ok_or_else(|| format!("topic '{name}' does not exist"))?;
        if !topic.configs.compact {
            return Err(format!("topic '{name}' is not compacted; its cleanup.policy must include compact"));
        }
        let configs = &topic.configs;
        for (partition, index) in topic.partitions.iter_mut().zip(0..) {
            let stable = partition.last_stable_offset();
            let batches = partition.log.batches();
            let kept = compacted(&partition.log, batches, stable, configs, clock.wall_ms)
                .map_err(|code| format!("topic '{name}' cannot be compacted: {}", code.name()))?;
            let before = partition.log.total_memory();
            partition.log.replace(&kept, configs.rolling(clock.wall_ms));
            self.memory.release(before);
            self.memory.reserve(partition.log.total_memory());
            let whole = || kept.iter().flat_map(|batch| batch.data.iter().copied()).collect();
            self.journal.append(|| Entry::cleaned(name, index, clock, whole()));
        }
        Ok(())
    }
}
