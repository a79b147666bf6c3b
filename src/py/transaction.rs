//! The consumers whose offsets belong to the transactions of a producer.
//!
//! When a transaction aborts, these consumers return to the records of the transaction. If the program stops waiting
//! for a commit, the consumers deliver no records until the result of the commit is known. The engine of the consumer
//! keeps the offsets to return to (`engine/consumer/transaction.rs`).

use super::commits::OffsetToCommit;
use super::consumer::ConsumerCore;
use super::delivery_buffer::DeliveryBuffer;
use crate::client::{self, CommittedOffset, Error, ErrorKind, Promise};
use pyo3::prelude::*;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Wake, Waker};

/// A `klamm.transaction.GroupMetadata`.
#[derive(FromPyObject)]
pub(super) struct GroupMetadata {
    group_id: String,
    generation_id: i32,
    member_id: String,
    group_instance_id: Option<String>,
}

/// The group, the offsets and the consumer of a commit.
pub(super) type ConsumerOffsets = (GroupMetadata, Vec<OffsetToCommit>, Py<ConsumerCore>);

impl From<GroupMetadata> for client::GroupMetadata {
    fn from(m: GroupMetadata) -> Self {
        Self { group: m.group_id, generation: m.generation_id, member: m.member_id, instance: m.group_instance_id }
    }
}

/// A consumer, and the offsets that the open transaction commits for its group.
#[derive(Clone)]
struct BoundConsumer {
    client: Weak<client::Consumer>,
    buffer: Weak<Mutex<DeliveryBuffer>>,
    offsets: Vec<CommittedOffset>,
}

impl BoundConsumer {
    /// Calls `f` if the consumer is open and still belongs to this producer.
    fn with<T>(
        &self,
        producer: usize,
        f: impl FnOnce(&client::Consumer, &mut DeliveryBuffer, &[CommittedOffset]) -> Result<T, Error>,
    ) -> Option<T> {
        let (client, buffer) = (self.client.upgrade()?, self.buffer.upgrade()?);
        if client.check().is_err() || !client.is_of_producer(producer) {
            return None;
        }
        let mut buffer = lock(&buffer);
        // An error means that the consumer was closed meanwhile.
        f(&client, &mut buffer, &self.offsets).ok()
    }
}

/// The consumers of a producer, and its last commit.
pub(super) struct BoundConsumers {
    producer: Arc<client::Producer>,
    consumers: Mutex<Vec<BoundConsumer>>,
    commit: Mutex<Option<Arc<Commit>>>,
}

/// A commit whose result the consumers need.
struct Commit {
    producer: usize,
    consumers: Vec<BoundConsumer>,
    pending: client::Pending<()>,
    /// Completes the result for the program, after the consumers were notified.
    promise: Mutex<Option<Promise<()>>>,
}

impl BoundConsumers {
    pub(super) fn new(producer: Arc<client::Producer>) -> Self {
        Self { producer, consumers: Mutex::default(), commit: Mutex::default() }
    }

    fn address(&self) -> usize {
        Arc::as_ptr(&self.producer) as usize
    }

    /// Adds a consumer. Removes the consumer from any other producer.
    pub(super) fn bind(&self, client: &Arc<client::Consumer>, buffer: &Arc<Mutex<DeliveryBuffer>>) {
        let mut consumers = lock(&self.consumers);
        consumers.retain(|c| c.client.strong_count() > 0);
        if !consumers.iter().any(|c| std::ptr::eq(c.client.as_ptr(), Arc::as_ptr(client))) {
            let (client, buffer) = (Arc::downgrade(client), Arc::downgrade(buffer));
            consumers.push(BoundConsumer { client, buffer, offsets: Vec::new() });
        }
        client.set_producer(self.address());
        if self.producer.is_in_transaction() {
            client.begin_transaction();
        }
    }

    /// Removes a consumer.
    pub(super) fn unbind(&self, client: &Arc<client::Consumer>) {
        let mut consumers = lock(&self.consumers);
        if let Some(at) = consumers.iter().position(|c| std::ptr::eq(c.client.as_ptr(), Arc::as_ptr(client))) {
            let consumer = consumers.swap_remove(at);
            consumer.with(self.address(), |client, _, _| client.transaction_committed(&[]));
            client.set_producer(0);
        }
    }

