//! The state of a partition's idempotent producers (KIP-98, KIP-360). For each producer ID, the partition stores the
//! epoch, the last five batches, and the start of the open transaction.
//!
//! The response to a repeated batch has the offset of the first copy. A batch that leaves a gap in the sequence numbers
//! is an error. As in Kafka, the first batch of an unknown producer ID may have any sequence number, because the
//! partition may have removed the state of the producer. The sequence numbers of a new epoch start at 0, even if a
//! transaction marker raised the epoch.

use crate::api::ErrorCode;
use crate::record::{Header, sequence_after};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Number of batches that a client may have in flight. The partition does not have to recognise older batches.
const MAX_BATCHES: usize = 5;

/// Memory of a producer: five batches and their containers.
const PRODUCER_MEMORY: usize = 384;

#[derive(Clone, Copy, Debug)]
struct BatchRange {
    first: i32,
    last: i32,
    base_offset: i64,
    log_append_time: Option<i64>,
}

#[derive(Debug)]
struct Producer {
    epoch: i16,
    batches: VecDeque<BatchRange>,
    last_timestamp: i64,
    /// Epoch of the coordinator that wrote the producer's last marker, or -1 before the first marker.
    coordinator_epoch: i32,
    /// Start of the producer's open transaction.
    first_offset: Option<i64>,
}

/// A producer, with the fields that DescribeProducers returns.
#[derive(Debug)]
pub(super) struct ProducerInfo {
    pub id: i64,
    pub epoch: i16,
    /// The sequence number of the last record, or -1 if the producer has written no batch in this epoch.
    pub last_sequence: i32,
    pub last_timestamp: i64,
    pub coordinator_epoch: i32,
    /// Start of the producer's open transaction, or -1 without an open transaction.
    pub first_offset: i64,
}

/// The result of the check of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SequenceCheck {
    /// The batch is new and must be appended.
    New,
    /// The log already contains the batch.
    Duplicate { base_offset: i64, log_append_time: Option<i64> },
}

#[derive(Debug, Default)]
pub(super) struct Producers {
    by_id: BTreeMap<i64, Producer>,
    /// Starts of the open transactions.
    open: BTreeSet<i64>,
}

impl Producers {
    /// Returns the memory that a batch adds to the state of the producers.
    pub fn added_memory(&self, header: &Header) -> usize {
        if header.producer_id < 0 || self.by_id.contains_key(&header.producer_id) { 0 } else { PRODUCER_MEMORY }
    }

    pub fn total_memory(&self) -> usize {
        self.by_id.len() * PRODUCER_MEMORY
    }

    /// Checks a batch. A batch without a producer ID is always new.
    pub fn check(&self, header: &Header) -> Result<SequenceCheck, (ErrorCode, String)> {
        let Some(producer) = self.by_id.get(&header.producer_id) else {
            return Ok(SequenceCheck::New);
        };
        let (id, epoch, first) = (header.producer_id, header.producer_epoch, header.base_sequence);
        if producer.first_offset.is_some() && !header.is_transactional() {
            let message = format!("producer {id} is in a transaction, and the batch is not");
            return Err((ErrorCode::INVALID_TXN_STATE, message));
        }
        if epoch < producer.epoch {
            let message = format!("epoch {epoch} of producer {id} is older than {}", producer.epoch);
            return Err((ErrorCode::INVALID_PRODUCER_EPOCH, message));
        }
        let expected = if epoch > producer.epoch {
            0
        } else {
            let last = header.last_sequence();
            if let Some(b) = producer.batches.iter().find(|b| b.first == first && b.last == last) {
                return Ok(SequenceCheck::Duplicate { base_offset: b.base_offset, log_append_time: b.log_append_time });
            }
            producer.batches.back().map_or(0, |b| sequence_after(b.last, 1))
        };
        if first != expected {
            let message = format!("producer {id} sent sequence {first}, expected {expected}");
            return Err((ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER, message));
        }
        Ok(SequenceCheck::New)
    }

    /// Remembers a batch that was appended.
    pub fn remember(&mut self, header: &Header, base_offset: i64, log_append_time: Option<i64>) {
        if header.producer_id < 0 {
            return;
        }
        let producer = self.at_epoch(header);
        if producer.batches.len() == MAX_BATCHES {
            producer.batches.pop_front();
        }
        let (first, last) = (header.base_sequence, header.last_sequence());
        producer.batches.push_back(BatchRange { first, last, base_offset, log_append_time });
        producer.last_timestamp = log_append_time.unwrap_or(header.max_timestamp);
        if header.is_transactional() && producer.first_offset.is_none() {
            producer.first_offset = Some(base_offset);
            self.open.insert(base_offset);
        }
    }

