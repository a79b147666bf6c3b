//! The consumer's side of transactions: which records belong to no committed transaction, and the way back to them.
//!
//! A producer commits the consumer's offsets in its transactions. If a transaction aborts, the consumer must read the
//! records of the transaction again. Each partition therefore keeps the offset of its first uncommitted record. While
//! the result of a commit is unknown, the consumer delivers no records, because it may have to go back.

use super::Consumer;
use super::partition::{Partition, PositionState};
use crate::engine::ops::CommittedOffset;
use crate::engine::{Time, TopicPartition};

impl<T: Send> Consumer<T> {
    /// Notes that a transaction begins, whose producer commits the offsets of this consumer.
    pub fn begin_transaction(&mut self) {
        self.in_transaction = true;
    }

    /// Stops the delivery of records until the result of the transaction is known.
    pub fn hold(&mut self) {
        self.held = true;
    }

    /// Notes that a transaction with these offsets was committed.
    pub fn transaction_committed(&mut self, offsets: &[CommittedOffset]) {
        (self.in_transaction, self.held) = (false, false);
        for offset in offsets {
            if let Ok(p) = self.at(&offset.topic, offset.partition) {
                p.uncommitted_from = Some(offset.offset);
            }
        }
    }

    /// Returns to the first uncommitted record of each partition, because the transaction was aborted. Returns the
    /// partitions whose position moved.
    pub fn transaction_aborted(&mut self) -> Vec<TopicPartition> {
        (self.in_transaction, self.held) = (false, false);
        let rewound = self.partitions.values_mut().filter_map(Partition::rewind_uncommitted);
        rewound.map(|p| p.topic_partition()).collect()
    }

    /// Looks up the committed offsets again, because the result of the transaction is unknown. The coordinator answers
    /// only after the transaction has ended (KIP-447).
    pub fn transaction_unknown(&mut self, now: Time) -> Vec<TopicPartition> {
        (self.in_transaction, self.held) = (false, false);
        let uncertain = self.partitions.values_mut().filter(|p| p.has_uncommitted());
        let restart = |p: &mut Partition| {
            p.restart(PositionState::Committed);
            p.forget_delivered();
            p.topic_partition()
        };
        let restarted = uncertain.map(restart).collect();
        self.find_positions(now);
        restarted
    }
}

impl Partition {
    /// Moves the position back to the first uncommitted record, if records were delivered since.
    fn rewind_uncommitted(&mut self) -> Option<&Self> {
        let from = self.uncommitted_from.filter(|_| self.has_uncommitted())?;
        self.start_at(from);
        Some(self)
    }
}
