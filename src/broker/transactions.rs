//! The state of every transactional ID at its coordinator (KIP-98, KIP-360, KIP-588, KIP-890).
//!
//! ```text
//!  init              add                      end
//! ------> Empty ----------> Ongoing ------------------------> CompleteCommit | CompleteAbort --add--> Ongoing
//!   ^     next epoch           |   init, timeout: abort               |
//!   '--------------------------'--------------------------------------'
//! ```
//!
//! The end of a transaction raises the producer epoch if the client uses transaction protocol v2 or if the coordinator
//! ends the transaction itself. The transaction markers contain the raised epoch. The broker writes the markers to all
//! logs before it responds to the client, so Kafka's intermediate states (PrepareCommit, PrepareAbort,
//! PrepareEpochFence) are never visible. Transactional IDs do not expire.

use super::Time;
use super::clock::Clock;
use super::ids::{ProducerId, ProducerIds};
use super::memory::Memory;
use crate::api::ErrorCode;
use crate::record::{BatchBuilder, Control, Header, Producer};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Kafka's topic for committed offsets. In a transaction, the topic stands for the groups whose offsets the transaction
/// commits.
pub(super) const OFFSETS_TOPIC: &str = "__consumer_offsets";
const OFFSETS_PARTITIONS: i32 = 50;

/// Maximum transaction timeout in milliseconds: Kafka's `transaction.max.timeout.ms`.
const MAX_TIMEOUT_MS: i32 = 15 * 60 * 1000;

/// The last epoch of a producer ID. The next epoch is reserved for fencing.
const MAX_EPOCH: i16 = i16::MAX - 1;

/// Approximate memory of a transactional ID without the ID, and of a partition without the topic name.
const ENTRY_MEMORY: usize = 160;
const PARTITION_MEMORY: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TransactionState {
    Empty,
    Ongoing,
    CompleteCommit,
    CompleteAbort,
}

impl TransactionState {
    /// Kafka's names for all transaction states, including states that the dev broker does not use.
    pub const NAMES: [&str; 8] = [
        "Empty",
        "Ongoing",
        "PrepareCommit",
        "PrepareAbort",
        "CompleteCommit",
        "CompleteAbort",
        "Dead",
        "PrepareEpochFence",
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Empty => "Empty",
            Self::Ongoing => "Ongoing",
            Self::CompleteCommit => "CompleteCommit",
            Self::CompleteAbort => "CompleteAbort",
        }
    }
}

#[derive(Debug)]
pub(super) struct TransactionMetadata {
    pub state: TransactionState,
    pub producer: ProducerId,
    pub timeout_ms: i32,
    /// Wall clock at the start of the last transaction, or -1 before the first transaction.
    pub start_ms: i64,
    pub partitions: BTreeMap<String, BTreeSet<i32>>,
    /// The previous epoch if the producer itself requested the current epoch, or -1 otherwise.
    previous_epoch: i16,
    previous_id: i64,
    deadline: Time,
}

/// The transaction protocol of a client that writes to a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    /// The client must have added the partition. Otherwise the error is INVALID_TXN_STATE.
    V1,
    /// The client must have added the partition. Otherwise the error is TRANSACTION_ABORTABLE, because the client knows
    /// this error code.
    V1Abortable,
    /// The write adds the partition to the transaction.
    V2,
}

/// The end of a transaction that a client requests.
#[derive(Clone, Copy, Debug)]
pub(super) struct EndRequest<'a> {
    pub id: &'a str,
    pub producer: ProducerId,
    pub committed: bool,
    /// Whether the end of the transaction raises the epoch, as in protocol v2. Protocol v2 can also abort an empty
    /// transaction.
    pub raises_epoch: bool,
}

/// A transaction that has ended and whose markers must be written.
#[derive(Debug)]
pub(super) struct EndedTransaction {
    /// The producer ID and epoch of the markers.
    pub producer: ProducerId,
    pub committed: bool,
    pub partitions: BTreeMap<String, BTreeSet<i32>>,
}

