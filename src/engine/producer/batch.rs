//! Batches of one partition, and the order in which they are sent.
//!
//! A batch is open while records are appended, then queued, then in flight. A failed batch returns to the queue, in the
//! order of sequence numbers. `accumulator.rs` fills batches, and `send.rs` takes them from the queue.

use crate::compress::{Codec, DEFAULT_LIMIT};
use crate::engine::{Error, ErrorKind, Time};
use crate::record::{BatchBuilder, Producer, batches, reseal, sequence_after};
use bytes::Bytes;
use std::collections::{BTreeSet, VecDeque};

/// The memory of a delivery report, in bytes. This memory counts against `buffer.memory`, like the bytes of the record.
pub(super) const DELIVERY_BYTES: usize = 128;

/// A record for which the application wants a delivery report.
#[derive(Debug)]
pub struct Delivery<D> {
    /// The index of the record in the batch.
    pub index: i32,
    /// The timestamp of the record, in milliseconds since 1970.
    pub timestamp: i64,
    /// The completion for the result of the record.
    pub completion: D,
}

#[derive(Debug)]
enum Data {
    Open(BatchBuilder),
    Sealed(Bytes),
}

/// A batch of one partition.
#[derive(Debug)]
pub struct Batch<D> {
    data: Option<Data>,
    /// The number of records.
    pub count: i32,
    /// The records that need a delivery report.
    pub deliveries: Vec<Delivery<D>>,
    /// The bytes of `buffer.memory` that the batch uses.
    pub bytes: usize,
    /// When the first record was appended.
    pub created: Time,
    /// The flush epoch of the first record.
    pub flush_epoch: u64,
    /// Whether any record has headers. Formats before magic 2 have no headers.
    pub has_headers: bool,
    /// Whether the application set the timestamp of any record. Magic 0 has no timestamps.
    pub has_timestamps: bool,
    /// The producer ID, epoch and sequence number of the last attempt.
    pub producer: Option<Producer>,
    /// The number of failed attempts.
    pub attempts: u32,
    /// How many times in a row a broker closed the connection while it received this batch, if the batch is large.
    pub disconnects: u32,
    /// Whether a broker may have written the batch, because an attempt ended without a definite rejection.
    pub may_be_written: bool,
    /// Why the last attempt failed.
    pub error: Option<Error>,
    /// The size before compression, which is known after the batch is sealed.
    pub uncompressed_size: usize,
}

impl<D> Batch<D> {
    /// Creates an empty batch.
    pub fn new(now: Time, flush_epoch: u64, builder: BatchBuilder) -> Self {
        Self {
            data: Some(Data::Open(builder)),
            count: 0,
            deliveries: Vec::new(),
            bytes: 0,
            created: now,
            flush_epoch,
            has_headers: false,
            has_timestamps: false,
            producer: None,
            attempts: 0,
            disconnects: 0,
            may_be_written: false,
            error: None,
            uncompressed_size: 0,
        }
    }

    /// Returns whether the batch needs a format with headers, and whether it needs a format with timestamps. Older
    /// brokers lack these features.
    pub fn required_features(&self) -> (bool, bool) {
        (self.has_headers, self.has_timestamps)
    }

    /// Returns the builder, if the batch was never sent.
    pub fn builder(&mut self) -> Option<&mut BatchBuilder> {
        match &mut self.data {
            Some(Data::Open(builder)) => Some(builder),
            _ => None,
        }
    }

    /// Returns the size of the encoded batch, before compression if the batch is still open.
    pub fn size(&self) -> usize {
        match &self.data {
            Some(Data::Open(builder)) => builder.size(),
            Some(Data::Sealed(data)) => data.len(),
            None => 0,
        }
    }

