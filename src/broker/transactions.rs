//! Transactions: what the coordinators know of every transactional id (KIP-98, KIP-360, KIP-588, KIP-890).
//!
//! ```text
//!  init              add                      end
//! ------> Empty ----------> Ongoing ------------------------> CompleteCommit | CompleteAbort --add--> Ongoing
//!   ^     next epoch           |   init, timeout: abort               |
//!   '--------------------------'--------------------------------------'
//! ```
//!
//! Every end that a client with transaction protocol v2 asks for, and every one the coordinator decides by itself,
//! raises the epoch; the markers carry the raised one. They are in all logs before the answer goes out, so the phases
//! Kafka has in between (PrepareCommit, PrepareAbort, PrepareEpochFence) never show. Transactional ids do not expire.

use super::Time;
use super::idempotence::Producers;
use super::journal::Entry;
use super::log::Log;
use super::state::{Clock, Memory, ProducerId, ProducerIds, State};
use crate::api::ErrorCode;
use crate::record::{BatchBuilder, Control, Header, Producer};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Where Kafka keeps committed offsets: as a member of a transaction it stands for a group.
pub(super) const OFFSETS_TOPIC: &str = "__consumer_offsets";
const OFFSETS_PARTITIONS: i32 = 50;

/// The longest transaction allowed, milliseconds: Kafka's `transaction.max.timeout.ms`.
const MAX_TIMEOUT_MS: i32 = 15 * 60 * 1000;

/// The last epoch a producer is given: the one after it is for fencing.
const LAST_EPOCH: i16 = i16::MAX - 1;

/// What remembering a transactional id takes besides the id, and a partition besides its topic's name, roughly.
const ENTRY: usize = 160;
const PARTITION: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Empty,
    Ongoing,
    CompleteCommit,
    CompleteAbort,
}

impl Phase {
    /// Kafka's names for the states of a transaction, those included that are never seen here.
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

/// What is known of one transactional id.
#[derive(Debug)]
pub(super) struct Transaction {
    pub phase: Phase,
    pub producer: ProducerId,
    pub timeout_ms: i32,
    /// Wall clock when the last transaction started, -1 before the first.
    pub start_ms: i64,
    pub partitions: BTreeMap<String, BTreeSet<i32>>,
    /// The epoch before this one, if its holder asked for this one; -1 if somebody else did.
    last_epoch: i16,
    /// The id before this one.
    previous_id: i64,
    deadline: Time,
}

/// What a client says of its protocol when it writes to a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    /// Partitions are added before; INVALID_TXN_STATE where that was forgotten.
    V1,
    /// The same, but the client knows TRANSACTION_ABORTABLE.
    V1Abortable,
    /// Writing adds the partition.
    V2,
}

/// How a client ends its transaction.
#[derive(Clone, Copy, Debug)]
pub(super) struct End<'a> {
    pub id: &'a str,
    pub producer: ProducerId,
    pub committed: bool,
    /// As protocol v2 does, which can also abort a transaction that has nothing.
    pub raises_epoch: bool,
}

/// A transaction that is over: markers have to be written.
#[derive(Debug)]
pub(super) struct Ended {
    /// The producer and epoch of the markers.
    pub producer: ProducerId,
    pub committed: bool,
    pub partitions: BTreeMap<String, BTreeSet<i32>>,
}

/// All transactional ids.
#[derive(Debug, Default)]
pub(super) struct Transactions {
    by_id: BTreeMap<String, Transaction>,
    deadlines: BTreeSet<(Time, String)>,
    /// Those that changed since somebody asked.
    changed: BTreeSet<String>,
}

message! {
    /// What is kept of a transactional id.
    struct Saved {
        id: String,
        phase: i8,
        producer_id: i64,
        producer_epoch: i16,
        timeout_ms: i32,
        start_ms: i64,
        last_epoch: i16,
        previous_id: i64,
        topics: Vec<SavedTopic>,
    }
    struct SavedTopic {
        name: String,
        partitions: Vec<i32>,
    }
}

/// What an InitProducerId comes to.
#[derive(Debug)]
pub(super) enum Init {
    Given(ProducerId),
    /// The transaction of the one before is aborted first, and the client has to ask again.
    Fenced(Ended),
}

impl Transactions {
    pub fn get(&self, id: &str) -> Option<&Transaction> {
        self.by_id.get(id)
    }

    /// The ids whose transactions changed since this was asked last.
    pub fn take_changed(&mut self) -> BTreeSet<String> {
        std::mem::take(&mut self.changed)
    }