#[derive(Debug, Default)]
pub(super) struct Transactions {
    by_id: BTreeMap<String, TransactionMetadata>,
    deadlines: BTreeSet<(Time, String)>,
    /// Transactional IDs that have changed since the last call of `take_changed`.
    changed: BTreeSet<String>,
}

message! {
    /// The persistent state of a transactional ID.
    struct SavedTransaction {
        id: String,
        state: i8,
        producer_id: i64,
        producer_epoch: i16,
        timeout_ms: i32,
        start_ms: i64,
        previous_epoch: i16,
        previous_id: i64,
        topics: Vec<SavedTopic>,
    }
    struct SavedTopic {
        name: String,
        partitions: Vec<i32>,
    }
}

/// The result of InitProducerId.
#[derive(Debug)]
pub(super) enum InitResult {
    Assigned(ProducerId),
    /// The coordinator first aborts the transaction of the previous producer. The client must retry.
    Fenced(EndedTransaction),
}

impl Transactions {
    pub fn get(&self, id: &str) -> Option<&TransactionMetadata> {
        self.by_id.get(id)
    }

    /// Removes and returns the transactional IDs that have changed since the last call.
    pub fn take_changed(&mut self) -> BTreeSet<String> {
        std::mem::take(&mut self.changed)
    }

    pub fn saved(&self, id: &str) -> Option<SavedTransaction> {
        let txn = self.by_id.get(id)?;
        let topic = |(name, indexes): (&String, &BTreeSet<i32>)| SavedTopic {
            name: name.clone(),
            partitions: indexes.iter().copied().collect(),
        };
        Some(SavedTransaction {
            id: id.to_owned(),
            state: txn.state as i8,
            producer_id: txn.producer.id,
            producer_epoch: txn.producer.epoch,
            timeout_ms: txn.timeout_ms,
            start_ms: txn.start_ms,
            previous_epoch: txn.previous_epoch,
            previous_id: txn.previous_id,
            topics: txn.partitions.iter().map(topic).collect(),
        })
    }

    /// Restores a transactional ID. An open transaction keeps its remaining timeout.
    pub fn restore(&mut self, memory: &mut Memory, clock: Clock, saved: SavedTransaction) {
        if let Some(old) = self.by_id.remove(&saved.id) {
            self.deadlines.remove(&(old.deadline, saved.id.clone()));
            memory.release(saved.id.len() + ENTRY_MEMORY + partitions_memory(&old.partitions));
        }
        let producer = ProducerId { id: saved.producer_id, epoch: saved.producer_epoch };
        let mut txn = TransactionMetadata::new(producer, saved.timeout_ms);
        txn.state = match saved.state {
            1 => TransactionState::Ongoing,
            2 => TransactionState::CompleteCommit,
            3 => TransactionState::CompleteAbort,
            _ => TransactionState::Empty,
        };
        (txn.start_ms, txn.previous_epoch, txn.previous_id) = (saved.start_ms, saved.previous_epoch, saved.previous_id);
        txn.partitions = saved.topics.into_iter().map(|t| (t.name, t.partitions.into_iter().collect())).collect();
        if txn.state == TransactionState::Ongoing {
            let left = saved.start_ms.saturating_add(saved.timeout_ms.into()).saturating_sub(clock.wall_ms);
            txn.deadline = clock.now + Duration::from_millis(u64::try_from(left).unwrap_or(0));
            self.deadlines.insert((txn.deadline, saved.id.clone()));
        }
        memory.reserve(saved.id.len() + ENTRY_MEMORY + partitions_memory(&txn.partitions));
        self.by_id.insert(saved.id, txn);
    }

    pub fn all(&self) -> impl Iterator<Item = (&str, &TransactionMetadata)> {
        self.by_id.iter().map(|(id, t)| (id.as_str(), t))
    }

