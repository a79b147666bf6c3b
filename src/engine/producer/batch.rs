//! Batches on their way: open (being filled), queued (waiting to be sent, again perhaps), in flight.

use super::accumulate::DELIVERY_BYTES;
use crate::compress::{Codec, DEFAULT_LIMIT};
use crate::engine::{Error, ErrorKind, Time};
use crate::record::{BatchBuilder, Producer, batches, reseal, sequence_after};
use bytes::Bytes;
use std::collections::{BTreeSet, VecDeque};

/// A record whose outcome somebody waits for.
#[derive(Debug)]
pub struct Delivery<D> {
    /// Its place in the batch.
    pub index: i32,
    /// Its timestamp, milliseconds since 1970.
    pub timestamp: i64,
    /// Who waits.
    pub ticket: D,
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
    /// Records in it.
    pub count: i32,
    /// Those whose outcome somebody waits for.
    pub deliveries: Vec<Delivery<D>>,
    /// Memory it is charged with.
    pub bytes: usize,
    /// When its first record came.
    pub created: Time,
    /// Which flush waits for it.
    pub generation: u64,
    /// Whether a record has headers, which formats before magic 2 cannot hold.
    pub has_headers: bool,
    /// Whether a record has a timestamp that the caller chose, which magic 0 cannot hold.
    pub has_timestamps: bool,
    /// Who it was sent as, once it was.
    pub producer: Option<Producer>,
    /// How often it was sent.
    pub attempts: u32,
    /// Whether a broker may have it in its log: one that was asked to did not say no.
    pub may_be_written: bool,
    /// Why the last attempt failed.
    pub error: Option<Error>,
}

impl<D> Batch<D> {
    /// An empty batch.
    pub fn new(now: Time, generation: u64, builder: BatchBuilder) -> Self {
        Self {
            data: Some(Data::Open(builder)),
            count: 0,
            deliveries: Vec::new(),
            bytes: 0,
            created: now,
            generation,
            has_headers: false,
            has_timestamps: false,
            producer: None,
            attempts: 0,
            may_be_written: false,
            error: None,
        }
    }

    /// What its records ask of a broker that others may not, the rarer first.
    pub fn demands(&self) -> (bool, bool) {
        (self.has_headers, self.has_timestamps)
    }

    /// The builder, while the batch was never sent.
    pub fn builder(&mut self) -> Option<&mut BatchBuilder> {
        match &mut self.data {
            Some(Data::Open(builder)) => Some(builder),
            _ => None,
        }
    }

    /// Bytes on the wire, before compression.
    pub fn size(&self) -> usize {
        match &self.data {
            Some(Data::Open(builder)) => builder.size(),
            Some(Data::Sealed(data)) => data.len(),
            None => 0,
        }
    }

    /// The bytes to send as `producer`: compresses and checksums the first time, and again under another identity.
    pub fn seal(&mut self, compression: Codec, producer: Producer) -> Result<Bytes, Error> {
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

    /// Takes in that it is not in the log, so that it may go under any sequence number.
    fn renounce(&mut self) {
        self.producer = None;
        self.may_be_written = false;
    }

    /// The memory of a batch that has its outcome, unless somebody else still looks at it.
    pub fn into_buffer(self) -> Option<Vec<u8>> {
        match self.data {
            Some(Data::Sealed(data)) if data.is_unique() => Some(data.into()),
            _ => None,
        }
    }

    /// Two batches of half of the records each, under the sequence numbers they have; the same one back if it cannot be
    /// cut.
    pub fn split(self) -> Result<(Self, Self), Box<Self>> {
        let half = self.count / 2;
        self.divide(|index| index < half)
    }

    /// Those records and the others, each in their order, as two batches whose sequence numbers follow each other; the same
    /// batch back if it cannot be cut.
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
            generation: self.generation,
            has_headers: self.has_headers,
            has_timestamps: self.has_timestamps,
            producer,
            attempts: self.attempts,
            may_be_written: self.may_be_written,
            error: self.error.clone(),
        };
        let later = |p: Producer| Producer { base_sequence: sequence_after(p.base_sequence, count), ..p };
        let mut a = part(first, self.producer);
        let mut b = part(second, self.producer.map(later));
        let (mut seen, mut others) = (0, 0);
        for delivery in std::mem::take(&mut self.deliveries) {
            others += (seen..delivery.index).filter(|index| !is_first(*index)).count() as i32;
            seen = delivery.index;
            let (batch, index) = if is_first(seen) { (&mut a, seen - others) } else { (&mut b, others) };
            batch.deliveries.push(Delivery { index, ..delivery });
        }
        // What memory the batch is charged with stays the same.
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
            // Their names are ours, so they are text.
            let headers = view.headers().map(|(name, value)| Some((std::str::from_utf8(name).ok()?, value)));
            let headers: Vec<(&str, Option<&[u8]>)> = headers.collect::<Option<_>>()?;
            let builder = if is_first(index) { &mut first } else { &mut second };
            builder.append(view.timestamp(), view.key(), view.value(), &headers);
        }
        Some((first, second))
    }
}