    /// What has to be kept of an id.
    pub fn saved(&self, id: &str) -> Option<Saved> {
        let txn = self.by_id.get(id)?;
        let topic = |(name, indexes): (&String, &BTreeSet<i32>)| SavedTopic {
            name: name.clone(),
            partitions: indexes.iter().copied().collect(),
        };
        Some(Saved {
            id: id.to_owned(),
            phase: txn.phase as i8,
            producer_id: txn.producer.id,
            producer_epoch: txn.producer.epoch,
            timeout_ms: txn.timeout_ms,
            start_ms: txn.start_ms,
            last_epoch: txn.last_epoch,
            previous_id: txn.previous_id,
            topics: txn.partitions.iter().map(topic).collect(),
        })
    }

    /// Takes what was kept of an id in; an open transaction has the time that is left of it.
    pub fn restore(&mut self, memory: &mut Memory, clock: Clock, saved: Saved) {
        if let Some(old) = self.by_id.remove(&saved.id) {
            self.deadlines.remove(&(old.deadline, saved.id.clone()));
            memory.give(saved.id.len() + ENTRY + cost(&old.partitions));
        }
        let producer = ProducerId { id: saved.producer_id, epoch: saved.producer_epoch };
        let mut txn = Transaction::new(producer, saved.timeout_ms);
        txn.phase = match saved.phase {
            1 => Phase::Ongoing,
            2 => Phase::CompleteCommit,
            3 => Phase::CompleteAbort,
            _ => Phase::Empty,
        };
        (txn.start_ms, txn.last_epoch, txn.previous_id) = (saved.start_ms, saved.last_epoch, saved.previous_id);
        txn.partitions = saved.topics.into_iter().map(|t| (t.name, t.partitions.into_iter().collect())).collect();
        if txn.phase == Phase::Ongoing {
            let left = saved.start_ms.saturating_add(saved.timeout_ms.into()).saturating_sub(clock.wall_ms);
            txn.deadline = clock.now + Duration::from_millis(u64::try_from(left).unwrap_or(0));
            self.deadlines.insert((txn.deadline, saved.id.clone()));
        }
        memory.charge(saved.id.len() + ENTRY + cost(&txn.partitions));
        self.by_id.insert(saved.id, txn);
    }

    pub fn all(&self) -> impl Iterator<Item = (&str, &Transaction)> {
        self.by_id.iter().map(|(id, t)| (id.as_str(), t))
    }

    /// Gives a producer its id and epoch. `claims` is what it had before, if it says so (KIP-360).
    pub fn init(
        &mut self,
        memory: &mut Memory,
        ids: &mut ProducerIds,
        id: &str,
        timeout_ms: i32,
        claims: Option<ProducerId>,
    ) -> Result<Init, ErrorCode> {
        if !(1..=MAX_TIMEOUT_MS).contains(&timeout_ms) {
            return Err(ErrorCode::INVALID_TRANSACTION_TIMEOUT);
        }
        self.changed.insert(id.to_owned());
        let Some(txn) = self.by_id.get_mut(id) else {
            if !memory.take(id.len() + ENTRY) {
                return Err(ErrorCode::COORDINATOR_NOT_AVAILABLE);
            }
            let producer = ProducerId { id: ids.next(), epoch: 0 };
            self.by_id.insert(id.to_owned(), Transaction::new(producer, timeout_ms));
            return Ok(Init::Given(producer));
        };
        let now = txn.producer;
        // A retry after the answer with a new id was lost still has the old one.
        let retries = |c: ProducerId| c.id == txn.previous_id && c.epoch >= LAST_EPOCH;
        if claims.is_some_and(|c| c.id != now.id && !retries(c)) {
            return Err(ErrorCode::PRODUCER_FENCED);
        }
        if txn.phase == Phase::Ongoing {
            return Ok(Init::Fenced(self.abort(memory, id)));
        }
        if now.epoch >= LAST_EPOCH && claims.is_none_or(|c| c.epoch == now.epoch) {
            txn.producer = ProducerId { id: ids.next(), epoch: 0 };
            (txn.previous_id, txn.last_epoch) = (now.id, claims.map_or(-1, |c| c.epoch));
        } else {
            match claims {
                Some(claims) if claims.epoch == txn.last_epoch => {}
                Some(claims) if claims.epoch != now.epoch => return Err(ErrorCode::PRODUCER_FENCED),
                _ if now.epoch >= LAST_EPOCH => return Err(ErrorCode::PRODUCER_FENCED),
                claims => {
                    txn.producer.epoch += 1;
                    txn.last_epoch = claims.map_or(-1, |c| c.epoch);
                }
            }
        }
        txn.timeout_ms = timeout_ms;
        txn.phase = Phase::Empty;
        Ok(Init::Given(txn.producer))
    }