    /// Returns the bytes to send. The first call compresses the records and computes the checksum. Later calls rewrite
    /// the header and the checksum if the producer ID, the epoch or the sequence number changed.
    pub fn seal(&mut self, compression: Codec, producer: Producer) -> Result<Bytes, Error> {
        if let Some(Data::Open(builder)) = &self.data {
            self.uncompressed_size = builder.size();
        }
        let data = match self.data.take() {
            Some(Data::Sealed(data)) if self.producer == Some(producer) => data,
            Some(Data::Sealed(data)) => reseal(&data, producer),
            Some(Data::Open(builder)) => match builder.seal(compression, producer) {
                Ok(sealed) => sealed.data,
                Err(e) => {
                    return Err(Error::new(ErrorKind::Config, format!("records cannot be compressed: {e}")));
                }
            },
            None => Bytes::new(),
        };
        self.producer = Some(producer);
        self.data = Some(Data::Sealed(data.clone()));
        Ok(data)
    }

    /// Notes that no broker has the batch, so that the batch may get a new sequence number.
    fn forget_sequence(&mut self) {
        self.producer = None;
        self.may_be_written = false;
    }

    /// Returns the batch's memory for reuse, unless a request still refers to it.
    pub fn into_buffer(self) -> Option<Vec<u8>> {
        match self.data {
            Some(Data::Sealed(data)) if data.is_unique() => Some(data.into()),
            _ => None,
        }
    }

    /// Splits the batch into two halves that keep their sequence numbers. Returns the batch unchanged as the error if
    /// that is impossible.
    pub fn split(self) -> Result<(Self, Self), Box<Self>> {
        let half = self.count / 2;
        self.divide(|index| index < half)
    }

    /// Divides the records into two batches: the records for which `is_first` is true, and the remaining records. Both
    /// batches keep the order of the records. The sequence numbers of the second batch follow the sequence numbers of
    /// the first batch. Returns the batch unchanged as the error if that is impossible.
    pub fn divide(mut self, is_first: impl Fn(i32) -> bool) -> Result<(Self, Self), Box<Self>> {
        let Some((first, second)) = self.divided(&is_first) else {
            return Err(Box::new(self));
        };
        let count = first.count();
        let part = |builder: BatchBuilder, producer: Option<Producer>| Self {
            bytes: builder.size(),
            count: builder.count(),
            data: Some(Data::Open(builder)),
            deliveries: Vec::new(),
            created: self.created,
            flush_epoch: self.flush_epoch,
            has_headers: self.has_headers,
            has_timestamps: self.has_timestamps,
            producer,
            attempts: self.attempts,
            disconnects: 0,
            may_be_written: self.may_be_written,
            error: self.error.clone(),
            uncompressed_size: 0,
        };
        let second_producer = |p: Producer| Producer { base_sequence: sequence_after(p.base_sequence, count), ..p };
        let mut a = part(first, self.producer);
        let mut b = part(second, self.producer.map(second_producer));
        let (mut seen, mut others) = (0, 0);
        for delivery in std::mem::take(&mut self.deliveries) {
            others += (seen..delivery.index).filter(|index| !is_first(*index)).count() as i32;
            seen = delivery.index;
            let (batch, index) = if is_first(seen) { (&mut a, seen - others) } else { (&mut b, others) };
            batch.deliveries.push(Delivery { index, ..delivery });
        }
        // Together the two take as much of `buffer.memory` as before.
        a.bytes = (a.bytes + a.deliveries.len() * DELIVERY_BYTES).min(self.bytes);
        b.bytes = self.bytes - a.bytes;
        Ok((a, b))
    }

    fn divided(&self, is_first: impl Fn(i32) -> bool) -> Option<(BatchBuilder, BatchBuilder)> {
        let Some(Data::Sealed(data)) = &self.data else {
            return None;
        };
        let batch = batches(data.clone()).next()?.ok()?;
        let mut records = batch.records(DEFAULT_LIMIT).ok()?;
        let (mut first, mut second) = (BatchBuilder::with_capacity(0), BatchBuilder::with_capacity(0));
        for index in 0..self.count {
            let view = records.next_view()?.ok()?;
            // klamm wrote these header names, so they are UTF-8.
            let headers: Vec<(&[u8], Option<&[u8]>)> = view.headers().collect();
            let builder = if is_first(index) { &mut first } else { &mut second };
            builder.append(view.timestamp(), view.key(), view.value(), &headers);
        }
        Some((first, second))
    }
}