    /// Notes that a transaction begins.
    pub(super) fn begin(&self) {
        for consumer in &mut *lock(&self.consumers) {
            consumer.offsets.clear();
            consumer.with(self.address(), |client, _, _| {
                client.begin_transaction();
                Ok(())
            });
        }
    }

    /// Commits offsets of a group in the open transaction. With a `consumer`, the offsets are those of this member.
    pub(super) fn commit_offsets(
        &self,
        group: GroupMetadata,
        offsets: Vec<OffsetToCommit>,
        consumer: Option<&ConsumerCore>,
    ) -> Result<client::Pending<()>, Error> {
        let group = client::GroupMetadata::from(group);
        let offsets: Vec<CommittedOffset> = offsets.into_iter().map(Into::into).collect();
        // The coordinator would accept the offsets of a former member, because they have no generation.
        if let Some(consumer) = consumer.filter(|_| !offsets.is_empty()) {
            consumer.client.check_membership().inspect_err(|e| self.producer.fail_transaction(e))?;
        }
        for consumer in &mut *lock(&self.consumers) {
            if consumer.client.upgrade().is_some_and(|client| client.group() == Some(&group.group)) {
                consumer.offsets.extend_from_slice(&offsets);
            }
        }
        self.producer.commit_offsets(group, offsets)
    }

    /// Makes the consumers return to their uncommitted records, unless a transaction is open or its commit is running.
    pub(super) fn rewind(&self) {
        let is_committing = lock(&self.commit).as_ref().is_some_and(|commit| lock(&commit.promise).is_some());
        if is_committing || (self.producer.check().is_ok() && self.producer.is_in_transaction()) {
            return;
        }
        for consumer in &*lock(&self.consumers) {
            consumer.aborted(self.address());
        }
    }

    /// Notifies the consumers of the result of a commit. The returned result is available after that.
    pub(super) fn follow(&self, pending: client::Pending<()>) -> client::Pending<()> {
        let consumers = lock(&self.consumers).clone();
        if consumers.is_empty() {
            return pending;
        }
        let (promise, result) = client::Pending::new();
        let promise = Mutex::new(Some(promise));
        let commit = Arc::new(Commit { producer: self.address(), consumers, pending: pending.clone(), promise });
        *lock(&self.commit) = Some(commit.clone());
        pending.on_done(Waker::from(commit));
        result
    }

    /// Stops the delivery of records until the result of the commit is known, because the program does not wait for it.
    pub(super) fn hold(&self) {
        let Some(commit) = lock(&self.commit).clone() else { return };
        let promise = lock(&commit.promise);
        if promise.is_none() {
            return;
        }
        for consumer in &commit.consumers {
            consumer.with(commit.producer, |client, buffer, _| {
                for ((topic, partition), offset) in buffer.positions() {
                    client.rewind(topic, partition, offset);
                }
                *buffer = DeliveryBuffer::default();
                client.hold();
                Ok(())
            });
        }
    }
}

impl BoundConsumer {
    fn committed(&self, producer: usize) {
        self.with(producer, |client, _, offsets| client.transaction_committed(offsets));
    }

    fn aborted(&self, producer: usize) {
        self.with(producer, |client, buffer, _| {
            client.transaction_aborted()?.iter().for_each(|p| buffer.forget(&p.topic, p.partition));
            Ok(())
        });
    }

    fn unknown(&self, producer: usize) {
        self.with(producer, |client, buffer, _| {
            client.transaction_unknown()?.iter().for_each(|p| buffer.forget(&p.topic, p.partition));
            Ok(())
        });
    }
}

impl Wake for Commit {
    fn wake(self: Arc<Self>) {
        let Some(result) = self.pending.get() else { return };
        let mut promise = lock(&self.promise);
        for consumer in &self.consumers {
            match &result {
                Ok(()) => consumer.committed(self.producer),
                Err(e) if e.kind() == ErrorKind::Aborted => consumer.aborted(self.producer),
                // The coordinator may have committed the transaction before the producer failed.
                Err(_) => consumer.unknown(self.producer),
            }
        }
        let taken = promise.take();
        drop(promise);
        if let Some(promise) = taken {
            promise.complete(result);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