    /// Makes partitions part of the transaction, and starts one if there is none.
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
        let txn = check(by_id, id, producer)?;
        for (topic, index) in partitions {
            if txn.partitions.get(topic).is_some_and(|p| p.contains(&index)) {
                continue;
            }
            if !memory.take(topic.len() + PARTITION) {
                return Err(ErrorCode::COORDINATOR_NOT_AVAILABLE);
            }
            txn.partitions.entry(topic.to_owned()).or_default().insert(index);
        }
        if txn.phase != Phase::Ongoing {
            txn.phase = Phase::Ongoing;
            txn.start_ms = clock.wall_ms;
            txn.deadline = clock.now + Duration::from_millis(u64::try_from(txn.timeout_ms).unwrap_or(0));
            deadlines.insert((txn.deadline, id.to_owned()));
        }
        Ok(())
    }

    /// Whether a partition is part of the transaction: what brokers ask coordinators.
    pub fn verify(&mut self, id: &str, producer: ProducerId, topic: &str, index: i32) -> Result<(), ErrorCode> {
        match check(&mut self.by_id, id, producer)?.partitions.get(topic) {
            Some(indexes) if indexes.contains(&index) => Ok(()),
            _ => Err(ErrorCode::TRANSACTION_ABORTABLE),
        }
    }

    /// Judges the first write to a partition in a transaction, which in protocol v2 adds the partition.
    pub fn enter(
        &mut self,
        memory: &mut Memory,
        clock: Clock,
        id: &str,
        producer: ProducerId,
        (topic, index): (&str, i32),
        protocol: Protocol,
    ) -> Result<(), ErrorCode> {
        let entered = match protocol {
            Protocol::V2 => self.add(memory, clock, id, producer, [(topic, index)].into_iter()),
            Protocol::V1 | Protocol::V1Abortable => self.verify(id, producer, topic, index),
        };
        entered.map_err(|code| match code {
            ErrorCode::PRODUCER_FENCED => ErrorCode::INVALID_PRODUCER_EPOCH,
            ErrorCode::TRANSACTION_ABORTABLE if protocol == Protocol::V1 => ErrorCode::INVALID_TXN_STATE,
            code => code,
        })
    }

    /// Ends a transaction for its client; `None` says that it was done before. With it comes what the producer is now.
    pub fn end(
        &mut self,
        memory: &mut Memory,
        ids: &mut ProducerIds,
        clock: Clock,
        End { id, producer, committed, raises_epoch }: End<'_>,
    ) -> Result<(Option<Ended>, ProducerId), ErrorCode> {
        let txn = self.by_id.get_mut(id).ok_or(ErrorCode::INVALID_PRODUCER_ID_MAPPING)?;
        let now = txn.producer;
        let complete = matches!(txn.phase, Phase::CompleteCommit | Phase::CompleteAbort);
        let got_new_id = txn.previous_id == producer.id && producer.epoch == LAST_EPOCH && now.epoch == 0;
        let repeated = raises_epoch && complete && (got_new_id || producer.epoch.checked_add(1) == Some(now.epoch));
        if now.id != producer.id && !(repeated && got_new_id) {
            return Err(ErrorCode::INVALID_PRODUCER_ID_MAPPING);
        }
        if now.epoch != producer.epoch && !repeated {
            return Err(ErrorCode::PRODUCER_FENCED);
        }
        let same = txn.phase == if committed { Phase::CompleteCommit } else { Phase::CompleteAbort };
        let goes_on = match txn.phase {
            Phase::Ongoing => true,
            _ if repeated || !raises_epoch && same => false,
            _ => raises_epoch && !committed,
        };
        if !goes_on {
            return if same { Ok((None, now)) } else { Err(ErrorCode::INVALID_TXN_STATE) };
        }
        if txn.phase != Phase::Ongoing {
            txn.start_ms = clock.wall_ms;
        }
        let ended = match raises_epoch {
            true => {
                let ended = self.complete(memory, id, now.next_epoch(), committed);
                if let Some(txn) = self.by_id.get_mut(id).filter(|_| now.epoch >= LAST_EPOCH) {
                    txn.producer = ProducerId { id: ids.next(), epoch: 0 };
                    txn.previous_id = now.id;
                }
                ended
            }
            false => self.complete(memory, id, now, committed),
        };
        Ok((Some(ended), self.by_id.get(id).map_or(now, |txn| txn.producer)))
    }

    /// Aborts a transaction that goes on although nobody asked for its end, and fences its producer.
    fn abort(&mut self, memory: &mut Memory, id: &str) -> Ended {
        let fencing = self.by_id.get(id).map_or(ProducerId::NONE, |txn| txn.producer.next_epoch());
        self.complete(memory, id, fencing, false)
    }

    fn complete(&mut self, memory: &mut Memory, id: &str, producer: ProducerId, committed: bool) -> Ended {
        let mut partitions = BTreeMap::new();
        self.changed.insert(id.to_owned());
        if let Some(txn) = self.by_id.get_mut(id) {
            self.deadlines.remove(&(txn.deadline, id.to_owned()));
            if txn.producer != producer {
                txn.last_epoch = txn.producer.epoch;
                txn.producer = producer;
            }
            txn.phase = if committed { Phase::CompleteCommit } else { Phase::CompleteAbort };
            partitions = std::mem::take(&mut txn.partitions);
        }
        memory.give(cost(&partitions));
        Ended { producer, committed, partitions }
    }

    /// When the next transaction has lasted too long.
    pub fn next_timeout(&self) -> Option<Time> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    /// Aborts a transaction that has lasted too long.
    pub fn expire(&mut self, memory: &mut Memory, now: Time) -> Option<Ended> {
        let (_, id) = self.deadlines.first().filter(|(at, _)| *at <= now)?.clone();
        Some(self.abort(memory, &id))
    }
}