/// The batches of one partition.
#[derive(Debug)]
pub struct Partition<D> {
    /// The batch to which the producer appends records.
    pub open: Option<Batch<D>>,
    /// The batches to send, in order.
    pub queue: VecDeque<Batch<D>>,
    /// The numbers of the batches in flight, in the order in which they were sent.
    in_flight: BTreeSet<u64>,
    /// The number of batches sent so far.
    sent_count: u64,
    /// The sequence number of the next batch that was never sent.
    pub next_sequence: i32,
    /// After a failure, the producer sends no batch of this partition before this time.
    pub retry_at: Time,
    /// At the start and after a failure, the producer sends one batch at a time until a batch that it sends from then
    /// on succeeds. The value is the number of batches that were sent before. There are two reasons to send one batch
    /// at a time:
    ///
    /// * Order: a broker accepts any first sequence number of a producer ID that it does not know. The broker may
    ///   reject the first batch because it does not know a new topic yet, and then accept the second batch.
    /// * Duplicates: a broker recognizes duplicates only among the last five batches. A batch that the producer retries
    ///   often must stay among these five batches.
    recovering: Option<u64>,
    /// Whether the producer has a new epoch while queued batches of the old epoch may be in the log. The producer first
    /// retries these batches unchanged, so that the broker recognizes duplicates. Then the partition starts the new
    /// epoch.
    pub is_behind_epoch: bool,
    /// The sequence number of a batch that a broker rejected because of some records. The log contains neither this
    /// batch nor a later batch.
    refused_at: Option<i32>,
}

impl<D> Default for Partition<D> {
    fn default() -> Self {
        let queue = VecDeque::new();
        Self {
            open: None,
            queue,
            in_flight: BTreeSet::new(),
            sent_count: 0,
            next_sequence: 0,
            retry_at: Time(0),
            recovering: Some(0),
            is_behind_epoch: false,
            refused_at: None,
        }
    }
}

impl<D> Partition<D> {
    /// Returns whether there is nothing to send.
    pub fn is_idle(&self) -> bool {
        self.open.is_none() && self.queue.is_empty()
    }

    /// Moves the open batch to the queue.
    pub fn close_open(&mut self) {
        self.queue.extend(self.open.take());
    }

    /// Notes that a batch is sent. Returns its number for [`Partition::remove_in_flight`].
    pub fn mark_sent(&mut self) -> u64 {
        self.sent_count += 1;
        self.in_flight.insert(self.sent_count);
        self.sent_count
    }

    /// Notes that a batch is no longer in flight.
    pub fn remove_in_flight(&mut self, number: u64) {
        self.in_flight.remove(&number);
    }

    /// Notes that the broker wrote the batch with this number.
    pub fn succeeded(&mut self, number: u64) {
        self.recovering = self.recovering.filter(|before| number <= *before);
    }

    /// Returns the number of batches in flight.
    pub fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Returns whether the producer has to wait before it sends another batch. The limit counts all batches since the
    /// oldest batch in flight, even if later batches are complete. The reason is that a broker recognizes duplicates
    /// only among its last five batches.
    pub fn is_blocked(&self, now: Time, max_in_flight: usize) -> bool {
        let window = if self.recovering.is_some() { 1 } else { max_in_flight as u64 };
        let is_retry = self.queue.front().is_some_and(|b| b.producer.is_some());
        let waits_for_old_epoch = self.is_behind_epoch && !is_retry && !self.in_flight.is_empty();
        waits_for_old_epoch
            || self.retry_at > now
            || self.in_flight.first().is_some_and(|oldest| self.sent_count - oldest + 1 >= window)
    }

    /// Returns whether another batch is in flight, or an earlier batch waits for a retry. In that case, the broker may
    /// have rejected `batch` as out of order only because it has not written the other batch yet.
    pub fn follows_another(&self, batch: &Batch<D>) -> bool {
        let first = self.queue.front().and_then(|b| b.producer).map(|p| p.base_sequence);
        let follows_queued = first.zip(batch.producer).is_some_and(|(first, p)| is_before(first, p.base_sequence));
        follows_queued || !self.in_flight.is_empty()
    }