/// What a partition has to send.
#[derive(Debug)]
pub struct Partition<D> {
    /// The batch being filled.
    pub open: Option<Batch<D>>,
    /// Batches to send, in order.
    pub queue: VecDeque<Batch<D>>,
    /// Batches in flight, by when they were sent among all of the partition.
    in_flight: BTreeSet<u64>,
    sent: u64,
    /// The sequence number of the next batch that was never sent.
    pub next_sequence: i32,
    /// Not before this time, after a failure.
    pub retry_at: Time,
    /// At first and after a failure batches go one at a time until one that was sent later succeeds; how many were sent by
    /// then. So they stay in order: a broker takes any sequence number of a producer that it has not heard of, also that
    /// of a second batch whose first one it refused, as a broker does that does not know yet of a new topic. And what goes
    /// again is followed by no more batches than a broker knows duplicates by, however often it goes.
    recovering: Option<u64>,
    /// The producer has a new epoch, and batches wait that were sent under the old one and may be in the log: they go again
    /// as they were, so that the broker knows them, before the partition starts with the new epoch.
    pub is_behind_epoch: bool,
    /// A batch of this sequence number was refused for some of its records: nothing from there on is in the log.
    refused_at: Option<i32>,
}

impl<D> Default for Partition<D> {
    fn default() -> Self {
        let queue = VecDeque::new();
        Self {
            open: None,
            queue,
            in_flight: BTreeSet::new(),
            sent: 0,
            next_sequence: 0,
            retry_at: Time(0),
            recovering: Some(0),
            is_behind_epoch: false,
            refused_at: None,
        }
    }
}

impl<D> Partition<D> {
    /// Whether there is nothing to send.
    pub fn is_idle(&self) -> bool {
        self.open.is_none() && self.queue.is_empty()
    }

    /// Closes the open batch.
    pub fn close_open(&mut self) {
        self.queue.extend(self.open.take());
    }

    /// Notes that a batch is sent; gives the number that [`Partition::answered`] wants.
    pub fn sent(&mut self) -> u64 {
        self.sent += 1;
        self.in_flight.insert(self.sent);
        self.sent
    }

    /// Notes that a batch has its answer, or will have none.
    pub fn answered(&mut self, number: u64) {
        self.in_flight.remove(&number);
    }

    /// Notes that a batch of this number is in the log.
    pub fn succeeded(&mut self, number: u64) {
        self.recovering = self.recovering.filter(|before| number <= *before);
    }

    /// Batches in flight.
    pub fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Whether nothing may be sent now. No more batches follow one without an answer than a broker remembers to know
    /// duplicates by, also if that one went to an earlier leader that is silent, and all that follow are answered.
    pub fn is_held(&self, now: Time, max_in_flight: usize) -> bool {
        let window = if self.recovering.is_some() { 1 } else { max_in_flight as u64 };
        let is_known = self.queue.front().is_some_and(|b| b.producer.is_some());
        let waits_for_old = self.is_behind_epoch && !is_known && !self.in_flight.is_empty();
        waits_for_old
            || self.retry_at > now
            || self.in_flight.first().is_some_and(|oldest| self.sent - oldest + 1 >= window)
    }