/// What remembering partitions takes.
fn cost(partitions: &BTreeMap<String, BTreeSet<i32>>) -> usize {
    partitions.iter().map(|(topic, indexes)| indexes.len() * (topic.len() + PARTITION)).sum()
}

/// The transaction of a producer, if it is still that of the id.
fn check<'a>(
    by_id: &'a mut BTreeMap<String, Transaction>,
    id: &str,
    producer: ProducerId,
) -> Result<&'a mut Transaction, ErrorCode> {
    match by_id.get_mut(id) {
        Some(txn) if txn.producer == producer => Ok(txn),
        Some(txn) if txn.producer.id == producer.id => Err(ErrorCode::PRODUCER_FENCED),
        _ => Err(ErrorCode::INVALID_PRODUCER_ID_MAPPING),
    }
}

impl Transaction {
    fn new(producer: ProducerId, timeout_ms: i32) -> Self {
        Self {
            phase: Phase::Empty,
            producer,
            timeout_ms,
            start_ms: -1,
            partitions: BTreeMap::new(),
            last_epoch: -1,
            previous_id: -1,
            deadline: Time::ZERO,
        }
    }
}

/// The partition of [`OFFSETS_TOPIC`] that holds a group: Java's hash of its name.
pub(super) fn offsets_partition(group: &str) -> i32 {
    let hash = group.encode_utf16().fold(0u32, |h, unit| h.wrapping_mul(31).wrapping_add(unit.into()));
    let magnitude = hash.cast_signed().checked_abs().unwrap_or(0);
    magnitude % OFFSETS_PARTITIONS
}

/// Writes the markers of a transaction that is over, and settles the offsets it committed.
pub(super) fn write_markers(state: &mut State, clock: Clock, coordinator_epoch: i32, ended: &Ended) {
    let State { topics, groups, memory, woken, journal, .. } = state;
    for (name, indexes) in &ended.partitions {
        if name == OFFSETS_TOPIC {
            groups.offsets.end_transaction(memory, ended.producer.id, indexes, ended.committed);
            journal.note(|| Entry::ended(ended.producer.id, indexes, ended.committed));
        }
        let Some(topic) = topics.get_mut(name) else {
            continue;
        };
        let append_time = topic.configs.append_time.then_some(clock.wall_ms);
        let rolling = topic.configs.rolling(clock.wall_ms);
        for index in indexes {
            let Some(partition) = topic.partition(*index) else {
                continue;
            };
            let Some((batch, header)) = marker(ended.producer, ended.committed, coordinator_epoch, clock.wall_ms)
            else {
                continue;
            };
            // What was promised to the transaction cannot be refused any more.
            memory.charge(Log::cost(batch.len()) + partition.producers.cost(&header));
            let offset = partition.log.append(&batch, &header, partition.leader_epoch, append_time, rolling);
            journal.note(|| Entry::batch(name, *index, clock, partition.log.newest(offset)));
            let first = partition.producers.end_transaction(&header, coordinator_epoch);
            if let Some(first) = first.filter(|_| !ended.committed) {
                memory.charge(Log::ABORTED_COST);
                let stable = partition.producers.first_unstable().unwrap_or(offset + 1);
                partition.log.note_aborted(ended.producer.id, first, offset, stable);
            }
            woken.extend(partition.waiters.iter());
        }
    }
}

fn marker(producer: ProducerId, committed: bool, coordinator_epoch: i32, now_ms: i64) -> Option<(Vec<u8>, Header)> {
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

/// The first offset that a reader of committed records has to wait for.
pub(super) fn last_stable_offset(log: &Log, producers: &Producers) -> i64 {
    producers.first_unstable().unwrap_or(log.end_offset())
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