    /// Assigns a producer ID and epoch. `claimed_producer` is the client's current producer ID and epoch, if the client
    /// sends them (KIP-360).
    pub fn init(
        &mut self,
        memory: &mut Memory,
        ids: &mut ProducerIds,
        id: &str,
        timeout_ms: i32,
        claimed_producer: Option<ProducerId>,
    ) -> Result<InitResult, ErrorCode> {
        if !(1..=MAX_TIMEOUT_MS).contains(&timeout_ms) {
            return Err(ErrorCode::INVALID_TRANSACTION_TIMEOUT);
        }
        self.changed.insert(id.to_owned());
        let Some(txn) = self.by_id.get_mut(id) else {
            if !memory.try_reserve(id.len() + ENTRY_MEMORY) {
                return Err(ErrorCode::COORDINATOR_NOT_AVAILABLE);
            }
            let producer = ProducerId { id: ids.next(), epoch: 0 };
            self.by_id.insert(id.to_owned(), TransactionMetadata::new(producer, timeout_ms));
            return Ok(InitResult::Assigned(producer));
        };
        let current = txn.producer;
        // A client that lost the response with the new ID retries with the old one.
        let retries = |c: ProducerId| c.id == txn.previous_id && c.epoch >= MAX_EPOCH;
        if claimed_producer.is_some_and(|c| c.id != current.id && !retries(c)) {
            return Err(ErrorCode::PRODUCER_FENCED);
        }
        if txn.state == TransactionState::Ongoing {
            return Ok(InitResult::Fenced(self.abort(memory, id)));
        }
        if current.epoch >= MAX_EPOCH && claimed_producer.is_none_or(|c| c.epoch == current.epoch) {
            txn.producer = ProducerId { id: ids.next(), epoch: 0 };
            (txn.previous_id, txn.previous_epoch) = (current.id, claimed_producer.map_or(-1, |c| c.epoch));
        } else {
            match claimed_producer {
                Some(claimed) if claimed.epoch == txn.previous_epoch => {}
                Some(claimed) if claimed.epoch != current.epoch => return Err(ErrorCode::PRODUCER_FENCED),
                _ if current.epoch >= MAX_EPOCH => return Err(ErrorCode::PRODUCER_FENCED),
                _ => {
                    txn.producer.epoch += 1;
                    txn.previous_epoch = claimed_producer.map_or(-1, |c| c.epoch);
                }
            }
        }
        txn.timeout_ms = timeout_ms;
        txn.state = TransactionState::Empty;
        Ok(InitResult::Assigned(txn.producer))
    }

    /// Adds partitions to the open transaction, or starts a transaction with these partitions.
    pub fn add<'a>(
        &mut self,
        memory: &mut Memory,
        clock: Clock,
        id: &str,
        producer: ProducerId,
        partitions: impl Iterator<Item = (&'a str, i32)>,
    ) -> Result<(), ErrorCode> {
        let Self { by_id, deadlines, changed } = self;
        changed.insert(id.to_owned());
        let txn = owned_transaction(by_id, id, producer)?;
        for (topic, index) in partitions {
            if txn.partitions.get(topic).is_some_and(|p| p.contains(&index)) {
                continue;
            }
            if !memory.try_reserve(topic.len() + PARTITION_MEMORY) {
                return Err(ErrorCode::COORDINATOR_NOT_AVAILABLE);
            }
            txn.partitions.entry(topic.to_owned()).or_default().insert(index);
        }
        if txn.state != TransactionState::Ongoing {
            txn.state = TransactionState::Ongoing;
            txn.start_ms = clock.wall_ms;
            txn.deadline = clock.now + Duration::from_millis(u64::try_from(txn.timeout_ms).unwrap_or(0));
            deadlines.insert((txn.deadline, id.to_owned()));
        }
        Ok(())
    }

