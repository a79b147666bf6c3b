//! The end of transactions: writes markers into the logs, and makes the transaction's offsets visible. The file
//! `broker/transactions.rs` finds transactions that have timed out, and `State::handle_timeout` in `mod.rs` ends them.

use super::State;
use crate::broker::clock::Clock;
use crate::broker::journal::Entry;
use crate::broker::log::Log;
use crate::broker::transactions::{EndedTransaction, OFFSETS_TOPIC, marker};

impl State {
    /// Writes the markers of a transaction that has ended, and applies or drops the transaction's offsets.
    pub fn write_markers(&mut self, clock: Clock, ended: &EndedTransaction) {
        let coordinator_epoch = self.coordinator_epoch;
        let Self { topics, groups, memory, woken, journal, .. } = self;
        for (name, indexes) in &ended.partitions {
            if name == OFFSETS_TOPIC {
                groups.offsets.end_transaction(memory, ended.producer.id, indexes, ended.committed);
                journal.append(|| Entry::ended(ended.producer.id, indexes, ended.committed));
            }
            let Some(topic) = topics.get_mut(name) else {
                continue;
            };
            let log_append_time = topic.configs.uses_log_append_time.then_some(clock.wall_ms);
            let rolling = topic.configs.rolling(clock.wall_ms);
            for index in indexes {
                let Some(partition) = topic.partition(*index) else {
                    continue;
                };
                let Some((batch, header)) = marker(ended.producer, ended.committed, coordinator_epoch, clock.wall_ms)
                else {
                    continue;
                };
                // The transaction was admitted, so its markers cannot be rejected any more.
                memory.reserve(Log::batch_memory(batch.len()) + partition.producers.added_memory(&header));
                let offset = partition.log.append(&batch, &header, partition.leader_epoch, log_append_time, rolling);
                journal.append(|| Entry::batch(name, *index, clock, partition.log.newest(offset)));
                let first = partition.producers.end_transaction(&header, coordinator_epoch);
                if let Some(first) = first.filter(|_| !ended.committed) {
                    memory.reserve(Log::ABORTED_TXN_MEMORY);
                    let stable = partition.producers.first_unstable().unwrap_or(offset + 1);
                    partition.log.note_aborted(ended.producer.id, first, offset, stable);
                }
                woken.extend(partition.waiters.iter());
            }
        }
    }
}