    /// Whether a batch that the broker did not expect may have come before one that it was to follow: one that waits to
    /// be sent again, or is in flight.
    pub fn is_behind(&self, batch: &Batch<D>) -> bool {
        let first = self.queue.front().and_then(|b| b.producer).map(|p| p.base_sequence);
        let waits = first.zip(batch.producer).is_some_and(|(first, p)| is_before(first, p.base_sequence));
        waits || !self.in_flight.is_empty()
    }

    /// Begins with the first sequence number of a new epoch, unless batches of the old one are to be settled first.
    pub fn enter_epoch(&mut self) {
        self.recovering = Some(self.sent);
        if let Some(first) = self.refused_at.take() {
            let follows = |p: Producer| !is_before(p.base_sequence, first);
            self.queue.iter_mut().filter(|batch| batch.producer.is_some_and(follows)).for_each(Batch::renounce);
        }
        self.is_behind_epoch = self.queue.iter().any(|b| b.producer.is_some());
        if !self.is_behind_epoch {
            self.next_sequence = 0;
        }
    }

    /// Puts back what is left of a batch that was refused for the other records of it.
    pub fn put_back(&mut self, rest: Batch<D>) {
        self.refused_at = rest.producer.map(|p| p.base_sequence);
        self.requeue(rest);
    }

    /// Takes in that none of the batches that wait is in the log.
    pub fn forget_sequences(&mut self) {
        self.queue.iter_mut().for_each(Batch::renounce);
    }

    /// Puts a batch that failed back where its sequence number belongs.
    pub fn requeue(&mut self, batch: Batch<D>) {
        let before = |other: &Batch<D>| match (other.producer, batch.producer) {
            (Some(a), Some(b)) => is_before(a.base_sequence, b.base_sequence),
            (Some(_), None) => true,
            _ => false,
        };
        let at = self.queue.iter().position(|other| !before(other)).unwrap_or(self.queue.len());
        self.queue.insert(at, batch);
        self.recovering = Some(self.sent);
    }
}

/// Whether a sequence number comes before another one. They go from the largest back to 0; those of batches that wait at once are
/// far closer together than half of the range.
fn is_before(a: i32, b: i32) -> bool {
    a.wrapping_sub(b) & i32::MAX > i32::MAX / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_again_goes_alone_whatever_succeeds_that_followed_it() {
        const NOW: Time = Time(1);
        let mut p = Partition::<()>::default();
        let succeeds = |p: &mut Partition<()>, number| {
            p.answered(number);
            p.succeeded(number);
        };
        let alone = p.sent();
        assert!(p.is_held(NOW, 5));
        succeeds(&mut p, alone);
        let in_flight = [p.sent(), p.sent(), p.sent()];
        assert!(!p.is_held(NOW, 5));
        p.answered(in_flight[0]);
        p.requeue(Batch::new(NOW, 0, BatchBuilder::with_capacity(0)));
        succeeds(&mut p, in_flight[1]);
        assert!(p.is_held(NOW, 5));
        succeeds(&mut p, in_flight[2]);
        assert!(!p.is_held(NOW, 5));
        let again = p.sent();
        assert!(p.is_held(NOW, 5));
        succeeds(&mut p, again);
        p.sent();
        assert!(!p.is_held(NOW, 5));
    }

    #[test]
    fn batches_that_go_again_keep_their_order_where_sequence_numbers_begin_anew() {
        let mut p = Partition::<()>::default();
        let batch = |base_sequence| {
            let producer = Some(Producer { id: 1, epoch: 0, base_sequence, transactional: false });
            Batch { producer, ..Batch::new(Time(1), 0, BatchBuilder::with_capacity(0)) }
        };
        p.requeue(batch(i32::MAX - 1));
        assert!(p.is_behind(&batch(1)));
        p.requeue(batch(1));
        let order: Vec<_> = p.queue.iter().filter_map(|batch| batch.producer).map(|p| p.base_sequence).collect();
        assert_eq!(order, [i32::MAX - 1, 1]);
    }
}