    /// Checks whether a partition belongs to the transaction. In Kafka, partition leaders ask the coordinator.
    pub fn verify(&mut self, id: &str, producer: ProducerId, topic: &str, index: i32) -> Result<(), ErrorCode> {
        match owned_transaction(&mut self.by_id, id, producer)?.partitions.get(topic) {
            Some(indexes) if indexes.contains(&index) => Ok(()),
            _ => Err(ErrorCode::TRANSACTION_ABORTABLE),
        }
    }

    /// Checks the first write to a partition in a transaction. In protocol v2, the write adds the partition to the
    /// transaction.
    pub fn verify_or_add(
        &mut self,
        memory: &mut Memory,
        clock: Clock,
        id: &str,
        producer: ProducerId,
        (topic, index): (&str, i32),
        protocol: Protocol,
    ) -> Result<(), ErrorCode> {
        let verified = match protocol {
            Protocol::V2 => self.add(memory, clock, id, producer, [(topic, index)].into_iter()),
            Protocol::V1 | Protocol::V1Abortable => self.verify(id, producer, topic, index),
        };
        verified.map_err(|code| match code {
            ErrorCode::PRODUCER_FENCED => ErrorCode::INVALID_PRODUCER_EPOCH,
            ErrorCode::TRANSACTION_ABORTABLE if protocol == Protocol::V1 => ErrorCode::INVALID_TXN_STATE,
            code => code,
        })
    }

    /// Ends a transaction for its client, and returns the producer's new ID and epoch. `None` means that the
    /// transaction had already ended.
    pub fn end(
        &mut self,
        memory: &mut Memory,
        ids: &mut ProducerIds,
        clock: Clock,
        EndRequest { id, producer, committed, raises_epoch }: EndRequest<'_>,
    ) -> Result<(Option<EndedTransaction>, ProducerId), ErrorCode> {
        let txn = self.by_id.get_mut(id).ok_or(ErrorCode::INVALID_PRODUCER_ID_MAPPING)?;
        let current = txn.producer;
        let complete = matches!(txn.state, TransactionState::CompleteCommit | TransactionState::CompleteAbort);
        let got_new_id = txn.previous_id == producer.id && producer.epoch == MAX_EPOCH && current.epoch == 0;
        let is_retry = raises_epoch && complete && (got_new_id || producer.epoch.checked_add(1) == Some(current.epoch));
        if current.id != producer.id && !(is_retry && got_new_id) {
            return Err(ErrorCode::INVALID_PRODUCER_ID_MAPPING);
        }
        if current.epoch != producer.epoch && !is_retry {
            return Err(ErrorCode::PRODUCER_FENCED);
        }
        let has_same_result =
            txn.state == if committed { TransactionState::CompleteCommit } else { TransactionState::CompleteAbort };
        let must_complete = match txn.state {
            TransactionState::Ongoing => true,
            _ if is_retry || !raises_epoch && has_same_result => false,
            _ => raises_epoch && !committed,
        };
        if !must_complete {
            return if has_same_result { Ok((None, current)) } else { Err(ErrorCode::INVALID_TXN_STATE) };
        }
        if txn.state != TransactionState::Ongoing {
            txn.start_ms = clock.wall_ms;
        }
        let ended = match raises_epoch {
            true => {
                let ended = self.complete(memory, id, current.next_epoch(), committed);
                if let Some(txn) = self.by_id.get_mut(id).filter(|_| current.epoch >= MAX_EPOCH) {
                    txn.producer = ProducerId { id: ids.next(), epoch: 0 };
                    txn.previous_id = current.id;
                }
                ended
            }
            false => self.complete(memory, id, current, committed),
        };
        Ok((Some(ended), self.by_id.get(id).map_or(current, |txn| txn.producer)))
    }

    /// Aborts an open transaction without a request of the client, and fences the producer.
    fn abort(&mut self, memory: &mut Memory, id: &str) -> EndedTransaction {
        let fencing = self.by_id.get(id).map_or(ProducerId::NONE, |txn| txn.producer.next_epoch());
        self.complete(memory, id, fencing, false)
    }