    /// Returns the producer of a batch. A new epoch resets the producer's sequence numbers.
    fn at_epoch(&mut self, header: &Header) -> &mut Producer {
        let producer = self.by_id.entry(header.producer_id).or_insert_with(|| Producer {
            epoch: header.producer_epoch,
            batches: VecDeque::with_capacity(MAX_BATCHES),
            last_timestamp: -1,
            coordinator_epoch: -1,
            first_offset: None,
        });
        if producer.epoch != header.producer_epoch {
            producer.epoch = header.producer_epoch;
            producer.batches.clear();
        }
        producer
    }

    /// Returns whether the producer has an open transaction in this partition, in the epoch of the batch.
    pub fn is_open(&self, header: &Header) -> bool {
        let producer = self.by_id.get(&header.producer_id);
        producer.is_some_and(|p| p.epoch == header.producer_epoch && p.first_offset.is_some())
    }

    /// Returns whether the partition knows the producer.
    pub fn knows(&self, id: i64) -> bool {
        self.by_id.contains_key(&id)
    }

    /// Applies a marker. Returns the offset at which the transaction started, if the transaction wrote to this
    /// partition.
    pub fn end_transaction(&mut self, marker: &Header, coordinator_epoch: i32) -> Option<i64> {
        let producer = self.at_epoch(marker);
        producer.coordinator_epoch = coordinator_epoch;
        producer.last_timestamp = marker.max_timestamp;
        let first = producer.first_offset.take()?;
        self.open.remove(&first);
        Some(first)
    }

    /// Returns the first offset of all open transactions.
    pub fn first_unstable(&self) -> Option<i64> {
        self.open.first().copied()
    }

    pub fn all(&self) -> impl Iterator<Item = ProducerInfo> {
        self.by_id.iter().map(|(id, p)| ProducerInfo {
            id: *id,
            epoch: p.epoch,
            last_sequence: p.batches.back().map_or(-1, |b| b.last),
            last_timestamp: p.last_timestamp,
            coordinator_epoch: p.coordinator_epoch,
            first_offset: p.first_offset.unwrap_or(-1),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(epoch: i16, base_sequence: i32, count: i32) -> Header {
        Header {
            base_offset: 0,
            batch_length: 0,
            partition_leader_epoch: -1,
            magic: 2,
            crc: 0,
            attributes: 0,
            last_offset_delta: count - 1,
            base_timestamp: 0,
            max_timestamp: 0,
            producer_id: 4,
            producer_epoch: epoch,
            base_sequence,
            count,
        }
    }

    fn after(batches: &[(i16, i32, i32)]) -> Producers {
        let mut producers = Producers::default();
        for (i, (epoch, sequence, count)) in batches.iter().enumerate() {
            let header = header(*epoch, *sequence, *count);
            assert_eq!(producers.check(&header), Ok(SequenceCheck::New));
            producers.remember(&header, 100 * i as i64, None);
        }
        producers
    }

    fn code(producers: &Producers, epoch: i16, sequence: i32, count: i32) -> ErrorCode {
        producers.check(&header(epoch, sequence, count)).unwrap_err().0
    }

    #[test]
    fn one_of_the_last_five_batches_is_a_duplicate_and_an_older_one_is_out_of_order() {
        let six: Vec<_> = (0..6).map(|i| (0, 2 * i, 2)).collect();
        let producers = after(&six);
        for i in 1..6 {
            let verdict = producers.check(&header(0, 2 * i, 2)).unwrap();
            assert_eq!(verdict, SequenceCheck::Duplicate { base_offset: 100 * i64::from(i), log_append_time: None });
        }
        assert_eq!(code(&producers, 0, 0, 2), ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER);
        assert_eq!(code(&producers, 0, 10, 1), ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER, "same start, other length");
    }

    #[test]
    fn a_gap_is_out_of_order() {
        assert_eq!(code(&after(&[(0, 0, 3)]), 0, 4, 1), ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER);
    }

    #[test]
    fn an_unknown_producer_starts_anywhere_and_a_new_epoch_at_zero() {
        let producers = after(&[(3, 17, 1), (4, 0, 1)]);
        assert_eq!(code(&producers, 3, 18, 1), ErrorCode::INVALID_PRODUCER_EPOCH);
        assert_eq!(code(&producers, 5, 1, 1), ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER);
        assert_eq!(producers.check(&header(5, 0, 1)), Ok(SequenceCheck::New));
    }

    #[test]
    fn sequences_wrap_to_zero() {
        after(&[(0, i32::MAX - 1, 2), (0, 0, 5), (0, 5, 1)]);
        after(&[(0, i32::MAX - 1, 4), (0, 2, 1)]);
    }
}