    /// Starts a new epoch at sequence number 0, unless the producer must complete batches of the old epoch first.
    pub fn enter_epoch(&mut self) {
        self.recovering = Some(self.sent_count);
        if let Some(first) = self.refused_at.take() {
            let follows = |p: Producer| !is_before(p.base_sequence, first);
            self.queue.iter_mut().filter(|batch| batch.producer.is_some_and(follows)).for_each(Batch::forget_sequence);
        }
        self.is_behind_epoch = self.queue.iter().any(|b| b.producer.is_some());
        if !self.is_behind_epoch {
            self.next_sequence = 0;
        }
    }

    /// Requeues the valid records of a batch that a broker rejected because of other records.
    pub fn requeue_good_records(&mut self, rest: Batch<D>) {
        self.refused_at = rest.producer.map(|p| p.base_sequence);
        self.requeue(rest);
    }

    /// Notes that no queued batch is in the log, so that the batches may get new sequence numbers.
    pub fn forget_sequences(&mut self) {
        self.queue.iter_mut().for_each(Batch::forget_sequence);
    }

    /// Puts a failed batch back into the queue, at the place of its sequence number.
    pub fn requeue(&mut self, batch: Batch<D>) {
        let before = |other: &Batch<D>| match (other.producer, batch.producer) {
            (Some(a), Some(b)) => is_before(a.base_sequence, b.base_sequence),
            (Some(_), None) => true,
            _ => false,
        };
        let index = self.queue.iter().position(|other| !before(other)).unwrap_or(self.queue.len());
        self.queue.insert(index, batch);
        self.recovering = Some(self.sent_count);
    }
}

/// Returns whether sequence number `a` comes before `b`. Sequence numbers wrap around to 0. The numbers of queued
/// batches differ by far less than half of the range.
fn is_before(a: i32, b: i32) -> bool {
    a.wrapping_sub(b) & i32::MAX > i32::MAX / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_retried_batch_is_sent_alone_even_if_later_batches_succeed() {
        const NOW: Time = Time(1);
        let mut p = Partition::<()>::default();
        let succeeds = |p: &mut Partition<()>, number| {
            p.remove_in_flight(number);
            p.succeeded(number);
        };
        let alone = p.mark_sent();
        assert!(p.is_blocked(NOW, 5));
        succeeds(&mut p, alone);
        let in_flight = [p.mark_sent(), p.mark_sent(), p.mark_sent()];
        assert!(!p.is_blocked(NOW, 5));
        p.remove_in_flight(in_flight[0]);
        p.requeue(Batch::new(NOW, 0, BatchBuilder::with_capacity(0)));
        succeeds(&mut p, in_flight[1]);
        assert!(p.is_blocked(NOW, 5));
        succeeds(&mut p, in_flight[2]);
        assert!(!p.is_blocked(NOW, 5));
        let retried = p.mark_sent();
        assert!(p.is_blocked(NOW, 5));
        succeeds(&mut p, retried);
        p.mark_sent();
        assert!(!p.is_blocked(NOW, 5));
    }

    #[test]
    fn retried_batches_keep_their_order_where_sequence_numbers_wrap_around() {
        let mut p = Partition::<()>::default();
        let batch = |base_sequence| {
            let producer = Some(Producer { id: 1, epoch: 0, base_sequence, transactional: false });
            Batch { producer, ..Batch::new(Time(1), 0, BatchBuilder::with_capacity(0)) }
        };
        p.requeue(batch(i32::MAX - 1));
        assert!(p.follows_another(&batch(1)));
        p.requeue(batch(1));
        let order: Vec<_> = p.queue.iter().filter_map(|batch| batch.producer).map(|p| p.base_sequence).collect();
        assert_eq!(order, [i32::MAX - 1, 1]);
    }
}