    fn complete(&mut self, memory: &mut Memory, id: &str, producer: ProducerId, committed: bool) -> EndedTransaction {
        let mut partitions = BTreeMap::new();
        self.changed.insert(id.to_owned());
        if let Some(txn) = self.by_id.get_mut(id) {
            self.deadlines.remove(&(txn.deadline, id.to_owned()));
            if txn.producer != producer {
                txn.previous_epoch = txn.producer.epoch;
                txn.producer = producer;
            }
            txn.state = if committed { TransactionState::CompleteCommit } else { TransactionState::CompleteAbort };
            partitions = std::mem::take(&mut txn.partitions);
        }
        memory.release(partitions_memory(&partitions));
        EndedTransaction { producer, committed, partitions }
    }

    pub fn next_timeout(&self) -> Option<Time> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    /// Aborts one transaction that has timed out. `State::handle_timeout` calls this method until no transaction has
    /// timed out.
    pub fn expire(&mut self, memory: &mut Memory, now: Time) -> Option<EndedTransaction> {
        let (_, id) = self.deadlines.first().filter(|(at, _)| *at <= now)?.clone();
        Some(self.abort(memory, &id))
    }
}

fn partitions_memory(partitions: &BTreeMap<String, BTreeSet<i32>>) -> usize {
    partitions.iter().map(|(topic, indexes)| indexes.len() * (topic.len() + PARTITION_MEMORY)).sum()
}

/// Returns the transaction of a producer, if the producer still owns the ID.
fn owned_transaction<'a>(
    by_id: &'a mut BTreeMap<String, TransactionMetadata>,
    id: &str,
    producer: ProducerId,
) -> Result<&'a mut TransactionMetadata, ErrorCode> {
    match by_id.get_mut(id) {
        Some(txn) if txn.producer == producer => Ok(txn),
        Some(txn) if txn.producer.id == producer.id => Err(ErrorCode::PRODUCER_FENCED),
        _ => Err(ErrorCode::INVALID_PRODUCER_ID_MAPPING),
    }
}

impl TransactionMetadata {
    fn new(producer: ProducerId, timeout_ms: i32) -> Self {
        Self {
            state: TransactionState::Empty,
            producer,
            timeout_ms,
            start_ms: -1,
            partitions: BTreeMap::new(),
            previous_epoch: -1,
            previous_id: -1,
            deadline: Time::ZERO,
        }
    }
}

/// Returns the partition of [`OFFSETS_TOPIC`] for a group, by Java's hash of its name.
pub(super) fn offsets_partition(group: &str) -> i32 {
    let hash = group.encode_utf16().fold(0u32, |h, unit| h.wrapping_mul(31).wrapping_add(unit.into()));
    let magnitude = hash.cast_signed().checked_abs().unwrap_or(0);
    magnitude % OFFSETS_PARTITIONS
}

/// Returns the marker batch for a transaction that has ended.
pub(super) fn marker(
    producer: ProducerId,
    committed: bool,
    coordinator_epoch: i32,
    now_ms: i64,
) -> Option<(Vec<u8>, Header)> {
    let control = Control::end_of_transaction(committed, coordinator_epoch);
    let mut builder = BatchBuilder::with_capacity(0);
    builder.append(now_ms, Some(&control.key()), control.value().as_ref().map(|v| &v[..]), &[]);
    let producer = Producer { id: producer.id, epoch: producer.epoch, base_sequence: -1, transactional: true };
    let mut batch = builder.seal(crate::compress::Compression::None, producer).ok()?.data.to_vec();
    let mut header = Header::parse(&batch).ok()??;
    header.set_control();
    header.stamp(&mut batch);
    Some((batch, header))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_where_java_keeps_them() {
        for (group, partition) in [("", 0), ("g", 3), ("my-group", 12), ("polygenelubricants", 0), ("billing", 9)] {
            assert_eq!(offsets_partition(group), partition, "{group}");
        }
    }
}
